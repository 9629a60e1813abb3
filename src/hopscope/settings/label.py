"""Settings of INT-label: how switches label packets, how the controller adapts, where labels arrive."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from .destinations.redis import redis_url
from .section import ListenAddress, Network, Seconds, Section, host_and_port, is_loopback

MAX_CHANCE_ROWS, MAX_CHANCE_COLUMNS = 101, 1000
Share = Annotated[float, Field(ge=0, le=1)]
ChanceRow = Annotated[tuple[Share, ...], Field(min_length=1, max_length=MAX_CHANCE_COLUMNS)]


def _rectangular(rows: tuple[tuple[float, ...], ...]) -> tuple[tuple[float, ...], ...]:
    if len({len(row) for row in rows}) > 1:
        raise ValueError("found rows of different lengths, expected the same parts of the interval in each")
    return rows


class LabellingSettings(Section):
    """How switches label packets (INT-label, section 3): the same in simulation and on real packets."""

    algorithm: Literal["base-a", "base-b"] = "base-b"
    """`base-a`: a port labels a packet when the interval since its last label has passed. `base-b`: it also
    labels by chance, more likely the more labels a packet already carries."""
    interval: Seconds = Field(default=0.05, gt=0, le=10_000)
    """T: time between the labels of one egress port, s."""
    chance: Literal["f1", "f2", "f2-listing", "f3"] = "f1"
    """Probability that `base-b` labels a packet with i labels: `f1` 1 if i > 0; `f2` i / (MAX_hop - 1);
    `f2-listing` i / MAX_hop, as in the paper's listing and Fig. 15; `f3` that of `f2` times the elapsed share
    of the interval.
    """
    chance_table: Annotated[tuple[ChanceRow, ...], AfterValidator(_rectangular)] = Field(
        default=(), max_length=MAX_CHANCE_ROWS
    )
    """Your own probabilities, in place of `chance`: row i is for a packet with i labels (the last row also
    for more), its columns for equal parts of the interval. `[[0], [0.5], [1]]` depends on labels only."""
    rest: float = Field(default=0.0, ge=0, le=1)
    """T1 / T: share of the interval after a label in which no packet is labelled by chance."""
    max_hop: int = Field(default=5, ge=2, le=100)
    """MAX_hop: most switches on a path. Counts of a tracked flow start here."""
    protocol: int = Field(default=253, ge=148, le=254)
    """IP protocol of labelled packets: 253 (RFC 3692, experimental), since the paper gives no number. Numbers
    that IANA has assigned are rejected: their packets would be mistaken for labelled ones."""
    too_long: Literal["skip", "fragment"] = "skip"
    """What to do with a packet that its first label would push over the MTU: skip the label, or fragment the
    packet first, with room for MAX_hop labels. A later label that does not fit is not written."""


class AdaptiveSettings(Section):
    """How the controller changes the interval of ports with late labels (INT-label, 3.2 and 5)."""

    mode: Literal["off", "shift", "one-bit"] = "off"
    """`shift`: the interval becomes T / 2^S, with S per port (Algorithm 3). `one-bit`: every packet is
    labelled (section 5)."""
    k: float = Field(default=1.0, gt=0, le=1e5)
    """A port is late if no new label came for k T. Its S changes at most once in that time."""
    flag_life: float = Field(default=1.0, gt=0, le=1e5)
    """`one-bit`: a late port labels every packet until `flag_life` T after it was last found late. In the
    paper's text it equals k; in its published code it is ten times the time after which a port is late.
    """
    max_shift: int = Field(default=16, ge=1, le=40)
    """Highest S."""


class TrackedFlowSettings(Section):
    """A tracked flow through a fabric on this machine (INT-label, 3.3)."""

    src: str
    """Address of the sender."""
    dst: str
    """Address of the receiver, of the same version."""
    every: int = Field(default=100, ge=1, le=2**31 - 1)
    """All switches label one of this many packets."""

    @model_validator(mode="after")
    def _addresses(self) -> TrackedFlowSettings:
        versions = []
        for text in (self.src, self.dst):
            try:
                versions.append(ipaddress.ip_address(text).version)
            except ValueError:
                raise ValueError(f"found {text!r}, expected an address, such as 10.0.0.2") from None
        if versions[0] != versions[1]:
            raise ValueError(f"found {self.src} and {self.dst}, expected addresses of one version")
        return self


class LabelSettings(Section):
    """Labels from last hops, and the controller."""

    listen: ListenAddress = ""
    """Address and UDP port to receive labels on, such as `127.0.0.1:7254`; empty: none. Anything but loopback
    needs `allow`.
    """
    allow: tuple[Network, ...] = ()
    """Networks whose labels are accepted, such as `192.0.2.0/24`; empty: all."""
    labelling: LabellingSettings = LabellingSettings()
    """How switches label; the controller uses the same interval."""
    adaptive: AdaptiveSettings = AdaptiveSettings()
    """Changes of the interval by port."""
    track: tuple[TrackedFlowSettings, ...] = Field(default=(), max_length=1024)
    """Flows that the switches of `hopscope fabric` track."""
    telemetry: Seconds = Field(default=0.1, ge=0.01)
    """Telemetry interval, s: coverage is the share of active ports with a label in each interval."""
    period_seconds: Seconds = Field(default=10.0, ge=0)
    """Period, s, at which the labels of every port and the coverage go into history; 0: never."""
    silent_seconds: Seconds = 10.0
    """A port is silent, and raises `label_age`, after this time without a label; with `registers` only time
    with traffic counts. 0: never."""
    coverage_limit: float = Field(default=0.0, ge=0, le=1)
    """A period whose mean coverage is below this limit, such as 0.9, raises `label_coverage`; 0: never."""
    registers: Path | None = None
    """Registers of a testbed's switches, which the controller writes; none: monitoring only."""
    redis: Annotated[str, AfterValidator(lambda url: redis_url(url) if url else url)] = ""
    """Redis server with the INT and the ageing database, such as `redis://127.0.0.1:6379/0`; empty: in
    memory.
    """
    prefix: str = Field(default="hopscope", min_length=1, max_length=100, pattern=r"^[!-~]+$")
    """Prefix of every key in Redis, followed by a colon."""

    @model_validator(mode="after")
    def _safe(self) -> LabelSettings:
        if self.listen and not self.allow and not is_loopback(host_and_port(self.listen)[0]):
            raise ValueError(
                f"found listen {self.listen!r} without allow, expected the networks whose labels are taken, "
                "or a loopback address"
            )
        return self

"""Settings of a Linux machine that is a switch and writes INT: the table `[switch]` of a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from ..settings.agent import AgentSettings
from ..settings.configuration.errors import ConfigError, error_lines
from ..settings.configuration.file import read_toml
from ..settings.configuration.lines import with_lines
from ..settings.label import LabellingSettings, TrackedFlowSettings
from ..settings.section import Dscp, Port, Receiver, Section
from ..settings.watch import MAX_WATCHES, WatchSettings

Item = Literal[
    "node_id", "interfaces", "hop_latency", "queue_occupancy", "ingress_timestamp", "egress_timestamp",
    "wide_interfaces", "egress_utilization",
]  # fmt: skip
BITS: dict[str, int] = {
    "node_id": 0x8000, "interfaces": 0x4000, "hop_latency": 0x2000, "queue_occupancy": 0x1000,
    "ingress_timestamp": 0x0800, "egress_timestamp": 0x0400, "wide_interfaces": 0x0200,
    "egress_utilization": 0x0100,
}  # fmt: skip
"""Bit in the instruction bitmap for each value that Linux knows about a packet (INT 2.1, 5.8)."""


class SwitchLabelSettings(LabellingSettings):
    """INT-label: ports label packets that they forward, and remove labels from packets that go to hosts."""

    too_long: Literal["skip"] = "skip"
    """A packet gets no label that would make it too long for the MTU."""
    own: bool = False
    """Whether packets that this machine itself sends also get labels."""
    track: Annotated[tuple[TrackedFlowSettings, ...], Field(max_length=1024)] = ()
    """Flows from hosts at `switch.hosts`, or from this machine, that all switches label (INT-label, 3.3)."""
    collector: Receiver = ""
    """Address to which `hopscope switch run` sends labels, such as `192.0.2.1:7254`: `label.listen` of a
    collector; empty: none.
    """


Monitor = Literal["int-path-tracing", "packetscope-traversal", "netseer-losses", "packetscope-losses"]


class SwitchDirectSettings(Section):
    """Reports of this switch by direct telemetry access (DTA): each monitor writes to its own store."""

    translator: Receiver = ""
    """Address of `hopscope translate`, such as `192.0.2.1:40040`: `hopscope switch run` sends it DTA packets.
    """
    collectors: tuple[str, ...] = ()
    """Addresses of collectors' NICs (`hopscope direct serve`), instead of a translator: `hopscope switch run`
    writes into their memory through RoCEv2, UDP port 4791.
    """
    address: str = "127.0.0.2"
    """This machine's address towards the collectors."""
    monitors: Annotated[tuple[Monitor, ...], Field(min_length=1)] = ("int-path-tracing",)
    """What is reported, as for the translator's `--monitor`. `int-path-tracing`: paths of flows (of an INT
    sink); `packetscope-traversal`: ports, latency and queue of a flow's latest packet at each switch;
    `netseer-losses` and `packetscope-losses`: dropped packets (`switch.drops`).
    """

    @model_validator(mode="after")
    def _has_one_way(self) -> SwitchDirectSettings:
        if self.translator and self.collectors:
            raise ValueError("found translator and collectors, expected one of them")
        return self

    @property
    def place(self) -> str:
        """Destination of reports; empty: none."""
        return self.translator or ", ".join(self.collectors)


class SwitchSettings(Section):
    """A Linux host, router or hypervisor that is an INT switch (INT 2.1)."""

    node_id: Annotated[int, Field(ge=0, lt=0xFFFFFFFF)]
    """Node id of this machine in INT."""
    interfaces: Annotated[tuple[str, ...], Field(min_length=1, max_length=256)]
    """Ethernet interfaces of the INT domain: a packet that leaves through one of them gets INT, or this hop.
    """
    hosts: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    """Ethernet interfaces outside the domain: packets leave through them without INT (INT sink). The latency
    of a packet is known if it arrived at one of these or of `interfaces`.
    """
    collector: Receiver = ""
    """Address of the collector that `hopscope switch run` sends Telemetry Reports 2.0 to, such as
    `192.0.2.1:32766`; empty: none.
    """
    dscp: Dscp = 0x17
    """DSCP that announces INT, if `port` is not set."""
    port: Port | None = None
    """UDP destination port that announces INT, instead of a DSCP."""
    watch: Annotated[tuple[WatchSettings, ...], Field(max_length=MAX_WATCHES)] = ()
    """Packets that get INT or are reported (INT source), at most 32 entries; the first that matches decides.
    Empty: this machine only handles INT that packets already carry (transit and sink).
    """
    hop_limit: Annotated[int, Field(ge=1, le=255)] = 8
    """Hop limit of the INT that this machine inserts, itself included."""
    instructions: Annotated[tuple[Item, ...], Field(min_length=1)] = (
        "node_id", "interfaces", "hop_latency", "egress_timestamp",
    )  # fmt: skip
    """Metadata that hops are asked for: `node_id`, `interfaces` (numbers of 16 bits), `hop_latency` (ns),
    `queue_occupancy` (packets in the qdisc), `ingress_timestamp` and `egress_timestamp` (ns since 1970),
    `wide_interfaces` (numbers of 32 bits), `egress_utilization` (of the link, in 1/100 %). This machine
    measures the utilisation only if it is requested.
    """
    label: SwitchLabelSettings | None = None
    """INT-label at the same interfaces: `interfaces` lead to switches, and `hosts` to hosts."""
    drops: bool = False
    """Whether to report packets of the watch list that the kernel drops, with its reason."""
    drop_rate: Annotated[int, Field(ge=1, le=10**6)] = 1000
    """Maximum drop reports per second and CPU; further ones are only counted (`reports_limited`)."""
    direct: SwitchDirectSettings | None = None
    """Direct telemetry access, in addition to `collector` or instead of it."""
    pins: Path = Path("/sys/fs/bpf/hopscope-switch")
    """Folder in a BPF file system, created by `attach`, that keeps programs and counters after the command
    ends.
    """

    @model_validator(mode="after")
    def _is_on_one_side(self) -> SwitchSettings:
        if both := sorted({*self.interfaces} & {*self.hosts}):
            raise ValueError(f"found {both[0]} in interfaces and in hosts, expected it in one of them")
        return self

    @property
    def bitmap(self) -> int:
        """The instruction bitmap that this INT source writes."""
        return sum(BITS[item] for item in set(self.instructions))


class _File(Section):
    switch: SwitchSettings
    agent: AgentSettings | None = None


def load_switch(file: Path) -> SwitchSettings:
    """Settings of a file. Raises ConfigError."""
    return _load(file).switch


def load_agent(file: Path) -> tuple[SwitchSettings, AgentSettings]:
    """Settings of a file that has a table `[agent]`. Raises ConfigError."""
    found = _load(file)
    if found.agent is None:
        raise ConfigError(f"{file}: found no table [agent], expected one with a token")
    return found.switch, found.agent


def _load(file: Path) -> _File:
    try:
        return _File.model_validate(read_toml(file))
    except ValidationError as error:
        lines = (f"{file}: {line}" for line in error_lines(error, _File))
        raise ConfigError("\n".join(with_lines(file, lines))) from error

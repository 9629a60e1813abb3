"""Settings of INT-label: who labels which packets, what the controller does about it, where labels arrive."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from .config_base import Seconds, Section


class LabellingSettings(Section):
    """How switches label packets (INT-label, section 3): the same in simulation and on real packets."""

    algorithm: Literal["base-a", "base-b"] = "base-b"
    """`base-a`: a label when the interval since the egress port's last one has passed. `base-b`: besides, by
    chance, the likelier the more labels a packet carries already.
    """
    interval: Seconds = Field(default=0.05, gt=0)
    """T: time between the labels of one egress port, s."""
    chance: Literal["f1", "f2", "f2-listing", "f3"] = "f1"
    """Chance of another label for a packet with i labels, for `base-b`: `f1` 1 where i > 0; `f2`
    i / (MAX_hop - 1); `f2-listing` i / MAX_hop, as the paper's listing and Fig. 15 have it; `f3` that of
    `f2` times the share of the interval that has passed.
    """
    rest: float = Field(default=0.0, ge=0, le=1)
    """T1 / T: share of the interval after a label in which chance labels no packet."""
    max_hop: int = Field(default=5, ge=2, le=100)
    """MAX_hop: most switches on a path. Counts of a flow that is followed start here."""
    too_long: Literal["skip", "fragment"] = "skip"
    """What happens to a packet that a label would push over the MTU: it gets none, or is fragmented first."""


class AdaptiveSettings(Section):
    """How the controller changes the interval of ports that it hears too little of (INT-label, 3.2 and 5)."""

    mode: Literal["off", "shift", "one-bit"] = "off"
    """`shift`: T / 2^S with S by port (Algorithm 3). `one-bit`: every packet is labelled (section 5)."""
    k: float = Field(default=1.0, gt=0)
    """A port is late when nothing new came from it for k T; its S changes at most once in that time."""
    most: int = Field(default=16, ge=1, le=40)
    """Highest S."""


class LabelSettings(Section):
    """Labels that arrive from last hops, and the controller."""

    listen: str = ""
    """Address and UDP port where last hops send labels, as `127.0.0.1:7254`; empty: no labels are taken."""
    labelling: LabellingSettings = LabellingSettings()
    """What the switches do; the controller goes by the same interval."""
    adaptive: AdaptiveSettings = AdaptiveSettings()
    """Changes of the interval by port."""
    telemetry: Seconds = Field(default=0.1, gt=0)
    """Telemetry interval, s: coverage is the share of active ports that were heard of in each."""
    registers: Path | None = None
    """Registers of a testbed's switches, which the controller writes; none: it only looks."""
    redis: str = ""
    """Redis server with the INT and the ageing database, as `redis://127.0.0.1:6379/0`; empty: in memory."""

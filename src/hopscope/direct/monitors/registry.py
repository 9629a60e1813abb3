"""Which monitors there are, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.errors import HopscopeError
from .congestion import CongestionDepths, CongestionEvents
from .dshark import DShark
from .flowlets import FlowletSizes
from .host_counters import HostCounters, HostValues
from .lossy_flows import LossyFlows
from .monitor import Monitor
from .netseer import NetSeer
from .packetscope import PipelineLosses, Traversal
from .path_tracing import PathTracing
from .pint import Pint
from .postcards import Postcards
from .sonata import SonataResults, SonataTuples
from .timeouts import TcpTimeouts
from .trajectory import Trajectories
from .turboflow import TurboFlow

_KINDS: tuple[type[Monitor], ...] = (
    PathTracing, HostValues, Traversal, Pint, SonataResults, TcpTimeouts,
    Postcards, Trajectories,
    DShark, CongestionDepths, CongestionEvents, LossyFlows, FlowletSizes, NetSeer, PipelineLosses,
    SonataTuples, HostCounters, TurboFlow,
)  # fmt: skip
MONITORS: dict[str, type[Monitor]] = {kind.name: kind for kind in _KINDS}
"""By name, in the order of DTA's Table 2."""


class MonitorError(HopscopeError):
    """There is no monitor of this name; the message says which there are."""


def made(monitors: Mapping[str, Monitor] | Sequence[Monitor | str]) -> dict[str, Monitor]:
    """Monitors by name; a name becomes one with its defaults. Raises MonitorError."""
    if isinstance(monitors, Mapping):
        return dict(monitors)
    chosen = {}
    for one in monitors:
        if isinstance(one, str):
            if one not in MONITORS:
                raise MonitorError(f"no monitor '{one}'; there are {', '.join(MONITORS)}")
            one = MONITORS[one]()
        chosen[one.name] = one
    return chosen

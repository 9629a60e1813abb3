"""The monitors by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...base.errors import HopscopeError
from .monitor import Monitor
from .systems.congestion import CongestionDepths, CongestionEvents
from .systems.dshark import DShark
from .systems.flowlets import FlowletSizes
from .systems.host_counters import HostCounters, HostValues
from .systems.lossy_flows import LossyFlows
from .systems.netseer import NetSeer
from .systems.packetscope import PipelineLosses, Traversal
from .systems.path_tracing import PathTracing
from .systems.pint import Pint
from .systems.postcards import Postcards
from .systems.sonata import SonataResults, SonataTuples
from .systems.timeouts import TcpTimeouts
from .systems.trajectory import Trajectories
from .systems.turboflow import TurboFlow

_KINDS: tuple[type[Monitor], ...] = (
    PathTracing, HostValues, Traversal, Pint, SonataResults, TcpTimeouts,
    Postcards, Trajectories,
    DShark, CongestionDepths, CongestionEvents, LossyFlows, FlowletSizes, NetSeer, PipelineLosses,
    SonataTuples, HostCounters, TurboFlow,
)  # fmt: skip
MONITORS: dict[str, type[Monitor]] = {kind.name: kind for kind in _KINDS}
"""Monitor classes by name, in the order of DTA's Table 2."""


class MonitorError(HopscopeError):
    """Unknown monitor; the message lists the known ones."""


def make_monitors(monitors: Mapping[str, Monitor] | Sequence[Monitor | str]) -> dict[str, Monitor]:
    """Monitors by name; a name gives a monitor with its defaults. Raises MonitorError."""
    if isinstance(monitors, Mapping):
        return dict(monitors)
    chosen = {}
    for monitor in monitors:
        made = _made(monitor) if isinstance(monitor, str) else monitor
        chosen[made.name] = made
    return chosen


def _made(name: str) -> Monitor:
    if name not in MONITORS:
        raise MonitorError(f"unknown monitor '{name}'; known: {', '.join(MONITORS)}")
    return MONITORS[name]()

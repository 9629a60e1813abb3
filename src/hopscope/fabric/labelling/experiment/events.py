"""Events of an experiment: links and switches that fail, ports that lose packets, from when to when.

Times are counted from the end of the warm-up.  A port is named as `hopscope simulate` and `hopscope fabric`
name it: by its switch's name or number, and its number there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field

from ....settings.section import Seconds, Section
from ...ports import Ints, Topology
from .files import ExperimentError

if TYPE_CHECKING:
    from ..simulation.simulator import LabelSimulation

MAX_EVENTS = 100
"""Tables of one kind in a file."""
NEVER = "never"
CLASSES: dict[str, Callable[[Any], npt.NDArray[np.bool_]]] = {
    "up": lambda ports: (ports["peer_switch"] >= 0) & (ports["buffer_id"] == 0),
    "down": lambda ports: (ports["peer_switch"] >= 0) & (ports["buffer_id"] == 1),
    "between": lambda ports: ports["peer_switch"] >= 0,
    "hosts": lambda ports: ports["peer_switch"] < 0,
    "all": lambda ports: np.ones(len(ports), bool),
}
"""Ports of a switch by where they lead: towards the spine, away from it, to any switch, to hosts."""


def _name_or_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, str)) or value == "":
        raise ValueError(f"found {value!r}, expected a name or a number")
    return value


def _never(value: object) -> object:
    return None if value == NEVER else value


NodeName = Annotated[int | str, BeforeValidator(_name_or_number)]
MaybeSeconds = Annotated[Seconds | None, BeforeValidator(_never)]


class FailureSettings(Section):
    """Links that fail in both directions, or a switch with all of its links; or one that is added."""

    node: NodeName
    """The switch: its name, as `spine-1`, its number, or a pattern, as `spine-*`."""
    port: NodeName = "all"
    """The port whose link fails: its number, where it leads, as `to leaf-2`, or `up` (towards the spine),
    `down`, `between` (both), `hosts`, `all`: the whole switch.
    """
    at: MaybeSeconds = None
    """When it fails, s after the warm-up; not given: it is down from the start on, warm-up included. So
    a switch is added `until`.
    """
    until: MaybeSeconds = None
    """When it works again; not given, or `never`: not in this experiment."""
    reroute: float = Field(default=0.0, ge=0, le=1e4)
    """From the failure, and from its end, until ECMP goes by it, s."""


class LossSettings(Section):
    """Ports that lose packets at random, in the direction in which they send."""

    node: NodeName = "*"
    """The switch: its name, its number, or a pattern; all, where it is not given."""
    port: NodeName = "between"
    """The port: its number, where it leads, as `to leaf-2`, or `up`, `down`, `between`, `hosts`, `all`."""
    share: float = Field(ge=0, le=1)
    """Of the packets, instead of `network.loss`; of several that hold for a port, the highest."""
    at: MaybeSeconds = None
    """From when on, s after the warm-up; not given: from the start, warm-up included."""
    until: MaybeSeconds = None
    """Until when; not given, or `never`: to the end."""


KINDS: dict[str, type[Section]] = {"failure": FailureSettings, "loss": LossSettings}
"""Tables of a file that may stand there several times."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that holds for some ports from a time to another, s after the warm-up."""

    key: str
    """Where it stands in the file, as `failure[0]`."""
    name: str
    """For readers, as `spine-1 fails` or `leaf-0 up loses 30 %`."""
    rows: Ints
    """Port rows."""
    at: float | None
    """None: from the start on."""
    until: float | None
    """None: to the end."""
    share: float | None
    """Of packets that are lost; None: the links fail."""
    reroute: float
    """Until routing knows, s."""

    def holds(self, time: float | None) -> bool:
        """Whether it holds from this time on; None: before all others."""
        begun = self.at is None or (time is not None and self.at <= time)
        return begun and (self.until is None or time is None or time < self.until)


def events_of(
    topology: Topology, failures: Sequence[FailureSettings], losses: Sequence[LossSettings], seconds: float
) -> list[Event]:
    """The events of a file on this fabric, where `seconds` are measured.

    ExperimentError: no such switch or port, or a time at which nothing can happen; with key, what was found
    and what is expected.
    """
    found = []
    tables: dict[str, Sequence[FailureSettings | LossSettings]] = {"failure": failures, "loss": losses}
    for kind, several in tables.items():
        for place, table in enumerate(several):
            key = f"{kind}[{place}]"
            _check_times(key, table.at, table.until, seconds)
            rows = port_rows(topology, table.node, table.port, key)
            share = table.share if isinstance(table, LossSettings) else None
            reroute = table.reroute if isinstance(table, FailureSettings) else 0.0
            name = _named(topology, table.node, table.port)
            name += " fails" if share is None else f" loses {share:.3g}"
            found.append(Event(key, name, rows, table.at, table.until, share, reroute))
    return found


def _check_times(key: str, at: float | None, until: float | None, seconds: float) -> None:
    if at is not None and at >= seconds:
        raise ExperimentError(
            f"{key}.at: found {at:g}, expected less than experiment.seconds, {seconds:g}: it would not begin"
        )
    if until is not None and until <= (at or 0):
        raise ExperimentError(
            f"{key}.until: found {until:g}, expected a time after {at or 0:g}, when it begins"
        )
    if until is not None and until >= seconds:
        raise ExperimentError(
            f"{key}.until: found {until:g}, expected less than experiment.seconds, {seconds:g}, or {NEVER!r}"
        )


def _named(topology: Topology, node: int | str, port: int | str) -> str:
    names = [topology.switches[index].name for index in _switches(topology, node)]
    where = names[0] if len(names) == 1 else "all switches" if node == "*" else str(node)
    number = f"port {port}" if str(port).isdecimal() else str(port)
    return where if port == "all" else f"{where} {number}"


def _switches(topology: Topology, node: int | str) -> list[int]:
    """Switches (rows) of a name, a number or a pattern."""
    return [
        index
        for index, switch in enumerate(topology.switches)
        if str(node) in (switch.name, str(switch.node_id)) or fnmatchcase(switch.name, str(node))
    ]


def port_rows(topology: Topology, node: int | str, port: int | str, key: str) -> Ints:
    """Rows of the ports of switches that are named so, int64; ExperimentError with `key`: there is none."""
    switches = _switches(topology, node)
    if not switches:
        few = ", ".join(switch.name for switch in topology.switches[:3])
        raise ExperimentError(
            f"{key}.node: found {node!r}, expected a switch of {topology.name}: {few} … "
            f"{topology.switches[-1].name}, 1 to {len(topology.switches)}, or a pattern, as spine-*"
        )
    links = topology.ports
    own = np.nonzero(np.isin(links["switch"], switches))[0].astype(np.int64)
    text = str(port)
    if text in CLASSES:
        rows = own[CLASSES[text](links[own])]
    elif text.isdecimal():
        rows = own[links["number"][own] == int(text[:9])]
    else:
        rows = np.array([row for row in own if topology.port_name(int(row)) == text], np.int64)
    if not len(rows):
        where = topology.switches[switches[0]].name if len(switches) == 1 else repr(node)
        leads = topology.port_name(int(own[-1]))
        raise ExperimentError(
            f"{key}.port: found {port!r}, expected a port of {where}: 1 to {links['number'][own].max()}, "
            f"as {leads!r}, or {', '.join(CLASSES)}"
        )
    return rows


def order(simulation: LabelSimulation, events: Sequence[Event], start: float) -> None:
    """Tell a simulation that has not begun what will happen; the warm-up ends at `start`, s.

    A link works again when the last failure of it is over.
    """
    failures = [event for event in events if event.share is None]
    losses = [event for event in events if event.share is not None]
    links = simulation.topology.ports
    down = np.zeros(len(links), bool)
    usual = np.where((links["switch"] >= 0) & (links["peer_switch"] >= 0), simulation.network.loss, 0.0)
    share = usual
    for time in [None, *changes(events)]:
        at = None if time is None else start + time
        was, down = down, np.zeros(len(links), bool)
        for event in failures:
            if event.holds(time):
                down[event.rows] = down[links["reverse"][event.rows]] = True
        for change, rows, delays in (
            (simulation.fail_link, np.nonzero(down & ~was)[0], [e.reroute for e in failures if e.at == time]),
            (
                simulation.repair_link,
                np.nonzero(was & ~down)[0],
                [e.reroute for e in failures if e.until == time],
            ),
        ):
            if len(rows):
                change(*rows.tolist(), at_s=at, reroute_s=0.0 if time is None else max(delays, default=0.0))
        had, special = share, np.full(len(links), -1.0)
        for event in losses:
            if event.holds(time):
                special[event.rows] = np.maximum(special[event.rows], event.share or 0.0)
        share = np.where(special >= 0, special, usual)
        for chance in np.unique(share[share != had]):
            simulation.set_loss(np.nonzero((share != had) & (share == chance))[0], float(chance), at_s=at)


def changes(events: Iterable[Event]) -> list[float]:
    """Times at which something begins or ends, s after the warm-up, in order."""
    return sorted({time for event in events for time in (event.at, event.until) if time is not None})

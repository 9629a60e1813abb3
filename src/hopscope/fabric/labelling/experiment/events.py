"""Events of an experiment: failing links and switches, ports that lose packets, each with its times.

Times count from the end of the warm-up. Ports are named as in `hopscope simulate` and `hopscope fabric`: by
the switch's name or number, and the port's number.
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
"""Maximum tables of one kind in a file."""
NEVER = "never"
CLASSES: dict[str, Callable[[Any], npt.NDArray[np.bool_]]] = {
    "up": lambda ports: (ports["peer_switch"] >= 0) & (ports["buffer_id"] == 0),
    "down": lambda ports: (ports["peer_switch"] >= 0) & (ports["buffer_id"] == 1),
    "between": lambda ports: ports["peer_switch"] >= 0,
    "hosts": lambda ports: ports["peer_switch"] < 0,
    "all": lambda ports: np.ones(len(ports), bool),
}
"""Ports of a switch by direction: towards the spine, away from it, to any switch, to hosts. All ports to
switches of an own topology are `up`.
"""


def _name_or_number(value: object) -> object:
    if not isinstance(value, (int, str)) or value == "":
        raise ValueError(f"found {value!r}, expected a name or a number")
    return value


def _never(value: object) -> object:
    return None if value == NEVER else value


NodeName = Annotated[int | str, BeforeValidator(_name_or_number)]
MaybeSeconds = Annotated[Seconds | None, BeforeValidator(_never)]


class FailureSettings(Section):
    """A link that fails in both directions, or a switch that fails with all its links; or one that is added
    later.
    """

    node: NodeName
    """The switch: a name such as `spine-1`, a number, or a pattern such as `spine-*`."""
    port: NodeName = "all"
    """The port whose link fails: its number, its peer, such as `to leaf-2`, or `up` (towards the spine),
    `down`, `between` (both), `hosts`, or `all` (the whole switch).
    """
    at: MaybeSeconds = None
    """Start of the failure, s after the warm-up. Default: the start of the simulation; with `until`, this
    means that the link or switch is added at that time.
    """
    until: MaybeSeconds = None
    """End of the failure, s after the warm-up. Default, or `never`: it lasts to the end of the experiment."""
    reroute: float = Field(default=0.0, ge=0, le=1e4)
    """Delay until ECMP reacts to the failure, and to its end, s."""


class LossSettings(Section):
    """Ports that lose packets at random, in their sending direction."""

    node: NodeName = "*"
    """The switch: a name, a number, or a pattern. Default: all."""
    port: NodeName = "between"
    """The port: its number, its peer, such as `to leaf-2`, or `up`, `down`, `between`, `hosts`, `all`."""
    share: float = Field(ge=0, le=1)
    """Share of packets lost; replaces `network.loss`. If several apply to a port, the highest one counts."""
    at: MaybeSeconds = None
    """Start, s after the warm-up. Default: the start of the simulation."""
    until: MaybeSeconds = None
    """End, s after the warm-up. Default, or `never`: the end of the experiment."""


KINDS: dict[str, type[Section]] = {"failure": FailureSettings, "loss": LossSettings}
"""Tables that may occur several times in a file."""


@dataclass(frozen=True, slots=True)
class Event:
    """A failure or loss of some ports between two times, s after the warm-up."""

    key: str
    """Place in the file, such as `failure[0]`."""
    name: str
    """A description such as `spine-1 fails` or `leaf-0 up loses 0.3`."""
    rows: Ints
    """Port rows."""
    at: float | None
    """None: from the start of the simulation."""
    until: float | None
    """None: to the end of the experiment."""
    share: float | None
    """Share of packets lost; None: the links fail."""
    reroute: float
    """Delay until routing reacts, s."""

    def is_active(self, time: float | None) -> bool:
        """Whether it is active just after this time; None: at the start of the simulation."""
        begun = self.at is None or (time is not None and self.at <= time)
        return begun and (self.until is None or time is None or time < self.until)


def events_of(
    topology: Topology, failures: Sequence[FailureSettings], losses: Sequence[LossSettings], seconds: float
) -> list[Event]:
    """The events of a file on this fabric; `seconds`: duration of the measurement.

    Raises ExperimentError for an unknown switch or port, or a time outside the measurement.
    """
    found = []
    tables: dict[str, Sequence[FailureSettings | LossSettings]] = {"failure": failures, "loss": losses}
    for kind, of_kind in tables.items():
        for place, table in enumerate(of_kind):
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
            f"{key}.at: found {at:g}, expected less than experiment.seconds, {seconds:g}: it would never "
            "start"
        )
    if until is not None and until <= (at or 0):
        raise ExperimentError(f"{key}.until: found {until:g}, expected a time after its start, {at or 0:g}")
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
    """Rows of the switches that match a name, a number or a pattern."""
    return [
        index
        for index, switch in enumerate(topology.switches)
        if str(node) in (switch.name, str(switch.node_id)) or fnmatchcase(switch.name, str(node))
    ]


def port_rows(topology: Topology, node: int | str, port: int | str, key: str) -> Ints:
    """Rows of the matching ports, int64. Raises ExperimentError if there are none; `key` is used in its
    message.
    """
    switches = _switches(topology, node)
    if not switches:
        examples = ", ".join(switch.name for switch in topology.switches[:3])
        raise ExperimentError(
            f"{key}.node: found {node!r}, expected a switch of {topology.name}: {examples} … "
            f"{topology.switches[-1].name}, 1 to {len(topology.switches)}, or a pattern such as spine-*"
        )
    links = topology.ports
    rows_of_switches = np.nonzero(np.isin(links["switch"], switches))[0].astype(np.int64)
    text = str(port)
    if text in CLASSES:
        rows = rows_of_switches[CLASSES[text](links[rows_of_switches])]
    elif text.isdecimal():
        rows = rows_of_switches[links["number"][rows_of_switches] == int(text[:9])]
    else:
        rows = np.array([row for row in rows_of_switches if topology.port_name(int(row)) == text], np.int64)
    if not len(rows):
        where = topology.switches[switches[0]].name if len(switches) == 1 else repr(node)
        leads = topology.port_name(int(rows_of_switches[-1]))
        raise ExperimentError(
            f"{key}.port: found {port!r}, expected a port of {where}: 1 to "
            f"{links['number'][rows_of_switches].max()}, "
            f"a peer such as {leads!r}, or {', '.join(CLASSES)}"
        )
    return rows


def schedule(simulation: LabelSimulation, events: Sequence[Event], start: float) -> None:
    """Schedule the events in a simulation that has not started; the warm-up ends at `start`, s.

    A link is repaired when its last failure ends.
    """
    failures = [event for event in events if event.share is None]
    losses = [event for event in events if event.share is not None]
    links = simulation.topology.ports
    down = np.zeros(len(links), bool)
    configured = np.where((links["switch"] >= 0) & (links["peer_switch"] >= 0), simulation.network.loss, 0.0)
    share = configured
    for time in [None, *changes(events)]:
        at = None if time is None else start + time
        before, down = down, np.zeros(len(links), bool)
        for event in failures:
            if event.is_active(time):
                down[event.rows] = down[links["reverse"][event.rows]] = True
        for change, rows, delays in (
            (
                simulation.fail_link,
                np.nonzero(down & ~before)[0],
                [e.reroute for e in failures if e.at == time],
            ),
            (
                simulation.repair_link,
                np.nonzero(before & ~down)[0],
                [e.reroute for e in failures if e.until == time],
            ),
        ):
            if len(rows):
                change(*rows.tolist(), at_s=at, reroute_s=0.0 if time is None else max(delays, default=0.0))
        previous, special = share, np.full(len(links), -1.0)
        for event in losses:
            if event.is_active(time):
                special[event.rows] = np.maximum(special[event.rows], event.share or 0.0)
        share = np.where(special >= 0, special, configured)
        for chance in np.unique(share[share != previous]):
            simulation.set_loss(
                np.nonzero((share != previous) & (share == chance))[0], float(chance), at_s=at
            )


def changes(events: Iterable[Event]) -> list[float]:
    """Start and end times of events, s after the warm-up, ascending."""
    return sorted({time for event in events for time in (event.at, event.until) if time is not None})

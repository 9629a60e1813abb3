"""All switches that the controller reaches: their wanted state and their status."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..base.process.stop import Stop
from ..detect.links import read_links
from ..labels.state import FILE_NAME as LABELS
from ..labels.state import LabelReader
from ..memory.counter_region import CounterRegion
from ..memory.region import RegionError
from ..settings.collector import Settings
from ..settings.switches import ControlledSettings
from ..settings.watch import WatchSettings
from .counters import STATES
from .driver import Driver, driver_of
from .neighbours import SwitchPorts
from .reconcile import COUNTS, Reconciler
from .rules import FILE_NAME, Rules, read_rules
from .state import EVERY, SwitchState
from .status import write_status
from .topology import edges, merged

TURN_SECONDS = 0.01
"""How often Reg2 is read, if the label controller changes it."""
CALM_SECONDS = 0.1
"""How often rules and everything else are read."""
STATUS_SECONDS = 1.0
"""Shortest time between two changes of the status file."""
RELEASE_SECONDS = 3.0
"""Time that switches have at the end to reset Reg2."""


class Fleet:
    """A `Reconciler` for each switch of the settings.

    The wanted state of a switch comes from the rules (a file of the supervisor), the settings of labelling,
    and the label controller's decisions about Reg2, which are in the table of labels.
    """

    def __init__(
        self,
        settings: Settings,
        regions: Path,
        counters: CounterRegion,
        *,
        notify: Callable[[str], object],
        warn: Callable[[str], object],
        drivers: Callable[[str, ControlledSettings], Driver] = driver_of,
    ) -> None:
        """Raises HopscopeError if a package that a driver needs is missing, or the links cannot be read."""
        self._settings, self._regions, self._counters, self._warn = settings, regions, counters, warn
        self._reconcilers = {
            name: Reconciler(
                name, drivers(name, switch), verify_seconds=settings.control.verify_seconds,
                retry_seconds=settings.control.retry_seconds, notify=notify, warn=warn,
            )
            for name, switch in settings.switches.items()
        }  # fmt: skip
        label = settings.label
        self._labelling = label.labelling if label.listen else None
        self._adapts = bool(label.listen) and label.adaptive.mode != "off"
        self._flag = label.adaptive.mode == "one-bit"
        self._rules, self._stamp = Rules(), (0, 0)
        self._labels: LabelReader | None = None
        self._links = read_links(settings.postcards.links)
        self._ports: list[SwitchPorts | None] = [None] * len(self._reconcilers)
        self._edges: frozenset[int] = frozenset()
        self._wanted: dict[str, SwitchState] = {}
        """Wanted state of each switch, without Reg2, which changes most often."""
        self._asked_reg2: dict[int, dict[int, int]] | None = None
        self._status: list[dict[str, Any]] = []
        self._status_at = 0.0

    def run(self, stop: Stop) -> None:
        """Run until `stop`; then reset Reg2 at all switches that answer in time."""
        self.turn()
        for reconciler in self._reconcilers.values():
            reconciler.start()
        pause = TURN_SECONDS if self._adapts else CALM_SECONDS
        while not stop.wait(pause):
            self.turn()
        for reconciler in self._reconcilers.values():
            reconciler.stop()
        until = time.monotonic() + RELEASE_SECONDS
        for reconciler in self._reconcilers.values():
            reconciler.join(max(0.0, until - time.monotonic()))
        self._show()

    def turn(self) -> None:
        """Pass the wanted state to every switch's reconciler, and write the status."""
        is_new = self._read_rules() | self._find_edges() or not self._wanted
        if is_new:
            self._wanted = {name: self._wanted_of(name) for name in self._reconcilers}
        reg2 = self._reg2()
        if is_new or reg2 != self._asked_reg2:
            self._asked_reg2 = reg2
            for name, reconciler in self._reconcilers.items():
                node = self._settings.switches[name].node
                own = None if reg2 is None else reg2.get(node, {})
                reconciler.ask(self._wanted[name].model_copy(update={"reg2": own}))
        if time.monotonic() >= self._status_at:
            self._status_at = time.monotonic() + STATUS_SECONDS
            self._show()

    def _wanted_of(self, name: str) -> SwitchState:
        """Wanted state of a switch, without Reg2."""
        rules, watch = self._rules, None
        if rules.watch is not None:
            node = self._settings.switches[name].node
            chosen = [
                rule
                for rule in rules.watch
                if (not rule.switches or name in rule.switches) and (rule.at == "all" or node in self._edges)
            ]
            watch = tuple(WatchSettings(**rule.model_dump(exclude={"switches", "at"})) for rule in chosen)
        return SwitchState.model_construct(watch=watch, track=rules.track, labelling=self._labelling)

    @property
    def counts(self) -> Counter[str]:
        """Counts of all switches together, by name (COUNTS)."""
        total = Counter(dict.fromkeys(COUNTS, 0))
        for reconciler in self._reconcilers.values():
            total.update(reconciler.counts)
        return total

    @property
    def states(self) -> dict[str, int]:
        """Number of switches by state."""
        found = Counter(each["state"] for each in self._status)
        return {state: found[state] for state in STATES}

    @property
    def in_sync(self) -> int:
        """Switches that have the wanted state."""
        return sum(each["in_sync"] for each in self._status)

    def _find_edges(self) -> bool:
        """Find the switches with a port that leads to no switch; returns whether they have changed."""
        ports = [each.ports for each in self._reconcilers.values()]
        if all(new is old for new, old in zip(ports, self._ports, strict=True)):
            return False
        before, self._ports = self._edges, ports
        nodes = [switch.node for switch in self._settings.switches.values()]
        known = {node: each for node, each in zip(nodes, ports, strict=True) if each is not None}
        self._edges = edges(known, merged(self._links, known, ()))
        return self._edges != before

    def _read_rules(self) -> bool:
        """Read the rules; returns whether they have changed."""
        path = self._regions / FILE_NAME
        try:
            found = path.stat()
        except OSError:
            return False
        stamp = found.st_mtime_ns, found.st_ino
        if stamp == self._stamp:
            return False
        self._stamp, self._rules = stamp, read_rules(self._regions)
        return True

    def _reg2(self) -> dict[int, dict[int, int]] | None:
        """Nonzero Reg2 by node and port; None: unknown yet, or not under this controller's control."""
        if self._labelling is None:
            return None
        if not self._adapts:
            return {}
        if self._labels is None or not self._labels.is_current:
            self._labels = None
            try:
                self._labels = LabelReader.attach(self._regions / LABELS)
            except (RegionError, OSError):
                return None
        found: dict[int, dict[int, int]] = {}
        for node, port, value in self._labels.raised():
            found.setdefault(node, {})[port] = EVERY if self._flag else value
        return found

    def _show(self) -> None:
        status = [
            {"name": name, "kind": switch.kind, "node": switch.node, "place": switch.place}
            | self._reconcilers[name].status()
            for name, switch in self._settings.switches.items()
        ]
        if status != self._status:
            self._status = status
            write_status(self._regions, status)
        self._counters.collect(self)

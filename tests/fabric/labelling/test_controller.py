"""INT-label's controller against a plain reading of Algorithms 3 and 4 and of section 5."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.fabric.labelling.simulation.measures import coverage
from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.simulator import LabelSimulation
from hopscope.fabric.labelling.simulation.sources import from_hosts
from hopscope.fabric.topology import parse_topology
from hopscope.labels.controller import CHECKS, Controller, PortDatabase
from hopscope.labels.state import NEVER
from hopscope.settings.label import AdaptiveSettings, LabellingSettings
from hopscope.wire.label.records import LABEL
from hopscope.wire.records import Records

MS = 1_000_000


def labels_of(rows: list[tuple[int, int, int, int]]) -> Records:
    """LABEL records of (node, port, time in ns, latency)."""
    made = np.zeros(len(rows), LABEL)
    for name, column in zip(
        ("node_id", "egress_port", "time_ns", "latency_ns"), zip(*rows, strict=True), strict=False
    ):
        made[name] = column
    return made


class PlainPro:
    """Algorithm 3, a port at a time."""

    def __init__(self, patience: int, most: int) -> None:
        self.patience, self.most = patience, most
        self.recorded: dict[tuple[int, int], int] = {}
        self.shift: dict[tuple[int, int], int] = {}
        self.changed: dict[tuple[int, int], int] = {}

    def receive(self, key: tuple[int, int], time: int) -> None:
        """Algorithm 4, lines 12-17."""
        if key not in self.recorded or time > self.recorded[key]:
            self.recorded[key] = time

    def turn(self, now: int) -> dict[tuple[int, int], int]:
        """Lines 4-12 for every port."""
        told = {}
        for key, recorded in self.recorded.items():
            if now - self.changed.get(key, 0) > self.patience:
                before = self.shift.get(key, 0)
                if now - recorded > self.patience:
                    self.shift[key] = min(before + 1, self.most)
                    self.changed[key] = now
                elif before > 0:
                    self.shift[key] = before - 1
                    self.changed[key] = now
                if self.shift.get(key, 0) != before:
                    told[key] = self.shift[key]
        return told


class PlainOneBit(PlainPro):
    """Section 5: a flag, and an ageing database of entries that time out."""

    def __init__(self, patience: int, life: int) -> None:
        super().__init__(patience, 1)
        self.life = life
        self.ageing: dict[tuple[int, int], int] = {}
        self.next_look = 0

    def turn(self, now: int) -> dict[tuple[int, int], int]:
        """Look, no more often than CHECKS times in k T."""
        if now < self.next_look:
            return {}
        self.next_look = now + self.patience // CHECKS
        told = {}
        gone = {key for key, until in self.ageing.items() if until <= now}
        for key, recorded in self.recorded.items():
            late = now - recorded > self.patience
            if key in gone:
                del self.ageing[key]
            if late:
                self.ageing[key] = now + self.life
                if not self.shift.get(key):
                    told[key] = self.shift[key] = 1
            elif key in gone and self.shift.get(key):
                told[key] = self.shift[key] = 0
        return told


@pytest.mark.parametrize(("mode", "life"), [("shift", 1.0), ("one-bit", 1.5), ("one-bit", 4.0)])
def test_decisions_are_those_of_the_paper(mode: str, life: float) -> None:
    """Random labels, silences and looks: the same registers change at the same looks as in a plain twin,
    labels that arrive late or twice included. A flag's life may be that of lateness, or longer.
    """
    rng = np.random.default_rng(5)
    ports = parse_topology("leaf-spine:3x2").ports
    keys = [(int(p["node_id"]), int(p["number"])) for p in ports if p["node_id"]]
    labelling = LabellingSettings(interval=0.02)
    adaptive = AdaptiveSettings(mode=mode, k=1.5, flag_life=life, max_shift=4)  # type: ignore[arg-type]
    controller = Controller(labelling, adaptive, PortDatabase(ports))
    patience = 30 * MS
    twin = PlainPro(patience, 4) if mode == "shift" else PlainOneBit(patience, round(life * 20 * MS))
    now, highest = 0, 0
    for step in range(1500):
        now += int(rng.integers(0, 6 * MS))
        chosen = rng.integers(0, max(2, len(keys) * (1 + step // 300 % 2) // 2), rng.integers(0, 12))
        given = [(*keys[i], now - int(rng.integers(0, 25 * MS)), step) for i in chosen.tolist()]
        if given:
            controller.receive(labels_of(given), now)
        for node, port, time, _ in given:
            twin.receive((node, port), time)
        rows, values = controller.turn(now)
        told = {
            (int(ports["node_id"][r]), int(ports["number"][r])): int(v)
            for r, v in zip(rows, values, strict=True)
        }
        assert told == twin.turn(now), step
        highest = max(highest, int(values.max(initial=0)))
    assert highest == (4 if mode == "shift" else 1)
    assert controller.changes > 100


def test_database_keeps_the_newest_label_of_every_port() -> None:
    """Against a dictionary: of equal times the first stays, ports that the fabric lacks are counted."""
    rng = np.random.default_rng(6)
    ports = parse_topology("leaf-spine:2x2x1").ports
    database, unknown = PortDatabase(ports), 0
    plain: dict[int, tuple[int, int]] = {}
    known = {(int(p["node_id"]), int(p["number"])): row for row, p in enumerate(ports) if p["node_id"]}
    for step in range(60):
        given = [
            (int(rng.integers(0, 7)), int(rng.integers(0, 6)), int(rng.integers(0, 40)), step * 100 + i)
            for i in range(int(rng.integers(1, 30)))
        ]
        database.update(labels_of(given), 0)
        for node, port, time, latency in given:
            if (row := known.get((node, port))) is None:
                unknown += 1
            elif row not in plain or time > plain[row][0]:
                plain[row] = (time, latency)
    assert database.unknown == unknown > 0
    assert {
        row: (int(database.recorded[row]), int(database.latency[row]))
        for row in np.flatnonzero(database.recorded != NEVER).tolist()
    } == plain
    database.update(np.zeros(0, LABEL), 0)
    far = labels_of([(2**32 - 1, 1, 5, 5), (1, 65535, 5, 5)])
    database.update(far, 0)
    assert database.unknown == unknown + 2


def test_switched_off_changes_nothing() -> None:
    """Without adaptive labelling a silent port stays as it is."""
    ports = parse_topology("leaf-spine:2x2x1").ports
    controller = Controller(LabellingSettings(), AdaptiveSettings(), PortDatabase(ports))
    row = int(np.flatnonzero(ports["node_id"])[0])
    controller.receive(labels_of([(int(ports["node_id"][row]), int(ports["number"][row]), 1, 1)]), 2)
    assert len(controller.turn(10**12)[0]) == 0


@pytest.mark.parametrize(
    ("mode", "found", "at_once", "then"), [("shift", 7, [3], [2, 1, 0]), ("one-bit", 1, [], [0])]
)
def test_adopted_registers_are_continued(mode: str, found: int, at_once: list[int], then: list[int]) -> None:
    """A controller that is started again brings down what its forerunner had raised, at once to the highest
    value of its own; a flag times out like one that it has set itself.
    """
    ports = parse_topology("leaf-spine:2x2x1").ports
    adaptive = AdaptiveSettings(mode=mode, max_shift=3)  # type: ignore[arg-type]
    controller = Controller(LabellingSettings(interval=0.01), adaptive, PortDatabase(ports))
    row = int(np.flatnonzero(ports["node_id"])[0])
    told = controller.adopt(np.array([row, row + 1]), np.array([found, 0], np.uint8), 0)
    assert [one.tolist() for one in told] == [[row] * len(at_once), at_once]
    seen = []
    for now in range(0, 100 * MS, MS):
        controller.receive(labels_of([(int(ports["node_id"][row]), int(ports["number"][row]), now, 1)]), now)
        rows, values = controller.turn(now)
        seen += list(zip(rows.tolist(), values.tolist(), strict=True))
    assert seen == [(row, value) for value in then]


@pytest.mark.kernel
@pytest.mark.parametrize("mode", ["shift", "one-bit"])
def test_coverage_recovers_in_simulated_time(mode: str) -> None:
    """Links that lose three packets in five: with the controller more ports are reported in every interval
    than without, and without loss it does not lower coverage.
    """
    topology = parse_topology("paper")
    labelling = LabellingSettings(interval=0.05)

    def covered(loss: float, mode: str) -> float:
        adaptive = AdaptiveSettings(mode=mode)  # type: ignore[arg-type]
        simulation = LabelSimulation(
            topology, from_hosts(topology, [0, 7], 5e6), labelling, network=NetworkModel(loss=loss),
            adaptive=adaptive, controller=Controller(labelling, adaptive, PortDatabase(topology.ports)),
        )  # fmt: skip
        simulation.run(2.0)
        return float(np.nanmean(coverage(simulation.received, simulation.active, 0.1)[1:-1]))

    assert covered(0.6, mode) > 1.2 * covered(0.6, "off")
    assert covered(0.0, mode) >= covered(0.0, "off") > 0.99

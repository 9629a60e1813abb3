"""All switches of a collector: rules and Reg2 reach those that they are meant for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.control import fleet as fleets
from hopscope.control.counters import CONTROL_COUNTERS
from hopscope.control.fleet import Fleet
from hopscope.control.neighbours import SwitchPort, SwitchPorts
from hopscope.control.rules import change_tracked, change_watch, configured, read_rules, write_rules
from hopscope.control.state import EVERY, SwitchState
from hopscope.control.status import read_status
from hopscope.labels.state import LabelReader
from hopscope.runtime.labels.process import LabelProcess
from hopscope.settings.collector import Settings
from hopscope.settings.label import LabellingSettings
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL
from support.network.switch_driver import MemoryDriver
from support.waiting import eventually

MS = 1_000_000
START = 1_700_000_000 * 10**9
PORTS = dict.fromkeys((1, 2, 4, 7), 0)
EMPTY = SwitchState(watch=(), track=(), labelling=LabellingSettings(interval=1), reg2=PORTS)
Start = Callable[..., dict[str, MemoryDriver]]


def settings(mode: str = "shift", **more: Any) -> Settings:
    """Two switches, of nodes 1 and 2, each in memory; T is 50 ms."""
    switches = {name: {"kind": "ebpf", "node": node} for name, node in (("leaf1", 1), ("leaf2", 2))}
    label = {"listen": "127.0.0.1:0", "adaptive": {"mode": mode, "max_shift": 3}}
    given = {"listen": [], "switches": switches, "label": label, **more}
    return Settings.model_validate(given)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts a fleet over switches in memory; ends it."""
    monkeypatch.setattr(fleets, "STATUS_SECONDS", 0.0)
    stop, threads = threading.Event(), list[threading.Thread]()

    def make(given: Settings, state: SwitchState = EMPTY) -> dict[str, MemoryDriver]:
        drivers = {name: MemoryDriver(state) for name in given.switches}
        found = Fleet(
            given, tmp_path, CONTROL_COUNTERS.open(tmp_path), notify=lambda _: None, warn=lambda _: None,
            drivers=lambda name, _: drivers[name],
        )  # fmt: skip
        threads.append(threading.Thread(target=found.run, args=(stop,)))
        threads[-1].start()
        return drivers

    yield make
    stop.set()
    for thread in threads:
        thread.join()


def in_sync(folder: Path) -> list[bool]:
    """Of each switch, as shown."""
    return [each["in_sync"] for each in read_status(folder)]


def test_rules_reach_their_switches(start: Start, tmp_path: Path) -> None:
    """A rule with names reaches these; tracked flows and the label function reach all; changes follow."""
    flow = {"src": "10.0.0.2", "dst": "10.0.1.2"}
    given = settings(control={"watch": [{"port": 7}, {"port": 8, "switches": ["leaf2"]}]})
    write_rules(tmp_path, configured(given))
    drivers = start(given)

    def ports() -> list[list[int | None]]:
        return [[each.port for each in driver.state.watch or ()] for driver in drivers.values()]

    eventually(lambda: ports() == [[7], [7, 8]], ports)
    rules = change_tracked(read_rules(tmp_path), {"add": [flow]})
    write_rules(tmp_path, change_watch(rules, given.switches, {"remove": [{"port": 7}]}))
    eventually(lambda: ports() == [[], [8]], ports)
    eventually(lambda: all(driver.state.track for driver in drivers.values()))
    for driver in drivers.values():
        assert [each.every for each in driver.state.track or ()] == [100]
        assert driver.state.labelling == given.label.labelling
    eventually(lambda: in_sync(tmp_path) == [True, True])
    assert CONTROL_COUNTERS.read(tmp_path)["control_switches.up"] == 2


def test_without_rules_switches_keep_theirs(start: Start, tmp_path: Path) -> None:
    """No `control.watch`, no labels: nothing is asked for, nothing is changed."""
    given = settings(label={})
    write_rules(tmp_path, configured(given))
    drivers = start(given)
    eventually(lambda: in_sync(tmp_path) == [True, True])
    assert [driver.changes for driver in drivers.values()] == [[], []]


class Labels:
    """The process that takes labels, with a clock that the test turns."""

    def __init__(self, given: Settings, folder: Path) -> None:
        self.now = START
        nodes = frozenset(switch.node for switch in given.switches.values())
        self.process = LabelProcess(given.label, folder, controlled=nodes, clock=lambda: self.now)
        self.process.open()
        self._sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sender.connect(("127.0.0.1", self.process.port))

    def send(self, *ports: tuple[int, int]) -> None:
        """20 ms later, a label of each of these ports."""
        self.now += 20 * MS
        labels = np.zeros(len(ports), LABEL)
        labels["node_id"], labels["egress_port"] = zip(*ports, strict=True)
        labels["time_ns"], labels["packet"], labels["count"] = self.now, range(len(ports)), 1
        self._sender.send(encode_blocks(labels))
        eventually(self.process.turn)

    def close(self) -> None:
        """End it."""
        self._sender.close()
        self.process.close()


@pytest.mark.kernel
@pytest.mark.parametrize(("mode", "value"), [("shift", 3), ("one-bit", EVERY)])
def test_reg2_reaches_the_switch_of_a_late_port(start: Start, tmp_path: Path, mode: str, value: int) -> None:
    """A port that is no longer heard of labels more often at its own switch, and there alone; it goes on when
    the process of the labels is started again; ports of other nodes are counted as unwritten.
    """
    given = settings(mode)
    write_rules(tmp_path, configured(given))
    labels = Labels(given, tmp_path)
    drivers = start(given)
    for step in range(100):
        late = [(2, 7), (9, 1)] if step < 5 else []
        labels.send((1, 1), (2, 2), *late)
    eventually(lambda: drivers["leaf2"].state.reg2 == PORTS | {7: value}, lambda: drivers["leaf2"].state)
    assert drivers["leaf1"].state.reg2 == PORTS
    assert labels.process.unwritten > 0
    now = labels.now
    labels.close()
    again = Labels(given, tmp_path)
    again.now = now
    again.send((1, 1), (2, 2))
    assert [row[:2] for row in LabelReader.attach(tmp_path / "labels.table").raised()] == [(2, 7), (9, 1)]
    for _ in range(200):
        again.send((1, 1), (2, 2), (2, 7), (9, 1))
    again.close()
    eventually(lambda: drivers["leaf2"].state.reg2 == PORTS)


def test_reg2_of_an_earlier_run_is_reset(start: Start, tmp_path: Path) -> None:
    """Ports that a collector without adaptation finds shortened get their own interval back."""
    given = settings("off")
    write_rules(tmp_path, configured(given))
    drivers = start(given, EMPTY.model_copy(update={"reg2": PORTS | {4: 9}}))
    eventually(lambda: drivers["leaf1"].state.reg2 == PORTS)


def test_rules_of_edges_reach_edges(start: Start, tmp_path: Path) -> None:
    """A switch whose ports all lead to switches gets no rule of edges, until one does not."""
    links = tmp_path / "links.toml"
    links.write_text("[links.1]\n7 = 2\n[links.2]\n7 = 1\n")
    control = {"watch": [{"port": 7, "at": "edge"}], "verify_seconds": 0.1}
    given = settings(control=control, postcards={"links": str(links)}, label={})
    write_rules(tmp_path, configured(given))
    drivers = start(given)
    inner, host = (SwitchPort(number=number, name=f"eth{number}") for number in (7, 8))
    drivers["leaf1"].known_ports = SwitchPorts(ports=(inner, host))
    drivers["leaf2"].known_ports = SwitchPorts(ports=(inner,))
    eventually(lambda: drivers["leaf1"].state.watch)
    assert drivers["leaf2"].state.watch == ()
    drivers["leaf2"].known_ports = SwitchPorts(ports=(inner, host))
    eventually(lambda: drivers["leaf2"].state.watch)

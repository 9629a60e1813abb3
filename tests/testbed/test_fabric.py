"""The parts of a fabric, and what is written down of one: without making any of it."""

from __future__ import annotations

import json
import os
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.quantities import seconds as seconds_of
from hopscope.cli.fabric.start import tracked_flows
from hopscope.cli.fabric.traffic import TrafficRequest
from hopscope.fabric.topology import flow_hash, parse_topology
from hopscope.labels.records import PortCounter
from hopscope.labels.registers import Registers
from hopscope.testbed import namespaces, state
from hopscope.testbed.fabric import FabricPlan, TestbedError, longest_path, next_ports, plan, slot_bytes
from hopscope.testbed.status import port_rows
from support.processes.small_disk import small_disk

TOPOLOGIES = ("leaf-spine:2x2x2", "leaf-spine:3x1x2", "fat-tree:4")


@pytest.mark.parametrize("text", TOPOLOGIES)
def test_every_port_has_an_interface_and_every_link_two(text: str) -> None:
    """Ports of all switches have interfaces of their own with names that Linux takes, hosts addresses of
    their own; each port is joined to a host or, once, to another switch's port: the one that faces it.
    """
    topology = parse_topology(text)
    parts = plan(topology, "test", max_hop=5)
    names = [port.interface for port in parts.ports]
    assert len(set(names)) == len(names) == sum(topology.ports["switch"] >= 0)
    assert all(len(name) <= 15 for name in names)
    for field in ("name", "namespace", "ipv4", "ipv6", "mac"):
        assert len({getattr(host, field) for host in parts.hosts}) == topology.hosts
    joined = [end for link in parts.links for end in link]
    alone = [row for row, port in enumerate(parts.ports) if port.host >= 0]
    assert sorted([*joined, *alone]) == list(range(len(names)))
    for one, other in parts.links:
        assert topology.ports[parts.ports[one].row]["reverse"] == parts.ports[other].row
    assert parts.inner_mtu == 1500 + 2 + 5 * 32


@pytest.mark.parametrize("text", TOPOLOGIES)
def test_routes_are_those_of_the_topology(text: str) -> None:
    """What a switch may choose from towards a host is exactly what ECMP uses, over many flows."""
    topology = parse_topology(text)
    parts = plan(topology, "test", max_hop=5)
    used: dict[tuple[int, int], set[int]] = {}
    hosts = np.array(list(product(range(topology.hosts), repeat=2)))
    hosts = np.repeat(hosts[hosts[:, 0] != hosts[:, 1]], 40, axis=0)
    spread = flow_hash(hosts[:, 0], hosts[:, 1], 17, np.arange(len(hosts)), 7)
    row_of = {port.row: row for row, port in enumerate(parts.ports)}
    for (_, to), path in zip(hosts.tolist(), topology.paths(hosts[:, 0], hosts[:, 1], spread), strict=True):
        for port in path[1:]:
            if port >= 0:
                row = row_of[int(port)]
                used.setdefault((parts.ports[row].node, to), set()).add(row)
    found = {key: set(rows) for key, rows in next_ports(parts).items()}
    assert {key: found[key] for key in used} == used
    for (node, _), rows in found.items():  # others, as from a spine that no flow to it crosses, are its own
        assert {parts.ports[row].node for row in rows} == {node}


def test_routes_avoid_links_that_are_down() -> None:
    """Of two spines one is left, and then none; of a host whose own link is down nothing is known."""
    parts = plan(parse_topology("leaf-spine:2x2x2"), "test", max_hop=5)
    row = {(port.node, port.number): at for at, port in enumerate(parts.ports)}
    assert next_ports(parts)[1, 2] == [row[1, 3], row[1, 4]]
    down = {row[1, 3], row[3, 1]}  # leaf-0 to spine-0
    one = next_ports(parts, down)
    assert (one[1, 2], one[2, 0]) == ([row[1, 4]], [row[2, 4]])
    assert (one[3, 0], longest_path(parts, down)) == ([row[3, 2]], 3)
    down |= {row[1, 4], row[4, 1]}
    none = next_ports(parts, down)
    assert [host for node, host in none if node == 1] == [0, 1]
    assert longest_path(parts, down) == 1
    without = next_ports(parts, {row[1, 1]})
    assert not [node for node, host in without if host == 0]


def test_a_way_around_takes_more_switches() -> None:
    """Three leaves: with one link down at each of two leaves, packets cross the third."""
    parts = plan(parse_topology("leaf-spine:3x2x1"), "test", max_hop=5)
    row = {(port.node, port.number): at for at, port in enumerate(parts.ports)}
    down = {row[1, 2], row[4, 1], row[2, 3], row[5, 2]}  # leaf-0 to spine-0, leaf-1 to spine-1
    routes, at, path = next_ports(parts, down), 1, [1]
    while at != 2:
        (port,) = routes[at, 1]
        at = int(parts.topology.ports[parts.ports[port].row]["peer_switch"]) + 1
        path.append(at)
    assert path == [1, 5, 3, 4, 2]
    assert longest_path(parts, down) == 5


@pytest.mark.parametrize(("text", "switches"), [("leaf-spine:2x1x1", 3), ("fat-tree:4", 5), ("paper", 5)])
def test_longest_path(text: str, switches: int) -> None:
    """The MAX_hop that a fabric needs."""
    assert longest_path(plan(parse_topology(text), "test", max_hop=5)) == switches


def test_a_fabric_that_is_too_large_is_rejected() -> None:
    """A fabric with more ports than a machine has rings for is rejected before anything is made."""
    with pytest.raises(TestbedError, match="found 1536 switch ports, expected at most 256"):
        plan(parse_topology("leaf-spine:16x32x32"), "test", max_hop=5)
    assert slot_bytes(1500) == 2048 == slot_bytes(1920) < slot_bytes(1921) == 4096
    assert len(plan(parse_topology("leaf-spine:8x8x1"), "test", max_hop=5).ports) == 136
    with pytest.raises(TestbedError, match=r"found 136 switch ports, expected at most 76 .* 9000 bytes"):
        plan(parse_topology("leaf-spine:8x8x1"), "test", max_hop=5, inner_mtu=9000)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where fabrics are written down, for one test."""
    monkeypatch.setattr(state, "home", lambda: tmp_path)
    return tmp_path


def _written(name: str) -> state.FabricState:
    made = state.FabricState(name, "leaf-spine:2x2x2", 5, 1662, 0.05, "127.0.0.1:7254", "data")
    made.folder.mkdir()
    made.write()
    return made


def test_a_state_is_read_as_it_was_written(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are known by their start times too: another one with the same number is not taken for it."""
    made = _written("test")
    made.started("switches", os.getpid())
    made.processes["collector"] = (os.getpid(), 1)
    made.write()
    read = state.read("test")
    assert read is not None
    assert read == made
    assert read.running() == {"switches": True, "collector": False}
    assert isinstance(read.plan(), FabricPlan)
    assert state.running("test") == made
    monkeypatch.setattr(state, "found", lambda prefix: [f"{prefix}other.net", f"{prefix}B.net"])
    assert state.names() == ["other", "test"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"name": "test"}', '{"processes": 7}', '{"processes": {"a": [1]}}']
)
def test_a_damaged_state_is_none(home: Path, text: str) -> None:
    """Whatever stands in the file, nothing crashes: `down` must be able to remove it."""
    made = _written("test")
    (made.folder / state.STATE_FILE).write_text(text)
    assert state.read("test") is None
    with pytest.raises(TestbedError, match=r"'test' has ended, but .* hopscope fabric down --name test"):
        state.running("test")
    assert state.remove("test")
    assert not state.remove("test")
    with pytest.raises(TestbedError, match="no fabric 'test' is up"):
        state.running("test")


def test_a_later_schema_is_none(home: Path) -> None:
    """What another version wrote is not guessed at."""
    made = _written("test")
    told = json.loads((made.folder / state.STATE_FILE).read_text())
    (made.folder / state.STATE_FILE).write_text(json.dumps({**told, "schema": 2}))
    assert state.read("test") is None


@pytest.mark.parametrize("name", ["", "../up", "a.b", "A", "a/b", "x" * 33, "-a", "a b"])
def test_names_that_would_lead_elsewhere(name: str) -> None:
    """A name becomes part of paths: nothing but letters, digits and dashes is taken."""
    with pytest.raises(TestbedError, match="--name"):
        state.check_name(name)


def test_one_command_at_a_time(home: Path) -> None:
    """While one command makes a fabric, another one is rejected, and not one of another name."""
    with state.alone("test"):
        with pytest.raises(TestbedError, match="another hopscope fabric command"), state.alone("test"):
            pass
        with state.alone("other"):
            pass
    assert not list(home.iterdir())


def test_nothing_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user gets one line, before anything is tried."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(namespaces.NamespaceError, match="need root"):
        namespaces.require_root()


def test_rows_of_a_status() -> None:
    """Rates are those between two looks; drops of all kinds are one number; S and loss are the port's."""
    parts = plan(parse_topology("leaf-spine:2x2x2"), "test", max_hop=5)
    registers = Registers.create(None, [(port.node, port.number) for port in parts.ports], 50_000_000)
    before = registers.counters.copy()
    row = registers.row(3, 2)
    for counter, count in (("SENT", 500), ("LABELS", 40), ("LOST", 3), ("NO_ROOM", 4), ("RESTORED", 5)):
        registers.counters[row, PortCounter[counter]] = count
    registers.set_shift(3, 2, 2)
    registers.set_loss(3, 2, 0.1)
    rows = port_rows(parts, registers, before, 2.0)
    counters = rows[row].pop("counters")
    assert {name: count for name, count in counters.items() if count} == {
        "sent": 500, "labels": 40, "lost": 3, "no_room": 4, "restored": 5,
    }  # fmt: skip
    assert rows[row] == {
        "switch": "spine-0", "port": 2, "to": "leaf-1", "frames/s": 250.0, "labels/s": 20.0, "frames": 500,
        "labels": 40, "restored": 5, "S": 2, "flag": False, "loss": 0.1, "link": "up",
        "dropped": 7,
    }  # fmt: skip
    assert [one["switch"] for one, two in pairwise(rows) if one["switch"] != two["switch"]] == [
        "leaf-0", "leaf-1", "spine-0",
    ]  # fmt: skip
    assert not any(one["frames"] for at, one in enumerate(rows) if at != row)


def test_times_as_people_write_them() -> None:
    """us, ms, s, or seconds without a unit; anything else is reported with the flag."""
    assert [seconds_of("-", text) for text in ("50ms", "0.05s", "0.05", "5e4us")] == pytest.approx([0.05] * 4)
    for text in ("", "ms", "5 minutes", "fast"):
        with pytest.raises(HopscopeError, match="--interval"):
            seconds_of("--interval", text)


def test_tracked_flows_as_people_write_them() -> None:
    """Hosts by name are tracked in both IP versions, addresses in theirs; what cannot be is reported."""
    topology = parse_topology("leaf-spine:2x2x2")

    def flows(text: str) -> list[tuple[str, str, int]]:
        return [(one.src, one.dst, one.every) for one in tracked_flows(text, topology)]

    both = [("10.0.0.2", "10.0.1.3", 100), ("fd00::a00:2", "fd00::a00:103", 100)]
    assert flows("host-0-0:host-1-1") == both
    assert flows("10.0.0.2:host-1-1:7") == [("10.0.0.2", "10.0.1.3", 7)]
    assert flows("[fd00::a00:2]:[fd00::1]:1") == [("fd00::a00:2", "fd00::1", 1)]
    for text in ("", "host-0-0", "host-0-0:", "host-0-0:host-9-9", "host-0-0:host-1-1:0", "1.2.3.4:[::1]"):
        with pytest.raises(HopscopeError, match="--track"):
            flows(text)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ping", "--rate", "5M", "--seconds", "3"), "--rate, --seconds: not supported by ping"),
        (("tcp", "--size", "100", "--seed", "2"), "--size, --seed: not supported by tcp"),
        (("tcp", "--seconds", "0"), "--seconds 0: expected more"),
        (("ping", "--from", "a", "--from", "b"), "--from: found several hosts"),
        (("tcp", "--from", "all"), "--from: found several hosts"),
    ],
)
def test_unused_flags_are_rejected(words: tuple[str, ...], said: str) -> None:
    """What a kind of traffic would ignore is reported in one line."""
    flags = dict.fromkeys(("rate", "size", "seconds", "seed"))
    given = {name.removeprefix("--"): value for name, value in zip(words[1::2], words[2::2], strict=True)}
    source = [value for name, value in zip(words[1::2], words[2::2], strict=True) if name == "--from"]
    numbers = {name: float(value) for name, value in given.items() if name in ("size", "seconds", "seed")}
    values = {**flags, **numbers, "rate": given.get("rate")}
    with pytest.raises(HopscopeError, match=said):
        TrafficRequest(kind=words[0], source=source or None, **values).check()  # type: ignore[arg-type]


def test_a_name_in_another_mount_namespace_is_another_fabric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mark of a fabric's processes differs where another file system is mounted for fabrics, so that they
    are not ended there; it is the same before the folder of fabrics exists.
    """
    home = tmp_path / "fabric"
    monkeypatch.setattr(state, "home", lambda: home)
    before = state.mark_of("test")
    with small_disk(home, "1m"):
        assert state.mark_of("test") != before
    assert home.exists()
    assert state.mark_of("test") == before

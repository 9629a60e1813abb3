"""Registers of the switches: what one process writes, others read; wrong ports and foreign files are
reported.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.labels.records import MAX_TRACKED, PortCounter
from hopscope.labels.registers import KIND, VERSION, Registers, RegistersError
from hopscope.memory.region import Region, RegionError

PORTS = [(2, 1), (1, 3), (1, 1), (70_000, 65_535)]


def test_what_one_writes_another_reads(tmp_path: Path) -> None:
    """Every register and counter of a port is seen through another mapping, at the port's row."""
    path = tmp_path / "registers.region"
    written = Registers.create(path, PORTS, 50_000_000)
    seen = Registers.attach(path)
    assert list(zip(seen.node.tolist(), seen.number.tolist(), strict=True)) == sorted(PORTS)
    assert written.set_shift(70_000, 65_535, 7)
    written.flag[written.row(1, 3)] = 1
    written.set_loss(2, 1, 0.25)
    written.count(PortCounter.LABELS)[written.row(2, 1)] += np.uint64(5)
    assert seen.shift.tolist() == [0, 0, 0, 7]
    assert seen.flag.tolist() == [0, 1, 0, 0]
    assert np.allclose(seen.lossy(), [0, 0, 0.25, 0])
    assert seen.counters[2].tolist() == [5 if one is PortCounter.LABELS else 0 for one in PortCounter]
    assert seen.interval.tolist() == [50_000_000]
    with pytest.raises(ValueError, match="read-only"):
        seen.shift[0] = 1


def test_ports_that_there_are_not() -> None:
    """Unknown ports have no row, change nothing, and do not hit another port's."""
    registers = Registers.create(None, PORTS, 1)
    assert registers.rows([1, 2, 1, 0, 99_999], [1, 1, 2, 0, 1]).tolist() == [0, 2, -1, -1, -1]
    assert registers.rows([1], [(1 << 16) + 1]).tolist() == [-1]
    assert not registers.set_shift(1, 2, 3)
    assert not registers.shift.any()
    assert not registers.flag.any()
    with pytest.raises(RegistersError, match="found port 2 of switch 1"):
        registers.set_loss(1, 2, 0.5)
    assert Registers.create(None, [], 1).rows([1], [1]).tolist() == [-1]


def test_invalid_values() -> None:
    """A share outside of 0 to 1, a shift that is too high and a port named twice are rejected."""
    registers = Registers.create(None, PORTS, 1)
    registers.set_loss(1, 1, 1.0)
    assert registers.lossy()[0] == 1.0
    with pytest.raises(RegistersError, match="share"):
        registers.set_loss(1, 1, 1.5)
    with pytest.raises(RegistersError, match="S = 41"):
        registers.set_shift(1, 1, 41)
    with pytest.raises(RegistersError, match="twice"):
        Registers.create(None, [(1, 1), (1, 1)], 1)


def test_a_region_that_is_not_theirs(tmp_path: Path) -> None:
    """A region whose arrays do not match, or of another kind, is rejected with its name."""
    path = tmp_path / "registers.region"
    Region.create(path, KIND, VERSION, {"node": (np.uint32, 3)})
    with pytest.raises(RegionError, match="its arrays are not those"):
        Registers.attach(path)
    Region.create(path, "control", VERSION, {"node": (np.uint32, 3)})
    with pytest.raises(RegionError, match="of kind 'control'"):
        Registers.attach(path)


def test_tracked_flows_come_and_go(tmp_path: Path) -> None:
    """Flows by both addresses, IPv6 too; a second time changes how often; there is room for so many."""
    written = Registers.create(tmp_path / "registers.region", PORTS, 1)
    seen = Registers.attach(tmp_path / "registers.region")
    six, four = 0xFD00 << 112 | 7, 0xFFFF_0A000002
    written.track(four, four + 1, 10)
    written.track(six, six + 1, 20)
    written.track(four, four + 1, 30)
    assert list(seen.tracked_flows()) == [(four, four + 1, 30), (six, six + 1, 20)]
    written.untrack(four, four + 1)
    with pytest.raises(RegistersError, match="not tracked"):
        written.untrack(four, four + 1)
    written.track(1, 2, 5)
    assert list(seen.tracked_flows()) == [(1, 2, 5), (six, six + 1, 20)]
    assert seen.tracked_end.tolist() == [2]
    for flow in range(MAX_TRACKED - 2):
        written.track(flow, 99, 1)
    with pytest.raises(RegistersError, match="1,024 flows are tracked"):
        written.track(9_999, 99, 1)


def test_links_go_down_and_up(tmp_path: Path) -> None:
    """Both ends of a link are set at once, and each change is seen by the switches."""
    written = Registers.create(tmp_path / "registers.region", PORTS, 1)
    seen = Registers.attach(tmp_path / "registers.region")
    written.set_link([(1, 3), (2, 1)], up=False)
    assert (seen.down.tolist(), seen.changes.tolist()) == ([0, 1, 1, 0], [1])
    written.set_link([(1, 3), (2, 1)], up=True)
    assert (seen.down.tolist(), seen.changes.tolist()) == ([0, 0, 0, 0], [2])
    with pytest.raises(RegistersError, match="found port 9"):
        written.set_link([(1, 3), (2, 9)], up=False)
    assert not seen.down.any()

"""Counters of a process go on from an earlier one's, unless their source did, too."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from hopscope.base.counter import Counter
from hopscope.memory.counter_region import CounterFile

COUNTERS = (
    Counter("taken_total", "", of="taken"),
    Counter("kernel_drops_total", "", of="drops", absolute=True),
    Counter("ports", "", of="ports", gauge=True),
)


def test_a_restarted_process_counts_on(tmp_path: Path) -> None:
    """A total is added to what was there; a gauge and a total that outlived the process are not."""
    owner = SimpleNamespace(taken=5, drops=2, ports=7)
    file = CounterFile("x.counters", "x", 1, COUNTERS)
    file.open(tmp_path).collect(owner)
    again = file.open(tmp_path)
    owner.taken, owner.drops, owner.ports = 1, 3, 4
    again.collect(owner)
    again.collect(owner)
    assert again.values.tolist() == [6, 3, 4]

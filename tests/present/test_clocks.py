"""Offsets of switches' clocks."""

from __future__ import annotations

import numpy as np

from hopscope.detect.records import EVENT, NO_NODE
from hopscope.present.clocks import clock_offsets


def test_the_least_difference_of_each_switch_counts() -> None:
    """By hand: switch 7 is behind by 100 ns, 9 ahead by 40; without a time or a switch none is known."""
    events = np.zeros(6, EVENT)
    events["node_id"] = 7, 7, 9, 9, 3, NO_NODE
    events["time_ns"] = 1_000, 2_000, 5_000, 6_000, 7_000, 8_000
    events["switch_ns"] = 900, 1_700, 5_040, 5_950, 0, 1
    assert clock_offsets(events) == {7: 100, 9: -40}
    assert clock_offsets(events[:0]) == {}

"""Programs of a switch add what makes atomic time the time since 1970, also when that changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from hopscope.capture.errors import CaptureError
from hopscope.switch.clock import ClockFollower, epoch_ns, read_epoch
from hopscope.switch.labels.maps import LabelMaps
from hopscope.switch.labels.program import LabelProgram
from hopscope.switch.program import SwitchProgram
from support.network.switch_programs import LO, settings
from support.packets.packet_cases import Packet

SECOND = 1_000_000_000
HOP_AT, HOUR = 58, 3600 * SECOND
"""Where the first hop of a UDP packet over IPv4 begins."""


def written(program: SwitchProgram) -> int:
    """The time that it writes into a packet as it leaves, ns since 1970."""
    _, out = program.leave(Packet().frame(), egress=LO)
    return int.from_bytes(out[HOP_AT + 4 : HOP_AT + 12], "big")


def test_running_programs_follow_the_offset(load: Callable[..., SwitchProgram], pins: Path) -> None:
    """The offset changes by an hour: within a second, hops and labels have times of the new one."""
    load()
    steady, offset = 0.0, epoch_ns()
    chosen = settings(instructions=["node_id", "egress_timestamp"], label={}, pins=pins)
    with closing(SwitchProgram(chosen, pins=pins)) as program, closing(LabelProgram(chosen, 0, pins=pins)):
        program.allow(LO, 1500)
        follower = ClockFollower(pins, lambda: offset, lambda: steady)
        follower.turn()
        assert abs(written(program) - time.time_ns()) < HOUR // 2
        offset -= HOUR
        follower.turn()  # not due
        assert read_epoch(pins) == offset + HOUR
        steady = 1.0
        follower.turn()
        assert abs(written(program) + HOUR - time.time_ns()) < HOUR // 2
        assert read_epoch(pins) == offset
        with closing(LabelMaps.pinned(pins)) as maps:
            assert int(maps._control["epoch_ns"].astype("<i8")) == offset


def test_nothing_attached_is_no_error(pins: Path) -> None:
    """A controller's agent may run before programs do."""
    ClockFollower(pins, lambda: 0).turn()
    with pytest.raises(CaptureError, match="nothing is attached"):
        read_epoch(pins)


def test_the_offset_is_whole_seconds_of_one_moment() -> None:
    """Clocks are read again if one was set, or time passed, between the readings."""
    walls = iter([100, 100 + SECOND, 5 * SECOND, 4 * SECOND, 10 * SECOND, 10 * SECOND + 1000])
    atomics = iter([0, 0, 47 * SECOND + 900])
    assert epoch_ns(lambda: next(atomics), lambda: next(walls)) == -37 * SECOND

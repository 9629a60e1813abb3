"""The offset from the kernel's atomic time (CLOCK_TAI) to the time since 1970: BPF programs can read only the
first.

Chrony or ntpd tells the kernel the offset, 37 s; until then, usually soon after boot, it is 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np

from ..base.log import logger
from ..bpf.tc import pinned_memory
from ..capture.errors import CaptureError
from .labels.maps import LabelMaps
from .layout import CONTROL

LOOK_SECONDS = 1.0
"""Time between two checks of the offset."""
_APART_NS = 10**8
"""Both clocks are read again if reading them took this long, or if one was set meanwhile."""
_SECOND_NS = 10**9
log = logger("switch")


def tai_ns() -> int:
    """CLOCK_TAI, ns."""
    return time.clock_gettime_ns(time.CLOCK_TAI)


def epoch_ns(atomic: Callable[[], int] = tai_ns, wall: Callable[[], int] = time.time_ns) -> int:
    """Offset from `atomic` to the time since 1970, ns; whole seconds."""
    while True:
        before, ahead = wall(), atomic()
        if 0 <= wall() - before < _APART_NS:
            return -round((ahead - before) / _SECOND_NS) * _SECOND_NS


def read_epoch(pins: Path) -> int:
    """Offset that the attached programs add, ns. Raises CaptureError if nothing is attached."""
    return int(_control(pins)["epoch_ns"].astype(np.int64))


class ClockFollower:
    """Checks the offset once a second, and passes it to the attached programs."""

    def __init__(
        self,
        pins: Path,
        read: Callable[[], int] = epoch_ns,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        """`read` gives the offset that programs should add, ns; `steady` the seconds of a monotonic clock."""
        self._pins, self._read, self._steady = pins, read, steady
        self._due = steady()

    def turn(self) -> int:
        """Call `look` if it is due; returns 0."""
        if self._steady() < self._due:
            return 0
        self._due = self._steady() + LOOK_SECONDS
        self.look()
        return 0

    def look(self) -> None:
        """Pass the current offset to the programs of INT and INT-label."""
        with suppress(CaptureError):  # nothing is attached now
            self._follow()

    def drain(self) -> None:
        """Does nothing: nothing waits."""

    def close(self) -> None:
        """Does nothing: nothing is open."""

    def _follow(self) -> None:
        right, control = self._read(), _control(self._pins)
        off = right - int(control["epoch_ns"].astype(np.int64))
        control["epoch_ns"] = right % 2**64
        if (self._pins / "label_control").exists():
            with closing(LabelMaps.pinned(self._pins)) as maps:
                maps.set_epoch(right)
        if off:
            log.warning(
                "the offset of atomic time from UTC changed: times of INT and labels were wrong until now",
                seconds=abs(off) // _SECOND_NS,
            )


def _control(pins: Path) -> np.void:
    """CONTROL in the map that INT's programs read. Raises CaptureError."""
    try:
        return pinned_memory(pins / "control", CONTROL)[0]
    except CaptureError as error:
        raise CaptureError(f"nothing is attached, or by an earlier version ({error})") from error

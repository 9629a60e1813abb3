"""Waiting for something to happen, however busy the machine is."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
HANG_SECONDS = float(os.environ.get("HANG_SECONDS", "300"))
"""No test needs this long: what has not happened by then hangs. It decides no test that works; less
saves time while a test is mended.
"""


_LONGEST_PAUSE = 0.2


def eventually(condition: Callable[[], T], what: object = "it did not happen", every: float = 0.01) -> T:
    """The first true value of `condition`, asked again and again; fails with `what` if it never comes.

    What takes long to ask is asked less often: queries to a server would keep it from what is waited for.
    """
    until = (asked := time.monotonic()) + HANG_SECONDS
    while not (value := condition()):
        answered = time.monotonic()
        assert answered < until, what() if callable(what) else what
        time.sleep(max(every, min(3 * (answered - asked), _LONGEST_PAUSE)))
        asked = time.monotonic()
    return value

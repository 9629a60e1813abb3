"""What the kernels of this folder and their callers share."""

from __future__ import annotations

from enum import IntEnum


class Came(IntEnum):
    """How far a chain came with a batch."""

    NOWHERE = 0
    """The decoder's blocks have no room for it, or it has no frames."""
    TO_POSTCARDS = 1
    """It is decoded and counted; postcards have to be joined before detection."""
    TO_EVENTS = 2
    """Detection has found events, or has no room for more; it goes on with `Detector.resume`."""
    TO_THE_END = 3
    ASTRAY = 4
    """An index was out of bounds (only with bounds checks)."""

"""Sets of numbers as text: `1-20,25`."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from .store import StoreError

FORM = re.compile(r"\d{1,10}(-\d{1,10})?(,\d{1,10}(-\d{1,10})?)*")
MAX_NUMBERS = 1 << 24


def parse_numbers(text: str, limit: int = MAX_NUMBERS) -> npt.NDArray[np.uint32]:
    """The numbers of `1-20,25`, uint32 [numbers]. Raises StoreError."""
    wrong = (
        f"found {text[:40]!r}, expected a range of at most {limit:,} numbers of 32 bits, "
        "or several, such as 1-20,25"
    )
    if not FORM.fullmatch(text):
        raise StoreError(wrong)
    parts, count = [], 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        low, high = int(first), int(last or first)
        count += high - low + 1
        if not low <= high < 1 << 32 or count > limit:
            raise StoreError(wrong)
        parts.append(np.arange(low, high + 1, dtype=np.uint32))
    return np.concatenate(parts)


def show_numbers(numbers: npt.ArrayLike) -> str:
    """The inverse of `parse_numbers`, for numbers in any order."""
    distinct = np.unique(np.asarray(numbers, np.uint64))
    starts = np.flatnonzero(np.diff(distinct, prepend=distinct[:1]) != 1)
    runs = np.split(distinct, starts[starts > 0])
    return ",".join(
        str(int(run[0])) if len(run) == 1 else f"{int(run[0])}-{int(run[-1])}" for run in runs if len(run)
    )

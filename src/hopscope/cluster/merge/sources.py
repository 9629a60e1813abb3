"""Sources whose reports reached several members: a report is lost if no member received it.

Each member counts the sequence numbers that it saw: how many, the highest, and how many were missing, which
are those that it counts as lost, and those for which other members account (`moved`, see `detect.moved`).
Together, the members' numbers span a stretch; numbers in it that any member received are not lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import TypeAlias

from ...present.events import wide
from .values import Item, newest, number, total

_End: TypeAlias = tuple[int, int]
"""(time in ns, number) of the begin or end of a stretch."""
_NO_GAP = {22: 1 << 20, 32: 1 << 24}
"""How many numbers may be missing between two members' stretches, by bits. With more, the source has
restarted, as in `detect/flows/source_table_kernel`.
"""


def by_source(items: Mapping[str, Sequence[Item]]) -> dict[object, dict[str, Item]]:
    """Rows by source and member, from those of all members."""
    found: dict[object, dict[str, Item]] = {}
    for member, some in items.items():
        for item in some:
            key = item["address"], int(item["node"]["id"]), int(item["hw_id"])
            found.setdefault(key, {})[member] = item
    return found


def merged_source(parts: Sequence[Item]) -> Item:
    """One source, merged from the rows of all members that know it."""
    last = newest(parts)
    return {
        **last,
        "received": total(parts, "received"),
        "duplicate": total(parts, "duplicate"),
        "reordered": total(parts, "reordered"),
        "lost": wide(lost(parts)),
        "lost_at_most": is_at_most(parts),
        "moved": total(parts, "moved"),
        "silent": all(part["silent"] for part in parts),
        "first_seen": min(str(part["first_seen"]) for part in parts),
        "counted_since": max((since for part in parts if (since := part.get("counted_since"))), default=None),
    }


def is_at_most(parts: Sequence[Item]) -> bool:
    """Whether `lost` is an upper bound, because a member may have received some of the source's numbers
    before it was restarted: it started after the first report, or other members account for fewer numbers
    than were found at them.
    """
    if not lost(parts):
        return False
    begin = min(_ns(part["first_seen"]) for part in parts)
    starts = [(_ns(since), _ns(part["first_seen"])) for part in parts if (since := part.get("counted_since"))]
    accounted = [_received(part) + number(part["lost"]) + number(part["moved"]) for part in parts]
    found = [number(part["moved"]) for part in parts]
    return any(begin < since <= first for since, first in starts) or any(
        moved > sum(accounted) - own for moved, own in zip(found, accounted, strict=True)
    )


def lost(parts: Sequence[Item]) -> int:
    """How many of the numbers that the rows of one source span no member received."""
    missing = 0
    while parts:
        first, *others = sorted(parts, key=lambda part: str(part["first_seen"]))
        (begin, end), received = _stretch(first), _received(first)
        placed, apart = list(_ends(first, end)), []
        for part in others:
            last = _placed(part, placed) if part["sequence_bits"] == first["sequence_bits"] else None
            if last is None:  # it counts a different numbering
                apart.append(part)
                continue
            placed += _ends(part, last)
            begin, end = min(begin, placed[-2][1]), max(end, last)
            received += _received(part)
        missing += max(0, end - begin + 1 - received)
        parts = apart
    return missing


def _received(part: Item) -> int:
    """How many different numbers a member received."""
    return max(0, int(number(part["received"])) - int(number(part["duplicate"])))


def _stretch(part: Item) -> tuple[int, int]:
    """First and last number that a row spans; the last as it was sent."""
    end = number(part["highest_sequence"])
    return end - _received(part) - number(part["lost"]) - number(part["moved"]) + 1, end


def _placed(part: Item, placed: Sequence[_End]) -> int | None:
    """The last number of `part`, extended beyond the width of the field so that it fits the other stretches,
    whose ends are `placed`. The two ends that are nearest in time must be near each other in number; None:
    they are too far apart.
    """
    bits, last = int(part["sequence_bits"]), number(part["highest_sequence"])
    if bits not in _NO_GAP:
        return None
    ours = _ends(part, last)
    (_, here), (_, there) = min(product(placed, ours), key=lambda ends: abs(ends[0][0] - ends[1][0]))
    half = 1 << bits - 1
    step = (there - here + half) % (2 * half) - half
    return last + here + step - there if abs(step) <= _NO_GAP[bits] else None


def _ends(part: Item, last: int) -> tuple[_End, _End]:
    """The ends of a stretch up to the number `last`."""
    begin, end = _stretch(part)
    return (_ns(part["first_seen"]), begin + last - end), (_ns(part["last_seen"]), last)


def _ns(text: str) -> int:
    """ns since the epoch of a time as the API shows it."""
    if text.isdecimal():  # beyond the range of calendars
        return int(text)
    whole, _, rest = text.removesuffix("Z").partition(".")
    return round(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 10**9 + int(f"{rest:0<9}"[:9] or 0)

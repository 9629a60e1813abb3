"""Sequence spaces that several members had: the numbers for which each of them accounts.

A source that moves from one member to another and back leaves a gap in the numbers of the first. A number in
this gap is not lost at the first member if another member received an earlier number in the gap, and this
number or a later one: that member then either received it, or itself counts it as lost. So every lost number
counts once, at the member that received the number before it.

Members exchange what they received only while it may matter: when a space appears, resumes after a pause, or
has a gap. Then its SUMMARY goes to all members as a question; those that know the space answer with their
own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from ...detect.moved import CORRECTION, SPACE
from ...wire.records import Records

GAPS = 16
"""How many of the newest gaps of a space are kept and sent."""
ASK_NS = 5_000_000_000
"""How long questions about a space, and answers, are repeated, since messages may be lost."""
MEMBERS = 100
"""Maximum number of members whose summaries of one space are kept."""
SPACES = 2000
"""Maximum number of summaries in a turn."""
SUMMARY = np.dtype(
    [
        ("source_hi", "<u8"),
        ("source_lo", "<u8"),
        ("node_id", "<u4"),
        ("hw_id", "<u4"),
        ("bits", "<u4"),
        ("known", "<u4"),  # a number that was received, from which on all gaps are listed
        ("highest", "<u4"),  # the last one that was received
        ("asks", "u1"),  # 1: members that know the space shall answer
        ("gap_count", "u1"),
        ("reserved", "<u2"),
        ("age_ns", "<i8"),  # time since the last report
        ("gaps", "<u4", (GAPS, 2)),  # first number and count, oldest first
    ]
)
"""What a member received of a sequence space, 176 bytes."""
_ROW = (*SPACE, "first", "highest", "received", "last_ns", "restarts", "lost")
Key = tuple[int, int, int, int, int]
"""Fields of SPACE."""


@dataclass(slots=True)
class _Gap:
    first: int
    count: int
    at_ns: int
    before_ns: int
    """Time of a report before it."""
    moved: int = 0
    """How many of its numbers were found not to be lost."""


@dataclass(slots=True)
class _Space:
    """One sequence space of this member. Times are by this member's clock."""

    known: int
    highest: int
    received: int
    last_ns: int
    restarts: int
    shown: int = 0
    """Highest number one turn ago; all gaps before it are known now."""
    before_ns: int = 0
    """Time of its last report, as of one turn ago."""
    quiet: bool = False
    """Whether no report arrived in the last turn."""
    ask_until_ns: int = 0
    answer_until_ns: int = 0
    arrived_ns: int | None = None
    """When it appeared or resumed; None once the member that had it is found."""
    left_ns: int | None = None
    """Time of the last report before that; None: it is new here."""
    gaps: deque[_Gap] = field(default_factory=deque)


@dataclass(frozen=True, slots=True)
class MovedSource:
    """A source that another member had."""

    key: Key
    member: str
    age_ns: int
    """Time since its last report at the other member."""


class Spaces:
    """The sequence spaces of this member, and other members' summaries of them."""

    def __init__(self, idle_ns: int) -> None:
        self._idle_ns = idle_ns
        self._own: dict[Key, _Space] = {}
        self._others: dict[Key, dict[str, tuple[int, np.void]]] = {}
        self._begun = False

    def __len__(self) -> int:
        return len(self._own)

    def look(self, rows: Records, now_ns: int) -> None:
        """Take the table of sources, SOURCE [rows], once a second; `now_ns` since the epoch."""
        gone = set(self._own)
        used = rows[rows["bits"] != 0]
        for *of_key, first, highest, received, last_ns, restarts, lost in zip(
            *(used[name].tolist() for name in _ROW), strict=True
        ):
            key: Key = tuple(of_key)  # type: ignore[assignment]
            space = self._own.get(key)
            if space is None:
                known = first if self._begun or not (lost or restarts) else highest  # gaps before are unknown
                space = self._own[key] = _Space(known, highest, received, last_ns, restarts, shown=highest)
                if self._begun:
                    self._arrives(space, None, now_ns)
                continue
            gone.discard(key)
            if restarts != space.restarts:
                space.known, space.restarts = first, restarts
                space.gaps.clear()
            moving = received != space.received
            if moving and space.quiet:
                self._arrives(space, space.last_ns, now_ns)
            space.quiet = not moving
            space.shown, space.highest = space.highest, highest
            space.before_ns, space.last_ns, space.received = space.last_ns, last_ns, received
            while space.gaps and now_ns - space.gaps[0].at_ns > 2 * self._idle_ns:
                _forget_gap(space, key[4])
            _limit(space, key[4])
        for key in gone:
            del self._own[key]
            self._others.pop(key, None)
        self._begun = True

    def gap(self, source: tuple[int, int], node: int, hw: int, first: int, count: int, now_ns: int) -> None:
        """Take a GAP event of this member."""
        for key in ((*source, node, hw, 22), (*source, node, hw, 32), (*source, 0, hw, 32)):
            space = self._own.get(key)
            if space is None:
                continue
            if len(space.gaps) == GAPS:
                _forget_gap(space, key[4])
            space.gaps.append(_Gap(first, count, now_ns, space.before_ns))
            space.ask_until_ns = now_ns + ASK_NS
            return

    def summaries(self, now_ns: int) -> Records:
        """SUMMARY of the spaces to send now, questions first, at most SPACES."""
        due = [
            (key, space)
            for key, space in self._own.items()
            if now_ns < max(space.ask_until_ns, space.answer_until_ns)
        ]
        due.sort(key=lambda pair: pair[1].ask_until_ns <= now_ns)
        made = np.zeros(len(due), SUMMARY)
        for row, (key, space) in zip(made, due, strict=True):
            for name, value in zip(SPACE, key, strict=True):
                row[name] = value
            row["known"], row["highest"] = space.known, space.shown
            row["asks"], row["gap_count"] = now_ns < space.ask_until_ns, len(space.gaps)
            row["age_ns"] = max(0, now_ns - space.last_ns)
            for at, gap in enumerate(space.gaps):
                row["gaps"][at] = gap.first, gap.count
        return made

    def take(self, member: str, summaries: Records, now_ns: int) -> Iterator[MovedSource]:
        """Take another member's summaries; yield the sources that have moved from there to this member."""
        for row in summaries:
            key: Key = tuple(int(row[name]) for name in SPACE)  # type: ignore[assignment]
            space = self._own.get(key)
            if space is None or int(row["gap_count"]) > GAPS:
                continue
            others = self._others.setdefault(key, {})
            if member not in others and len(others) >= MEMBERS:  # senders can claim any name
                continue
            others[member] = now_ns, row.copy()  # not the whole message
            if row["asks"]:
                space.answer_until_ns = now_ns + ASK_NS
            age = int(row["age_ns"])
            since_ns = self._idle_ns if space.left_ns is None else min(now_ns - space.left_ns, self._idle_ns)
            arrived_ns = space.arrived_ns
            if arrived_ns is not None and now_ns - arrived_ns <= min(age, ASK_NS) and age <= since_ns:
                space.arrived_ns = None
                yield MovedSource(key, member, age)

    def corrections(self, now_ns: int) -> Records:
        """CORRECTION of the gaps in which more numbers were found not to be lost."""
        found = []
        for key, others in self._others.items():
            space = self._own[key]
            for member, (at_ns, _) in list(others.items()):
                if now_ns - at_ns > 2 * self._idle_ns:
                    del others[member]
            moved = 0
            for gap in space.gaps:
                if now_ns - gap.at_ns > 2 * self._idle_ns:
                    continue
                away_ns = now_ns - gap.before_ns + 1_000_000_000
                rows = [
                    row for at_ns, row in others.values() if int(row["age_ns"]) + now_ns - at_ns < away_ns
                ]
                total = accounted(gap.first, gap.count, rows, key[4])
                moved += max(0, total - gap.moved)
                gap.moved = max(total, gap.moved)
            if moved:
                found.append((*key, 0, moved))
        return np.array(found, CORRECTION)

    def _arrives(self, space: _Space, left_ns: int | None, now_ns: int) -> None:
        space.arrived_ns, space.left_ns = now_ns, left_ns
        space.ask_until_ns = now_ns + ASK_NS
        space.quiet = False


def _forget_gap(space: _Space, bits: int) -> None:
    """Forget the oldest gap, and all numbers before it."""
    gap = space.gaps.popleft()
    space.known = (gap.first + gap.count) % (1 << bits)


def _limit(space: _Space, bits: int) -> None:
    """Limit the known range to a quarter of all numbers: of two numbers half the range apart, neither is the
    later one.
    """
    quarter = 1 << (bits - 2)
    if _from(space.known, space.highest, bits) >= quarter:
        gaps = [(gap.first, gap.count) for gap in space.gaps]
        space.known = _after_gaps((space.highest - quarter // 2) % (1 << bits), gaps, bits)


def accounted(first: int, count: int, summaries: Iterable[np.void], bits: int) -> int:
    """How many of the `count` numbers from `first` on other members account for."""
    spans = []
    for row in summaries:
        gaps = row["gaps"][: int(row["gap_count"])].tolist()
        half = 1 << (bits - 1)
        known, highest = (
            (int(row[name]) - first + half) % (1 << bits) - half for name in ("known", "highest")
        )
        if known > highest:
            continue
        begin = _from(first, _after_gaps((first + max(0, known)) % (1 << bits), gaps, bits), bits)
        end = min(count - 1, highest)
        if begin <= end:
            spans.append((begin, end))
    total, reached = 0, -1
    for begin, end in sorted(spans):
        total += max(0, end - max(begin - 1, reached))
        reached = max(reached, end)
    return total


def _after_gaps(number: int, gaps: Iterable[Iterable[int]], bits: int) -> int:
    """The number, or, if it is in a gap, the next one that was received."""
    for first, count in gaps:
        if _from(first, number, bits) < count:
            return (first + count) % (1 << bits)
    return number


def _from(first: int, number: int, bits: int) -> int:
    """Distance from the first number to the other."""
    return (number - first) % (1 << bits)

"""Where a page of a cluster's events ends: `after` of the next one.

Events of all members are ordered by time, then member, shard and sequence; newest first, by all of them
downwards.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..history.files import HistoryError

PATTERN = r"\d{1,19}-\d{1,5}-\d{1,20}-[A-Za-z0-9._-]{1,64}"
_FIRST, _LAST = "0-0", f"{2**16 - 1}-{2**64 - 1}"
"""Shard and sequence before and after all others."""


@dataclass(frozen=True, slots=True)
class ClusterCursor:
    """The last event of a page."""

    time_ns: int
    member: str
    shard: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> ClusterCursor:
        """Raises HistoryError."""
        if re.fullmatch(PATTERN, text) is None:
            raise HistoryError(f"after: expected what a page of the cluster gave, found {text[:60]!r}")
        time_ns, shard, sequence, member = text.split("-", 3)
        return cls(int(time_ns), member, int(shard), int(sequence))

    def __str__(self) -> str:
        return f"{self.time_ns}-{self.shard}-{self.sequence}-{self.member}"

    def of(self, member: str, order: Literal["newest", "oldest"]) -> str:
        """What a member's own history takes as `after` to continue with its first event that comes after
        this one.
        """
        if member == self.member:
            return f"{self.time_ns}-{self.shard}-{self.sequence}"
        all_to_come = (member < self.member) == (order == "newest")
        if order == "newest":
            return f"{self.time_ns}-{_LAST if all_to_come else _FIRST}"
        return f"{self.time_ns - all_to_come}-{_LAST}"

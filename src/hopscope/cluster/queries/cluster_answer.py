"""States which members answered a query to a cluster; part of every answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ...history.history_like import HistoryLike


@dataclass(frozen=True, slots=True)
class ClusterAnswer:
    """The members that contributed to an answer."""

    answered: tuple[str, ...] = ()
    """Names of the members whose answers are included."""
    missing: Mapping[str, str] = field(default_factory=dict)
    """Members that are not included, with the reason."""
    local_only: str = ""
    """Why the cluster could not be asked, so that the answer is this member's alone; empty: it was."""
    without_lake: str = ""
    """Why the lake could not be asked, so that events are from the members' own histories; empty: it was, or
    there is none.
    """

    @property
    def complete(self) -> bool:
        """Whether all known members have answered, and the lake, if there is one."""
        return not (self.missing or self.local_only or self.without_lake)

    @property
    def line(self) -> str:
        """What is missing, in one line; empty: nothing."""
        lacking = [f"local only: {self.local_only}"] if self.local_only else []
        if self.without_lake:
            lacking.append(f"local history only, without the lake: {self.without_lake}")
        if self.missing:
            every = len(self.answered) + len(self.missing)
            reasons = ", ".join(f"{name} ({reason})" for name, reason in sorted(self.missing.items()))
            lacking.append(f"answered by {len(self.answered)} of {every} members; missing: {reasons}")
        return "; ".join(lacking)

    def as_json(self) -> dict[str, Any]:
        """The object `cluster` of an answer of the API."""
        return {
            "answered": list(self.answered),
            "missing": dict(self.missing),
            "complete": self.complete,
            "local_only": self.local_only or None,
            "without_lake": self.without_lake or None,
        }

    def joined(self, other: ClusterAnswer) -> ClusterAnswer:
        """For an answer that needed both: members missing in either are missing in it."""
        missing = {**self.missing, **other.missing}
        answered = sorted(({*self.answered} | {*other.answered}) - missing.keys())
        return ClusterAnswer(
            tuple(answered),
            missing,
            self.local_only or other.local_only,
            self.without_lake or other.without_lake,
        )


class ClusterHistory(HistoryLike, Protocol):
    """History of all members. Tables have the column `member` first. One thread uses it at a time."""

    answer: ClusterAnswer
    """Who answered since it was opened."""

"""The end of a page of events of all members, which is the argument `after` for the next page.

Events are ordered by time, then member, shard, sequence and incarnation. With the newest first, all of them
are descending; the order `sequence` leaves out the time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..history.columns import quoted
from ..history.errors import HistoryError
from ..history.reading.filters import Filters, to_ns
from ..wire.records import Records

if TYPE_CHECKING:
    from ..history.reading.page import Order
    from ..history.reading.table import Table

PATTERN = r"\d{1,19}-\d{1,5}-\d{1,20}-[A-Za-z0-9._-]{1,64}(@[A-Za-z0-9_-]{1,64})?"
_KEY = ("time", "member", "shard", "sequence", "incarnation")
_FIRST, _LAST = "0-0", f"{2**16 - 1}-{2**64 - 1}"
"""A shard and sequence before, and after, all others."""


def order_sql(order: Order) -> str:
    """The columns for ORDER BY."""
    down = " DESC" if order == "newest" else ""
    return ", ".join(f"{column}{down}" for column in _KEY[order == "sequence" :])


@dataclass(frozen=True, slots=True)
class ClusterCursor:
    """The last event of a page. Without `incarnation`, it stands for all incarnations of the member."""

    time_ns: int
    member: str
    shard: int
    sequence: int
    incarnation: str = ""

    @classmethod
    def parse(cls, text: str) -> ClusterCursor:
        """Read the text form of a cursor. Raises HistoryError."""
        if re.fullmatch(PATTERN, text) is None:
            raise HistoryError(f"after: expected the `after` of a page of the cluster, found {text[:60]!r}")
        time_ns, shard, sequence, member = text.split("-", 3)
        member, _, incarnation = member.partition("@")
        return cls(int(time_ns), member, int(shard), int(sequence), incarnation)

    @classmethod
    def last(cls, table: Table) -> ClusterCursor:
        """The cursor of the last row of a table of events, which must not be empty."""
        found: list[Any] = [table[name][-1:].tolist()[0] for name in _KEY[1:]]
        return cls(int(table["time"][-1:].astype(np.int64)[0]), *found)

    def __str__(self) -> str:
        incarnation = f"@{self.incarnation}" if self.incarnation else ""
        return f"{self.time_ns}-{self.shard}-{self.sequence}-{self.member}{incarnation}"

    def of(self, member: str, order: Order) -> str:
        """The argument `after` for a member's own history, which then continues with the member's first event
        after this one.
        """
        if member == self.member:
            return f"{self.time_ns}-{self.shard}-{self.sequence}"
        comes_later = (member < self.member) == (order == "newest")
        if order == "newest":
            return f"{self.time_ns}-{_LAST if comes_later else _FIRST}"
        return f"{self.time_ns - comes_later}-{_LAST}"

    def limited(self, filters: Filters, order: Order) -> Filters:
        """The filters, with their time range limited to the page after this event."""
        start, end = filters.get("start"), filters.get("end")
        if order == "newest":
            ends = [self.time_ns + 1, *([] if end is None else [to_ns(end)])]
            return filters | {"end": min(ends)}
        if order == "oldest":
            return filters | {"start": max(self.time_ns, -(2**63) if start is None else to_ns(start))}
        return filters

    def sql(self, order: Order) -> str:
        """The SQL condition of events that come after this one."""
        key = [
            f"make_timestamp_ns({self.time_ns})",
            quoted(self.member),
            f"{self.shard}::USMALLINT",
            f"{self.sequence}::UBIGINT",
            quoted(self.incarnation),
        ][: 5 if self.incarnation else 4]
        sign, later = "<" if order == "newest" else ">", ""
        for column, value in reversed(list(zip(_KEY, key, strict=False))[order == "sequence" :]):
            # with a comparison of rows, DuckDB could not skip files
            later = f"({column} {sign} {value}" + (f" OR ({column} = {value} AND {later}))" if later else ")")
        return later if order == "sequence" else f"time {sign}= {key[0]} AND {later}"

    def mask(self, rows: Records, member: str, incarnation: str, order: Order) -> npt.NDArray[np.bool_]:
        """bool [rows]: which events of a member come after this one."""
        newest = order == "newest"

        def strictly(values: Any, bound: Any) -> Any:
            return values < bound if newest else values > bound

        ours = (member == self.member) & (
            strictly(incarnation, self.incarnation) if self.incarnation else False
        )
        later = np.full(len(rows), ours, np.bool_)
        if member == self.member:
            for name, bound in (("sequence", self.sequence), ("shard", self.shard)):
                later = strictly(rows[name], bound) | ((rows[name] == bound) & later)
        else:
            later[:] = strictly(member, self.member)
        if order == "sequence":
            return later
        times = rows["time_ns"]
        return strictly(times, self.time_ns) | ((times == self.time_ns) & later)

"""Queries while keys move between collectors: first to the current owners, then to previous owners of a key.

A new table of owners does not move keys that are already in memory: a key stays at the owner under the table
that was valid when it was written. So each table starts a generation. A query asks the owner in the newest
generation; if that does not find the key, it asks the owners in older generations, as long as their memory
from that time is kept:

    a key of a generation that ended at T is in the current epoch of its owner until T + epoch_seconds at the
    latest, and in its history until T + (1 + keep_epochs) * epoch_seconds at the latest. Without epochs it is
    there until other keys overwrite it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..stores.answers import UNREACHABLE, QueryOptions
from ..stores.store import Layout, StoreError
from .collector import Collector, CollectorError, Epoch
from .group import Answer, CollectorGroup

ADDED = ("key-increment", "cardinality")
"""Primitives for which each collector that had a key has a part of its value."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Which collectors had which keys, from one change of the table to the next."""

    number: int
    group: CollectorGroup
    until_ns: int | None = None
    """Time at which the next generation took effect, ns since 1970; None: this is the current one."""
    begins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Epoch of each store when the generation began, by name of the collector: earlier epochs have no keys of
    it.
    """


@dataclass(frozen=True, slots=True)
class Retention:
    """How long memory is kept; the same at all collectors."""

    epoch_ns: int = 0
    """Length of an epoch; 0: they never end."""
    epochs: int = 0
    """Past epochs that are kept."""

    def answers_until(self, until_ns: int, epoch: Epoch) -> int | None:
        """Time until which a generation that ended at `until_ns` may answer; None: forever."""
        if not self.epoch_ns:
            return None
        return until_ns + self.epoch_ns * (1 if epoch is None else 1 + self.epochs)


class CollectorGenerations(CollectorGroup):
    """Generations of owners, oldest first; the last is the current one. Has the methods of a
    `CollectorGroup`.

    Answers from the owner in an older generation have its number as `generation`. For a counter that moved in
    the current epoch, the answer is the sum of its parts; for a sketch that moved, it is the larger part,
    with a `reason`. A list is read at its older owners first.
    """

    def __init__(self, generations: Sequence[Generation], kept: Retention) -> None:
        self._generations, self._kept = tuple(generations), kept
        self._newest = self._generations[-1]
        every = {each.name: each for item in reversed(self._generations) for each in item.group.collectors}
        super().__init__(tuple(every.values()))

    def query(self, store: str, texts: Sequence[str], options: QueryOptions, epoch: Epoch) -> list[Answer]:
        """See `CollectorGroup.query`."""
        generations = self._answering(epoch)
        if len(generations) == 1 and not isinstance(epoch, int):
            return self._ask(self._newest.group, store, texts, options, epoch)
        layout = self._layout(store)
        has = self._epochs(store, epoch) if isinstance(epoch, int) else None
        parts: list[list[Answer]] = [[] for _ in texts]
        asked: list[set[str]] = [set() for _ in texts]
        added = epoch is None and layout.name in ADDED
        for generation in generations:
            owners = generation.group.owners(layout, texts)
            rows = [
                row
                for row, names in enumerate(owners)
                if not names <= asked[row]
                and (added or all(part["status"] not in ("found", UNREACHABLE) for part in parts[row]))
                and (has is None or self._may_have(generation, names, store, epoch, has))
            ]
            if not rows:
                continue
            found = self._ask(generation.group, store, [texts[row] for row in rows], options, epoch)
            for row, answer in zip(rows, found, strict=True):
                asked[row] |= owners[row]
                older = generation is not self._newest and answer["status"] == "found"
                parts[row].append({**answer, "generation": generation.number} if older else answer)
        missing = {"status": "empty", "reason": f"no owner has epoch {epoch}"}
        return [
            _merged(layout.name, each) if each else {"key": text, **missing}
            for text, each in zip(texts, parts, strict=True)
        ]

    def owners(self, layout: Layout, texts: Sequence[str]) -> list[frozenset[str]]:
        """Names of the collectors that have each key now."""
        return self._newest.group.owners(layout, texts)

    def _layout(self, store: str) -> Layout:
        """Layout of a store. Raises StoreError if it is not spread over the shares: lists that each collector
        numbers itself would change their numbers with the owners.
        """
        layout = super()._layout(store)
        if layout.collectors != self._newest.group.share_count:
            raise StoreError(
                f"store {store} is spread over {layout.collectors} collectors, the table of owners has "
                f"{self._newest.group.share_count} shares"
            )
        return layout

    def read_list(
        self, store: str, number: int, after: str | None = None, limit: int = 4096
    ) -> tuple[list[str], int, str]:
        """See `CollectorGroup.read_list`; the place is NAME:PLACE for each owner, separated by commas."""
        places = dict(part.partition(":")[::2] for part in after.split(",")) if after else {}
        lost, entries = 0, []
        for name, group in self._owners_of_list(store, number):
            entries, gone, places[name] = group.read_list(store, number, places.get(name), limit)
            lost += gone
            if entries:
                break
        return entries, lost, ",".join(f"{name}:{place}" for name, place in places.items())

    def _owners_of_list(self, store: str, number: int) -> list[tuple[str, CollectorGroup]]:
        """The owners that may have entries, each once, the current one last."""
        layout = self._layout(store)
        found: dict[str, CollectorGroup] = {}
        for generation in self._answering(None):
            ((name,),) = generation.group.owners(layout, [f"0x{number:016x}"])
            found.setdefault(name, generation.group)
        return list(reversed(found.items()))

    @staticmethod
    def _ask(
        group: CollectorGroup, store: str, texts: Sequence[str], options: QueryOptions, epoch: Epoch
    ) -> list[Answer]:
        """`query` of the group, but answers name the collector, or say that it is unreachable, even if it is
        the only one.
        """
        only, *others = group.collectors
        if others:
            return group.query(store, texts, options, epoch)
        try:
            found = group.query(store, texts, options, epoch)
        except CollectorError as error:
            found = [{"key": text, "status": UNREACHABLE, "reason": str(error)} for text in texts]
        return [{**answer, "collector": only.name} for answer in found]

    def _answering(self, epoch: Epoch) -> list[Generation]:
        """Generations that may have an answer, newest first."""
        now = time.time_ns()
        found = [self._newest]
        for generation in reversed(self._generations[:-1]):
            assert generation.until_ns is not None
            until = self._kept.answers_until(generation.until_ns, epoch)
            if until is None or now < until:
                found.append(generation)
        return found

    def _epochs(self, store: str, epoch: int) -> dict[str, bool]:
        """Whether each collector has this epoch of a store; one that cannot be reached may have it."""

        def has(collector: Collector) -> bool:
            try:
                described = {each["name"]: each for each in collector.stores()}.get(store, {})
            except CollectorError:
                return True
            return epoch in (described.get("epoch"), *described.get("past_epochs", ()))

        return dict(
            zip((each.name for each in self.collectors), self._each(has, self.collectors), strict=True)
        )

    @staticmethod
    def _may_have(
        generation: Generation, names: frozenset[str], store: str, epoch: Epoch, has: Mapping[str, bool]
    ) -> bool:
        """Whether these collectors had keys of a generation in this epoch."""
        assert isinstance(epoch, int)
        return all(has[name] and epoch >= generation.begins.get(name, {}).get(store, 0) for name in names)


def _merged(primitive: str, parts: Sequence[Answer]) -> Answer:
    """Merge the answers of a key's owners, newest first, into one."""
    lacking = next((part for part in parts if part["status"] == UNREACHABLE), None)
    found = [part for part in parts if part["status"] == "found"]
    if lacking is not None and (primitive in ADDED or not found):
        return lacking
    if not found:
        return parts[0]
    if len(found) == 1 or primitive not in ADDED:
        return found[0]
    merged: dict[str, Any] = dict(found[0])
    if primitive == "key-increment":
        merged["counter"] = sum(part["counter"] for part in found) % 2**64  # counters wrap around
        merged["bound"] = sum(part["bound"] for part in found)
        merged["risk"] = min(1.0, sum(part["risk"] for part in found))
    else:
        merged = dict(max(found, key=lambda part: part["estimate"]))
        merged["reason"] = "moved in this epoch: this is a lower bound"
    merged["collector"] = ", ".join(part["collector"] for part in found)
    return merged

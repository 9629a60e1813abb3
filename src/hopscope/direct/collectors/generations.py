"""Queries while keys move between collectors: the owners of now, then those that had a key before.

A new table of owners does not move what is in memory: a key that was written before is where the table of
that time put it. So there is a generation for each table. A query asks the owner under the newest; if that
one does not find the key, the owners under older ones, as long as their memory from that time is kept:

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
"""Primitives of which a key has a part at each collector that had it."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Which collectors had which keys, from one change of the table to the next."""

    number: int
    group: CollectorGroup
    until_ns: int | None = None
    """When the next one took effect, ns since 1970; None: it is the current one."""
    begins: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Epoch of each store at that time, by name of the collector: earlier ones have no keys of it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How long memory is kept; the same at all collectors."""

    epoch_ns: int = 0
    """Length of an epoch; 0: they never end."""
    epochs: int = 0
    """Past epochs that are kept."""

    def answers_until(self, until_ns: int, epoch: Epoch) -> int | None:
        """Up to when a generation that ended at `until_ns` may answer; None: for ever."""
        if not self.epoch_ns:
            return None
        return until_ns + self.epoch_ns * (1 if epoch is None else 1 + self.epochs)


class CollectorGenerations(CollectorGroup):
    """Generations of owners, oldest first; the last is the current one. It is asked as a `CollectorGroup`.

    Answers of an older generation's owner have its number as `generation`. A counter that was moved in the
    current epoch is the sum of its parts; of a sketch that was, the larger part is the answer, with a
    `reason`. A list is read at its older owners first.
    """

    def __init__(self, generations: Sequence[Generation], kept: Kept) -> None:
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
        """Lists that each collector numbers itself would have other numbers after a change."""
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
        """See `CollectorGroup.read_list`; a place is NAME:PLACE of each owner, separated by commas."""
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
        """As `query` of the group; of one collector, too, answers name it, and say if it is unreachable."""
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
        """Which collectors have this epoch of a store; one that cannot be reached may."""

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
    """One answer of those of a key's owners, newest first."""
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
        merged["counter"] = sum(part["counter"] for part in found) % 2**64  # as each counts
        merged["bound"] = sum(part["bound"] for part in found)
        merged["risk"] = min(1.0, sum(part["risk"] for part in found))
    else:
        merged = dict(max(found, key=lambda part: part["estimate"]))
        merged["reason"] = "moved in this epoch: at least so many"
    merged["collector"] = ", ".join(part["collector"] for part in found)
    return merged

"""Queries over all collectors: each key is queried at the collector that has it (DART 3.2, steps 1 and 2)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..hashing import collectors_of
from ..primitives.append_layout import AppendLayout
from ..primitives.cardinality import CardinalityLayout
from ..primitives.key_write import KeyWriteLayout
from ..stores.answers import UNREACHABLE, QueryOptions
from ..stores.keys import parse_key, parse_keys
from ..stores.spec import StoreSpec
from ..stores.store import Layout, StoreError
from .collector import Collector, CollectorError, Epoch

T = TypeVar("T")
DESCRIBED_SECONDS = 10.0
"""How long the layout of a store is cached."""
ASKED = 4
"""Number of collectors that are asked for a layout at the same time."""
Answer = dict[str, Any]


class CollectorGroup:
    """The collectors over which keys are spread, in the order of their numbers.

    `shares`: the collector of each share of the keys; None: collector n has share n. Queries to a single
    collector are passed on unchanged. Methods raise StoreError for an invalid query, and CollectorError if no
    collector can be reached.
    """

    def __init__(self, collectors: Sequence[Collector], shares: Sequence[int] | None = None) -> None:
        self.collectors = tuple(collectors)
        self._described: dict[str, tuple[float, Answer]] = {}
        self._shares = np.array(range(len(self.collectors)) if shares is None else shares, np.int64)

    @property
    def share_count(self) -> int:
        """Number of shares of the keys."""
        return len(self._shares)

    def stores(self) -> list[Answer]:
        """Descriptions of the stores of all collectors; with `collector` if there are several."""
        if len(self.collectors) == 1:
            return self.collectors[0].stores()

        def ask(collector: Collector) -> list[Answer]:
            try:
                stores = collector.stores()
            except CollectorError as error:
                stores = [{"name": "", "error": str(error)}]
            return [{**store, "collector": collector.name} for store in stores]

        return [store for stores in self._each(ask, self.collectors) for store in stores]

    def query(self, store: str, texts: Sequence[str], options: QueryOptions, epoch: Epoch) -> list[Answer]:
        """One object per key: the key as given, `status` and the fields of the store's primitive.

        If there are several collectors, an answer names its `collector`, and its status is `unreachable` if
        that collector cannot be reached. Keys may have different lengths.
        """
        found = {
            row: answer
            for rows in _by_length(texts)
            for row, answer in zip(
                rows, self._query(store, [texts[row] for row in rows], options, epoch), strict=True
            )
        }
        return [found[row] for row in range(len(texts))]

    def owners(self, layout: Layout, texts: Sequence[str]) -> list[frozenset[str]]:
        """Names of the collectors that have each key in stores of this layout."""
        found: dict[int, frozenset[str]] = {}
        for rows in _by_length(texts):
            owners, _ = owners_of(layout, parse_keys([texts[row] for row in rows]), self._shares)
            for row, numbers in zip(rows, owners.T.tolist(), strict=True):
                found[row] = frozenset(self.collectors[number].name for number in numbers)
        return [found[row] for row in range(len(texts))]

    def _query(self, store: str, texts: Sequence[str], options: QueryOptions, epoch: Epoch) -> list[Answer]:
        """Answers to keys of one length."""
        if len(self.collectors) == 1:
            return self.collectors[0].query(store, texts, options, epoch)
        layout = self._layout(store)
        keys = parse_keys(list(texts))
        owners, asked = owners_of(layout, keys, self._shares, options.copies)
        spread = len(owners) > 1
        for_one = QueryOptions(options.copies, 1, options.values, options.partial, options.limit)

        def ask(number: int) -> dict[int, Answer]:
            rows = np.flatnonzero((owners == number).any(axis=0)).tolist()
            collector = self.collectors[number]
            if not rows:
                return {}
            try:
                answers = collector.query(
                    store, [asked[row] for row in rows], for_one if spread else options, epoch
                )
            except CollectorError as error:
                answers = [{"status": UNREACHABLE, "reason": str(error)}] * len(rows)
            return {
                row: {**answer, "collector": collector.name}
                for row, answer in zip(rows, answers, strict=True)
            }

        found = self._each(ask, range(len(self.collectors)))
        copies = [
            [found[number][row] for number in dict.fromkeys(owners[:, row].tolist())]
            for row in range(len(keys))
        ]
        drawn = isinstance(layout, KeyWriteLayout) and layout.drawn
        return [
            {"key": text}
            | (merge_copies(each, options.consensus, drawn) if spread else each[0])
            | {"key": text}
            for text, each in zip(texts, copies, strict=True)
        ]

    def read_list(
        self, store: str, number: int, after: str | None = None, limit: int = 4096
    ) -> tuple[list[str], int, str]:
        """Entries of a list in hexadecimal, how many were lost before they were read, and the place to
        continue at. `after`: such a place; None: the oldest entry.
        """
        if len(self.collectors) == 1:
            return self.collectors[0].read_list(store, number, after, limit)
        key = np.frombuffer(number.to_bytes(8), np.uint8).reshape(1, -1)
        owners, (text,) = owners_of(self._layout(store), key, self._shares)
        return self.collectors[int(owners[0, 0])].read_list(store, int(text, 0), after, limit)

    def primitive(self, store: str) -> str:
        """Name of a store's primitive."""
        return str(self._description(store)["primitive"])

    def spread_over(self, store: str) -> int:
        """Number of collectors over which a store is spread if only one of them is asked: a key that is empty
        there may be at another collector. Else 0.
        """
        collectors = self._layout(store).collectors
        return collectors if len(self._shares) == 1 and collectors > 1 else 0

    def _layout(self, store: str) -> Layout:
        found = self._description(store)
        return StoreSpec.of(store, found["primitive"], found["layout"]).layout

    def _description(self, store: str) -> Answer:
        """Description of a store by a collector that has it; cached for DESCRIBED_SECONDS."""
        until, found = self._described.get(store, (0.0, {}))
        if not found or time.monotonic() > until:
            found = self._describe(store)
            self._described[store] = time.monotonic() + DESCRIBED_SECONDS, found
        return found

    def _describe(self, store: str) -> Answer:
        """Ask a few collectors at a time, so that one that does not answer delays nothing."""
        names: set[str] = set()
        errors: list[CollectorError] = []
        for first in range(0, len(self.collectors), ASKED):
            some = self.collectors[first : first + ASKED]
            pool = ThreadPoolExecutor(len(some))
            try:
                for done in as_completed([pool.submit(collector.stores) for collector in some]):
                    try:
                        stores = {each["name"]: each for each in done.result()}
                    except CollectorError as error:
                        errors.append(error)
                        continue
                    if store in stores and not stores[store].get("error"):
                        return stores[store]
                    names |= stores.keys()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        if len(errors) == len(self.collectors):
            raise errors[0]
        raise StoreError(f"unknown store {store!r}; known: {', '.join(sorted(names)) or 'none'}")

    def _each(self, work: Callable[[Any], T], over: Sequence[Any]) -> list[T]:
        """Results of `work` for each item of `over`, run concurrently, since it waits for other machines."""
        with ThreadPoolExecutor(min(len(self.collectors), 16)) as pool:
            return list(pool.map(work, over))


def _by_length(texts: Sequence[str]) -> list[list[int]]:
    """Rows of keys, grouped by their length in bytes."""
    rows: dict[int, list[int]] = {}
    for row, text in enumerate(texts):
        rows.setdefault(len(parse_key(text)), []).append(row)
    return list(rows.values())


def merge_copies(answers: Sequence[Answer], consensus: int, drawn: bool) -> Answer:
    """The answer to a key whose copies are at different collectors; `answers` has one answer of each
    collector, in the order of the copies.

    As in `key_write.query` over all stores, the lowest copy is the newest, unless copies are drawn at random.
    """
    lacking = next((answer for answer in answers if answer["status"] == UNREACHABLE), None)
    found = [answer for answer in answers if answer["status"] == "found"]
    if any(answer["status"] == "conflict" for answer in answers):
        return {"status": "conflict"}
    if not found:
        return lacking or answers[0]
    votes: Counter[str] = Counter()
    for answer in found:  # neighbouring shares may belong to one collector
        votes[answer["data"]] += answer["votes"]
    newest = found[0]
    if drawn and len(votes) > 1:
        return {"status": "conflict"}
    if votes[newest["data"]] >= consensus:
        reached = {} if lacking is None else {"reason": lacking["reason"]}
        return {**newest, "votes": votes[newest["data"]], **reached}
    if max(votes.values()) >= consensus:
        return {"status": "conflict"}
    return lacking or {"status": "empty"}


Owners = npt.NDArray[np.int64]


def owners_of(
    layout: Layout, keys: npt.NDArray[np.uint8], shares: Owners, copies: int | None = None
) -> tuple[Owners, list[str]]:
    """Collectors of keys, int64 [copies, keys], and the keys, as text, under which these collectors have
    them.

    `keys`: uint8 [keys, bytes]; for Append and cardinality they are numbers. `shares`: the collector of each
    share of the keys, int64 [layout.collectors]: the look-up table of DART 3.2. There is one row, except for
    a store whose copies are spread over collectors. In a store that is not spread, the numbers of lists
    continue from one collector to the next, while each collector counts its own lists from 0. Raises
    StoreError.
    """
    texts = [f"0x{bytes(key).hex()}" for key in keys]
    if isinstance(layout, AppendLayout) and layout.collectors != len(shares):
        collectors = int(shares.max()) + 1
        numbers = [_list(layout, key, collectors) for key in keys]
        return np.array([[number // layout.lists for number in numbers]]), [
            str(number % layout.lists) for number in numbers
        ]
    if layout.collectors != len(shares):
        raise StoreError(
            f"the store is spread over {layout.collectors} collectors, the settings name {len(shares)}"
        )
    if isinstance(layout, AppendLayout | CardinalityLayout):
        return shares[[[int.from_bytes(key.tobytes()) % len(shares) for key in keys]]], texts
    first = collectors_of(layout.params(), keys).astype(np.int64)
    if not (isinstance(layout, KeyWriteLayout) and layout.spread):
        return shares[first][None, :], texts
    copy = np.arange(layout.copies if copies is None else copies)
    return shares[(first[None, :] + copy[:, None]) % len(shares)], texts


def _list(layout: AppendLayout, key: npt.NDArray[np.uint8], collectors: int) -> int:
    number = int.from_bytes(key.tobytes())
    if number >= layout.lists * collectors:
        raise StoreError(
            f"list {number}: {collectors} collectors have lists 0 to {layout.lists * collectors - 1}"
        )
    return number

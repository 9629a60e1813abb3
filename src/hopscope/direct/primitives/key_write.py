"""Key-Write (DTA 4, DART 3): a probabilistic key-value store that is only written.

A slot holds the key's checksum (`checksum_bits` rounded up to bytes, little-endian) and the reported data. A
report is written into as many slots as its redundancy says, each chosen by a different hash function. A
checksum is never 0, so a slot of zeros is empty (`Hashing.PUBLISHED` has no such rule).

A report with r copies writes copies 0 to r - 1. So among the remaining copies of a key, none is newer than
the lowest, which is the answer. This holds even if the number of copies differs from report to report, and
for variant SWAP, whose second copy keeps the first value until the epoch ends. It does not hold in a store of
`drawn` copies (DART): there, different values are in conflict.

Variant SWAP (DART 7) writes the first copy, and swaps the second into its slot only if that is empty. A
compare-and-swap moves 8 bytes, so slots have 8: 32 bits of checksum and 4 B of data.

A slot may be written while it is read. A slot of 8 bytes is written and read atomically. Any other is read
again until it is unchanged; a torn slot that stays torn for that long (its writer was stopped within the few
ns of a write) is not detected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ...rdma.records import VerbBlock
from ...wire.records import Records
from ..hashing import Hashing, collectors_of, tables
from ..primitive import Primitive, Writer, WriterStart, register
from ..stores import params as at
from ..stores.answers import Answers, QueryOptions, Status
from ..stores.store import Layout, Store, StoreError, query_arguments
from ..theory import Rule
from .key_write_adaptive import AdaptiveCopies

BLOCK = 4096
"""Keys whose slots are fetched together: they fit into a core's own cache."""
TRIES = 8
"""Reads of a slot that keeps changing, before its key is in conflict."""


RULES = tuple(Rule)
ADAPT_REPORTS = 1 << 14
_NOTHING = np.zeros(0, np.uint8)


class Variant(IntEnum):
    """How the second copy is written."""

    WRITE = 0
    SWAP = 1
    """It is stored only if its slot is empty (DART 7): a key that is reported again keeps its first value
    there, which is the answer once the first copy is overwritten.
    """


@dataclass(frozen=True, kw_only=True)
class KeyWriteLayout(Layout):
    """`slots` of a checksum and data."""

    opcode: ClassVar[int] = 1
    schema: ClassVar[int] = 1
    name: ClassVar[str] = "key-write"
    own: ClassVar = {
        at.SLOTS: "slots",
        at.CHECKSUM_BITS: "checksum_bits",
        at.DATA_BYTES: "data_bytes",
        at.COPIES: "copies",
        at.VARIANT: "variant",
        at.SPREAD: "spread",
        at.DRAWN: "drawn",
    }

    slots: int
    data_bytes: int = 4
    checksum_bits: int = 32
    copies: int = 4
    """Maximum copies of a report, and the copies that a query reads by default."""
    variant: Variant = Variant.WRITE
    spread: bool = False
    """Each copy of a key goes to a different collector (DART 3.1), starting with the key's."""
    drawn: bool = False
    """Switches write without a translator, one copy for each report, drawn at random (DART 3.1)."""

    def __post_init__(self) -> None:
        self._within(slots=(1, 1 << 32), data_bytes=(1, 64), checksum_bits=(8, 64), copies=(1, 16))
        if self.spread and self.collectors < self.copies:
            raise ValueError(f"{self.copies} copies spread over {self.collectors} collectors")
        if self.variant is Variant.SWAP:
            if self.stride != 8 or self.data_bytes != 4 or self.copies != 2:
                raise ValueError(
                    f"{self.copies} copies, {self.checksum_bits} bits of checksum and {self.data_bytes} B of "
                    "data: compare-and-swap takes 2 copies of 32 bits and 4 B"
                )
            if self.hashing is Hashing.PUBLISHED:
                raise ValueError("the published checksum may be 0, which compare-and-swap treats as empty")

    @property
    def stride(self) -> int:
        """Bytes of a slot."""
        return -(-self.checksum_bits // 8) + self.data_bytes


class KeyWriteWriter(Writer):
    """Turns reports into writes; its only state is the load estimate of `adaptive`."""

    def __init__(
        self, layout: KeyWriteLayout, targets: Sequence[int], *, adaptive: AdaptiveCopies | None = None
    ) -> None:
        from ...base.kernels.jit import readonly

        self.layout = layout
        self.copies_now = layout.copies
        """Current maximum of copies, at least 1: fewer than the layout's at high load (DART 5.1)."""
        self.adaptive = adaptive
        """Sets `copies_now`, every ADAPT_REPORTS reports."""
        self._unseen, self._epoch = 0, -1
        self._targets = readonly(np.array(targets, np.uint16))
        self._params = readonly(layout.params())
        self._tables = readonly(tables(layout.hashing))

    def room(self, reports: int) -> tuple[int, int]:
        """Maximum verbs and payload bytes."""
        return reports * self.layout.copies, reports * self.layout.stride + 16

    def write(
        self, reports: Records, rows: npt.NDArray[np.uint32], arena: npt.NDArray[np.uint8], out: VerbBlock
    ) -> None:
        """Append one operation per copy."""
        from ...base.kernels.jit import readonly
        from .key_write_kernel import write

        write(
            reports, readonly(rows), readonly(arena), self._params, self._tables, self._targets,
            np.uint64(max(1, self.copies_now)), self.adaptive.seen if self.adaptive else _NOTHING, out.verbs,
            out.payload, out.fill,
        )  # fmt: skip
        if self.adaptive:
            self._unseen += len(rows)
            if self._unseen >= ADAPT_REPORTS:
                self.copies_now, self._unseen = self.adaptive.copies, 0

    def begin(self, which: int, start: WriterStart) -> None:
        """A new epoch starts with the number of copies that the last epoch's load required. Collectors start
        epochs together, so only the first collector's start counts.
        """
        if self.adaptive and which == 0 and start.epoch != self._epoch:
            self.adaptive.begin()
            self.copies_now = self.adaptive.copies
            self._epoch = start.epoch


def query(
    store: Store | Sequence[Store],
    keys: npt.NDArray[np.uint8],
    *,
    copies: int | None = None,
    consensus: int = 1,
    rule: Rule | str | None = None,
) -> Answers:
    """Answers to keys, uint8 [keys, bytes of a key].

    `store`: if keys are spread over collectors, the stores of all of them, in order; a single one answers for
    its own content. `copies`: number written; None: unknown, the layout's maximum is assumed (unused slots
    look overwritten). `consensus`: number of copies that have to agree. `rule`: None: NEWEST, or SINGLE in a
    store with drawn copies. Raises StoreError.
    """
    stores, layout, keys, copies = query_arguments(store, KeyWriteLayout, keys, copies)
    if not 1 <= consensus <= copies:
        raise StoreError(f"a consensus of {consensus}, expected 1 to {copies} copies")
    if rule is None:
        rule = Rule.SINGLE if layout.drawn else Rule.NEWEST
    rule = Rule(rule)
    answers = Answers(
        np.zeros(len(keys), np.uint8),
        np.zeros((len(keys), layout.data_bytes), np.uint8),
        np.zeros(len(keys), np.uint8),
    )
    for first in range(0, len(keys), BLOCK):
        rows = slice(first, first + BLOCK)
        part = Answers(answers.status[rows], answers.data[rows], answers.votes[rows])
        _answer_block(stores, layout, keys[rows], copies, consensus, rule, part)
    return answers


def _answer_block(
    stores: Sequence[Store],
    layout: KeyWriteLayout,
    keys: npt.NDArray[np.uint8],
    copies: int,
    consensus: int,
    rule: Rule,
    answers: Answers,
) -> None:
    """Answers to a block of keys."""
    from ...base.kernels.jit import readonly
    from .fetch_kernel import fetch
    from .key_write_query_kernel import locate, vote

    count, size = keys.shape
    params, hashes = readonly(stores[0].params), readonly(stores[0].tables)
    number_of_rule = np.uint64(RULES.index(rule))
    memories = [readonly(store.memory) for store in stores]
    collectors, spread = np.uint64(len(stores)), np.uint64(layout.spread and len(stores) > 1)
    owners = collectors_of(params, keys) if len(stores) > 1 else np.zeros(0, np.uint64)
    places, checks = np.empty(count * copies, np.uint64), np.empty(count, np.uint64)
    slots = np.empty(count * copies * layout.stride + 8, np.uint8)
    look = np.ones(count, np.uint8)
    locate(
        readonly(keys.reshape(-1)), np.uint64(size), np.uint64(copies), memories[0], params, hashes, places,
        checks,
    )  # fmt: skip
    for attempt in range(TRIES):
        changed = np.zeros(count, np.uint8)
        for number, memory in enumerate(memories):
            fetch(
                memory, places, owners, np.uint64(number), collectors, spread, np.uint64(layout.stride), look,
                attempt > 0, slots, changed,
            )  # fmt: skip
        look = changed if attempt else look
        if not look.any():
            return
        vote(
            slots, places, checks, look, np.uint64(consensus), number_of_rule, spread, params,
            answers.status, answers.data.reshape(-1), answers.votes,
        )  # fmt: skip
        if layout.stride == 8:
            return
    answers.status[look > 0] = Status.CONFLICT


def _answers(store: Store, keys: npt.NDArray[np.uint8], options: QueryOptions) -> list[dict[str, Any]]:
    answers = query(store, keys, copies=options.copies, consensus=options.consensus)
    return [
        {"status": "found", "data": bytes(data).hex(), "votes": int(votes)}
        if status == Status.FOUND
        else {"status": Status(status).label}
        for status, data, votes in zip(answers.status, answers.data, answers.votes, strict=True)
    ]


register(Primitive(KeyWriteLayout, KeyWriteWriter, _answers))

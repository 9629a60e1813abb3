"""Copies by load: the load is known without a list of keys, and more keys are found than by a fixed N."""

from __future__ import annotations

import numpy as np
import pytest

from hopscope.direct.primitive import WriterStart
from hopscope.direct.primitives.key_write import KeyWriteLayout, KeyWriteWriter, query
from hopscope.direct.primitives.key_write_adaptive import AdaptiveCopies
from hopscope.direct.stores.store import Store
from hopscope.direct.theory import optimum
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel

LAYOUT = KeyWriteLayout(slots=1 << 17)


def write(writer: KeyWriteWriter, store: Store, first: int, last: int) -> None:
    """Report keys `first` to `last` (excluded), each asking for four copies."""
    for at in range(first, last, 4096):
        keys = as_bytes(np.arange(at, min(at + 4096, last), dtype=np.uint64))
        reports, arena = dta(1, keys, keys, redundancy=4)
        block = VerbBlock.of(*writer.room(len(keys)))
        writer.write(reports, np.arange(len(keys), dtype=np.uint32), arena, block)
        MemoryTransport([store]).submit(block)


@pytest.mark.parametrize("load", [0.02, 0.2, 0.35, 0.6, 1.0, 2.0])
def test_the_load_is_estimated_however_often_a_key_is_reported(load: float) -> None:
    """Each key three times: within 4 standard errors of linear counting, sqrt(e^a - a - 1) / sqrt(window)."""
    adaptive, store = (
        AdaptiveCopies(LAYOUT.slots, LAYOUT.copies, LAYOUT.collectors),
        Store.create(None, LAYOUT),
    )
    writer = KeyWriteWriter(LAYOUT, [0], adaptive=adaptive)
    keys = int(load * LAYOUT.slots)
    for _ in range(3):
        write(writer, store, 0, keys)
    error = np.sqrt(np.exp(load) - load - 1) / 256
    assert abs(adaptive.load - load) < 4 * error + 1 / LAYOUT.slots
    assert adaptive.copies == next(copies for copies, bound in optimum(4) if load <= bound)


def test_a_store_that_fills_gets_fewer_copies_and_the_next_epoch_begins_with_them() -> None:
    """From four to one; after a quiet epoch it is four again."""
    writer = KeyWriteWriter(
        LAYOUT, [0], adaptive=AdaptiveCopies(LAYOUT.slots, LAYOUT.copies, LAYOUT.collectors)
    )
    store = Store.create(None, LAYOUT)
    counts = []
    for quarter in range(8):
        write(writer, store, quarter << 14, (quarter + 1) << 14)
        counts.append(writer.copies_now)
    assert counts == [4, 4, 3, 2, 2, 2, 2, 1]
    writer.begin(0, WriterStart(1))
    write(writer, Store.create(None, LAYOUT), 0, 1 << 14)
    assert writer.copies_now == 1
    writer.begin(0, WriterStart(2, epoch=1))
    assert writer.copies_now == 4


def test_more_keys_are_found_than_with_a_fixed_number() -> None:
    """Over a full and a quiet epoch, each as the one before it: better than every N from 1 to 4."""
    found = []
    for copies in (1, 2, 3, 4, None):
        total = 0
        for keys in (1 << 17, 1 << 14):
            writer = KeyWriteWriter(
                LAYOUT,
                [0],
                adaptive=None if copies else AdaptiveCopies(LAYOUT.slots, LAYOUT.copies, LAYOUT.collectors),
            )
            writer.copies_now = copies or 4
            write(writer, Store.create(None, LAYOUT), 0, keys)
            writer.begin(0, WriterStart(1))
            store = Store.create(None, LAYOUT)
            write(writer, store, 0, keys)
            total += int(query(store, as_bytes(np.arange(keys, dtype=np.uint64))).found.sum())
        found.append(total)
    assert found[-1] == max(found)

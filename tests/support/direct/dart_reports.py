"""DART without a translator: a switch draws one of N copies for each report; how much is found."""

from __future__ import annotations

import numpy as np

from hopscope.direct import theory
from hopscope.direct.hashing import checksums_of, slots_of
from hopscope.direct.primitives.key_write import KeyWriteLayout, query
from hopscope.direct.stores.store import Store
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import COUNT, PAYLOAD, Verb, VerbBlock

from .direct_measured import keys_of, values_of

GROUP = 1 << 14


def found_by_reports(slots: int, keys: int, copies: int, reports: int, seed: int = 1) -> float:
    """Share of keys found, each of which was reported so many times, all reports of a key together."""
    layout = KeyWriteLayout(slots=slots, copies=copies, seed=seed)
    store = Store.create(None, layout)
    transport, random = MemoryTransport([store]), np.random.default_rng(seed)
    block = VerbBlock.of(GROUP * reports, GROUP * layout.stride)
    for first in range(0, keys, GROUP):
        last = min(first + GROUP, keys)
        count = last - first
        named = keys_of(first, last, seed)
        slot, check = slots_of(store.params, named), checksums_of(store.params, named)
        payload = block.payload[: count * layout.stride].reshape(count, layout.stride)
        payload[:, :4] = check.astype("<u4").view(np.uint8).reshape(-1, 4)
        payload[:, 4:] = values_of(first, last, 4)
        row = np.repeat(np.arange(count), reports)
        block.clear()
        verbs = block.verbs[: len(row)]
        verbs["address"] = slot[row, random.integers(copies, size=len(row))] * np.uint64(layout.stride)
        verbs["payload_at"], verbs["length"] = row * layout.stride, layout.stride
        verbs["kind"], verbs["target"] = Verb.WRITE, 0
        block.fill[COUNT], block.fill[PAYLOAD] = len(row), payload.size
        transport.submit(block)
    correct = 0
    for first in range(0, keys, GROUP):
        last = min(first + GROUP, keys)
        answers = query(store, keys_of(first, last, seed))
        correct += int((answers.found & (answers.data == values_of(first, last, 4)).all(axis=1)).sum())
    return correct / keys


def expected(load: float, copies: int, reports: int) -> float:
    """The closed form's mean over all ages."""
    ages = np.linspace(0, load, 401)
    return float(np.trapezoid(theory.success_after_reports(ages, copies, reports).correct, ages) / load)

"""A switch that writes to collector memory itself, without a translator (DART 3.1, 6).

An RDMA packet writes to one address, and a switch keeps no state per key, so each report is one copy, whose
number n is drawn at random. After r reports of a key, N (1 - (1 - 1/N)^r) of its N slots are expected to hold
it (`theory.copies_present`). If its data changes, old and new copies are mixed in any order: the layout marks
copies as `drawn`, and the key is in conflict. Slot, checksum and collector come from the store's hash
functions, as in the translator and in queries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from hopscope.direct.hashing import checksums_of, collectors_of, slots_of
from hopscope.direct.primitives.key_write import KeyWriteLayout, Variant
from hopscope.direct.stores.store import StoreError
from hopscope.rdma.records import COUNT, PAYLOAD, VERB, Verb, VerbBlock, VerbFlag

Bytes = npt.NDArray[np.uint8]


class DartReporter:
    """Reports of one switch to a Key-Write store that is spread over `layout.collectors` collectors.

    `seed`: seed of the random copy numbers; each switch needs its own. `targets`: number of the store at each
    collector, in the order in which keys are spread. Per collector, a switch keeps only its requester's
    state: a queue pair and its packet sequence number.
    """

    def __init__(
        self, layout: KeyWriteLayout, *, seed: int | None = None, targets: Sequence[int] | None = None
    ) -> None:
        """Raises ValueError unless there is one target per collector, and the layout's copies are drawn."""
        targets = [0] * layout.collectors if targets is None else list(targets)
        if len(targets) != layout.collectors:
            raise ValueError(
                f"{len(targets)} targets, expected one for each of {layout.collectors} collectors"
            )
        if not layout.drawn:
            raise ValueError(
                "found a layout with drawn = false, expected true: each report is one copy, drawn at random"
            )
        self.layout = layout
        self.sent = np.zeros(layout.copies, np.uint64)
        """Reports sent as copy n, uint64 [copies]."""
        self._rng = np.random.default_rng(seed)
        self._params = layout.params()
        self._targets = np.array(targets, np.uint16)

    def report(self, keys: Bytes, data: Bytes, *, immediate: bool = False) -> list[VerbBlock]:
        """One operation per report, by collector, in the order of the reports.

        `keys` uint8 [reports, bytes], `data` uint8 [reports, `layout.data_bytes`]. Copy n is a write into
        slot n; in variant SWAP, copy 1 is swapped into its slot if that is empty (DART 7). With
        `layout.spread`, copy n goes to the n-th collector after the key's. Raises StoreError.
        """
        layout, count = self.layout, len(keys)
        if keys.ndim != 2 or not 1 <= keys.shape[1] <= 255 or data.shape != (count, layout.data_bytes):
            raise StoreError(
                f"keys of shape {keys.shape} and data of shape {data.shape}, "
                f"expected [reports, 1 to 255] and [reports, {layout.data_bytes}]"
            )
        copy = self._rng.integers(0, layout.copies, count)
        self.sent += np.bincount(copy, minlength=layout.copies).astype(np.uint64)
        collector = collectors_of(self._params, keys).astype(np.int64)
        if layout.spread:
            collector = (collector + copy) % layout.collectors
        slots = slots_of(self._params, keys)[np.arange(count), copy]
        checks = checksums_of(self._params, keys)
        width = layout.stride - layout.data_bytes
        content = np.concatenate(
            [checks.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width], data], axis=1
        )
        verbs = np.zeros(count, VERB)
        verbs["address"] = slots * np.uint64(layout.stride)
        verbs["length"], verbs["kind"] = layout.stride, Verb.WRITE
        verbs["target"] = self._targets[collector]
        if layout.variant is Variant.SWAP:
            verbs["kind"][copy == 1] = Verb.CMP_SWAP
            verbs["value"] = np.ascontiguousarray(content).view("<u8").reshape(-1)
        if immediate:
            verbs["flags"], verbs["immediate"] = VerbFlag.IMMEDIATE, checks & np.uint64(0xFFFFFFFF)
        return [self._block(verbs, content, np.flatnonzero(collector == c)) for c in range(layout.collectors)]

    def _block(self, verbs: npt.NDArray[np.void], content: Bytes, rows: npt.NDArray[np.intp]) -> VerbBlock:
        """The operations of one collector, with their bytes."""
        stride = self.layout.stride
        block = VerbBlock(verbs[rows], np.ascontiguousarray(content[rows]).reshape(-1))
        block.verbs["payload_at"] = np.arange(len(rows)) * stride
        block.fill[COUNT], block.fill[PAYLOAD] = len(rows), len(rows) * stride
        return block

"""Appends paths with a high sum of latencies (`path_sum`) to an Append list of the same translator."""

from __future__ import annotations

import numpy as np

from ...wire.dta.codec import Opcode
from ...wire.dta.records import DTA
from ...wire.records import Records
from ..primitives.append_layout import AppendLayout
from ..stores.store import StoreError
from .path_sum import PathSum, entries
from .translator import Translator


class SlowPaths:
    """Observes the postcards of a translator, and appends slow paths to one of its lists.

    `sums` are kept when the translator is replaced.
    """

    def __init__(
        self, threshold: int, *, hops: int = 5, latency_bits: int = 32, list_number: int = 0
    ) -> None:
        self.sums = PathSum(threshold, self._found, hops=hops, latency_bits=latency_bits)
        self.appended = 0
        """Entries written."""
        self._hops, self._list = hops, list_number
        self._key_bytes = 0
        self._waiting: list[Records] = []

    def watch(self, translator: Translator) -> None:
        """Observe the postcards of this translator from now on. Raises StoreError if no Append store fits an
        entry.
        """
        found = next(
            (
                route.layout
                for route in translator.rules
                if isinstance(route.layout, AppendLayout)
                and not route.by_frame
                and (route.lists is None or route.lists[0] <= self._list <= route.lists[1])
            ),
            None,
        )
        entry_bytes = 6 + 4 * self._hops
        if found is None or found.data_bytes < entry_bytes:
            has = "there is none" if found is None else f"it has entries of {found.data_bytes}"
            raise StoreError(
                f"slow paths of {self._hops} hops need list {self._list} with entries of at least "
                f"{entry_bytes} B: {has}"
            )
        self._key_bytes = found.data_bytes - entry_bytes + 1
        translator.observers[Opcode.POSTCARDING] = self.sums

    def append(self, translator: Translator, now_ns: int) -> None:
        """Append the paths found since the last call."""
        if not self._waiting:
            return
        data = entries(np.concatenate(self._waiting), self._key_bytes, self._hops)
        self._waiting = []
        reports: Records = np.zeros(len(data), DTA)
        reports["opcode"], reports["list"] = Opcode.APPEND, self._list
        reports["data_at"], reports["data_bytes"] = np.arange(len(data)) * data.shape[1], data.shape[1]
        reports["key_bytes"] = 4
        self.appended += translator.insert(reports, np.ascontiguousarray(data).reshape(-1), now_ns)

    def _found(self, paths: Records) -> None:
        self._waiting.append(paths)

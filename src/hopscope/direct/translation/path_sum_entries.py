"""Paths whose sum of latencies is high (`path_sum`), as entries of an Append list of the same translator."""

from __future__ import annotations

import numpy as np

from ...wire.dta.codec import Opcode
from ...wire.records import DTA, Records
from ..primitives.append_layout import AppendLayout
from ..stores.store import StoreError
from .path_sum import PathSum, entries
from .translator import Translator


class SlowPaths:
    """Watches the postcards of one translator, and appends what it finds to one of its lists.

    `sums` are kept where the translator becomes another one. Raises StoreError where no Append store has
    room for an entry.
    """

    def __init__(
        self, threshold: int, *, hops: int = 5, latency_bits: int = 32, list_number: int = 0
    ) -> None:
        self.sums = PathSum(threshold, self._found, hops=hops, latency_bits=latency_bits)
        self.told = 0
        """Entries written."""
        self._hops, self._list = hops, list_number
        self._key_bytes = 0
        self._waiting: list[Records] = []

    def watch(self, translator: Translator) -> None:
        """Look at the postcards of this translator from now on."""
        layouts = [route.layout for route in translator.routes]
        found = next((one for one in layouts if isinstance(one, AppendLayout)), None)
        least = 6 + 4 * self._hops
        if found is None or found.data_bytes < least:
            has = "there is none" if found is None else f"it has entries of {found.data_bytes}"
            raise StoreError(
                f"slow paths of {self._hops} hops need an Append store with entries of {least} B at least: "
                + has
            )
        self._key_bytes = found.data_bytes - least + 1
        translator.watchers[Opcode.POSTCARDING] = self.sums

    def append(self, translator: Translator, now_ns: int) -> None:
        """Append what was found since the last time."""
        if not self._waiting:
            return
        data = entries(np.concatenate(self._waiting), self._key_bytes, self._hops)
        self._waiting = []
        reports: Records = np.zeros(len(data), DTA)
        reports["opcode"], reports["list"] = Opcode.APPEND, self._list
        reports["data_at"], reports["data_bytes"] = np.arange(len(data)) * data.shape[1], data.shape[1]
        reports["key_bytes"] = 4
        self.told += translator.insert(reports, np.ascontiguousarray(data).reshape(-1), now_ns)

    def _found(self, paths: Records) -> None:
        self._waiting.append(paths)

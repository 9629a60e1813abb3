"""Findings of a translator in passing reports, as entries of one of its own Append lists."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from ...wire.dta.forms import Opcode
from ...wire.dta.records import DTA
from ...wire.records import Records
from ..primitives.append_layout import AppendLayout
from ..stores.store import StoreError
from .translator import ReportObserver, Translator


class Findings(ABC):
    """Observes the reports of a primitive, and appends the findings of `observer` to a list of the
    translator.

    It is kept when the translator is replaced. `what` names the findings in messages; an entry has at least
    `entry_bytes`.
    """

    def __init__(self, what: str, opcode: Opcode, entry_bytes: int, list_number: int) -> None:
        self.appended = 0
        """Number of entries written."""
        self._what, self._opcode, self._entry_bytes, self._list = what, opcode, entry_bytes, list_number
        self._data_bytes = 0
        self._waiting: list[Records] = []

    @property
    @abstractmethod
    def observer(self) -> ReportObserver:
        """Examines the reports, and passes records to `found`."""

    @abstractmethod
    def entries(self, found: Records, data_bytes: int) -> npt.NDArray[np.uint8]:
        """Records as entries of a list, uint8 [records, `data_bytes`]."""

    def found(self, records: Records) -> None:
        """Take records from the observer."""
        self._waiting.append(records)

    def watch(self, translator: Translator) -> None:
        """Observe this translator from now on. Raises StoreError if no Append store fits an entry."""
        layout = next(
            (
                route.layout
                for route in translator.rules
                if isinstance(route.layout, AppendLayout)
                and not route.by_frame
                and (route.lists is None or route.lists[0] <= self._list <= route.lists[1])
            ),
            None,
        )
        if layout is None or layout.data_bytes < self._entry_bytes:
            has = "there is none" if layout is None else f"it has entries of {layout.data_bytes}"
            raise StoreError(
                f"{self._what} need list {self._list} with entries of at least {self._entry_bytes} B: {has}"
            )
        self._data_bytes = layout.data_bytes
        none: Records = np.zeros(0, DTA)
        self.observer.observe(none, np.zeros(0, np.uint32), np.zeros(0, np.uint8), 0)  # loads the kernel
        translator.observers[self._opcode] = self.observer

    def append(self, translator: Translator, now_ns: int) -> None:
        """Append the findings since the last call."""
        if not self._waiting:
            return
        entries = self.entries(np.concatenate(self._waiting), self._data_bytes)
        self._waiting = []
        reports: Records = np.zeros(len(entries), DTA)
        reports["opcode"], reports["list"] = Opcode.APPEND, self._list
        reports["data_at"], reports["data_bytes"] = (
            np.arange(len(entries)) * self._data_bytes,
            self._data_bytes,
        )
        reports["key_bytes"] = 4
        self.appended += translator.insert(reports, np.ascontiguousarray(entries).reshape(-1), now_ns)

"""Behind a translator: stores of this machine, or connections to collectors (`translator_remote`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...direct.counters import TranslatorCounters
from ...direct.primitive import load
from ...direct.stores.epoch_keeper import EpochKeeper
from ...direct.stores.folder import open_stores
from ...direct.stores.spec import StoreSpec
from ...direct.stores.store import Store
from ...direct.translation.rate import TokenBucket
from ...direct.translation.sequence import SequenceTracker
from ...direct.translation.translator import Translator
from ...direct.transport import MemoryTransport
from ...rdma.notices import NOTICES_FILE, Notifier, create_notices
from ...settings.direct import DirectSettings
from ...wire.dta.codec import Form

FORMS = {"2": Form.TWO, "3": Form.THREE, "sized": Form.SIZED}


@dataclass(frozen=True, slots=True)
class Checks:
    """What every translator of a process has in common, whatever is behind it."""

    limit: TokenBucket | None = None
    sequences: SequenceTracker | None = None

    @classmethod
    def of(cls, settings: DirectSettings) -> Checks:
        """As the settings say."""
        one = settings.translator
        form = FORMS[one.form]
        return cls(
            TokenBucket(one.rate_limit) if one.rate_limit else None,
            SequenceTracker(form) if form.sequence_bits else None,
        )


class Output(Protocol):
    """What is behind a translator."""

    @property
    def translator(self) -> Translator:
        """It may become another one when collectors tell of their stores."""

    @property
    def ready(self) -> bool:
        """Whether it is known which stores there are."""

    def turn(self) -> int:
        """Move what can be moved; how much there was."""

    def tick(self, now_ns: int) -> None:
        """Ten times a second, ns since 1970: epochs, connections."""

    def idle(self) -> bool:
        """Whether everything that was submitted is done."""

    def count(self, counted: TranslatorCounters) -> None:
        """Write counters."""

    def close(self) -> None:
        """Free what is held."""


def store_specs(settings: DirectSettings) -> list[StoreSpec]:
    """The stores of the settings; one of each primitive where they name none. Raises StoreError."""
    if settings.stores:
        return [StoreSpec.of(one.name, one.primitive, one.options) for one in settings.stores]
    return [StoreSpec.of(primitive.name, primitive.name, {}) for primitive in load().values()]


class LocalStores:
    """Stores in a folder, written by this process, with their epochs."""

    ready = True

    def __init__(self, settings: DirectSettings, folder: Path, checks: Checks) -> None:
        """Raises StoreError and RegionError."""
        specs = store_specs(settings)
        self.stores = open_stores(folder, specs)
        self.transport = MemoryTransport(
            list(self.stores.values()), Notifier(create_notices(folder / NOTICES_FILE))
        )
        self.translator = Translator(
            [spec.layout for spec in specs], self.transport, limit=checks.limit, sequences=checks.sequences
        )
        self._begun = 0
        self._generation = int(time.time()) & 0xFFFFFF
        self._keepers = [
            EpochKeeper(
                folder,
                name,
                store,
                self._swapped(number),
                interval_ns=int(settings.epoch_seconds * 1e9),
                keep=settings.keep_epochs,
            )
            for number, (name, store) in enumerate(self.stores.items())
        ]
        self._begin()

    def turn(self) -> int:
        """Memory is written at once."""
        return 0

    def tick(self, now_ns: int) -> None:
        """Begin the epochs that are due."""
        for keeper in self._keepers:
            self._begun += keeper.tick(now_ns)

    def idle(self) -> bool:
        """Always."""
        return True

    def count(self, counted: TranslatorCounters) -> None:
        """Epochs, and what only a defect makes."""
        counted.put("dta_out_of_bounds_verbs_total", int(self.transport.out_of_bounds))
        counted.put("dta_epochs_total", self._begun)
        counted.put("dta_saved_epochs_total", sum(keeper.saved for keeper in self._keepers))
        counted.put("dta_epoch_failures_total", sum(keeper.failed for keeper in self._keepers))

    def close(self) -> None:
        """Wait for epochs that are being saved."""
        for keeper in self._keepers:
            keeper.close()

    def _swapped(self, number: int) -> Callable[[Store], None]:
        def swapped(store: Store) -> None:
            self.transport.stores[number] = store
            self._begin(number)

        return swapped

    def _begin(self, only: int | None = None) -> None:
        """Tell writers whose memories they have."""
        self._generation = (self._generation + 1) & 0xFFFFFF
        for route, writer in zip(self.translator.routes, self.translator.writers, strict=True):
            targets = [target for _, target in route.at]
            if only is None or only in targets:
                writer.begin([self.transport.stores[target].memory for target in targets], self._generation)

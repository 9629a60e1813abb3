"""The stores that a process of this machine writes, with their epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ...direct.primitive import load
from ...direct.stores.epoch_keeper import EpochKeeper
from ...direct.stores.folder import open_stores
from ...direct.stores.spec import StoreSpec
from ...direct.stores.store import Store, StoreError
from ...settings.direct import DirectSettings


def store_specs(settings: DirectSettings) -> list[StoreSpec]:
    """The stores of the settings; one of each primitive if none are named. The StoreError that this raises
    names the setting.
    """
    specs = []
    for at, store in enumerate(settings.stores):
        try:
            specs.append(StoreSpec.of(store.name, store.primitive, store.options))
        except StoreError as error:
            raise StoreError(f"direct.stores[{at}]: {error}") from None
    return specs or [StoreSpec.of(primitive.name, primitive.name, {}) for primitive in load().values()]


class Stores:
    """The stores of a folder. `on_swap` is called with a store's number and its replacement before the old
    store is sealed. `still_written` says whether the past epoch of a store is still written to. Raises
    StoreError and RegionError.
    """

    def __init__(
        self,
        settings: DirectSettings,
        folder: Path,
        specs: Iterable[StoreSpec],
        on_swap: Callable[[int, Store], None],
        still_written: Callable[[int], bool] | None = None,
    ) -> None:
        self.current: dict[str, Store] = open_stores(folder, specs, huge_pages=settings.huge_pages)
        """By name, in the order of the specs."""
        self._on_swap = on_swap
        self.epochs_begun = 0
        still_written = still_written or (lambda number: False)
        self.keepers = [
            EpochKeeper(
                folder,
                name,
                store,
                partial(self._swap, number, name),
                interval_ns=int(settings.epoch_seconds * 1e9),
                keep=settings.keep_epochs,
            )
            for number, (name, store) in enumerate(self.current.items())
        ]
        for number, keeper in enumerate(self.keepers):
            keeper.still_written = partial(still_written, number)

    @property
    def epochs_saved(self) -> int:
        """Epochs moved into the history."""
        return sum(keeper.saved for keeper in self.keepers)

    @property
    def epoch_failures(self) -> int:
        """Epochs that could not be created or saved."""
        return sum(keeper.failed for keeper in self.keepers)

    def tick(self, now_ns: int) -> None:
        """Begin the epochs that are due; `now_ns` since 1970."""
        for keeper in self.keepers:
            self.epochs_begun += keeper.tick(now_ns)

    def close(self) -> None:
        """Wait for epochs that are being saved."""
        for keeper in self.keepers:
            keeper.close()

    def _swap(self, number: int, name: str, store: Store) -> None:
        self._on_swap(number, store)
        self.current[name] = store

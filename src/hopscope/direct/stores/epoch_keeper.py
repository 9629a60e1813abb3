"""Epochs (DART 5.2.1): an empty store replaces a full one, which moves to the history, without interruption.

The next region is created in advance, in the background. A swap is then a link and a rename: `NAME.region`
gets a second name `.NAME-EPOCH.sealed`, and the new region takes the first name. A thread moves sealed files
to `history/NAME-EPOCH.region`; if that is on another file system (`history` may be a link), it copies to a
temporary name and renames. At every moment each epoch has a complete file, so a killed process loses none:
the next process finds sealed files and continues.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from ...memory.region import RegionError
from .epochs import HISTORY, SEALED, epoch_path, past_epochs, sealed_epochs
from .folder import SUFFIX
from .store import BEGUN_NS, ENDED_NS, EPOCH, Store, StoreError

RETRY_NS = 10_000_000_000
"""Interval between attempts to save sealed files."""
LEAD_NS = 10_000_000_000
"""Maximum time for which the next region exists before the swap, since both regions use memory then."""


class EpochKeeper:
    """The epochs of one store, for the process that writes it.

    `store` is the current one, mapped for writing from `folder/NAME.region`. `swapped` is called with every
    new store before the old one is sealed: writers must use the new one from then on.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        store: Store,
        swapped: Callable[[Store], object],
        *,
        interval_ns: int = 0,
        keep: int = 24,
        keep_bytes: int = 0,
        steady: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`interval_ns` 0: only `swap` starts an epoch. At most `keep` past epochs, with at most `keep_bytes`
        in total (0: unlimited), are kept. `steady`: ns of a monotonic clock, for attempts to save.
        """
        self.store = store
        self.name = name
        self.saved = 0
        """Epochs moved to the history since the start."""
        self.failed = 0
        """Failed attempts: no space for the next region, or for a sealed one."""
        self.last_error = ""
        self._folder = folder
        self._history = folder / HISTORY
        self._swapped = swapped
        self._interval_ns, self._keep, self._keep_bytes = interval_ns, keep, keep_bytes
        self._next: Future[Store] | None = None
        self._saving: Future[None] | None = None
        self._steady = steady
        self._retry_ns: int | None = None
        self.still_written: Callable[[], bool] = lambda: False
        """Whether a past epoch is still being written; it is saved afterwards."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"epochs-{name}")
        self._history.mkdir(parents=True, exist_ok=True)
        self._recover()

    def tick(self, now_ns: int) -> bool:
        """Do the work due at `now_ns` (ns since 1970); True if an epoch began."""
        if self._collect():
            self._retry_ns = self._steady() + RETRY_NS
        if self._retry_ns is not None and self._steady() >= self._retry_ns and not self.still_written():
            self._retry_ns = None
            self._save()
        begun = int(self.store.state[BEGUN_NS])
        if not begun or now_ns < begun:  # new, or the clock was set back, which would make the epoch too long
            self.store.state[BEGUN_NS] = now_ns
        elif self._interval_ns:
            due = begun + self._interval_ns
            if now_ns >= due:
                return self._try_swap(now_ns)
            if self._next is None and now_ns >= due - min(LEAD_NS, self._interval_ns // 4):
                self.prepare()
        return False

    def prepare(self) -> None:
        """Start to create the next region, in the background."""
        if self._next is None:
            path, layout = self._folder / f".{self.name}.next", self.store.layout
            self._next = self._thread.submit(lambda: Store.create(path, layout))

    def swap(self, now_ns: int) -> Store:
        """Start an epoch and return its store.

        Waits for the next region if `prepare` has not created it yet. Raises RegionError if there is no
        space; nothing changes then.
        """
        self.prepare()
        assert self._next is not None
        try:
            new = self._next.result()
        finally:
            self._next = None
        old, current = self.store, self._folder / (self.name + SUFFIX)
        new.state[EPOCH] = old.epoch + 1
        new.state[BEGUN_NS] = now_ns
        sealed = self._folder / f".{self.name}-{old.epoch}{SEALED}"
        try:
            os.link(current, sealed)
            new.region.rename(current)
        except OSError as error:
            sealed.unlink(missing_ok=True)
            raise RegionError(f"{current}: cannot start an epoch: {error.strerror}") from error
        self._swapped(new)
        old.state[ENDED_NS] = now_ns
        self.store = new
        if self.still_written():
            self._retry_ns = self._steady()
        else:
            self._save()
        return new

    def close(self) -> None:
        """Save sealed epochs, and wait until this is done."""
        if self._retry_ns is not None:
            self._save()
        self._thread.shutdown(wait=True)
        self._collect()
        (self._folder / f".{self.name}.next").unlink(missing_ok=True)

    def _try_swap(self, now_ns: int) -> bool:
        if self._next is not None and not self._next.done():
            return False  # the epoch continues until its successor exists
        try:
            self.swap(now_ns)
        except RegionError as error:
            self._note(str(error))
            return False
        return True

    def _recover(self) -> None:
        """Clean up after a killed process."""
        current = self._folder / (self.name + SUFFIX)
        for path in sealed_epochs(self._folder, self.name).values():
            if path.samefile(current):
                path.unlink()  # a process was killed between the two steps of a swap: the epoch continues
        for draft in self._history.glob(f".{self.name}-*{SUFFIX}.*"):
            draft.unlink(missing_ok=True)
        (self._folder / f".{self.name}.next").unlink(missing_ok=True)
        for name in (f".{self.name}.next", self.name + SUFFIX):
            for draft in self._folder.glob(f".{name}.*"):
                if draft.suffix[1:].isdigit():  # an unfinished region
                    draft.unlink(missing_ok=True)
        taken = [*sealed_epochs(self._folder, self.name), *past_epochs(self._folder, self.name)]
        if taken and self.store.epoch <= max(taken):
            self.store.state[EPOCH] = max(taken) + 1  # its file was recreated; never replace a past epoch
        if sealed_epochs(self._folder, self.name):
            self._save()

    def _save(self) -> None:
        self._saving = self._thread.submit(self._move)

    def _collect(self) -> bool:
        """Record the result of saving; True if it failed."""
        if self._saving is None or not self._saving.done():
            return False
        error, self._saving = self._saving.exception(), None
        if error is not None:
            self._note(str(error))
        return error is not None

    def _note(self, error: str) -> None:
        self.failed += 1
        self.last_error = error

    def _move(self) -> None:
        """In the thread: move sealed files to the history, oldest first, then drop epochs beyond the
        limits.
        """
        for epoch, path in sorted(sealed_epochs(self._folder, self.name).items()):
            self._end(path, epoch)
            target = epoch_path(self._history, self.name, epoch)
            try:
                path.replace(target)
            except OSError:  # another file system
                draft = target.with_name(f".{target.name}.{os.getpid()}")
                shutil.copyfile(path, draft)
                with draft.open("rb+") as file:
                    os.fsync(file.fileno())
                draft.replace(target)
                path.unlink()
            self.saved += 1
        self._drop()

    def _end(self, path: Path, epoch: int) -> None:
        """Set the end time of an epoch whose process was killed before it could."""
        from ..primitive import attach

        with suppress(RegionError, StoreError):
            store = attach(path, writable=True)
            if not store.state[ENDED_NS] and epoch < self.store.epoch:
                store.state[ENDED_NS] = max(int(self.store.state[BEGUN_NS]), int(store.state[BEGUN_NS]))

    def _drop(self) -> None:
        kept = 0
        for number, (_, path) in enumerate(
            sorted(past_epochs(self._folder, self.name).items(), reverse=True)
        ):
            kept += path.stat().st_size
            if number >= self._keep or (self._keep_bytes and kept > self._keep_bytes):
                path.unlink(missing_ok=True)

"""Epochs: stores are put aside while they are written, nothing sealed is lost, queries go back in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.direct.primitives.key_write import KeyWriteLayout, query
from hopscope.direct.stores.answers import QueryOptions
from hopscope.direct.stores.epoch_keeper import RETRY_NS, EpochKeeper
from hopscope.direct.stores.epochs import attach_epoch, epochs, history, query_epochs
from hopscope.direct.stores.folder import open_stores, read_store
from hopscope.direct.stores.spec import StoreSpec
from hopscope.direct.stores.store import WRITES, Store, StoreError
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.memory.region import Region, RegionError
from support.direct.direct_make import as_bytes, dta

pytestmark = pytest.mark.kernel
SPEC = StoreSpec("flows", KeyWriteLayout(slots=1 << 10, copies=2))
SECOND = 1_000_000_000


class Writing:
    """A store in a folder, its keeper, and what writes into it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.folder = folder
        store = open_stores(folder, [SPEC])["flows"]
        self.transport = MemoryTransport([store])
        self.translator = Translator([store.layout], self.transport)
        self.keeper = EpochKeeper(folder, "flows", store, self._swapped, **options)

    def _swapped(self, store: Store) -> None:
        self.transport.stores[0] = store

    def write(self, first: int, count: int = 20) -> npt.NDArray[np.uint8]:
        keys = as_bytes(np.arange(first, first + count, dtype=np.uint64), 8)
        self.translator.translate(*dta(1, keys, keys[:, 4:], redundancy=2))
        return keys


def test_a_clock_that_is_set_back_makes_no_epoch_longer(tmp_path: Path) -> None:
    """An epoch that began in what is now the future ends an interval after the clock was set back."""
    keeper = Writing(tmp_path, interval_ns=10 * SECOND).keeper
    found = [keeper.tick(seconds * SECOND) for seconds in (10**9, 500, 505, 510)]
    keeper.close()
    assert found == [False, False, False, True]
    (past,) = history(tmp_path, "flows")
    assert (past.begun_ns, past.ended_ns) == (500 * SECOND, 510 * SECOND)


def test_an_epoch_begins_empty_and_the_old_one_stays_as_it_was(tmp_path: Path) -> None:
    """A reader of the old region learns that it is old; both epochs answer for what was written in
    them.
    """
    writing = Writing(tmp_path)
    writing.keeper.tick(100)
    old_keys = writing.write(0)
    reader = read_store(tmp_path, "flows")
    writing.keeper.swap(700)
    assert not reader.region.is_current()
    assert query(reader, old_keys).found.all()
    new_keys = writing.write(1000)
    writing.keeper.close()
    now = read_store(tmp_path, "flows")
    assert now.region.is_current()
    assert now.epoch == 1
    assert not query(now, old_keys).found.any()
    assert query(now, new_keys).found.all()
    (past,) = history(tmp_path, "flows")
    assert (past.epoch, past.begun_ns, past.ended_ns, past.operations) == (0, 100, 700, 40)
    assert query(attach_epoch(tmp_path, "flows", 0), old_keys).found.all()
    with pytest.raises(StoreError, match=r"unknown epoch 7 .* in the history: 0"):
        attach_epoch(tmp_path, "flows", 7)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flows.region", "history"]


def test_queries_go_back_epoch_by_epoch(tmp_path: Path) -> None:
    """Each key is answered by the newest epoch that knows it, and says by which."""
    writing = Writing(tmp_path)
    for epoch in range(3):
        writing.write(100 * epoch)
        writing.write(900 + epoch, 1)
        if epoch < 2:
            writing.keeper.swap(1 + epoch)
    writing.keeper.close()
    keys = as_bytes(np.array([5, 105, 205, 900, 901, 902, 5000], np.uint64), 8)
    told = query_epochs(epochs(tmp_path, "flows"), keys, QueryOptions())
    assert [(one["status"], one["epoch"]) for one in told] == [
        ("found", 0), ("found", 1), ("found", 2), ("found", 0), ("found", 1), ("found", 2), ("empty", 2),
    ]  # fmt: skip


def test_the_interval_begins_epochs_and_the_oldest_go(tmp_path: Path) -> None:
    """Ten intervals are ten epochs, of which three are kept; the region is made before it is due."""
    writing = Writing(tmp_path, interval_ns=4 * SECOND, keep=3)
    begun = 0
    for tick in range(43):
        if tick % 4 == 0 and tick:
            assert writing.keeper._next is not None
            writing.keeper._next.result()
        begun += writing.keeper.tick((1000 + tick) * SECOND)
        writing.write(tick, 1)
    writing.keeper.close()
    assert begun == 10
    assert [past.epoch for past in history(tmp_path, "flows")] == [9, 8, 7]
    assert writing.keeper.saved == 10
    assert all(past.ended_ns - past.begun_ns == 4 * SECOND for past in history(tmp_path, "flows"))


def test_bytes_limit_the_history(tmp_path: Path) -> None:
    """Two regions fit, a third does not."""
    one = open_stores(tmp_path, [SPEC])["flows"].region.nbytes
    writing = Writing(tmp_path, keep_bytes=2 * one + 1)
    for epoch in range(4):
        writing.keeper.swap(epoch + 1)
    writing.keeper.close()
    assert [past.epoch for past in history(tmp_path, "flows")] == [3, 2]


def test_nothing_is_lost_while_writers_and_a_reader_go_on(tmp_path: Path) -> None:
    """Batches between thirty swaps: a reader that follows finds each key in the epochs, at any time."""
    writing = Writing(tmp_path, keep=100)
    written: list[npt.NDArray[np.uint8]] = []
    missed: list[int] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            known = len(written)
            for keys in written[max(0, known - 40) : known]:
                told = query_epochs(epochs(tmp_path, "flows"), keys, QueryOptions())
                missed.extend(row for row, one in enumerate(told) if one["status"] != "found")

    reader = threading.Thread(target=read)
    reader.start()
    for step in range(60):
        written.append(writing.write(1000 * step, 4))
        if step % 2:
            writing.keeper.swap(step)
            writing.keeper.prepare()
    done.set()
    reader.join()
    writing.keeper.close()
    assert not missed
    counted = [past.operations for past in history(tmp_path, "flows")]
    assert sum(counted) + int(writing.keeper.store.state[WRITES]) == 60 * 4 * 2


def test_another_file_system_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where renaming is rejected, the history has an equal file, and no draft is left."""
    writing = Writing(tmp_path)
    keys = writing.write(0)
    replace = Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if path.suffix == ".sealed":
            raise OSError(18, "Invalid cross-device link")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    writing.keeper.swap(5)
    writing.keeper.close()
    assert query(attach_epoch(tmp_path, "flows", 0), keys).found.all()
    assert [path.name for path in (tmp_path / "history").iterdir()] == ["flows-0.region"]


def test_an_epoch_is_saved_although_the_clock_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt to save fails, and the clock is set back by years: the next attempt is 10 s later."""
    steady = 0
    keeper = Writing(tmp_path, steady=lambda: steady).keeper
    keeper.tick(10**9 * SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(keeper, "_move", Path(tmp_path / "nothing").unlink)
        keeper.swap(10**9 * SECOND)
        assert keeper._saving is not None
        keeper._saving.exception()
    for steady, saved in ((0, 0), (RETRY_NS - 1, 0), (RETRY_NS, 1)):
        keeper.tick(500 * SECOND + steady)
        if keeper._saving is not None:
            keeper._saving.result()
        assert keeper.saved == saved
    keeper.close()
    assert keeper.failed == 1


def test_a_full_disk_stops_no_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epoch goes on, the failure is reported, and the swap follows when there is space again."""
    writing = Writing(tmp_path, interval_ns=SECOND)

    def full(*_: object) -> Region:
        raise RegionError("no space")

    writing.keeper.tick(SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "create", full)
        assert not writing.keeper.tick(3 * SECOND)
    assert (writing.keeper.failed, writing.keeper.last_error) == (1, "no space")
    keys = writing.write(0)
    assert writing.keeper.tick(4 * SECOND)
    writing.keeper.close()
    assert query(attach_epoch(tmp_path, "flows", 0), keys).found.all()


CHILD = """
import sys
from pathlib import Path
sys.path[:0] = {tests!r}
from test_epochs import Writing, SECOND
from hopscope.direct.stores import epoch_keeper as epochs
import time
folder, stage = Path(sys.argv[1]), sys.argv[2]
writing = Writing(folder)
def hang(*_, **__):
    print("here", flush=True)
    time.sleep(60)
if stage == "linked":
    writing.keeper.store.region.__class__.rename = hang
if stage == "sealed":
    epochs.EpochKeeper._end = hang
if stage == "copying":
    def refuse(path, target, real=Path.replace):
        if path.suffix == ".sealed":
            raise OSError(18, "Invalid cross-device link")
        return real(path, target)
    Path.replace = refuse
    def part(source, draft):
        Path(draft).write_bytes(Path(source).read_bytes()[:1000])
        hang()
    epochs.shutil.copyfile = part
writing.write(0)
writing.keeper.swap(5)
time.sleep(60)
"""


@pytest.mark.parametrize("stage", ["linked", "sealed", "copying"])
def test_a_killed_process_loses_no_epoch(tmp_path: Path, stage: str) -> None:
    """SIGKILL between the steps of a swap and in the middle of saving: the next process has every key."""
    code = CHILD.format(tests=[str(Path(__file__).parent), str(Path(__file__).parents[1])])
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path), stage], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "here\n"
        os.kill(child.pid, signal.SIGKILL)
    keys = as_bytes(np.arange(20, dtype=np.uint64), 8)
    writing = Writing(tmp_path)
    assert writing.keeper.store.epoch == (0 if stage == "linked" else 1)
    writing.keeper.tick(6)
    writing.keeper.close()
    told = query_epochs(epochs(tmp_path, "flows"), keys, QueryOptions())
    assert {(one["status"], one["epoch"]) for one in told} == {("found", 0)}
    names = sorted(path.name for path in tmp_path.rglob("*"))
    assert names == sorted(["flows.region", "history", *([] if stage == "linked" else ["flows-0.region"])])


def test_a_recreated_store_replaces_no_past_epoch(tmp_path: Path) -> None:
    """The current file is removed: numbers go on after the history."""
    writing = Writing(tmp_path)
    writing.keeper.swap(5)
    writing.keeper.close()
    (tmp_path / "flows.region").unlink()
    again = Writing(tmp_path)
    assert again.keeper.store.epoch == 1
    again.keeper.swap(9)
    again.keeper.close()
    assert [past.epoch for past in history(tmp_path, "flows")] == [1, 0]


def test_regions_that_were_being_made_are_cleared(tmp_path: Path) -> None:
    """A process that was killed leaves half a region under its number: the next one frees the space."""
    Writing(tmp_path).keeper.close()
    drafts = [tmp_path / f"..flows.next.{2**31}", tmp_path / f".flows.region.{2**31}"]
    others = [tmp_path / ".flows.region.x-3.sealed", tmp_path / ".flows2.region.77"]
    for path in (*drafts, *others):
        path.write_bytes(b"half")
    Writing(tmp_path).keeper.close()
    assert not any(path.exists() for path in drafts)
    assert all(path.exists() for path in others)

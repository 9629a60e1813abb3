"""Direct telemetry access on one core: reports a second of every primitive, and of queries."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import direct_lists
from harness.common import Bench, median
from harness.direct import (
    BATCH,
    BATCHES,
    KEY_INCREMENT,
    KEY_WRITE,
    Cases,
    Feed,
    Work,
    translating,
    uniform,
    writes_per,
)
from harness.rivals import StoreLoop, cuckoo_table, log_with_index
from hopscope.direct.primitives import key_write
from hopscope.direct.primitives.key_increment import KeyIncrementLayout
from hopscope.direct.primitives.key_write import KeyWriteLayout
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser

SIZES = {"32 MiB": 32 << 20, "4 GiB": 4 << 30}
SLOT = 8


def key_writes(nbytes: int, copies: int, data_bytes: int = 4) -> Work:
    """Keys from half as many as there are slots, so that the rivals' tables have room for all."""
    layout = KeyWriteLayout.sized(nbytes, data_bytes=data_bytes)
    return translating(_reports(nbytes, copies), layout)


def _reports(nbytes: int, copies: int) -> Feed:
    return Feed(KEY_WRITE, uniform(nbytes // SLOT // 2, opcode=1, flags=0, redundancy=copies))


def key_increments(nbytes: int, copies: int) -> Work:
    """Keys as those of Key-Write; counters of 64 random bits."""
    draw = uniform(nbytes // SLOT // 2, opcode=3, flags=0, redundancy=copies)
    return translating(Feed(KEY_INCREMENT, draw), KeyIncrementLayout.sized(nbytes))


class Asking:
    """Key-Write queries for keys that were written; few of them have been overwritten."""

    unit = "queries/s"

    def __init__(self, nbytes: int, copies: int) -> None:
        layout = KeyWriteLayout.sized(nbytes)
        self._store = Store.create(None, layout)
        self._copies = copies
        self._random = np.random.default_rng(2)
        feed = _reports(nbytes, copies)
        translator = Translator([layout], MemoryTransport([self._store]))
        parser = DtaParser(Form.TWO, BATCH)
        written = []
        for _ in range(max(1, min(64, layout.slots // 16 // len(feed.rows)))):
            feed.renew()
            written.append(feed.rows["key"].copy())
            for batch in feed.batches:
                translator.translate(parser.parse(batch), batch.arena)
        self._written = np.concatenate(written)
        self._keys: npt.NDArray[np.uint8] = np.zeros((0, 4), np.uint8)

    def renew(self) -> None:
        """Other keys."""
        keys = self._random.choice(self._written, BATCH * BATCHES)
        self._keys = keys.view(np.uint8).reshape(-1, 4)

    def run(self) -> int:
        """One query for all."""
        key_write.query(self._store, self._keys, copies=self._copies)
        return len(self._keys)

    def writes(self) -> None:
        """None."""
        return


def cases(nbytes: int, size: str) -> Cases:
    """All cases of one size of memory."""
    return [
        ({"what": "stores alone", "memory": size}, lambda: StoreLoop(nbytes)),
        ({"what": "Key-Write", "memory": size, "copies": 1}, lambda: key_writes(nbytes, 1)),
        ({"what": "Key-Write", "memory": size, "copies": 2}, lambda: key_writes(nbytes, 2)),
        ({"what": "Key-Write query", "memory": size, "copies": 2}, lambda: Asking(nbytes, 2)),
        ({"what": "Key-Increment", "memory": size, "copies": 1}, lambda: key_increments(nbytes, 1)),
        ({"what": "Key-Increment", "memory": size, "copies": 2}, lambda: key_increments(nbytes, 2)),
        ({"what": "cuckoo hash table", "memory": size}, lambda: cuckoo_table(_reports(nbytes, 1), nbytes)),
        ({"what": "indexed log", "memory": size}, lambda: log_with_index(_reports(nbytes, 1), nbytes)),
    ]


def measure(bench: Bench, case: dict[str, object], make: Callable[[], Work], rounds: int) -> None:
    """One case: as many rounds, the first not counted."""
    work = make()
    seconds, units, total = [], 0, 0
    for number in range(rounds + 1):
        work.renew()
        start = time.perf_counter()
        units = work.run()
        if number:
            seconds.append(time.perf_counter() - start)
        total += units
    best = units / min(seconds)
    note = f"best round {best / 1e6:.1f} M/s{writes_per(work, total)}"
    bench.row(case, units / median(seconds), work.unit, note)


def shard(size: int, rounds: int, barrier: Barrier, answers: Any) -> None:
    """One of two processes with a store and reports of its own."""
    work = key_writes(size, 1)
    work.renew()
    work.run()
    barrier.wait()
    units, seconds = 0, 0.0
    for _ in range(rounds):
        work.renew()
        start = time.perf_counter()
        units += work.run()
        seconds += time.perf_counter() - start
    answers.put(units / seconds)


def two_cores(bench: Bench, case: dict[str, object], size: int, rounds: int) -> None:
    """Key-Write in two processes at once."""
    context = get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    shards = [context.Process(target=shard, args=(size, rounds, barrier, answers)) for _ in range(2)]
    for process in shards:
        process.start()
    rates = [answers.get() for _ in shards]
    for process in shards:
        process.join()
    bench.row(case, sum(rates), "reports/s", "a store for each process")


def main() -> None:
    """Every case at both sizes."""
    bench, _ = Bench.start(
        "direct_primitives",
        "reports per second from UDP payloads in memory through parser, translator and stores, on one core.",
        "sockets and packets to a NIC; keys are random and uniform, drawn again between rounds; batches "
        "share their FRAME rows, as a listener's do.",
    )
    rounds = 9 if bench.quick else 45
    for size, nbytes in SIZES.items():
        for case, make in [*cases(nbytes, size), *direct_lists.cases(nbytes, size)]:
            measure(bench, case, make, rounds)
        case = {"what": "Key-Write", "memory": size, "copies": 1, "cores": 2}
        if not bench.quick or size != "4 GiB":
            two_cores(bench, case, nbytes, rounds)


if __name__ == "__main__":
    main()

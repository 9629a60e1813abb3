"""Readers of Append's lists in processes of their own, alone and beside a writer."""

from __future__ import annotations

import os
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np

from hopscope.direct.primitives.append import AppendLayout
from hopscope.direct.primitives.append_reader import ListsReader
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.dta.records import DTA

LISTS = 2
BLOCK = 1 << 16
LAYOUT = AppendLayout(batches=1 << 18, lists=LISTS, data_bytes=4, batch=16)


def polling(seconds: float) -> list[tuple[int, bool, float]]:
    """Readers, whether a writer writes into the same lists, and million entries per second of all readers."""
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=folder) as place:
        path = str(Path(place) / "lists.region")
        store = Store.create(path, LAYOUT)
        write = _writer(store)
        for _ in range(LISTS * LAYOUT.batches * LAYOUT.batch // BLOCK):
            write()
        cases = [(1, False), (1, True), (2, False)] if (os.cpu_count() or 1) > 1 else [(1, False)]
        return [(readers, beside, _one(path, readers, beside, seconds)) for readers, beside in cases]


def _writer(store: Store) -> Any:
    """A function that appends a block of entries to all lists."""
    translator = Translator([LAYOUT], MemoryTransport([store]))
    entries = np.zeros(BLOCK, DTA)
    entries["opcode"], entries["data_bytes"] = LAYOUT.opcode, 4
    entries["list"] = np.arange(BLOCK) % LISTS
    arena = np.zeros(8, np.uint8)
    return lambda: translator.translate(entries, arena)


def _one(path: str, readers: int, beside: bool, seconds: float) -> float:
    context = get_context("spawn")
    barrier, answers = context.Barrier(readers + beside), context.Queue()
    children = [
        context.Process(target=_read, args=(path, number % LISTS, seconds, barrier, answers))
        for number in range(readers)
    ]
    if beside:
        children.append(context.Process(target=_write, args=(path, seconds, barrier)))
    for child in children:
        child.start()
    total = sum(answers.get() for _ in range(readers))
    for child in children:
        child.join()
    return float(total)


def _read(path: str, number: int, seconds: float, barrier: Barrier, answers: Any) -> None:
    """Read a list from its oldest entry to its newest, again and again."""
    store = Store.attach(path, AppendLayout)
    ListsReader(store, number, "oldest").poll(BLOCK)
    barrier.wait()
    entries, start = 0, time.perf_counter()
    until = start + seconds
    while time.perf_counter() < until:
        reader = ListsReader(store, number, "oldest")
        while count := len(reader.poll(BLOCK)[0]):
            entries += count
            if time.perf_counter() > until:
                break
    answers.put(entries / (time.perf_counter() - start) / 1e6)


def _write(path: str, seconds: float, barrier: Barrier) -> None:
    """Append for a little longer than the readers read."""
    write = _writer(Store.attach(path, AppendLayout, writable=True))
    barrier.wait()
    until = time.perf_counter() + seconds * 1.1
    while time.perf_counter() < until:
        write()

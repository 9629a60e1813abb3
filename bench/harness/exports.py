"""What sending events to a destination takes."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy.typing as npt

from hopscope.export.sender import Sender
from hopscope.history.writing.journal import JournalWriter

Array = npt.NDArray[Any]


def measure(sender_of: Callable[[Path], tuple[Sender, Array]], events: Array) -> tuple[float, float, float]:
    """Events/s out of a journal; seconds of processors that this process takes per event; bytes of an event.

    `sender_of` makes the sender of a data folder, with its DESTINATION [1].
    """
    with tempfile.TemporaryDirectory() as folder, JournalWriter(Path(folder), 0) as writer:
        writer.append(events)
        sender, row = sender_of(Path(folder))
        began, spent = time.perf_counter(), time.process_time()
        sender.start()
        sender.finish()
        assert sender.ended(600)
        taken, spent = time.perf_counter() - began, time.process_time() - spent
    assert row["events_total"][0] == len(events), row
    return len(events) / taken, spent / len(events), int(row["bytes_total"][0]) / len(events)

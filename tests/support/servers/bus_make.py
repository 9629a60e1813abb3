"""What tests of message buses share: senders to them, and what they must have delivered."""

from __future__ import annotations

import importlib.util
import itertools
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.export.block import EventBlock
from hopscope.export.buses.format import read_block
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.destination import Context
from hopscope.export.kinds import destination_class
from hopscope.export.sender import Sender
from hopscope.settings.destinations.kinds import EXPORT_KINDS
from support.events.event_make import Events, random_events

NAMES = Names({3: 'agg "3"\\ ü,x', 4: "*.>#+"}, {(3, 1): "a/b c"})


def need(package: str) -> None:
    """Skip a test, or fail it where nothing may be missing, without this package."""
    if importlib.util.find_spec(package) is None:
        if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
            pytest.fail(f"{package} is missing, and HOPSCOPE_REQUIRE_TOOLS=1")
        pytest.skip(f"{package} is missing")


def bus_sender(folder: Path, kind: str, **more: Any) -> tuple[Sender, Any]:
    """A sender of all events of the data folder to a bus, and its counters; the collector is `m.1`."""
    row = np.zeros(1, DESTINATION)
    about = DestinationRow(row)
    given = {"kind": kind, "begin": "oldest", "batch_seconds": 0.05, "timeout_seconds": 5, **more}
    settings = EXPORT_KINDS[kind].model_validate(given)
    destination = destination_class(kind)(settings, Context("lab", "m.1", NAMES, about.count))
    return Sender(destination, folder, about), row


def timed_events(n: int, seed: int, start: int = 0, shard: int = 0) -> Events:
    """Random events of a shard, numbered, with times that differ, so that batches are cut between any two."""
    events = random_events(n, seed=seed, start=start)
    events["time_ns"] = 1_700_000_000_000_000_000 + np.arange(start, start + n)
    events["sequence"], events["shard"] = np.arange(start, start + n), shard
    return events


def joined(bodies: Iterable[bytes]) -> tuple[list[EventBlock], Events]:
    """The blocks of binary messages, checked to follow each other without a gap, and their events."""
    blocks = [read_block(body) for body in bodies]
    for before, after in itertools.pairwise(blocks):
        assert after.first == before.last + 1
    return blocks, np.concatenate([block.records for block in blocks])

"""Reads and replaces the watch list of a switch, in a map that its programs use, while they run."""

from __future__ import annotations

import fcntl
import ipaddress
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..bpf.tc import pinned_memory
from ..capture.errors import CaptureError
from ..settings.watch import WatchSettings, prefix
from ..wire.records import Records
from .layout import WATCH, WATCHES, IntMode, Protocol

_GRACE_SECONDS = 0.01
"""Longer than a program takes for any packet: after this, no program reads the replaced list."""


def read_watches(pins: Path) -> tuple[WatchSettings, ...]:
    """The entries in force, in order. Raises CaptureError if nothing is attached."""
    with _mapped(pins) as watches:
        current = watches["lists"][int(watches["active"]) & 1]
        return tuple(_entry(row) for row in current["watch"][: int(current["count"])])


def replace_watches(pins: Path, entries: Sequence[WatchSettings]) -> None:
    """Replace the watch list atomically: each packet sees either the old list or the new one. Raises
    CaptureError if nothing is attached, ValueError for more than MAX_WATCHES entries.
    """
    with _mapped(pins) as watches:
        write(watches, entries)
        time.sleep(_GRACE_SECONDS)


def write(watches: np.void, entries: Sequence[WatchSettings]) -> None:
    """Write entries into the unused list of WATCHES, then activate it."""
    rows = rows_of(entries)
    following = 1 - (int(watches["active"]) & 1)
    spare = watches["lists"][following]
    if len(rows) > len(spare["watch"]):
        raise ValueError(f"found {len(rows)} entries, expected at most {len(spare['watch'])}")
    spare["watch"][: len(rows)] = rows
    spare["count"] = len(rows)
    watches["active"] = following


def rows_of(entries: Sequence[WatchSettings]) -> Records:
    """Entries in the programs' form, WATCH [n]."""
    rows = np.zeros(len(entries), WATCH)
    for watch, row in zip(entries, rows, strict=True):
        for end, text in (("source", watch.source), ("destination", watch.destination)):
            address, mask = prefix(text)
            row[end], row[f"{end}_mask"] = list(address), list(mask)
        row["first_port"], row["last_port"] = watch.ports
        row["protocol"] = Protocol[watch.protocol.upper()]
        row["mode"] = IntMode[watch.mode.upper()]
        row["sample"], row["by_flow"] = watch.sample, watch.sample_by == "flow"
    return rows


def _entry(row: np.void) -> WatchSettings:
    first, last = int(row["first_port"]), int(row["last_port"])
    every = (first, last) == (0, 65535)
    return WatchSettings.model_validate(
        {
            "source": _prefix(row["source"].tobytes(), row["source_mask"].tobytes()),
            "destination": _prefix(row["destination"].tobytes(), row["destination_mask"].tobytes()),
            "port": None if every else first,
            "last_port": None if every or first == last else last,
            "protocol": Protocol(int(row["protocol"])).name.lower(),
            "mode": IntMode(int(row["mode"])).label,
            "sample": int(row["sample"]),
            "sample_by": "flow" if row["by_flow"] else "packet",
        }
    )


def _prefix(address: bytes, mask: bytes) -> str:
    length = int.from_bytes(mask, "big").bit_count()
    if not length:
        return "any"
    if length >= 96 and address.startswith(bytes(10) + b"\xff\xff"):
        return f"{ipaddress.IPv4Address(address[12:])}/{length - 96}"
    return f"{ipaddress.IPv6Address(address)}/{length}"


@contextmanager
def _mapped(pins: Path) -> Iterator[np.void]:
    """The pinned map, WATCHES, locked so that only one process has it at a time."""
    try:
        (watches,) = pinned_memory(pins / "watches", WATCHES)
    except CaptureError as error:
        raise CaptureError(f"nothing is attached: {error}") from error
    folder = os.open(pins, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield watches
    finally:
        os.close(folder)

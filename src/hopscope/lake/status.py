"""How many of a member's events the lake has, in files that the lake process writes and others read.

`lake.status`, in the folder of regions, is the status of the process. `lake.marks`, in the data folder,
states which events the lake has. It is used for retention of local history, to notice that the catalog is
older than this file, and so that no new event gets a number that an event in the lake has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..history.files.names import sync_folder, write_file
from ..memory.text_file import read_text, write_text
from ..settings.lake import LakeSettings

FILE_NAME = "lake.status"
MARKS_NAME = "lake.marks"
FLUSH_NAME = "lake.flush"


def write_status(regions: Path, status: Mapping[str, Any]) -> None:
    """Replace the status file."""
    write_text(regions / FILE_NAME, json.dumps(status, separators=(",", ":")))


def read_status(regions: Path) -> dict[str, Any]:
    """The newest status, with the keys of `process.LakeProcess.status`; empty if the process has not run."""
    return _read(regions / FILE_NAME)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write_marks(folder: Path, settings: LakeSettings, marks: Mapping[int, int]) -> None:
    """Note the next sequence of every shard, below which the lake has all events. OSError: the note is not on
    disk.
    """
    text = {"lake": _identity(settings), "marks": {str(shard): mark for shard, mark in marks.items()}}
    write_file(folder / MARKS_NAME, json.dumps(text).encode())
    sync_folder(folder)


def read_marks(folder: Path, settings: LakeSettings) -> dict[int, int]:
    """The marks as of the last commit; empty if there was none, if it was another lake, or if the file is
    damaged.
    """
    noted = _read(folder / MARKS_NAME)
    if noted.get("lake") != _identity(settings):
        return {}
    try:
        return {int(shard): int(mark) for shard, mark in noted["marks"].items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}


def _identity(settings: LakeSettings) -> list[str]:
    return [settings.place, settings.schema_name]


def ask_to_flush(regions: Path, ends: Mapping[int, int]) -> None:
    """Ask the lake process to soon commit the events up to these sequences (exclusive), by shard."""
    write_text(regions / FLUSH_NAME, json.dumps({str(shard): end for shard, end in ends.items()}))


def asked_to_flush(regions: Path) -> dict[int, int]:
    """The sequences that `ask_to_flush` asked for last; empty if none."""
    return {int(shard): int(end) for shard, end in _read(regions / FLUSH_NAME).items()}


def flush(folder: Path, seconds: float) -> bool:
    """Wait until the lake has all events that the data folder's history has now; False if it does not have
    them within `seconds`. A collector with a lake must be running.
    """
    from ..history.follow import ends_of

    ends, regions = ends_of(folder), folder / "regions"
    ask_to_flush(regions, ends)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        shards = read_status(regions).get("shards", {})
        if all(shards.get(str(shard), {}).get("next", 0) >= end for shard, end in ends.items()):
            return True
        time.sleep(0.1)
    return False

"""How far the lake has a member's events, in files: the lake process writes, all others read.

`lake.status` in the folder of regions shows the process; `lake.marks` in the data folder states what the lake
has: for retention of local history, to notice that a catalog is older than it, and to give no event a number
that one in the lake has.
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
    """Replace the file."""
    write_text(regions / FILE_NAME, json.dumps(status, separators=(",", ":")))


def read_status(regions: Path) -> dict[str, Any]:
    """What the process saw last, the keys of `process.LakeProcess.status`; empty: it has not run."""
    return _read(regions / FILE_NAME)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_text(path) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def write_marks(folder: Path, settings: LakeSettings, marks: Mapping[int, int]) -> None:
    """Note what the lake has: the next sequence of every shard. The note is on disk; else OSError."""
    text = {"lake": _identity(settings), "marks": {str(shard): mark for shard, mark in marks.items()}}
    write_file(folder / MARKS_NAME, json.dumps(text).encode())
    sync_folder(folder)


def read_marks(folder: Path, settings: LakeSettings) -> dict[int, int]:
    """What the lake had at the last commit; empty: nothing, that was another lake, or the file is damaged."""
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
    """Ask for events up to these sequences (exclusive), by shard, to be in the lake soon."""
    write_text(regions / FLUSH_NAME, json.dumps({str(shard): end for shard, end in ends.items()}))


def asked_to_flush(regions: Path) -> dict[int, int]:
    """What was asked for; empty: nothing."""
    return {int(shard): int(end) for shard, end in _read(regions / FLUSH_NAME).items()}


def flush(folder: Path, seconds: float) -> bool:
    """Wait until the lake has what local history of the data folder has now; False: it has not within
    `seconds`. A collector with a lake must run.
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

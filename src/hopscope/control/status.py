"""Status of the switches, in a file in the folder of regions: the process that reaches them writes it, others
read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..memory.text_file import read_text, write_text

FILE_NAME = "control.status"


def write_status(regions: Path, switches: Sequence[Mapping[str, Any]]) -> None:
    """Replace the file."""
    write_text(regions / FILE_NAME, json.dumps(switches, separators=(",", ":")))


def read_status(regions: Path) -> list[dict[str, Any]]:
    """Status of every switch: `name`, `kind`, `node`, `place`, and the keys of `Reconciler.status`."""
    text = read_text(regions / FILE_NAME)
    return [] if text is None else json.loads(text)

"""The cluster as a member sees it, in a file of the regions that the cluster process writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..memory.text_file import read_text, write_text

FILE_NAME = "cluster.status"


def write_status(regions: Path, status: Mapping[str, Any]) -> None:
    """Replace the file."""
    write_text(regions / FILE_NAME, json.dumps(status, separators=(",", ":")))


def read_status(regions: Path) -> dict[str, Any]:
    """The last status: the keys of `process.ClusterProcess.status`; empty: the process has not run."""
    text = read_text(regions / FILE_NAME)
    return {} if text is None else json.loads(text)

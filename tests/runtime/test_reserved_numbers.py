"""Numbers that were exported are not given to other events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT
from hopscope.export.positions import Positions
from hopscope.history.writing.journal import NUMBERS_SKIPPED, JournalWriter
from hopscope.lake.status import write_marks
from hopscope.runtime.supervisor.reserved_numbers import reserve_numbers
from hopscope.settings.collector import Settings


@pytest.mark.parametrize(
    ("positions", "mark", "following"),
    [(3, 4, 5), (9, 4, 9), (3, 8, 8), (NUMBERS_SKIPPED + 6, 8, 8)],
)
def test_numbers_go_on_after_what_was_exported(
    tmp_path: Path, positions: int, mark: int, following: int
) -> None:
    """Whether a destination or the lake has them; a position that cannot be one changes nothing."""
    settings = Settings.model_validate(
        {
            "export": {"lab": {"kind": "parquet", "folder": str(tmp_path / "lab")}},
            "lake": {"catalog": "postgresql://hopscope@127.0.0.1/hopscope", "data": str(tmp_path / "lake")},
        }
    )
    with JournalWriter(tmp_path, 2) as writer:
        writer.append(np.zeros(5, EVENT))
    Positions(tmp_path, "lab").start(2, positions)
    write_marks(tmp_path, settings.lake, {2: mark})
    lines: list[str] = []
    reserve_numbers(tmp_path, settings, lines.append)
    with JournalWriter(tmp_path, 2) as writer:
        assert writer.next_sequence == following
    assert len(lines) == (following > 5)

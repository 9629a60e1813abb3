"""The lines of a summary."""

from __future__ import annotations

from collections import Counter

from hopscope.summary import summary_lines


def test_postcards() -> None:
    """Postcards and the paths that were joined of them are said where there are any."""
    counts = Counter({"reports_total": 9, "frames_total": 9})
    assert not any(line.startswith("postcards") for line in summary_lines(counts))
    counts["postcards_total"], counts["joined_postcards_total"] = 9, 8
    counts["postcard_paths_total.complete"], counts["postcard_paths_total.incomplete"] = 2, 1
    line = next(line for line in summary_lines(counts) if line.startswith("postcards"))
    assert line == "postcards  9, of which 8 are hops of joined paths; paths 3: 2 complete, 1 incomplete"

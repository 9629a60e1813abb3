"""Distributions in history: nothing lost, nothing twice, whatever stops it and where."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.distributions.reader import copy_region
from hopscope.detect.distributions.region import Distributions, log_edges
from hopscope.detect.records import BINS, DISTRIBUTED, NO_PORT
from hopscope.history.errors import HistoryError
from hopscope.history.files import period_files
from hopscope.history.files.period_files import all_files, list_files
from hopscope.history.query import History
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.periods import PeriodArchive, take_leftovers, take_once
from hopscope.settings.history import HistorySettings
from hopscope.settings.sink import DistributionSettings
from support.processes.crash_steps import crashes

START = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
SETTINGS = DistributionSettings(queues=16)


def folders(root: Path) -> tuple[Path, Path]:
    """A data folder and its folder of regions."""
    regions = root / "regions"
    regions.mkdir(parents=True)
    (root / "journal").mkdir()
    return root, regions


def count(counts: Distributions, node: int, values: list[int], measure: int = 0) -> None:
    """Count values of a switch (its row: the node's number), as the kernel does; node 0: end to end."""
    row = counts.rows[node]
    if node:
        row["key"], row["node_id"], row["port"] = 1 << 63 | node, node, 7 if node > 1 else NO_PORT
    row["sum"][measure] += np.uint64(sum(values))
    row["highest"][measure] = max(int(row["highest"][measure]), *values)
    row["first_ns"], row["last_ns"] = START, START + 5 * SECOND
    bins = counts.bins.reshape(-1, DISTRIBUTED, BINS)
    np.add.at(bins[node, measure], np.searchsorted(log_edges(), values), 1)


def told(folder: Path, **chosen: object) -> list[tuple[object, ...]]:
    """(measure, node, port, count, sum) of a query."""
    with History(folder) as history:
        found = history.distributions(**chosen)  # type: ignore[arg-type]
    return [(one.measure.label, one.node, one.port, one.count, one.sum) for one in found]


def test_periods_are_differences(tmp_path: Path) -> None:
    """Each file has what was counted since the one before; a query adds them up, with what workers have
    counted since; windows are reported as they are covered; an idle period leaves no file.
    """
    folder, regions = folders(tmp_path)
    shards = [Distributions(SETTINGS, regions, shard) for shard in range(2)]
    for region in shards:
        region.region["origin"][1] = START
    archive = PeriodArchive(folder, regions, 10)
    count(shards[0], 1, [5, 5, 100])
    count(shards[0], 0, [105])
    archive.take(START + 10 * SECOND)
    count(shards[0], 1, [7])
    count(shards[1], 1, [50])
    count(shards[1], 2, [3], measure=1)
    archive.take(START + 20 * SECOND)
    archive.take(START + 30 * SECOND)
    count(shards[0], 2, [4])
    assert [(f.shard, f.first, f.since_ns - START) for f in all_files(folder)] == [
        (0, 0, 0),
        (0, 1, 10 * SECOND),
        (1, 0, 10 * SECOND),
    ]
    everything = [
        ("hop_latency", 1, None, 5, 167),
        ("hop_latency", 2, 7, 1, 4),
        ("queue_occupancy", 2, 7, 1, 3),
        ("end_to_end", None, None, 1, 105),
    ]
    assert told(folder) == everything
    assert told(folder, nodes=[2], measures=["queue_occupancy"]) == [everything[2]]
    assert told(folder, by="network", measures=["hop_latency"]) == [("hop_latency", None, None, 6, 171)]
    with History(folder) as history:
        found = history.distributions(start=START + 12 * SECOND, end=START + 20 * SECOND, nodes=[1])
        assert [(one.count, one.sum, one.since_ns, one.until_ns) for one in found] == [
            (2, 57, START + 10 * SECOND, START + 20 * SECOND)
        ]
        rows = history.sql(
            "SELECT measure, sum(count) AS n, max(unnest_upper) AS top FROM (SELECT measure, count,"
            " unnest(upper) AS unnest_upper FROM distributions) GROUP BY measure ORDER BY measure"
        )
        assert list(rows["measure"]) == ["end_to_end", "hop_latency", "queue_occupancy"]
        with pytest.raises(HistoryError, match="unknown measure 'delay': expected one of hop_latency"):
            history.distributions(measures=["delay"])
        by_time = history.distributions(measures=["hop_latency"], by="switch", bucket_ns=20 * SECOND)
        assert [(one.node, one.count, one.sum, one.since_ns, one.until_ns) for one in by_time[:2]] == [
            (1, 5, 167, START, START + 20 * SECOND),
            (2, 1, 4, START + 20 * SECOND, by_time[1].until_ns),
        ]
        assert len(by_time) == 2
    assert told(folder, start=START + 10**18) == []


def test_another_archive_goes_on(tmp_path: Path) -> None:
    """An archive that is started again takes only what is new, also when its note is missing; from a worker's
    new region everything; a clock set back, or a file that cannot be written, loses nothing.
    """
    folder, regions = folders(tmp_path)
    counts = Distributions(SETTINGS, regions)
    count(counts, 1, [1, 2])
    PeriodArchive(folder, regions, 10).take(START)
    count(counts, 1, [3])
    PeriodArchive(folder, regions, 10).take(START - 5 * SECOND)
    (regions / "worker-0.archived").unlink()
    archive = PeriodArchive(folder, regions, 10)
    archive.take(START + SECOND)
    assert [(file.first, file.last) for file in all_files(folder)] == [(0, 0), (1, 1)]
    assert told(folder) == [("hop_latency", 1, None, 3, 6)]

    count(counts, 1, [10])
    (regions / "worker-0.distributions").unlink()
    counts = Distributions(SETTINGS, regions)
    count(counts, 1, [20])
    assert told(folder) == [("hop_latency", 1, None, 4, 26)]
    archive.take(START + 2 * SECOND)
    assert told(folder) == [("hop_latency", 1, None, 5, 36)]

    count(counts, 1, [30])
    (folder / "distributions").rename(folder / "away")
    (folder / "distributions").write_text("in the way")
    with pytest.raises(HistoryError):
        archive.take(START + 3 * SECOND)
    (folder / "distributions").unlink()
    (folder / "away").rename(folder / "distributions")
    assert told(folder) == [("hop_latency", 1, None, 6, 66)]
    archive.take(START + 4 * SECOND)
    (regions / "worker-0.distributions").unlink()
    assert told(folder) == [("hop_latency", 1, None, 6, 66)]


def test_a_region_whose_counts_decreased_is_reported(tmp_path: Path) -> None:
    """Counts below what files have are no continuation: that is reported, and nothing is invented."""
    folder, regions = folders(tmp_path)
    counts = Distributions(SETTINGS, regions)
    count(counts, 1, [1, 2])
    lines: list[str] = []
    archive = PeriodArchive(folder, regions, 10, lines.append)
    archive.take(START)
    counts.bins[:] = 0
    archive.take(START + SECOND)
    assert "counts are lower than what history has" in lines[0]
    assert [one[3] for one in told(folder)] == [2]


@pytest.mark.e2e
def test_a_crash_at_every_step(tmp_path: Path) -> None:
    """Killed before each fsync, rename and removal: every value is there once, then, and a period later."""
    folder, regions = folders(tmp_path / "before")
    counts = Distributions(SETTINGS, regions)
    count(counts, 1, [1, 2])
    count(counts, 0, [9])
    PeriodArchive(folder, regions, 10).take(START)
    count(counts, 1, [3])
    count(counts, 2, [8])
    ends = crashes(
        tmp_path,
        "from hopscope.history.files import period_files\n"
        "from hopscope.history.writing.periods import PeriodArchive\n"
        "from hopscope.settings.history import HistorySettings\n"
        "period_files.MERGE = 2",
        f'PeriodArchive(folder, folder / "regions", 10, settings=HistorySettings()).take({START + SECOND})',
    )
    assert len(ends) > 6
    expected = [
        ("hop_latency", 1, None, 3, 6),
        ("hop_latency", 2, 7, 1, 8),
        ("end_to_end", None, None, 1, 9),
    ]
    for at in ends:
        assert told(at) == expected, f"after a crash at step {at.name}"
        archive_once(at, HistorySettings())
        PeriodArchive(at, at / "regions", 10).take(START + 2 * SECOND)
        for path in (at / "regions").iterdir():
            path.unlink()
        assert told(at) == expected, f"a period after a crash at step {at.name}"
        assert not list(at.rglob("*.part"))


def test_leftovers_of_a_killed_collector(tmp_path: Path) -> None:
    """What workers had counted when all was killed is taken before their regions are emptied, and a foreign
    region is reported; a replayed capture is one period, by its own time.
    """
    folder, regions = folders(tmp_path)
    counts = Distributions(SETTINGS, regions)
    counts.region["origin"][1] = START
    count(counts, 1, [1, 2])
    take_leftovers(folder, regions)
    (file,) = all_files(folder)
    assert file.until_ns == START + 5 * SECOND + 1
    lines: list[str] = []
    path = regions / "worker-0.distributions"
    path.unlink()
    path.write_bytes(b"nonsense")
    take_leftovers(folder, regions, lines.append)
    assert "not a Hopscope region" in lines[0]
    with History(folder) as history, pytest.raises(HistoryError, match="not a Hopscope region"):
        history.distributions()
    path.unlink()
    take_once(folder, copy_region(counts.region, 0))
    assert [f.first for f in all_files(folder)] == [0, 1]
    assert told(folder, start=START, end=START + 1)[0][3] == 4


def test_files_are_merged_and_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adjacent files become one with the same values, damaged ones are set aside, foreign ones rejected, and
    all go with their age like segments.
    """
    monkeypatch.setattr(period_files, "MERGE", 4)
    folder, regions = folders(tmp_path)
    counts = Distributions(SETTINGS, regions)
    archive = PeriodArchive(folder, regions, 10, settings=HistorySettings())
    for turn in range(5):
        count(counts, 1, [turn])
        archive.take(START + turn * SECOND)
    assert [(file.first, file.last) for file in list_files(folder)] == [(0, 3), (4, 4)]
    assert told(folder) == [("hop_latency", 1, None, 5, 10)]
    whole, last = (file.path for file in list_files(folder))
    last.write_bytes(last.read_bytes()[:-20])
    assert told(folder) == [("hop_latency", 1, None, 4, 6)]
    lines: list[str] = []
    assert archive_once(folder, HistorySettings(), lines.append).quarantined == 1
    assert "is damaged" in lines[0]
    assert told(folder) == [("hop_latency", 1, None, 4, 6)]
    os.utime(whole, ns=(START, START))
    archive_once(folder, HistorySettings())
    assert told(folder) == []
    (folder / "distributions" / "mine.parquet").write_bytes(b"")
    with History(folder) as history, pytest.raises(HistoryError, match="move it out of the folder"):
        history.distributions()


def test_a_file_that_decays_is_not_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After it was checked, with its time unchanged: periods go on, the others are merged, and the archive
    sets it aside.
    """
    monkeypatch.setattr(period_files, "MERGE", 4)
    folder, regions = folders(tmp_path)
    counts = Distributions(SETTINGS, regions)
    lines: list[str] = []
    archive = PeriodArchive(folder, regions, 10, lines.append, HistorySettings())
    for turn in range(6):
        count(counts, 1, [turn])
        archive.take(START + turn * SECOND)
        if turn == 1:
            archive_once(folder, HistorySettings())
            bad = list_files(folder)[1].path
            stat, flipped = bad.stat(), bytearray(bad.read_bytes())
            flipped[100] ^= 1
            bad.write_bytes(flipped)
            os.utime(bad, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert [(file.first, file.last) for file in list_files(folder)] == [(0, 0), (1, 1), (2, 5)]
    assert len(lines) == 1
    assert f"{bad} is damaged" in lines[0]
    assert archive_once(folder, HistorySettings()).quarantined == 1
    assert told(folder) == [("hop_latency", 1, None, 5, 14)]


def test_merged_files_cover_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files that are merged again and again still go: a merged one covers an eighth of `keep_days` at
    most. One that took up every later period would never be too old.
    """
    monkeypatch.setattr(period_files, "MERGE", 2)
    folder, regions = folders(tmp_path)
    counts = Distributions(SETTINGS, regions)
    archive = PeriodArchive(folder, regions, 10, settings=HistorySettings(keep_days=52 / 24))
    for turn in range(20):  # one period an hour
        for path in (folder / "distributions").glob("*"):
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 3600 * SECOND))
        count(counts, 1, [turn])
        archive.take(START + turn * SECOND)
    spans = [file.last - file.first for file in list_files(folder)]
    assert spans[0] == max(spans) == 6
    assert told(folder) == [("hop_latency", 1, None, 20, sum(range(20)))]

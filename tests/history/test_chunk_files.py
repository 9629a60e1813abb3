"""Files in memory with a few chunks of segments, against the rows of the segments."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import duckdb
import numpy as np
import pytest

from hopscope.history.columns import connect
from hopscope.history.files import chunk_files as module
from hopscope.history.files import segment_index, segments
from hopscope.history.files.chunk_files import chunk_files
from hopscope.history.files.names import SegmentFile
from hopscope.history.files.segment_index import ROW, Part
from hopscope.history.files.segments import write_segment
from hopscope.history.query import Flow, History
from hopscope.history.reading import page
from support.events.event_make import Events

CHUNK = 64
ROWS = 20 * CHUNK + 9


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in (segment_index, segments, module, page):
        monkeypatch.setattr(place, "CHUNK_EVENTS", CHUNK)


@pytest.fixture
def segment(tmp_path: Path, make_events: Callable[..., Events]) -> SegmentFile:
    """One of 20 chunks and 9 rows, of a data folder."""
    (tmp_path / "journal").mkdir()
    (tmp_path / "segments").mkdir()
    return write_segment(tmp_path, numbered(make_events(ROWS, seed=3), 0))


def numbered(events: Events, first: int) -> Events:
    events["sequence"] = np.arange(first, first + len(events))
    return events


def chunks_of(segment: SegmentFile, *chunks: int) -> list[Part]:
    return [Part(segment, segment.first, segment.last, begin=chunk * CHUNK) for chunk in chunks]


@pytest.mark.parametrize(
    "chunks", [(0,), (20,), (7, 3), (0, 1, 2, 19, 20), (1, 3, 5, 7, 9, 11, 13, 15, 17, 19)]
)
def test_a_file_has_the_rows_of_its_chunks(segment: SegmentFile, chunks: tuple[int, ...]) -> None:
    """DuckDB finds the same rows in it as in the segment by their numbers, also through Bloom filters, and
    reads no other.
    """
    wanted = " OR ".join(f"{ROW} // {CHUNK} = {chunk}" for chunk in chunks)
    with connect(2**28, threads=1) as connection, chunk_files(chunks_of(segment, *chunks)) as (files, others):
        assert len(files) == 1
        assert not others
        source = f"SELECT * EXCLUDE {ROW} FROM read_parquet('{segment.path}', file_row_number = true)"
        rows = connection.execute(f"{source} WHERE {wanted} ORDER BY sequence").fetchall()
        assert (
            connection.execute(f"FROM read_parquet('{files[0].path}') ORDER BY sequence").fetchall() == rows
        )
        for row in rows[::17]:
            found = f"FROM read_parquet('{files[0].path}') WHERE node_id = {row[3] or 0} ORDER BY sequence"
            assert connection.execute(found).fetchall() == [each for each in rows if each[3] == (row[3] or 0)]


def test_a_file_that_had_other_chunks_has_only_its_own(segment: SegmentFile) -> None:
    """The memory of a file serves the next one, whatever was in it; two at a time have their own."""
    with connect(2**28, threads=1) as connection:
        connection.execute("SET parquet_metadata_cache = false")

        def sequences(file: SegmentFile) -> list[int]:
            found = connection.execute(f"SELECT sequence FROM read_parquet('{file.path}') ORDER BY sequence")
            return [sequence for (sequence,) in found.fetchall()]

        expected = {}
        for chunk in (3, 20, 0):
            rows = f"{ROW} // {CHUNK} = {chunk}"
            source = f"read_parquet('{segment.path}', file_row_number = true)"
            found = connection.execute(f"SELECT sequence FROM {source} WHERE {rows} ORDER BY sequence")
            expected[chunk] = [sequence for (sequence,) in found.fetchall()]
        with chunk_files(chunks_of(segment, *range(8))):
            pass
        before = len(list(Path("/proc/self/fd").iterdir()))
        for chunk in (3, 20, 0):
            with chunk_files(chunks_of(segment, chunk)) as ((file,), _):
                assert sequences(file) == expected[chunk]
                with chunk_files(chunks_of(segment, 20)) as ((other,), _):
                    assert (sequences(other), sequences(file)) == (expected[20], expected[chunk])
        assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1


def test_a_forked_process_has_files_of_its_own(segment: SegmentFile) -> None:
    """Its parent writes to those that it keeps."""
    with chunk_files(chunks_of(segment, 1)):
        pass
    assert module._SPARE
    child = os.fork()
    if not child:
        os._exit(len(module._SPARE))
    assert os.waitpid(child, 0)[1] == 0


def test_little_memory_is_kept(segment: SegmentFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many files, none of which is large."""
    monkeypatch.setattr(module, "_MAX_SPARE", 2)
    monkeypatch.setattr(module, "_SPARE", [])
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(chunk_files(chunks_of(segment, 1)))
    assert len(module._SPARE) == 2
    monkeypatch.setattr(module, "_MAX_SPARE_BYTES", 0)
    with chunk_files(chunks_of(segment, 1)):
        assert len(module._SPARE) == 1
    assert len(module._SPARE) == 1
    os.close(module._SPARE.pop())


def test_what_is_no_few_chunks_is_read_from_segments(segment: SegmentFile) -> None:
    """Parts that are ranges of sequences, most chunks of a segment, and those of a segment that is gone."""
    gone = SegmentFile(0, 0, ROWS - 1, segment.path.with_name("gone.parquet"))
    for parts in ([Part.whole(segment)], chunks_of(segment, *range(11)), chunks_of(gone, 1)):
        with chunk_files(parts) as (files, others):
            assert not files
            assert others == parts


def test_a_damaged_footer_is_left_to_duckdb(segment: SegmentFile) -> None:
    """With any bit of it changed, there is an error of DuckDB, or there are rows, or no file: none if a chunk
    would have another number of rows, or the end is missing. No descriptor stays open.
    """
    whole = segment.path.read_bytes()
    length = int.from_bytes(whole[-8:-4], "little")
    with chunk_files(chunks_of(segment, 2)):
        pass  # its file is kept
    before, random_ = len(list(Path("/proc/self/fd").iterdir())), random.Random(1)
    with connect(2**28, threads=1) as connection:
        connection.execute("SET parquet_metadata_cache = false")
        for _ in range(100):
            at = random_.randrange(len(whole) - 8 - length, len(whole))
            segment.path.write_bytes(
                whole[:at] + bytes([whole[at] ^ 1 << random_.randrange(8)]) + whole[at + 1 :]
            )
            module._footer.cache_clear()
            try:
                with chunk_files(chunks_of(segment, 2, 20)) as (files, _):
                    for file in files:
                        connection.execute(f"FROM read_parquet('{file.path}')").fetchall()
            except duckdb.Error:
                pass
    rows_64, rows_65 = b"\x16\x80\x01\x26", b"\x16\x82\x01\x26"
    assert whole.count(rows_64, len(whole) - length) >= 20
    for changed in (whole[:100], whole[:-length] + whole[-length:].replace(rows_64, rows_65)):
        segment.path.write_bytes(changed)
        module._footer.cache_clear()
        with chunk_files(chunks_of(segment, 2)) as (files, _):
            assert not files
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_damaged_page_is_one_of_its_segment(
    tmp_path: Path, segment: SegmentFile, make_events: Callable[..., Events]
) -> None:
    """A page without that segment is shown, and the segment is named as damaged."""
    more = numbered(make_events(ROWS, seed=3), ROWS)
    write_segment(tmp_path, more)
    flow = Flow(flow_id=int(more["flow_id"][more["flow_id"] > 0][0]))
    with History(tmp_path, check_sums=False) as history:
        both = history.events(flow=flow)["sequence"].tolist()
    whole = bytearray(segment.path.read_bytes())
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    whole[4 : end // 2] = bytes(end // 2 - 4)
    segment.path.write_bytes(whole)
    with History(tmp_path, check_sums=False) as history:
        table = history.events(flow=flow)
        assert table["sequence"].tolist() == [number for number in both if number >= ROWS]
        assert [str(segment.path) in problem for problem in history.problems] == [True]

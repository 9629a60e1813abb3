"""Indexes of segments: they rule out only parts that have no matching row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import EVENT, NO_PORT, Kind, Metric
from hopscope.history import query
from hopscope.history.columns import connect
from hopscope.history.files import chunk_files, journal_chunks, segment_index, segments, sorting
from hopscope.history.files.names import SegmentFile, list_segments
from hopscope.history.files.segment_index import Criteria, IndexWriter, flow_key, index_path, read_index
from hopscope.history.files.segments import merge_segments, write_segment
from hopscope.history.query import Filters, Flow, History
from hopscope.history.reading import page
from hopscope.history.reading.filters import criteria_of
from hopscope.history.reading.table import fetch
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.history import HistorySettings
from support.events.event_make import Events
from support.events.event_rows import history_row

CHUNK, SORTED = 64, 256


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    patched: list[Any] = [segment_index, segments, chunk_files, journal_chunks, page]
    for module in patched:
        monkeypatch.setattr(module, "CHUNK_EVENTS", CHUNK)
    for other in (sorting, segments, page):
        monkeypatch.setattr(other, "SORTED_EVENTS", SORTED)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("journal", "segments"):
        (tmp_path / part).mkdir()
    return tmp_path


def numbered(events: Events, shard: int, first: int) -> Events:
    events["shard"], events["sequence"] = shard, np.arange(first, first + len(events))
    return events


@pytest.fixture
def stored(folder: Path, make_events: Callable[..., Events]) -> tuple[Events, Path]:
    """Two shards whose times overlap, each with three segments of 10 chunks, and a journal of 5."""
    parts = []
    for shard in (0, 7):
        for number in range(4):
            count = (10 if number < 3 else 5) * CHUNK - 5
            events = make_events(count, seed=10 * shard + number, start=640 * number)
            of_link = np.flatnonzero(events["metric"] == Metric.LINK_UTILIZATION)[:4]
            events["port"][of_link], events["ident"][of_link] = NO_PORT, (70_000, 436_207_616) * 2
            events["node_id"][of_link] = 2
            numbered(events, shard, 635 * number)
            parts.append(events)
            if number < 3:
                write_segment(folder, events)
        with JournalWriter(folder, shard) as writer:
            writer.append(parts[-1])
    return np.concatenate(parts), folder


def expected(events: Events, order: str, mask: Any) -> list[tuple[int, int]]:
    by = ("sequence", "shard") if order == "sequence" else ("sequence", "shard", "time_ns")
    rows = events[mask]
    rows = rows[np.lexsort([rows[name] for name in by])]
    if order == "newest":
        rows = rows[::-1]
    return list(zip(rows["shard"].tolist(), rows["sequence"].tolist(), strict=True))


def cases(events: Events) -> Iterator[tuple[dict[str, Any], Any]]:
    """Filters, and the mask that they are."""
    every = np.ones(len(events), bool)
    on_path = (events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP)
    position = np.arange(8) < (events["hop_count"].astype(int) - events["hop"])[:, None]
    yield {}, every
    for at in (3, 80):
        one = events[events["ip_version"] == 4][at % 200]
        text = str(ip_address(int(one["src_lo"]) & 0xFFFFFFFF))
        source = (events["src_hi"] == one["src_hi"]) & (events["src_lo"] == one["src_lo"])
        target = (events["dst_hi"] == one["src_hi"]) & (events["dst_lo"] == one["src_lo"])
        yield {"flow": Flow(flow_id=int(one["flow_id"]))}, events["flow_id"] == one["flow_id"]
        yield {"flow": Flow(src=text)}, source
        ends: dict[str, Any] = {name: int(one[name]) for name in ("sport", "dport", "proto")}
        same = np.logical_and.reduce([events[name] == number for name, number in ends.items()])
        yield {"flow": Flow(**ends)}, same & (events["ip_version"] != 0)
        yield {"prefix": text}, source | target
    for node in (2, 77):
        hit = (events["node_id"] == node) | (on_path & ((events["path"] == node) & position).any(axis=1))
        yield {"nodes": [node]}, hit
        yield (
            {"nodes": [node], "ports": [1, 5]},
            (events["node_id"] == node) & np.isin(events["port"], (1, 5)),
        )
    yield {"ports": [2, 9]}, events["port"] == 2
    large = (events["port"] == NO_PORT) & (events["metric"] == Metric.LINK_UTILIZATION)
    yield {"ports": [70_000]}, large & (events["ident"] == 70_000)
    yield {"nodes": [2], "ports": [436_207_616]}, large & (events["ident"] == 436_207_616)
    many = np.arange(40)
    hit = np.isin(events["node_id"], many) | (
        on_path & (np.isin(events["path"], many) & position).any(axis=1)
    )
    yield {"nodes": many.tolist()}, hit
    latency = events["metric"] == Metric.HOP_LATENCY
    yield {"nodes": [2], "metrics": ["hop_latency"]}, (events["node_id"] == 2) & latency
    yield {"ports": [70_000 - 65_536]}, np.zeros(len(events), bool)
    yield (
        {"kinds": ["loop"], "metrics": ["flow_path"]},
        ((events["kind"] == Kind.LOOP) & (events["metric"] == Metric.FLOW_PATH)),
    )
    times = np.sort(events["time_ns"])
    low, high = int(times[200]), int(times[2000])
    yield {"start": low, "end": high}, (events["time_ns"] >= low) & (events["time_ns"] < high)
    yield {"since": {0: 1000, 7: 2000}}, events["sequence"] >= np.where(events["shard"] == 0, 1000, 2000)


@pytest.mark.parametrize("order", ["newest", "oldest", "sequence"])
def test_pages_equal_brute_force(
    stored: tuple[Events, Path], monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    """Of every filter, the first page and the one after it have the rows of a mask over the records, also if
    only small batches are read at once, or none.
    """
    monkeypatch.setattr(page, "_WIDE", {"newest": 64, "oldest": 4, "sequence": 0}[order])
    events, folder = stored
    limit = 40
    heads = (events["metric"] != Metric.FLOW_PATH) | (events["hop"] == 0)
    with History(folder) as history:
        for filters, mask in cases(events):
            rows = expected(events, order, mask & heads)
            after, begin = None, 0
            for _ in range(2):
                table = history.events(limit=limit, order=order, after=after, **filters)
                got = list(zip(table["shard"].tolist(), table["sequence"].tolist(), strict=True))
                assert got == rows[begin : begin + limit], filters
                begin += limit
                assert table.truncated == (len(rows) > begin), filters
                after = table.after
                if after is None:
                    break


def test_pages_show_every_field(stored: tuple[Events, Path]) -> None:
    """The rows of a page of segments and journals have the values of the records, and those of one without
    events the same columns.
    """
    events, folder = stored
    by_place = {(int(event["shard"]), int(event["sequence"])): event for event in events}
    with History(folder) as history:
        table = history.events(limit=400)
        nothing = history.events(flow=Flow(flow_id=1))
    for row, time_ns in zip(table.rows(), table["time"].astype(np.int64).tolist(), strict=True):
        event = by_place[row["shard"], row["sequence"]]
        numbers = {name: int(event[name]) for name in ("src_hi", "src_lo", "dst_hi", "dst_lo")}
        assert row == {"time": row["time"], **history_row(event), **numbers}
        assert time_ns == event["time_ns"]
    assert [len(table), len(nothing)] == [400, 0]
    assert {name: column.dtype for name, column in nothing.columns.items()} == {
        name: column.dtype for name, column in table.columns.items()
    }


def test_rows_between_the_parts_of_a_batch_are_found_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second sort is older than all others: the odd ones of a segment, and the even ones of the next.
    Scanned together, the newer sorts of one bring the older ones of the other, whose paths are shown once,
    without their further records.
    """
    monkeypatch.setattr(segments, "_SPARE", 9)
    events = np.zeros(40 * SORTED, EVENT)
    events["kind"], events["metric"] = Kind.CHANGE, Metric.HOP_LATENCY
    number = np.arange(len(events))
    is_old = (number // SORTED + number // (20 * SORTED)) % 2 == 1
    events["time_ns"] = np.where(is_old, number, 10**6 + number)
    is_first = number % SORTED == 5
    is_further = (number % SORTED == 6) & is_old
    events["flow_id"] = np.where(is_first | is_further, 2, 1)
    paths = is_further | (is_first & is_old)
    events["kind"][paths], events["metric"][paths] = Kind.PATH_CHANGE, Metric.FLOW_PATH
    events["hop_count"][paths], events["hop"][is_further] = 12, 8
    for half in np.split(numbered(events, 0, 0), 2):
        write_segment(folder, half)
    expected = sorted(number[is_first].tolist(), key=lambda at: (is_old[at], -at))
    with History(folder) as history:
        for limit in (12, 30, 40):
            table = history.events(limit=limit, flow=Flow(flow_id=2))
            assert table["sequence"].tolist() == expected[:limit]


def test_a_page_reads_few_chunks(stored: tuple[Events, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest events are in the chunks of one sort and the journals; those of an unknown flow nowhere."""
    events, folder = stored
    read: list[int] = []
    search = page.Page.search

    def counted(self: page.Page, snapshot: Any, *more: Any) -> None:
        read.append(len(snapshot.parts))
        search(self, snapshot, *more)

    monkeypatch.setattr(page.Page, "search", counted)
    with History(folder) as history:
        assert len(history.events(limit=20)) == 20
        assert sum(read) <= 2 * SORTED // CHUNK
        read.clear()
        assert not len(history.events(limit=20, flow=Flow(flow_id=17)))
        assert sum(read) <= 1
        read.clear()
        assert len(history.events(limit=20, end=int(events["time_ns"].min()) + 1)) == 1
        assert sum(read) <= 2 * SORTED // CHUNK


def test_a_rare_flow_is_one_scan(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of four segments are read by one scan of files in memory, without a search of their keys. Without
    these, those at the same place are read by one scan, and those at four places by four.
    """
    statements: list[str] = []

    def fetched(cursor: Any, statement: str, *more: Any) -> Any:
        statements.append(statement)
        return fetch(cursor, statement, *more)

    monkeypatch.setattr(page, "fetch", fetched)
    events = np.zeros(16 * SORTED, EVENT)
    events["kind"], events["metric"] = Kind.CHANGE, Metric.HOP_LATENCY
    events["flow_id"] = 2 + np.arange(len(events)) % (4 * SORTED)
    events["time_ns"] = np.arange(len(events))
    there = np.array([5, 4 * SORTED + 5, 8 * SORTED + 5, 12 * SORTED + 5])
    events["flow_id"][there] = 1
    elsewhere = there + np.arange(4) * SORTED + 7
    events["kind"][elsewhere] = Kind.DROP
    for part in np.split(numbered(events, 0, 0), 4):
        write_segment(folder, part)
    filters: tuple[tuple[Filters, Any, int], ...] = (
        ({"flow": Flow(flow_id=1)}, there, 1),
        ({"kinds": ["drop"]}, elsewhere, 4),
    )
    with History(folder) as history:
        for filter, rows, scans in filters:
            statements.clear()
            assert history.events(limit=10, **filter)["sequence"].tolist() == rows[::-1].tolist()
            assert [statement.count("read_parquet") for statement in statements] == [1]
            assert statements[0].count("/proc/self/fd/") == 4
            parts = history._source.snapshot(criteria_of(filter)).parts
            assert segments.parts_sql(parts).count("read_parquet") == scans


def test_rare_rows_of_a_journal_are_found_with_those_of_segments(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flow has two events in two of a journal's 20 chunks, and one in a segment: they are read by one
    statement, of the journal only these events. Of a flow that is in all chunks, those of two are.
    """
    fetched: list[int] = []
    search = page.Page.search

    def counted(self: page.Page, snapshot: Any, *more: Any) -> None:
        fetched.append(sum(part.last + 1 - part.first for part in snapshot.fresh))
        search(self, snapshot, *more)

    monkeypatch.setattr(page.Page, "search", counted)
    events = np.zeros(40 * CHUNK, EVENT)
    events["kind"], events["metric"], events["flow_id"] = Kind.CHANGE, Metric.HOP_LATENCY, 2
    events["time_ns"] = np.arange(len(events))
    there = np.array([CHUNK + 3, 25 * CHUNK + 7, 37 * CHUNK])
    events["flow_id"][there] = 1
    write_segment(folder, numbered(events, 0, 0)[: 20 * CHUNK])
    with JournalWriter(folder, 0) as writer:
        writer.next_sequence = 20 * CHUNK
        writer.append(events[20 * CHUNK :])
    with History(folder) as history:
        for flow, rows, read in (
            (1, there, [2]),
            (2, np.setdiff1d(np.arange(len(events)), there), [2 * CHUNK]),
        ):
            table = history.events(limit=100, flow=Flow(flow_id=flow))
            assert table["sequence"].tolist() == rows[::-1][:100].tolist()
            assert fetched == read
            fetched.clear()


def test_ranges_of_rows_are_those_of_the_parts() -> None:
    """Rows in no gap between two ranges are the rows of the ranges, also of one that contains another."""
    rng = np.random.default_rng(4)
    with connect(2**28, threads=1) as connection:
        for count in (1, 2, 3, 9):
            begins, lengths = rng.integers(0, 300, count), rng.integers(0, 40, count)
            ranges = sorted(("x", int(at), int(at + more)) for at, more in zip(begins, lengths, strict=True))
            wanted = sorted({value for _, begin, end in ranges for value in range(begin, end + 1)})
            joined = segments._joined(ranges)
            found = connection.execute(f"SELECT x FROM range(400) r(x) WHERE {segments._within(joined)}")
            assert [value for (value,) in found.fetchall()] == wanted
            assert segments._count(joined) == len(wanted)


@pytest.mark.parametrize("more", [0, CHUNK, 3 * CHUNK - 1])
def test_the_newest_events_of_a_large_segment_are_in_two_chunks(
    folder: Path, make_events: Callable[..., Events], monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """They are in sequence, so a page of them reads only these; those of a segment that is sorted at once are
    in all its chunks.
    """
    read: list[int] = []
    search = page.Page.search

    def counted(self: page.Page, snapshot: Any, *more: Any) -> None:
        read.append(len(snapshot.parts))
        search(self, snapshot, *more)

    monkeypatch.setattr(page.Page, "search", counted)
    events = make_events(2 * SORTED + more, seed=3)
    events["time_ns"], events["hop"] = 10**18 + np.arange(len(events)), 0
    write_segment(folder, numbered(events[:SORTED], 0, 0))
    for expected, count in ((SORTED // CHUNK, SORTED), (2, len(events))):
        if count > SORTED:
            write_segment(folder, numbered(events, 0, 0))
        with History(folder) as history:
            newest = np.arange(count - 1, count - 41, -1)
            assert history.events(limit=40)["sequence"].tolist() == newest.tolist()
        assert read == [expected]
        read.clear()


def test_a_port_of_a_node_is_looked_for_as_such(folder: Path) -> None:
    """Nodes 1 and 2 and ports 1 and 2 are in every chunk, port 2 of node 2 in the first one of those sorted
    together, port 1 of node 1 nowhere. An index without ports of nodes leaves out none of them.
    """
    events = np.zeros(6 * CHUNK, EVENT)
    events["kind"], events["metric"] = Kind.CHANGE, Metric.HOP_LATENCY
    events["node_id"][::2], events["port"][::2], events["node_id"][1::2], events["port"][1::2] = 1, 2, 2, 1
    events["port"][3 * CHUNK + 1] = 2
    write_segment(folder, numbered(events, 0, 0))
    (segment,) = list_segments(folder)

    def chunks(node: int, port: int) -> list[int]:
        index = read_index(segment)
        assert index is not None
        found = index.parts(criteria_of({"nodes": [node], "ports": [port]}))
        return [part.range[1] // CHUNK for part in found]

    assert [chunks(1, 2), chunks(2, 2), chunks(1, 1)] == [[*range(6)], [0], []]
    path = index_path(segment.path)
    path.write_bytes(b"HOPSIDX1" + path.read_bytes()[8:])
    assert [len(chunks(2, 2)), len(chunks(1, 1))] == [6, 6]


def test_batches_are_as_large_as_the_rows_so_far_let_expect(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row in one chunk of each of 100 sorts: 30 are found by reading few chunks more, in two batches."""
    events = np.zeros(100 * SORTED, EVENT)
    events["kind"], events["metric"] = Kind.CHANGE, Metric.HOP_LATENCY
    events["time_ns"], events["flow_id"] = np.arange(len(events)), 1
    events["flow_id"][5::SORTED] = 2
    write_segment(folder, numbered(events, 0, 0))
    read: list[int] = []
    search = page.Page.search

    def counted(self: page.Page, snapshot: Any, *more: Any) -> None:
        read.append(len(snapshot.parts))
        search(self, snapshot, *more)

    monkeypatch.setattr(page.Page, "search", counted)
    with History(folder) as history:
        assert len(history.events(limit=30, flow=Flow(flow_id=2))) == 30
    assert read == [4, 34]


@pytest.mark.parametrize("harm", ["missing", "cut", "chunk", "filter", "magic", "empty"])
def test_a_damaged_index_hides_nothing(stored: tuple[Events, Path], harm: str) -> None:
    """Without an index, or with wrong bytes in it, a segment is read whole."""
    events, folder = stored
    for segment in list_segments(folder):
        path = index_path(segment.path)
        raw = bytearray(path.read_bytes())
        if harm == "missing":
            path.unlink()
            continue
        at = {"chunk": 24 + 8, "filter": len(raw) - 500, "magic": 0}.get(harm)
        if at is None:
            raw = raw[: len(raw) // 2 if harm == "cut" else 0]
        else:
            raw[at : at + 400] = bytes(400)
        path.write_bytes(raw)
    flow = int(events["flow_id"][events["flow_id"] != 0][5])
    with History(folder) as history:
        assert len(history.events(limit=5, flow=Flow(flow_id=flow))) == 1
        times = history.events(limit=30)["time"].astype(np.int64)
    assert times.tolist() == np.sort(events["time_ns"])[::-1][: len(times)].tolist() or len(times) == 30


def test_the_archive_writes_missing_indexes(stored: tuple[Events, Path]) -> None:
    """One in each round; it equals the one of the records."""
    _, folder = stored
    before = {}
    for segment in list_segments(folder):
        path = index_path(segment.path)
        before[path] = path.read_bytes()
        path.unlink()
    for done in range(1, 8):
        archive_once(folder, HistorySettings())
        there = [path for path in (folder / "segments").glob("*.index") if path in before]
        assert len(there) == min(done, 6)
    assert {path: path.read_bytes() for path in before} == before


def test_a_merged_segment_has_an_index(folder: Path, make_events: Callable[..., Events]) -> None:
    """The next round deletes the indexes of the merged ones."""
    for number in range(8):
        write_segment(folder, numbered(make_events(100, seed=number, start=100 * number), 0, 100 * number))
    for _ in range(2):
        archive_once(folder, HistorySettings())
    (segment,) = list_segments(folder)
    assert (segment.first, segment.last) == (0, 799)
    assert list((folder / "segments").glob("*.index")) == [index_path(segment.path)]
    index = read_index(segment)
    assert index is not None
    assert [part.range for part in index.parts(Criteria())] == [
        ("file_row_number", at, at + CHUNK - 1) for at in range(0, 800, CHUNK)
    ]


def test_events_of_a_flow_or_a_rare_port_are_together(folder: Path) -> None:
    """Of each SORTED events, those of a flow are in few chunks, and so are those of a port that has few; only
    the last chunk has events of all.
    """
    rng = np.random.default_rng(1)
    events = np.zeros(2 * SORTED + CHUNK, EVENT)
    events["kind"], events["metric"] = Kind.CHANGE, Metric.HOP_LATENCY
    events["time_ns"], events["value"] = np.arange(len(events)), np.arange(len(events))
    flows = rng.integers(0, 2**64, 8, dtype=np.uint64)
    events["flow_id"] = np.repeat(flows, len(events) // 8)
    events["node_id"], events["port"] = 1, np.arange(len(events)) % 3
    events["port"][::64] = 9
    events = rng.permutation(events)
    events["time_ns"] = np.arange(len(events))
    write_segment(folder, numbered(events, 0, 0))
    (segment,) = list_segments(folder)
    index = read_index(segment)
    assert index is not None

    def chunks(filters: Filters) -> int:
        return len(list(index.parts(criteria_of(filters))))

    assert max(chunks({"flow": Flow(flow_id=int(flow))}) for flow in flows) <= 7
    assert chunks({"nodes": [1], "ports": [9]}) <= 5
    assert chunks({"nodes": [1], "ports": [0]}) == 2 * SORTED // CHUNK + 1
    with History(folder) as history:
        for flow in flows.tolist():
            got = history.events(limit=None, flow=Flow(flow_id=flow))["value"]
            assert sorted(got.tolist()) == sorted(events["value"][events["flow_id"] == flow].tolist())


def test_a_merged_segment_is_the_one_that_is_written_at_once(
    tmp_path: Path, make_events: Callable[..., Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of segments of any size, also larger than what is sorted or read at a time: the same files."""
    monkeypatch.setattr(segments, "READ_ROWS", 100)
    events = numbered(make_events(5 * SORTED + 3, seed=4), 3, 70)
    ends = [0, 1, 60, SORTED + 9, SORTED + 10, 3 * SORTED + 50, len(events)]
    found = []
    for name, bounds in (("merged", ends), ("at once", [0, len(events)])):
        folder = tmp_path / name
        (folder / "journal").mkdir(parents=True)
        for begin, end in pairwise(bounds):
            write_segment(folder, events[begin:end])
        if name == "merged":
            merge_segments(folder, list_segments(folder))
        (segment,) = list_segments(folder)
        beside = segment.path.parent.glob(f"{segment.path.name}*")
        found.append({path.name: path.read_bytes() for path in beside})
    assert len(found[0]) == 3
    assert found[0] == found[1]


@pytest.mark.parametrize("magic", [b"HOPSIDX1", b"HOPSIDX2"])
def test_segments_of_earlier_versions(folder: Path, make_events: Callable[..., Events], magic: bytes) -> None:
    """Their rows need not be in the order of their index, whose chunks are ranges of sequences."""
    events = numbered(make_events(40 * CHUNK - 5, seed=3), 0, 0)
    segment = write_segment(folder, events)
    index = IndexWriter()
    for at in range(0, len(events), CHUNK):
        index.add(events[at : at + CHUNK])
    index.write(segment)
    path = index_path(segment.path)
    path.write_bytes(magic + path.read_bytes()[8:])
    heads = (events["metric"] != Metric.FLOW_PATH) | (events["hop"] == 0)
    with History(folder) as history:
        for filters, mask in cases(events):
            table = history.events(limit=40, **filters)
            got = list(zip(table["shard"].tolist(), table["sequence"].tolist(), strict=True))
            assert got == expected(events, "newest", mask & heads)[:40], filters


def test_the_footers_of_few_segments_are_kept(
    folder: Path, make_events: Callable[..., Events], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages over more segments than DuckDB may keep find every event."""
    monkeypatch.setattr(query, "_MAX_KEPT", 4)
    for number in range(12):
        write_segment(folder, numbered(make_events(20, seed=number, start=1000 * number), 0, 20 * number))
    connections = set()
    with History(folder) as history:
        for number in range(12):
            events = make_events(20, seed=number, start=1000 * number)
            start, end = int(events["time_ns"].min()), int(events["time_ns"].max()) + 1
            heads = (events["metric"] != Metric.FLOW_PATH) | (events["hop"] == 0)
            assert len(history.events(start=start, end=end)) == heads.sum()
            connections.add(history._connection)
    assert len(connections) > 1


def test_a_long_path_over_the_end_of_a_segment(folder: Path) -> None:
    """A path whose records are in two segments is found by a node of its second part, and shown whole."""
    events = np.zeros(2 * CHUNK, EVENT)
    events["kind"], events["metric"] = Kind.CHANGE, Metric.HOP_LATENCY
    events["time_ns"] = np.arange(len(events))
    numbered(events, 0, 0)
    long = slice(CHUNK - 1, CHUNK + 2)
    events["kind"][long], events["metric"][long] = Kind.PATH_CHANGE, Metric.FLOW_PATH
    events["time_ns"][long] = CHUNK
    events["hop_count"][long], events["hop"][long] = 20, (0, 8, 16)
    events["path"][long] = np.arange(100, 124).reshape(3, 8)
    write_segment(folder, events[:CHUNK])
    write_segment(folder, events[CHUNK:])
    with History(folder) as history:
        for node in (100, 110, 118):
            table = history.events(limit=5, nodes=[node])
            assert table["sequence"].tolist() == [CHUNK - 1]
            assert table["path"][0].tolist() == list(range(100, 120))
        assert not len(history.events(nodes=[99]))


def test_filters_have_few_false_answers(tmp_path: Path) -> None:
    """Each of 20,000 flows is found; of 20,000 others at most one in 100."""
    rng = np.random.default_rng(4)
    events = np.zeros(20_000, EVENT)
    events["flow_id"] = rng.integers(1, 2**64, len(events), dtype=np.uint64)
    segment = SegmentFile(0, 0, len(events) - 1, tmp_path / "s.parquet")
    writer = IndexWriter()
    writer.add(numbered(events, 0, 0))
    writer.write(segment)
    index = read_index(segment)
    assert index is not None

    def has(flow_id: int) -> bool:
        return bool(list(index.parts(Criteria(keys=((flow_key(flow_id),),)))))

    assert all(map(has, events["flow_id"].tolist()))
    others = rng.integers(1, 2**64, 20_000, dtype=np.uint64).tolist()
    assert sum(map(has, others)) < 200

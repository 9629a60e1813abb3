"""`import hopscope`: captures as columns and tables, detection, a data folder."""

from __future__ import annotations

import gzip
import os
import sys
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest

import hopscope
from hopscope.capture.pcap.reader import PcapWriter
from hopscope.detect.records import EVENT, ClearReason, Kind, Metric
from hopscope.library import interface
from hopscope.library.batches import Events, Hops, Reports
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.wire.decode.plain import PlainDecoder
from hopscope.wire.dialect import DIALECTS, Clock
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Have, ReportBatch

REPORTS = 50


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Fifty reports of two hops, the last with a latency far above the others, and one that is cut."""
    reports, hops = new_reports(REPORTS), new_hops(2 * REPORTS, 0xA000)
    reports["time_ns"] = 1_700_000_000_000_000_000 + np.arange(REPORTS) * 1_000_000
    reports["source_lo"] = mapped_v4(np.full(REPORTS, 0xC0000201, np.uint32))
    reports["src_lo"] = mapped_v4(np.full(REPORTS, 0x0A000001, np.uint32))
    reports["dst_lo"] = mapped_v4(np.full(REPORTS, 0x0A000002, np.uint32))
    reports["sport"], reports["dport"] = 4000, 53
    reports["int_version"], reports["instructions"] = 20, 0xA000
    reports["first_hop"], reports["hop_count"] = np.arange(REPORTS) * 2, 2
    reports["sequence"] = np.arange(REPORTS)
    hops["node_id"], hops["hop_latency"] = 1 + np.arange(2 * REPORTS) % 2, 1000
    hops["hop_latency"][-1] = 1_000_000
    path = tmp_path / "reports.pcap"
    with PcapWriter(path) as writer:
        writer.write(encode_reports(ReportBatch(reports, hops)))
        broken = encode_reports(ReportBatch(reports[:1].copy(), hops))
        broken.frames["length"] -= 3
        writer.write(broken)
    return path


def test_columns_are_the_reports(capture: Path) -> None:
    """Columns are views over the records; hops know their report and are in path order."""
    (batch,) = hopscope.read(capture)
    assert len(batch) == REPORTS + 1
    columns = batch.columns()
    assert columns["sequence"][:REPORTS].tolist() == list(range(REPORTS))
    assert np.shares_memory(columns["sequence"], batch.batch.reports)
    assert columns["reason"][-1] != 0
    hops = batch.hops.columns()
    assert hops["report"][: 2 * REPORTS].tolist() == [i // 2 for i in range(2 * REPORTS)]
    assert hops["node_id"][:4].tolist() == [1, 2, 1, 2]


def test_objects_are_those_of_decode(capture: Path) -> None:
    """Iterating over a batch gives the objects that `hopscope decode` prints."""
    (batch,) = hopscope.read(capture)
    first, *_, last = batch
    assert first["flow"] == {"src": "10.0.0.1", "dst": "10.0.0.2", "proto": 17, "sport": 4000, "dport": 53}
    assert first["hops"][0] == {"node_id": 1, "hop_latency": 1000}
    assert last["error"]["reason"] == "truncated"


def test_ports_and_dialects(capture: Path) -> None:
    """Reports are looked for on the given ports; an unknown dialect is told with the list."""
    assert list(hopscope.read(capture, ports=[1])) == []
    assert sum(len(batch) for batch in hopscope.read(capture, dialect="report-2.0")) == REPORTS + 1
    with pytest.raises(hopscope.HopscopeError, match="unknown dialect 'klingon'; known are spec"):
        hopscope.read(capture, dialect="klingon")


def test_a_missing_and_a_cut_file(capture: Path, tmp_path: Path) -> None:
    """A missing file fails at once; a cut one gives what is before the cut, then fails."""
    with pytest.raises(hopscope.HopscopeError):
        hopscope.read(tmp_path / "missing.pcap")
    capture.write_bytes(capture.read_bytes()[:-5])
    batches = iter(hopscope.read(capture))
    assert len(next(batches)) == REPORTS
    with pytest.raises(hopscope.HopscopeError, match="cut"):
        next(batches)


def test_a_file_can_be_read_again_and_a_stream_cannot(capture: Path) -> None:
    """Each iteration begins at the first report, also after one that was not finished."""
    reports = hopscope.read(capture, frames_per_batch=20, join=20)
    assert len(next(iter(reports))) == 20
    for _ in range(2):
        assert sum(len(batch) for batch in reports) == REPORTS + 1
    with capture.open("rb") as file:
        stream = hopscope.read(file)
        assert sum(len(batch) for batch in stream) == REPORTS + 1
        with pytest.raises(hopscope.HopscopeError, match="a stream can be read once"):
            next(iter(stream))


@pytest.mark.kernel
def test_a_named_pipe_is_a_stream(capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has no size: it is decoded by compiled kernels, and the second iteration does not wait for a
    writer.
    """
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    monkeypatch.setattr(PlainDecoder, "decode", None)
    feeding = Thread(target=lambda: pipe.write_bytes(capture.read_bytes()), daemon=True)
    feeding.start()
    reports = hopscope.read(pipe)
    assert sum(len(batch) for batch in reports) == REPORTS + 1
    feeding.join()
    with pytest.raises(hopscope.HopscopeError, match="a stream can be read once"):
        next(iter(reports))


@pytest.mark.kernel
def test_only_the_beginning_of_a_gzipped_file_is_small(
    capture: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is small only because it is compressed is decoded by compiled kernels after SMALL_BYTES."""
    small = 4000
    packed = tmp_path / "reports.pcap.gz"
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    assert packed.stat().st_size < small < capture.stat().st_size
    sizes: list[int] = []

    usual = PlainDecoder.decode

    def decode(decoder: PlainDecoder, frames: FrameBatch) -> ReportBatch:
        sizes.append(len(frames))
        return usual(decoder, frames)

    monkeypatch.setattr(PlainDecoder, "decode", decode)
    monkeypatch.setattr(interface, "SMALL_BYTES", small)
    batches = list(hopscope.read(packed, frames_per_batch=5))
    sequence = np.concatenate([batch.columns()["sequence"] for batch in batches])
    assert sequence.tolist() == [*range(REPORTS), 0]
    assert 0 < sum(sizes) < REPORTS


@pytest.mark.kernel
def test_mistakes_are_told(capture: Path) -> None:
    """What used to wait for ever, find nothing or fail elsewhere names the mistake."""
    with pytest.raises(hopscope.HopscopeError, match="frames_per_batch is 0; expected at least 1"):
        hopscope.read(capture, frames_per_batch=0)
    with pytest.raises(hopscope.HopscopeError, match="join: found -1, expected at least 0"):
        hopscope.read(capture, join=-1)
    for port in (99_999, 0, "32766"):
        with pytest.raises(hopscope.HopscopeError, match=f"ports: {port!r} is no UDP port"):
            hopscope.read(capture, ports=[32766, port])  # type: ignore[list-item]
    with pytest.raises(hopscope.HopscopeError, match=r"expected a list of UDP ports, as \[32766\], found 5"):
        hopscope.read(capture, ports=5)  # type: ignore[arg-type]
    with pytest.raises(hopscope.HopscopeError, match="expected a name or a Dialect, found NoneType"):
        hopscope.read(capture, dialect=None)  # type: ignore[arg-type]
    with pytest.raises(hopscope.HopscopeError, match="expected the path of a data folder, found NoneType"):
        hopscope.open(None)  # type: ignore[arg-type]
    for nothing, kind in ((None, "NoneType"), (b"reports.pcap", "bytes")):
        with pytest.raises(hopscope.HopscopeError, match=f"expected a path or an open file, found {kind}"):
            hopscope.read(nothing)  # type: ignore[arg-type]
    with capture.open(errors="replace") as text, pytest.raises(hopscope.HopscopeError, match="open as text"):
        hopscope.read(text)  # type: ignore[arg-type]
    with pytest.raises(hopscope.HopscopeError, match="closed file"):
        hopscope.read(text)  # type: ignore[arg-type]
    (batch,) = hopscope.read(capture)
    with pytest.raises(hopscope.HopscopeError, match="found dict; put a single batch in a list"):
        hopscope.detect_events(batch)  # type: ignore[arg-type]
    wrong: object
    for wrong in ({}, hopscope.Settings()):
        found = f"as Settings.detect.*, found {type(wrong).__name__}"
        with pytest.raises(hopscope.HopscopeError, match=found):
            hopscope.detect_events([batch], wrong)  # type: ignore[arg-type]
        with pytest.raises(hopscope.HopscopeError, match="expected PostcardSettings"):
            hopscope.detect_events([batch], postcards=wrong)  # type: ignore[arg-type]
    events = hopscope.detect_events([batch])
    with pytest.raises(ValueError, match="'change' is not a valid Kind"):
        events.of("change")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="'hop_latency' is not a valid Metric"):
        events.of(Kind.CHANGE, "hop_latency")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_an_empty_table_has_the_same_types(capture: Path, kind: str) -> None:
    """Tables of no records have the types of others: they can be put together."""
    pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    (batch,) = hopscope.read(capture)
    event = np.zeros(1, EVENT)

    def types(table: Any) -> list[str]:
        return list(map(str, table.dtypes if kind != "arrow" else table.schema.types))

    for some, none in (
        (batch, Reports(ReportBatch(batch.batch.reports[:0], batch.batch.hops[:0]), batch.frames)),
        (batch.hops, Hops(batch.batch.hops[:0], np.empty(0, np.int64))),
        (Events(event), Events(event[:0])),
    ):
        assert types(getattr(none, f"to_{kind}")()) == types(getattr(some, f"to_{kind}")())


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_tables(capture: Path, kind: str) -> None:
    """Reports, hops and events become tables with addresses as text and codes as names."""
    pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    (batch,) = hopscope.read(capture)
    table = getattr(batch, f"to_{kind}")()
    rows = (
        table.to_pylist()
        if kind == "arrow"
        else table.to_dict("records")
        if kind == "pandas"
        else table.to_dicts()
    )
    assert len(rows) == REPORTS + 1
    assert (rows[0]["src"], rows[0]["source"], rows[0]["kind"]) == ("10.0.0.1", "192.0.2.1", "int")
    hops = getattr(batch.hops, f"to_{kind}")()
    assert len(hops) == len(batch.hops)


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_why_an_alarm_was_cleared_is_a_name(kind: str) -> None:
    """As `kind` and `metric` are; events that clear nothing have no reason, as in SQL."""
    pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    records = np.zeros(3, EVENT)
    records["kind"] = [Kind.RAISED, Kind.CLEARED, Kind.CLEARED]
    records["reason"] = [0, ClearReason.VALUE, ClearReason.EXPIRED]
    column = getattr(Events(records), f"to_{kind}")()["reason"]
    found = column.to_pylist() if kind == "arrow" else column.to_list()
    assert [name if isinstance(name, str) else None for name in found] == [None, "value", "expired"]
    assert len(getattr(Events(records[:0]), f"to_{kind}")()) == 0


def test_a_missing_table_library_is_told(capture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyarrow the error names the extra to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (batch,) = hopscope.read(capture)
    with pytest.raises(hopscope.HopscopeError, match=r"hopscope\[arrow\]"):
        batch.to_arrow()


@pytest.mark.kernel
def test_detection(capture: Path) -> None:
    """The one high latency is one change of its hop and one of its flow; at the end the flow has records."""
    settings = hopscope.DetectSettings(flow_rows=16, ports=64, sources=16)
    events = hopscope.detect_events(hopscope.read(capture), settings)
    found = events.of(hopscope.Kind.CHANGE, hopscope.Metric.HOP_LATENCY)
    assert found.columns()["value"].tolist() == [1_000_000]
    assert found.columns()["previous"].tolist() == [1000]
    assert events.by_kind()["change"] == 2
    assert repr(found) == "<Events: 1 (1 change)>"
    assert len(found.to_pandas()) == 1
    ended = hopscope.detect_events(hopscope.read(capture), settings, end=True)
    assert ended.by_kind()["flow_record"] == 4  # path, latency, two hops
    assert hopscope.detect_events([], settings).by_kind() == {}


@pytest.mark.kernel
def test_a_long_path_is_one_event(tmp_path: Path) -> None:
    """A path of ten nodes takes two records, and is one new key, as `hopscope replay` counts."""
    reports, hops = new_reports(1), new_hops(10, 0x8000)
    reports["time_ns"], reports["dst_lo"], reports["int_version"] = 1, 1, 20
    reports["instructions"], reports["hop_count"] = 0x8000, 10
    hops["node_id"] = 1 + np.arange(10)
    path = tmp_path / "long.pcap"
    with PcapWriter(path) as writer:
        writer.write(encode_reports(ReportBatch(reports, hops)))
    events = hopscope.detect_events(hopscope.read(path)).of(Kind.NEW_KEY, Metric.FLOW_PATH)
    assert (len(events), events.by_kind()) == (2, {"new_key": 1})


@pytest.mark.kernel
def test_a_data_folder(capture: Path, tmp_path: Path) -> None:
    """What a pipeline has kept can be queried; where no collector runs, the state is empty."""
    settings = hopscope.Settings.model_validate({"detect": {"flow_rows": 16, "ports": 64, "sources": 16}})
    pipeline = pipeline_of(settings, Shard(settings.history, data=tmp_path / "data"))
    for batch in hopscope.read(capture):
        pipeline.step(batch.frames)
    pipeline.close()
    with hopscope.open(tmp_path / "data") as folder:
        changes = folder.history.events(kinds=["change"])
        assert [row["kind"] for row in changes.rows()[:1]] == ["change"]
        assert repr(changes).startswith("<Table: 2 rows of time, kind, metric, ")
        assert repr(folder) == f"<Collection in {tmp_path / 'data'}>"
        assert len(folder.state.flows()) == 0
    for ask in (folder.history.events, folder.history.flows, lambda: folder.history.sql("SELECT 1")):
        with pytest.raises(hopscope.HopscopeError, match="is closed: open it again"):
            ask()
    with pytest.raises(hopscope.HopscopeError, match=r"data folder .* does not exist"):
        hopscope.open(tmp_path / "nowhere")
    with pytest.raises(hopscope.HopscopeError, match="is not a folder"):
        hopscope.open(__file__)


def test_names_of_the_library() -> None:
    """Every name that is promised is there, and no other."""
    for name in hopscope.__all__:
        assert getattr(hopscope, name) is not None
    assert set(hopscope.__all__) <= set(dir(hopscope))
    with pytest.raises(AttributeError, match="no attribute 'everything'"):
        _ = hopscope.everything


def test_clock_and_link_latency(capture: Path) -> None:
    """Detection takes a dialect's times as ns and leaves the reports raw; hops know how long links took."""
    (raw,) = hopscope.read(capture)
    us = replace(DIALECTS["spec"], clock=Clock(unit_ns=1000, comparable=True))
    batch = hopscope.Reports(raw.batch, raw.frames, us)
    events = hopscope.detect_events([batch]).of(Kind.NEW_KEY, Metric.HOP_LATENCY)
    assert events.records["value"].tolist() == [1_000_000] * 2
    assert batch.hops.records["hop_latency"][0] == 1000
    hops = batch.batch.hops
    hops["present"] |= Have.INGRESS_TIME | Have.EGRESS_TIME
    hops["ingress_time"], hops["egress_time"] = 10 * np.arange(len(hops)), 10 * np.arange(len(hops)) + 4
    assert batch.hops.link_latency_ns[:4].tolist() == [6000, None, 6000, None]
    assert raw.hops.link_latency_ns.mask.all()


def test_postcards_are_joined_for_detection(capture: Path) -> None:
    """Reports of one hop each, of the same packets: detection finds their path, and the reports stay."""
    (raw,) = hopscope.read(capture)
    rows = raw.batch.reports[:REPORTS].copy()
    rows["first_hop"], rows["hop_count"], rows["int_version"] = np.arange(REPORTS), 0, 0
    rows["carried"] |= np.uint8(Carried.OWN_HOP)
    rows["packet_id"], rows["ttl"] = 1 + np.arange(REPORTS) // 2, 64 - np.arange(REPORTS) % 2
    cards = hopscope.Reports(ReportBatch(rows, raw.batch.hops), raw.frames)
    before = rows.tobytes()
    paths = hopscope.detect_events([cards]).of(Kind.NEW_KEY, Metric.FLOW_PATH).records
    assert paths["path"][:, :2].tolist() == [[1, 2]]
    assert rows.tobytes() == before


def test_read_joins(capture: Path) -> None:
    """`join` passes other reports, and gives what waits at the end."""
    (plain,) = hopscope.read(capture)
    (joined,) = hopscope.read(capture, join=20)
    assert [*joined] == [*plain]

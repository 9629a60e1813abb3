"""The pipeline counts everything, shows nothing that the journal does not have, goes on where it ended."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.counters import INDEX, attach_counters
from hopscope.detect.flows.tables import live_flows
from hopscope.detect.records import EVENT, EVENT_VERSION, Kind, Metric
from hopscope.history.files.journal_file import read_journals
from hopscope.history.writing.journal import JournalWriter
from hopscope.memory.ring import RingReader, attach_ring
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.settings.collector import Settings
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import FrameBatch, Link, Records, ReportBatch
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
SECOND = 10**9
HOUR_NS = 3600 * SECOND
SETTINGS = Settings.model_validate(
    {"detect": {"flow_rows": 16, "ports": 64, "sources": 16, "hop_pool": 4}, "history": {"ring_events": 1024}}
)


def frames(count: int, first_sequence: int = 0) -> FrameBatch:
    """Reports of as many flows over two hops."""
    reports, hops = new_reports(count), new_hops(2 * count, 0xA000)
    reports["src_lo"] = mapped_v4(np.arange(count, dtype=np.uint32))
    reports["int_version"], reports["instructions"] = 20, 0xA000
    reports["first_hop"], reports["hop_count"] = np.arange(count) * 2, 2
    reports["sequence"] = first_sequence + np.arange(count)
    hops["node_id"], hops["hop_latency"] = 1 + np.arange(2 * count) % 2, 100
    return encode_reports(ReportBatch(reports, hops), link=Link.UDP_PAYLOAD)


def test_every_frame_is_counted() -> None:
    """Accepted, refused by reason and other frames add up; bytes and hops are those of the batch."""
    batch = frames(10)
    batch.frames["length"][3] = 1  # cut in the report header
    batch.frames["link"][4] = Link.NULL  # too short a header for what follows
    pipeline = pipeline_of(SETTINGS)
    accepted = pipeline.step(batch)
    counters = {key: int(pipeline.shard.counters[slot]) for key, slot in INDEX.items()}
    refused = sum(count for key, count in counters.items() if key.startswith("rejected_reports_total"))
    places = sum(count for key, count in counters.items() if key.startswith("rejected_headers_total"))
    assert places == refused
    assert counters["packets_total"] == 0
    assert counters["frames_total"] == 10
    assert counters["frame_bytes_total"] == batch.frames["length"].sum()
    assert counters["reports_total"] == accepted
    assert counters["hops_total"] == 2 * accepted
    assert accepted + refused + counters["other_frames_total"] == 10
    assert counters["rejected_reports_total.truncated"] >= 1
    assert counters["busy_ns_total"] == sum(
        counters[f"busy_{part}_ns_total"] for part in ("capture", "decode", "detect", "journal")
    )


@pytest.mark.parametrize("hours", [1, -1, 24])
def test_a_clock_that_is_set_ends_nothing(hours: int) -> None:
    """Flows and ports expire, sources become silent and values are pushed as late as if it had not been, but
    for the time in which a table is swept. Records of flows have their true durations.
    """

    def found(step_ns: int) -> tuple[list[tuple[Any, ...]], list[int], list[int]]:
        blocks: list[Records] = []
        settings = SETTINGS.model_copy(
            update={"detect": SETTINGS.detect.model_copy(update={"push_seconds": 4.0, "idle_seconds": 12.0})}
        )
        pipeline = pipeline_of(
            settings, Shard(settings.history, on_events=lambda events: blocks.append(events.copy()))
        )
        now = 1_700_000_000_000_000_000
        for tenth in range(200):
            if tenth in (0, 5, 29, 31, 35):  # the clock is set at 30
                batch = frames(10 if tenth == 0 else 4, tenth)
                batch.frames["time_ns"] = now
                pipeline.step(batch)
            if not 30 <= tenth < 33:
                pipeline.tick(now, step_ns if tenth == 33 else 0)
            now += 100_000_000 + (step_ns if tenth == 29 else 0)
        events = np.concatenate(blocks)
        began = np.where(np.abs(events["time_ns"] - now) > HOUR_NS // 2, 0, step_ns)
        names = ("kind", "metric", "src_lo", "node_id", "port", "sequence")
        what = zip(*(events[name].tolist() for name in names), strict=True)
        each = sorted(zip(what, (events["time_ns"] - began).tolist(), strict=True))
        records = events[(events["kind"] == Kind.FLOW_RECORD) & (events["metric"] == Metric.FLOW_PATH)]
        lasted = sorted((records["time_ns"] - records["previous"].astype(np.int64)).tolist())
        return [key[:-1] for key, _ in each], [time for _, time in each], lasted

    plain, times, durations = found(0)
    assert {Kind.NEW_KEY, Kind.PUSH, Kind.FLOW_RECORD, Kind.SILENT} <= {kind for kind, *_ in plain}
    other, moved, lasted = found(hours * HOUR_NS)
    assert other == plain
    assert np.abs(np.array(times) - moved).max() <= SECOND // 2
    assert durations[-1] > SECOND
    assert np.abs(np.array(durations) - lasted).max() <= SECOND // 2


def test_readers_see_only_what_the_journal_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the journal writes, the ring's cursor stands; afterwards both have the same events."""
    regions = tmp_path / "regions"
    regions.mkdir()
    pipeline = pipeline_of(SETTINGS, Shard(SETTINGS.history, data=tmp_path, regions=regions))
    reader = RingReader(attach_ring(regions / "worker-0.events", EVENT_VERSION), "oldest")
    heads: list[tuple[int, int]] = []
    append = JournalWriter.append

    def watched(journal: JournalWriter, events: Records) -> int:
        first = append(journal, events)
        heads.append((first, reader.head))
        return first

    monkeypatch.setattr(JournalWriter, "append", watched)
    for number in range(3):
        pipeline.step(frames(10, 10 * number))
    pipeline.tick(int(1e18))
    pipeline.close()
    assert heads
    assert all(first == head for first, head in heads), "the ring was ahead of the journal"
    shown, lost = reader.read()
    assert lost == 0
    assert shown.tobytes() == read_journals(tmp_path).tobytes()
    assert int(attach_counters(regions / "worker-0.counters")[INDEX["journal_bytes_total"]]) > 0


def test_a_disk_that_hangs_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Detection, live state and the ring go on while a write does not return; then history has all of it."""
    regions = tmp_path / "regions"
    regions.mkdir()
    released, pwrite = threading.Event(), os.pwrite

    def hanging(fd: int, block: bytes, offset: int) -> int:
        assert released.wait(HANG_SECONDS)
        return pwrite(fd, block, offset)

    monkeypatch.setattr(os, "pwrite", hanging)
    pipeline = pipeline_of(SETTINGS, Shard(SETTINGS.history, data=tmp_path, regions=regions, thread=True))
    reader = RingReader(attach_ring(regions / "worker-0.events", EVENT_VERSION), "oldest")
    for number in range(3):
        pipeline.step(frames(10, 10 * number))
        pipeline.tick(int(1e18) + number)
    shown, _ = reader.read()
    assert (shown["kind"] == Kind.NEW_KEY).sum() >= 10
    assert live_flows(pipeline.detection.tables)[0] == 10
    assert len(read_journals(tmp_path)) == 0
    released.set()
    pipeline.close()
    more, _ = reader.read()
    assert np.concatenate([shown, more]).tobytes() == read_journals(tmp_path).tobytes()


def test_sequences_go_on_after_a_restart(tmp_path: Path) -> None:
    """Events are numbered without a gap over restarts, with new regions or those of the worker that died."""
    for number, folder in enumerate(("first", "second", "second")):
        regions = tmp_path / folder
        regions.mkdir(exist_ok=True)
        pipeline = pipeline_of(SETTINGS, Shard(SETTINGS.history, data=tmp_path, regions=regions))
        pipeline.step(frames(20, 20 * number))
        pipeline.close()
    events = read_journals(tmp_path)
    assert events["sequence"].tolist() == list(range(len(events)))
    ring = RingReader(attach_ring(tmp_path / "second" / "worker-0.events", EVENT_VERSION), "oldest")
    shown, _ = ring.read()
    assert shown["sequence"].tolist() == list(range(int(shown["sequence"][0]), len(events)))


def test_a_restart_shows_what_the_killed_worker_had_journalled(tmp_path: Path) -> None:
    """Killed between journal and ring: the next worker puts the missing events into the ring, in order."""
    regions = tmp_path / "regions"
    regions.mkdir()
    pipeline = pipeline_of(SETTINGS, Shard(SETTINGS.history, data=tmp_path, regions=regions))
    pipeline.step(frames(5))
    pipeline.close()
    with JournalWriter(tmp_path, 0) as journal:
        unseen = np.zeros(7, EVENT)
        unseen["kind"] = Kind.CHANGE
        journal.append(unseen)
    pipeline_of(SETTINGS, Shard(SETTINGS.history, data=tmp_path, regions=regions)).close()
    shown, _ = RingReader(attach_ring(regions / "worker-0.events", EVENT_VERSION), "oldest").read()
    assert shown.tobytes() == read_journals(tmp_path).tobytes()


def test_counters_of_a_restarted_worker_go_on(tmp_path: Path) -> None:
    """A worker that is started again on its regions counts on from where it was."""
    for _ in range(2):
        pipeline = pipeline_of(SETTINGS, Shard(SETTINGS.history, regions=tmp_path))
        pipeline.step(frames(5))
    assert int(attach_counters(tmp_path / "worker-0.counters")[INDEX["frames_total"]]) == 10


def test_failed_syncs_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that takes writes, but cannot be forced, shows in the counters."""
    pipeline = pipeline_of(SETTINGS, Shard(SETTINGS.history, data=tmp_path))
    monkeypatch.setattr(JournalWriter, "failed_syncs", 3)
    for _ in range(2):
        pipeline.tick(int(1e18))
    assert pipeline.shard.counters[INDEX["journal_sync_failures_total"]] == 3
    pipeline.close()


def test_seen_gets_every_event() -> None:
    """A callback gets what a journal would."""
    kinds: list[int] = []
    pipeline = pipeline_of(
        SETTINGS, Shard(SETTINGS.history, on_events=lambda events: kinds.extend(events["kind"].tolist()))
    )
    pipeline.step(frames(5))
    assert kinds.count(Kind.NEW_KEY) == int(pipeline.shard.counters[INDEX["events_total.new_key"]]) > 0

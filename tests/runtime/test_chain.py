"""A batch that is taken in one compiled call has the same effect as one that is taken step by step."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from hopscope.detect.counters import INDEX
from hopscope.detect.records import Kind
from hopscope.fabric.load import Load
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.pipeline.steps import Pipeline, Steps
from hopscope.settings.collector import Settings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Link, Records, ReportBatch

pytestmark = pytest.mark.kernel
SETTINGS = Settings.model_validate({"detect": {"flow_rows": 256, "ports": 64, "sources": 16, "hop_pool": 64}})
TIME_NS = 10**18


def postcards(count: int) -> FrameBatch:
    """Reports of INT-XD: one hop each, about different packets."""
    reports, hops = new_reports(count), new_hops(count, 0xA000)
    reports["src_lo"] = mapped_v4(np.arange(count, dtype=np.uint32))
    reports["carried"], reports["packet_id"] = Carried.FLOW | Carried.OWN_HOP | Carried.PORTS, 7
    reports["first_hop"] = np.arange(count)
    hops["node_id"], hops["hop_latency"] = 1, 100
    return encode_reports(ReportBatch(reports, hops), link=Link.UDP_PAYLOAD)


def copied(batch: FrameBatch, number: int) -> FrameBatch:
    """A copy, since a load's batch is valid until the next; `number` of ms gives the frames' time."""
    frames = batch.frames.copy()
    frames["time_ns"] = TIME_NS + number * 1_000_000
    if not len(frames):
        return FrameBatch(batch.arena[:0], frames)
    first, end = int(frames["offset"][0]), int(frames["offset"][-1] + frames["length"][-1])
    frames["offset"] -= np.uint64(first)
    return FrameBatch(batch.arena[first:end].copy(), frames)


def batches() -> list[FrameBatch]:
    """New flows, known flows, events, damaged frames, postcards, more than the decoder has room for, none."""
    load = Load(hops=6, flows=20, sources=2)
    sizes = ((30, 0), (30, 0), (40, 9), (10, 0), (5, 1), (200, 20), (0, 0), (8, 0))
    made = [copied(load.next(size, events), number) for number, (size, events) in enumerate(sizes)]
    made[3].frames["length"][[2, 5]] = 1, 20
    made.insert(4, copied(postcards(3), 4))
    return made


def taken(step: Any, work: list[FrameBatch]) -> tuple[dict[str, int], list[Records]]:
    """Counters without times, and events, of a pipeline that takes batches by `step`."""
    events: list[Records] = []
    shard = Shard(SETTINGS.history, on_events=lambda block: events.append(block.copy()))
    pipeline = pipeline_of(SETTINGS, shard)
    pipeline._decoders[DEFAULT] = Decoder(frames=64)  # or more than 2700 reports would be needed to fill it
    counts = [step(pipeline, batch) for batch in work]
    counters = {key: int(shard.counters[at]) for key, at in INDEX.items() if not key.startswith("busy_")}
    assert sum(counts) == counters["reports_total"]
    return counters, events


def test_effects_are_those_of_single_steps() -> None:
    """Counters, accepted reports and events, in their order, are equal for all kinds of batches."""
    work = batches()
    counters, events = taken(Pipeline.step, copy.deepcopy(work))
    expected, as_expected = taken(Steps.step, work)
    assert counters == expected
    assert np.concatenate(events).tobytes() == np.concatenate(as_expected).tobytes()
    found = set(np.concatenate(events)["kind"].tolist())
    assert {Kind.NEW_KEY, Kind.QUEUE_REPORT} <= found
    assert counters["frames_total"] == sum(map(len, work))
    assert counters["postcards_total"] == 3
    assert sum(counters[key] for key in counters if key.startswith("rejected_reports_total")) == 2


def test_frames_with_gaps_are_taken() -> None:
    """Rows of frames that are not adjacent in memory are decoded in single steps."""
    load = Load(hops=3, flows=20, sources=2)
    batch, pipeline = load.next(10), pipeline_of(SETTINGS)
    assert pipeline.step(FrameBatch(batch.arena, batch.frames[::2])) == 5

"""Evidence has the bytes that were sent: with several workers, for joined postcards, for captures."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.counters import DETECTOR
from hopscope.detect.evidence.reader import StoredReport, read_evidence
from hopscope.detect.merge import Merge
from hopscope.detect.records import Kind
from hopscope.detect.thresholds import CONTROL_FILE, create_control
from hopscope.history.files.journal_file import read_journals
from hopscope.present.evidence import (
    byte_fields,
    decoded,
    evidence_of,
    find_event,
    report_in,
    why_no_bytes,
)
from hopscope.runtime.pipeline.mode import mode_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.pipeline.steps import HandOver, Pipeline
from hopscope.runtime.processes.detector import Detector
from hopscope.settings.collector import Settings
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from support.processes.command import hopscope

pytestmark = pytest.mark.kernel
T0 = 1_700_000_000_000_000_000
MAPPED = 0xFFFF << 32
LOW, HIGH = 7, 900


def inner(flow: int, packet: int, ttl: int, body: bytes = b"") -> bytes:
    """Ethernet, IPv4 with DSCP 0x17 where `body` is INT, and UDP to port 80."""
    size = 28 + len(body)
    ip = struct.pack(
        ">BBHHHBBHII", 0x45, 0x5C if body else 0, size, packet, 0, ttl, 17, 0, 0x0A000001, 0x0A010000 + flow
    )
    return bytes(12) + b"\x08\x00" + ip + struct.pack(">HHHH", 4000, 80, 8 + len(body), 0) + body


def report(metadata_bits: int, metadata: bytes, packet: bytes) -> bytes:
    """A report of a Telemetry Report 2.0: INT report, Ethernet inside, flow tracked."""
    body = struct.pack(">HHHH", metadata_bits, 0, 0, 0) + metadata + packet
    body += bytes(-len(body) % 4)
    return struct.pack(">BBBB", 0x13, len(body) // 4, len(metadata) // 4, 0x20) + body


def group(node: int, sequence: int, *reports: bytes) -> bytes:
    """A datagram: the group header of the specification, section 3.1, and reports."""
    return struct.pack(">II", 2 << 28 | sequence, node) + b"".join(reports)


def path_report(flow: int, *occupancy: int) -> bytes:
    """INT-MD 2.x: the shim, instructions for node id and queue, and a hop of node 1, 2, … for each value."""
    stack = [struct.pack(">II", 1 + hop, 2 << 24 | value) for hop, value in enumerate(occupancy)]
    head = struct.pack(">HBBHHHH", 0x2000, 2, 0, 0x9000, 0, 0, 0)
    shim = struct.pack(">BBH", 0x10, 3 + 2 * len(stack), 0)
    return report(0, b"", inner(flow, 9, 60, shim + head + b"".join(reversed(stack))))


def postcard(flow: int, packet: int, ttl: int, occupancy: int) -> bytes:
    """Report metadata: ports 1 and 3, and queue 2."""
    return report(0x5000, struct.pack(">HHI", 1, 3, 2 << 24 | occupancy), inner(flow, packet, ttl))


def frames_of(raws: list[bytes], source: int, time_ns: int) -> FrameBatch:
    """Payloads that follow each other in one arena, as those of a train do."""
    frames = np.zeros(len(raws), FRAME)
    frames["length"] = frames["wire_length"] = [len(raw) for raw in raws]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["time_ns"], frames["source_lo"], frames["link"] = time_ns, MAPPED | source, Link.UDP_PAYLOAD
    return FrameBatch(np.frombuffer(b"".join(raws), np.uint8), frames)


def settings_for(folder: Path, workers: int) -> Settings:
    """An alarm above 500 packets, small tables."""
    limit = {"queue_occupancy": {"raise_above": 500, "clear_below": 50}}
    detect = {"flow_rows": 64, "ports": 64, "sources": 64, "queue_reports": 1024, "thresholds": limit}
    return Settings.model_validate(
        {
            "data": folder, "listen": [{"port": 0, "workers": workers}], "detect": detect,
            "history": {"ring_events": 1024, "fsync_seconds": 0},
        }
    )  # fmt: skip


class Collector:
    """Workers and a detector whose processes are objects here; of one worker, its pipeline."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder, self.settings = folder, settings_for(folder, workers)
        self.mode = mode_of(self.settings)
        self.regions = folder / "regions"
        self.regions.mkdir(parents=True)
        create_control(self.regions / CONTROL_FILE, self.settings.limits)
        self.mode.make_queues(self.regions)
        self.detector: Detector | None = None
        self.workers: list[HandOver | Pipeline] = []
        self.start()

    def start(self) -> None:
        """Start all processes, also on what killed ones left."""
        process = DETECTOR if self.settings.workers > 1 else None
        self.shard = Shard(self.settings.history, process=process, data=self.folder, regions=self.regions)
        pipeline = self.mode.pipeline(self.shard)
        if self.settings.workers == 1:
            self.workers = [pipeline]
            return
        self.detector = Detector(pipeline, Merge(self.mode.queues(self.regions)))
        self.workers = [self.mode.hand_over(number, self.regions) for number in range(self.settings.workers)]

    def receive(self, worker: int, raws: list[bytes], time_ns: int = T0) -> None:
        """Datagrams that reach a worker (the only one, if there is one), from a switch of its own."""
        found = self.workers[worker % len(self.workers)]
        found.step(frames_of(raws, 1 + worker, time_ns))

    def take(self) -> None:
        """All that was received is detected, also paths that wait for more postcards."""
        if self.detector is not None:
            self.detector._take(everything=True)
        pipeline = self.workers[0] if self.detector is None else self.detector._pipeline
        pipeline.flush()  # type: ignore[union-attr]

    def kept(self, kind: Kind, flow: int) -> StoredReport:
        """What is kept of the only event of a kind about a flow."""
        events = self.events()
        chosen = events[(events["kind"] == kind) & (events["dst_lo"] & 0xFFFF == flow)]
        assert len(chosen) == 1
        one = chosen[0]
        found = read_evidence(self.folder, 0, int(one["sequence"]), int(one["time_ns"]))
        assert found is not None
        return found

    def events(self) -> Records:
        """All events so far."""
        return read_journals(self.folder)

    def close(self) -> None:
        """Stop."""
        self.shard.close()


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def collector(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Collector]:
    made = Collector(tmp_path / "data", request.param)
    yield made
    made.close()


def test_the_bytes_are_those_that_were_sent(collector: Collector) -> None:
    """Datagrams of two switches at two workers, one with two reports: each event leads to its own datagram,
    and the report in it is decoded from there.
    """
    mine = [group(1, 0, path_report(1, LOW, HIGH)), group(1, 1, path_report(2, LOW, LOW))]
    others = [group(2, 0, path_report(3, LOW, LOW, LOW), path_report(4, LOW, LOW, LOW, HIGH))]
    collector.receive(0, mine)
    collector.receive(1, others)
    collector.take()
    for flow, raw, source, index, hops in ((1, mine[0], 1, 0, 2), (4, others[0], 2, 1, 4)):
        kept = collector.kept(Kind.RAISED, flow)
        (datagram,) = kept.datagrams.values()
        assert (datagram.raw, datagram.dialect) == (raw, "spec")
        assert int(datagram.frame["source_lo"][0]) == MAPPED | source
        shown = decoded(kept, DEFAULT)
        assert (shown["index"], len(shown["hops"])) == (index, hops)
        assert shown["hops"][-1]["queue_occupancy"] == HIGH
        row = report_in(kept, 0, DEFAULT)
        assert row is not None
        fields = [field["name"] for field in byte_fields(datagram, row, DEFAULT)]
        wanted = [f"hop {hop} of the path" for hop in reversed(range(hops))]
        assert [name for name in fields if name.startswith("hop ")] == wanted
        assert why_no_bytes(kept) is None


def test_a_joined_path_has_each_postcard(collector: Collector) -> None:
    """Postcards of one packet reach two workers, two of them in one datagram, out of order; the path has the
    datagram of each hop, and in it the hop's own postcard.
    """
    first, third = group(11, 0, postcard(1, 5, 63, LOW)), group(13, 0, postcard(1, 5, 61, HIGH))
    second = group(12, 0, postcard(2, 8, 62, LOW), postcard(1, 5, 62, LOW), postcard(1, 6, 62, LOW))
    collector.receive(1, [second, third], T0)
    collector.receive(0, [first], T0 + 1000)
    collector.take()
    kept = collector.kept(Kind.RAISED, 1)
    assert {hop: one.raw for hop, one in kept.datagrams.items()} == {0: first, 1: second, 2: third}
    assert kept.batch.hops["node_id"].tolist() == [11, 12, 13]
    for hop, (index, occupancy) in enumerate([(0, LOW), (1, LOW), (0, HIGH)]):
        row = report_in(kept, hop, DEFAULT)
        assert row is not None
        assert (row["index"], row["node_id"], row["ttl"]) == (index, 11 + hop, 63 - hop)
        shown = byte_fields(kept.datagrams[hop], row, DEFAULT)
        (own,) = [field for field in shown if field["name"] == "metadata of the report"]
        assert [field["value"] for field in own["fields"]] == [1, 3, 2, occupancy]
    assert why_no_bytes(kept) is None


def test_killed_processes_leave_the_bytes(tmp_path: Path) -> None:
    """Worker and detector are killed between a report and its event: new ones find its bytes, and go on."""
    collector = Collector(tmp_path / "data", 2)
    raws = [[group(node, 0, path_report(node, HIGH))] for node in (1, 2, 3)]
    collector.receive(0, raws[0])
    collector.receive(1, raws[1])
    collector.shard.close()  # the lock of a killed process ends with it
    collector.start()
    collector.receive(0, raws[2], T0 + 1)
    collector.take()
    kept = [collector.kept(Kind.RAISED, 1)]
    assert [one.datagrams[0].raw for one in kept] == [raws[0][0]]
    collector.close()


def test_overwritten_bytes_are_missing_and_said_to_be(tmp_path: Path) -> None:
    """A detector that lags by more than the ring: the report is kept as it was decoded, and counted."""
    collector = Collector(tmp_path / "data", 2)
    collector.receive(0, [group(1, 0, path_report(1, HIGH))])
    for turn in range(1, 20):
        collector.receive(0, [group(1, turn, path_report(2, LOW)) + bytes(60_000)], T0 + turn)
    collector.take()
    kept = collector.kept(Kind.RAISED, 1)
    assert kept.datagrams == {}
    assert decoded(kept, None)["hops"][0]["queue_occupancy"] == HIGH
    assert "overwritten" in str(why_no_bytes(kept))
    assert collector.shard.counted["evidence_incomplete_total"] == 2  # the first report of each flow
    collector.close()


def test_a_replayed_capture_leaves_its_bytes(tmp_path: Path) -> None:
    """`hopscope replay` into a data folder keeps the frames of the capture, whatever the file's times are."""
    raw = group(1, 0, path_report(1, LOW, HIGH))
    head = bytes(12) + b"\x08\x00"
    size = 28 + len(raw)
    head += struct.pack(">BBHHHBBHII", 0x45, 0, size, 0, 0, 64, 17, 0, 0xC0000201, 0xC00002FE)
    frame = head + struct.pack(">HHHH", 32766, 32766, 8 + len(raw), 0) + raw
    capture, data = tmp_path / "one.pcap", tmp_path / "data"
    record = struct.pack("<IIII", T0 // 10**9, 0, len(frame), len(frame)) + frame
    capture.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 1) + record)
    limit = "detect.thresholds.queue_occupancy={raise_above = 500, clear_below = 50}"
    done = hopscope("replay", capture, "--data", data, "--events", "--set", limit)
    assert done.returncode == 0, done.stdout + done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (raised,) = [event["id"] for event in events if event["kind"] == "raised"]
    shard, sequence = map(int, raised.split("-"))
    kept = evidence_of(data, find_event(data, shard, sequence))
    assert kept is not None
    assert kept.datagrams[0].raw == frame
    assert decoded(kept, DEFAULT)["source"] == "192.0.2.1"

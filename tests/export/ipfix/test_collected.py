"""What one collector exports by IPFIX, another one takes in."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT, Kind, Metric
from hopscope.history.writing.journal import JournalWriter
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.records import Link
from support.packets.wire_cases import frame_batch
from support.servers.bus_make import bus_sender
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.kernel
FLOWS, LATENCY_NS = 40, 12_000


def test_flow_records_of_another_collector(tmp_path: Path) -> None:
    """Every flow with its packets and its latency, in us; nothing damaged, nothing missing."""
    events = np.zeros(2 * FLOWS, EVENT)
    events["sequence"], events["kind"] = np.arange(len(events)), Kind.FLOW_RECORD
    events["time_ns"] = 1_700_000_000_000_000_000 + np.arange(len(events)) // 2
    events["flow_id"] = 1 + np.arange(len(events)) // 2
    events["src_lo"] = (0xFFFF << 32 | 0x0A000000) + events["flow_id"]
    events["dst_lo"], events["sport"], events["dport"] = 0xFFFF << 32 | 0x0B000001, 1000, 443
    events["proto"], events["ip_version"] = 6, 4
    paths, latencies = events[::2], events[1::2]
    paths["metric"], latencies["metric"] = Metric.FLOW_PATH, Metric.FLOW_LATENCY
    paths["value"], latencies["value"] = 100 + paths["flow_id"], LATENCY_NS
    paths["previous"], paths["hop_count"] = paths["time_ns"] - 1_000_000, 2
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(HANG_SECONDS)
        with JournalWriter(tmp_path, 2) as writer:
            writer.append(events)
            one, row = bus_sender(tmp_path, "ipfix", url=f"udp://127.0.0.1:{receiver.getsockname()[1]}")
            one.start()
            one.finish()
            assert one.ended(HANG_SECONDS)
        assert row["events_total"][0] == len(events), row
        decoder, found = IpfixDecoder(), dict[int, tuple[int, int]]()

        def complete() -> bool:
            frames = frame_batch([receiver.recv(65_535)], link=Link.UDP_PAYLOAD)
            frames.frames["time_ns"] = 1
            batch = decoder.decode(frames)
            assert not batch.reports["reason"].any()
            for report in batch.reports[batch.reports["hop_count"] == 1]:
                hop = batch.hops[report["first_hop"]]
                found[int(report["src_lo"]) & 0xFFFF] = int(report["packet_id"]), int(hop["hop_latency"])
            return len(found) == FLOWS

        eventually(complete)
    assert found == {n: (100 + n, LATENCY_NS) for n in range(1, FLOWS + 1)}
    counts = decoder.counts()
    assert counts["ipfix_early_sets"] == counts["ipfix_rejected_templates"] == 0

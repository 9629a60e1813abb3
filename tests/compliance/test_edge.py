"""The simulated edge without INT: what a collector makes of its datagrams."""

from __future__ import annotations

from collections import Counter

from hopscope.fabric.edge import AGENTS, CALM_BYTES, FULL_BYTES, NAMES, OUT, RATE, TICK, Edge
from hopscope.runtime.pipeline.source_decoder import SourceDecoder
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.records import Have, Link, ReportBatch
from hopscope.wire.sflow.decoder import SflowDecoder
from support.packets.wire_cases import frame_batch


def test_ten_seconds_of_the_edge() -> None:
    """As many reports as announced, none damaged; samples of both switches, records of the router; one queue
    fills up.
    """
    edge = Edge()
    exported = IpfixDecoder()
    decoders: dict[str, SourceDecoder] = {"sflow": SflowDecoder(), "ipfix": exported}
    announced: Counter[str] = Counter()
    reports: Counter[str] = Counter()
    packets: Counter[int] = Counter()
    deepest: dict[int, int] = {}
    utilization: dict[int, set[int]] = {}
    for second in range(int(10 / TICK)):
        for sent in edge.tick(1_700_000_000 + second):
            frames = frame_batch([sent.payload], link=Link.UDP_PAYLOAD)
            frames.frames["time_ns"] = 1 + second
            batch: ReportBatch = decoders[sent.kind].decode(frames)
            announced[sent.kind] += sent.reports
            reports[sent.kind] += len(batch)
            assert not batch.reports["reason"].any()
            for report, hop in zip(batch.reports, batch.hops, strict=True):
                node = int(report["node_id"])
                packets[node] += int(report["packet_id"])
                if hop["present"] & Have.QUEUE_OCCUPANCY:
                    deepest[node] = max(deepest.get(node, 0), int(hop["queue_occupancy"]))
                if hop["present"] & Have.TX_UTILIZATION:
                    assert hop["egress_port"] == OUT
                    utilization.setdefault(node, set()).add(int(hop["tx_utilization"]))
    assert reports == announced
    assert len(NAMES) == len(AGENTS) + 1
    assert [packets[agent] for agent in AGENTS] == [20 * 20 * RATE] * 2
    assert deepest[AGENTS[0]] < 2 * CALM_BYTES
    assert deepest[AGENTS[1]] > FULL_BYTES * 0.9
    assert utilization == {AGENTS[0]: {200}, AGENTS[1]: {300}}
    counts = exported.counts()
    assert (counts["ipfix_flow_records"], counts["ipfix_templates"]) == (20 * 20, 1)

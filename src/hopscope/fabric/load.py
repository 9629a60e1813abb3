"""Reports for load tests: any number of hops, fields and flows; once known, their values cause no events."""

from __future__ import annotations

import numpy as np

from ..wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from ..wire.records import FrameBatch, Link, ReportBatch

FIELDS = {1: 0x8000, 8: 0xFF00}
"""Instruction bitmaps: the node id alone, or the first eight fields of INT 2.x (44 bytes a hop)."""
SWITCHES = 20
BLOCK = 16_384
"""Reports that `Load` makes, and then sends again with other sequence numbers."""
LOOPBACK = 0x7F010101
"""127.1.1.1: the first source; those of `simulate` begin at 127.0.1.1."""
SEQUENCES = 1 << 22
"""Sequence numbers of Report 2.0: 22 bits."""


def report_batch(
    count: int, hops: int, fields: int, flows: int, sequence: int = 0, seed: int = 1
) -> ReportBatch:
    """`count` Reports 2.0 of one sink, over `flows` flows in random order, each with a path of its own."""
    random = np.random.default_rng(seed + sequence)
    reports = new_reports(count)
    flow = random.integers(flows, size=count, dtype=np.uint32) if flows > 1 else np.zeros(count, np.uint32)
    reports["source_lo"] = mapped_v4(np.full(count, 0x7F000001, np.uint32))
    reports["src_lo"] = mapped_v4(np.uint32(0x0A000000) + flow // np.uint32(60_000))
    reports["dst_lo"] = mapped_v4(np.full(count, 0x0A010001, np.uint32))
    reports["sport"] = 1024 + flow % 60_000
    reports["dport"] = 53
    reports["node_id"], reports["hw_id"] = 1, 1
    reports["sequence"] = (sequence + np.arange(count)) & 0x3FFFFF
    reports["int_version"], reports["int_mode"] = 20, 1
    reports["instructions"] = FIELDS[fields]
    reports["remaining_hops"] = 8
    reports["first_hop"] = np.arange(count) * hops
    reports["hop_count"] = hops
    stack = new_hops(count * hops, FIELDS[fields])
    position = np.tile(np.arange(hops, dtype=np.uint32), count)
    owner = np.repeat(flow, hops)
    node = (owner * 7 + position * 3) % SWITCHES + 1
    stack["node_id"] = node
    stack["ingress_port"], stack["egress_port"] = owner % 4, (owner + 1) % 4
    stack["l2_ingress_port"], stack["l2_egress_port"] = owner % 4, (owner + 1) % 4
    stack["hop_latency"] = 1000 + node
    stack["queue_id"], stack["queue_occupancy"] = (owner + 1) % 4, 10
    stack["ingress_time"] = 1_000_000_000 + np.repeat(np.arange(count), hops) * 1000
    stack["egress_time"] = stack["ingress_time"] + 1000
    stack["tx_utilization"] = 300
    return ReportBatch(reports, stack)


def payloads(count: int, hops: int, fields: int, flows: int, sequence: int = 0) -> FrameBatch:
    """The same as UDP payloads from one source."""
    return encode_reports(report_batch(count, hops, fields, flows, sequence), link=Link.UDP_PAYLOAD)


class Load:
    """An endless stream of reports from several sources, each with sequence numbers of its own.

    Sources take turns, so `sources` must divide BLOCK.
    """

    def __init__(self, *, hops: int, flows: int, sources: int) -> None:
        if BLOCK % sources:
            raise ValueError(f"{sources} sources: expected a divisor of {BLOCK}")
        batch = report_batch(BLOCK, hops, 8, flows)
        number = np.arange(BLOCK)
        batch.reports["source_lo"] = mapped_v4((LOOPBACK + number % sources).astype(np.uint32))
        batch.reports["sequence"] = number // sources
        self._frames = encode_reports(batch, link=Link.UDP_PAYLOAD)
        self.report_bytes = int(self._frames.frames["length"][0])
        """Payload of one datagram."""
        words = self._frames.arena[: BLOCK * self.report_bytes].reshape(BLOCK, self.report_bytes)[:, :4]
        self._words = words.view(">u4")[:, 0]
        self._each, self._at = BLOCK // sources, 0

    def next(self, most: int) -> FrameBatch:
        """At most `most` reports as UDP payloads, valid until the next call."""
        if self._at == BLOCK:
            self._at = 0
            sequences = ((self._words & (SEQUENCES - 1)) + self._each) & (SEQUENCES - 1)
            self._words[:] = self._words & ~np.uint32(SEQUENCES - 1) | sequences
        begin, self._at = self._at, min(BLOCK, self._at + most)
        return FrameBatch(self._frames.arena, self._frames.frames[begin : self._at])

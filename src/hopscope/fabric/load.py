"""Reports for load tests, with any number of hops, fields and flows. Once flows are known, they cause no
events.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from ..wire.records import FrameBatch, Link, ReportBatch

FIELDS = {1: 0x8000, 8: 0xFF00}
"""Instruction bitmaps: the node id alone, or the first eight fields of INT 2.x (44 bytes a hop)."""
SWITCHES = 20
BLOCK = 16_384
"""Smallest number of reports that `Load` makes; a power of two."""
LOOPBACK = 0x7F010101
"""127.1.1.1, the first source; the sources of `simulate` begin at 127.0.1.1."""
BENCHMARK = 0xC6120101
"""198.18.1.1, of a network for benchmarks (RFC 2544): the first source of Ethernet frames."""
SEQUENCES = 1 << 22
"""Sequence numbers of Report 2.0: 22 bits."""
_HEADERS = 14 + 20 + 8
"""Bytes of Ethernet, IPv4 and UDP."""
_FLAGS, _QUEUE_REPORT = 11, np.uint8(0x40)
"""Byte of a datagram with the flags of its first report (Report 2.0), and the flag Q."""


def report_batch(count: int, hops: int, fields: int, flows: int, sequence: int = 0) -> ReportBatch:
    """`count` Reports 2.0 of one sink, over `flows` flows in random order, each with a path of its own."""
    random = np.random.default_rng(1 + sequence)
    return reports_of(random.integers(flows, size=count, dtype=np.uint32), hops, fields, sequence)


def reports_of(flow: npt.NDArray[np.uint32], hops: int, fields: int, sequence: int = 0) -> ReportBatch:
    """As `report_batch`, with the flow of each report given by `flow`, uint32 [reports]."""
    count = len(flow)
    reports = new_reports(count)
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
    """As `report_batch`, but as UDP payloads from one source."""
    return encode_reports(report_batch(count, hops, fields, flows, sequence), link=Link.UDP_PAYLOAD)


def block_of(flows: int) -> int:
    """Number of reports that `Load` makes, at least one for each flow; it repeats them with new sequence
    numbers.
    """
    return max(BLOCK, 1 << (flows - 1).bit_length())


class Load:
    """An endless stream of datagrams with reports from several sources, each with its own sequence numbers.

    Sources take turns after `run` datagrams, so `sources * run * grouped` must divide BLOCK.
    """

    def __init__(
        self,
        *,
        hops: int,
        flows: int,
        sources: int,
        fields: int = 8,
        grouped: int = 1,
        run: int = 1,
        link: Link = Link.UDP_PAYLOAD,
        collector: str = "127.0.0.1",
        port: int = 32766,
    ) -> None:
        """`grouped`: reports of a datagram. `link`: UDP_PAYLOAD, or ETHERNET for frames to `collector`, an
        IPv4 address; their Ethernet addresses are left to the caller. Raises ValueError.
        """
        if BLOCK % (sources * run * grouped):
            raise ValueError(
                f"{sources} sources of {run} datagrams of {grouped} reports: expected a divisor of {BLOCK}"
            )
        block = block_of(flows)
        count = block // grouped
        flow = (np.random.default_rng(1).permutation(block) % flows).astype(np.uint32)
        for begin in range(0, block, BLOCK):  # in parts, whose records take more memory than datagrams
            batch = reports_of(flow[begin : begin + BLOCK], hops, fields)
            number = np.arange(begin, begin + BLOCK)
            datagram = number // grouped
            first = LOOPBACK if link == Link.UDP_PAYLOAD else BENCHMARK
            batch.reports["source_lo"] = mapped_v4((first + datagram // run % sources).astype(np.uint32))
            batch.reports["sequence"] = datagram // (run * sources) * run + datagram % run
            batch.reports["index"] = number % grouped
            part = encode_reports(batch, link=link, collector=collector, port=port)
            rows = slice(begin // grouped, begin // grouped + len(part))
            length = int(part.frames["length"][0])
            if not begin:
                octets = np.empty((count, length), np.uint8)
                frames = np.empty(count, part.frames.dtype)
            octets[rows] = part.arena[: len(part) * length].reshape(-1, length)
            frames[rows] = part.frames
        frames["offset"] = np.arange(count) * length
        self.octets = octets
        """All datagrams, or their frames, uint8 [datagrams, bytes]."""
        self._frames = FrameBatch(octets.reshape(-1), frames)
        payload = 0 if link == Link.UDP_PAYLOAD else _HEADERS
        self.datagram_bytes = length - payload
        """Payload of a datagram."""
        self._words = self.octets[:, payload : payload + 4].view(">u4")[:, 0]
        self._flags = self.octets[:, payload + _FLAGS]
        self._each, self._at = count // sources, 0

    def next(self, most: int, events: int = 0) -> FrameBatch:
        """At most `most` datagrams, valid until the next call. Up to `events` of them have a queue report,
        which causes an event.
        """
        if self._at == len(self.octets):
            self._at = 0
            sequences = ((self._words & (SEQUENCES - 1)) + self._each) & (SEQUENCES - 1)
            self._words[:] = self._words & ~np.uint32(SEQUENCES - 1) | sequences
        begin, self._at = self._at, min(len(self.octets), self._at + most)
        flags = self._flags[begin : self._at]
        flags &= ~_QUEUE_REPORT
        if events:
            events = min(events, len(flags))
            flags[np.arange(events) * len(flags) // events] |= _QUEUE_REPORT
        return FrameBatch(self._frames.arena, self._frames.frames[begin : self._at])

"""The packets of the SmartNIC INT sink's evaluation (section IV-A 2 and 3), and what is true of each.

A 64-byte packet (60 without its frame check sequence) of one of `flows` flows gets INT-MD 2.0: over its own
UDP header, with port 0x1000 in place of the packet's (NPT 1), or for a share of the flows over a UDP header
inserted in front of TCP (NPT 2). Each flow has one path; node ids are 1 + hop * switches + 0 … switches - 1.
Values of a hop are exponential within 0 … `HIGHEST`, with a sixth of it as scale.

How popular flows are: a Zipf law. In 4 billion flows of a campus's Internet link (Jurkiewicz et al.,
arXiv:1809.03486) 2.65 % of the flows are longer than 100 packets, 0.546 % than 1,000, 0.108 % than 10,000,
0.0104 % than 100,000: a Pareto tail of index 0.7 to 1.0, which is a Zipf exponent of 1.0 to 1.4. Here it is
1.0, the least of these, with which a cache of flows hits least; 6 million flows of the paper's 186 million
packets then have a median of 4 packets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from hopscope.wire.records import FRAME, FrameBatch

BITMAPS = {1: 0x8000, 2: 0xA000, 3: 0xB000, 4: 0xB100}
"""By number of instructions: node id, hop latency, queue occupancy, link utilisation."""
MEASURES = ("hop_latency", "queue_occupancy", "link_utilization")
HIGHEST = (65_535, 300, 100)
"""By measure: ns, the paper's 300, percent."""
MAX_HOPS = 8
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_START_NS = 1_700_000_000_000_000_000


@dataclass(frozen=True)
class Workload:
    """What the packets are like."""

    hops: int = 5
    """INT transit nodes, 1 to 8."""
    instructions: int = 4
    """1 to 4; see BITMAPS."""
    flows: int = 100_000
    skew: float = 1.0
    """Exponent of the Zipf law; 0: all flows alike."""
    switches: int = 16
    """At every place of a path, 1 to 256."""
    tcp: float = 0.0
    """Share of flows that are TCP, with INT behind an inserted UDP header."""
    rate: float = 6.57e6
    """Packets a second, by their times."""
    seed: int = 1

    @property
    def stride(self) -> int:
        """Bytes of the arena that a packet has, whole cache lines."""
        longest = 60 + 16 + 4 * self.hops * self.instructions + (8 if self.tcp else 0)
        return -(-longest // 64) * 64


class IntPackets:
    """A block of packets in memory, made again by every `fill`."""

    def __init__(self, workload: Workload, packets: int, batch: int = 4096) -> None:
        from . import int_packets_kernel

        self.workload = workload
        self.arena = np.zeros(packets * workload.stride, np.uint8)
        """uint8 [packets * stride]."""
        self.frames = np.zeros(packets, FRAME)
        self.flow = np.zeros(packets, np.uint32)
        """Flow of each packet, 0 is the most popular."""
        self.values = np.zeros((packets, workload.hops, len(MEASURES)), np.uint32)
        """By packet, hop in path order, and measure; 0 where the instructions do not ask for it."""
        self.first = 0
        """Number of the first packet."""
        self._batch = batch
        self._fill = int_packets_kernel.fill
        setup = (
            workload.seed * 0x10001, 0, workload.hops, BITMAPS[workload.instructions], workload.flows,
            workload.switches, round(workload.tcp * 65536), workload.stride, _START_NS,
            round(65536e9 / workload.rate),
        )  # fmt: skip
        self._setup = np.array(setup, np.uint64)

    def fill(self, first: int) -> None:
        """Write packets `first`, `first` + 1 …; the same seed and number give the same packet always."""
        from .int_packets_kernel import FIRST

        self.first = first
        self._setup[FIRST] = first
        self._fill(
            self.arena, self.frames, self.flow, self.values.reshape(-1), quantiles(), self._setup,
            float(self.workload.skew), np.uint64(0),
        )  # fmt: skip

    def batches(self, count: int | None = None) -> Iterator[FrameBatch]:
        """The block, or its first packets, as a capture would hand them over."""
        frames = self.frames[:count]
        for start in range(0, len(frames), self._batch):
            yield FrameBatch(self.arena, frames[start : start + self._batch], self.first + start)

    @property
    def times_ns(self) -> npt.NDArray[np.int64]:
        """Arrival of each packet."""
        return np.asarray(self.frames["time_ns"])


@lru_cache(1)
def quantiles() -> npt.NDArray[np.uint32]:
    """Values of each measure by 16 random bits, uint32 [3 * 65536]: exponential, cut at the highest."""
    u = (np.arange(65536) + 0.5) / 65536
    every = []
    for highest in HIGHEST:
        scale = highest / 6
        every.append(np.floor(-scale * np.log1p(-u * -np.expm1(-(highest + 1) / scale))))
    table: npt.NDArray[np.uint32] = np.concatenate(every).astype(np.uint32)
    table.setflags(write=False)
    return table


def ways(workload: Workload, flows: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint64]:
    """The 64 bits that a flow's addresses, ports and path come from (MurmurHash3's finaliser)."""
    x = flows.astype(np.uint64) * _GOLDEN + np.uint64(workload.seed * 0x10001)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        x = (x ^ (x >> np.uint64(33))) * np.uint64(factor)
    return x ^ (x >> np.uint64(33))


def nodes(workload: Workload, flows: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Path of each flow, node ids uint32 [flows, hops]."""
    hop = np.arange(workload.hops, dtype=np.uint64)
    way = ways(workload, flows)[:, None] >> (np.uint64(8) * hop)
    place = (way & np.uint64(0xFF)) % np.uint64(workload.switches)
    return (1 + hop * np.uint64(workload.switches) + place).astype(np.uint32)


def keys(workload: Workload, flows: npt.NDArray[np.uint32]) -> dict[str, npt.NDArray[np.uint64]]:
    """What tells the flows apart: src_lo, dst_lo (IPv4 as ::ffff:a.b.c.d), sport, dport, proto."""
    way = ways(workload, flows)
    mapped = np.uint64(0xFFFF << 32)
    tcp = (way & np.uint64(0xFFFF)) < np.uint64(round(workload.tcp * 65536))
    return {
        "src_lo": mapped | (np.uint64(10 << 24) + flows.astype(np.uint64)),
        "dst_lo": mapped | np.uint64(172 << 24 | 16 << 16) | ((way >> np.uint64(16)) & np.uint64(0xFFFFF)),
        "sport": np.uint64(1024) + ((way >> np.uint64(36)) & np.uint64(0x3FFF)),
        "dport": np.uint64(20000) + ((way >> np.uint64(50)) & np.uint64(0x1FFF)),
        "proto": np.where(tcp, np.uint64(6), np.uint64(17)),
    }


def popularity(workload: Workload) -> npt.NDArray[np.float64]:
    """Probability of each flow, float64 [flows], largest first."""
    edges = np.arange(1, workload.flows + 2, dtype=np.float64)
    below = np.log(edges) if workload.skew == 1 else edges ** (1 - workload.skew)
    return np.asarray(np.diff(below) / (below[-1] - below[0]))

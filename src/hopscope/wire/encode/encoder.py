"""Reports to frames, for simulated switches, sinks and benchmarks."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .. import layout
from ..address import MAPPED, number_of
from ..dialect import DEFAULT
from ..records import (
    FRAME,
    HOP,
    MAX_HOPS,
    REPORT,
    Carried,
    FrameBatch,
    Have,
    Link,
    Mode,
    Records,
    ReportBatch,
)


def new_reports(count: int, version: int = 20) -> Records:
    """REPORT [count] with usual values: version (5, 10, 20), carried FLOW and PORTS, UDP over IPv4, tracked.

    Addresses are ::ffff:a.b.c.d: the high halves are 0, and `mapped_v4` makes the low ones.
    """
    reports = np.zeros(count, REPORT)
    reports["version"] = version
    reports["carried"] = Carried.FLOW | Carried.PORTS
    reports["ip_version"], reports["proto"] = 4, 17
    reports["flags"] = 4
    reports["packet"] = np.arange(count)
    reports["source_lo"] = reports["src_lo"] = reports["dst_lo"] = MAPPED
    return reports


def mapped_v4(
    address: np.ndarray[tuple[int], np.dtype[np.uint32]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Low halves of ::ffff:a.b.c.d, uint64, from IPv4 addresses as numbers."""
    return address.astype(np.uint64) | np.uint64(MAPPED)


def new_hops(count: int, instructions: int = 0) -> Records:
    """HOP [count] of zeros, except for `present`, which has the values that INT 2.x `instructions` name."""
    hops = np.zeros(count, HOP)
    present = sum(1 << bit for bit in range(9) if instructions >> (15 - bit) & 1)
    hops["present"] = present | (Have.CHECKSUM_COMPLEMENT if instructions & 1 else 0)
    return hops


def encode_reports(
    batch: ReportBatch,
    *,
    link: Link = Link.ETHERNET,
    port: int = 32766,
    sport: int = 32766,
    collector: str = "192.0.2.254",
    dscp: int = 0x17,
    inner_ip: bool = False,
    udp_checksum: bool = False,
) -> FrameBatch:
    """Frames with these reports: the inverse of decoding.

    Reads of each REPORT row: version (5, 10, 20), kind (0.5: DROP sends the drop header, QUEUE the
    switch-local one, else plain; 2.0: INNER sends an inner-only report), flags, hw_id, sequence (2.0: 22
    bits), node_id, ingress_time (0.5, 1.0), source, time_ns; with `carried` FLOW the inner packet:
    ip_version, src, dst, proto, sport, dport; inner_length is the length in its IP header if that is
    longer than the packet (which was cut); ttl is the one in its IP header (0: 64). int_version (0 none,
    5, 10, 20), instructions, hop_words (0: as instructions imply), remaining_hops, int_flags, domain_id,
    ds_*, and `hops[first_hop : first_hop + hop_count]` in path order make INT; int_mode MX (2.x) writes
    only the header. `null` bits of hops write all ones; packet_id is the inner IPv4 packet's
    identification. With `carried` OWN_HOP, `hops[first_hop + hop_count]` is the report's metadata, by
    its `present` bits; with DROP_REASON, it includes queue_id and drop_reason. A row with `index` > 0
    (2.0) joins the frame of the row before it.

    `link` is ETHERNET (complete frames, correct lengths and IPv4 checksums) or UDP_PAYLOAD. `dscp` marks
    inner packets that carry INT. `inner_ip` sends inner packets without Ethernet if the version supports
    this.
    `udp_checksum` computes the outer UDP checksum; otherwise it is 0, except over IPv6. Raises ValueError if
    a value does not fit its header.
    """
    number = number_of(collector)
    _check(batch)
    from ...base.kernels.jit import readonly
    from ..telemetry.metadata_kernel import PLANS
    from . import encode_kernel as kernel

    rows = batch.reports
    options = np.zeros(kernel.OPTIONS, np.uint64)
    options[kernel.PORT], options[kernel.SPORT] = port, sport
    options[kernel.COLLECTOR_HI], options[kernel.COLLECTOR_LO] = number >> 64, number & (1 << 64) - 1
    options[kernel.DSCP], options[kernel.INNER_IP] = dscp, inner_ip
    options[kernel.CHECK], options[kernel.LINK] = udp_checksum, link
    stack = rows["hop_count"].astype(np.int64) * np.where(rows["hop_words"] > 0, rows["hop_words"], 31) * 4
    arena = np.empty(len(rows) * _HEADERS + int(stack.sum()), np.uint8)
    frames = np.zeros(len(rows), FRAME)
    counts = np.zeros(4, np.uint64)
    plans = np.zeros(PLANS, np.uint64)
    kernel.encode_frames(
        readonly(rows), readonly(batch.hops), options, DEFAULT.table(), plans, arena, frames, counts
    )
    done, used, long_report, long_frame = (int(count) for count in counts)
    if long_report:
        raise ValueError(
            f"report {long_report - 1} takes 255 words or more, which only the last of a group may"
        )
    if long_frame:
        raise ValueError(f"frame {long_frame - 1} is longer than a UDP datagram can be")
    return FrameBatch(arena[:used], frames[:done])


_HEADERS = 62 + 8 + 12 + 64 + 74 + 20 + 4
"""Maximum bytes of a report's frame without its stack: outer headers, report, metadata, inner headers, INT,
padding.
"""
_LIMITS = (("hw_id", 63), ("hop_words", 31), ("inner_length", 65535), ("hop_count", MAX_HOPS))
_LIMITS_24 = ("queue_occupancy", "buffer_occupancy", "queue_congestion")


def _check(batch: ReportBatch) -> None:
    """Raise ValueError, with the row, if a value does not fit its header."""
    rows, hops = batch.reports, batch.hops
    for name, most in _LIMITS:
        _reject(rows[name] > most, f"{name} is above {most}")
    for name in _LIMITS_24:
        _reject(hops[name] > 0xFFFFFF, f"{name} is above 24 bits", "hop")
    version, int_version = rows["version"], rows["int_version"]
    _reject((version != 5) & (version != 10) & (version != 20), "version is not 5, 10 or 20")
    _reject(
        (int_version != 0) & (int_version != 5) & (int_version != 10) & (int_version != 20),
        "no such INT version",
    )
    _reject((rows["index"] > 0) & (version != 20), "only a Report 2.0 may have an index in a group")
    ends = rows["first_hop"].astype(np.int64) + rows["hop_count"] + (rows["carried"] & Carried.OWN_HOP > 0)
    _reject(ends > len(hops), "its hops end after the hop block")
    implied = _words()[int_version // 10, rows["instructions"]].astype(np.int64)
    words = np.where(rows["hop_words"] > 0, rows["hop_words"], implied)
    has = int_version > 0
    mx = rows["int_mode"] == Mode.MX
    _reject(mx & (int_version == 20) & (rows["hop_count"] > 0), "INT-MX has no hops")
    _reject(mx & has & (int_version != 20), "only INT 2.x has the mode MX")
    _reject(has & ~mx & (words < implied), "hop_words is below what the instructions imply")
    headers = np.where(int_version == 5, 4, 3)  # words that the length in the shim counts besides the stack
    _reject(has & (words * rows["hop_count"] + headers > 255), "its stack is longer than the shim can say")


def _reject(bad: npt.NDArray[np.bool_], why: str, what: str = "report") -> None:
    if bad.any():
        raise ValueError(f"{what} {int(bad.argmax())}: {why}")


@lru_cache(maxsize=1)
def _words() -> npt.NDArray[np.uint8]:
    """Words of a hop with each instruction bitmap, uint8 [3 versions, 65536]."""
    words = np.zeros((3, 65536), np.uint8)
    bitmap = np.arange(65536)
    for version, items in enumerate((layout.HOP_0_5, layout.HOP_1_0, layout.HOP_2_0)):
        for bit, item in enumerate(items):
            words[version] += ((bitmap >> (15 - bit) & 1) * (item.size // 4)).astype(np.uint8)
    return words

"""Reports to frames: what simulated switches, sinks and benches send."""

from __future__ import annotations

import ipaddress

import numpy as np

from .encode_scalar import encode_scalar
from .ethernet import MAPPED
from .records import HOP, REPORT, Carried, FrameBatch, Have, Link, Records, ReportBatch


def new_reports(count: int, version: int = 20) -> Records:
    """REPORT [count], with what is usual set: version (5, 10, 20), carried FLOW and PORTS, UDP over IPv4, tracked.

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
    """HOP [count], zero but for `present`, which is what the bits of an INT 2.x `instructions` stand for."""
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

    Reads of each REPORT row: version (5, 10, 20), kind (0.5: DROP sends the drop header, QUEUE the switch-local
    one, else plain; 2.0: INNER sends an inner-only report), flags, hw_id, sequence (2.0: 22 bits), node_id,
    ingress_time (0.5, 1.0), source, time_ns; with `carried` FLOW the inner packet: ip_version, src, dst, proto,
    sport, dport; inner_length is what its IP header states when it is more than what is there (the packet was
    cut). int_version (0 none, 5, 10, 20), instructions, hop_words (0: what instructions imply), remaining_hops,
    int_flags, domain_id, ds_*, and `hops[first_hop : first_hop + hop_count]` in path order make INT.  With
    `carried` OWN_HOP, `hops[first_hop + hop_count]` is the report's own metadata, by its `present` bits; with
    DROP_REASON, queue_id and drop_reason go with it.  A row with `index` > 0 (2.0) joins the frame of the row
    before it.

    `link` is ETHERNET (complete frames, right lengths and IPv4 checksums) or UDP_PAYLOAD.  `dscp` marks inner
    packets that carry INT.  `inner_ip` sends inner packets without Ethernet where the version can.
    `udp_checksum` computes the outer UDP checksum; it is 0 otherwise, but never over IPv6.
    Raises ValueError where a value does not fit its header.
    """
    address = ipaddress.ip_address(collector)
    number = int(address) | (MAPPED if address.version == 4 else 0)
    return encode_scalar(
        batch,
        link=link,
        port=port,
        sport=sport,
        collector=number,
        dscp=dscp,
        inner_ip=inner_ip,
        udp_checksum=udp_checksum,
    )

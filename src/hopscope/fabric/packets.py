"""INT packets of a simulated fabric as they arrive at a sink."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..wire import layout
from ..wire.encode.encoder import encode_reports
from ..wire.records import Carried, FrameBatch, Link, Mode, Records, ReportBatch

_L4 = layout.ETHERNET.size + layout.IPV4.size
_TCP_CHECKSUM = 16
"""Offset in the TCP header, bytes (RFC 9293, 3.1)."""


def int_packets(batch: ReportBatch) -> FrameBatch:
    """The INT-MD packets that the reports of a simulation describe.

    Ethernet, IPv4, TCP or UDP, INT with the hops of the whole path, and a payload of zeros.

    IPv4 and TCP checksums are those of the packet with its INT, as an INT source updates them; UDP has none.
    Reports about drops, and reports without INT-MD, are left out.
    """
    rows = batch.reports[(batch.reports["int_version"] > 0) & (batch.reports["int_mode"] == Mode.MD)].copy()
    rows["carried"] = Carried.FLOW | Carried.PORTS
    rows["version"], rows["index"] = 10, 0  # a report whose header has a fixed size, cut off again
    made = encode_reports(ReportBatch(rows, batch.hops), link=Link.UDP_PAYLOAD)
    frames = made.frames.copy()
    starts = frames["offset"].astype(np.int64) + layout.REPORT_1_0.size
    heads = frames["length"].astype(np.int64) - layout.REPORT_1_0.size
    sizes = np.maximum(heads, layout.ETHERNET.size + rows["inner_length"].astype(np.int64))
    places = np.cumsum(sizes) - sizes
    arena = np.zeros(int(sizes.sum()), np.uint8)
    within = np.arange(int(heads.sum())) - np.repeat(np.cumsum(heads) - heads, heads)
    arena[np.repeat(places, heads) + within] = made.arena[np.repeat(starts, heads) + within]
    _put_tcp_checksums(arena, places, heads, sizes, rows)
    frames["offset"], frames["length"], frames["wire_length"] = places, sizes, sizes
    frames["link"] = Link.ETHERNET
    return FrameBatch(arena, frames)


def _put_tcp_checksums(
    arena: npt.NDArray[np.uint8],
    places: npt.NDArray[np.int64],
    heads: npt.NDArray[np.int64],
    sizes: npt.NDArray[np.int64],
    rows: Records,
) -> None:
    """Write the checksums of TCP packets at `places`, whose first `heads` bytes are not all zero."""
    for i in np.flatnonzero(rows["proto"] == layout.PROTOCOL_TCP).tolist():
        begin, end = int(places[i]), int(places[i] + heads[i])
        covered = arena[begin + _L4 : end].view(">u2").sum(dtype=np.int64)
        addresses = arena[begin + _L4 - 8 : begin + _L4].view(">u2").sum(dtype=np.int64)
        total = int(covered + addresses) + layout.PROTOCOL_TCP + int(sizes[i]) - _L4
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        at = begin + _L4 + _TCP_CHECKSUM
        total ^= 0xFFFF
        arena[at : at + 2] = total >> 8, total & 0xFF

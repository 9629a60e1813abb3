"""Adds made-up headers to payloads of a UDP socket, so that a capture file can hold them."""

from __future__ import annotations

import numpy as np

from ...wire.records import FRAME, FrameBatch, Link

_MAPPED = 0xFFFF
_MAX_V4, _MAX_V6 = 65_507, 65_527


def udp_frames(batch: FrameBatch) -> FrameBatch:
    """A copy of `batch` in which payloads (Link.UDP_PAYLOAD) have Ethernet, IP and UDP headers; others stay.

    The source address and both ports are the frame's; what a socket does not know is 0 (MAC addresses) or
    loopback (destination address). The IPv4 header checksum is right; the UDP
    checksum is 0, none, also over IPv6 (RFC 6935). A payload too long for UDP is cut as by a snap length.
    """
    frames = batch.frames
    out = frames.copy()
    payload = frames["link"] == Link.UDP_PAYLOAD
    v4 = payload & (frames["source_hi"] == 0) & (frames["source_lo"] >> np.uint64(32) == _MAPPED)
    header = np.where(payload, np.where(v4, 42, 62), 0).astype(np.uint32)
    most = np.where(v4, _MAX_V4, _MAX_V6)
    out["length"] = np.where(payload, np.minimum(frames["length"], most), frames["length"]) + header
    out["wire_length"] = np.maximum(frames["wire_length"] + header, out["length"])
    ends = np.cumsum(out["length"].astype(np.uint64))
    out["offset"] = ends - out["length"]
    arena = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    places = zip(
        frames["offset"].tolist(),
        out["offset"].tolist(),
        out["length"].tolist(),
        header.tolist(),
        strict=True,
    )
    for i, (start, at, length, skip) in enumerate(places):
        if skip:
            head = _v4(out[i], length - 14) if v4[i] else _v6(out[i], length - 14)
            arena[at : at + skip] = np.frombuffer(head, np.uint8)
        arena[at + skip : at + length] = batch.arena[start : start + length - skip]
    for name in ("source_hi", "source_lo", "source_port", "port"):
        out[name][payload] = 0
    out["link"][payload] = Link.ETHERNET
    assert out.dtype == FRAME
    return FrameBatch(arena, out, batch.first_packet)


def _v4(frame: np.void, length: int) -> bytes:
    source = int(frame["source_lo"]) & 0xFFFFFFFF
    words = [0x4500, length, 0, 0x4000, 0x4011, 0, source >> 16, source & 0xFFFF, 0x7F00, 0x0001]
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    words[5] = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    ip = b"".join(word.to_bytes(2, "big") for word in words)
    return bytes(12) + b"\x08\x00" + ip + _udp(frame, length - 20)


def _v6(frame: np.void, length: int) -> bytes:
    source = int(frame["source_hi"]) << 64 | int(frame["source_lo"])
    ip = b"\x60\0\0\0" + (length - 40).to_bytes(2, "big") + b"\x11\x40"
    ip += source.to_bytes(16, "big") + bytes(15) + b"\x01"
    return bytes(12) + b"\x86\xdd" + ip + _udp(frame, length - 40)


def _udp(frame: np.void, length: int) -> bytes:
    ports = int(frame["source_port"]).to_bytes(2, "big") + int(frame["port"]).to_bytes(2, "big")
    return ports + length.to_bytes(2, "big") + b"\0\0"

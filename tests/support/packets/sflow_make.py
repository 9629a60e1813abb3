"""sFlow 5 by hand: every structure is packed from the numbers of its specification (sflow_version_5.txt)."""

from __future__ import annotations

import ipaddress
import struct

AGENT = "192.0.2.7"


def datagram(*samples: bytes, agent: str = AGENT, sub_agent: int = 0, sequence: int = 1, uptime: int = 5000,
             count: int | None = None) -> bytes:  # fmt: skip
    """Version 5, an agent's address, and samples."""
    address = ipaddress.ip_address(agent)
    head = struct.pack(">II", 5, 1 if address.version == 4 else 2) + address.packed
    number = len(samples) if count is None else count
    return head + struct.pack(">IIII", sub_agent, sequence, uptime, number) + b"".join(samples)


def element(format_: int, body: bytes) -> bytes:
    """A sample, or a record of one: format, length, contents."""
    return struct.pack(">II", format_, len(body)) + body


def raw(header: bytes, *, length: int | None = None, protocol: int = 1) -> bytes:
    """A record with a sampled header (format 1); the frame check sequence is stripped."""
    frame = len(header) + 4 if length is None else length
    padding = bytes(-len(header) % 4)
    return element(1, struct.pack(">IIII", protocol, frame, 4, len(header)) + header + padding)


def number(format_: int, value: int) -> bytes:
    """A record that is one number: 1036 egress queue, 1039 transit delay (ns), 1040 queue depth (bytes)."""
    return element(format_, struct.pack(">I", value))


def flow(*records: bytes, sequence: int = 1, source: int = 3, rate: int = 100, pool: int = 1000,
         drops: int = 0, input_: int = 3, output: int = 4, count: int | None = None) -> bytes:  # fmt: skip
    """A flow sample (format 1)."""
    head = struct.pack(">IIIIIII", sequence, source, rate, pool, drops, input_, output)
    total = len(records) if count is None else count
    return element(1, head + struct.pack(">I", total) + b"".join(records))


def expanded_flow(*records: bytes, rate: int = 100, input_: int = 3, output: int = 4, output_format: int = 0,
                  source: int = 3, pool: int = 1000, drops: int = 0) -> bytes:  # fmt: skip
    """An expanded flow sample (format 3)."""
    head = struct.pack(
        ">IIIIIIIIIII", 1, 0, source, rate, pool, drops, 0, input_, output_format, output, len(records)
    )
    return element(3, head + b"".join(records))


def discard(*records: bytes, input_: int = 3, output: int = 4, reason: int = 259, drops: int = 0) -> bytes:
    """A discarded packet (format 5, sflow_drops.txt)."""
    head = struct.pack(">IIIIIIII", 1, 0, 3, drops, input_, output, reason, len(records))
    return element(5, head + b"".join(records))


def interface(index: int, out_octets: int, *, speed: int = 10**9, in_discards: int = 0,
              out_discards: int = 0) -> bytes:  # fmt: skip
    """A record of generic interface counters (format 1 of counters)."""
    return element(
        1,
        struct.pack(">IIQII", index, 6, speed, 1, 3)
        + struct.pack(">QIIIIII", 12345, 1, 2, 3, in_discards, 5, 6)
        + struct.pack(">QIIIIII", out_octets, 1, 2, 3, out_discards, 5, 0),
    )


def counters(*records: bytes, expanded: bool = False) -> bytes:
    """A counter sample (format 2 or 4)."""
    head = struct.pack(">III", 1, 0, 3) if expanded else struct.pack(">II", 1, 3)
    return element(4 if expanded else 2, head + struct.pack(">I", len(records)) + b"".join(records))

"""sFlow datagrams of a simulated agent."""

from __future__ import annotations

from collections.abc import Sequence

from . import layout


def encode_datagram(agent: int, sequence: int, uptime_ms: int, samples: Sequence[bytes]) -> bytes:
    """A datagram of an agent with an IPv4 address (a number of 32 bits)."""
    head = layout.DATAGRAM.pack({"version": layout.VERSION, "address_type": layout.ADDRESS_IPV4})
    rest = {"sequence": sequence, "uptime": uptime_ms & 0xFFFF_FFFF, "samples": len(samples)}
    return head + agent.to_bytes(4, "big") + layout.AGENT.pack(rest) + b"".join(samples)


def encode_flow_sample(
    header: bytes, frame_length: int, *, sequence: int, rate: int, pool: int, ports: tuple[int, int],
    queue: int, depth: int, delay_ns: int,
) -> bytes:  # fmt: skip
    """A flow sample with the first bytes of an Ethernet frame, its queue and that queue's depth (bytes), and
    its transit delay.
    """
    raw = {"protocol": layout.ETHERNET, "frame_length": frame_length, "stripped": 4, "length": len(header)}
    records = [_element(layout.RAW_PACKET, layout.RAW.pack(raw) + header + bytes(-len(header) % 4))]
    for format_, value in (
        (layout.EGRESS_QUEUE, queue), (layout.QUEUE_DEPTH, depth), (layout.TRANSIT_DELAY, delay_ns),
    ):  # fmt: skip
        records.append(_element(format_, value.to_bytes(4, "big")))
    values = {
        "sequence": sequence, "source": ports[1], "rate": rate, "pool": pool & 0xFFFF_FFFF, "input": ports[0],
        "output": ports[1], "records": len(records),
    }  # fmt: skip
    return _element(layout.FLOW_SAMPLE, layout.FLOW.pack(values) + b"".join(records))


def encode_counter_sample(sequence: int, port: int, speed: int, out_octets: int) -> bytes:
    """A counter sample of an interface, whose speed is in bit/s."""
    counters = {
        "index": port,
        "type": 6,
        "speed": speed,
        "direction": 1,
        "status": 3,
        "out_octets": out_octets,
    }
    record = _element(layout.INTERFACE, layout.IF_COUNTERS.pack(counters))
    values = {"sequence": sequence, "source": port, "records": 1}
    return _element(layout.COUNTER_SAMPLE, layout.COUNTERS.pack(values) + record)


def _element(format_: int, body: bytes) -> bytes:
    return layout.SAMPLE.pack({"format": format_, "length": len(body)}) + body

"""A simulated edge without INT: two switches with sFlow agents, and a router that exports IPFIX.

Every flow passes the first switch, the second, and the router. Now and then a queue of the second switch
fills up.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address

from ..wire import layout
from ..wire.ipfix.encode import encode_message, encode_records, encode_template
from ..wire.sflow.encode import encode_counter_sample, encode_datagram, encode_flow_sample

NAMES = ("edge-1", "edge-2", "border-1")
AGENTS = tuple(int(IPv4Address(text)) for text in ("192.0.2.1", "192.0.2.2"))
"""Addresses of the switches."""
DOMAIN = 1
IN, OUT, QUEUE = 1, 2, 3
"""Ports of each node, and the queue of every packet."""
RATE = 256
"""Packets per sampled packet."""
SPEED = 10_000_000_000
"""Rate of each port, bit/s."""
CALM_BYTES, FULL_BYTES = 4_000, 400_000
"""Depth of a queue, normally and while it is full."""
PERIOD, FULL_FROM, FULL_UNTIL = 10.0, 4.0, 5.0
"""In every period, the queue of the second switch is full from FULL_FROM to FULL_UNTIL, s."""
TICK = 0.5
"""Interval between the reports of a node, s."""
TEMPLATE_TICKS = 10
"""Number of ticks between transmissions of the template."""
_FLOWS, _FRAME = 20, 1000
_FIELDS = ((8, 4), (12, 4), (4, 1), (7, 2), (11, 2), (10, 4), (14, 4), (2, 8), (530, 4))
_TEMPLATE = 256


@dataclass(frozen=True, slots=True)
class Datagram:
    """A datagram to the listener of its kind, and the number of reports that a collector makes from it."""

    kind: str
    payload: bytes
    reports: int


class Edge:
    """The edge: `tick` returns what its nodes send in half a second."""

    def __init__(self, seed: int = 1, flows: int = _FLOWS) -> None:
        self._random = random.Random(seed)
        first = int(IPv4Address("198.51.100.1"))
        far = int(IPv4Address("203.0.113.9"))
        self._flows = [(first + n, far, 17, 5000 + n, 443) for n in range(flows)]
        self._ticks = self._records = 0

    def tick(self, time_s: int) -> Iterator[Datagram]:
        """The datagrams of the next half second; `time_s` is the export time, s since 1970."""
        seconds = self._ticks * TICK
        full = FULL_FROM <= seconds % PERIOD < FULL_UNTIL
        self._ticks += 1
        for node, agent in enumerate(AGENTS):
            yield self._samples(node, agent, full and node == 1)
        yield self._export(time_s)

    def _samples(self, node: int, agent: int, full: bool) -> Datagram:
        uptime = int(self._ticks * TICK * 1000)
        depth = FULL_BYTES if full else CALM_BYTES
        samples = [
            encode_flow_sample(
                _header(flow), _FRAME, sequence=self._ticks * len(self._flows) + n, rate=RATE,
                pool=(self._ticks * len(self._flows) + n) * RATE, ports=(IN, OUT), queue=QUEUE,
                depth=self._about(depth), delay_ns=self._about(1500 + depth),
            )
            for n, flow in enumerate(self._flows)
        ]  # fmt: skip
        share = 0.2 + 0.1 * node
        octets = int(self._ticks * TICK * SPEED / 8 * share)
        samples.append(encode_counter_sample(self._ticks, OUT, SPEED, octets))
        known = int(self._ticks > 1)  # utilisation needs two samples
        datagram = encode_datagram(agent, self._ticks, uptime, samples)
        return Datagram("sflow", datagram, len(self._flows) + known)

    def _export(self, time_s: int) -> Datagram:
        sets = [encode_template(_TEMPLATE, _FIELDS)] if self._ticks % TEMPLATE_TICKS == 1 else []
        rows = [(*flow, IN, OUT, self._about(RATE), self._about(80)) for flow in self._flows]
        sets.append(encode_records(_TEMPLATE, _FIELDS, rows))
        message = encode_message(DOMAIN, self._records, time_s, sets)
        self._records += len(rows)
        return Datagram("ipfix", message, len(rows))

    def _about(self, value: int) -> int:
        return self._random.randint(value * 9 // 10, value * 11 // 10)


def _header(flow: tuple[int, int, int, int, int]) -> bytes:
    """The first bytes of a packet: Ethernet, IPv4, UDP."""
    source, destination, protocol, sport, dport = flow
    size = _FRAME - layout.ETHERNET.size
    return (
        layout.ETHERNET.pack({"destination": 0x020000000002, "source": 0x020000000001, "type": 0x0800})
        + layout.IPV4.pack(
            {
                "version": 4, "header_words": 5, "total_length": size, "ttl": 60, "protocol": protocol,
                "source": source, "destination": destination,
            }
        )
        + layout.UDP.pack({"sport": sport, "dport": dport, "length": size - layout.IPV4.size})
    )  # fmt: skip

"""What tells a packet from others of its flow: a number that every node on its way computes alike."""

from __future__ import annotations

from hopscope.base.kernels.plain import mix64
from hopscope.wire.headers.ethernet import Ip

WORDS = 3
"""Words behind the ports that are looked at: sequence and acknowledgment of TCP, length and checksum of UDP,
and what follows.
"""


def packet_id(ip: Ip, raw: bytes, behind_ports: int | None, end: int) -> int:
    """32 bits, never 0: a mix of IPv4 identification or IPv6 flow label, of the IP length, and of up to 12
    bytes from `behind_ports` to `end`, in whole words.

    No node on the way changes these; TTL, DSCP, ECN and the IP checksum are left out.
    """
    mixed = mix64((ip.flow_label if ip.version == 6 else ip.identification) << 32 | ip.length)
    if behind_ports is not None:
        for at in range(behind_ports, min(behind_ports + 4 * WORDS, end - 3), 4):
            mixed = mix64(mixed ^ int.from_bytes(raw[at : at + 4], "big"))
    return mixed & 0xFFFFFFFF or 1

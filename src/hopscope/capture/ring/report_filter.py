"""Classic BPF programs for a ring of reports: they select its frames and choose the worker.

When they run, the kernel has taken off the outermost VLAN tag; the frame may have up to two more.
"""

from __future__ import annotations

from collections.abc import Callable

from ...wire.layout import ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPES_VLAN, NEXT_EXTENSIONS, NEXT_FRAGMENT
from ..bpf import (
    JEQ_K,
    JSET_K,
    LD_B_ABS,
    LD_H_ABS,
    LD_H_IND,
    LD_W_ABS,
    LDX_MSH,
    RET_K,
    Line,
    assemble,
    source_worker,
)

_TAGS_LEFT = 2
_PACKET_TYPE, _OTHER_HOST = 0xFFFF_F004, 3  # SKF_AD_OFF + SKF_AD_PKTTYPE; PACKET_OTHERHOST
_LINK = 0xFFE0_0000  # SKF_LL_OFF: offsets from the Ethernet header
_WHOLE = 0x40000
_UDP = 17
_DROP, _TAKE = (RET_K, 0, 0, 0), (RET_K, 0, 0, _WHOLE)


def reports_to(port: int, *, promiscuous: bool) -> bytes:
    """Program that accepts UDP datagrams to a port, over IPv4 or IPv6, and drops all else.

    It accepts the first fragment of a datagram, and IPv6 packets with extension headers, which only the
    decoder can read. Unless `promiscuous`, it drops frames that are addressed to other machines.
    """
    lines: list[Line] = []
    if not promiscuous:
        lines = [(LD_W_ABS, 0, 0, _PACKET_TYPE), (JEQ_K, 0, 1, _OTHER_HOST), _DROP]
    return assemble([*lines, *_by_tags(0, lambda at: _takes(at, port))])


def by_frame_source(workers: int) -> bytes:
    """Program that returns the worker of a frame: a hash of its source address, as of `bpf.by_source`."""
    return assemble(_by_tags(_LINK, lambda at: source_worker(at, workers)))


def _by_tags(link: int, block: Callable[[int], list[Line]]) -> list[Line]:
    """Instances of `block` for each possible offset of the IP header, by number of tags. A block gets the
    EtherType in the accumulator, and has to return.
    """
    lines = [_DROP]
    for tags in range(_TAGS_LEFT, -1, -1):
        found = block(link + 14 + 4 * tags)
        heads: list[Line] = [(LD_H_ABS, 0, 0, link + 12 + 4 * tags)]
        for number, tag in enumerate(ETHERTYPES_VLAN, 1):
            heads.append((JEQ_K, len(found) + len(ETHERTYPES_VLAN) - number, 0, tag))
        lines = [*heads, *found, *lines]
    return lines


def _takes(ip: int, port: int) -> list[Line]:
    """Return whether a packet is a datagram to the port; `ip`: offset of its IP header."""
    four: list[Line] = [
        (LD_B_ABS, 0, 0, ip + 9),
        (JEQ_K, 0, 5, _UDP),
        (LD_H_ABS, 0, 0, ip + 6),
        (JSET_K, 3, 0, 0x1FFF),  # a later fragment
        (LDX_MSH, 0, 0, ip),
        (LD_H_IND, 0, 0, ip + 2),
        (JEQ_K, 1, 0, port),
        _DROP,
        _TAKE,
    ]
    others = [*NEXT_EXTENSIONS, NEXT_FRAGMENT]
    six: list[Line] = [
        (LD_B_ABS, 0, 0, ip + 6),
        *((JEQ_K, len(others) - number + 4, 0, next_) for number, next_ in enumerate(others, 1)),
        (JEQ_K, 0, 2, _UDP),
        (LD_H_ABS, 0, 0, ip + 42),
        (JEQ_K, 1, 0, port),
        _DROP,
        _TAKE,
    ]
    return [
        (JEQ_K, 0, len(four), ETHERTYPE_IPV4),
        *four,
        (JEQ_K, 0, len(six), ETHERTYPE_IPV6),
        *six,
        _DROP,
    ]

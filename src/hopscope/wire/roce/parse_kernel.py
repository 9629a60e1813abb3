"""RoCEv2 frames to ROCE records, in batches, with the ICRC verified.

The plain twin is `codec`; `encode_kernel` is the inverse. Packets are those of UDP port 4791 over IPv4 or
IPv6: whole frames, or payloads from a socket, whose IP and UDP headers are known except for IPv4's
identification. All numbers are uint64, offsets are indices into the arena.
"""

import numpy as np

from ...base.kernels.jit import U64, be16, be32, be64, inlined, kernel
from .. import layout
from ..headers import packet_kernel
from ..reasons import RoceReason
from ..records import Link
from . import icrc_kernel as icrc
from . import layout as roce
from .records import RoceFlag, RoceSetup

NONE, TRUNCATED = U64(RoceReason.NONE), U64(RoceReason.TRUNCATED)
BAD_ICRC, UNKNOWN_OPCODE = U64(RoceReason.BAD_ICRC), U64(RoceReason.UNKNOWN_OPCODE)
BAD_LENGTH = U64(RoceReason.BAD_LENGTH)
UDP_PAYLOAD = U64(Link.UDP_PAYLOAD)
OWN_HI, OWN_LO, OWN_PORT = U64(RoceSetup.OWN_HI), U64(RoceSetup.OWN_LO), U64(RoceSetup.OWN_PORT)
LINK, ANY_IP_ID, ANY_ICRC = U64(RoceSetup.LINK), U64(RoceSetup.ANY_IP_ID), U64(RoceSetup.ANY_ICRC)
PORT, UDP = U64(roce.ROCE_PORT), U64(layout.PROTOCOL_UDP)
SIZE_UDP, SIZE_BTH, ICRC = U64(layout.UDP.size), U64(roce.BTH.size), U64(roce.ICRC_SIZE)
SIZE_RETH, SIZE_ATOMIC = U64(roce.RETH.size), U64(roce.ATOMIC_ETH.size)
SIZE_AETH, SIZE_ATOMIC_ACK = U64(roce.AETH.size), U64(roce.ATOMIC_ACK_ETH.size)
SIZE_DETH, SIZE_IMMEDIATE = U64(roce.DETH.size), U64(roce.IMMEDIATE.size)
HAS_RETH, HAS_ATOMIC = U64(roce.HAS_RETH), U64(roce.HAS_ATOMIC)
HAS_AETH, HAS_ATOMIC_ACK = U64(roce.HAS_AETH), U64(roce.HAS_ATOMIC_ACK)
HAS_DETH, HAS_IMMEDIATE = U64(roce.HAS_DETH), U64(roce.HAS_IMMEDIATE)
HAS_PAYLOAD = U64(roce.HAS_PAYLOAD)
HEADERS = np.array(roce.ROCE_HEADERS, np.uint8)

PAD, VERSION = packet_kernel.word(roce.BTH, "pad"), packet_kernel.word(roce.BTH, "version")
PARTITION = packet_kernel.word(roce.BTH, "partition")
FECN, BECN = packet_kernel.word(roce.BTH, "fecn"), packet_kernel.word(roce.BTH, "becn")
QUEUE_PAIR, PSN = packet_kernel.word(roce.BTH, "queue_pair"), packet_kernel.word(roce.BTH, "psn")
SOLICITED, MIGRATION = (
    packet_kernel.word(roce.BTH, "solicited"),
    packet_kernel.word(roce.BTH, "migration"),
)
ACK_REQUEST = packet_kernel.word(roce.BTH, "ack_request")
RETH_ADDRESS, RETH_KEY = packet_kernel.byte(roce.RETH, "address"), packet_kernel.byte(roce.RETH, "key")
RETH_LENGTH = packet_kernel.byte(roce.RETH, "length")
ATOMIC_ADDRESS, ATOMIC_KEY = (
    packet_kernel.byte(roce.ATOMIC_ETH, "address"),
    packet_kernel.byte(roce.ATOMIC_ETH, "key"),
)
ATOMIC_VALUE, ATOMIC_COMPARE = (
    packet_kernel.byte(roce.ATOMIC_ETH, "value"),
    packet_kernel.byte(roce.ATOMIC_ETH, "compare"),
)
SYNDROME, MESSAGE = packet_kernel.word(roce.AETH, "syndrome"), packet_kernel.word(roce.AETH, "message")
DETH_KEY, DETH_SOURCE = (
    packet_kernel.byte(roce.DETH, "queue_key"),
    packet_kernel.word(roce.DETH, "source_queue_pair"),
)


@kernel
def packet_ipv4(buf, at, end):
    """(reason, transport, its end with ICRC, CRC after the ports, source hi, lo and port) over IPv4."""
    start = at
    why, at, protocol, _dscp, length, part = packet_kernel.ipv4(buf, at, end, end, False)
    if why or part or protocol != UDP or start + length > end or at + SIZE_UDP > start + length:
        return TRUNCATED, at, at, icrc.ONES, NONE, NONE, NONE
    source, ports = be32(buf, start + packet_kernel.IPV4_SOURCE), be32(buf, at)
    udp_length = be16(buf, at + U64(4))
    if ports & U64(0xFFFF) != PORT or udp_length < SIZE_UDP or at + udp_length > start + length:
        return TRUNCATED, at, at, icrc.ONES, NONE, NONE, NONE
    state = icrc.step_be(icrc.ONES, be64(buf, start) | (U64(255) << U64(48)))
    state = icrc.step_be(state, be64(buf, start + U64(8)) | (U64(0xFF00FFFF) << U64(32)))
    i = start + U64(16)
    while i <= at:  # the destination, the options, the UDP ports
        state = icrc.over_4(state, be32(buf, i))
        i += U64(4)
    return NONE, at + SIZE_UDP, at + udp_length, state, NONE, packet_kernel.MAPPED | source, ports >> U64(16)


@kernel
def packet_ipv6(buf, at, end):
    """`packet_ipv4` for IPv6 without extension headers."""
    start = at
    at += U64(40)
    if at + SIZE_UDP > end or U64(buf[start]) >> U64(4) != U64(6):
        return TRUNCATED, at, at, icrc.ONES, NONE, NONE, NONE
    length, ports = packet_kernel.get(buf, start, packet_kernel.IPV6_LENGTH), be32(buf, at)
    udp_length = be16(buf, at + U64(4))
    if (
        packet_kernel.get(buf, start, packet_kernel.IPV6_NEXT) != UDP or at + length > end
        or ports & U64(0xFFFF) != PORT or udp_length < SIZE_UDP or udp_length > length
    ):  # fmt: skip
        return TRUNCATED, at, at, icrc.ONES, NONE, NONE, NONE
    source_hi, source_lo = (
        be64(buf, start + packet_kernel.IPV6_SOURCE),
        be64(buf, start + packet_kernel.IPV6_SOURCE + U64(8)),
    )
    hi, lo = (
        be64(buf, start + packet_kernel.IPV6_DESTINATION),
        be64(buf, start + packet_kernel.IPV6_DESTINATION + U64(8)),
    )
    state = icrc.ipv6_state(length, source_hi, source_lo, hi, lo, ports >> U64(16), PORT)
    return NONE, at + SIZE_UDP, at + udp_length, state, source_hi, source_lo, ports >> U64(16)


@kernel
def packet(buf, at, end, link):
    """`packet_ipv4` or `packet_ipv6` for a frame with a link header."""
    if link == packet_kernel.ETHERNET:
        why, at, type_, _tags, _vlan = packet_kernel.ethernet(buf, at, end, end)
    else:
        why, at, type_, _tags, _vlan = packet_kernel.other_link(buf, at, end, link)
    if why == NONE and type_ == packet_kernel.IPV4:
        return packet_ipv4(buf, at, end)
    if why == NONE and type_ == packet_kernel.IPV6:
        return packet_ipv6(buf, at, end)
    return TRUNCATED, at, at, icrc.ONES, NONE, NONE, NONE


@inlined
def is_mapped(hi, lo):
    """Whether an address is an IPv4 address."""
    return hi == NONE and lo >> U64(32) == packet_kernel.MAPPED >> U64(32)


@inlined
def ports_state(size, hi, lo, port, to_hi, to_lo):
    """The CRC after the UDP ports of a datagram of `size` bytes (with UDP header) whose IP header is that
    which Linux sends for a socket that does not fragment: identification 0, DF set.
    """
    if is_mapped(hi, lo):
        return icrc.ipv4_state(
            size + U64(20), NONE, U64(0x4000), lo & icrc.LOW_32, to_lo & icrc.LOW_32, port, PORT
        )
    return icrc.ipv6_state(size, hi, lo, to_hi, to_lo, port, PORT)


@inlined
def icrc_at(buf, at):
    """The ICRC in the byte order of a packet: least significant byte first."""
    return (
        U64(buf[at]) | (U64(buf[at + U64(1)]) << U64(8)) | (U64(buf[at + U64(2)]) << U64(16))
        | (U64(buf[at + U64(3)]) << U64(24))
    )  # fmt: skip


@kernel
def read_transport(buf, at, end, row):
    """Read the transport packet `buf[at:end]` (without ICRC, with a complete BTH) into `row`; returns the
    reject reason.
    """
    opcode = U64(buf[at])
    row.opcode = opcode
    flags = packet_kernel.get(buf, at, SOLICITED) * U64(RoceFlag.SOLICITED)
    flags |= packet_kernel.get(buf, at, MIGRATION) * U64(RoceFlag.MIGRATION)
    flags |= packet_kernel.get(buf, at, FECN) * U64(RoceFlag.FECN) | packet_kernel.get(buf, at, BECN) * U64(
        RoceFlag.BECN
    )
    flags |= packet_kernel.get(buf, at, ACK_REQUEST) * U64(RoceFlag.ACK_REQUEST)
    row.flags = flags
    row.partition = packet_kernel.get(buf, at, PARTITION)
    row.queue_pair = packet_kernel.get(buf, at, QUEUE_PAIR)
    row.psn = packet_kernel.get(buf, at, PSN)
    headers, pad = U64(HEADERS[opcode]), packet_kernel.get(buf, at, PAD)
    if headers == NONE or packet_kernel.get(buf, at, VERSION) != NONE:
        return UNKNOWN_OPCODE
    whole = (end - at) & U64(3) == NONE
    at += SIZE_BTH
    if headers & HAS_RETH:
        if at + SIZE_RETH > end:
            return TRUNCATED
        row.address = be64(buf, at + RETH_ADDRESS)
        row.key = be32(buf, at + RETH_KEY)
        row.length = be32(buf, at + RETH_LENGTH)
        at += SIZE_RETH
    if headers & HAS_ATOMIC:
        if at + SIZE_ATOMIC > end:
            return TRUNCATED
        row.address = be64(buf, at + ATOMIC_ADDRESS)
        row.key = be32(buf, at + ATOMIC_KEY)
        row.value = be64(buf, at + ATOMIC_VALUE)
        row.compare = be64(buf, at + ATOMIC_COMPARE)
        at += SIZE_ATOMIC
    if headers & HAS_AETH:
        if at + SIZE_AETH > end:
            return TRUNCATED
        row.syndrome = packet_kernel.get(buf, at, SYNDROME)
        row.message = packet_kernel.get(buf, at, MESSAGE)
        at += SIZE_AETH
    if headers & HAS_ATOMIC_ACK:
        if at + SIZE_ATOMIC_ACK > end:
            return TRUNCATED
        row.value = be64(buf, at)
        at += SIZE_ATOMIC_ACK
    if headers & HAS_DETH:
        if at + SIZE_DETH > end:
            return TRUNCATED
        row.queue_key = be32(buf, at + DETH_KEY)
        row.source_queue_pair = packet_kernel.get(buf, at, DETH_SOURCE)
        at += SIZE_DETH
    if headers & HAS_IMMEDIATE:
        if at + SIZE_IMMEDIATE > end:
            return TRUNCATED
        row.immediate = be32(buf, at)
        at += SIZE_IMMEDIATE
    if not whole or pad > end - at or (end > at and headers & HAS_PAYLOAD == NONE):
        return BAD_LENGTH
    row.payload_at = at
    row.payload_bytes = end - at - pad
    return NONE


@inlined
def clear(row):
    """Set every field to 0."""
    row.address, row.value, row.compare = NONE, NONE, NONE
    row.source_hi, row.source_lo, row.source_port = NONE, NONE, NONE
    row.key, row.length, row.queue_pair, row.source_queue_pair = NONE, NONE, NONE, NONE
    row.queue_key, row.psn, row.message, row.immediate = NONE, NONE, NONE, NONE
    row.payload_at, row.payload_bytes, row.partition = NONE, NONE, NONE
    row.opcode, row.syndrome, row.flags = NONE, NONE, NONE


@kernel
def parse(frames, buf, setup, out):
    """Read every frame into its row of `out`; `reason` of the row (RoceReason) says whether it was rejected.

    `frames` FRAME [n], `buf` uint8 [bytes], `setup` uint64 [8] (RoceSetup), `out` ROCE [n]. A rejected row
    has the values read before the error; it must not be acted upon.
    """
    for i in range(len(frames)):
        frame, row = frames[i], out[i]
        at, end, link = U64(frame.offset), U64(frame.offset) + U64(frame.length), U64(frame.link)
        clear(row)
        if end > U64(len(buf)):
            row.reason = TRUNCATED
            continue
        solve = False
        if link == UDP_PAYLOAD:
            hi, lo, port = U64(frame.source_hi), U64(frame.source_lo), U64(frame.source_port)
            state = ports_state(end - at + SIZE_UDP, hi, lo, port, setup[OWN_HI], setup[OWN_LO])
            solve = setup[ANY_IP_ID] != NONE and is_mapped(hi, lo)
            why = NONE
        else:
            why, at, end, state, hi, lo, port = packet(buf, at, end, link)
        row.source_hi, row.source_lo, row.source_port = hi, lo, port
        if why or at + SIZE_BTH + ICRC > end:
            row.reason = TRUNCATED
            continue
        udp_length = end - at + SIZE_UDP
        end -= ICRC
        wrong = icrc.transport_state(state, udp_length, buf, at, end) ^ icrc_at(buf, end)
        # after the identification and the flags: the rest of IP, UDP, and the packet
        if (
            wrong
            and not setup[ANY_ICRC]
            and not (solve and icrc.differs_in_identification(wrong, end - at + U64(20)))
        ):
            why = read_transport(buf, at, end, row)
            row.reason = BAD_ICRC
            continue
        row.reason = read_transport(buf, at, end, row)

"""The packet that most reports hold: IPv4 without options or fragments, UDP or TCP, and INT-MD 2.x.

`read_usual` takes a packet only if all checks of `inner_kernel.plain` pass, reads each word once, and writes
the row at the end; everything else, damage included, is left to `plain`.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be16, be32, inlined
from .. import layout, rules
from ..headers import packet_kernel as packet
from ..headers.packet_kernel import NONE, get
from ..headers.tunnel_kernel import FOUR, FRAME, TUNNEL_ROLES, UDP_ROLE
from ..records import Carried
from ..telemetry import int_kernel as int_2
from ..telemetry import metadata_kernel as metadata
from ..telemetry import stack_kernel as stacks
from ..telemetry import variant_kernel as variant

OTHER_FORM = U64(1 << 32)
"""Not a number of hops."""
INT_DSCP, ROLE_INT, UNMARKED = U64(rules.INT_DSCP), U64(rules.ROLE_INT), U64(rules.UNMARKED)
NO_USUAL_ROLE = TUNNEL_ROLES | int_2.ROLE_INSERTED
FLOW_AND_PORTS = U64(Carried.FLOW | Carried.PORTS)
PLAIN_IPV4, VERSION_2 = U64(0x45), U64(2)
SIZE_UDP, SIZE_TCP, SIZE_SHIM, SIZE_MD = U64(8), U64(20), U64(4), U64(layout.MD_2_0.size)


@inlined
def read_usual(
    buf: Any, origin: Any, begin: Any, end: Any, type_: Any, row: Any, table: Any, plans: Any, hops: Any,
    first: Any,
) -> Any:  # fmt: skip
    """Returns how many hops were written from `first`; OTHER_FORM: nothing was, `plain` is to read it."""
    ip = begin
    if type_ == FRAME:
        ip += packet.SIZE_ETHERNET
    elif type_ != FOUR:
        return OTHER_FORM
    l4 = ip + packet.SIZE_IPV4
    if (
        l4 + SIZE_UDP > end
        or (type_ == FRAME and be16(buf, begin + packet.ETHERNET_TYPE) != packet.IPV4)
        or U64(buf[ip]) != PLAIN_IPV4
        or get(buf, ip, packet.IPV4_FRAGMENT) | get(buf, ip, packet.IPV4_MORE)
        or table[UNMARKED]
    ):
        return OTHER_FORM
    protocol, carrier, shim = get(buf, ip, packet.IPV4_PROTOCOL), variant.OVER_UDP, l4 + SIZE_UDP
    limit = min(end, ip + get(buf, ip, packet.IPV4_LENGTH))
    announced = U64(table[INT_DSCP + get(buf, ip, packet.IPV4_DSCP)])
    if protocol == variant.UDP:
        role = U64(table[UDP_ROLE + be16(buf, l4 + U64(2))])
        if role & NO_USUAL_ROLE:
            return OTHER_FORM
        announced |= role & ROLE_INT
    else:
        if protocol != variant.TCP or l4 + SIZE_TCP > limit or table[int_2.FIXED_TCP]:
            return OTHER_FORM
        carrier = variant.OVER_TCP
        shim = l4 + (get(buf, l4, int_2.TCP_WORDS) << U64(2))
        if shim < l4 + SIZE_TCP:
            return OTHER_FORM
    at = shim + SIZE_SHIM
    stack = at + SIZE_MD
    if (
        announced == NONE
        or stack > limit
        or table[variant.SHIM_RULE + U64(buf[shim])] != int_2.FAST
        or get(buf, shim, variant.NPT)
        or U64(buf[at]) >> U64(4) != VERSION_2
        or table[int_2.MD_CHANGED]
    ):
        return OTHER_FORM
    instructions, hop_words = get(buf, at, variant.INSTRUCTIONS), get(buf, at, variant.HOP_WORDS)
    if table[variant.SWAPPED]:
        instructions = variant.meaning(instructions, table)
    base = metadata.plan(plans, table, U64(metadata.INT_2_0), instructions, hop_words)
    words = get(buf, shim, variant.NEW_LENGTH)
    left = words - U64(3)
    count = (left * plans[base + U64(metadata.INVERSE)]) >> U64(16)
    if (
        words < U64(3)
        or hop_words != plans[base + U64(metadata.WORDS)]
        or plans[base + U64(metadata.PRESENT)] == NONE
        or count * hop_words != left
        or count > variant.HOPS_MAX
        or stack + (left << U64(2)) > limit
    ):
        return OTHER_FORM
    row.instructions = instructions
    row.hop_words = hop_words
    row.proto = protocol
    row.carrier = carrier
    row.int_at = at - origin
    row.src_lo = packet.MAPPED | be32(buf, ip + packet.IPV4_SOURCE)
    row.dst_lo = packet.MAPPED | be32(buf, ip + packet.IPV4_DESTINATION)
    row.inner_length = get(buf, ip, packet.IPV4_LENGTH)
    row.ttl = buf[ip + packet.IPV4_TTL]
    row.sport = be16(buf, l4)
    row.dport = be16(buf, l4 + U64(2))
    row.carried = U64(row.carried) | FLOW_AND_PORTS
    row.ip_version = U64(4)
    row.int_version = U64(20)
    row.int_mode = U64(1)
    row.remaining_hops = get(buf, at, variant.REMAINING)
    row.int_flags = (
        get(buf, at, int_2.E_2) * variant.EXCEEDED
        | get(buf, at, int_2.M_2) * variant.MTU
        | get(buf, at, int_2.D_2) * variant.DISCARD
    )
    row.domain_id = get(buf, at, int_2.DOMAIN)
    row.ds_instruction = get(buf, at, int_2.DS_INSTRUCTION)
    row.ds_flags = get(buf, at, int_2.DS_FLAGS)
    size = hop_words << U64(2)
    if plans[base + U64(metadata.ODD)]:
        stacks.read_moved_stack(buf, stack, size, count, plans, base, table, hops, first)
    else:
        stacks.read_stack(buf, stack, size, count, plans, base, True, hops, first)
    return count

"""The packet in most reports: IPv4 or IPv6 without options or fragments, UDP or TCP, and INT-MD.

`read_usual` takes a packet only if all checks of `inner_kernel.plain` pass, reads each word once, and writes
the row at the end; all other packets, including damaged ones, are left to `plain`. `usual_packet_kernel`
also uses `read_after_ip`, for captured packets.
"""

from ...base.kernels.jit import U64, be16, be32, be64, inlined, kernel
from .. import layout, rules
from ..headers import packet_kernel as packet
from ..headers.packet_kernel import NONE, get
from ..headers.tunnel_kernel import FOUR, FRAME, SIX, TUNNEL_ROLES, UDP_ROLE
from ..records import Carried
from ..telemetry import int_kernel as int_2
from ..telemetry import metadata_kernel as metadata
from ..telemetry import stack_kernel as stacks
from ..telemetry import variant_kernel as variant
from . import walk_kernel

OTHER_FORM, WITHOUT_INT = U64(1 << 32), U64(1 << 33)
"""Results other than a number of hops."""
UNMARKED, TCP_PORTS = U64(rules.UNMARKED), U64(rules.TCP_PORTS)
NO_USUAL_ROLE = TUNNEL_ROLES | int_2.ROLE_INSERTED
NO_USUAL_CAPTURED = TUNNEL_ROLES | U64(rules.ROLE_REPORT)
LOW_SOURCE, LOW_DESTINATION = packet.IPV6_SOURCE + U64(8), packet.IPV6_DESTINATION + U64(8)
FLOW_AND_PORTS = U64(Carried.FLOW | Carried.PORTS)
PLAIN_IPV4, IPV6_NIBBLE = U64(0x45), U64(6)
VERSION_2, OLD_MD = U64(2), variant.OLD_SHIM | walk_kernel.MD
SIZE_UDP, SIZE_TCP, SIZE_SHIM, SIZE_TAIL = U64(8), U64(20), U64(4), U64(4)
SIZE_2_0, SIZE_OLD, FIXED_WORDS = U64(layout.MD_2_0.size), U64(layout.MD_1_0.size), U64(3)
"""Bytes of headers; words in a shim's length that do not belong to the stack."""


@inlined
def read_usual(buf, origin, begin, end, type_, row, table, plans, hops, first):
    """Read a packet; returns how many hops were written from `first`; OTHER_FORM: `plain` must read it."""
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
    ):
        return OTHER_FORM
    limit = min(end, ip + get(buf, ip, packet.IPV4_LENGTH))
    return read_after_ip(
        buf, origin, ip, l4, end, limit, get(buf, ip, packet.IPV4_PROTOCOL), get(buf, ip, packet.IPV4_DSCP),
        False, False, True, row, table, plans, hops, first,
    )  # fmt: skip


@inlined
def read_usual_six(buf, origin, begin, end, type_, row, table, plans, hops, first):
    """`read_usual` for IPv6 without extension headers."""
    ip = begin
    if type_ == FRAME:
        ip += packet.SIZE_ETHERNET
    elif type_ != SIX:
        return OTHER_FORM
    l4 = ip + packet.SIZE_IPV6
    if (
        l4 + SIZE_UDP > end
        or (type_ == FRAME and be16(buf, begin + packet.ETHERNET_TYPE) != packet.IPV6)
        or U64(buf[ip]) >> U64(4) != IPV6_NIBBLE
    ):
        return OTHER_FORM
    limit = min(end, l4 + get(buf, ip, packet.IPV6_LENGTH))
    return read_after_ip(
        buf, origin, ip, l4, end, limit, get(buf, ip, packet.IPV6_NEXT), get(buf, ip, packet.IPV6_DSCP),
        True, False, True, row, table, plans, hops, first,
    )  # fmt: skip


@kernel
def read_six(buf, origin, begin, end, type_, row, table, plans, hops, first):
    """`read_usual_six`, but not inlined."""
    return read_usual_six(buf, origin, begin, end, type_, row, table, plans, hops, first)


@inlined
def read_after_ip(
    buf, origin, ip, l4, end, limit, protocol, dscp, six, captured, old, row, table, plans, hops, first
):
    """`read_usual` from the TCP or UDP header at `l4` on, which has at least eight bytes; `six`: the packet
    is IPv6.

    `captured`, a constant: the packet was captured. Then INT may have replaced the port (NPT 1) or added the
    UDP header (NPT 2); a packet that announces no INT is WITHOUT_INT; and only INT older than 2.0 is read (if
    `old`, a constant), or only INT 2.0 and later.
    """
    carrier, shim, role = variant.OVER_UDP, l4 + SIZE_UDP, NONE
    announced = table[walk_kernel.INT_DSCP + dscp] != 0
    if protocol == variant.UDP:
        role = U64(table[UDP_ROLE + be16(buf, l4 + U64(2))])
        if role & (NO_USUAL_CAPTURED if captured else NO_USUAL_ROLE):
            return OTHER_FORM
        announced = announced or role & walk_kernel.ROLES_OF_INT != NONE
    else:
        if protocol != variant.TCP or l4 + SIZE_TCP > limit:
            return OTHER_FORM
        carrier = variant.OVER_TCP
        shim = l4 + (get(buf, l4, int_2.TCP_WORDS) << U64(2))
        if shim < l4 + SIZE_TCP or shim > limit:
            return OTHER_FORM
        if table[int_2.FIXED_TCP]:
            shim = l4 + SIZE_TCP
        if table[TCP_PORTS]:
            announced = announced or walk_kernel.names_int(protocol, be16(buf, l4 + U64(2)), table)
    if table[UNMARKED]:
        announced = announced or walk_kernel.is_assumed(row, table)
        if table[walk_kernel.MARKER]:
            announced = walk_kernel.is_int(buf, l4, end, limit, protocol, announced, row, table)
            shim = walk_kernel.after_marker(buf, shim, limit, table)
    if captured and not announced:
        return WITHOUT_INT
    at = shim + SIZE_SHIM
    if not announced or at + SIZE_OLD > limit:
        return OTHER_FORM
    rule = U64(table[variant.SHIM_RULE + U64(buf[shim])])
    if rule == OLD_MD:
        if captured and (not old or role & int_2.ROLE_INSERTED):
            return OTHER_FORM
        return read_old(
            buf, origin, ip, l4, limit, protocol, carrier, six, shim, row, table, plans, hops, first
        )
    if captured and old:
        return OTHER_FORM
    stack, npt = at + SIZE_2_0, get(buf, shim, variant.NPT)
    if (
        rule != int_2.FAST
        or stack > limit
        or npt > (U64(2) if captured else NONE)
        or U64(buf[at]) >> U64(4) != VERSION_2
    ):
        return OTHER_FORM
    instructions, hop_words = get(buf, at, variant.INSTRUCTIONS), get(buf, at, variant.HOP_WORDS)
    if table[variant.SWAPPED]:
        instructions = variant.meaning(instructions, table)
    base = metadata.plan(plans, table, U64(metadata.INT_2_0), instructions, hop_words)
    words = get(buf, shim, variant.NEW_LENGTH)
    count = hops_of(words, hop_words, limit - stack, plans, base)
    if count == OTHER_FORM:
        return OTHER_FORM
    size = hop_words << U64(2)
    own, ports, dport = protocol, l4, be16(buf, l4 + U64(2))
    if captured and role & int_2.ROLE_INSERTED and npt != U64(1):
        if npt == NONE:
            return OTHER_FORM
        carrier = variant.OVER_INSERTED
    if captured and npt:
        original = be16(buf, shim + U64(2)) >> U64(table[variant.NPT_SHIFTS + npt])
        if npt == U64(1):
            dport = original
        else:
            own, ports = original & U64(0xFF), stack + count * size
            if ports + U64(4) > limit or (own != variant.UDP and own != variant.TCP):
                return OTHER_FORM
            dport = be16(buf, ports + U64(2))
        if own == variant.UDP and U64(table[UDP_ROLE + dport]) & TUNNEL_ROLES:
            return OTHER_FORM  # a tunnel follows
        row.npt = npt
    put_packet(buf, origin, ip, ports, at, own, carrier, instructions, hop_words, dport, six, row)
    row.int_version = U64(20)
    row.remaining_hops = get(buf, at, variant.REMAINING)
    if table[int_2.MD_CHANGED]:
        row.domain_id, row.ds_instruction, row.ds_flags, row.int_flags = variant.changed_header(
            buf, at, table
        )
    else:
        row.int_flags = (
            get(buf, at, int_2.E_2) * variant.EXCEEDED
            | get(buf, at, int_2.M_2) * variant.MTU
            | get(buf, at, int_2.D_2) * variant.DISCARD
        )
        row.domain_id = get(buf, at, int_2.DOMAIN)
        row.ds_instruction = get(buf, at, int_2.DS_INSTRUCTION)
        row.ds_flags = get(buf, at, int_2.DS_FLAGS)
    stacks.read_stack(buf, stack, size, count, plans, base, True, table, hops, first)
    return count


@inlined
def read_old(buf, origin, ip, l4, limit, protocol, carrier, six, shim, row, table, plans, hops, first):
    """`read_after_ip` for INT-MD before 2.0, with its shim at `shim`; shim and header end before `limit`."""
    at = shim + SIZE_SHIM
    stack = at + SIZE_OLD
    version = variant.int_version(buf, at, True, carrier, U64(row.version), table)
    if version == NONE or version > U64(10):
        return OTHER_FORM
    counts = version <= U64(5)
    tail = U64(version == U64(4) or version == U64(5))
    instructions = get(buf, at, variant.INSTRUCTIONS)
    if table[variant.SWAPPED]:
        instructions = variant.meaning(instructions, table)
    hop_words = get(buf, at, variant.HOP_WORDS_0) if counts else get(buf, at, variant.HOP_WORDS)
    base = metadata.plan(plans, table, variant.kind_of(version), instructions, hop_words)
    if counts and hop_words == plans[base + U64(metadata.COUNT)]:
        hop_words = plans[base + U64(metadata.WORDS)]
    words = get(buf, shim, variant.OLD_LENGTH)
    count = hops_of(words - min(words, tail), hop_words, limit - stack, plans, base)
    size = hop_words << U64(2)
    behind = stack + count * size
    if (
        count == OTHER_FORM
        or (counts and count != get(buf, at, variant.TOTAL_0))
        or (tail and behind + SIZE_TAIL > limit)
        or (version == U64(1) and stacks.misplaced_bottom(buf, stack, behind) != behind)
    ):
        return OTHER_FORM
    dport = be16(buf, l4 + U64(2))
    put_packet(buf, origin, ip, l4, at, protocol, carrier, instructions, hop_words, dport, six, row)
    variant.set_header(buf, at, version, walk_kernel.MD, table, row)
    if tail and get(buf, behind, variant.TAIL_PROTOCOL) == protocol:
        dport = get(buf, behind, variant.TAIL_PORT)
        if dport != U64(row.dport):
            row.dport = dport
            if walk_kernel.leads_on(row, table):
                return OTHER_FORM
    stacks.read_stack(buf, stack, size, count, plans, base, False, table, hops, first)
    return count


@inlined
def hops_of(words, hop_words, room, plans, base):
    """Hops of a stack with a shim of this length, in `room` bytes; OTHER_FORM: not a usual stack."""
    left = words - FIXED_WORDS
    count = (left * plans[base + U64(metadata.INVERSE)]) >> U64(16)
    if (
        words < FIXED_WORDS
        or hop_words != plans[base + U64(metadata.WORDS)]
        or plans[base + U64(metadata.PRESENT)] == NONE
        or count * hop_words != left
        or count > variant.HOPS_MAX
        or (left << U64(2)) > room
    ):
        return OTHER_FORM
    return count


@inlined
def put_packet(buf, origin, ip, ports, at, protocol, carrier, instructions, hop_words, dport, six, row):
    """Write the values of the headers into the row; `at`: offset of the INT header, `ports`: of the source
    port.
    """
    row.instructions = instructions
    row.hop_words = hop_words
    row.proto = protocol
    row.carrier = carrier
    row.int_at = at - origin
    if six:
        row.src_hi, row.src_lo = be64(buf, ip + packet.IPV6_SOURCE), be64(buf, ip + LOW_SOURCE)
        row.dst_hi, row.dst_lo = be64(buf, ip + packet.IPV6_DESTINATION), be64(buf, ip + LOW_DESTINATION)
        row.inner_length = get(buf, ip, packet.IPV6_LENGTH) + packet.SIZE_IPV6
        row.ttl = buf[ip + packet.IPV6_TTL]
        row.ip_version = U64(6)
    else:
        row.src_lo = packet.MAPPED | be32(buf, ip + packet.IPV4_SOURCE)
        row.dst_lo = packet.MAPPED | be32(buf, ip + packet.IPV4_DESTINATION)
        row.inner_length = get(buf, ip, packet.IPV4_LENGTH)
        row.ttl = buf[ip + packet.IPV4_TTL]
        row.ip_version = U64(4)
    row.sport = be16(buf, ports)
    row.dport = dport
    row.carried = U64(row.carried) | FLOW_AND_PORTS
    row.int_mode = walk_kernel.MD

"""INT in an inner packet, for the batch decoder: the specification's INT-MD 2.x over TCP and UDP; every
other form is in `form_kernel`. The checks are those of int_header.py, in the same order.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, inlined
from .. import layout, rules
from ..headers.packet_kernel import NONE, code, get, lacks, word
from ..reasons import Place, Reason
from ..records import Mode
from .metadata_kernel import INT_2_0, ODD, WORDS, plan
from .variant_kernel import (
    BAD_HOP_SIZE,
    BAD_SHIM_LENGTH,
    BAD_STACK,
    DISCARD,
    EXCEEDED,
    HEADER,
    HOP_WORDS,
    INSTRUCTIONS,
    L4,
    MOST_HOPS,
    MTU,
    NEW_LENGTH,
    NPT,
    OLD_SHIM,
    OVER_INSERTED,
    OVER_UDP,
    REMAINING,
    SHIM,
    SHIM_RULE,
    STACK,
    TCP,
    TOO_MANY_HOPS,
    read_any,
    read_last_word,
    read_odd_stack,
    read_stack,
    restore_2_0,
)

BAD_TCP = code(Reason.BAD_LENGTH, Place.INNER_L4)
QUICK = U64(Mode.MD | 64)
"""The rule of a shim (`rules.SHIM`) that has the quick lane."""
FIXED_TCP, ROLE_INSERTED = U64(rules.FIXED_TCP), U64(rules.ROLE_INSERTED)
assert rules.SHIM == SHIM_RULE

TCP_WORDS = word(layout.TCP, "header_words")
DOMAIN = word(layout.MD_2_0, "domain_id")
DS_INSTRUCTION = word(layout.MD_2_0, "ds_instruction")
DS_FLAGS = word(layout.MD_2_0, "ds_flags")
E_2, M_2, D_2 = (word(layout.MD_2_0, name) for name in ("hops_exceeded", "mtu_exceeded", "discard"))


@inlined
def find_shim(buf: Any, at: Any, end: Any, limit: Any, protocol: Any, table: Any) -> Any:
    """(code, offset) of what is behind the TCP or UDP header at `at`."""
    size = U64(8)
    if protocol == TCP:
        size = U64(20)
    why = lacks(at, size, end, limit)
    if why:
        return why | L4, at
    if protocol == TCP:
        size = get(buf, at, TCP_WORDS) << U64(2)
        if size < U64(20):
            return BAD_TCP, at
        if table[FIXED_TCP]:  # INT is in front of its options
            size = U64(20)
        why = lacks(at, size, end, limit)
        if why:
            return why | L4, at
    return NONE, at + size


@inlined
def udp_carrier(buf: Any, shim: Any, limit: Any, role: Any, table: Any) -> Any:
    """Whether the UDP header in front of a shim was inserted with INT; `role` is that of its port."""
    if not role & ROLE_INSERTED:
        return OVER_UDP
    if shim < limit:
        first = U64(buf[shim])
        if (first >> U64(2)) & U64(3) == U64(1) and not table[SHIM_RULE + first] & OLD_SHIM:
            return OVER_UDP
    return OVER_INSERTED


@inlined
def read_int(
    buf: Any,
    origin: Any,
    shim: Any,
    end: Any,
    limit: Any,
    protocol: Any,
    carrier: Any,
    row: Any,
    table: Any,
    plans: Any,
    hops: Any,
    first: Any,
) -> Any:
    """(code, offset, hops) of the INT with its shim at `shim`, carried by `carrier` (`records.Carrier`) in a
    packet of IP protocol `protocol`; hops go to rows from `first` in path order.

    The offset is where a refused header begins, else what follows INT begins.  The row gets what shim and
    header say, and over TCP and UDP the packet's own port and protocol, from the tail of 0.5 or by the NPT.
    """
    why = lacks(shim, U64(4), end, limit)
    if why:
        return why | SHIM, shim, NONE
    at = shim + U64(4)
    quick = table[SHIM_RULE + U64(buf[shim])] == QUICK and (carrier <= OVER_UDP or carrier == OVER_INSERTED)
    if not quick or (at < limit and U64(buf[at]) >> U64(4) != U64(2)):
        return read_any(buf, origin, shim, end, limit, protocol, carrier, row, table, plans, hops, first)
    why = lacks(at, U64(12), end, limit)
    if why:
        return why | HEADER, at, NONE
    length = get(buf, shim, NEW_LENGTH)
    if length < U64(3):
        return BAD_SHIM_LENGTH, shim, NONE
    instructions = get(buf, at, INSTRUCTIONS)
    hop_words = get(buf, at, HOP_WORDS)
    base = plan(plans, table, U64(INT_2_0), instructions, hop_words)
    words = plans[base + U64(WORDS)]
    ds_instruction = get(buf, at, DS_INSTRUCTION)
    domain = ds_instruction != NONE and hop_words > words
    if hop_words == NONE or (hop_words != words and not domain):
        return BAD_HOP_SIZE, at, NONE
    npt = get(buf, shim, NPT)
    row.int_version = U64(20)
    row.int_mode = U64(1)
    row.int_at = at - origin
    row.carrier = carrier
    row.npt = npt
    row.instructions = instructions
    row.hop_words = hop_words
    row.remaining_hops = get(buf, at, REMAINING)
    row.int_flags = get(buf, at, E_2) * EXCEEDED | get(buf, at, M_2) * MTU | get(buf, at, D_2) * DISCARD
    row.domain_id = get(buf, at, DOMAIN)
    row.ds_instruction = ds_instruction
    ds_flags = get(buf, at, DS_FLAGS)
    row.ds_flags = ds_flags
    stack = at + U64(12)
    left = length - U64(3)
    count = U64(left // hop_words)
    rest = left - count * hop_words
    if rest != NONE and ds_instruction == NONE and ds_flags == NONE:
        return BAD_STACK, stack, NONE
    behind = stack + (left << U64(2))
    why = lacks(stack, behind - stack, end, limit)
    if why:
        return why | STACK, stack, NONE
    if count > MOST_HOPS:
        return TOO_MANY_HOPS, stack, NONE
    if npt:
        why, where = restore_2_0(buf, shim, behind, end, limit, carrier, table, row)
        if why:
            return why, where, NONE
    size = hop_words << U64(2)
    if plans[base + U64(ODD)]:
        read_odd_stack(buf, stack, size, count, plans, base, table, False, hops, first)
    else:
        read_stack(buf, stack, size, count, plans, base, True, hops, first)
    if rest:
        read_last_word(buf, behind - U64(4), plans, base, count, hops, first)
    return NONE, behind, count

"""INT in an inner packet, for the batch decoder: the checks of int_header.py, in the same order."""

from __future__ import annotations

from typing import Any

from ..jit import U64, be16, be32, inlined, kernel
from . import layout
from .metadata_kernel import CHECKSUM, INT_0_5, INT_1_0, INT_2_0, ONES_32, PRESENT, WORDS, plan, read_hop
from .packet_kernel import NONE, code, get, lacks, word
from .reasons import Place, Reason
from .records import MAX_HOPS, Carried, IntFlag

TCP, UDP = U64(layout.PROTOCOL_TCP), U64(layout.PROTOCOL_UDP)
SHIM, HEADER = U64(Place.INT_SHIM), U64(Place.INT_HEADER)
STACK, TAIL, L4 = U64(Place.INT_STACK), U64(Place.INT_TAIL), U64(Place.INNER_L4)
BAD_TCP = code(Reason.BAD_LENGTH, Place.INNER_L4)
UNKNOWN_SHIM = code(Reason.UNKNOWN_TYPE, Place.INT_SHIM)
UNSUPPORTED_SHIM = code(Reason.UNSUPPORTED, Place.INT_SHIM)
BAD_SHIM_LENGTH = code(Reason.BAD_LENGTH, Place.INT_SHIM)
UNKNOWN_HEADER = code(Reason.UNKNOWN_VERSION, Place.INT_HEADER)
BAD_HOP_SIZE = code(Reason.BAD_HOP_SIZE, Place.INT_HEADER)
BAD_STACK = code(Reason.BAD_LENGTH, Place.INT_STACK)
TOO_MANY_HOPS = code(Reason.TOO_MANY_HOPS, Place.INT_STACK)
MOST_HOPS = U64(MAX_HOPS)

TCP_WORDS = word(layout.TCP, "header_words")
OLD_LENGTH = word(layout.SHIM_OLD, "length")
NEW_LENGTH = word(layout.SHIM_2_0, "length")
NPT = word(layout.SHIM_2_0, "next_protocol_type")
ORIGINAL = word(layout.SHIM_2_0, "original")
INSTRUCTIONS = word(layout.MD_2_0, "instructions")  # at the same place in every version
HOP_WORDS = word(layout.MD_2_0, "hop_words")
REMAINING = word(layout.MD_2_0, "remaining_hops")
DOMAIN = word(layout.MD_2_0, "domain_id")
DS_INSTRUCTION = word(layout.MD_2_0, "ds_instruction")
DS_FLAGS = word(layout.MD_2_0, "ds_flags")
E_2, M_2, D_2 = (word(layout.MD_2_0, name) for name in ("hops_exceeded", "mtu_exceeded", "discard"))
E_1, M_1, C_1 = (word(layout.MD_1_0, name) for name in ("hops_exceeded", "mtu_exceeded", "copy"))
E_0, C_0 = word(layout.MD_0_5, "hops_exceeded"), word(layout.MD_0_5, "copy")
MOST_0, TOTAL_0 = word(layout.MD_0_5, "max_hops"), word(layout.MD_0_5, "total_hops")
TAIL_PROTOCOL, TAIL_PORT = word(layout.TAIL_0_5, "protocol"), word(layout.TAIL_0_5, "dport")
EXCEEDED, MTU = U64(IntFlag.HOPS_EXCEEDED), U64(IntFlag.MTU_EXCEEDED)
DISCARD, COPY = U64(IntFlag.DISCARD), U64(IntFlag.COPY)
NO_PORTS = U64(0xFF & ~Carried.PORTS)

for _header in (layout.MD_0_5, layout.MD_1_0):
    assert _header.word("instructions") == layout.MD_2_0.word("instructions")
    assert _header.word("hop_words")[0] == layout.MD_2_0.word("hop_words")[0] == 0
assert layout.MD_1_0.word("hop_words") == layout.MD_2_0.word("hop_words")
assert layout.MD_1_0.word("remaining_hops") == layout.MD_2_0.word("remaining_hops")
HOP_WORDS_0 = word(layout.MD_0_5, "hop_words")


@inlined
def find_shim(buf: Any, at: Any, end: Any, limit: Any, protocol: Any) -> Any:
    """(code, offset) of the shim behind the TCP or UDP header at `at`, which may be no shim."""
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
        why = lacks(at, size, end, limit)
        if why:
            return why | L4, at
    at += size
    why = lacks(at, U64(4), end, limit)
    if why:
        return why | SHIM, at
    first = U64(buf[at])
    type_ = first >> U64(4)
    if (
        first != U64(1)
        and first != U64(2)
        and (type_ == NONE or type_ > U64(3) or (first & U64(12)) == U64(12))
    ):
        return UNKNOWN_SHIM, at
    return NONE, at


@inlined
def flag(buf: Any, at: Any, field: Any, value: Any) -> Any:
    """`value` where a one-bit field is set."""
    return get(buf, at, field) * value


@inlined
def read_int(
    buf: Any, shim: Any, end: Any, limit: Any, protocol: Any, row: Any, plans: Any, hops: Any, first: Any
) -> Any:
    """(code, offset, hops) of the INT with its shim at `shim`; hops go to rows from `first` in path order."""
    kind = U64(buf[shim])
    old = kind < U64(16)
    mode = kind if old else kind >> U64(4)
    if mode != U64(1):
        return UNSUPPORTED_SHIM, shim, NONE
    at = shim + U64(4)
    size = U64(8) if old else U64(12)
    why = lacks(at, size, end, limit)
    if why:
        return why | HEADER, at, NONE
    nibble = U64(buf[at]) >> U64(4)
    if (old and nibble > U64(1)) or (not old and nibble != U64(2)):
        return UNKNOWN_HEADER, at, NONE
    length = get(buf, shim, OLD_LENGTH) if old else get(buf, shim, NEW_LENGTH)
    overhead = U64(4) if nibble == NONE else U64(3)  # words in length that are no stack
    if length < overhead:
        return BAD_SHIM_LENGTH, shim, NONE
    instructions = get(buf, at, INSTRUCTIONS)
    base = plan(plans, nibble, instructions)
    words = plans[base + U64(WORDS)]
    hop_words = get(buf, at, HOP_WORDS_0) if nibble == NONE else get(buf, at, HOP_WORDS)
    ds_instruction = get(buf, at, DS_INSTRUCTION) if nibble == U64(2) else NONE
    domain = ds_instruction != NONE and hop_words > words
    if hop_words == NONE or (hop_words != words and not domain):
        return BAD_HOP_SIZE, at, NONE
    set_header(buf, at, nibble, mode, instructions, hop_words, ds_instruction, row)
    stack = at + size
    count = U64((length - overhead) // hop_words)
    rest = length - overhead - count * hop_words
    if nibble == NONE and (rest != NONE or count != get(buf, at, TOTAL_0)):
        return BAD_STACK, stack, NONE
    if rest != NONE and ds_instruction == NONE:
        return BAD_STACK, stack, NONE
    behind = stack + ((length - overhead) << U64(2))
    why = lacks(stack, behind - stack, end, limit)
    if why:
        return why | STACK, stack, NONE
    if count > MOST_HOPS:
        return TOO_MANY_HOPS, stack, NONE
    problem, where = restore(buf, shim, behind, end, limit, nibble, protocol, row)
    if problem:
        return problem, where, NONE
    read_stack(buf, stack, hop_words << U64(2), count, plans, base, nibble == U64(2), hops, first)
    if rest:
        read_last_word(buf, behind - U64(4), plans, base, count, hops, first)
    return NONE, at, count


@kernel
def read_stack(
    buf: Any, at: Any, size: Any, count: Any, plans: Any, base: Any, wide: Any, hops: Any, first: Any
) -> None:
    """Read a stack of `count` hops, newest first, into `hops` from row `first` on, newest last."""
    last = first + count - U64(1)
    for i in range(count):
        read_hop(buf, at + U64(i) * size, size, plans, base, wide, hops[last - U64(i)])


@kernel
def read_last_word(buf: Any, at: Any, plans: Any, base: Any, count: Any, hops: Any, first: Any) -> None:
    """The source's checksum complement, where metadata of the source alone lies in front of it."""
    if count == NONE or plans[base + U64(PRESENT)] & CHECKSUM == NONE:
        return
    hop = hops[first]
    checksum = be32(buf, at)
    hop.checksum_complement = checksum
    others = U64(hop.null) & ~CHECKSUM
    hop.null = others | (CHECKSUM if checksum == ONES_32 else NONE)


@inlined
def set_header(
    buf: Any,
    at: Any,
    nibble: Any,
    mode: Any,
    instructions: Any,
    hop_words: Any,
    ds_instruction: Any,
    row: Any,
) -> None:
    """What the INT-MD header says, into the report's row."""
    row.int_mode = mode
    row.instructions = instructions
    row.hop_words = hop_words
    if nibble == U64(2):
        row.int_version = U64(20)
        row.remaining_hops = get(buf, at, REMAINING)
        row.int_flags = flag(buf, at, E_2, EXCEEDED) | flag(buf, at, M_2, MTU) | flag(buf, at, D_2, DISCARD)
        row.domain_id = get(buf, at, DOMAIN)
        row.ds_instruction = ds_instruction
        row.ds_flags = get(buf, at, DS_FLAGS)
    elif nibble == U64(1):
        row.int_version = U64(10)
        row.remaining_hops = get(buf, at, REMAINING)
        row.int_flags = flag(buf, at, E_1, EXCEEDED) | flag(buf, at, M_1, MTU) | flag(buf, at, C_1, COPY)
    else:
        row.int_version = U64(5)
        most, total = get(buf, at, MOST_0), get(buf, at, TOTAL_0)
        row.remaining_hops = most - total if most > total else NONE
        row.int_flags = flag(buf, at, E_0, EXCEEDED) | flag(buf, at, C_0, COPY)


@inlined
def restore(
    buf: Any, shim: Any, behind: Any, end: Any, limit: Any, nibble: Any, protocol: Any, row: Any
) -> Any:
    """(code, offset): the packet's own port and protocol, from the tail of 0.5 or by the NPT of 2.x."""
    if nibble == NONE:
        why = lacks(behind, U64(4), end, limit)
        if why:
            return why | TAIL, behind
        if get(buf, behind, TAIL_PROTOCOL) == protocol:
            row.dport = get(buf, behind, TAIL_PORT)
    elif nibble == U64(2):
        npt = get(buf, shim, NPT)
        original = get(buf, shim, ORIGINAL)
        if npt == U64(1):
            row.dport = original
        elif npt == U64(2):
            protocol = original & U64(0xFF)
            if protocol == TCP or protocol == UDP:
                why = lacks(behind, U64(4), end, limit)
                if why:
                    return why | L4, behind
                row.sport = be16(buf, behind)
                row.dport = be16(buf, behind + U64(2))
            else:
                row.sport = NONE
                row.dport = NONE
                row.carried = U64(row.carried) & NO_PORTS
            row.proto = protocol
    return NONE, behind


assert (INT_0_5, INT_1_0, INT_2_0) == (0, 1, 2)  # the version's nibble is the plan's kind

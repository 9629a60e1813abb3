"""INT in an inner packet, for the batch decoder: INT-MD 2.x over TCP and UDP, according to the specification
or with the changes of most dialects; `variant_kernel` reads every other form. The checks are those of
int_header.py, in the same order.
"""

from ...base.kernels.jit import U64, inlined
from .. import layout, rules
from ..headers.packet_kernel import NONE, code, get, lacks, word
from ..reasons import Place, Reason
from ..records import Mode
from . import stack_kernel as stacks
from . import variant_kernel as variant
from .metadata_kernel import INT_2_0, PRESENT, WORDS, plan

BAD_TCP = code(Reason.BAD_LENGTH, Place.INNER_L4)
FAST = U64(Mode.MD | 64)
"""The rule of a shim (`rules.SHIM`) that takes the fast path."""
FIXED_TCP, ROLE_INSERTED = U64(rules.FIXED_TCP), U64(rules.ROLE_INSERTED)
MD_CHANGED = U64(rules.MD_CHANGED)
assert rules.SHIM == variant.SHIM_RULE

TCP_WORDS = word(layout.TCP, "header_words")
DOMAIN = word(layout.MD_2_0, "domain_id")
DS_INSTRUCTION = word(layout.MD_2_0, "ds_instruction")
DS_FLAGS = word(layout.MD_2_0, "ds_flags")
E_2, M_2, D_2 = (word(layout.MD_2_0, name) for name in ("hops_exceeded", "mtu_exceeded", "discard"))


@inlined
def find_shim(buf, at, end, limit, protocol, table):
    """(code, offset of the shim) after the TCP or UDP header at `at`."""
    size = U64(8)
    if protocol == variant.TCP:
        size = U64(20)
    why = lacks(at, size, end, limit)
    if why:
        return why | variant.L4, at
    if protocol == variant.TCP:
        size = get(buf, at, TCP_WORDS) << U64(2)
        if size < U64(20):
            return BAD_TCP, at
        if table[FIXED_TCP]:  # INT is before its options
            size = U64(20)
        why = lacks(at, size, end, limit)
        if why:
            return why | variant.L4, at
    return NONE, at + size


@inlined
def udp_carrier(buf, shim, limit, role, table):
    """Whether the UDP header before a shim was inserted with INT; `role`: role of its port."""
    if not role & ROLE_INSERTED:
        return variant.OVER_UDP
    if shim < limit:
        first = U64(buf[shim])
        if (first >> U64(2)) & U64(3) == U64(1) and not table[variant.SHIM_RULE + first] & variant.OLD_SHIM:
            return variant.OVER_UDP
    return variant.OVER_INSERTED


@inlined
def is_2_0(buf, at, row, table):
    """Whether the header at `at`, after a shim of 2.x, is of INT 2.x, by its version or the dialect."""
    if U64(buf[at]) >> U64(4) == U64(2):
        return True
    return variant.int_version(buf, at, False, variant.OVER_TCP, U64(row.version), table) == U64(20)


@inlined
def read_int(buf, origin, shim, end, limit, protocol, carrier, row, table, plans, hops, first):
    """Read the INT with its shim at `shim`, carried by `carrier` (`records.Carrier`) in a packet of IP
    protocol
    `protocol`; hops are written to rows from `first` on, in path order. Returns (code, offset, hops).

    The offset is that of a rejected header, else the end of the INT. The row gets the values of shim and
    header, and over TCP and UDP the packet's own port and protocol, from the tail of 0.5 or by the NPT.
    """
    why = lacks(shim, U64(4), end, limit)
    if why:
        return why | variant.SHIM, shim, NONE
    at = shim + U64(4)
    fast = table[variant.SHIM_RULE + U64(buf[shim])] == FAST and (
        carrier <= variant.OVER_UDP or carrier == variant.OVER_INSERTED
    )
    if not fast or (at < limit and not is_2_0(buf, at, row, table)):
        return variant.read_any(
            buf, origin, shim, end, limit, protocol, carrier, row, table, plans, hops, first
        )
    why = lacks(at, U64(12), end, limit)
    if why:
        return why | variant.HEADER, at, NONE
    length = get(buf, shim, variant.NEW_LENGTH)
    if length < U64(3):
        return variant.BAD_SHIM_LENGTH, shim, NONE
    instructions = get(buf, at, variant.INSTRUCTIONS)
    if table[variant.SWAPPED]:
        instructions = variant.meaning(instructions, table)
    hop_words = get(buf, at, variant.HOP_WORDS)
    base = plan(plans, table, U64(INT_2_0), instructions, hop_words)
    words = plans[base + U64(WORDS)]
    domain_id, ds_instruction, ds_flags = (
        get(buf, at, DOMAIN),
        get(buf, at, DS_INSTRUCTION),
        get(buf, at, DS_FLAGS),
    )
    flags = (
        get(buf, at, E_2) * variant.EXCEEDED
        | get(buf, at, M_2) * variant.MTU
        | get(buf, at, D_2) * variant.DISCARD
    )
    if table[MD_CHANGED]:
        domain_id, ds_instruction, ds_flags, flags = variant.changed_header(buf, at, table)
    domain = ds_instruction != NONE and hop_words > words
    usual = hop_words == words and plans[base + U64(PRESENT)] != NONE
    if not usual and (hop_words == NONE or not domain):
        return variant.read_any(
            buf, origin, shim, end, limit, protocol, carrier, row, table, plans, hops, first
        )  # fmt: skip
    npt = get(buf, shim, variant.NPT)
    row.int_version = U64(20)
    row.int_mode = U64(1)
    row.int_at = at - origin
    row.carrier = carrier
    row.npt = npt
    row.instructions = instructions
    row.hop_words = hop_words
    row.remaining_hops = get(buf, at, variant.REMAINING)
    row.int_flags = flags
    row.domain_id = domain_id
    row.ds_instruction = ds_instruction
    row.ds_flags = ds_flags
    stack = at + U64(12)
    left = length - U64(3)
    count = U64(left // hop_words)
    rest = left - count * hop_words
    if rest != NONE and ds_instruction == NONE and ds_flags == NONE:
        return variant.BAD_STACK, stack, NONE
    behind = stack + (left << U64(2))
    why = lacks(stack, behind - stack, end, limit)
    if why:
        return why | variant.STACK, stack, NONE
    if count > variant.HOPS_MAX:
        return variant.TOO_MANY_HOPS, stack, NONE
    if npt:
        why, where = variant.restore_2_0(buf, shim, behind, end, limit, carrier, table, row)
        if why:
            return why, where, NONE
    size = hop_words << U64(2)
    stacks.read_stack(buf, stack, size, count, plans, base, True, table, hops, first)
    if rest:
        stacks.read_last_word(buf, behind - U64(4), plans, base, count, hops, first)
    return NONE, behind, count

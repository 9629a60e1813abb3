"""INT of a dialect, an old version or a tunnel, for the batch decoder: with the checks of int_header.py, in
the same order. `int_kernel` reads INT-MD 2.x over TCP and UDP.
"""

from ...base.kernels.jit import U64, be16, be32, kernel
from .. import layout, rules
from ..headers.packet_kernel import NONE, code, get, lacks, word
from ..reasons import Place, Reason
from ..records import MAX_HOPS, Carried, Carrier, IntFlag, Mode
from . import metadata_kernel as metadata
from . import stack_kernel as stacks

TCP, UDP = U64(layout.PROTOCOL_TCP), U64(layout.PROTOCOL_UDP)
OVER_TCP, OVER_UDP, OVER_INSERTED = U64(Carrier.TCP), U64(Carrier.UDP), U64(Carrier.UDP_INSERTED)
OVER_GRE, OVER_GPE, OVER_GENEVE = U64(Carrier.GRE), U64(Carrier.VXLAN_GPE), U64(Carrier.GENEVE)
DESTINATION, MX = U64(Mode.DESTINATION), U64(Mode.MX)
SHIM, HEADER = U64(Place.INT_SHIM), U64(Place.INT_HEADER)
STACK, TAIL, L4 = U64(Place.INT_STACK), U64(Place.INT_TAIL), U64(Place.INNER_L4)
UNKNOWN_SHIM = code(Reason.UNKNOWN_TYPE, Place.INT_SHIM)
UNSUPPORTED_SHIM = code(Reason.UNSUPPORTED, Place.INT_SHIM)
BAD_SHIM_LENGTH = code(Reason.BAD_LENGTH, Place.INT_SHIM)
UNKNOWN_HEADER = code(Reason.UNKNOWN_VERSION, Place.INT_HEADER)
BAD_HOP_SIZE = code(Reason.BAD_HOP_SIZE, Place.INT_HEADER)
UNKNOWN_INSTRUCTIONS = code(Reason.UNKNOWN_INSTRUCTIONS, Place.INT_HEADER)
BAD_STACK = code(Reason.BAD_LENGTH, Place.INT_STACK)
BAD_BOTTOM = code(Reason.BAD_BOTTOM, Place.INT_STACK)
TOO_MANY_HOPS = code(Reason.TOO_MANY_HOPS, Place.INT_STACK)
HOPS_MAX = U64(MAX_HOPS)

SHIM_RULE, INT_LAYOUT = U64(rules.SHIM), U64(rules.INT_LAYOUT)
ANY_SHIM_LENGTH, LENGTH_WITH_SHIM = U64(rules.ANY_SHIM_LENGTH), U64(rules.LENGTH_WITH_SHIM)
SWAPPED, MX_RECORD, SOURCE_WORDS = U64(rules.SWAPPED), U64(rules.MX_RECORD), U64(rules.SOURCE_WORDS)
NPT_SHIFTS, MD_SHIFTS, DS_OFFSETS = U64(rules.NPT_SHIFTS), U64(rules.MD_SHIFTS), U64(rules.DS_OFFSETS)
OLD_SHIM, NUMBERED = U64(16), U64(32)

OLD_LENGTH = word(layout.SHIM_OLD, "length")
NEW_LENGTH = word(layout.SHIM_2_0, "length")
OPTION_WORDS = word(layout.GENEVE_OPTION, "words")
NPT = word(layout.SHIM_2_0, "next_protocol_type")
INSTRUCTIONS = word(layout.MD_2_0, "instructions")  # at the same place in every version
HOP_WORDS = word(layout.MD_2_0, "hop_words")
REMAINING = word(layout.MD_2_0, "remaining_hops")
E_1, M_1, C_1 = (word(layout.MD_1_0, name) for name in ("hops_exceeded", "mtu_exceeded", "copy"))
E_0, C_0 = word(layout.MD_0_5, "hops_exceeded"), word(layout.MD_0_5, "copy")
E_4, C_4 = word(layout.MD_0_4, "hops_exceeded"), word(layout.MD_0_4, "copy")
HOP_WORDS_0 = word(layout.MD_0_5, "hop_words")
MOST_0, TOTAL_0 = word(layout.MD_0_5, "max_hops"), word(layout.MD_0_5, "total_hops")
TAIL_PROTOCOL, TAIL_PORT = word(layout.TAIL_0_5, "protocol"), word(layout.TAIL_0_5, "dport")
EXCEEDED, MTU = U64(IntFlag.HOPS_EXCEEDED), U64(IntFlag.MTU_EXCEEDED)
DISCARD, COPY = U64(IntFlag.DISCARD), U64(IntFlag.COPY)
NO_PORTS = U64(0xFF & ~Carried.PORTS)

for _header in (layout.MD_0_4, layout.MD_0_5, layout.MD_1_0):
    assert _header.word("instructions") == layout.MD_2_0.word("instructions")
for _header in (layout.SHIM_GRE_2_0, layout.SHIM_GPE_2_0):
    assert _header.word("length") == layout.SHIM_2_0.word("length")
assert layout.SHIM_GPE_OLD.word("length") == layout.SHIM_OLD.word("length")
assert layout.MD_1_0.word("hop_words") == layout.MD_2_0.word("hop_words")
assert layout.MD_1_0.word("remaining_hops") == layout.MD_2_0.word("remaining_hops")
for _name in ("hop_words", "max_hops", "total_hops"):
    assert layout.MD_0_4.word(_name) == layout.MD_0_5.word(_name)
assert layout.MX_2_1.word("discard") == layout.MD_2_0.word("discard")


# ---------------------------------------------------------------------------------------------- shim, header


@kernel
def shim_rule(buf, shim, carrier, table):
    """The rule of the shim's first byte (Geneve: the option's type), as in `rules.SHIM`; 0 unknown."""
    if carrier == OVER_GENEVE:
        type_ = U64(buf[shim + U64(2)])
        return type_ if type_ <= U64(3) else NONE
    first = U64(buf[shim])
    if carrier == OVER_GRE or (carrier == OVER_GPE and first >= U64(16)):
        rule = U64(table[SHIM_RULE + (first & U64(0xF0))])
        return NONE if rule & OLD_SHIM else rule
    rule = U64(table[SHIM_RULE + first])
    if carrier == OVER_GPE and not rule & OLD_SHIM:
        return NONE
    return rule


@kernel
def int_version(buf, at, old, carrier, report, table):
    """INT version of the header at `at`, 0 unknown; `report` is the version of the report."""
    index = U64(3) if report == U64(20) else report // U64(5)
    entry = INT_LAYOUT + index * U64(16) + (U64(buf[at]) >> U64(4))
    version = NONE if old else U64(table[entry + U64(64)])
    if version == NONE and (old or carrier == OVER_GENEVE):
        version = U64(table[entry])
    return version


@kernel
def meaning(bitmap, table):
    """An instruction bitmap of the wire in the order of the specifications."""
    how = U64(table[SWAPPED])
    if how == U64(2):  # reversed: bits in each byte, then the bytes
        bitmap = (bitmap & U64(0x5555)) << U64(1) | (bitmap >> U64(1)) & U64(0x5555)
        bitmap = (bitmap & U64(0x3333)) << U64(2) | (bitmap >> U64(2)) & U64(0x3333)
        bitmap = (bitmap & U64(0x0F0F)) << U64(4) | (bitmap >> U64(4)) & U64(0x0F0F)
    if how:
        return ((bitmap << U64(8)) | (bitmap >> U64(8))) & U64(0xFFFF)
    return bitmap


@kernel
def is_l4(carrier):
    """Whether the shim follows TCP or UDP."""
    return carrier == OVER_TCP or carrier == OVER_UDP or carrier == OVER_INSERTED


@kernel
def set_places(at, carrier, npt, instructions, row):
    """Write the place of the header, and the shim's values, into the report's row."""
    row.int_at = at
    row.carrier = carrier
    row.npt = npt
    row.instructions = instructions


@kernel
def kind_of(version):
    """Kind of metadata of an INT version."""
    if version == U64(20):
        return U64(metadata.INT_2_0)
    if version == U64(10):
        return U64(metadata.INT_1_0)
    if version == U64(5):
        return U64(metadata.INT_0_5)
    return U64(layout.INT_0_4) if version == U64(4) else U64(layout.INT_2015)


@kernel
def ds_field(buf, at, which, table):
    """Domain id (0), DS instruction (1) or DS flags (2) of the 2.x header at `at`."""
    return be16(buf, at + U64(table[DS_OFFSETS + U64(which)]))


@kernel
def md_flag(buf, at, which, value, table):
    """`value` if D (0), E (1) or M (2) of the 2.x header at `at` is set, else 0."""
    return ((be32(buf, at) >> U64(table[MD_SHIFTS + U64(which)])) & U64(1)) * value


@kernel
def changed_header(buf, at, table):
    """(domain id, DS instruction, DS flags, flags) of the INT-MD 2.x at `at`, at the dialect's places."""
    flags = (
        md_flag(buf, at, 0, DISCARD, table)
        | md_flag(buf, at, 1, EXCEEDED, table)
        | md_flag(buf, at, 2, MTU, table)
    )
    return ds_field(buf, at, 0, table), ds_field(buf, at, 1, table), ds_field(buf, at, 2, table), flags


@kernel
def set_header(buf, at, version, mode, table, row):
    """Write hop counts and flags of the header at `at` into the report's row."""
    row.int_version = version
    row.int_mode = mode
    if version == U64(20):
        row.domain_id = ds_field(buf, at, 0, table)
        row.ds_instruction = ds_field(buf, at, 1, table)
        row.ds_flags = ds_field(buf, at, 2, table)
        flags = md_flag(buf, at, 0, DISCARD, table)
        if mode != MX:
            flags |= md_flag(buf, at, 1, EXCEEDED, table) | md_flag(buf, at, 2, MTU, table)
            row.remaining_hops = get(buf, at, REMAINING)
        row.int_flags = flags
    elif version == U64(10):
        row.remaining_hops = get(buf, at, REMAINING)
        row.int_flags = get(buf, at, E_1) * EXCEEDED | get(buf, at, M_1) * MTU | get(buf, at, C_1) * COPY
    else:
        most, total = get(buf, at, MOST_0), get(buf, at, TOTAL_0)
        row.remaining_hops = most - total if most > total else NONE
        if version == U64(5):
            row.int_flags = get(buf, at, E_0) * EXCEEDED | get(buf, at, C_0) * COPY
        else:
            row.int_flags = get(buf, at, E_4) * EXCEEDED | get(buf, at, C_4) * COPY


@kernel
def agrees(at, limit, words, hop_words, total, counted):
    """Whether a stack of `words` words at `at` fits into the packet, and has a whole number of hops: then it
    is INT, whatever the instructions mean, rather than ordinary traffic that looks like it.
    """
    hops = total if counted else hop_words
    if at + (words << U64(2)) > limit:
        return False
    return words == NONE if hops == NONE else words - U64(words // hops) * hops == NONE


@kernel
def restore_l4(buf, at, protocol, end, limit, row):
    """Write the packet's own protocol and the ports at `at`, after a UDP header that was added with INT;
    returns a reject code.
    """
    if protocol == TCP or protocol == UDP:
        why = lacks(at, U64(4), end, limit)
        if why:
            return why | L4
        row.sport = be16(buf, at)
        row.dport = be16(buf, at + U64(2))
    else:
        row.sport = NONE
        row.dport = NONE
        row.carried = U64(row.carried) & NO_PORTS
    row.proto = protocol
    return NONE


@kernel
def restore_2_0(buf, shim, behind, end, limit, carrier, table, row):
    """Write the packet's own port and protocol, by the NPT of 2.x; returns (code, offset)."""
    if carrier > OVER_UDP:
        return NONE, behind
    npt = get(buf, shim, NPT)
    if npt == NONE or npt > U64(2):
        return NONE, behind
    original = be16(buf, shim + U64(2)) >> U64(table[NPT_SHIFTS + npt])
    if npt == U64(1):
        row.dport = original
        return NONE, behind
    return restore_l4(buf, behind, original & U64(0xFF), end, limit, row), behind


# ------------------------------------------------------------------------------------------------- all of it


@kernel
def read_any(buf, origin, shim, end, limit, protocol, carrier, row, table, plans, hops, first):
    """`int_kernel.read_int` for every form; the shim's four bytes must be complete."""
    rule = shim_rule(buf, shim, carrier, table)
    mode = rule & U64(15)
    if mode == NONE:
        return UNKNOWN_SHIM, shim, NONE
    if mode == DESTINATION:
        return UNSUPPORTED_SHIM, shim, NONE
    old, numbered = rule & OLD_SHIM != NONE, (rule & NUMBERED) >> U64(5)
    at = shim + U64(4)
    size = U64(8) if old or carrier == OVER_GENEVE else U64(12)
    why = lacks(at, size, end, limit)
    if why:
        return why | HEADER, at, NONE
    version = int_version(buf, at, old, carrier, U64(row.version), table)
    if version == NONE or (mode == MX and version != U64(20)):
        return UNKNOWN_HEADER, at, NONE
    overhead = U64(3) + numbered  # words in length that are neither stack nor tail
    if version == U64(20):
        size = U64(12)
        why = lacks(at, size, end, limit)
        if why:
            return why | HEADER, at, NONE
        if carrier != OVER_GENEVE:
            overhead += U64(table[LENGTH_WITH_SHIM])
    elif carrier == OVER_GENEVE:
        overhead -= U64(1)
    tail = NONE
    if (version == U64(4) or version == U64(5)) and is_l4(carrier):
        tail = U64(1)
    length = get(buf, shim, OLD_LENGTH) if old else get(buf, shim, NEW_LENGTH)
    if carrier == OVER_GENEVE:
        length = get(buf, shim, OPTION_WORDS)
    is_open = length == NONE and carrier != OVER_GENEVE and table[ANY_SHIM_LENGTH] != 0
    if not is_open and length < overhead + (NONE if numbered else tail):
        return BAD_SHIM_LENGTH, shim, NONE
    left = NONE if is_open else length - overhead
    instructions = meaning(get(buf, at, INSTRUCTIONS), table)
    npt = get(buf, shim, NPT) if is_l4(carrier) and not old else NONE
    stack = at + size
    if mode == MX:
        set_header(buf, at, version, mode, table, row)
        set_places(at - origin, carrier, npt, instructions, row)
        return read_mx(
            buf, shim, stack, end, limit, carrier, instructions, left, is_open, numbered, row, table, plans,
            hops, first,
        )  # fmt: skip
    hop_words = get(buf, at, HOP_WORDS) if version >= U64(10) else get(buf, at, HOP_WORDS_0)
    base = metadata.plan(plans, table, kind_of(version), instructions, hop_words)
    words = plans[base + U64(metadata.WORDS)]
    counted = version <= U64(5)
    if counted and hop_words == plans[base + U64(metadata.COUNT)]:
        hop_words = words
    domain = False
    if version == U64(20):
        domain = ds_field(buf, at, 1, table) != NONE and hop_words > words
    total = get(buf, at, TOTAL_0) if counted else NONE
    unknown = instructions != NONE and plans[base + U64(metadata.PRESENT)] == NONE
    if hop_words == NONE or (not domain and (unknown or hop_words != words)):
        if not is_open and left >= tail and agrees(stack, limit, left - tail, hop_words, total, counted):
            set_header(buf, at, version, mode, table, row)
            set_places(at - origin, carrier, npt, instructions, row)
            row.hop_words = hop_words
        return (UNKNOWN_INSTRUCTIONS if unknown else BAD_HOP_SIZE), at, NONE
    set_header(buf, at, version, mode, table, row)
    set_places(at - origin, carrier, npt, instructions, row)
    row.hop_words = hop_words
    if is_open:
        left = U64((limit - stack) // (hop_words << U64(2))) * hop_words
        if counted:
            left = total * hop_words
    elif numbered and left == total * hop_words:
        tail = NONE
    elif tail > left:
        return BAD_STACK, stack, NONE
    else:
        left -= tail
    source = U64(table[SOURCE_WORDS]) if U64(row.ds_flags) else NONE
    if source > left:
        return BAD_STACK, stack, NONE
    count = U64((left - source) // hop_words)
    rest = left - count * hop_words
    if counted and (rest != NONE or count != total):
        return BAD_STACK, stack, NONE
    if rest != NONE and U64(row.ds_instruction) == NONE and U64(row.ds_flags) == NONE:
        return BAD_STACK, stack, NONE
    last = stack + (left << U64(2))
    behind = last + (numbered << U64(2))
    why = lacks(stack, behind - stack, end, limit)
    if why:
        return why | STACK, stack, NONE
    if count > HOPS_MAX:
        return TOO_MANY_HOPS, stack, NONE
    if version == U64(1):
        wrong = stacks.misplaced_bottom(buf, stack, last)
        if wrong != last:
            return BAD_BOTTOM, wrong, NONE
    if tail:
        why = lacks(behind, U64(4), end, limit)
        if why:
            return why | TAIL, behind, NONE
        if get(buf, behind, TAIL_PROTOCOL) == protocol:
            row.dport = get(buf, behind, TAIL_PORT)
        behind += U64(4)
    elif version == U64(20):
        why, where = restore_2_0(buf, shim, behind, end, limit, carrier, table, row)
        if why:
            return why, where, NONE
    size = hop_words << U64(2)
    stacks.read_stack(buf, stack, size, count, plans, base, version == U64(20), table, hops, first)
    if rest:
        stacks.read_last_word(buf, last - U64(4), plans, base, count, hops, first)
    return NONE, behind, count


@kernel
def read_mx(
    buf, shim, stack, end, limit, carrier, instructions, left, is_open, numbered, row, table, plans, hops,
    first,
):  # fmt: skip
    """Read the part after an INT-MX header: no hops, or the node's record if the dialect has one, of `left`
    words.
    """
    hop_words, base = NONE, NONE
    if table[MX_RECORD] and instructions:
        base = metadata.plan(plans, table, U64(metadata.INT_2_0), instructions, left)
        hop_words = plans[base + U64(metadata.WORDS)]
    row.hop_words = hop_words
    if is_open:
        left = hop_words
    if left < hop_words:
        return BAD_STACK, stack, NONE
    size = left << U64(2)
    behind = stack + size + (numbered << U64(2))
    why = lacks(stack, behind - stack, end, limit)
    if why:
        return why | STACK, stack, NONE
    why, where = restore_2_0(buf, shim, behind, end, limit, carrier, table, row)
    if why:
        return why, where, NONE
    if hop_words == NONE:
        return NONE, behind, NONE
    stacks.read_stack(buf, stack, size, U64(1), plans, base, True, table, hops, first)
    return NONE, behind, U64(1)

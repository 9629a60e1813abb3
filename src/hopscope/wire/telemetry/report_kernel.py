"""Reports 0.5 and 1.0, for the batch decoder."""

from ...base.kernels.jit import U64, be32, inlined, kernel
from .. import layout, rules
from ..decode import inner_kernel as inner
from ..headers.packet_kernel import NONE, code, get, refuse, word
from ..reasons import Place, Reason
from ..records import Carried
from .metadata_kernel import ANY_SIZE, AT_DROP, DROP_0_5, LOCAL_0_5, OWN_1_0, PRESENT, QUEUE, WORDS, plan

UNKNOWN_TYPE = code(Reason.UNKNOWN_TYPE, Place.REPORT_HEADER)
BAD_HEADER, BAD_METADATA = (
    code(Reason.BAD_LENGTH, Place.REPORT_HEADER),
    code(Reason.BAD_LENGTH, Place.REPORT_METADATA),
)
FORM_0_5, INNER_1_0 = U64(rules.FORM_0_5), U64(rules.INNER_1_0)
ANY_REPORT_LENGTH = U64(rules.ANY_REPORT_LENGTH)
UNKNOWN = U64(255)
HAS_NODE, HAS_REASON, HAS_QUEUE = U64(Carried.NODE_ID), U64(Carried.DROP_REASON), U64(Carried.QUEUE_ID)
HAS_INGRESS, HAS_OWN = U64(Carried.INGRESS_TIME), U64(Carried.OWN_HOP)
NPROTO_0 = word(layout.REPORT_0_5, "next_protocol")
FLAGS_0 = tuple(word(layout.REPORT_0_5, name) for name in ("dropped", "congested", "tracked"))
HW_0, SEQUENCE_0 = word(layout.REPORT_0_5, "hw_id"), word(layout.REPORT_0_5, "sequence")
INGRESS_0 = word(layout.REPORT_0_5, "ingress_time")
NPROTO_1, LENGTH_1 = word(layout.REPORT_1_0, "next_protocol"), word(layout.REPORT_1_0, "length")
BITS_1, HW_1, NODE_1 = (word(layout.REPORT_1_0, name) for name in ("metadata_bits", "hw_id", "node_id"))
SEQUENCE_1, INGRESS_1 = word(layout.REPORT_1_0, "sequence"), word(layout.REPORT_1_0, "ingress_time")
FLAGS_1 = tuple(word(layout.REPORT_1_0, name) for name in ("dropped", "congested", "tracked"))
HW_2, SEQUENCE_2, NODE_2 = (word(layout.GROUP_2_0, name) for name in ("hw_id", "sequence", "node_id"))
FLAGS_2 = tuple(word(layout.REPORT_2_0, name) for name in ("dropped", "congested", "tracked"))


@inlined
def flags_of(buf, at, fields):
    """The flags D, Q and F."""
    return (
        get(buf, at, fields[0]) * inner.DROPPED
        | get(buf, at, fields[1]) * inner.CONGESTED
        | get(buf, at, fields[2]) * inner.TRACKED
    )


@inlined
def kind_of(flags):
    """Kind of a Report 1.0 or 2.0."""
    if flags & inner.DROPPED:
        return inner.KIND_DROP
    return (
        inner.KIND_QUEUE if (flags & (inner.CONGESTED | inner.TRACKED)) == inner.CONGESTED else inner.KIND_INT
    )


@kernel
def report_0_5(buf, origin, at, end, row, table, plans, hops, first):
    """Read a Report 0.5; returns the next free row of `hops`."""
    row.first_hop = first
    if at + U64(12) > end:
        refuse(row, inner.CUT_HEADER, at, origin)
        return first
    rule = FORM_0_5 + U64(3) * get(buf, at, NPROTO_0)
    form = U64(table[rule])
    if form == UNKNOWN:
        refuse(row, UNKNOWN_TYPE, at, origin)
        return first
    flags = flags_of(buf, at, FLAGS_0)
    row.flags = flags
    row.hw_id = get(buf, at, HW_0)
    row.sequence = get(buf, at, SEQUENCE_0)
    row.ingress_time = get(buf, at, INGRESS_0)
    if form == U64(3):
        row.kind = kind_of(flags)
    else:
        row.kind = (
            inner.KIND_DROP if form == U64(1) else (inner.KIND_QUEUE if form == U64(2) else inner.KIND_INT)
        )
    carried = HAS_INGRESS
    at += U64(12)
    own, kind = NONE, U64(DROP_0_5)
    if form != NONE:
        size = U64(table[rule + U64(1)])
        if at + size > end:
            row.carried = carried
            refuse(row, inner.CUT_METADATA, at, origin)
            return first
        row.own_at = at - origin
        if form != U64(3):
            own = at
            row.node_id = be32(buf, at)
            carried |= HAS_NODE | HAS_QUEUE | HAS_OWN
        if form == U64(1):
            row.queue_id = buf[at + U64(8)]
            row.drop_reason = buf[at + U64(9)]
            carried |= HAS_REASON
            plan(plans, table, U64(DROP_0_5), U64(0xC000), ANY_SIZE)
        elif form == U64(2):
            kind = U64(LOCAL_0_5)
            plan(plans, table, kind, U64(0xF000), ANY_SIZE)
        at += size
    row.carried = carried
    type_ = U64(table[rule + U64(2)])
    done = inner.finish(buf, origin, at, end, type_, own, kind, row, table, plans, hops, first)
    if form == U64(2):
        row.queue_id = hops[done - U64(1)].queue_id
    return done


@inlined
def own_values(buf, at, plans, base, has_drop, row):
    """Write the values of the report metadata that belong to the report; its queue id, if any, is taken from
    the hop into which the metadata is read.
    """
    carried = U64(row.carried) | HAS_OWN
    if plans[base + U64(PRESENT)] & QUEUE:
        carried |= HAS_QUEUE
    if has_drop:
        row.queue_id = buf[at + plans[base + AT_DROP]]
        row.drop_reason = buf[at + plans[base + AT_DROP] + U64(1)]
        carried |= HAS_QUEUE | HAS_REASON
    row.carried = carried


@kernel
def report_1_0(buf, origin, at, end, row, table, plans, hops, first):
    """Read a Report 1.0; returns the next free row of `hops`."""
    row.first_hop = first
    if at + U64(16) > end:
        refuse(row, inner.CUT_HEADER, at, origin)
        return first
    type_ = U64(table[INNER_1_0 + get(buf, at, NPROTO_1)])
    if type_ == UNKNOWN:
        refuse(row, UNKNOWN_TYPE, at, origin)
        return first
    bitmap = get(buf, at, BITS_1) << U64(10)
    base = plan(plans, table, U64(OWN_1_0), bitmap, ANY_SIZE)
    size = plans[base + U64(WORDS)] << U64(2)
    if get(buf, at, LENGTH_1) << U64(2) != size + U64(16) and not table[ANY_REPORT_LENGTH]:
        refuse(row, BAD_HEADER, at, origin)
        return first
    flags = flags_of(buf, at, FLAGS_1)
    row.flags = flags
    row.kind = kind_of(flags)
    row.hw_id = get(buf, at, HW_1)
    row.node_id = get(buf, at, NODE_1)
    row.sequence = get(buf, at, SEQUENCE_1)
    row.ingress_time = get(buf, at, INGRESS_1)
    row.carried = HAS_INGRESS | HAS_NODE
    at += U64(16)
    own = NONE
    if bitmap != NONE:
        if at + size > end:
            refuse(row, inner.CUT_METADATA, at, origin)
            return first
        own = at
        row.own_at = at - origin
        own_values(buf, at, plans, base, bitmap & U64(0x0800), row)
        at += size
    done = inner.finish(buf, origin, at, end, type_, own, U64(OWN_1_0), row, table, plans, hops, first)
    if own != NONE:
        queue_of(hops[done - U64(1)], bitmap & U64(0x0800), row)
    return done


@kernel
def queue_of(hop, has_drop, row):
    """Write the queue id of the report metadata: the drop word's if it has one, else the occupancy's."""
    if U64(hop.present) & QUEUE and not has_drop:
        row.queue_id = hop.queue_id

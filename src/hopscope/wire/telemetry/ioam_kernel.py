"""IOAM in IPv6 options, for the batch decoder: the checks of ioam.py, in the same order."""

import numpy as np

from ...base.kernels.jit import U64, be32, be64, clear, inlined, kernel
from .. import layout
from ..headers.packet_kernel import AUTHENTICATION, FRAGMENT, IPV6_NEXT, NONE, SIZE_IPV6, code, get, word
from ..reasons import Place, Reason
from ..records import Carrier, IntFlag, Mode
from ..versions import IOAM
from .metadata_kernel import BUFFER, CHECKSUM, INGRESS, L2, LATENCY, NODE, ONES_32, ONES_64, PORTS, QUEUE

HEAD, TRACE = U64(layout.IOAM_OPTION.size), U64(layout.IOAM_TRACE.size)
SNAPSHOT = U64(layout.IOAM_SNAPSHOT.size)
CUT_OPTION = code(Reason.TRUNCATED, Place.IOAM_OPTION)
BAD_OPTION = code(Reason.BAD_LENGTH, Place.IOAM_OPTION)
BAD_NODE = code(Reason.BAD_HOP_SIZE, Place.IOAM_OPTION)
UNKNOWN_OPTION = code(Reason.UNKNOWN_TYPE, Place.IOAM_OPTION)
UNSUPPORTED_OPTION = code(Reason.UNSUPPORTED, Place.IOAM_OPTION)
BAD_DATA = code(Reason.BAD_LENGTH, Place.IOAM_DATA)
IOAM_TYPE = word(layout.IOAM_OPTION, "ioam_type")
NAMESPACE, NODE_WORDS = word(layout.IOAM_TRACE, "namespace"), word(layout.IOAM_TRACE, "node_words")
OVERFLOW, REMAINING = word(layout.IOAM_TRACE, "overflow"), word(layout.IOAM_TRACE, "remaining_words")
TRACE_TYPE = word(layout.IOAM_TRACE, "trace_type")
EXTENSIONS = word(layout.IOAM_DEX, "extension_flags")
SNAPSHOT_WORDS = word(layout.IOAM_SNAPSHOT, "words")
assert layout.IOAM_DEX.size == layout.IOAM_TRACE.size
for _name in ("namespace", "trace_type"):
    assert layout.IOAM_DEX.word(_name) == layout.IOAM_TRACE.word(_name)
VERSION, CARRIER = U64(IOAM), U64(Carrier.IPV6_OPTION)
PREALLOCATED = U64(0)
PROOF_OF_TRANSIT, EDGE_TO_EDGE, DIRECT_EXPORT = U64(2), U64(3), U64(4)
FIRST_MODE, DEX = U64(Mode.IOAM_PREALLOCATED), U64(Mode.IOAM_DEX)
assert Mode.IOAM_INCREMENTAL == Mode.IOAM_PREALLOCATED + 1
EXCEEDED = U64(IntFlag.HOPS_EXCEEDED)
WORDS = np.array([item.size // 4 for item in layout.IOAM_NODE], np.uint64)
assert WORDS.tolist() == [1] * 8 + [2] * 3 + [1] * 11  # the steps in `read_node`
BIT_0, BIT_1, BIT_2, BIT_3, BIT_4, BIT_5, BIT_6, BIT_7, BIT_8, BIT_9, BIT_10, BIT_11 = (
    U64(1 << 23 - bit) for bit in range(12)
)
OPAQUE = U64(layout.IOAM_SNAPSHOT_BIT)
LOW_16, LOW_24, SATURATED = U64(0xFFFF), U64(0xFFFFFF), U64(0x7FFFFFFF)
OPTION_0, OPTION_1 = (U64(type_) for type_ in layout.IOAM_OPTION_TYPES)
HOP_BY_HOP, DESTINATION = U64(0), U64(60)
FLOW_ID, SEQUENCE = U64(0x80), U64(0x40)
FOUR, EIGHT = U64(4), U64(8)


@inlined
def finish(why, at, count, row, origin):
    """Write a reject reason into the row; returns (code, hops)."""
    if why:
        row.reason = why >> U64(8)
        row.place = why & U64(0xFF)
        row.reason_at = at - origin
    return why, count


@kernel
def read_extensions(buf, origin, start, stop, row, hops, first):
    """(code, hops) of the IOAM in the options of the IPv6 header at `start`, whose extension headers end at
    `stop`; a reject reason is written into the row. Hops are written to rows from `first` on, in path order.
    Options after a packet's first trace are not read.
    """
    if row.int_version:
        return NONE, NONE
    number, at = get(buf, start, IPV6_NEXT), start + SIZE_IPV6
    other, other_at = NONE, NONE
    while at < stop:
        size = (U64(buf[at + U64(1)]) + U64(1)) << U64(3)
        if number == FRAGMENT:
            size = EIGHT
        elif number == AUTHENTICATION:
            size = (U64(buf[at + U64(1)]) + U64(2)) << U64(2)
        elif number == HOP_BY_HOP or number == DESTINATION:
            why, where, count = read_options(buf, origin, at + U64(2), at + size, row, hops, first)
            if why == UNSUPPORTED_OPTION or why == UNKNOWN_OPTION:
                if other == NONE:
                    other, other_at = why, where
            elif why or row.int_version:
                return finish(why, where, count, row, origin)
        number = U64(buf[at])
        at += size
    return finish(other, other_at, NONE, row, origin)


@kernel
def is_in(buf, start, stop):
    """Whether the IPv6 header at `start`, whose extension headers end at `stop`, has an IOAM option."""
    number, at = get(buf, start, IPV6_NEXT), start + SIZE_IPV6
    while at < stop:
        size = (U64(buf[at + U64(1)]) + U64(1)) << U64(3)
        if number == FRAGMENT:
            size = EIGHT
        elif number == AUTHENTICATION:
            size = (U64(buf[at + U64(1)]) + U64(2)) << U64(2)
        elif number == HOP_BY_HOP or number == DESTINATION:
            option, end = at + U64(2), at + size
            while option < end:
                type_ = U64(buf[option])
                if type_ == OPTION_0 or type_ == OPTION_1:
                    return True
                step = U64(1)
                if type_ != NONE:
                    step = U64(2) + U64(buf[option + U64(1)]) if option + U64(1) < end else U64(2)
                option += step
        number = U64(buf[at])
        at += size
    return False


@kernel
def read_options(buf, origin, at, end, row, hops, first):
    """(code, offset, hops) of the first trace or direct export among options; if there is none, of the first
    option of another type.
    """
    other, other_at = NONE, at
    while at < end:
        type_ = U64(buf[at])
        if type_ == NONE:
            at += U64(1)
            continue
        stop = end + U64(1)
        if at + U64(1) < end:
            stop = at + U64(2) + U64(buf[at + U64(1)])
        if type_ == OPTION_0 or type_ == OPTION_1:
            if stop > end:
                return BAD_OPTION, at, NONE
            why, where, count = read_option(buf, origin, at, stop, row, hops, first)
            if why != UNSUPPORTED_OPTION and why != UNKNOWN_OPTION:
                return why, where, count
            if other == NONE:
                other, other_at = why, where
        at = stop
    return other, other_at, NONE


@kernel
def read_option(buf, origin, at, end, row, hops, first):
    """(code, offset, hops) of one option."""
    if at + U64(2) > end or at + U64(2) + U64(buf[at + U64(1)]) > end:
        return CUT_OPTION, at, NONE
    stop = at + U64(2) + U64(buf[at + U64(1)])
    if at + HEAD > stop:
        return BAD_OPTION, at, NONE
    type_ = get(buf, at, IOAM_TYPE)
    if type_ == PROOF_OF_TRANSIT or type_ == EDGE_TO_EDGE:
        return UNSUPPORTED_OPTION, at, NONE
    if type_ > DIRECT_EXPORT:
        return UNKNOWN_OPTION, at, NONE
    if at + HEAD + TRACE > stop:
        return BAD_OPTION, at, NONE
    at += HEAD
    if type_ == DIRECT_EXPORT:
        return read_dex(buf, origin, at, stop, row)
    return read_trace(buf, origin, at, stop, type_, row, hops, first)


@inlined
def columns(buf, origin, at, mode, row):
    """Write the values that the headers of a trace and of direct export have in common."""
    type_ = get(buf, at, TRACE_TYPE)
    row.int_version = VERSION
    row.int_mode = mode
    row.carrier = CARRIER
    row.int_at = at - origin
    row.domain_id = get(buf, at, NAMESPACE)
    row.instructions = type_ >> U64(8)
    row.ds_instruction = type_ & U64(0xFF)


@inlined
def read_dex(buf, origin, at, stop, row):
    """Read direct export with its header at `at`; it has no hops."""
    flags = get(buf, at, EXTENSIONS)
    size = NONE
    for bit in range(8):
        size += ((flags >> U64(bit)) & U64(1)) << U64(2)
    if at + TRACE + size > stop:
        return BAD_OPTION, at, NONE
    columns(buf, origin, at, DEX, row)
    if flags & SEQUENCE:
        row.packet_id = be32(buf, at + TRACE + (FOUR if flags & FLOW_ID else NONE))
    return NONE, at, NONE


@inlined
def read_trace(buf, origin, at, stop, kind, row, hops, first):
    """Read a trace with its header at `at`, which must be complete."""
    type_ = get(buf, at, TRACE_TYPE)
    words = get(buf, at, NODE_WORDS)
    implied = NONE
    for bit in range(22):
        implied += ((type_ >> U64(23 - bit)) & U64(1)) * WORDS[bit]
    opaque = type_ & OPAQUE
    if words != implied or (words == NONE and opaque == NONE):
        return BAD_NODE, at, NONE
    remaining = get(buf, at, REMAINING)
    data = at + TRACE
    if kind == PREALLOCATED:
        data += remaining << U64(2)
        if data > stop:
            return BAD_OPTION, at, NONE
    columns(buf, origin, at, FIRST_MODE + kind, row)
    row.hop_words = words
    row.remaining_hops = U64(remaining // words) if words else NONE
    row.int_flags = get(buf, at, OVERFLOW) * EXCEEDED
    size = words << U64(2)
    if opaque:
        bad, where, count = count_nodes(buf, data, stop, size)
    else:
        count = U64((stop - data) // size)
        bad, where = data + count * size != stop, data
    if bad:
        return BAD_DATA, where, NONE
    at = data
    for i in range(count):
        read_node(buf, at, type_, hops[first + count - U64(1) - U64(i)])
        at += size
        if opaque:
            at += SNAPSHOT + (get(buf, at, SNAPSHOT_WORDS) << U64(2))
    return NONE, at, count


@kernel
def count_nodes(buf, at, stop, size):
    """(whether a node does not fit, offset of that node, nodes) of nodes that end in snapshots."""
    count = NONE
    while at < stop:
        if at + size + SNAPSHOT > stop:
            return True, at, count
        end = at + size + SNAPSHOT + (get(buf, at + size, SNAPSHOT_WORDS) << U64(2))
        if end > stop:
            return True, at, count
        at = end
        count += U64(1)
    return False, at, count


@inlined
def item(buf, at, named, have, present, null):
    """(value, offset after it, `present`, `null`) of an item of 4 bytes; if it is not `named`, the value is
    0, and the others are unchanged.
    """
    if named == NONE:
        return NONE, at, present, null
    value = be32(buf, at)
    return value, at + FOUR, present | have, null | (have if value == ONES_32 else NONE)


@kernel
def read_node(buf, at, type_, hop):
    """Read the data of a node at `at` into a HOP record; every field is written."""
    present, null, node, l2 = NONE, NONE, NONE, NONE
    if type_ & BIT_0:
        node = be32(buf, at) & LOW_24
        present = NODE
        null = NODE if node == LOW_24 else NONE
        at += FOUR
    ports, at, present, null = item(buf, at, type_ & BIT_1, PORTS, present, null)
    seconds, at, present, null = item(buf, at, type_ & BIT_2, INGRESS, present, null)
    fraction, at, present, unknown = item(buf, at, type_ & BIT_3, INGRESS, present, null)
    if type_ & BIT_2 == NONE:
        null = unknown
    latency, at, present, null = item(buf, at, type_ & BIT_4, LATENCY, present, null)
    if latency != ONES_32:
        latency = min(latency, SATURATED)
    if type_ & BIT_5:
        at += FOUR
    queue, at, present, null = item(buf, at, type_ & BIT_6, QUEUE, present, null)
    checksum, at, present, null = item(buf, at, type_ & BIT_7, CHECKSUM, present, null)
    if type_ & BIT_8:
        if type_ & BIT_0 == NONE:
            node = be32(buf, at + FOUR)
            present |= NODE
            null |= NODE if node == ONES_32 and be32(buf, at) & LOW_24 == LOW_24 else NONE
        at += EIGHT
    if type_ & BIT_9:
        l2 = be64(buf, at)
        present |= L2
        null |= L2 if l2 == ONES_64 else NONE
        at += EIGHT
    if type_ & BIT_10:
        at += EIGHT
    buffer, at, present, null = item(buf, at, type_ & BIT_11, BUFFER, present, null)
    clear(hop)
    hop.ingress_time = seconds << U64(32) | fraction
    hop.node_id = node
    hop.hop_latency = latency
    hop.queue_occupancy = queue
    hop.buffer_occupancy = buffer
    hop.l2_ingress_port = l2 >> U64(32)
    hop.l2_egress_port = l2 & ONES_32
    hop.checksum_complement = checksum
    hop.ingress_port = ports >> U64(16)
    hop.egress_port = ports & LOW_16
    hop.present = present
    hop.null = null

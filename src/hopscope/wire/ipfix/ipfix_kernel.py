"""Data sets of IPFIX and NetFlow 9 to REPORT and HOP rows: a row for each flow record.

===================== ==========================================================================
`buf`, `origin`       all bytes, and offset of the message; `at`, `end`: range that is read now
`frames`, `rows`      FRAME [n]; int64 [n]: row of each one's domain, -1 without a whole header
`domains`, `slots`    DOMAIN [DOMAINS]; uint16 [DOMAINS * IDS]: place of a template + 1, 0 none
`templates`, `fields` TEMPLATE [TEMPLATES], FIELD [TEMPLATES * FIELDS]
`values`              uint64 [columns]: values read from a record
`state`, `counts`     uint64 [State], uint64 [Count]
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U32, U64, be16, be32, be64, clear, inlined, kernel
from ..headers.packet_kernel import MAPPED, NONE, code, get, refuse, word
from ..reasons import Place, Reason
from ..records import Carried, Flag, Have, Kind
from ..versions import IPFIX, NETFLOW_9
from . import layout
from .layout import Column
from .records import FIELDS, IDS, Count, State, Status

CUT_HEADER, BAD_HEADER, UNKNOWN_VERSION = (
    code(reason, Place.REPORT_HEADER)
    for reason in (Reason.TRUNCATED, Reason.BAD_LENGTH, Reason.UNKNOWN_VERSION)
)
CUT, BAD_LENGTH = code(Reason.TRUNCATED, Place.IPFIX), code(Reason.BAD_LENGTH, Place.IPFIX)
HAS_NODE, HAS_FLOW, HAS_PORTS = U64(Carried.NODE_ID), U64(Carried.FLOW), U64(Carried.PORTS)
HAS_OWN, HAS_REASON = U64(Carried.OWN_HOP), U64(Carried.DROP_REASON)
DROPPED, DROP, INNER = U64(Flag.DROPPED), U64(Kind.DROP), U64(Kind.INNER)
NODE, PORTS, L2_PORTS = U64(Have.NODE_ID), U64(Have.PORTS), U64(Have.L2_PORTS)
LATENCY = U64(Have.HOP_LATENCY)
FRAME, AT, END, ROWS, RECORDS, UNKNOWN, SET_ID, SET_AT, SET_END, AGAIN, LATE, FIRST = (
    U64(slot) for slot in State
)
REPORTS, HOPS, FLOW_RECORDS, OTHER_RECORDS = (U64(slot) for slot in Count)
DONE, FULL, OTHER_SET = (U64(status) for status in Status)
VERSION_9, VERSION_10 = U64(layout.NETFLOW_9), U64(layout.IPFIX)
MESSAGE_LENGTH = word(layout.IPFIX_MESSAGE, "length")
SEQUENCE_9, SEQUENCE_10 = (word(one, "sequence") for one in (layout.NETFLOW_9_PACKET, layout.IPFIX_MESSAGE))
EXPORTED_9, EXPORTED_10 = (
    word(one, "export_time") for one in (layout.NETFLOW_9_PACKET, layout.IPFIX_MESSAGE)
)
SIZE_9, SIZE_10 = U64(layout.NETFLOW_9_PACKET.size), U64(layout.IPFIX_MESSAGE.size)
SIZE_SET = U64(layout.SET.size)
FIRST_DATA, VARIABLE = U64(layout.FIRST_DATA), U64(layout.VARIABLE)
(
    _, SOURCE_4, DESTINATION_4, SOURCE_HI, SOURCE_LO, DESTINATION_HI, DESTINATION_LO, PROTOCOL, SPORT, DPORT,
    INGRESS, EGRESS, PACKETS, STATUS, SAMPLER, RATE, DELAY_MEAN, DELAY_SUM,
) = (U64(column) for column in Column)  # fmt: skip
LOW_32, LAST_PORT = U64(0xFFFFFFFF), U64(0xFFFE)
LONGEST = U64(LOW_32 - U64(1))
AHEAD = U64(1 << 24)
"""Most records that can be missing at once: if a message is further ahead, the exporter has restarted."""
BEHIND = U64(1 << 16)
"""Most records that a late message can be behind; its records stay counted as missing. But if two such
messages follow each other, exported later than the newest, or so long before it that the clock was set back,
the exporter has restarted. If a message then continues the old numbers, two exporters share the domain, and
nothing is missing between their numbers.
"""
LATE_SECONDS = U64(60)
"""Longest time before the newest message at which a late message was exported."""
TCP, UDP = U64(6), U64(17)


@inlined
def has(columns, column):
    """Whether a template has this column."""
    return (columns >> column) & U64(1) != NONE


@kernel
def number_at(buf, at, length):
    """Unsigned number of 1 to 8 bytes (RFC 7011 6.2); for a longer field, its last 8 bytes."""
    if length == U64(4):
        return be32(buf, at)
    if length == U64(2):
        return be16(buf, at)
    if length == U64(8):
        return be64(buf, at)
    value = NONE
    for k in range(length):
        value = (value << U64(8)) | U64(buf[at + U64(k)])
    return value


@kernel
def read_variable(buf, at, end, fields, first, count, values):
    """Read a record with fields of variable length; returns the offset after it, 0 if it is cut."""
    for k in range(count):
        field = fields[first + U64(k)]
        length = U64(field.length)
        if length == VARIABLE:
            if at >= end:
                return NONE
            length = U64(buf[at])
            at += U64(1)
            if length == U64(255):
                if at + U64(2) > end:
                    return NONE
                length = be16(buf, at)
                at += U64(2)
        if at + length > end:
            return NONE
        if field.column:
            values[U64(field.column)] = number_at(buf, at, length)
        at += length
    return at


@inlined
def rate_of(domain, columns, values):
    """Packets per counted packet: by the record, its sampler, or the only sampler of the domain."""
    if has(columns, RATE):
        return max(values[RATE], U64(1))
    if has(columns, SAMPLER):
        for k in range(U64(domain.samplers)):
            if U64(domain.sampler[k]) == values[SAMPLER]:
                return U64(domain.rate[k])
    elif domain.samplers == 1:
        return U64(domain.rate[0])
    return U64(1)


@inlined
def put_flow(row, columns, values):
    """Write the flow of a record; if it has addresses of both versions, the one that is not 0."""
    protocol = values[PROTOCOL] & U64(0xFF) if has(columns, PROTOCOL) else NONE
    if has(columns, SOURCE_4) and (
        not has(columns, SOURCE_HI) or values[SOURCE_4] != NONE or values[DESTINATION_4] != NONE
    ):
        row.src_lo = MAPPED | (values[SOURCE_4] & LOW_32)
        row.dst_lo = MAPPED | (values[DESTINATION_4] & LOW_32)
        row.ip_version = U64(4)
    else:
        row.src_hi = values[SOURCE_HI]
        row.src_lo = values[SOURCE_LO]
        row.dst_hi = values[DESTINATION_HI]
        row.dst_lo = values[DESTINATION_LO]
        row.ip_version = U64(6)
    row.proto = protocol
    carried = HAS_NODE | HAS_FLOW
    if (protocol == TCP or protocol == UDP) and has(columns, SPORT) and has(columns, DPORT):
        row.sport = values[SPORT]
        row.dport = values[DPORT]
        carried |= HAS_PORTS
    row.carried = carried


@inlined
def put_hop(hop, node, columns, values, packets):
    """Write an exporter's metadata about its own node."""
    clear(hop)
    hop.node_id = node
    present = NODE
    if has(columns, EGRESS) and values[EGRESS] != NONE:
        port_in = values[INGRESS] if has(columns, INGRESS) else NONE
        port_out = values[EGRESS]
        if port_in <= LAST_PORT and port_out <= LAST_PORT:
            hop.ingress_port = port_in
            hop.egress_port = port_out
            present |= PORTS
        else:
            hop.l2_ingress_port = port_in
            hop.l2_egress_port = port_out
            present |= L2_PORTS
    if has(columns, DELAY_MEAN):
        hop.hop_latency = min(min(values[DELAY_MEAN], LOW_32) * U64(1000), LONGEST)
        present |= LATENCY
    elif has(columns, DELAY_SUM) and packets != NONE:
        hop.hop_latency = min(min(values[DELAY_SUM] // packets, LOW_32) * U64(1000), LONGEST)
        present |= LATENCY
    hop.present = present


@inlined
def begin_row(reports, frame, domain, version, state, counts):
    """Begin a row with the values that all rows of a message have; the first has the records missing before
    it.
    """
    row = reports[counts[REPORTS]]
    clear(row)
    row.time_ns = frame.time_ns
    row.packet = state[FRAME]
    row.source_hi = frame.source_hi
    row.source_lo = frame.source_lo
    row.version = U64(NETFLOW_9) if version == VERSION_9 else U64(IPFIX)
    row.kind = INNER
    row.first_hop = counts[HOPS]
    row.hw_id = domain.hw_id
    row.node_id = domain.node_id
    row.carried = HAS_NODE
    row.index = state[ROWS]
    if state[ROWS] == NONE:
        domain.sequence = U32((U64(domain.sequence) + U64(domain.missing) + U64(1)) & LOW_32)
        domain.missing = U32(0)
        state[FIRST] = counts[REPORTS]
    row.sequence = domain.sequence
    state[ROWS] += U64(1)
    counts[REPORTS] += U64(1)
    return row


@kernel
def read_set(
    buf, origin, at, end, frame, domain, version, template, fields, first, values, reports, hops, state,
    counts,
):  # fmt: skip
    """Read all records of a data set; bytes that are shorter than a record are padding (RFC 7011 3.3.1)."""
    columns, size, count = U64(template.columns), U64(template.size), U64(template.fields)
    is_flow = (has(columns, SOURCE_4) and has(columns, DESTINATION_4)) or (
        has(columns, SOURCE_HI) and has(columns, DESTINATION_HI)
    )
    while at + size <= end:
        after = at + size
        if template.variable:
            after = read_variable(buf, at, end, fields, first, count, values)
            if after == NONE:
                row = begin_row(reports, frame, domain, version, state, counts)
                refuse(row, CUT, at, origin)
                state[UNKNOWN] = U64(1)
                return
        else:
            for k in range(count):
                field = fields[first + U64(k)]
                values[U64(field.column)] = number_at(buf, at + U64(field.at), U64(field.length))
        at = after
        state[RECORDS] += U64(1)
        if not is_flow:
            counts[OTHER_RECORDS] += U64(1)
            continue
        counts[FLOW_RECORDS] += U64(1)
        row = begin_row(reports, frame, domain, version, state, counts)
        put_flow(row, columns, values)
        packets = values[PACKETS] if has(columns, PACKETS) else U64(1)
        put_hop(hops[counts[HOPS]], U64(domain.node_id), columns, values, packets)
        counts[HOPS] += U64(1)
        status = values[STATUS] & U64(0xFF) if has(columns, STATUS) else NONE
        if status >> U64(6) == U64(2):
            row.kind = DROP
            row.flags = DROPPED
            row.drop_reason = status
            row.carried = U64(row.carried) | HAS_OWN | HAS_REASON
        else:
            row.hop_count = U64(1)
            row.packet_id = min(min(packets, LOW_32) * rate_of(domain, columns, values), LOW_32)


@kernel
def begin_message(buf, origin, end, domain, version, state):
    """Read the header; returns a reject code. Missing numbers are data records (IPFIX) or packets (NetFlow
    9).
    """
    sequence, exported = get(buf, origin, SEQUENCE_9), get(buf, origin, EXPORTED_9)
    state[AT] = SIZE_9
    state[END] = end - origin
    if version == VERSION_10:
        sequence, exported = get(buf, origin, SEQUENCE_10), get(buf, origin, EXPORTED_10)
        length = get(buf, origin, MESSAGE_LENGTH)
        if length < SIZE_10:
            return BAD_HEADER
        if origin + length > end:
            return CUT_HEADER
        state[AT] = SIZE_10
        state[END] = length
    if state[AGAIN]:
        state[ROWS] = U64(1)
        return NONE
    ahead = (sequence - U64(domain.expected)) & LOW_32
    behind = (U64(domain.expected) - sequence) & LOW_32
    ahead_of_other = (sequence - U64(domain.other)) & LOW_32
    late = domain.known != 0 and behind != NONE and behind < BEHIND
    newer = ((U64(domain.exported) - exported) & LOW_32) > LATE_SECONDS
    change = domain.other_known != 0 and (
        newer and ahead_of_other == NONE if late else ahead_of_other < min(ahead, AHEAD)
    )
    if late and not change:
        state[LATE] = U64(1) + U64(newer)
        if newer:
            domain.other = U32(sequence)
        return NONE
    state[LATE] = NONE
    if change:
        domain.missing += U32(ahead_of_other)
    elif domain.known and ahead < AHEAD:
        domain.missing += U32(ahead)
    if change or ahead >= AHEAD:
        domain.other = domain.expected
        domain.other_known = domain.known
    domain.exported = U32(exported)
    domain.expected = U32(sequence)
    return NONE


@inlined
def end_message(reports, domain, version, state):
    """Record the number of records, and the expected sequence number of the next message."""
    if version == VERSION_10:
        records = U64(domain.waited) + state[RECORDS]
        domain.waited = U32(records if state[AGAIN] else NONE)
        if not state[AGAIN]:
            reports[state[FIRST]].inner_length = records
    if not state[AGAIN]:
        more = U64(1) if version == VERSION_9 else state[RECORDS]
        counted = U8(version == VERSION_9 or state[UNKNOWN] == NONE)
        if state[LATE] > U64(1):
            domain.other = U32((U64(domain.other) + more) & LOW_32)
            domain.other_known = counted
        elif state[LATE] == NONE:
            domain.expected = U32((U64(domain.expected) + more) & LOW_32)
            domain.known = counted


@inlined
def next_frame(state):
    """Continue with the next message."""
    state[FRAME] += U64(1)
    state[AT] = NONE
    state[ROWS] = NONE
    state[RECORDS] = NONE
    state[UNKNOWN] = NONE


@kernel
def decode_messages(
    buf, frames, rows, domains, slots, templates, fields, values, reports, hops, state, counts
):
    """Decode messages from the position in `state` on; returns a Status. `counts` is increased.

    A set that is not read here is described in `state`; the next call continues after it.
    """
    while state[FRAME] < U64(len(frames)):
        frame = frames[state[FRAME]]
        origin = U64(frame.offset)
        end = origin + U64(frame.length)
        if min(U64(len(reports)) - counts[REPORTS], U64(len(hops)) - counts[HOPS]) < U64(4):
            return FULL
        number = rows[state[FRAME]]
        if number < 0:
            row = reports[counts[REPORTS]]
            clear(row)
            row.time_ns = frame.time_ns
            row.packet = state[FRAME]
            row.source_hi = frame.source_hi
            row.source_lo = frame.source_lo
            row.first_hop = counts[HOPS]
            whole = origin + SIZE_SET <= end
            version = be16(buf, origin) if whole else VERSION_10
            known = version == VERSION_9 or version == VERSION_10
            row.version = U64(NETFLOW_9) if version == VERSION_9 else U64(IPFIX)
            refuse(row, CUT_HEADER if known else UNKNOWN_VERSION, origin, origin)
            counts[REPORTS] += U64(1)
            next_frame(state)
            continue
        domain = domains[U64(number)]
        version = be16(buf, origin)
        if state[AT] == NONE:
            why = begin_message(buf, origin, end, domain, version, state)
            if why:
                row = begin_row(reports, frame, domain, version, state, counts)
                refuse(row, why, origin, origin)
                next_frame(state)
                continue
        end = origin + state[END]
        while origin + state[AT] + SIZE_SET <= end:
            at = origin + state[AT]
            id_ = be16(buf, at)
            length = be16(buf, at + U64(2))
            if length < SIZE_SET or at + length > end:
                if id_ == NONE and length == NONE:
                    break  # padding of NetFlow 9
                row = begin_row(reports, frame, domain, version, state, counts)
                refuse(row, BAD_LENGTH if length < SIZE_SET else CUT, at, origin)
                state[UNKNOWN] = U64(1)
                break
            place = U64(slots[U64(number) * U64(IDS) + id_])
            if id_ < FIRST_DATA or place == NONE:
                state[AT] += length
                state[SET_ID], state[SET_AT], state[SET_END] = id_, at + SIZE_SET, at + length
                return OTHER_SET
            template = templates[place - U64(1)]
            room = length // max(U64(template.size), U64(8)) + U64(4)
            if min(U64(len(reports)) - counts[REPORTS], U64(len(hops)) - counts[HOPS]) < room:
                return FULL
            first = (place - U64(1)) * U64(FIELDS)
            read_set(
                buf, origin, at + SIZE_SET, at + length, frame, domain, version, template, fields, first,
                values, reports, hops, state, counts,
            )  # fmt: skip
            state[AT] += length
        if state[ROWS] == NONE:
            begin_row(reports, frame, domain, version, state, counts)
        end_message(reports, domain, version, state)
        next_frame(state)
    return DONE

"""sFlow datagrams to REPORT and HOP rows: a row for each flow sample, discarded packet, or interface with a
known utilisation.

===================== ==========================================================================
`buf`, `origin`       all bytes, and offset of the datagram; `at`, `end`: range that is read now
`row`, `hops`         the REPORT that is written, HOP [n]; `first`: the next free hop
`table`, `plans`      the dialect and the memory of the packet decoder, see `decode_kernel`
`nodes`               NODE_OF [n]: node ids of agents
`samplers`            SAMPLER [power of two]; `interfaces`: INTERFACE [power of two]
`keys`                uint64 [2]: keys of their hash
`counts`              uint64 [Count]: results
===================== ==========================================================================
"""

from ...base.kernels.jit import U32, U64, be32, be64, clear, inlined, kernel
from ...base.keyed_kernel import spread, weigh
from ..decode.inner_kernel import inner
from ..headers.packet_kernel import MAPPED, NONE, byte, code, get, refuse, word
from ..headers.tunnel_kernel import FOUR, FRAME, SIX
from ..reasons import Place, Reason
from ..records import Carried, Flag, Have, Kind
from ..versions import SFLOW
from . import layout
from .records import Count

CUT_HEADER, CUT = (
    code(Reason.TRUNCATED, Place.REPORT_HEADER),
    code(Reason.TRUNCATED, Place.SFLOW),
)
BAD_LENGTH = code(Reason.BAD_LENGTH, Place.SFLOW)
UNKNOWN_VERSION = code(Reason.UNKNOWN_VERSION, Place.REPORT_HEADER)
UNKNOWN_ADDRESS = code(Reason.UNKNOWN_TYPE, Place.REPORT_HEADER)
TRUNCATED = U64(Reason.TRUNCATED)
HAS_NODE, HAS_FLOW, HAS_PORTS = U64(Carried.NODE_ID), U64(Carried.FLOW), U64(Carried.PORTS)
HAS_OWN, HAS_REASON = U64(Carried.OWN_HOP), U64(Carried.DROP_REASON)
DROPPED, DROP, INNER = U64(Flag.DROPPED), U64(Kind.DROP), U64(Kind.INNER)
NODE, PORTS, L2_PORTS = U64(Have.NODE_ID), U64(Have.PORTS), U64(Have.L2_PORTS)
LATENCY, OCCUPANCY = U64(Have.HOP_LATENCY), U64(Have.QUEUE_OCCUPANCY)
UTILIZATION = U64(Have.TX_UTILIZATION)
REPORTS, HOPS = U64(Count.REPORTS), U64(Count.HOPS)
FLOW_SAMPLES, COUNTER_SAMPLES = U64(Count.FLOW_SAMPLES), U64(Count.COUNTER_SAMPLES)
DISCARDED_PACKETS, OTHER_SAMPLES = U64(Count.DISCARDED_PACKETS), U64(Count.OTHER_SAMPLES)
POOL, LOST_SAMPLES, PORT_DISCARDS = U64(Count.POOL), U64(Count.LOST_SAMPLES), U64(Count.PORT_DISCARDS)

VERSION, VERSION_5 = U64(SFLOW), U64(layout.VERSION)
ADDRESS_NONE, ADDRESS_IPV4, ADDRESS_IPV6 = (
    U64(layout.ADDRESS_NONE),
    U64(layout.ADDRESS_IPV4),
    U64(layout.ADDRESS_IPV6),
)
RAW_ETHERNET, RAW_IPV4, RAW_IPV6 = U64(layout.ETHERNET), U64(layout.IPV4), U64(layout.IPV6)
SIZE_DATAGRAM = U64(layout.DATAGRAM.size)
ADDRESS_TYPE = word(layout.DATAGRAM, "address_type")
SUB_AGENT, SEQUENCE = word(layout.AGENT, "sub_agent"), word(layout.AGENT, "sequence")
UPTIME, SAMPLES = word(layout.AGENT, "uptime"), word(layout.AGENT, "samples")
FORMAT, LENGTH = word(layout.SAMPLE, "format"), word(layout.SAMPLE, "length")
SIZE_SAMPLE, SIZE_AGENT = U64(layout.SAMPLE.size), U64(layout.AGENT.size)
RATE, FLOW_POOL, DROPS, INPUT, OUTPUT = (
    word(layout.FLOW, name) for name in ("rate", "pool", "drops", "input", "output")
)
SOURCE, FLOW_RECORDS = word(layout.FLOW, "source"), word(layout.FLOW, "records")
WIDE_SOURCE, WIDE_RATE, WIDE_POOL, WIDE_DROPS = (
    word(layout.EXPANDED_FLOW, name) for name in ("source", "rate", "pool", "drops")
)
WIDE_INPUT, WIDE_INPUT_FORMAT = (
    word(layout.EXPANDED_FLOW, "input"),
    word(layout.EXPANDED_FLOW, "input_format"),
)
WIDE_OUTPUT, WIDE_OUTPUT_FORMAT = (
    word(layout.EXPANDED_FLOW, "output"),
    word(layout.EXPANDED_FLOW, "output_format"),
)
WIDE_RECORDS = word(layout.EXPANDED_FLOW, "records")
DISCARD_INPUT, DISCARD_OUTPUT = word(layout.DISCARD, "input"), word(layout.DISCARD, "output")
DISCARD_REASON, DISCARD_RECORDS = word(layout.DISCARD, "reason"), word(layout.DISCARD, "records")
DISCARD_SOURCE, DISCARD_DROPS = word(layout.DISCARD, "source"), word(layout.DISCARD, "drops")
COUNTER_RECORDS, WIDE_COUNTER_RECORDS = (
    word(layout.COUNTERS, "records"),
    word(layout.EXPANDED_COUNTERS, "records"),
)
SIZE_FLOW, SIZE_WIDE_FLOW, SIZE_DISCARD, SIZE_COUNTERS, SIZE_WIDE_COUNTERS = (
    U64(one.size)
    for one in (
        layout.FLOW, layout.EXPANDED_FLOW, layout.DISCARD, layout.COUNTERS, layout.EXPANDED_COUNTERS,
    )
)  # fmt: skip
FLOW, WIDE_FLOW, DISCARD = (
    U64(layout.FLOW_SAMPLE),
    U64(layout.EXPANDED_FLOW_SAMPLE),
    U64(layout.DISCARDED_PACKET),
)
COUNTER, WIDE_COUNTER = U64(layout.COUNTER_SAMPLE), U64(layout.EXPANDED_COUNTER_SAMPLE)
RAW_PACKET, IPV4_DATA, IPV6_DATA = (
    U64(layout.RAW_PACKET),
    U64(layout.SAMPLED_IPV4),
    U64(layout.SAMPLED_IPV6),
)
EGRESS_QUEUE, TRANSIT_DELAY, QUEUE_DEPTH = (
    U64(layout.EGRESS_QUEUE),
    U64(layout.TRANSIT_DELAY),
    U64(layout.QUEUE_DEPTH),
)
PROTOCOL, FRAME_LENGTH, STRIPPED, HEADER_LENGTH = (
    word(layout.RAW, name) for name in ("protocol", "frame_length", "stripped", "length")
)
SIZE_RAW, SIZE_IPV4, SIZE_IPV6 = U64(layout.RAW.size), U64(layout.IPV4_DATA.size), U64(layout.IPV6_DATA.size)
DATA_LENGTH, DATA_PROTOCOL = word(layout.IPV4_DATA, "length"), word(layout.IPV4_DATA, "protocol")
V4_SOURCE, V4_DESTINATION, V4_SPORT, V4_DPORT = (
    byte(layout.IPV4_DATA, name) for name in ("source", "destination", "sport", "dport")
)
V6_SOURCE, V6_DESTINATION, V6_SPORT, V6_DPORT = (
    byte(layout.IPV6_DATA, name) for name in ("source", "destination", "sport", "dport")
)
INTERFACE, SIZE_IF = U64(layout.INTERFACE), U64(layout.IF_COUNTERS.size)
IF_INDEX, IN_DISCARDS, OUT_DISCARDS = (
    word(layout.IF_COUNTERS, name) for name in ("index", "in_discards", "out_discards")
)
SPEED, OUT_OCTETS = byte(layout.IF_COUNTERS, "speed"), byte(layout.IF_COUNTERS, "out_octets")

FEW, LOW_30, LOW_32 = U64(8), U64((1 << 30) - 1), U64(0xFFFFFFFF)
LAST_PORT = U64(0xFFFE)
NO_DELAY = LOW_32
UNKNOWN_OCTETS = U64((1 << 64) - 1)
HALF = U64(1 << 31)
LONGEST_MS = U64(3_600_000)
"""Longest time between two counter samples that are compared."""
LATEST_MS = U64(10_000)
"""Most that a flow sample can be late, or an uptime ahead of our clock; beyond it, the agent restarted."""
TCP, UDP = U64(6), U64(17)


@inlined
def fold(number):
    """A number of 32 bits folded to 8, for `hw_id`."""
    number ^= number >> U64(16)
    return (number ^ (number >> U64(8))) & U64(0xFF)


@kernel
def node_of_agent(nodes, hi, lo):
    """Node id of an agent: from the settings, else the last 32 bits of its address."""
    for k in range(len(nodes)):
        if nodes[U64(k)].hi == hi and nodes[U64(k)].lo == lo:
            return U64(nodes[U64(k)].node_id)
    return lo & LOW_32


@kernel
def remembered(rows, node, index, keys, now):
    """(place of a data source or interface, whether it is new). A new one takes an empty place of eight,
    else the place of the oldest.
    """
    mask = U64(len(rows)) - U64(1)
    at = spread(weigh(keys, 0, (node << U64(32)) | index)) & mask
    best = at
    for _ in range(FEW):
        row = rows[at]
        if row.last_ns == 0:
            best = at
            break
        if U64(row.node_id) == node and U64(row.index) == index:
            return at, False
        if row.last_ns < rows[best].last_ns:
            best = at
        at = (at + U64(1)) & mask
    clear(rows[best])
    rows[best].node_id = U32(node)
    rows[best].index = U32(index)
    rows[best].last_ns = now
    return best, True


@inlined
def gained(new, old):
    """Increase of a counter of 32 bits; 0 if it was set back."""
    more = (new - old) & LOW_32
    return more if more < HALF else NONE


@kernel
def count_sampler(samplers, keys, node, source, uptime, now, pool, drops, counts):
    """Count the packets that a data source could have sampled, and the samples that it lost, since its
    previous sample; none across a restart of the agent. A late sample is not counted.
    """
    at, new = remembered(samplers, node, source, keys, now)
    one = samplers[at]
    behind = (U64(one.uptime) - uptime) & LOW_32
    if not new:
        if behind != NONE and behind <= LATEST_MS:
            return
        passed = U64(max(now - one.last_ns, 0)) // U64(1_000_000)
        if (uptime - U64(one.uptime)) & LOW_32 <= passed + LATEST_MS:
            counts[POOL] += gained(pool, U64(one.pool))
            counts[LOST_SAMPLES] += gained(drops, U64(one.drops))
    one.uptime = U32(uptime)
    one.pool = U32(pool)
    one.drops = U32(drops)
    one.last_ns = now


@inlined
def put_ports(hop, port_in, port_out):
    """Write ports that are known (not 0); ifIndexes above 16 bits become logical ports."""
    if port_out == NONE:
        return
    if port_in <= LAST_PORT and port_out <= LAST_PORT:
        hop.ingress_port = port_in
        hop.egress_port = port_out
        hop.present |= PORTS
    else:
        hop.l2_ingress_port = port_in
        hop.l2_egress_port = port_out
        hop.present |= L2_PORTS


@kernel
def read_header(buf, origin, at, stop, row, table, plans, hops, first):
    """Read the flow of a sampled header into the row; bytes that the sampler has cut off are not damage."""
    protocol = get(buf, at, PROTOCOL)
    length = get(buf, at, HEADER_LENGTH)
    type_ = FRAME
    if protocol == RAW_IPV4:
        type_ = FOUR
    elif protocol == RAW_IPV6:
        type_ = SIX
    elif protocol != RAW_ETHERNET:
        return
    begin = at + SIZE_RAW
    if begin + length > stop:
        refuse(row, BAD_LENGTH, at, origin)
        return
    inner(buf, origin, begin, begin + length, type_, row, table, plans, hops, first)
    row.int_version = NONE
    row.int_mode = NONE
    row.packet_id = NONE
    cut = length + get(buf, at, STRIPPED) < get(buf, at, FRAME_LENGTH)
    if U64(row.reason) == TRUNCATED and cut:
        row.reason = NONE
        row.place = NONE
        row.reason_at = NONE


@inlined
def read_addresses(buf, at, version, row):
    """Write the flow of a packet whose header the agent has read."""
    sport, dport = NONE, NONE
    if version == U64(4):
        row.src_lo = MAPPED | be32(buf, at + V4_SOURCE)
        row.dst_lo = MAPPED | be32(buf, at + V4_DESTINATION)
        sport, dport = be32(buf, at + V4_SPORT), be32(buf, at + V4_DPORT)
    else:
        row.src_hi = be64(buf, at + V6_SOURCE)
        row.src_lo = be64(buf, at + V6_SOURCE + U64(8))
        row.dst_hi = be64(buf, at + V6_DESTINATION)
        row.dst_lo = be64(buf, at + V6_DESTINATION + U64(8))
        sport, dport = be32(buf, at + V6_SPORT), be32(buf, at + V6_DPORT)
    protocol = get(buf, at, DATA_PROTOCOL)
    row.proto = protocol
    row.ip_version = version
    row.inner_length = get(buf, at, DATA_LENGTH)
    carried = U64(row.carried) | HAS_FLOW
    if protocol == TCP or protocol == UDP:
        row.sport = sport
        row.dport = dport
        carried |= HAS_PORTS
    row.carried = carried


@kernel
def read_records(buf, origin, at, end, count, row, table, plans, hops, first):
    """Read the records of a flow sample into the row and its hop, whose ports are already set."""
    queue, depth, delay = NONE, NO_DELAY, NO_DELAY
    for _ in range(count):
        if at + SIZE_SAMPLE > end:
            refuse(row, CUT, at, origin)
            return
        format_ = get(buf, at, FORMAT)
        size = get(buf, at, LENGTH)
        body = at + SIZE_SAMPLE
        if body + size > end:
            refuse(row, CUT, at, origin)
            return
        least = NONE
        if format_ == RAW_PACKET:
            least = SIZE_RAW
        elif format_ == IPV4_DATA:
            least = SIZE_IPV4
        elif format_ == IPV6_DATA:
            least = SIZE_IPV6
        elif format_ == EGRESS_QUEUE or format_ == TRANSIT_DELAY or format_ == QUEUE_DEPTH:
            least = U64(4)
        if size < least:
            refuse(row, BAD_LENGTH, at, origin)
            return
        if format_ == RAW_PACKET:
            if not U64(row.carried) & HAS_FLOW:
                read_header(buf, origin, body, body + size, row, table, plans, hops, first + U64(1))
            if row.reason != 0:
                return
        elif format_ == IPV4_DATA or format_ == IPV6_DATA:
            if not U64(row.carried) & HAS_FLOW:
                read_addresses(buf, body, U64(4) if format_ == IPV4_DATA else U64(6), row)
        elif format_ == EGRESS_QUEUE:
            queue = be32(buf, body)
        elif format_ == TRANSIT_DELAY:
            delay = be32(buf, body)
        elif format_ == QUEUE_DEPTH:
            depth = be32(buf, body)
        at = body + ((size + U64(3)) & ~U64(3))
    hop = hops[first]
    if delay != NO_DELAY:
        hop.hop_latency = delay
        hop.present |= LATENCY
    if depth != NO_DELAY:
        hop.queue_id = queue & U64(0xFF)
        hop.queue_occupancy = depth
        hop.present |= OCCUPANCY


@kernel
def flow_sample(
    buf, origin, at, stop, format_, node, row, table, plans, uptime, hops, first, samplers, keys, counts
):
    """Read a flow sample or a discarded packet; returns the next free hop."""
    size = SIZE_FLOW
    if format_ == WIDE_FLOW:
        size = SIZE_WIDE_FLOW
    elif format_ == DISCARD:
        size = SIZE_DISCARD
    if at + size > stop:
        refuse(row, BAD_LENGTH, at, origin)
        return first
    source, rate, pool, drops, dropped, reason = NONE, U64(1), NONE, NONE, False, NONE
    if format_ == FLOW:
        source = get(buf, at, SOURCE)
        rate, pool, drops = get(buf, at, RATE), get(buf, at, FLOW_POOL), get(buf, at, DROPS)
        port_in, port_out = get(buf, at, INPUT), get(buf, at, OUTPUT)
        form_in, form_out = port_in >> U64(30), port_out >> U64(30)
        port_in &= LOW_30
        port_out &= LOW_30
        count = get(buf, at, FLOW_RECORDS)
    elif format_ == WIDE_FLOW:
        source = get(buf, at, WIDE_SOURCE)
        rate, pool, drops = get(buf, at, WIDE_RATE), get(buf, at, WIDE_POOL), get(buf, at, WIDE_DROPS)
        port_in, port_out = get(buf, at, WIDE_INPUT), get(buf, at, WIDE_OUTPUT)
        form_in, form_out = get(buf, at, WIDE_INPUT_FORMAT), get(buf, at, WIDE_OUTPUT_FORMAT)
        count = get(buf, at, WIDE_RECORDS)
    else:
        source, drops = get(buf, at, DISCARD_SOURCE), get(buf, at, DISCARD_DROPS)
        port_in, port_out = get(buf, at, DISCARD_INPUT), get(buf, at, DISCARD_OUTPUT)
        form_in, form_out = NONE, NONE
        dropped, reason = True, get(buf, at, DISCARD_REASON)
        count = get(buf, at, DISCARD_RECORDS)
    if form_out == U64(1):
        dropped, reason = True, port_out
    if form_in or port_in == LOW_30:
        port_in = NONE
    if form_out or port_out == LOW_30:
        port_out = NONE
    hop = hops[first]
    clear(hop)
    hop.node_id = node
    hop.present = NODE
    put_ports(hop, port_in, port_out)
    read_records(buf, origin, at + size, stop, count, row, table, plans, hops, first)
    if row.reason != 0:
        return first
    if format_ == DISCARD:  # its counter of lost notifications differs from that of flow samples
        source |= HALF
    count_sampler(samplers, keys, node, source, uptime, row.time_ns, pool, drops, counts)
    if dropped:
        row.kind = DROP
        row.flags = DROPPED
        row.drop_reason = reason if reason < U64(256) else min(reason - U64(128), U64(255))
        row.carried = U64(row.carried) | HAS_OWN | HAS_REASON
        counts[DISCARDED_PACKETS] += U64(1)
    else:
        row.hop_count = U64(1)
        row.packet_id = max(rate, U64(1))
        counts[FLOW_SAMPLES] += U64(1)
    return first + U64(1)


@kernel
def interface_counters(buf, at, node, uptime, now, hops, first, interfaces, keys, counts):
    """Compare the counters of an interface with the previous ones; returns whether `first` became a hop with
    its utilisation, per mille.
    """
    index = get(buf, at, IF_INDEX)
    place, new = remembered(interfaces, node, index, keys, now)
    one = interfaces[place]
    octets, speed = be64(buf, at + OUT_OCTETS), be64(buf, at + SPEED)
    in_discards, out_discards = get(buf, at, IN_DISCARDS), get(buf, at, OUT_DISCARDS)
    elapsed = (uptime - U64(one.uptime)) & LOW_32
    known = False
    if not new:
        if elapsed == NONE:
            return False
        if elapsed <= LONGEST_MS and octets >= one.octets and octets != UNKNOWN_OCTETS:
            counts[PORT_DISCARDS] += gained(in_discards, U64(one.in_discards))
            counts[PORT_DISCARDS] += gained(out_discards, U64(one.out_discards))
            if speed:
                share = float(octets - one.octets) * 8e6 / (float(speed) * float(elapsed))
                hop = hops[first]
                clear(hop)
                hop.node_id = node
                hop.present = NODE
                put_ports(hop, NONE, index)
                hop.tx_utilization = U64(min(share + 0.5, 4e9))
                hop.present |= UTILIZATION
                known = True
    one.octets = octets
    one.uptime = U32(uptime)
    one.in_discards = U32(in_discards)
    one.out_discards = U32(out_discards)
    one.last_ns = now
    return known


@inlined
def begin_row(reports, index, number, frame, i, first):
    """Begin a row with the values that all rows of a datagram have; `number` counts them."""
    row = reports[index]
    clear(row)
    row.time_ns = frame.time_ns
    row.packet = i
    row.source_hi = frame.source_hi
    row.source_lo = frame.source_lo
    row.version = VERSION
    row.kind = INNER
    row.first_hop = first
    row.index = number
    return row


@inlined
def put_agent(row, node, sub_agent, sequence):
    """Write the values that all rows of an agent's datagram have."""
    row.node_id = node
    row.hw_id = fold(sub_agent)
    row.sequence = sequence
    row.carried = HAS_NODE


@kernel
def counter_sample(
    buf, origin, at, stop, wide, node, sub_agent, sequence, uptime, frame, i, begin, interfaces, keys,
    reports, hops, index, first, counts,
):  # fmt: skip
    """Read a counter sample: a row for each interface with a known utilisation, and one if it is damaged.

    Returns the next free rows of `reports` and `hops`.
    """
    row = begin_row(reports, index, index - begin, frame, i, first)
    put_agent(row, node, sub_agent, sequence)
    size = SIZE_WIDE_COUNTERS if wide else SIZE_COUNTERS
    if at + size > stop:
        refuse(row, BAD_LENGTH, at, origin)
        return index + U64(1), first
    count = get(buf, at, WIDE_COUNTER_RECORDS if wide else COUNTER_RECORDS)
    at += size
    for _ in range(count):
        if at + SIZE_SAMPLE > stop:
            refuse(row, CUT, at, origin)
            return index + U64(1), first
        length = get(buf, at, LENGTH)
        body = at + SIZE_SAMPLE
        if body + length > stop:
            refuse(row, CUT, at, origin)
            return index + U64(1), first
        if get(buf, at, FORMAT) == INTERFACE:
            if length < SIZE_IF:
                refuse(row, BAD_LENGTH, at, origin)
                return index + U64(1), first
            if interface_counters(
                buf, body, node, uptime, frame.time_ns, hops, first, interfaces, keys, counts
            ):
                row.hop_count = U64(1)
                first += U64(1)
                index += U64(1)
                row = begin_row(reports, index, index - begin, frame, i, first)
                put_agent(row, node, sub_agent, sequence)
        at = body + ((length + U64(3)) & ~U64(3))
    counts[COUNTER_SAMPLES] += U64(1)
    return index, first


@kernel
def read_datagram(buf, frame, i, table, plans, nodes, samplers, interfaces, keys, reports, hops, counts):
    """Write the rows of one datagram: at least one, so that its sequence number is checked.

    Returns the next free rows of `reports` and `hops`.
    """
    origin = U64(frame.offset)
    end = origin + U64(frame.length)
    begin, first = counts[REPORTS], counts[HOPS]
    index = begin
    row = begin_row(reports, index, NONE, frame, i, first)
    at = origin + SIZE_DATAGRAM
    if at > end:
        refuse(row, CUT_HEADER, origin, origin)
        return index + U64(1), first
    if be32(buf, origin) != VERSION_5:
        refuse(row, UNKNOWN_VERSION, origin, origin)
        return index + U64(1), first
    type_ = get(buf, origin, ADDRESS_TYPE)
    size = NONE
    if type_ == ADDRESS_IPV4:
        size = U64(4)
    elif type_ == ADDRESS_IPV6:
        size = U64(16)
    elif type_ != ADDRESS_NONE:
        refuse(row, UNKNOWN_ADDRESS, at, origin)
        return index + U64(1), first
    if at + size + SIZE_AGENT > end:
        refuse(row, CUT_HEADER, at, origin)
        return index + U64(1), first
    hi, lo = U64(frame.source_hi), U64(frame.source_lo)
    if size == U64(4):
        hi, lo = NONE, MAPPED | be32(buf, at)
    elif size:
        hi, lo = be64(buf, at), be64(buf, at + U64(8))
    at += size
    node = node_of_agent(nodes, hi, lo)
    sub_agent, sequence = get(buf, at, SUB_AGENT), get(buf, at, SEQUENCE)
    uptime, samples = get(buf, at, UPTIME), get(buf, at, SAMPLES)
    put_agent(row, node, sub_agent, sequence)
    at += SIZE_AGENT
    for _ in range(samples):
        row = begin_row(reports, index, index - begin, frame, i, first)
        put_agent(row, node, sub_agent, sequence)
        if at + SIZE_SAMPLE > end:
            refuse(row, CUT, at, origin)
            return index + U64(1), first
        format_ = get(buf, at, FORMAT)
        body = at + SIZE_SAMPLE
        stop = body + get(buf, at, LENGTH)
        if stop > end:
            refuse(row, CUT, at, origin)
            return index + U64(1), first
        if format_ == FLOW or format_ == WIDE_FLOW or format_ == DISCARD:
            first = flow_sample(
                buf, origin, body, stop, format_, node, row, table, plans, uptime, hops, first, samplers,
                keys, counts,
            )  # fmt: skip
            index += U64(1)
        elif format_ == COUNTER or format_ == WIDE_COUNTER:
            index, first = counter_sample(
                buf, origin, body, stop, format_ == WIDE_COUNTER, node, sub_agent, sequence, uptime, frame, i,
                begin, interfaces, keys, reports, hops, index, first, counts,
            )  # fmt: skip
        else:
            counts[OTHER_SAMPLES] += U64(1)
        at = stop
    if index == begin:
        row = begin_row(reports, index, NONE, frame, i, first)
        put_agent(row, node, sub_agent, sequence)
        index += U64(1)
    return index, first


@kernel
def decode_sflow(buf, frames, start, table, plans, nodes, samplers, interfaces, keys, reports, hops, counts):
    """Decode datagrams from `start` on; returns the datagram to continue with if a block is nearly full, else
    the number of datagrams. `counts` is increased.
    """
    most = min(U64(len(reports)), U64(len(hops)))
    for k in range(start, U64(len(frames))):
        i = U64(k)
        room = (U64(frames[i].length) >> U64(2)) + U64(4)
        if max(counts[REPORTS], counts[HOPS]) + room > most:
            return i
        counts[REPORTS], counts[HOPS] = read_datagram(
            buf, frames[i], i, table, plans, nodes, samplers, interfaces, keys, reports, hops, counts
        )
    return U64(len(frames))

"""TCP senders and receivers over the fabric's ports: one loop over events in order of time.

An event is a packet that reaches a port or a host, a timer that may have expired, or a write of an
application. Ports use `queueing_kernel.serve_one`: arrivals are in order of time, so queueing is exact.
"""

import math

from ..base.kernels.jit import U32, U64, kernel
from .queueing_kernel import serve_one, uniform
from .records import REPORT_STAGE, WIRE_OVERHEAD

HEADERS = 40
FIN, SYN, ACK = 1, 2, 16
PACKETS, EVENTS, TIMEOUTS = 0, 1, 2
"""Indices into `fill`."""
KINDS = 3
AT_PORT, TIMER, WRITES = 0, 1, 2
"""An event is row * KINDS + kind; the row is a packet's or a connection's."""
MIN_RTO, MAX_RTO, WINDOW = 0, 1, 2
"""Indices into `limits`: ps, ps, segments."""
DUPLICATES = 3
"""Duplicate acknowledgments that indicate a loss (RFC 5681 3.2)."""


@kernel
def push(heap, fill, time, event):
    """Add an event; events of the same ps are ordered by `event`."""
    at = fill[EVENTS]
    fill[EVENTS] += 1
    while at > 0:
        up = (at - 1) // 2
        if heap[up, 0] < time or (heap[up, 0] == time and heap[up, 1] <= event):
            break
        heap[at, 0], heap[at, 1] = heap[up, 0], heap[up, 1]
        at = up
    heap[at, 0], heap[at, 1] = time, event


@kernel
def drop_first(heap, fill):
    """Remove the earliest event."""
    fill[EVENTS] -= 1
    count = fill[EVENTS]
    time, event = heap[count, 0], heap[count, 1]
    at = 0
    while 2 * at + 1 < count:
        low = 2 * at + 1
        if low + 1 < count and (
            heap[low + 1, 0] < heap[low, 0]
            or (heap[low + 1, 0] == heap[low, 0] and heap[low + 1, 1] < heap[low, 1])
        ):
            low += 1
        if time < heap[low, 0] or (time == heap[low, 0] and event <= heap[low, 1]):
            break
        heap[at, 0], heap[at, 1] = heap[low, 0], heap[low, 1]
        at = low
    heap[at, 0], heap[at, 1] = time, event


@kernel
def emit(c, row, segment, is_ack, time, packets, log, fill):
    """Create a packet; returns its row. `is_ack`: 1 for an acknowledgment, whose `segment` is the expected
    one.
    """
    at = fill[PACKETS]
    fill[PACKETS] += 1
    packet, record = packets[at], log[at]
    last = c.segments
    payload = 0
    if is_ack == 0 and 0 < segment <= last:
        payload = c.bytes - (last - 1) * c.mss if segment == last else 0 + c.mss
    # bytes before a segment in the sequence space: the SYN, and the data of previous segments
    ahead = 0 if segment == 0 else 1 + min((segment - 1) * c.mss, c.bytes) + (1 if segment > last + 1 else 0)
    number = U64(c.acknowledgments) if is_ack == 1 else U64(c.sent)
    packet.time = time
    packet.number = (U64(2 * row + is_ack) << U64(32)) | number
    packet.flow = row
    packet.size = HEADERS + payload
    packet.trace = at
    packet.drop_reason = 0
    packet.drop_stage = 0
    packet.stage = 0
    packet.route = 2 * row + is_ack
    record.sent = time
    record.arrived = 0
    record.connection = row
    record.segment = segment
    record.payload = payload
    record.is_ack = is_ack
    record.is_retransmission = 0
    if is_ack == 1:
        c.acknowledgments += U32(1)
        record.sequence = U32(U64(c.peer_sequence) + U64(1))
        record.acknowledgment = U32(U64(c.sequence) + U64(ahead))
        record.flags = ACK
        return at
    c.sent += U32(1)
    record.sequence = U32(U64(c.sequence) + U64(ahead))
    record.acknowledgment = U32(U64(c.peer_sequence) + U64(1)) if segment > 0 else U32(0)
    record.flags = SYN if segment == 0 else ACK | FIN if segment > last else ACK
    if segment < c.high:
        record.is_retransmission = 1
        c.retransmissions += U32(1)
    return at


@kernel
def set_timer(c, row, deadline, heap, fill):
    """Restart the retransmission timer; 0: stop it."""
    c.deadline = deadline
    if deadline > 0 and (c.timer_at == 0 or deadline < c.timer_at):
        c.timer_at = deadline
        push(heap, fill, deadline, row * KINDS + TIMER)


@kernel
def transmit(c, row, segment, time, packets, log, heap, fill):
    """Send a segment, and measure its round trip unless another is being measured (Karn's algorithm)."""
    at = emit(c, row, segment, 0, time, packets, log, fill)
    push(heap, fill, time, at * KINDS + AT_PORT)
    if segment < c.high:
        c.timed = -1
    elif c.timed < 0:
        c.timed = segment
        c.timed_at = time
    c.high = max(c.high, segment + 1)
    if c.deadline == 0:
        set_timer(c, row, time + c.rto, heap, fill)


@kernel
def send_more(c, row, time, limits, packets, log, heap, fill):
    """Send as many segments as the window and the application allow."""
    allowed = 1
    if c.una > 0:
        allowed = c.segments + 2 if c.written == c.segments else c.written + 1
    window = min(int(c.cwnd), limits[WINDOW])
    while c.next < allowed and c.next - c.una < window:
        transmit(c, row, c.next, time, packets, log, heap, fill)
        c.next += 1


@kernel
def update_rtt(c, sample):
    """Update smoothed round-trip time and variation (RFC 6298 2)."""
    if c.srtt == 0:
        c.srtt = sample
        c.rttvar = sample // 2
    else:
        c.rttvar = (3 * c.rttvar + abs(c.srtt - sample)) // 4
        c.srtt = (7 * c.srtt + sample) // 8


@kernel
def on_acknowledgment(c, row, ack, time, limits, packets, log, heap, fill):
    """Process an acknowledgment: slow start, congestion avoidance, fast retransmit and recovery (RFC 5681,
    6582).
    """
    if ack > c.una:
        if c.timed >= 0 and ack > c.timed:
            update_rtt(c, time - c.timed_at)
            c.timed = -1
        if c.srtt > 0:
            c.rto = min(limits[MAX_RTO], max(limits[MIN_RTO], c.srtt + 4 * c.rttvar))
        new = ack - c.una
        c.una = ack
        c.next = max(c.next, ack)
        c.duplicates = 0
        if c.recovering == 1 and ack < c.recover:
            c.cwnd = max(1.0, c.cwnd - new + 1)
            transmit(c, row, c.una, time, packets, log, heap, fill)
        elif c.recovering == 1:
            c.recovering = 0
            c.cwnd = c.ssthresh
        elif c.cwnd < c.ssthresh:
            c.cwnd += new
        else:
            c.cwnd += new / c.cwnd
        c.cwnd = min(c.cwnd, float(limits[WINDOW]))
        set_timer(c, row, 0 if c.una == c.high else time + c.rto, heap, fill)
        if c.una == c.segments + 2:
            c.finished = time
        elif c.una == c.written + 1 and c.written < c.segments and c.waiting == 0:
            gap = -math.log(uniform(row, c.written, U64(7))) * c.pause
            c.waiting = 1
            push(heap, fill, time + int(gap), row * KINDS + WRITES)
    elif ack == c.una and c.una < c.high:
        c.duplicates += 1
        if c.recovering == 1:
            c.cwnd += 1.0
        elif c.duplicates == DUPLICATES and c.una >= c.recover:
            c.ssthresh = max((c.high - c.una) / 2.0, 2.0)
            c.cwnd = c.ssthresh + DUPLICATES
            c.recover = c.high
            c.recovering = 1
            c.fast_retransmits += U32(1)
            transmit(c, row, c.una, time, packets, log, heap, fill)
    send_more(c, row, time, limits, packets, log, heap, fill)


@kernel
def on_segment(c, row, segment, time, got, packets, log, heap, fill):
    """Process a segment at the receiver: deliver data in order, and acknowledge."""
    got[c.first + segment] = 1
    while c.expected < c.segments + 2 and got[c.first + c.expected] == 1:
        if c.expected == c.segments:
            c.delivered += c.bytes - (c.segments - 1) * c.mss
        elif 0 < c.expected < c.segments:
            c.delivered += c.mss
        c.expected += 1
    at = emit(c, row, c.expected, 1, time, packets, log, fill)
    if segment == 0:
        log[at].flags = ACK | SYN
        log[at].sequence = c.peer_sequence
    push(heap, fill, time, at * KINDS + AT_PORT)


@kernel
def on_timer(c, row, time, limits, timeouts, packets, log, heap, fill):
    """Process a timer's event: wait on if it was moved, retransmit if it expired (RFC 6298 5.4-5.6)."""
    if time != c.timer_at:
        return
    c.timer_at = 0
    if c.deadline == 0:
        return
    if c.deadline > time:
        set_timer(c, row, c.deadline, heap, fill)
        return
    record = timeouts[fill[TIMEOUTS]]
    fill[TIMEOUTS] += 1
    record.time, record.rto, record.connection, record.segment = time, c.rto, row, c.una
    c.timeouts += U32(1)
    c.ssthresh = max((c.high - c.una) / 2.0, 2.0)
    c.cwnd = 1.0
    c.next = c.una
    c.recover = c.high
    c.recovering = 0
    c.duplicates = 0
    c.timed = -1
    c.rto = min(2 * c.rto, limits[MAX_RTO])
    c.deadline = 0
    send_more(c, row, time, limits, packets, log, heap, fill)


@kernel
def on_port(c, row, at, time, limits, paths, got, ports, members, group_at, traces, packets, log, heap, fill):
    """Process a packet at the port of its stage, or after the last one at its host."""
    packet, record = packets[at], log[at]
    if packet.stage == REPORT_STAGE:
        record.arrived = time
        if record.is_ack == 1:
            on_acknowledgment(c, row, record.segment, time, limits, packets, log, heap, fill)
        else:
            on_segment(c, row, record.segment, time, got, packets, log, heap, fill)
        return
    stage = int(packet.stage)
    if stage == 0:
        packet.port = paths[packet.route, 0]
    port = ports[packet.port]
    serve_one(ports, members, group_at, traces, packet, paths, stage)
    if packet.drop_reason != 0:
        c.lost += U32(1)
        return
    when = packet.time
    if packet.stage == REPORT_STAGE:
        when += (packet.size + WIRE_OVERHEAD) * port.ps_per_byte + port.propagation
    push(heap, fill, when, at * KINDS + AT_PORT)


@kernel
def run(
    until, limits, connections, paths, got, ports, members, group_at, traces, packets, log, timeouts, heap,
    fill,
):  # fmt: skip
    """Process events before `until` (ps); returns False if an array has no room for the next."""
    max_sends = limits[WINDOW] + 2
    while fill[EVENTS] > 0 and heap[0, 0] < until:
        if (
            fill[PACKETS] + max_sends > len(packets)
            or fill[EVENTS] + max_sends + 2 > len(heap)
            or fill[TIMEOUTS] == len(timeouts)
        ):
            return False
        time, event = heap[0, 0], heap[0, 1]
        drop_first(heap, fill)
        at, kind = event // KINDS, event % KINDS
        if kind == AT_PORT:
            row = int(packets[at].flow)
            on_port(
                connections[row], row, at, time, limits, paths, got, ports, members, group_at, traces,
                packets, log, heap, fill,
            )  # fmt: skip
            continue
        c = connections[at]
        if kind == TIMER:
            on_timer(c, at, time, limits, timeouts, packets, log, heap, fill)
        else:
            c.waiting = 0
            c.written = min(c.segments, c.written + c.burst)
            send_more(c, at, time, limits, packets, log, heap, fill)
    return True

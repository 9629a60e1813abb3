"""Compiled loops of the fabric: flows send packets, ports serve them in order, the pool is compacted.

A port is a FIFO recurrence: ``start = max(ready, free); free = start + service``. It is exact if packets are
served in order of arrival. Where they pass through stages in one direction, `serve` serves all arrivals of a
stage in order of time, stage after stage. In any other topology, `serve_in_time` serves all arrivals in order
of time.
"""

import math

from ..base.kernels.jit import U64, inlined, kernel, mix64
from .records import REPORT_STAGE, WIRE_OVERHEAD, DropReason

INTERVAL_PS = 10_000_000_000
"""Interval in which link utilisation is measured: 10 ms."""
ROW_BITS = 24
"""Bits of a sort key that hold the packet's row; the others hold its time in the window."""
TAIL_DROP = int(DropReason.TRAFFIC_MANAGER)
PORT_FAULT = int(DropReason.PORT_FAULT)


@kernel
def uniform(serial, index, salt):
    """A number in (0, 1] that depends only on flow, packet and salt."""
    bits = mix64(mix64(U64(serial) * U64(0x9E3779B97F4A7C15) + U64(salt)) + U64(index))
    return (float(bits >> U64(11)) + 1.0) * (1.0 / 9007199254740992.0)


@kernel
def next_gap(flow, payload):
    """Time from this packet of a flow to its next, ps, by its rate; exponential if the flow is `random`."""
    gap = flow.ps_per_byte * payload
    if flow.random == 1:
        gap *= -math.log(uniform(flow.serial, flow.sent, U64(1)))
    return max(1, int(gap))


@kernel
def next_send(flow, payload):
    """Time of a flow's next packet after one with this payload, ps; after a burst, in its next period."""
    if flow.period > 0:
        flow.burst_sent += payload
        if flow.burst_sent >= flow.burst:
            flow.burst_sent = 0
            flow.burst_start += flow.period
            return flow.burst_start
    return flow.next + next_gap(flow, payload)


@kernel
def emit(flows, until, sample, packets, count, traces_free, free_count):
    """Send the packets due before `until`: (packets, free traces, flow at which a pool was full, or -1).

    `sample` is the share of a tracked flow's packets that carry INT, from 0 to 1.
    """
    limit = len(packets)
    for row in range(len(flows)):
        flow = flows[row]
        if flow.active == 0:
            continue
        while flow.next < until:
            if count == limit or free_count == 0:
                return count, free_count, row
            payload = min(flow.remaining, 0 + flow.payload)
            packet = packets[count]
            packet.time = flow.next
            packet.number = (flow.serial << U64(32)) | flow.sent
            packet.flow = row
            packet.size = payload + flow.headers
            packet.stage = 0
            packet.drop_reason = 0
            packet.trace = -1
            packet.route = row
            packet.port = flow.src_host
            if flow.tracked == 1 and uniform(flow.serial, flow.sent, U64(2)) <= sample:
                free_count -= 1
                packet.trace = traces_free[free_count]
            count += 1
            flow.pending += 1
            flow.remaining -= payload
            flow.next = next_send(flow, payload)
            flow.sent += U64(1)
            if flow.remaining <= 0:
                flow.active = 0
                break
    return count, free_count, -1


@kernel
def arrivals(packets, count, stage, start, until, found, ends, keys):
    """Sort keys (time since `start`, then row) of arrivals at `stage` before `until`, in order of time, in
    `keys`; returns their number.

    Keys are put into about as many equal spans of time as there are keys, and then in order, which takes 4 ns
    per key instead of 20 ns with np.sort. `found` and `ends` are work space; `found` is as long as the pool,
    `ends` one longer.
    """
    n = 0
    for row in range(count):
        packet = packets[row]
        if packet.stage == stage and packet.time < until:
            found[n] = (U64(packet.time - start) << U64(ROW_BITS)) | U64(row)
            n += 1
    if n == 0:
        return 0
    last = U64(until - start - 1) << U64(ROW_BITS)
    shift = U64(ROW_BITS)
    while (last >> shift) > U64(n):
        shift += U64(1)
    spans = (last >> shift) + U64(1)
    ends[:spans] = 0
    for i in range(n):
        ends[found[i] >> shift] += 1
    end = 0
    for span in range(spans):
        end += ends[span]
        ends[span] = end
    for i in range(n - 1, -1, -1):
        span = found[i] >> shift
        ends[span] -= 1
        keys[ends[span]] = found[i]
    settle(packets, keys, n)
    return n


@kernel
def settle(packets, keys, n):
    """Sort nearly sorted keys; those of the same ps by their packets' numbers, whatever their rows."""
    mask = (U64(1) << U64(ROW_BITS)) - U64(1)
    for i in range(1, n):
        key = keys[i]
        at = i
        while at > 0 and (keys[at - 1] >> U64(ROW_BITS)) >= (key >> U64(ROW_BITS)):
            before = keys[at - 1]
            if (before >> U64(ROW_BITS)) == (key >> U64(ROW_BITS)):
                if packets[before & mask].number < packets[key & mask].number:
                    break
            keys[at] = before
            at -= 1
        keys[at] = key


@kernel
def measure(port, start, service):
    """Add a packet's sending time to its interval; store the last complete interval's utilisation, per
    mille.
    """
    interval = start // INTERVAL_PS
    if interval != port.interval:
        port.utilization = min(1000, port.busy * 1000 // INTERVAL_PS) if interval == port.interval + 1 else 0
        port.interval = interval
        port.busy = 0
    port.busy += service


@kernel
def shared_bytes(ports, members, first, last, at):
    """Bytes in the queues of the ports that share a buffer, at a time."""
    total = 0
    for m in range(first, last):
        port = ports[members[m]]
        total += max(0, port.free - at) // port.ps_per_byte
    return total


@kernel
def drop_reason(port, packet, queued):
    """Reason why a port drops a packet; 0: it does not."""
    if port.loss > 0 and (mix64(packet.number + U64(0x5851F42D4C957F2D)) >> U64(32)) < U64(port.loss):
        return PORT_FAULT
    if queued + packet.size + WIRE_OVERHEAD > port.buffer:
        return TAIL_DROP
    return 0


@inlined
def serve_one(ports, members, group_at, traces, packet, paths, stage):
    """Process a packet at the port of its stage: it is dropped, or arrives at its next stage.

    It is inlined: a window of 67,000 hops then takes 1.7 ms, and 2.1 ms with a call for each hop. Its
    indices are unsigned: checks for negative ones would cost a twentieth of the time.
    """
    port = ports[U64(packet.port)]
    port.ready = max(port.ready, packet.time + port.pipeline + port.slow)
    start = max(port.ready, port.free)
    queued = (start - port.ready + port.ps_per_byte - 1) // port.ps_per_byte
    reason = drop_reason(port, packet, queued)
    if reason != 0:
        port.dropped += U64(1)
        packet.drop_reason = reason
        packet.drop_stage = stage
        packet.stage = REPORT_STAGE
        packet.time = port.ready
        return
    port.highest = max(port.highest, queued + packet.size + WIRE_OVERHEAD)
    service = (packet.size + WIRE_OVERHEAD) * port.ps_per_byte
    measure(port, start, service)
    if packet.trace >= 0:
        hop = traces[U64(packet.trace), U64(stage)]
        hop.ingress = packet.time
        hop.egress = start
        hop.occupancy = queued
        hop.utilization = port.utilization
        hop.buffer = 0
        if port.group >= 0:
            hop.buffer = shared_bytes(
                ports, members, group_at[port.group], group_at[port.group + 1], port.ready
            )
    port.free = start + service
    port.packets += U64(1)
    port.bytes += U64(packet.size)
    after = U64(stage) + U64(1)
    end = U64(paths.shape[1])
    while after < end and paths[packet.route, after] < 0:
        after += U64(1)
    if after == end:
        packet.stage = REPORT_STAGE
        packet.time = start
    else:
        packet.stage = after
        packet.port = paths[packet.route, after]
        packet.time = start + service + port.propagation


@kernel
def serve(packets, count, start, until, found, ends, keys, ports, members, group_at, traces, paths):
    """Serve the arrivals before `until`, stage after stage, in order of time; returns their number."""
    mask = (U64(1) << U64(ROW_BITS)) - U64(1)
    served = 0
    for stage in range(paths.shape[1]):
        n = arrivals(packets, count, stage, start, until, found, ends, keys)
        for i in range(n):
            serve_one(ports, members, group_at, traces, packets[keys[i] & mask], paths, stage)
        served += n
    return served


@kernel
def earlier(packets, one, other):
    """Whether the packet of a sort key comes before another; in the same ps, by their numbers."""
    if (one >> U64(ROW_BITS)) != (other >> U64(ROW_BITS)):
        return one < other
    mask = (U64(1) << U64(ROW_BITS)) - U64(1)
    return packets[one & mask].number < packets[other & mask].number


@kernel
def push(packets, heap, size, key):
    """Add a sort key to a heap of `size` keys."""
    at = size
    while at > 0:
        up = (at - 1) // 2
        if not earlier(packets, key, heap[up]):
            break
        heap[at] = heap[up]
        at = up
    heap[at] = key


@kernel
def drop_first(packets, heap, size):
    """Remove the earliest of `size` keys."""
    key = heap[size - 1]
    at = 0
    while 2 * at + 1 < size - 1:
        low = 2 * at + 1
        if low + 1 < size - 1 and earlier(packets, heap[low + 1], heap[low]):
            low += 1
        if not earlier(packets, heap[low], key):
            break
        heap[at] = heap[low]
        at = low
    heap[at] = key


@kernel
def serve_in_time(packets, count, start, until, heap, ends, keys, ports, members, group_at, traces, paths):
    """Serve the arrivals before `until` in order of time, whatever their stages; returns their number.

    Packets that hosts send are sorted first, so that the heap only holds those between two ports.
    """
    mask = (U64(1) << U64(ROW_BITS)) - U64(1)
    n = arrivals(packets, count, 0, start, until, heap, ends, keys)
    size = 0
    for row in range(count):
        packet = packets[row]
        if packet.stage > 0 and packet.stage != REPORT_STAGE and packet.time < until:
            push(packets, heap, size, (U64(packet.time - start) << U64(ROW_BITS)) | U64(row))
            size += 1
    at = 0
    served = 0
    while at < n or size > 0:
        if size == 0 or (at < n and earlier(packets, keys[at], heap[0])):
            key = keys[at]
            at += 1
        else:
            key = heap[0]
            drop_first(packets, heap, size)
            size -= 1
        packet = packets[key & mask]
        serve_one(ports, members, group_at, traces, packet, paths, int(packet.stage))
        served += 1
        if packet.stage != REPORT_STAGE and packet.time < until:
            push(packets, heap, size, (U64(packet.time - start) << U64(ROW_BITS)) | (key & mask))
            size += 1
    return served


@kernel
def retire(packets, count, until, flows, traces_free, free_count):
    """Remove reported packets from the pool; (packets that stay, free traces, delivered, dropped)."""
    kept = 0
    delivered = 0
    dropped = 0
    for row in range(count):
        packet = packets[row]
        if packet.stage == REPORT_STAGE and packet.time < until:
            flows[packet.flow].pending -= 1
            if packet.trace >= 0:
                traces_free[free_count] = packet.trace
                free_count += 1
            if packet.drop_reason != 0:
                dropped += 1
            else:
                delivered += 1
        else:
            if kept != row:
                packets[kept] = packets[row]
            kept += 1
    return kept, free_count, delivered, dropped


@kernel
def reportable(packets, keys, out):
    """Rows of the sorted packets to report (with INT, or dropped), in `out`; returns their number."""
    mask = (U64(1) << U64(ROW_BITS)) - U64(1)
    n = 0
    for i in range(len(keys)):
        row = keys[i] & mask
        if packets[row].trace >= 0 or packets[row].drop_reason != 0:
            out[n] = row
            n += 1
    return n

"""One packet at one port: FIFO queue, label, link, then the next port or the controller."""

from __future__ import annotations

from typing import Any

from ....base.kernels.jit import I64, U64, inlined, kernel, mix64
from ....labels.rule_kernel import wants_label
from ...records import PS_NS, WIRE_OVERHEAD
from .pool_kernel import drop, export, forward, free_packet, split, take_label
from .records import HISTOGRAM, IP_HEADER, Count, EngineSlot, PortFlag, SourceFlag, StopReason, TooLong

PROBE = int(SourceFlag.PROBE)
LABEL_ALWAYS = int(SourceFlag.LABEL_ALWAYS)
LABEL_NEVER = int(SourceFlag.LABEL_NEVER)
TRACKED = int(SourceFlag.TRACKED)
FRAGMENT = int(SourceFlag.FRAGMENT)
SWITCH = int(PortFlag.SWITCH)
LAST_HOP = int(PortFlag.LAST_HOP)
DOWN = int(PortFlag.DOWN)
LOSE_ALL = int(PortFlag.LOSE_ALL)
PROBES = int(Count.PROBES)
DELIVERED = int(Count.DELIVERED)
TAIL_DROP = int(Count.TAIL_DROP)
LOST = int(Count.LOST)
LINK_DOWN = int(Count.LINK_DOWN)
FRAGMENTS = int(Count.FRAGMENTS)
LABELLED_PACKETS = int(Count.LABELLED_PACKETS)
LABELS = int(Count.LABELS)
SKIPPED = int(Count.SKIPPED)
HOPS = int(Count.HOPS)
BYTES = int(Count.BYTES)
LABEL_BYTES = int(Count.LABEL_BYTES)
FREE_PACKETS = int(EngineSlot.FREE_PACKETS)
FREE_LABELS = int(EngineSlot.FREE_LABELS)
LOGGED = int(EngineSlot.LOGGED)
FULL_PACKETS = int(StopReason.PACKETS)
FULL_LABELS = int(StopReason.LABELS)
FULL_LOG = int(StopReason.LOG)
FRAGMENTED = int(TooLong.FRAGMENT)
HISTOGRAM_LAST = HISTOGRAM - 1
MAX_LATENCY = (1 << 32) - 1
SALT_CHANCE = 0x9E3779B97F4A7C15
SALT_LOSS = 0xD1B54A32D192ED03
SALT_JITTER = 0x8CB92BA72F3D8DD7


@inlined
def random_bits(seed, packet, port, salt):
    """64 random bits that depend only on packet (or its second fragment), port and purpose."""
    part = U64(packet.flags & FRAGMENT) << U64(40)
    return mix64(mix64(packet.number ^ seed ^ U64(salt)) + U64(port) + part)


@inlined
def missing_room(packet, node, net):
    """The pool that may be too small for this packet at this port, a StopReason; 0: none."""
    labels = I64(packet.count) + 1
    copies: Any = max(1, 2 * I64(node.copies) - 1)  # copies of the packet and of its second fragment
    if net.state[FREE_PACKETS] < copies:
        return FULL_PACKETS
    if net.state[FREE_LABELS] < copies * labels:
        return FULL_LABELS
    if net.state[LOGGED] + labels > len(net.log):
        return FULL_LOG
    return 0


@inlined
def wants_port_label(packet, node, port, start, net, custom):
    """Whether this port labels this packet, apart from its length."""
    setup = net.setup[0]
    flags = packet.flags
    if (port.flags & SWITCH) == 0 or (flags & LABEL_NEVER) != 0:
        return False
    if (flags & LABEL_ALWAYS) != 0:
        return True
    count = I64(packet.count)
    if count >= setup.max_hop:
        return False
    if (flags & TRACKED) != 0:
        count += setup.max_hop
    random = float(random_bits(setup.seed, packet, node.port, SALT_CHANCE) >> U64(11)) / 9007199254740992.0
    return wants_label(
        count, start, port.last, setup.interval, I64(port.shift), setup.rest, setup.chance, setup.max_hop,
        random, net.table, custom,
    )  # fmt: skip


@kernel
def fragment_for_label(row, kind, net):
    """Fragment a packet that a label would make too long: row of the second fragment; -1: no label.

    The first fragment has room for all labels of a path, so that it is not fragmented again.
    """
    setup = net.setup[0]
    first_bytes = setup.mtu - IP_HEADER - setup.option_bytes - setup.item_bytes * setup.max_hop
    first_bytes = IP_HEADER + first_bytes // 8 * 8
    if (
        setup.too_long != FRAGMENTED
        or first_bytes < IP_HEADER + 8
        or net.packets[row].count > 0
        or net.packets[row].size <= first_bytes
    ):
        net.counts[kind + SKIPPED] += 1
        return -1
    net.counts[kind + FRAGMENTS] += 1
    return split(row, first_bytes, net)


@inlined
def write_label(packet, node, port, start, queued, net):
    """Write the port's label, and its time to Reg1."""
    at = take_label(net)
    label = net.labels[at]
    label.time = start
    label.next = packet.labels
    label.port = node.port
    label.ingress = node.ingress
    label.latency = min((start - packet.time) // PS_NS, MAX_LATENCY)
    label.occupancy = queued
    packet.labels = at
    packet.count += 1
    port.last = start
    port.labels += 1


@inlined
def send(row, size, start, kind, net):
    """Send a packet into the link; `size`: its IP length there, with labels."""
    setup = net.setup[0]
    packet = net.packets[row]
    node = net.routes[packet.node]
    port = net.ports[node.port]
    port.free = start + (size + WIRE_OVERHEAD) * I64(port.ps_per_byte)
    port.packets += U64(1)
    net.counts[kind + HOPS] += 1
    net.counts[kind + BYTES] += I64(packet.size)
    net.counts[kind + LABEL_BYTES] += size - I64(packet.size)
    if (port.flags & SWITCH) != 0 and packet.hops < 255:
        packet.hops += 1
    if kind == 0 and start >= port.interval_end:
        interval = start // setup.telemetry
        port.interval_end = (interval + 1) * setup.telemetry
        net.active[interval, node.port] = 1
    if port.loss > 0 and (
        (port.flags & LOSE_ALL) != 0
        or (random_bits(setup.seed, packet, node.port, SALT_LOSS) >> U64(32)) < U64(port.loss)
    ):
        drop(row, LOST, kind, net)
        return
    arrival = port.free + setup.propagation
    if node.next >= 0:
        forward(row, arrival, kind, net)
        return
    net.counts[kind + DELIVERED] += 1
    if packet.labels >= 0:
        net.counts[kind + LABELLED_PACKETS] += 1
        export(packet, arrival, arrival + setup.export, net)
    free_packet(row, net)


@inlined
def serve(row, net, custom):
    """Process one packet at the port of its node. Returns 0, or the pool that is too small (nothing was
    done).
    """
    setup = net.setup[0]
    packet = net.packets[row]
    node = net.routes[packet.node]
    reason = missing_room(packet, node, net)
    if reason != 0:
        return reason
    port = net.ports[node.port]
    kind = PROBES if (packet.flags & PROBE) != 0 else 0
    if (port.flags & DOWN) != 0:
        drop(row, LINK_DOWN, kind, net)
        return 0
    delay = setup.pipeline
    if setup.jitter > 0:
        jitter = random_bits(setup.seed, packet, node.port, SALT_JITTER) % U64(setup.jitter + 1)
        delay += I64(jitter)
    ready = max(port.ready, packet.time + delay)
    port.ready = ready
    start = max(ready, port.free)
    labels = I64(packet.count)
    size = I64(packet.size)
    if labels > 0:
        size += setup.option_bytes + labels * setup.item_bytes
    byte = I64(port.ps_per_byte)
    if start - ready + (size + WIRE_OVERHEAD) * byte > I64(port.buffer) * byte:
        drop(row, TAIL_DROP, kind, net)
        return 0
    rest = -1
    if wants_port_label(packet, node, port, start, net, custom):
        longer = setup.item_bytes + (setup.option_bytes if labels == 0 else 0)
        write = True
        if (packet.flags & LABEL_ALWAYS) == 0 and (port.flags & LAST_HOP) == 0 and size + longer > setup.mtu:
            rest = fragment_for_label(row, kind, net)
            write = rest >= 0
            if write:
                size = I64(packet.size)
            elif labels == 0:
                packet.flags &= 255 ^ TRACKED  # INT_num starts at MAX_hop only with the first switch's label
        if write:
            write_label(packet, node, port, start, (start - ready + byte - 1) // byte, net)
            net.counts[kind + LABELS] += 1
            size += longer
    if (port.flags & LAST_HOP) != 0:
        if kind == 0:
            net.histogram[
                min(I64(packet.hops) + 1, HISTOGRAM_LAST), min(I64(packet.count), HISTOGRAM_LAST)
            ] += 1
        if packet.labels >= 0:
            net.counts[kind + LABELLED_PACKETS] += 1
            export(packet, start, start + setup.export, net)
            size = I64(packet.size)
            packet.count = 0
    send(row, size, start, kind, net)  # fmt: skip
    if rest >= 0:
        second = net.packets[rest]
        send(rest, I64(second.size), port.free, kind, net)  # fmt: skip
    return 0

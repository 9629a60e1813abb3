"""One packet at one port: FIFO queue, label, link, and on to the next port or off to the controller."""

from __future__ import annotations

from typing import Any

from ....base.jit import I64, U64, inlined, kernel, mix64
from ....labels.rule_kernel import wants_label
from ...records import PS_NS, WIRE_OVERHEAD
from .pool_kernel import drop, export, free_packet, onward, split, take_label
from .records import HISTOGRAM, IP_HEADER, Count, PortFlag, SourceFlag, State, Stop, TooLong

PROBE = int(SourceFlag.PROBE)
ALWAYS = int(SourceFlag.ALWAYS)
UNLABELLED = int(SourceFlag.NEVER)
TRACKED = int(SourceFlag.TRACKED)
FRAGMENT = int(SourceFlag.FRAGMENT)
SWITCH = int(PortFlag.SWITCH)
LAST = int(PortFlag.LAST)
DOWN = int(PortFlag.DOWN)
LOSE_ALL = int(PortFlag.LOSE_ALL)
PROBES = int(Count.PROBES)
DELIVERED = int(Count.DELIVERED)
TAIL_DROP = int(Count.TAIL_DROP)
LOST = int(Count.LOST)
LINK_DOWN = int(Count.LINK_DOWN)
FRAGMENTS = int(Count.FRAGMENTS)
LABELLED = int(Count.LABELLED)
LABELS = int(Count.LABELS)
SKIPPED = int(Count.SKIPPED)
HOPS = int(Count.HOPS)
BYTES = int(Count.BYTES)
LABEL_BYTES = int(Count.LABEL_BYTES)
FREE_PACKETS = int(State.FREE_PACKETS)
FREE_LABELS = int(State.FREE_LABELS)
LOGGED = int(State.LOGGED)
FULL_PACKETS = int(Stop.PACKETS)
FULL_LABELS = int(Stop.LABELS)
FULL_LOG = int(Stop.LOG)
FRAGMENTED = int(TooLong.FRAGMENT)
LAST_PLACE = HISTOGRAM - 1
MOST_LATENCY = (1 << 32) - 1
SALT_CHANCE = 0x9E3779B97F4A7C15
SALT_LOSS = 0xD1B54A32D192ED03
SALT_JITTER = 0x8CB92BA72F3D8DD7


@inlined
def drawn(seed: Any, packet: Any, port: Any, salt: Any) -> Any:
    """64 random bits that depend on packet (or the rest cut off from it), port and purpose only."""
    part = U64(packet.flags & FRAGMENT) << U64(40)
    return mix64(mix64(packet.number ^ seed ^ U64(salt)) + U64(port) + part)


@inlined
def full(packet: Any, node: Any, net: Any) -> Any:
    """Which pool might be too small for this packet at this port; 0: none."""
    carried = I64(packet.count) + 1
    others: Any = max(1, 2 * I64(node.copies) - 1)  # copies of the packet and of what may be cut off
    if net.state[FREE_PACKETS] < others:
        return FULL_PACKETS
    if net.state[FREE_LABELS] < others * carried:
        return FULL_LABELS
    if net.state[LOGGED] + carried > len(net.log):
        return FULL_LOG
    return 0


@inlined
def chosen(packet: Any, node: Any, port: Any, start: Any, net: Any, own: Any) -> Any:
    """Whether this port labels this packet, but for its length."""
    setup = net.setup[0]
    flags = packet.flags
    if (port.flags & SWITCH) == 0 or (flags & UNLABELLED) != 0:
        return False
    if (flags & ALWAYS) != 0:
        return True
    count = I64(packet.count)
    if count >= setup.max_hop:
        return False
    if (flags & TRACKED) != 0:
        count += setup.max_hop
    random = float(drawn(setup.seed, packet, node.port, SALT_CHANCE) >> U64(11)) / 9007199254740992.0
    return wants_label(
        count, start, port.last, setup.interval, I64(port.shift), setup.rest, setup.chance, setup.max_hop,
        random, own,
    )  # fmt: skip


@kernel
def fit(row: Any, kind: Any, net: Any) -> Any:
    """A label would make the packet too long: row of the rest that was cut off; -1: it gets no label.

    What stays is short enough for all labels of a path, so that it is not cut again.
    """
    setup = net.setup[0]
    most = setup.mtu - IP_HEADER - setup.option_bytes - setup.item_bytes * setup.max_hop
    most = IP_HEADER + most // 8 * 8
    if (
        setup.too_long != FRAGMENTED
        or most < IP_HEADER + 8
        or net.packets[row].count > 0
        or net.packets[row].size <= most
    ):
        net.counts[kind + SKIPPED] += 1
        return -1
    net.counts[kind + FRAGMENTS] += 1
    return split(row, most, net)


@inlined
def write_label(packet: Any, node: Any, port: Any, start: Any, queued: Any, net: Any) -> None:
    """The port's label, and the time of it in Reg1."""
    at = take_label(net)
    label = net.labels[at]
    label.time = start
    label.next = packet.labels
    label.port = node.port
    label.ingress = node.ingress
    label.latency = min((start - packet.time) // PS_NS, MOST_LATENCY)
    label.occupancy = queued
    packet.labels = at
    packet.count += 1
    port.last = start
    port.labels += 1


@inlined
def send(row: Any, size: Any, start: Any, kind: Any, net: Any) -> None:
    """Put a packet that has been labelled or not on the link; `size`: its IP length there, with labels."""
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
        or (drawn(setup.seed, packet, node.port, SALT_LOSS) >> U64(32)) < U64(port.loss)
    ):
        drop(row, LOST, kind, net)
        return
    arrival = port.free + setup.propagation
    if node.next >= 0:
        onward(row, arrival, kind, net)
        return
    net.counts[kind + DELIVERED] += 1
    if packet.labels >= 0:
        net.counts[kind + LABELLED] += 1
        export(packet, arrival, arrival + setup.export, net)
    free_packet(row, net)


@inlined
def serve(row: Any, net: Any, own: Any) -> Any:
    """Pass one packet through the port of its node; or the pool that is too small: nothing has happened."""
    setup = net.setup[0]
    packet = net.packets[row]
    node = net.routes[packet.node]
    short = full(packet, node, net)
    if short != 0:
        return short
    port = net.ports[node.port]
    kind = PROBES if (packet.flags & PROBE) != 0 else 0
    if (port.flags & DOWN) != 0:
        drop(row, LINK_DOWN, kind, net)
        return 0
    delay = setup.pipeline
    if setup.jitter > 0:
        jitter = drawn(setup.seed, packet, node.port, SALT_JITTER) % U64(setup.jitter + 1)
        delay += I64(jitter)
    ready = max(port.ready, packet.time + delay)
    port.ready = ready
    start = max(ready, port.free)
    carried = I64(packet.count)
    size = I64(packet.size)
    if carried > 0:
        size += setup.option_bytes + carried * setup.item_bytes
    byte = I64(port.ps_per_byte)
    if start - ready + (size + WIRE_OVERHEAD) * byte > I64(port.buffer) * byte:
        drop(row, TAIL_DROP, kind, net)
        return 0
    rest = -1
    if chosen(packet, node, port, start, net, own):
        longer = setup.item_bytes + (setup.option_bytes if carried == 0 else 0)
        write = True
        if (packet.flags & ALWAYS) == 0 and (port.flags & LAST) == 0 and size + longer > setup.mtu:
            rest = fit(row, kind, net)
            write = rest >= 0
            if write:
                size = I64(packet.size)
            elif carried == 0:
                packet.flags &= 255 ^ TRACKED  # INT_num begins at MAX_hop with the first switch's label only
        if write:
            write_label(packet, node, port, start, (start - ready + byte - 1) // byte, net)
            net.counts[kind + LABELS] += 1
            size += longer
    if (port.flags & LAST) != 0:
        if kind == 0:
            net.histogram[min(I64(packet.hops) + 1, LAST_PLACE), min(I64(packet.count), LAST_PLACE)] += 1
        if packet.labels >= 0:
            net.counts[kind + LABELLED] += 1
            export(packet, start, start + setup.export, net)
            size = I64(packet.size)
            packet.count = 0
    send(row, size, start, kind, net)  # fmt: skip
    if rest >= 0:
        again = net.packets[rest]
        send(rest, I64(again.size), port.free, kind, net)  # fmt: skip
    return 0

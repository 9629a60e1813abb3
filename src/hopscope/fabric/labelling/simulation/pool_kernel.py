"""Pools of packets and labels, lists of the calendar, and forwarding, dropping and exporting of packets."""

from ....base.kernels.jit import I64, U64, inlined, kernel
from .records import IP_HEADER, Count, EngineSlot, SourceFlag

FRAGMENT = int(SourceFlag.FRAGMENT)
TRACKED = int(SourceFlag.TRACKED)
COPIES = int(Count.COPIES)
LABELS_LOST = int(Count.LABELS_LOST)
OVERFLOW = int(EngineSlot.OVERFLOW)
BUCKET = int(EngineSlot.BUCKET)
FREE_PACKET = int(EngineSlot.FREE_PACKET)
FREE_PACKETS = int(EngineSlot.FREE_PACKETS)
FREE_LABEL = int(EngineSlot.FREE_LABEL)
FREE_LABELS = int(EngineSlot.FREE_LABELS)
LOGGED = int(EngineSlot.LOGGED)


@inlined
def insert(event, time, net):
    """Put an event into the bucket of its time, or into the overflow list beyond the ring."""
    bucket = time >> net.setup[0].bucket_shift
    if bucket - net.state[BUCKET] < len(net.heads):
        slot = bucket & (len(net.heads) - 1)
        net.link[event] = net.heads[slot]
        net.heads[slot] = event
    else:
        net.link[event] = net.state[OVERFLOW]
        net.state[OVERFLOW] = event


@inlined
def free_packet(row, net):
    """Free a packet's row; events of packets come after those of sources."""
    net.link[len(net.sources) + row] = net.state[FREE_PACKET]
    net.state[FREE_PACKET] = row
    net.state[FREE_PACKETS] += 1


@inlined
def take_packet(net):
    """Take a free row; the caller has checked that there is one."""
    row = net.state[FREE_PACKET]
    net.state[FREE_PACKET] = net.link[len(net.sources) + row]
    net.state[FREE_PACKETS] -= 1
    return row


@inlined
def take_label(net):
    """Take a free row; the caller has checked that there is one."""
    row = net.state[FREE_LABEL]
    net.state[FREE_LABEL] = net.labels[row].next
    net.state[FREE_LABELS] -= 1
    return row


@kernel
def free_labels(at, net):
    """Free all labels of a packet."""
    while at >= 0:
        following = net.labels[at].next
        net.labels[at].next = net.state[FREE_LABEL]
        net.state[FREE_LABEL] = at
        net.state[FREE_LABELS] += 1
        at = following


@kernel
def export(packet, time, received, net):
    """Log all labels of a packet, oldest first, and free them."""
    at = packet.labels
    position = I64(packet.count)
    while at >= 0:
        label = net.labels[at]
        position -= 1
        entry = net.log[net.state[LOGGED] + position]
        entry.labelled = label.time
        entry.exported = time
        entry.received = received
        entry.port = label.port
        entry.latency = label.latency
        entry.occupancy = label.occupancy
        entry.source = packet.number >> U64(32)
        entry.packet = packet.number
        entry.ingress = label.ingress
        entry.position = position
        entry.count = packet.count
        entry.flags = packet.flags
        at = label.next
    net.state[LOGGED] += I64(packet.count)
    free_labels(packet.labels, net)
    packet.labels = -1


@kernel
def copy_labels(at, net):
    """Copy a list of labels; returns the first row."""
    first = -1
    before = -1
    while at >= 0:
        row = take_label(net)
        net.labels[row] = net.labels[at]
        net.labels[row].next = -1
        if before < 0:
            first = row
        else:
            net.labels[before].next = row
        before = row
        at = net.labels[at].next
    return first


@kernel
def drop(row, reason, kind, net):
    """Drop a packet and its labels, and count them."""
    packet = net.packets[row]
    net.counts[kind + reason] += 1
    if packet.labels >= 0:
        net.counts[kind + LABELS_LOST] += packet.count
        free_labels(packet.labels, net)
    free_packet(row, net)


@kernel
def split(row, first_bytes, net):
    """Fragment a packet after `first_bytes` IP bytes; returns the row of the rest, with its own header (RFC
    791).
    """
    rest = take_packet(net)
    net.packets[rest] = net.packets[row]
    net.packets[rest].size = I64(net.packets[row].size) - first_bytes + IP_HEADER
    net.packets[rest].flags = (net.packets[rest].flags | FRAGMENT) & (255 ^ TRACKED)
    net.packets[rest].labels = -1
    net.packets[rest].count = 0
    net.packets[row].size = first_bytes
    return rest


@inlined
def forward(row, arrival, kind, net):
    """Forward a packet to the next nodes of its route, where it arrives at `arrival`."""
    packet = net.packets[row]
    node = net.routes[packet.node]
    following = node.next
    for copy in range(1, I64(node.copies)):
        other = take_packet(net)
        net.packets[other] = packet
        net.packets[other].time = arrival
        net.packets[other].node = following + copy
        net.packets[other].labels = copy_labels(packet.labels, net)
        net.counts[kind + COPIES] += 1
        insert(len(net.sources) + other, arrival, net)
    packet.node = following
    packet.time = arrival
    insert(len(net.sources) + row, arrival, net)

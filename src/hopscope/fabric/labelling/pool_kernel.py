"""Pools of packets and labels, the calendar's lists, and packets that go on, are dropped or exported."""

from __future__ import annotations

from typing import Any

from ...jit import I64, U64, inlined, kernel
from .records import Count, SourceFlag, State

FRAGMENT = int(SourceFlag.FRAGMENT)
COPIES = int(Count.COPIES)
LABELS_LOST = int(Count.LABELS_LOST)
FAR = int(State.FAR)
BUCKET = int(State.BUCKET)
FREE_PACKET = int(State.FREE_PACKET)
FREE_PACKETS = int(State.FREE_PACKETS)
FREE_LABEL = int(State.FREE_LABEL)
FREE_LABELS = int(State.FREE_LABELS)
LOGGED = int(State.LOGGED)
IP_HEADER = 20


@inlined
def insert(event: Any, time: Any, shift: Any, state: Any, link: Any, heads: Any) -> None:
    """Put an event into the bucket of its time, or among those beyond the ring."""
    bucket = time >> shift
    if bucket - state[BUCKET] < len(heads):
        slot = bucket & (len(heads) - 1)
        link[event] = heads[slot]
        heads[slot] = event
    else:
        link[event] = state[FAR]
        state[FAR] = event


@inlined
def free_packet(row: Any, first: Any, state: Any, link: Any) -> None:
    """Give a packet's row back; packets' events come after the `first` ones, the sources'."""
    link[first + row] = state[FREE_PACKET]
    state[FREE_PACKET] = row
    state[FREE_PACKETS] += 1


@inlined
def take_packet(first: Any, state: Any, link: Any) -> Any:
    """A free row; the caller has seen that there is one."""
    row = state[FREE_PACKET]
    state[FREE_PACKET] = link[first + row]
    state[FREE_PACKETS] -= 1
    return row


@inlined
def take_label(state: Any, labels: Any) -> Any:
    """A free row; the caller has seen that there is one."""
    row = state[FREE_LABEL]
    state[FREE_LABEL] = labels[row].next
    state[FREE_LABELS] -= 1
    return row


@kernel
def free_labels(at: Any, state: Any, labels: Any) -> None:
    """Give all labels of a packet back."""
    while at >= 0:
        following = labels[at].next
        labels[at].next = state[FREE_LABEL]
        state[FREE_LABEL] = at
        state[FREE_LABELS] += 1
        at = following


@kernel
def export(packet: Any, time: Any, received: Any, state: Any, labels: Any, log: Any) -> None:
    """Log all labels of a packet, the first first, and give them back."""
    at = packet.labels
    position = I64(packet.count)
    while at >= 0:
        label = labels[at]
        position -= 1
        entry = log[state[LOGGED] + position]
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
    state[LOGGED] += I64(packet.count)
    free_labels(packet.labels, state, labels)
    packet.labels = -1


@kernel
def copy_labels(at: Any, state: Any, labels: Any) -> Any:
    """A second list with the same labels; returns its first row."""
    first = -1
    before = -1
    while at >= 0:
        row = take_label(state, labels)
        labels[row] = labels[at]
        labels[row].next = -1
        if before < 0:
            first = row
        else:
            labels[before].next = row
        before = row
        at = labels[at].next
    return first


@kernel
def drop(
    row: Any, why: Any, kind: Any, first: Any, state: Any, counts: Any, packets: Any, link: Any, labels: Any
) -> None:
    """A packet is no more, nor its labels."""
    packet = packets[row]
    counts[kind + why] += 1
    if packet.labels >= 0:
        counts[kind + LABELS_LOST] += packet.count
        free_labels(packet.labels, state, labels)
    free_packet(row, first, state, link)


@kernel
def split(row: Any, most: Any, first: Any, state: Any, packets: Any, link: Any) -> Any:
    """Cut a packet behind `most` IP bytes; row of the rest, which has a header of its own (RFC 791)."""
    rest = take_packet(first, state, link)
    packets[rest] = packets[row]
    packets[rest].size = I64(packets[row].size) - most + IP_HEADER
    packets[rest].flags |= FRAGMENT
    packets[rest].labels = -1
    packets[rest].count = 0
    packets[row].size = most
    return rest


@kernel
def onward(
    row: Any,
    arrival: Any,
    first: Any,
    shift: Any,
    state: Any,
    counts: Any,
    kind: Any,
    routes: Any,
    packets: Any,
    link: Any,
    heads: Any,
    labels: Any,
) -> None:
    """Send a packet to the next nodes of its route, at the time of its arrival there."""
    packet = packets[row]
    node = routes[packet.node]
    following = node.next
    for copy in range(1, I64(node.copies)):
        other = take_packet(first, state, link)
        packets[other] = packet
        packets[other].time = arrival
        packets[other].node = following + copy
        packets[other].labels = copy_labels(packet.labels, state, labels)
        counts[kind + COPIES] += 1
        insert(first + other, arrival, shift, state, link, heads)
    packet.node = following
    packet.time = arrival
    insert(first + row, arrival, shift, state, link, heads)

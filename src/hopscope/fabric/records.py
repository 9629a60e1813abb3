"""Records of the fabric's kernels: flows, packets, port state, traces. Times in ps, sizes in bytes.

At every common link rate a byte takes a whole number of ps (20 at 400 Gbit/s), so queueing is exact; int64
holds 106 days.
"""

from enum import IntEnum

import numpy as np

STAGES = 6
"""Stages of a path in a fat tree: host interface, edge up, aggregation up, core down, aggregation down, edge
to host.
"""
REPORT_STAGE = 255
"""Stage of a packet that was delivered or dropped, and waits for the time of its report."""
WIRE_OVERHEAD = 38
"""Bytes on the wire in addition to the IP packet: Ethernet header 14, FCS 4, preamble 8, gap 12."""
PS = 1_000_000_000_000
"""ps per second."""
PS_NS = 1_000
"""ps per nanosecond."""


class DropReason(IntEnum):
    """Drop reasons sent by switches. TRAFFIC_MANAGER is that of switch.p4, whose list INT implementations
    share.
    """

    NONE = 0
    TRAFFIC_MANAGER = 71
    """Tail drop: the queue was full."""
    PORT_FAULT = 200
    """A lossy port; not in switch.p4's list."""


FLOW = np.dtype(
    [
        ("next", "<i8"),  # time of its next packet, ps
        ("remaining", "<i8"),  # payload bytes still to send
        ("ps_per_byte", "<f8"),  # of payload, at the flow's own rate
        ("serial", "<u8"),  # number of the flow, from 0; seeds its random numbers
        ("sent", "<u8"),  # packets
        ("period", "<i8"),  # ps between the starts of bursts; 0: no bursts
        ("burst", "<i8"),  # payload bytes of one burst
        ("burst_start", "<i8"),
        ("burst_sent", "<i8"),
        ("src_address", "<u4"),
        ("dst_address", "<u4"),
        ("src_host", "<i4"),
        ("dst_host", "<i4"),
        ("pending", "<i4"),  # packets in the network
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("payload", "<u2"),  # maximum payload bytes of a packet
        ("headers", "<u2"),  # IP and L4 header bytes
        ("proto", "u1"),
        ("active", "u1"),  # 0: the row is free once `pending` is 0
        ("tracked", "u1"),  # 1: some or all of its packets carry INT
        ("random", "u1"),  # 1: exponential gaps between packets, 0: equal gaps
    ]
)
"""One open-loop flow: its rate does not depend on the network."""

PACKET = np.dtype(
    [
        ("time", "<i8"),  # arrival at the port of `stage`; at REPORT_STAGE the time of the report
        ("number", "<u8"),  # flow's serial << 32 | packet of the flow: unique, orders packets of the same ps
        ("flow", "<u4"),  # row
        ("size", "<u4"),  # IP length
        ("trace", "<i4"),  # row of the trace block, -1: no INT
        ("route", "<u4"),  # row of the paths
        ("port", "<i4"),  # row of the port of `stage`
        ("stage", "u1"),
        ("drop_reason", "u1"),
        ("drop_stage", "u1"),
        ("reserved", "u1"),
    ]
)
"""One packet in the network."""

TRACE = np.dtype(
    [
        ("ingress", "<i8"),  # when the packet arrived in the switch, ps
        ("egress", "<i8"),  # when its first bit left the queue, ps
        ("occupancy", "<u4"),  # of its queue on arrival, without itself, bytes
        ("buffer", "<u4"),  # of all queues that share the buffer, bytes
        ("utilization", "<u4"),  # of the link in the last complete interval, per mille
        ("reserved", "<u4"),
    ]
)
"""INT metadata that one hop wrote into a packet; a block per packet, with a row for each stage."""

PORT_STATE = np.dtype(
    [
        ("free", "<i8"),  # when the last bit of the queue will have left, ps
        ("ready", "<i8"),  # when the last packet left the pipeline, ps
        ("busy", "<i8"),  # ps of sending that started in this interval
        ("interval", "<i8"),  # number of the interval
        ("utilization", "<u4"),  # per mille, in the last complete interval
        ("loss", "<u4"),  # probability of loss · 2^32
        ("ps_per_byte", "<i8"),
        ("pipeline", "<i8"),  # delay before the queue, ps
        ("slow", "<i8"),  # delay added by a fault, ps
        ("propagation", "<i8"),
        ("buffer", "<i8"),  # queue capacity, bytes
        ("group", "<i4"),  # row of `groups`: ports that share a buffer; -1: none
        ("stage", "<i4"),
        ("packets", "<u8"),  # sent
        ("bytes", "<u8"),  # sent, IP
        ("dropped", "<u8"),
        ("highest", "<i8"),  # occupancy, bytes, since it was last reset
    ]
)
"""One port: a FIFO with a finite buffer before a link, and its counters."""

CONNECTION = np.dtype(
    [
        ("start", "<i8"),  # when the SYN is sent, ps
        ("finished", "<i8"),  # when the FIN was acknowledged, ps; 0: not yet
        ("bytes", "<i8"),  # sent by the application
        ("delivered", "<i8"),  # received by the other application, in order
        ("segments", "<i4"),  # with data: 1 to `segments`; 0 is the SYN, `segments` + 1 the FIN
        ("written", "<i4"),  # segments written by the application so far
        ("burst", "<i4"),  # segments written at a time
        ("first", "<i8"),  # row of segment 0 in the receivers' map
        ("pause", "<i8"),  # mean pause between writes, ps
        ("una", "<i4"),  # first unacknowledged segment
        ("next", "<i4"),  # next segment to send
        ("high", "<i4"),  # after the highest segment sent
        ("expected", "<i4"),  # the receiver's next segment
        ("duplicates", "<i4"),  # duplicate acknowledgments in a row
        ("recover", "<i4"),  # `high` when the last loss was detected
        ("recovering", "<i4"),  # 1: fast recovery
        ("waiting", "<i4"),  # 1: everything written is acknowledged, and the application pauses
        ("cwnd", "<f8"),  # segments
        ("ssthresh", "<f8"),
        ("rto", "<i8"),  # ps
        ("srtt", "<i8"),  # ps; 0: not measured
        ("rttvar", "<i8"),
        ("timed", "<i4"),  # segment whose round trip is measured; -1: none
        ("mss", "<i4"),  # payload bytes of a segment; the last one is shorter
        ("timed_at", "<i8"),
        ("deadline", "<i8"),  # of the retransmission timer; 0: off
        ("timer_at", "<i8"),  # of its event that counts; 0: none
        ("sequence", "<u4"),  # of the SYN
        ("peer_sequence", "<u4"),
        ("sent", "<u4"),  # packets with data, SYN or FIN
        ("acknowledgments", "<u4"),  # packets that carry only an acknowledgment
        ("retransmissions", "<u4"),
        ("fast_retransmits", "<u4"),
        ("timeouts", "<u4"),
        ("lost", "<u4"),  # dropped packets of both directions
        ("flow", "u1", (13,)),  # 5-tuple, as in an observation
        ("back_flow", "u1", (13,)),
    ]
)
"""One TCP connection: sender, receiver, and counts."""

SEGMENT = np.dtype(
    [
        ("sent", "<i8"),  # ps
        ("arrived", "<i8"),  # at the other host, ps; 0: in flight, or dropped
        ("connection", "<i4"),
        ("segment", "<i4"),  # its number; of an acknowledgment: the expected one
        ("sequence", "<u4"),
        ("acknowledgment", "<u4"),
        ("payload", "<u4"),
        ("flags", "u1"),
        ("is_ack", "u1"),  # 1: an acknowledgment from receiver to sender
        ("is_retransmission", "u1"),  # 1: a retransmission
        ("reserved", "u1"),
    ]
)
"""TCP fields of a packet, row by row with PACKET."""

TIMEOUT = np.dtype(
    [("time", "<i8"), ("rto", "<i8"), ("connection", "<i4"), ("segment", "<i4")]  # ps; rto: the elapsed time
)
"""A retransmission timeout, and the segment that is retransmitted."""

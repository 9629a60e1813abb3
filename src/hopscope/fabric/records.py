"""What passes between the fabric's kernels: flows, packets, port state, traces. Times in ps, sizes in bytes.

Picoseconds make a byte an integer number of time units at every usual link rate (20 ps at 400 Gbit/s), so
that queueing is exact; int64 holds 106 days of them.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

STAGES = 6
"""Stages of a path: network card, edge up, aggregation up, core down, aggregation down, edge to host."""
REPORT_STAGE = STAGES
"""Stage of a packet that is through, or dropped, and waits for the time of its report."""
WIRE_OVERHEAD = 38
"""Bytes on the wire besides the IP packet: Ethernet header 14, FCS 4, preamble 8, gap 12."""
PS = 1_000_000_000_000
"""ps in a second."""
PS_NS = 1_000
"""ps in a nanosecond."""


class DropReason(IntEnum):
    """Drop reasons that switches send; the first as in switch.p4's list, which INT implementations share."""

    NONE = 0
    TRAFFIC_MANAGER = 71
    """Tail drop: the queue was full."""
    PORT_FAULT = 200
    """A lossy port; outside switch.p4's list."""


FLOW = np.dtype(
    [
        ("next", "<i8"),  # when its next packet is sent, ps
        ("remaining", "<i8"),  # payload bytes still to send
        ("ps_per_byte", "<f8"),  # of payload, at the flow's own rate
        ("serial", "<u8"),  # number of the flow, from 0; seeds its randomness
        ("sent", "<u8"),  # packets
        ("period", "<i8"),  # ps between the starts of bursts; 0: no bursts
        ("burst", "<i8"),  # payload bytes of one burst
        ("burst_start", "<i8"),
        ("burst_sent", "<i8"),
        ("src_address", "<u4"),
        ("dst_address", "<u4"),
        ("src_host", "<i4"),
        ("dst_host", "<i4"),
        ("path", "<i4", (STAGES,)),  # port rows; -1: stage not used
        ("pending", "<i4"),  # packets in the network
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("payload", "<u2"),  # most payload bytes of a packet
        ("headers", "<u2"),  # IP and L4 header bytes
        ("proto", "u1"),
        ("active", "u1"),  # 0: the row is free once `pending` is 0
        ("tracked", "u1"),  # 1: some or all of its packets carry INT
        ("random", "u1"),  # 1: exponential gaps between packets, 0: equal gaps
    ]
)
"""One flow, open loop: it sends at its own rate whatever the network does."""

PACKET = np.dtype(
    [
        ("time", "<i8"),  # arrival at the port of `stage`; at REPORT_STAGE the time of the report
        ("number", "<u8"),  # flow's serial << 32 | packet of the flow: unique, orders packets of the same ps
        ("flow", "<u4"),  # row
        ("size", "<u4"),  # IP length
        ("trace", "<i4"),  # row of the trace block, -1: no INT
        ("path", "<i4", (STAGES,)),
        ("stage", "u1"),
        ("drop_reason", "u1"),
        ("drop_stage", "u1"),
        ("reserved", "u1", (9,)),
    ]
)
"""One packet in the network, 64 bytes (a cache line)."""

TRACE = np.dtype(
    [
        ("ingress", "<i8"),  # the packet has arrived in the switch, ps
        ("egress", "<i8"),  # its first bit leaves the queue, ps
        ("occupancy", "<u4"),  # of its queue when it got there, without itself, bytes
        ("buffer", "<u4"),  # of all queues that share the buffer, bytes
        ("utilization", "<u4"),  # of the link in the last complete interval, per mille
        ("reserved", "<u4"),
    ]
)
"""What one hop wrote into a packet that carries INT; a block of STAGES rows a packet."""

PORT_STATE = np.dtype(
    [
        ("free", "<i8"),  # when the last bit of all that is queued has left, ps
        ("ready", "<i8"),  # when the last packet left the pipeline, ps
        ("busy", "<i8"),  # ps of sending that began in this interval
        ("interval", "<i8"),  # number of the interval
        ("utilization", "<u4"),  # per mille, in the last complete interval
        ("loss", "<u4"),  # probability of loss · 2^32
        ("ps_per_byte", "<i8"),
        ("pipeline", "<i8"),  # delay before the queue, ps
        ("slow", "<i8"),  # delay that a fault adds, ps
        ("propagation", "<i8"),
        ("buffer", "<i8"),  # bytes that the queue holds
        ("group", "<i4"),  # row of `groups`: ports that share a buffer; -1: none
        ("stage", "<i4"),
        ("packets", "<u8"),  # sent
        ("bytes", "<u8"),  # sent, IP
        ("dropped", "<u8"),
        ("highest", "<i8"),  # occupancy, bytes, since it was last reset
    ]
)
"""One port: a FIFO with a finite buffer in front of a link, and its counters."""

CONNECTION = np.dtype(
    [
        ("start", "<i8"),  # when the SYN is sent, ps
        ("finished", "<i8"),  # when the FIN was acknowledged, ps; 0: not yet
        ("bytes", "<i8"),  # what the application sends
        ("delivered", "<i8"),  # what the other application has got, in order
        ("segments", "<i4"),  # with data: 1 to `segments`; 0 is the SYN, `segments` + 1 the FIN
        ("written", "<i4"),  # segments that the application has written so far
        ("burst", "<i4"),  # segments that it writes at a time
        ("first", "<i8"),  # row of segment 0 in the receivers' map
        ("pause", "<i8"),  # mean pause between writes, ps
        ("una", "<i4"),  # the first segment that is not acknowledged
        ("next", "<i4"),  # the segment to send next
        ("high", "<i4"),  # behind the highest that was sent
        ("expected", "<i4"),  # the receiver's next segment
        ("duplicates", "<i4"),  # duplicate acknowledgments in a row
        ("recover", "<i4"),  # what was sent when the last loss was found
        ("recovering", "<i4"),  # 1: fast recovery
        ("waiting", "<i4"),  # 1: all that was written is acknowledged, and the application pauses
        ("cwnd", "<f8"),  # segments
        ("ssthresh", "<f8"),
        ("rto", "<i8"),  # ps
        ("srtt", "<i8"),  # ps; 0: not measured
        ("rttvar", "<i8"),
        ("timed", "<i4"),  # segment whose round trip is measured, -1: none
        ("mss", "<i4"),  # payload bytes of a segment; the last one is shorter
        ("timed_at", "<i8"),
        ("deadline", "<i8"),  # of the retransmission timer; 0: off
        ("timer_at", "<i8"),  # of its event that counts; 0: none
        ("sequence", "<u4"),  # of the SYN
        ("peer_sequence", "<u4"),
        ("sent", "<u4"),  # packets with data, SYN or FIN
        ("answers", "<u4"),  # packets that only acknowledge
        ("retransmissions", "<u4"),
        ("fast_retransmits", "<u4"),
        ("timeouts", "<u4"),
        ("lost", "<u4"),  # packets of both directions that were dropped
        ("path", "<i4", (STAGES,)),  # port rows
        ("back", "<i4", (STAGES,)),
        ("flow", "u1", (13,)),  # 5-tuples, as in an observation
        ("back_flow", "u1", (13,)),
    ]
)
"""One TCP connection: sender, receiver, and what happened to it."""

SEGMENT = np.dtype(
    [
        ("sent", "<i8"),  # ps
        ("arrived", "<i8"),  # at the other host, ps; 0: underway, or dropped
        ("connection", "<i4"),
        ("segment", "<i4"),  # its number; of an acknowledgment: the one that is expected
        ("sequence", "<u4"),
        ("acknowledgment", "<u4"),
        ("payload", "<u4"),
        ("flags", "u1"),
        ("answer", "u1"),  # 1: it goes from receiver to sender
        ("again", "u1"),  # 1: a retransmission
        ("reserved", "u1"),
    ]
)
"""What is TCP about a packet, row by row with PACKET."""

TIMEOUT = np.dtype(
    [("time", "<i8"), ("rto", "<i8"), ("connection", "<i4"), ("segment", "<i4")]  # ps; rto: what had passed
)
"""The retransmission timer went off: for which segment, which is sent again."""

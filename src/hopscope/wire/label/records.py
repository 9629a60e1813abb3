"""Records of INT-label: labels, and flows of tracked packets."""

import numpy as np

LABEL = np.dtype(
    [
        ("time_ns", "<i8"),  # when the switch labelled the packet, by its own clock
        ("node_id", "<u4"),
        ("latency_ns", "<u4"),  # of the packet in this switch until then
        ("occupancy", "<u4"),  # of the egress queue, bytes
        ("packet", "<u4"),  # number of its packet in the batch; labels of a packet are consecutive
        ("ingress_port", "<u2"),
        ("egress_port", "<u2"),
        ("position", "u1"),  # 0: its packet's first label, the nearest to the source
        ("count", "u1"),  # labels of its packet
        ("tracked", "u1"),  # 1: of a tracked flow (INT-label, 3.3)
        ("owner", "u1"),  # hash of the address that sent the datagram, if the decoder has keys for it
    ]
)
"""One label, 32 bytes: written into a packet by one switch (INT-label, section 2)."""

LABEL_FLOW = np.dtype(
    [
        ("src_hi", "<u8"),
        ("src_lo", "<u8"),
        ("dst_hi", "<u8"),
        ("dst_lo", "<u8"),
        ("packet", "<u4"),  # as in LABEL
        ("sport", "<u2"),  # 0 without ports, and of fragments
        ("dport", "<u2"),
        ("proto", "u1"),
        ("spare", "u1", (7,)),
    ]
)
"""The flow of a tracked packet, 48 bytes, as its last hop reports it; IPv4 as ::ffff:a.b.c.d."""

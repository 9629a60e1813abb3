"""Records: routes and reporters of a translator, and the reports that a reporter can retransmit."""

import numpy as np

ROUTE = np.dtype(
    [
        ("first_hi", "<u8"),  # source addresses, as in FRAME; the whole range: any
        ("first_lo", "<u8"),
        ("last_hi", "<u8"),
        ("last_lo", "<u8"),
        ("seed", "<u8"),
        ("first_list", "<u4"),  # Append: list numbers in reports; the store counts its lists from 0
        ("last_list", "<u4"),
        ("first_share", "<u4"),  # index of its first collector in `RouteTable.shares`
        ("shares", "<u4"),  # collectors over which keys are spread
        ("lane", "<u4"),  # the writer of its store
        ("port", "<u2"),  # 0: any
        ("hashing", "u1"),
        ("opcode", "u1"),
        ("key_bytes", "u1"),  # 0: any
        ("data_bytes", "u1"),  # 0: any
        ("by_list", "u1"),
        ("by_frame", "u1"),  # 1: it depends on the source address or the port
        ("numbered", "u1"),  # 1: its key is a number; number modulo shares is the collector
        ("reserved", "u1", 3),
    ]
)
"""Rule for the reports of one store (`direct.translation.routes.Route`), 72 bytes."""

REPORTER = np.dtype(
    [
        ("source_hi", "<u8"),  # address, IPv4 as ::ffff:a.b.c.d
        ("source_lo", "<u8"),
        ("last_ns", "<i8"),
        ("received", "<u8"),
        ("lost", "<u8"),  # numbers skipped or rejected that have not arrived since
        ("late", "<u8"),  # numbers that first arrived after a higher one
        ("duplicate", "<u8"),
        ("stale", "<u8"),  # too old to classify; rejected
        ("restarts", "<u8"),
        ("newest", "<u4"),  # highest number
        ("depth", "<u4"),  # tracked numbers up to it; 0: the row is free
        ("suspect", "<u4"),
        ("suspected", "<u4"),
        ("source_port", "<u2"),
        ("asks", "u1"),  # 1: it has asked for retransmission
        ("reserved", "u1", (5,)),
    ]
)
"""The sequence numbers of one reporter, 96 bytes: a row of `direct.translation.sequence`."""
BUFFERED_REPORT = np.dtype(
    [
        ("number", "<u8"),  # counted from 0 by the reporter, without a wrap
        ("length", "<u2"),  # bytes
        ("tries", "u1"),  # retransmissions
        ("buffered", "u1"),  # 0: the slot is free
        ("pending", "u1"),  # due for retransmission
        ("reserved", "u1", (3,)),
    ]
)
"""A report that a reporter can retransmit, 16 bytes: a slot of `direct.reporter`."""

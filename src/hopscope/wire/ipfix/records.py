"""Tables of the decoder: exporters' domains, templates as lists of fields to read, and results."""

from enum import IntEnum

import numpy as np

DOMAINS = 1024
"""Observation domains of all exporters."""
TEMPLATES = 2048
"""Templates of all domains."""
TEMPLATES_OF_DOMAIN = 256
FIELDS = 128
"""Most fields of a template that are read; most fields in total if some have variable length."""
SAMPLERS = 16
"""Samplers of a domain whose rates are known."""
IDS = 1 << 16

DOMAIN = np.dtype(
    [
        ("node_id", "<u4"),
        ("expected", "<u4"),  # sequence number of the next message
        ("sequence", "<u4"),  # number of the latest one for detection: counts messages and missing records
        ("missing", "<u4"),  # records that are missing before the next row
        ("sampler", "<u4", (SAMPLERS,)),
        ("rate", "<u4", (SAMPLERS,)),  # packets per sampled packet
        ("samplers", "u1"),
        ("hw_id", "u1"),
        ("known", "u1"),  # 1: `expected` is known
        ("other_known", "u1"),  # 1: `other` is known
        ("waited", "<u4"),  # data records of sets that had waited for their template, in no row yet
        ("exported", "<u4"),  # export time of the newest message, s
        ("other", "<u4"),  # sequence number that would continue a possible restart, or the numbers before it
    ]
)
"""An observation domain of an exporter, 160 bytes."""
TEMPLATE = np.dtype(
    [
        ("columns", "<u4"),  # bit per Column
        ("size", "<u4"),  # size of a record, bytes; the smallest size if fields have variable length
        ("fields", "<u2"),
        ("variable", "u1"),
        ("reserved", "u1", (5,)),
    ]
)
"""A template, 16 bytes; its fields are FIELD [FIELDS] at the same place."""
FIELD = np.dtype([("at", "<u2"), ("length", "<u2"), ("column", "<u2"), ("reserved", "<u2")])
"""A field that is read: its offset in a record, if the record has a fixed size; 8 bytes."""


class State(IntEnum):
    """Slots of the kernel's position."""

    FRAME = 0
    AT = 1
    """Offset of the next set in the frame; 0: the header has not been read."""
    END = 2
    """End of the message in the frame."""
    ROWS = 3
    """Rows of this message."""
    RECORDS = 4
    """Data records of this message."""
    UNKNOWN = 5
    """1: the message has a set whose records could not be counted."""
    SET_ID = 6
    SET_AT = 7
    """Begin and end, in the arena, of the contents of a set that the kernel does not read."""
    SET_END = 8
    AGAIN = 9
    """1: the frames are sets that had waited for their template."""
    LATE = 10
    """1: the message is older than an earlier one; 2: by its sequence number, but not by its export time."""
    FIRST = 11
    """First row of this message."""


class Count(IntEnum):
    """Slots of the decoder's counts."""

    REPORTS = 0
    """Rows of the report block."""
    HOPS = 1
    """Rows of the hop block."""
    RECORDS = 2
    """Flow records."""
    OTHER_RECORDS = 3
    """Data records without the addresses of a flow: skipped."""


class Status(IntEnum):
    """Why the kernel returned."""

    DONE = 0
    FULL = 1
    """A block needs more room for the next set."""
    OTHER_SET = 2
    """A set of templates or options, or of data with an unknown template."""

"""State that the decoder keeps between two samples of an agent, to count the differences."""

from enum import IntEnum

import numpy as np

SAMPLER = np.dtype(
    [
        ("last_ns", "<i8"),  # 0: an empty row
        ("node_id", "<u4"),
        ("index", "<u4"),  # of the data source
        ("pool", "<u4"),
        ("drops", "<u4"),
        ("uptime", "<u4"),  # ms
        ("reserved", "<u4"),
    ]
)
"""A data source of flow samples, 32 bytes."""
INTERFACE = np.dtype(
    [
        ("last_ns", "<i8"),  # 0: an empty row
        ("node_id", "<u4"),
        ("index", "<u4"),  # ifIndex
        ("octets", "<u8"),  # sent
        ("uptime", "<u4"),  # ms
        ("in_discards", "<u4"),
        ("out_discards", "<u4"),
        ("reserved", "<u4"),
    ]
)
"""An interface with counter samples, 40 bytes."""
ROWS = 16_384
"""Number of data sources, and of interfaces, that are remembered; a new one replaces the oldest of eight."""


class Count(IntEnum):
    """Slots of the decoder's counts."""

    REPORTS = 0
    """Rows of the report block."""
    HOPS = 1
    """Rows of the hop block."""
    FLOW_SAMPLES = 2
    COUNTER_SAMPLES = 3
    DISCARDED_PACKETS = 4
    OTHER_SAMPLES = 5
    """Samples of a format that is not read: skipped."""
    POOL = 6
    """Packets that could have been sampled."""
    LOST_SAMPLES = 7
    """Samples that agents lost for lack of resources."""
    PORT_DISCARDS = 8
    """Packets that interfaces discarded, according to their counters."""

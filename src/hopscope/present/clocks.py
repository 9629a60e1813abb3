"""How far switches' clocks are off the collector's, computed from events that carry the switch's time."""

from __future__ import annotations

import numpy as np

from ..detect.records import NO_NODE
from ..wire.records import Records


def clock_offsets(events: Records) -> dict[int, int]:
    """Collector's time minus switch's time (ns), by node id: the smallest difference in the node's EVENT
    records.

    It includes the time that a report takes to arrive, so it is an upper bound. For a switch that counts
    from its own start, it also includes the time of that start.
    """
    known = events[(events["switch_ns"] != 0) & (events["node_id"] != NO_NODE)]
    offsets = known["time_ns"] - known["switch_ns"].astype(np.int64)
    order = np.lexsort((offsets, known["node_id"]))
    nodes, first = np.unique(known["node_id"][order], return_index=True)
    return dict(zip(nodes.tolist(), offsets[order][first].tolist(), strict=True))

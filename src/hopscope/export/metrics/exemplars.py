"""Exemplars: for each bucket of a latency histogram, the newest event with a value in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from prometheus_client.samples import Exemplar, Timestamp

from ...detect.records import NO_NODE, Kind, Metric
from ...wire.records import Records

_MEASURED = (Kind.NEW_KEY, Kind.CHANGE, Kind.THRESHOLD, Kind.RAISED, Kind.PUSH, Kind.VALUE)
"""Kinds of events whose value belongs to a single packet."""
Place = tuple[int, int | None, int | None]
"""Metric, node and port; None: all."""
Shown = Sequence[Exemplar | None]
"""For each bucket an exemplar, or None."""


class Exemplars:
    """Exemplars from EVENT records; `bounds`: upper edges of the buckets in ns, uint64 [b], without +Inf.

    Labels are `event_id`, as in the API, and `flow`, 16 hexadecimal digits.
    """

    def __init__(self, events: Records, bounds: npt.NDArray[np.uint64]) -> None:
        self._buckets = len(bounds) + 1
        self._found: dict[Place, dict[int, np.void]] = {}
        wanted = np.isin(events["kind"], _MEASURED)
        wanted &= np.isin(events["metric"], (Metric.HOP_LATENCY, Metric.FLOW_LATENCY))
        rows = events[wanted]
        rows = rows[np.argsort(rows["time_ns"], kind="stable")[::-1]]
        bucket = np.searchsorted(bounds, rows["value"])
        key = np.column_stack([rows["metric"], rows["node_id"], rows["port"], bucket])
        _, newest = np.unique(key, axis=0, return_index=True)
        for at in newest.tolist():
            row = rows[at]
            metric, node, port = (int(row[name]) for name in ("metric", "node_id", "port"))
            places: list[Place] = [(metric, None, None)]
            if node != NO_NODE:
                places += [(metric, node, None), (metric, node, port)]
            for place in places:
                known = self._found.setdefault(place, {})
                other = known.get(int(bucket[at]))
                if other is None or other["time_ns"] < row["time_ns"]:
                    known[int(bucket[at])] = row

    def of(self, metric: Metric, node: int | None = None, port: int | None = None) -> Shown:
        """The exemplar of each bucket, [b + 1]."""
        known = self._found.get((int(metric), node, port), {})
        return [_exemplar(known[at]) if at in known else None for at in range(self._buckets)]


def _exemplar(row: np.void) -> Exemplar:
    labels = {"event_id": f"{row['shard']}-{row['sequence']}"}
    if row["flow_id"]:
        labels["flow"] = f"{int(row['flow_id']):016x}"
    seconds, rest = divmod(int(row["time_ns"]), 10**9)
    return Exemplar(labels, int(row["value"]) / 1e9, Timestamp(seconds, rest))

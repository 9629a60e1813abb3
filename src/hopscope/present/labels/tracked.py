"""Reads the paths of a collector's tracked flows (INT-label, 3.3)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...labels.tracked_state import FILE_NAME, HOPS, TRACKED_FLOW, TrackedReader
from ...memory.region_cache import CachedRegion
from ...wire.records import Records

_ORDER = ("src_hi", "src_lo", "dst_hi", "dst_lo", "proto", "sport", "dport")


class TrackedFlows(CachedRegion[TrackedReader]):
    """The region of tracked flows; `copy` has TRACKED_FLOW [flows], by addresses, protocol and ports."""

    def __init__(self, regions: Path) -> None:
        super().__init__(regions / FILE_NAME, TrackedReader.attach, _flows, TRACKED_FLOW)


def _flows(reader: TrackedReader) -> Records:
    flows = reader.flows()
    return flows[np.lexsort([flows[name] for name in _ORDER[::-1]])]


def latencies(rows: Records) -> npt.NDArray[np.int64]:
    """For each flow, the sum of the hop latencies of its newest path, ns, int64 [flows]."""
    filled = np.arange(HOPS) < rows["hops"][:, np.newaxis]
    return np.asarray(np.where(filled, rows["path"]["latency_ns"], 0).sum(axis=1, dtype=np.int64))


def passes(rows: Records, node_id: int) -> npt.NDArray[np.bool_]:
    """For each flow, whether its newest path contains a switch, bool [flows]."""
    filled = np.arange(HOPS) < rows["hops"][:, np.newaxis]
    return np.asarray((filled & (rows["path"]["node_id"] == node_id)).any(axis=1))


def path_of(row: np.void, name: str = "path") -> Records:
    """TRACKED_HOP [hops] of the newest path, or with `previous` of the path before it, source side first."""
    hops: Records = row[name]
    return hops[: int(row["hops" if name == "path" else "previous_hops"])]

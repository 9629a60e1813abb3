"""The regions that hold the state of detection: their files, arrays and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.clock import STEP_NS
from ...memory.region import Region
from ...settings.detect import DetectSettings
from ..records import (
    FLOW,
    FLOW_ROW,
    HOP_STATE,
    INLINE_HOPS,
    OWNERS,
    POOL_HOPS,
    PORT,
    SOURCE,
    STATE_VERSION,
    WAYS,
    Metric,
    PortKind,
)

KINDS = ("flows", "ports", "sources")
_LOST_KEY = np.uint64(0xFFFFFFFFFFFFFFFF)


def arrays_of(settings: DetectSettings) -> dict[str, dict[str, tuple[Any, int]]]:
    """Arrays of each region by its kind."""
    flows = settings.flow_rows * WAYS
    return {
        "flows": {
            "rows": (FLOW_ROW, settings.flow_rows),
            "flows": (FLOW, flows),
            "hops": (HOP_STATE, flows * INLINE_HOPS + settings.hop_pool * POOL_HOPS),
            "pool": (
                np.uint32,
                settings.hop_pool + 1,
            ),  # count of free blocks, then a stack of their numbers + 1
        },
        "ports": {"ports": (PORT, settings.ports), "shares": (np.uint32, OWNERS + 1)},
        "sources": {"sources": (SOURCE, settings.sources), "shares": (np.uint32, OWNERS + 1)},
    }


def memory_bytes(settings: DetectSettings) -> int:
    """Bytes of state of one shard."""
    return sum(
        np.dtype(dtype).itemsize * length
        for arrays in arrays_of(settings).values()
        for dtype, length in arrays.values()
    )


def region_path(folder: Path, shard: int, kind: str) -> Path:
    """File of a worker's region."""
    return folder / f"worker-{shard}.{kind}"


def open_tables(settings: DetectSettings, folder: Path | None, shard: int) -> dict[str, Region]:
    """Regions by kind, created or continued; rows left torn by a killed writer are dropped.

    State is a cache of the journal, so a region with another schema or size (changed settings) is recreated.
    Raises RegionError for a foreign file.
    """
    tables = {kind: _open(arrays, folder, shard, kind) for kind, arrays in arrays_of(settings).items()}
    _mend_flows(tables["flows"])
    _mend_ports(tables["ports"])
    _mend_sources(tables["sources"])
    return tables


def set_times(tables: dict[str, Region], now_ns: int, step_ns: int) -> None:
    """The clock was set by `step_ns` and is now `now_ns`: times of before become those that it would have
    had, so that ages stay. What was received after it was set is less than a second old.
    """
    for kind, region in tables.items():
        rows = region[kind]
        for name in ("first_ns", "last_ns", "pushed_ns"):
            if name in (rows.dtype.names or ()):
                times = rows[name]
                times[(times != 0) & (np.abs(times - now_ns) > STEP_NS // 2)] += step_ns


def live_flows(tables: dict[str, Region]) -> tuple[int, int]:
    """Number of flows in the tables of a worker, and number of their packets."""
    live = tables["flows"]["rows"]["tag"].reshape(-1) != 0
    packets = tables["flows"]["flows"]["packets"][live]
    return len(packets), int(packets.sum(dtype=np.uint64))


def alarms_in(tables: dict[str, Region]) -> dict[str, int]:
    """Number of raised alarms by metric, in the tables of a worker."""
    flows, hops, ports = (tables["flows"]["flows"], tables["flows"]["hops"], tables["ports"]["ports"])
    live = np.flatnonzero(tables["flows"]["rows"]["tag"].reshape(-1))
    live = live[flows["hop_count"][live] > 0]
    count, block = flows["hop_count"][live].astype(np.int64), flows["pool_block"][live].astype(np.int64)
    inline = hops["alarm"][: len(flows) * INLINE_HOPS].reshape(-1, INLINE_HOPS)[live] != 0
    raised = int((inline & (np.arange(INLINE_HOPS) < count[:, None])).sum())
    long = block > 0
    pool = hops["alarm"][len(flows) * INLINE_HOPS :].reshape(-1, POOL_HOPS)[block[long] - 1] != 0
    raised += int((pool & (np.arange(POOL_HOPS) < count[long][:, None] - INLINE_HOPS)).sum())
    queues, links, buffers = (
        ports["alarm"][ports["kind"] == kind] for kind in (PortKind.QUEUE, PortKind.EGRESS, PortKind.BUFFER)
    )
    return {
        Metric.FLOW_LATENCY.label: int(np.count_nonzero(flows["alarm"][live])),
        Metric.HOP_LATENCY.label: raised,
        Metric.QUEUE_OCCUPANCY.label: int((queues & 1).sum()),
        Metric.QUEUE_CONGESTION.label: int((queues >> 1 & 1).sum()),
        Metric.LINK_UTILIZATION.label: int(np.count_nonzero(links)),
        Metric.BUFFER_OCCUPANCY.label: int(np.count_nonzero(buffers)),
    }


def _open(arrays: dict[str, tuple[Any, int]], folder: Path | None, shard: int, kind: str) -> Region:
    path = None if folder is None else region_path(folder, shard, kind)
    return Region.open(path, kind, STATE_VERSION, arrays)


def _mend_flows(region: Region) -> None:
    """Empty rows whose version is odd; rebuild the list of free blocks, which has no version of its own."""
    rows, flows, pool = region["rows"], region["flows"], region["pool"]
    odd = rows["version"] & 1 == 1
    rows["tag"][odd] = 0
    rows["rank"][odd] = 0
    rows["version"][odd] += 1
    blocks = flows["pool_block"][rows["tag"].reshape(-1) != 0]
    free = np.setdiff1d(np.arange(1, len(pool), dtype=np.uint32), blocks)
    pool[0] = len(free)
    pool[1 : len(free) + 1] = free


def _mend_ports(region: Region) -> None:
    """Delete rows whose version is odd; their slots stay used, since probe sequences pass through them."""
    ports = region["ports"]
    odd = ports["version"] & 1 == 1
    ports["key"][odd] = 1
    ports["kind"][odd] = 0
    ports["version"][odd] += 1
    _count_shares(region["shares"], ports["owner"][ports["key"] > 1])


def _mend_sources(region: Region) -> None:
    """Free rows whose version is odd, so that another source can use them."""
    sources = region["sources"]
    odd = sources["version"] & 1 == 1
    for name in ("source_hi", "source_lo"):
        sources[name][odd] = _LOST_KEY
    sources["bits"][odd] = 1
    sources["silent"][odd] = 1
    sources["version"][odd] += 1
    _count_shares(region["shares"], sources["owner"][sources["bits"] != 0])


def _count_shares(shares: npt.NDArray[np.uint32], owners: npt.NDArray[np.uint16]) -> None:
    """Count the rows of each owner, then of all, into `shares`."""
    shares[:OWNERS] = np.bincount(owners, minlength=OWNERS)
    shares[OWNERS] = len(owners)

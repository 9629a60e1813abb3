"""Flows grouped by an end, network, protocol, path, switch or port: who sends most, what is slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from ...detect.records import NO_PORT, FlowState
from ...wire.address import MAPPED, address
from ...wire.records import Records
from ..collector_state import CollectorState
from ..events import node_object, wide
from ..text import protocol_name
from .rows import FlowRows

By = Literal["src", "dst", "src_prefix", "dst_prefix", "proto", "path", "switch", "port"]
"""Prefixes are the /24 of IPv4, the /64 of IPv6."""
OF_PATHS = ("path", "switch", "port")
"""Keys that only live flows have."""
Sort = Literal["flows", "packets", "latency", "mean_latency"]
_SLASH_24 = np.uint64(MAPPED | 0xFFFFFF00)


@dataclass(frozen=True, slots=True)
class Groups:
    """Sums by group, each array [groups], in the order asked for."""

    keys: npt.NDArray[Any]
    """One row of key words for each, uint64 [groups, words]."""
    example: npt.NDArray[np.intp]
    """Index of a flow of it."""
    flows: npt.NDArray[np.int64]
    packets: npt.NDArray[np.uint64]
    highest: npt.NDArray[np.uint64]
    """Highest of the flows' latest latencies, ns."""
    sum: npt.NDArray[np.float64]
    samples: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)

    def order(self, by: Sort) -> npt.NDArray[np.intp]:
        """Indices, largest first; equal ones by key."""
        mean = self.sum / np.maximum(self.samples, 1)
        value = {"flows": self.flows, "packets": self.packets, "latency": self.highest, "mean_latency": mean}[
            by
        ]
        return np.lexsort((*self.keys.T[::-1], -value.astype(np.float64)))


def group(found: FlowRows, by: By, state: CollectorState) -> Groups:
    """Groups of the flows that a search found.

    By switch or port a flow is in the group of every hop of its path, with that hop's latency. By one of
    OF_PATHS all of them must be live.
    """
    rows = found.records
    if by in ("switch", "port"):
        return _of_hops(rows, by, state)
    if by == "path":
        rows = rows[rows["state"] & FlowState.HAS_PATH > 0]
    keys = _keys(rows, by)
    known = rows["state"] & FlowState.HAS_LATENCY > 0
    latest = np.where(known, rows["latency_latest"], 0)
    return _summed(keys, rows["packets"], latest, rows["latency_sum"], rows["latency_samples"])


def _keys(rows: Records, by: By) -> npt.NDArray[np.uint64]:
    if by == "proto":
        return rows["proto"].astype(np.uint64)[:, None]
    if by == "path":
        return np.asarray(rows["path_hash"][:, None])
    side, _, prefix = by.partition("_")
    hi, lo = rows[f"{side}_hi"], rows[f"{side}_lo"]
    if prefix:
        lo = np.where(_is_ipv4(hi, lo), lo & _SLASH_24, np.uint64(0))
    return np.asarray(np.stack([hi, lo], axis=1))


def _is_ipv4(hi: Any, lo: Any) -> Any:
    return (hi == 0) & (lo >> 32 == MAPPED >> 32)


def _of_hops(rows: Records, by: By, state: CollectorState) -> Groups:
    hops = np.concatenate([np.zeros(0, _HOP), *_hops_of(np.sort(rows["flow_id"]), state)])
    if by == "port":
        hops = hops[hops["egress_port"] != NO_PORT]
    words = ("node_id", "egress_port") if by == "port" else ("node_id",)
    keys = np.stack([hops[word].astype(np.uint64) for word in words], axis=1)
    return _summed(keys, hops["packets"], hops["latest"], hops["latency_sum"], hops["samples"])


_HOP = np.dtype(
    [
        ("node_id", "<u4"),
        ("egress_port", "<u2"),
        ("packets", "<u8"),
        ("latest", "<u8"),
        ("latency_sum", "<u8"),
        ("samples", "<u8"),
    ]
)


def _hops_of(chosen: npt.NDArray[np.uint64], state: CollectorState) -> Iterator[Records]:
    """_HOP [hops] of the flows with these ids, ascending; of a flow in several shards, the first."""
    taken = np.zeros(len(chosen), np.bool_)
    for block in state.paths() if len(chosen) else ():
        ids = block.flows["flow_id"]
        at = np.minimum(np.searchsorted(chosen, ids), len(chosen) - 1)
        wanted = (chosen[at] == ids) & ~taken[at]
        taken[at[wanted]] = True
        kept = wanted[block.owner]
        hops, owner = block.hops[kept], block.owner[kept]
        found = np.zeros(len(hops), _HOP)
        for name in ("node_id", "egress_port", "latency_sum", "samples"):
            found[name] = hops[name]
        found["packets"] = block.flows["packets"][owner]
        found["latest"] = np.where(hops["state"] & 1, hops["latency_latest"], 0)
        yield found


def _summed(
    keys: npt.NDArray[np.uint64], packets: Any, latest: Any, latency_sum: Any, samples: Any
) -> Groups:
    if len(keys):
        order = np.lexsort(keys.T[::-1])
        ahead = keys[order]
        begins = np.flatnonzero(np.append(True, (ahead[1:] != ahead[:-1]).any(axis=1)))
    else:
        order = begins = np.zeros(0, np.intp)

    def total(values: Any, add: Any = np.add) -> Any:
        return add.reduceat(values[order], begins) if len(begins) else values[:0]

    return Groups(
        keys[order][begins],
        order[begins],
        np.diff(np.append(begins, len(keys))),
        total(packets),
        total(latest, np.maximum),
        total(np.asarray(latency_sum, np.float64)),
        total(samples),
    )


def group_object(
    groups: Groups, at: int, by: By, found: FlowRows, state: CollectorState, names: Names
) -> dict[str, Any]:
    """One group as JSON; `search` is the word that chooses it."""
    samples = int(groups.samples[at])
    key = [int(word) for word in groups.keys[at]]
    shown, search, more = _named(key, by, found, int(groups.example[at]), state, names)
    return {
        "key": shown,
        "search": search,
        **more,
        "flows": int(groups.flows[at]),
        "packets": wide(int(groups.packets[at])),
        "latency_highest_ns": wide(int(groups.highest[at])),
        "latency_mean_ns": float(groups.sum[at]) / samples if samples else None,
        "samples": wide(samples),
    }


def _named(
    key: list[int], by: By, found: FlowRows, example: int, state: CollectorState, names: Names
) -> tuple[str, str, dict[str, Any]]:
    if by == "proto":
        return protocol_name(key[0]), f"proto:{key[0]}", {}
    if by == "path":
        rows = found.records
        row = rows[rows["state"] & FlowState.HAS_PATH > 0][example]
        path = [node_object(names, node) for node in state.hops_of(row)["node_id"].tolist()]
        return names.path_label([node["id"] for node in path]), f"path:{key[0]:016x}", {"path": path}
    if by == "switch":
        node = node_object(names, key[0])
        return names.node_label(key[0]), f"node:{key[0]}", {"node": node}
    if by == "port":
        port = {"id": key[1], "name": names.port(*key)}
        label = f"{names.node_label(key[0])} · {names.port_label(*key)}"
        return label, f"node:{key[0]} egress:{key[1]}", {"node": node_object(names, key[0]), "port": port}
    side, _, prefix = by.partition("_")
    text = address(*key)
    if prefix:
        text += "/24" if _is_ipv4(*key) else "/64"
    return text, f"{side}:{text}", {}

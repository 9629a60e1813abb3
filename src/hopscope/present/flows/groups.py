"""Flows grouped by an end, network, protocol, path, switch or port: who sends most, what is slow."""

from __future__ import annotations

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

    By switch or port a flow is in the group of every hop of its path, with that hop's latency; one that two
    workers have counts twice there. By one of OF_PATHS all flows must be live.
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
    hops, chosen = state.hop_sums(), np.sort(rows["flow_id"])
    if hops is None or not len(chosen):
        empty = np.zeros(0, np.uint64)
        return _summed(np.zeros((0, 2), np.uint64), empty, empty, empty, empty)
    at = np.minimum(np.searchsorted(chosen, hops.flow_id), len(chosen) - 1)
    kept = chosen[at] == hops.flow_id
    if by == "port":
        kept &= hops.port != NO_PORT
    words = (hops.node, hops.port) if by == "port" else (hops.node,)
    keys = np.stack([word[kept] for word in words], axis=1)
    columns = (hops.packets, hops.latest, hops.latency_sum, hops.samples)
    return _summed(keys, *(column[kept] for column in columns))


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

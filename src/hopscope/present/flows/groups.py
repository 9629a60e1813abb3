"""Flows grouped by an end, network, protocol, path, switch or port, to find those
that send most or are slow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ...base.names import Names
from ...detect.flows.flow_id_set import FlowIdSet
from ...detect.records import NO_PORT, FlowState
from ...memory.snapshot import rows_at
from ...wire.address import MAPPED, address
from ...wire.records import Records
from ..collector_state import CollectorState
from ..events import node_object, port_object, wide
from ..text import protocol_name
from .rows import FlowRows

By = Literal["src", "dst", "src_prefix", "dst_prefix", "proto", "path", "switch", "port"]
"""Keys of groups. Prefixes are /24 for IPv4, and /64 for IPv6."""
OF_PATHS = ("path", "switch", "port")
"""Keys that only live flows have."""
Sort = Literal["flows", "packets", "latency", "mean_latency"]
Words = npt.NDArray[np.uint64]
_NONE: Words = np.zeros(0, np.uint64)
_SLASH_24 = np.uint64(MAPPED | 0xFFFFFF00)


@dataclass(frozen=True, slots=True)
class Groups:
    """Sums by group; each array is [groups]."""

    keys: npt.NDArray[Any]
    """Words of each group's key, uint64 [groups, words]."""
    example: npt.NDArray[np.intp]
    """Index of the first flow or hop of each group."""
    flows: npt.NDArray[np.int64]
    packets: npt.NDArray[np.uint64]
    highest: npt.NDArray[np.uint64]
    """Highest of the flows' latest latencies, ns."""
    sum: npt.NDArray[np.float64]
    samples: npt.NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.keys)

    def order(self, by: Sort) -> npt.NDArray[np.intp]:
        """Indices of the groups, the largest value first; groups with equal values are ordered by key."""
        mean = self.sum / np.maximum(self.samples, 1)
        value = {"flows": self.flows, "packets": self.packets, "latency": self.highest, "mean_latency": mean}[
            by
        ]
        return np.lexsort((*self.keys.T[::-1], -value.astype(np.float64)))


def group(found: FlowRows, by: By, state: CollectorState) -> Groups:
    """Group the flows that a search found.

    By switch or port, a flow is in the group of every hop of its path, with that hop's latency; a flow that
    two workers have counts twice. A flow with a loop is one flow of a group, but its packets count each time
    they pass. By one of OF_PATHS, all flows must be live.
    """
    rows = found.records
    if by in ("switch", "port"):
        return _of_hops(rows, by, state)
    if by == "path":
        at = np.flatnonzero(rows["state"] & FlowState.HAS_PATH)
        rows = rows_at(rows, at)
    known = rows["state"] & FlowState.HAS_LATENCY > 0
    latest = np.where(known, rows["latency_latest"], 0)
    columns = (rows["packets"], latest, rows["latency_sum"], rows["latency_samples"])
    found_groups = _summed(_keys(rows, by), *columns)
    return replace(found_groups, example=at[found_groups.example]) if by == "path" else found_groups


def _keys(rows: Records, by: By) -> tuple[Words, ...]:
    if by == "proto":
        return (rows["proto"].astype(np.uint64),)
    if by == "path":
        return (rows["path_hash"],)
    side, _, prefix = by.partition("_")
    hi, lo = rows[f"{side}_hi"], rows[f"{side}_lo"]
    if prefix:
        lo = np.where(_is_ipv4(hi, lo), lo & _SLASH_24, np.uint64(0))
    return hi, lo


def _is_ipv4(hi: Any, lo: Any) -> Any:
    return (hi == 0) & (lo >> 32 == MAPPED >> 32)


def _of_hops(rows: Records, by: By, state: CollectorState) -> Groups:
    hops = state.hop_sums()
    if hops is None or not len(rows):
        return _summed((_NONE, _NONE), _NONE, _NONE, _NONE, _NONE)
    words = (hops.node, hops.port) if by == "port" else (hops.node,)
    columns = (hops.flow_id, hops.packets, hops.latest, hops.latency_sum, hops.samples, *words)
    kept = FlowIdSet(rows["flow_id"]).has(hops.flow_id)
    if by == "port":
        kept &= hops.port != NO_PORT
    if not kept.all():
        columns = tuple(column[kept] for column in columns)
    flow_id, packets, latest, latency_sum, samples, *keys = columns
    looped = FlowIdSet(rows["flow_id"][rows["state"] & FlowState.HAS_LOOP > 0])
    first = _first_passes(tuple(keys), flow_id, looped)
    return _summed(tuple(keys), packets, latest, latency_sum, samples, first)


def _first_passes(keys: tuple[Words, ...], flow_id: Words, looped: FlowIdSet) -> npt.NDArray[np.bool_]:
    """Which hops are the first hop of their flow in their group, bool [hops]."""
    first = np.ones(len(flow_id), np.bool_)
    at = np.flatnonzero(looped.has(flow_id)) if len(looped) else np.zeros(0, np.intp)
    if len(at):
        _, example = _codes((*(column[at] for column in keys), flow_id[at]))
        first[at] = False
        first[at[example]] = True
    return first


def _summed(
    keys: tuple[Words, ...],
    packets: Any,
    latest: Any,
    latency_sum: Any,
    samples: Any,
    first: npt.NDArray[np.bool_] | None = None,
) -> Groups:
    """Sums of rows by key. `first`: the rows that count as a flow; None: all."""
    codes, example = _codes(keys)
    count = len(example)

    def total(values: Any, add: np.ufunc = np.add) -> Any:
        sums = np.zeros(count, values.dtype)
        add.at(sums, codes, values)
        return sums

    return Groups(
        np.stack([column[example] for column in keys], axis=1),
        example,
        np.bincount(codes if first is None else codes[first], minlength=count),
        total(packets),
        total(latest, np.maximum),
        total(np.asarray(latency_sum, np.float64)),
        total(samples),
    )


def _codes(keys: tuple[Words, ...]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The group of each row, and the first row of each group."""
    codes = np.zeros(len(keys[0]), np.uint64)
    for column in keys:
        part = _numbered(column)
        codes = _numbered(codes * (part.max(initial=np.uint64(0)) + np.uint64(1)) + part)
    found = codes.astype(np.intp)
    example = np.zeros(int(found.max(initial=-1)) + 1, np.intp)
    example[found[::-1]] = np.arange(len(found))[::-1]
    return found, example


def _numbered(column: Words) -> Words:
    """Replace values by their index among the distinct values. Small values are looked up in a table, which
    takes 2 ms for 500,000 hops instead of 45 ms for sorting.
    """
    highest = int(column.max(initial=np.uint64(0)))
    if highest > 4 * len(column) + 65_536:
        return np.asarray(np.unique(column, return_inverse=True)[1], np.uint64)
    present = np.zeros(highest + 1, np.bool_)
    present[column] = True
    return np.asarray(np.cumsum(present, dtype=np.uint64)[column] - np.uint64(1))


def group_object(
    groups: Groups, at: int, by: By, found: FlowRows, state: CollectorState, names: Names
) -> dict[str, Any]:
    """One group as JSON; `search` is the search word that selects its flows."""
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
        hops = state.hops_of(found.records[example])
        path = [node_object(names, node) for node in hops["node_id"].tolist()]
        return names.path_label([node["id"] for node in path]), f"path:{key[0]:016x}", {"path": path}
    if by == "switch":
        node = node_object(names, key[0])
        return names.node_label(key[0]), f"node:{key[0]}", {"node": node}
    if by == "port":
        port = port_object(names, *key)
        label = f"{names.node_label(key[0])} · {names.port_label(*key)}"
        return label, f"node:{key[0]} egress:{key[1]}", {"node": node_object(names, key[0]), "port": port}
    side, _, prefix = by.partition("_")
    text = address(*key)
    if prefix:
        text += "/24" if _is_ipv4(*key) else "/64"
    return text, f"{side}:{text}", {}

"""Reports of a switch as observations, the input of DTA's monitors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..wire.observation import OBSERVATION, flow_bytes, fold
from ..wire.reasons import Reason
from ..wire.records import Carried, Have, Records, ReportBatch

_MAPPED, _ONES_32 = np.uint64(0xFFFF), np.uint64(0xFFFFFFFF)


def observations_of(batch: ReportBatch, first: int, now_ns: int) -> Records:
    """OBSERVATION records: every hop of every accepted report with a flow, in path order.

    `first`: number of the first report; observations of one packet have the same number. A report with a
    path and a hop of its own comes from a sink.
    """
    carried = batch.reports["carried"]
    reports = batch.reports[(batch.reports["reason"] == Reason.NONE) & (carried & Carried.FLOW != 0)]
    own = (reports["carried"] & Carried.OWN_HOP != 0).astype(np.int64)
    hops = reports["hop_count"].astype(np.int64) + own
    counts = np.maximum(hops, 1)  # a report without hops still shows a packet at its node
    of = np.repeat(np.arange(len(reports)), counts)
    place = np.arange(len(of)) - np.repeat(np.cumsum(counts) - counts, counts)
    report, has = reports[of], hops[of] > 0
    hop = batch.hops[np.where(has, report["first_hop"] + place, 0)] if len(batch.hops) else None
    is_own = place >= report["hop_count"]
    seen = np.zeros(len(of), OBSERVATION)
    seen["time_ns"], seen["packet"] = now_ns, first + of
    for name, source, bit in (
        ("switch", "node_id", Have.NODE_ID), ("hop_latency", "hop_latency", Have.HOP_LATENCY),
        ("queue_depth", "queue_occupancy", Have.QUEUE_OCCUPANCY),
        ("ingress_port", "ingress_port", Have.PORTS), ("egress_port", "egress_port", Have.PORTS),
    ):  # fmt: skip
        if hop is not None:
            known = has & (hop["present"] & bit != 0) & (hop["null"] & bit == 0)
            seen[name] = np.where(known, hop[source], 0)
    seen["switch"][is_own] = report["node_id"][is_own]
    seen["hop"], seen["path_length"] = np.minimum(place + 1, 255), np.minimum(counts[of], 255)
    seen["is_sink"] = is_own & (report["hop_count"] > 0)
    seen["drop_reason"] = np.where(is_own, report["drop_reason"], 0)
    seen["size"], seen["ip_version"] = report["inner_length"], report["ip_version"]
    ends = (_folded(report["src_hi"], report["src_lo"]), _folded(report["dst_hi"], report["dst_lo"]))
    seen["flow"] = flow_bytes(*ends, report["proto"], report["sport"], report["dport"])
    return seen


def _folded(high: npt.NDArray[np.uint64], low: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    """Addresses folded to 32 bits; IPv6 addresses are folded one by one."""
    folded = low & _ONES_32
    for row in np.flatnonzero((high != 0) | (low >> np.uint64(32) != _MAPPED)).tolist():
        folded[row] = fold(int(high[row]), int(low[row]))
    return folded

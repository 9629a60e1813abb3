"""Filters of report batches by flow, prefix, node and kind."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...base.names import Names
from ...present.select import Mask
from ...wire.records import Carried, Have, Kind, ReportBatch
from ..options.filters import FilterError, flow_filter, node_ids

ERROR = "error"
"""The kind of a rejected report."""
KINDS = (*(kind.name.lower() for kind in Kind), ERROR)


class ReportFilter:
    """All filters of one command, over report batches; an absent filter passes everything."""

    def __init__(
        self,
        flow: str | None = None,
        prefixes: Sequence[str] = (),
        nodes: Sequence[str] = (),
        kinds: Sequence[str] = (),
        names: Names | None = None,
    ) -> None:
        """Raises FilterError."""
        self._flow = flow_filter(flow, prefixes)
        self._nodes = node_ids(nodes, names or Names())
        self._kinds = {word for kind in kinds for word in kind.lower().replace(",", " ").split()}
        for kind in self._kinds:
            if kind not in KINDS:
                raise FilterError(f"--kind: unknown kind {kind!r}, expected {', '.join(KINDS)}")

    def select(self, batch: ReportBatch) -> ReportBatch:
        """The reports that pass, over the same hops."""
        kept = self.mask(batch)
        if kept.all():
            return batch
        return ReportBatch(batch.reports[kept], batch.hops, batch.first_packet, batch.other)

    def mask(self, batch: ReportBatch) -> Mask:
        """bool [reports]. A rejected report passes by the fields that could be read."""
        reports = batch.reports
        kept = np.ones(len(reports), np.bool_)
        if self._flow:
            kept &= (reports["carried"] & Carried.FLOW != 0) & self._flow.mask(reports)
        if self._nodes:
            kept &= self._node_mask(batch)
        if self._kinds:
            wanted = [kind for kind in Kind if kind.name.lower() in self._kinds]
            rejected = reports["reason"] != 0
            kept &= (np.isin(reports["kind"], wanted) & ~rejected) | (rejected & (ERROR in self._kinds))
        return kept

    def _node_mask(self, batch: ReportBatch) -> Mask:
        """Reports from these nodes, or with one of them on the path."""
        reports, hops = batch.reports, batch.hops
        there = (hops["present"] & Have.NODE_ID != 0) & (hops["null"] & Have.NODE_ID == 0)
        there &= np.isin(hops["node_id"], self._nodes)
        before = np.concatenate([[0], np.cumsum(there)])
        first = np.minimum(reports["first_hop"].astype(np.int64), len(hops))
        last = np.minimum(first + reports["hop_count"], len(hops))
        own = (reports["carried"] & Carried.NODE_ID != 0) & np.isin(reports["node_id"], self._nodes)
        found: Mask = own | (before[last] > before[first])
        return found

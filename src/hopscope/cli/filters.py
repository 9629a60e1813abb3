"""Filters of reports: by flow, prefix, node and kind. Shared by decode, query and top.

The rows may be of any record type with a flow in it: REPORT, EVENT and FLOW name its fields alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import numpy as np
import typer

from ..base.errors import HopscopeError
from ..base.names import Names
from ..present.select import FlowFilter, Mask
from ..present.text import UnreadableError
from ..wire.records import Carried, Have, Kind, ReportBatch

ERROR = "error"
"""The kind of a rejected report."""
KINDS = (*(kind.name.lower() for kind in Kind), ERROR)

FlowOption = Annotated[
    str | None,
    typer.Option(
        "--flow",
        metavar="FLOW",
        help="Only this flow: SRC,DST,PROTO,SPORT,DPORT or a part, as 192.0.2.1,192.0.2.9 or dport=53.",
        show_default=False,
    ),
]
PrefixOption = Annotated[
    list[str] | None,
    typer.Option(
        "--prefix",
        metavar="PREFIX",
        help="Only flows from or to this network, as 192.0.2.0/24. Repeatable.",
        show_default=False,
    ),
]
NodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NODE",
        help="Only with this node (number or name). Repeatable.",
        show_default=False,
    ),
]


class FilterError(HopscopeError):
    """A filter that cannot be read: what was found, what was expected."""


def flow_filter(flow: str | None, prefixes: Sequence[str] | None) -> FlowFilter | None:
    """The filter of --flow and --prefix; None: neither was given. Raises FilterError."""
    if not flow and not prefixes:
        return None
    option = f"--flow {flow}"
    try:
        parts = FlowFilter.parse(flow or "")
        option = f"--prefix {', '.join(prefixes or ())}"
        return replace(parts, prefixes=FlowFilter.parse("", prefixes or ()).prefixes)
    except UnreadableError as error:
        raise FilterError(f"{option}: {str(error).removeprefix('prefix: ')}") from None


def node_ids(nodes: Sequence[str], names: Names) -> list[int]:
    """Ids of nodes given by number or name. Raises FilterError."""
    found = []
    for node in nodes:
        number = names.find_node(node)
        if number is None:
            raise FilterError(f"--node: unknown node {node!r}, expected a number or a name of --names")
        found.append(number)
    return found


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
        """bool [reports]. A rejected report passes by what was read of it."""
        reports = batch.reports
        kept = np.ones(len(reports), np.bool_)
        if self._flow:
            kept &= (reports["carried"] & Carried.FLOW != 0) & self._flow.mask(reports)
        if self._nodes:
            kept &= self._node_mask(batch)
        if self._kinds:
            wanted = [kind for kind in Kind if kind.name.lower() in self._kinds]
            refused = reports["reason"] != 0
            kept &= (np.isin(reports["kind"], wanted) & ~refused) | (refused & (ERROR in self._kinds))
        return kept

    def _node_mask(self, batch: ReportBatch) -> Mask:
        """Reports by these nodes, or with one of them on the path."""
        reports, hops = batch.reports, batch.hops
        there = (hops["present"] & Have.NODE_ID != 0) & (hops["null"] & Have.NODE_ID == 0)
        there &= np.isin(hops["node_id"], self._nodes)
        before = np.concatenate([[0], np.cumsum(there)])
        first = np.minimum(reports["first_hop"].astype(np.int64), len(hops))
        last = np.minimum(first + reports["hop_count"], len(hops))
        own = (reports["carried"] & Carried.NODE_ID != 0) & np.isin(reports["node_id"], self._nodes)
        found: Mask = own | (before[last] > before[first])
        return found

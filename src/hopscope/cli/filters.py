"""Which reports a command is about: by flow, prefix, node and kind. Shared by decode, query and top.

The rows may be of any record type with a flow in it: REPORT, EVENT and FLOW name its fields alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import typer

from ..base.errors import HopscopeError
from ..base.names import Names
from ..present.select import Mask, in_network, protocol
from ..present.text import UnreadableError
from ..wire.records import Carried, Have, Kind, Records, ReportBatch

FLOW_PARTS = ("src", "dst", "proto", "sport", "dport")
ERROR = "error"
"""The kind of a refused report."""
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
        help="Only flows from or to this network, as in 192.0.2.0/24. Repeatable.",
        show_default=False,
    ),
]
NodeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NODE",
        help="Only what this node, a number or a name, is in. Repeatable.",
        show_default=False,
    ),
]


class FilterError(HopscopeError):
    """A filter that cannot be read: what was found, what was expected."""


@dataclass(frozen=True, slots=True)
class FlowParts:
    """A 5-tuple or a part of it; None: anything. Addresses may be prefixes."""

    src: str | None = None
    dst: str | None = None
    proto: int | None = None
    sport: int | None = None
    dport: int | None = None

    @classmethod
    def parse(cls, text: str) -> FlowParts:
        """Parts in the order of the 5-tuple (empty or `*`: any), or `name=value`. Raises FilterError."""
        parts: dict[str, str | int] = {}
        for position, word in enumerate(text.split(",")):
            name, equals, value = word.strip().partition("=")
            if not equals:
                name, value = (FLOW_PARTS[position] if position < len(FLOW_PARTS) else ""), name
            name, value = name.strip(), value.strip()
            if name not in FLOW_PARTS or name in parts:
                raise FilterError(
                    f"--flow {text}: found {word.strip()!r}, expected {','.join(FLOW_PARTS)}, each once"
                )
            if value not in ("", "*"):
                parts[name] = _part(text, name, value)
        return cls(**parts)  # type: ignore[arg-type]

    def mask(self, rows: Records) -> Mask:
        """bool [rows]."""
        kept = np.ones(len(rows), np.bool_)
        for side, address in (("src", self.src), ("dst", self.dst)):
            if address is not None:
                kept &= in_network(rows, side, address)
        for name, number in (("proto", self.proto), ("sport", self.sport), ("dport", self.dport)):
            if number is not None:
                kept &= rows[name] == number
        return kept


def _part(text: str, name: str, value: str) -> str | int:
    try:
        if name == "proto":
            return protocol(value)
        if name in ("src", "dst"):
            in_network(np.zeros(0, _ADDRESSES), name, value)
            return value
    except UnreadableError as error:
        raise FilterError(f"--flow {text}: {error}") from None
    if not value.isdecimal() or len(value) > 5 or int(value) > 0xFFFF:
        raise FilterError(f"--flow {text}: {name}: found {value!r}, expected a port from 0 to 65535")
    return int(value)


_ADDRESSES = np.dtype([(f"{side}_{half}", "<u8") for side in ("src", "dst") for half in ("hi", "lo")])


def prefix_mask(rows: Records, prefixes: Sequence[str]) -> Mask:
    """Rows whose source or destination is in one of `prefixes`; bool [rows]. Raises FilterError."""
    kept = np.zeros(len(rows), np.bool_)
    for prefix in prefixes:
        try:
            kept |= in_network(rows, "src", prefix) | in_network(rows, "dst", prefix)
        except UnreadableError as error:
            raise FilterError(f"--prefix {prefix}: {str(error).partition(': ')[2]}") from None
    return kept


def node_ids(nodes: Sequence[str], names: Names) -> list[int]:
    """Ids of nodes given by number or name. Raises FilterError."""
    found = []
    for node in nodes:
        number = names.find_node(node)
        if number is None:
            raise FilterError(f"--node {node}: no node of this name; expected a number, or a name in --names")
        found.append(number)
    return found


class ReportFilter:
    """All filters of one command, over report batches; what is not given lets everything pass."""

    def __init__(
        self,
        flow: str | None = None,
        prefixes: Sequence[str] = (),
        nodes: Sequence[str] = (),
        kinds: Sequence[str] = (),
        names: Names | None = None,
    ) -> None:
        """Raises FilterError."""
        self._flow = FlowParts.parse(flow) if flow else None
        self._prefixes = tuple(prefixes)
        self._nodes = node_ids(nodes, names or Names())
        self._kinds = {word for kind in kinds for word in kind.lower().replace(",", " ").split()}
        prefix_mask(np.zeros(0, _ADDRESSES), self._prefixes)
        for kind in self._kinds:
            if kind not in KINDS:
                raise FilterError(f"--kind {kind}: expected {', '.join(KINDS)}")

    def select(self, batch: ReportBatch) -> ReportBatch:
        """The reports that pass, over the same hops."""
        kept = self.mask(batch)
        if kept.all():
            return batch
        return ReportBatch(batch.reports[kept], batch.hops, batch.first_packet, batch.other)

    def mask(self, batch: ReportBatch) -> Mask:
        """bool [reports]. A refused report passes by what had been read of it before."""
        reports = batch.reports
        kept = np.ones(len(reports), np.bool_)
        if self._flow or self._prefixes:
            kept &= reports["carried"] & Carried.FLOW != 0
        if self._flow:
            kept &= self._flow.mask(reports)
        if self._prefixes:
            kept &= prefix_mask(reports, self._prefixes)
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

"""Selection: filters, sorting and paging for record arrays and history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..detect.places import ports_of_events
from ..detect.records import PATH_PART, Kind, Metric
from ..wire.records import Records
from .events import continues
from .text import UnreadableError, network, protocol

if TYPE_CHECKING:
    from ..history.reading.filters import Filters

T = TypeVar("T")
Mask = npt.NDArray[np.bool_]
KINDS = {kind.label: kind for kind in Kind}
METRICS = {metric.label: metric for metric in Metric if metric}
"""Kinds and metrics of events by their labels."""
PLACE_METRICS = tuple(name for name in METRICS if name not in ("flow_path", "flow_latency", "label_coverage"))
"""Metrics of a port, queue or buffer."""
FLOW_PARTS = ("src", "dst", "proto", "sport", "dport")
_PRINTED = re.compile(r"(\S+) (?:→|->) (\S+)(?: (\w+))?")
"""A flow as tables print it (`units.flow_text`)."""
FLOW_ORDER = {
    "latency": "latency_latest",
    "mean_latency": "latency_mean",
    "packets": "packets",
    "last_seen": "last_ns",
    "first_seen": "first_ns",
    "hops": "hop_count",
}
"""Names of sort orders of flows, and the field of each."""


@dataclass(frozen=True, slots=True)
class FlowFilter:
    """Conditions on a flow; None and empty: any. `src` and `dst` are addresses or prefixes."""

    src: str | None = None
    dst: str | None = None
    proto: int | str | None = None
    """Number or name."""
    sport: int | None = None
    dport: int | None = None
    port: int | None = None
    """Source or destination port."""
    prefixes: tuple[str, ...] = ()
    """Source or destination is in one of these networks."""

    @classmethod
    def parse(cls, text: str, prefixes: Sequence[str] = ()) -> FlowFilter:
        """Parse parts in the order of the 5-tuple (empty or `*`: any) or as `name=value`; or a flow as tables
        print it, such as `10.0.0.1:4000 → 10.0.1.2:53 udp`. Raises UnreadableError.
        """
        if printed := _PRINTED.fullmatch(text.strip()):
            (src, sport), (dst, dport) = _end(printed[1]), _end(printed[2])
            text = f"{src},{dst},{printed[3] or ''},{sport},{dport}"
        parts: dict[str, str | int] = {}
        for position, word in enumerate(text.split(",") if text else ()):
            name, equals, value = word.strip().partition("=")
            if not equals:
                name, value = (FLOW_PARTS[position] if position < len(FLOW_PARTS) else ""), name
            name, value = name.strip(), value.strip()
            if name not in FLOW_PARTS or name in parts:
                raise UnreadableError(f"found {word.strip()!r}, expected {','.join(FLOW_PARTS)}, each once")
            if value in ("", "*"):
                continue
            if name in ("sport", "dport"):
                if not value.isdecimal() or len(value) > 5 or int(value) > 0xFFFF:
                    raise UnreadableError(f"{name}: found {value!r}, expected a port from 0 to 65535")
                parts[name] = int(value)
            else:
                parts[name] = protocol(value) if name == "proto" else value
        found = cls(**parts, prefixes=tuple(prefixes))  # type: ignore[arg-type]
        found.mask(np.zeros(0, _FLOW))
        return found

    def mask(self, rows: Records) -> Mask:
        """bool [rows]: which records with a 5-tuple match. Raises UnreadableError, which names the part."""
        kept = np.ones(len(rows), np.bool_)
        for side, address in (("src", self.src), ("dst", self.dst)):
            if address is not None:
                kept &= in_network(rows, side, address)
        if self.prefixes:
            inside = np.zeros(len(rows), np.bool_)
            for prefix in self.prefixes:
                for side in ("src", "dst"):
                    inside |= in_network(rows, side, prefix, "prefix")
            kept &= inside
        for name, number in (("sport", self.sport), ("dport", self.dport)):
            if number is not None:
                kept &= rows[name] == number
        if self.port is not None:
            kept &= (rows["sport"] == self.port) | (rows["dport"] == self.port)
        if self.proto is not None:
            kept &= rows["proto"] == (self.proto if isinstance(self.proto, int) else protocol(self.proto))
        return kept


def _end(text: str) -> tuple[str, str]:
    """Address and port (empty if there is none) of one end of a printed flow."""
    host, colon, port = text.rpartition(":")
    return (host, port) if colon and (":" not in host or host.endswith("]")) else (text, "")


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions on events; None and empty: any. Times are ns since the epoch; `end_ns` is exclusive."""

    start_ns: int | None = None
    end_ns: int | None = None
    kinds: tuple[Kind, ...] = ()
    metrics: tuple[Metric, ...] = ()
    nodes: tuple[int, ...] = ()
    """Nodes of the event itself or, without `ports`, on its path."""
    flow_id: int | None = None
    flow: FlowFilter | None = None
    ports: tuple[int, ...] = ()
    """Egress ports of the event itself; with `nodes`, on one of these nodes."""

    def mask(self, rows: Records) -> Mask:
        """bool [rows]: which EVENT records match; of a long path, only the first record. Raises
        UnreadableError.
        """
        kept = ~continues(rows)
        if self.flow is not None:
            kept &= self.flow.mask(rows)
        if self.start_ns is not None:
            kept &= rows["time_ns"] >= self.start_ns
        if self.end_ns is not None:
            kept &= rows["time_ns"] < self.end_ns
        if self.kinds:
            kept &= np.isin(rows["kind"], self.kinds)
        if self.metrics:
            kept &= np.isin(rows["metric"], self.metrics)
        if self.nodes:
            of_node = np.isin(rows["node_id"], self.nodes)
            kept &= of_node if self.ports else of_node | on_path(rows, self.nodes)
        if self.ports:
            kept &= np.isin(ports_of_events(rows), self.ports)
        if self.flow_id is not None:
            kept &= rows["flow_id"] == np.uint64(self.flow_id)
        return kept

    def of_history(self) -> Filters:
        """These conditions as filters for a query of history."""
        from ..history.reading.filters import Flow

        found: Filters = {
            "start": self.start_ns,
            "end": self.end_ns,
            "kinds": [kind.label for kind in self.kinds],
            "metrics": [metric.label for metric in self.metrics],
            "nodes": self.nodes,
            "ports": self.ports,
        }
        flow = self.flow or FlowFilter()
        if flow.prefixes:
            found["prefix"] = flow.prefixes
        number = protocol(flow.proto) if isinstance(flow.proto, str) else flow.proto
        chosen = Flow(flow.src, flow.dst, flow.sport, flow.dport, number, self.flow_id)
        if chosen != Flow():
            found["flow"] = chosen
        return found


def on_path(rows: Records, nodes: npt.ArrayLike) -> Mask:
    """bool [rows]: which EVENT records have one of the nodes on their path. If a further record of a long
    path has one, the first record counts as well.
    """
    has_path = (rows["metric"] == Metric.FLOW_PATH) | (rows["kind"] == Kind.LOOP)
    count = np.maximum(rows["hop_count"].astype(np.int64) - rows["hop"], 0)
    known = np.arange(PATH_PART) < count[:, np.newaxis]
    found: Mask = has_path & (np.isin(rows["path"], nodes) & known).any(axis=1)
    for at in np.flatnonzero(found & continues(rows)).tolist():
        found[max(0, at - int(rows["hop"][at]) // PATH_PART)] = True  # the record that begins the path
    return found


def labelled(name: str, words: Iterable[str], known: Mapping[str, T]) -> tuple[T, ...]:
    """The values of `known` for these labels, each once. Raises UnreadableError."""
    words = tuple(dict.fromkeys(word for text in words for word in text.lower().replace(",", " ").split()))
    for word in words:
        if word not in known:
            raise UnreadableError(f"{name}: unknown {name} {word[:60]!r}, expected one of {', '.join(known)}")
    return tuple(known[word] for word in words)


_FLOW = np.dtype(
    [
        *((f"{side}_{half}", "<u8") for side in ("src", "dst") for half in ("hi", "lo")),
        *((name, "<u2") for name in ("proto", "sport", "dport")),
    ]
)


def in_network(rows: Records, side: str, text: str, name: str | None = None) -> Mask:
    """bool [rows]: whether the address of `side` (src or dst) is in a network. `::` (no address) is in no
    network, and no IPv4 address is in an IPv6 network.
    """
    try:
        high, low, mask_high, mask_low = (np.uint64(part) for part in network(text))
    except UnreadableError as error:
        raise UnreadableError(f"{name or side}: {error}") from None
    found: Mask = (rows[f"{side}_hi"] & mask_high == high & mask_high) & (
        rows[f"{side}_lo"] & mask_low == low & mask_low
    )
    if high == low == 0:
        found &= (rows[f"{side}_hi"] != 0) | (rows[f"{side}_lo"] != 0) & (rows[f"{side}_lo"] >> 32 != 0xFFFF)
    return found


def highest_flows(rows: Records, by: str, limit: int) -> Records:
    """The `limit` first FLOW rows, sorted by a name in FLOW_ORDER, the highest value first."""
    return rows[order_of(rows, by, True, 0, limit)]


def order_of(rows: Records, by: str, descending: bool, offset: int, limit: int) -> npt.NDArray[np.intp]:
    """The indices of one page of FLOW rows, sorted by a name in FLOW_ORDER, and by id if values are equal. By
    latency, flows without latency come last.
    """
    field = FLOW_ORDER[by]
    if field == "latency_mean":
        key = rows["latency_sum"] / np.maximum(rows["latency_samples"], 1)
    else:
        key = rows[field].astype(np.float64)
    if by.endswith("latency"):
        key = np.where(rows["state"] & 2, key, -1.0 if descending else np.inf)
    return smallest((-key if descending else key, rows["flow_id"]), offset, offset + limit)


def smallest(keys: Sequence[npt.NDArray[Any]], first: int, end: int) -> npt.NDArray[np.intp]:
    """Indices of the rows at positions `first` to `end` in ascending order of the keys (the first key is
    compared first).

    Only these rows are sorted: any page of 100,000 flows takes 2 ms, while sorting all takes 50 ms.
    """
    key, *further = keys
    end = min(end, len(key))
    if first >= end:
        return np.zeros(0, np.intp)
    lowest, highest = np.partition(key, (first, end - 1))[[first, end - 1]]
    before = int(np.count_nonzero(key < lowest))
    parts = []
    between = np.flatnonzero((key > lowest) & (key < highest))
    for value in (lowest, highest) if highest > lowest else (lowest,):
        equal = np.flatnonzero(key == value)
        start, stop = max(0, first - before), min(len(equal), end - before)
        if further:
            parts.append(equal[smallest([other[equal] for other in further], start, stop)])
        else:
            parts.append(equal[start:stop])
        before += len(equal) + len(between)
    parts.insert(1, between[np.lexsort([other[between] for other in reversed(keys)])])
    return np.concatenate(parts)

"""Filters of events, as SQL over columns.COLUMNS."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from ...detect.records import NO_PORT, PATH_PART, Kind, Metric
from ...wire.address import network
from ...wire.records import Records
from ..columns import PORT, quoted
from ..errors import HistoryError
from ..files.journal_chunks import Selected
from ..files.segment_index import (
    EARLIEST,
    LATEST,
    Criteria,
    address_key,
    flow_key,
    node_key,
    place_key,
    port_key,
)

_LOW = 0xFFFFFFFFFFFFFFFF
_MAX_PLACES = 256
"""Largest number of (node, port) pairs that are looked up in an index. With more, the separate keys of nodes
and of ports rule out enough chunks."""
_MAX_COMPARED = 16
"""Largest number of nodes or ports with which each event of a journal is compared."""


@dataclass(frozen=True, slots=True)
class Flow:
    """Parts of a 5-tuple, with addresses or networks; None: any. `flow_id` alone identifies a flow."""

    src: str | None = None
    dst: str | None = None
    sport: int | None = None
    dport: int | None = None
    proto: int | None = None
    flow_id: int | None = None


class Filters(TypedDict, total=False):
    """Filters of events, all of which must match."""

    start: int | datetime | None
    """Start of the time range, ns since the epoch or a datetime (without a zone: UTC)."""
    end: int | datetime | None
    """End of the time range, exclusive."""
    kinds: Collection[str]
    """Kinds, such as `path_change`."""
    metrics: Collection[str]
    """Metrics, such as `hop_latency`."""
    nodes: Collection[int]
    """Node ids: of the event itself or, without `ports`, on its path."""
    ports: Collection[int]
    """Egress ports of the event itself; with `nodes`, on one of these nodes."""
    flow: Flow | None
    """Parts of the 5-tuple."""
    flows: Collection[Flow]
    """Any of these flows; empty: any flow."""
    prefix: str | Collection[str] | None
    """Networks, such as `10.1.0.0/16`; at least one end of the flow is in one of them."""
    since: Mapping[int, int] | None
    """First sequence by shard; all events of shards that are not listed."""


class QueueFilters(TypedDict, total=False):
    """Filters of distributions, all of which must match."""

    start: int | datetime | None
    """Only periods that end after this time: ns since the epoch or a datetime (without a zone: UTC)."""
    end: int | datetime | None
    """Only periods that begin before this time."""
    nodes: Collection[int]
    ports: Collection[int]
    queues: Collection[int]
    measures: Collection[str]
    """Measures, such as `hop_latency`."""


HEAD = "(hop = 0 OR metric IS DISTINCT FROM 'flow_path')"
"""SQL condition that leaves out all but the first record of a path of more than PATH_PART nodes."""


def is_further(events: Records) -> npt.NDArray[np.bool_]:
    """bool [n]: which EVENT records continue a path of more than PATH_PART nodes."""
    found: npt.NDArray[np.bool_] = (events["hop"] != 0) & (events["metric"] == Metric.FLOW_PATH)
    return found


def criteria_of(filters: Filters) -> Criteria:
    """The part of the filters that the index of a segment can check. HistoryError: an invalid filter."""
    start, end = (filters.get("start"), filters.get("end"))
    flow = filters.get("flow") or Flow()
    prefix = filters.get("prefix") or ()
    keys = []
    nodes, ports = filters.get("nodes"), filters.get("ports")
    if nodes:
        keys.append(tuple(node_key(int(node)) for node in nodes))
    if ports:
        keys.append(tuple(port_key(int(port)) for port in ports))
    places: tuple[int, ...] = ()
    if nodes and ports and len(nodes) * len(ports) <= _MAX_PLACES:
        places = tuple(place_key(int(node), int(port)) for node in nodes for port in ports)
    if flow.flow_id is not None:
        keys.append((flow_key(flow.flow_id),))
    flows = filters.get("flows") or ()
    sides = ((flow.src,), (flow.dst,), tuple(flow.src for flow in flows), tuple(flow.dst for flow in flows))
    for networks in (*sides, (prefix,) if isinstance(prefix, str) else tuple(prefix)):
        ends = [] if None in networks else [_network(text) for text in networks if text is not None]
        if ends and all(first == last for first, last in ends):
            keys.append(tuple(address_key(first) for first, _ in ends))
    return Criteria(
        EARLIEST if start is None else to_ns(start),
        LATEST if end is None else to_ns(end) - 1,
        sum(1 << kind for kind in Kind if kind.label in (filters.get("kinds") or ())),
        sum(1 << metric for metric in Metric if metric.label in (filters.get("metrics") or ())),
        tuple(keys),
        places,
        bool(nodes) and not ports and _with_paths(filters),
        tuple((int(shard), int(first)) for shard, first in (filters.get("since") or {}).items()),
    )


def selection(filters: Filters) -> Selected | None:
    """Which EVENT records may match the filters' nodes, ports and flow, as far as this is known from a few
    comparisons; None: without filters of these, any.
    """
    nodes, ports, flow = filters.get("nodes"), filters.get("ports"), filters.get("flow") or Flow()
    on_path = not ports and _with_paths(filters)
    numbers = {name: getattr(flow, name) for name in ("flow_id", "sport", "dport", "proto")}
    for side, text in (("src", flow.src), ("dst", flow.dst)):
        first, last = (0, 1) if text is None else _network(text)
        numbers[f"{side}_lo"] = first & _LOW if first == last else None
    chosen = [(name, int(number)) for name, number in numbers.items() if number is not None]
    few_nodes, few_ports = (few if few and len(few) <= _MAX_COMPARED else () for few in (nodes, ports))
    if not chosen and not few_nodes and not few_ports:
        return None

    def select(events: Records) -> npt.NDArray[np.bool_]:
        found = np.ones(len(events), bool)
        for name, number in chosen:
            found &= events[name] == number
        if few_nodes:
            found &= _has_node(events, few_nodes, on_path)
        if few_ports:  # an ifIndex may be in `ident`
            found &= _is_one(events["port"], few_ports) | (events["port"] == NO_PORT)
        return found

    return select


def _is_one(values: npt.NDArray[Any], numbers: Collection[int]) -> npt.NDArray[np.bool_]:
    """bool [n]: which values are one of few numbers."""
    found: npt.NDArray[np.bool_] = np.logical_or.reduce([values == int(number) for number in numbers])
    return found


def _has_node(events: Records, nodes: Collection[int], on_path: bool) -> npt.NDArray[np.bool_]:
    """bool [n]: which EVENT records are of these nodes; or may have one on their path, of which further
    records may follow.
    """
    found = _is_one(events["node_id"], nodes)
    if on_path:
        rows = np.flatnonzero((events["metric"] == Metric.FLOW_PATH) | (events["kind"] == Kind.LOOP))
        continues = events["hop_count"][rows] > PATH_PART
        found[rows] |= continues | _is_one(events["path"][rows], nodes).any(axis=1)
    return found


def where(filters: Filters, long_paths: Callable[[], str | None], shard: Sequence[str] = ("shard",)) -> str:
    """The filters as a SQL condition, `true` without filters.

    `long_paths` returns a SELECT of all events that may be records of a path of more than PATH_PART nodes, or
    None if there are none. `shard`: the columns that identify a shard. HistoryError: an invalid filter.
    """
    terms = []
    if (start := filters.get("start")) is not None:
        terms.append(f"time >= make_timestamp_ns({to_ns(start)})")
    if (end := filters.get("end")) is not None:
        terms.append(f"time < make_timestamp_ns({to_ns(end)})")
    if kinds := filters.get("kinds"):
        terms.append(_one_of("kind", kinds, [kind.label for kind in Kind]))
    if metrics := filters.get("metrics"):
        terms.append(_one_of("metric", metrics, [metric.label for metric in Metric if metric]))
    nodes, ports = filters.get("nodes"), filters.get("ports")
    listed = ", ".join(str(int(node)) for node in nodes or ())
    if nodes and (ports or not _with_paths(filters)):
        terms.append(f"node_id IN ({listed})")
    elif nodes:
        on_path = f"list_has_any(path, [{listed}]::UINTEGER[])"
        either = f"node_id IN ({listed}) OR {on_path}"
        if (records := long_paths()) is not None:
            names = ", ".join(shard)
            first = f"SELECT {names}, sequence - hop // {PATH_PART} FROM ({records})"
            either += f" OR ({names}, sequence) IN ({first} WHERE NOT {HEAD} AND {on_path})"
        terms.append(f"({either})")
    if ports:
        terms.append(f"{PORT} IN ({', '.join(str(int(port)) for port in ports)})")
    if (flow := filters.get("flow")) is not None:
        terms += _flow_terms(flow)
    if flows := filters.get("flows"):
        either = " OR ".join(f"({' AND '.join(_flow_terms(one)) or 'true'})" for one in flows)
        terms.append(f"({either})")
    if prefix := filters.get("prefix"):
        prefixes = [prefix] if isinstance(prefix, str) else prefix
        ends = [_prefix_sql(side, text) for text in prefixes for side in ("src", "dst")]
        terms.append(f"({' OR '.join(ends)})")
    if since := filters.get("since"):
        known = ", ".join(str(int(shard)) for shard in since)
        following = [f"(shard = {int(shard)} AND sequence >= {int(first)})" for shard, first in since.items()]
        terms.append(f"({' OR '.join(following)} OR shard NOT IN ({known}))")
    return " AND ".join(terms) or "true"


def _with_paths(filters: Filters) -> bool:
    """Whether events with a path may match. If none can, paths need not be searched, which takes longest."""
    metrics = filters.get("metrics")
    return not metrics or Metric.FLOW_PATH.label in metrics


def to_ns(moment: int | datetime) -> int:
    """ns since the epoch; a datetime without a zone is UTC."""
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
    return int(moment)


def _one_of(column: str, found: Collection[str], known: list[str]) -> str:
    for name in found:
        if name not in known:
            raise HistoryError(f"unknown {column} {name!r}: expected one of {', '.join(known)}")
    return f"{column} IN ({', '.join(quoted(name) for name in found)})"


def _flow_terms(flow: Flow) -> list[str]:
    sides = {"src": flow.src, "dst": flow.dst}
    terms = [_prefix_sql(side, prefix) for side, prefix in sides.items() if prefix is not None]
    numbers = {column: getattr(flow, column) for column in ("sport", "dport", "proto", "flow_id")}
    return terms + [f"{column} = {int(value)}" for column, value in numbers.items() if value is not None]


def _prefix_sql(side: str, prefix: str) -> str:
    """SQL with the meaning of `present.select.in_network`."""
    first, last = _network(prefix)
    hi, last_hi = first >> 64, last >> 64
    known = "true"
    if first == 0:
        known = f"({side}_hi != 0 OR ({side}_lo != 0 AND {side}_lo >> 32 != 65535))"
    if hi != last_hi:
        return f"({side}_hi BETWEEN {hi} AND {last_hi} AND {known})"
    return f"({side}_hi = {hi} AND {side}_lo BETWEEN {first & _LOW} AND {last & _LOW} AND {known})"


def _network(prefix: str) -> tuple[int, int]:
    try:
        return network(prefix)
    except ValueError as error:
        raise HistoryError(f"{prefix!r} is not an address or network, such as 10.1.0.0/16") from error

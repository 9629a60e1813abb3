"""Flows and distributions as flat fields of text and numbers.

All flows have the same fields in the same order; a missing value is an empty text. A list of values by hop is
one text: values in path order, separated by commas, empty if a switch did not report one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...base.names import Names
from ...detect.distributions.quantiles import NO_BOUND, QUANTILES, Distribution
from ...detect.flows.reading.flow_walk import FlowBlock
from ...detect.records import NO_PORT, NO_VALUE
from ...detect.sink.records import MEASURES
from ...present.events import continues, long_paths, when
from ...wire.address import address
from ...wire.records import Records

Value = str | int | float
Fields = dict[str, Value]


def flow_id(number: int) -> str:
    """A flow id as in the API: 16 hexadecimal digits."""
    return f"{number:016x}"


def flow_fields(block: FlowBlock, names: Names) -> Iterator[Fields]:
    """Live flows: 5-tuple, packets, path, and latest values and means by hop; `ended` is empty."""
    flows, hops = block.flows, block.hops
    have, samples = hops["state"], hops["samples"]
    queue, link = hops["queue_latest"], hops["utilization_latest"]
    lists = _Hops(
        hops["node_id"].tolist(),
        hops["egress_port"].tolist(),
        [
            (
                _latest(hops["latency_latest"], have & 1 == 1),
                _means(hops["latency_sum"], samples, have, 0),
            ),
            (_latest(queue, queue != NO_VALUE), _means(hops["queue_sum"], samples, have, 1)),
            (_latest(link, link != NO_VALUE), _means(hops["utilization_sum"], samples, have, 2)),
        ],
    )
    begin = 0
    for one, end in zip(_common(flows), block.ends.tolist(), strict=True):
        yield {**one, **lists.fields(range(begin, end), names), "ended": "", "reason": ""}
        begin = end


def ended_fields(records: Records, names: Names) -> Iterator[Fields]:
    """Flows that have left the table, with the fields that an EVENT (FLOW_RECORD of the path) has."""
    paths = long_paths(records)
    records = records[~continues(records)]
    for row, five in zip(records, _tuples(records), strict=True):
        key = int(row["shard"]), int(row["sequence"])
        path = paths.get(key) or row["path"][: int(row["hop_count"])].tolist()
        yield {
            "id": flow_id(int(row["flow_id"])),
            **five,
            "packets": int(row["value"]),
            "first": when(row["previous"]),
            "last": when(row["time_ns"]),
            "path": ",".join(map(str, path)),
            "path_names": names.path_label(path),
            "ended": when(row["time_ns"]),
            "reason": "",
        }


def distribution_fields(one: Distribution, names: Names) -> Fields:
    """A distribution: number of values, mean, quantiles (upper bounds), and in `le:EDGE` the count of each
    bin (not cumulative) by its upper edge.
    """
    found: Fields = {
        "measure": one.measure.label,
        "node": _text(one.node),
        "node_name": (names.node(one.node) or "") if one.node is not None else "",
        "count": one.count,
        "sum": one.sum,
        "mean": _number(one.mean or 0.0),
        "highest": one.highest,
    }
    for q in QUANTILES:
        at = one.quantile(q)
        found[f"p{100 * q:g}"] = "" if at is None or at.upper is None else at.upper
    for edge, count in zip(one.upper.tolist(), one.counts.tolist(), strict=True):
        found["le:inf" if edge == NO_BOUND else f"le:{edge}"] = count
    return found


def _common(flows: Records) -> Iterator[Fields]:
    """Fields of FLOW records, except those by hop."""
    columns = (
        "flow_id",
        "packets",
        "first_ns",
        "last_ns",
        "latency_latest",
        "latency_sum",
        "latency_samples",
    )
    values = zip(*(flows[name].tolist() for name in columns), _tuples(flows), strict=True)
    for number, packets, first, last, latest, total, samples, five in values:
        yield {
            "id": flow_id(number),
            **five,
            "packets": packets,
            "first": when(first),
            "last": when(last),
            "latency": latest if samples else "",
            "latency_mean": _number(total / samples) if samples else "",
        }


def _tuples(records: Records) -> list[Fields]:
    """5-tuples of records."""
    names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "proto", "sport", "dport")
    rows = zip(*(records[name].tolist() for name in names), strict=True)
    return [
        {"src": address(a, b), "dst": address(c, d), "proto": proto, "sport": sport, "dport": dport}
        for a, b, c, d, proto, sport, dport in rows
    ]


class _Hops:
    """Columns of hops as text; each flow has a range of rows."""

    def __init__(
        self, nodes: list[int], ports: list[int], measures: Sequence[tuple[list[str], list[str]]]
    ) -> None:
        self._nodes, self._ports = nodes, ports
        self._measures = measures

    def fields(self, rows: range, names: Names) -> Fields:
        nodes = self._nodes[rows.start : rows.stop]
        found: Fields = {
            "path": ",".join(map(str, nodes)),
            "path_names": names.path_label(nodes),
            "ports": ",".join("" if p == NO_PORT else str(p) for p in self._ports[rows.start : rows.stop]),
        }
        for name, (latest, means) in zip(_BY_HOP, self._measures, strict=True):
            found[name] = ",".join(latest[rows.start : rows.stop])
            found[f"{name}_mean"] = ",".join(means[rows.start : rows.stop])
        return found


_BY_HOP = ("hop_latency", "queue_occupancy", "link_utilization")
assert len(_BY_HOP) == MEASURES - 1


def _latest(values: Any, present: Any) -> list[str]:
    return [str(value) if yes else "" for value, yes in zip(values.tolist(), present.tolist(), strict=True)]


def _means(sums: Any, samples: Any, have: Any, bit: int) -> list[str]:
    present = ((have >> bit & 1 == 1) & (samples > 0)).tolist()
    return [
        str(_number(total / count)) if yes else ""
        for total, count, yes in zip(sums.tolist(), samples.tolist(), present, strict=True)
    ]


def _number(value: float) -> float | int:
    """A mean with up to three decimals."""
    rounded = round(value, 3)
    return int(rounded) if rounded.is_integer() else rounded


def _text(value: Any) -> Value:
    return "" if value is None else value

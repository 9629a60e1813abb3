"""Reports as rows: the objects of `hopscope decode`, flattened for CSV, shortened for a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...base.names import Names
from ...present.events import when
from ...present.units import duration, flow_text
from ...wire.dialect import Dialect
from ...wire.records import HOP_KEYS, FrameBatch, ReportBatch
from ...wire.versions import SAMPLE_VERSIONS
from ..output.printer import Format, Row, cell

_FLOW = ("src", "dst", "proto", "sport", "dport", "vlan", "layers", "tunnel_id")
_INT = (
    *("version", "mode", "carrier", "npt", "instructions", "hop_words", "remaining_hops"),
    *("hops_exceeded", "mtu_exceeded", "domain_id", "ds_instruction", "ds_flags"),
    *("namespace", "trace_type", "flow_id", "sequence", "inband", "hop_limit", "extras"),
)
_OF_HOPS = (*HOP_KEYS, "in_report", "extras")
_REPORT = (
    *("version", "kind", "node_id", "hw_id", "sequence", "dropped", "congested", "tracked"),
    *("intermediate", "drop_reason", "queue_id", "ingress_time", "packets", "extras"),
)
COLUMNS: Mapping[Format, tuple[str, ...]] = {
    Format.JSON: (),
    Format.TABLE: (
        *("packet", "time", "source", "report", "node", "sequence", "flags", "flow", "path", "latency"),
    ),
    Format.CSV: (
        *("packet", "index", "time_ns", "source", "path"),
        *(f"report.{name}" for name in _REPORT),
        *(f"report.metadata.{name}" for name in HOP_KEYS),
        *(f"flow.{name}" for name in _FLOW),
        *(f"int.{name}" for name in _INT),
        *(f"hops.{name}" for name in _OF_HOPS),
        *("error.reason", "error.at", "error.detail"),
    ),
}
"""Columns by format; JSON prints each report's own keys."""
_FLAGS = {"dropped": "D", "congested": "Q", "tracked": "F", "intermediate": "I"}


def rows(
    form: Format, batch: ReportBatch, frames: FrameBatch, names: Names, dialect: Dialect
) -> Iterator[Row]:
    """One row per report, in the columns of its format; `batch` was decoded from `frames` by `dialect`."""
    from ...wire.decode.as_json import report_objects

    unit_ns = dialect.clock.unit_ns
    shape = {
        Format.JSON: lambda report: report,
        Format.CSV: _flat,
        Format.TABLE: lambda report: _short(report, names, unit_ns),
    }
    return map(shape[form], report_objects(batch, frames, dialect))


def _flat(report: dict[str, Any]) -> Row:
    """A flat row: keys are joined by dots. A field of hops is one column, values separated by blanks, `-` for
    a hop without it; extras are `name=value`, separated by commas.
    """
    flat = _leaves(report, "")
    hops = report.get("hops", ())
    for name in {name for hop in hops for name in hop}:
        flat[f"hops.{name}"] = " ".join(_word(hop.get(name, "-")) for hop in hops)
    return flat


def _leaves(tree: Mapping[str, Any], above: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and key != "extras":
            found.update(_leaves(value, f"{above}{key}."))
        elif key != "hops":
            found[f"{above}{key}"] = " ".join(value) if isinstance(value, list) else _word(value)
    return found


def _short(report: dict[str, Any], names: Names, unit_ns: int) -> Row:
    row = {"packet": f"{report['packet']}.{report['index']}" if report["index"] else str(report["packet"])}
    if "time_ns" in report:
        row["time"] = when(report["time_ns"])
    row["source"] = report.get("source", "")
    if error := report.get("error"):
        return row | {"report": f"{error['reason']} at {error['at']}: {error['detail']}"}
    head = report.get("report")
    if head is None:
        joined = report.get("path")
        row["report"] = f"{joined} path" if joined else f"packet {report['int']['mode']}"
        head = {}
    else:
        row["report"] = f"{head['version']} {head['kind']}"
    row["node"] = "" if head.get("node_id") is None else names.node_label(head["node_id"])
    row["sequence"] = str(head.get("sequence", ""))
    row["flags"] = "".join(letter for name, letter in _FLAGS.items() if head.get(name))
    if flow := report.get("flow"):
        row["flow"] = flow_text(flow)
    hops = report.get("hops", ())
    if head.get("version") in SAMPLE_VERSIONS:  # the node that sent it is its path
        unit_ns, hops = 1, [{"node_id": head["node_id"], **head["metadata"]}] if head["metadata"] else ()
    row["path"] = " → ".join(_node(hop.get("node_id"), names) for hop in hops)
    row["latency"] = ", ".join(_latency(hop.get("hop_latency", "-"), unit_ns) for hop in hops)
    return row


def _node(node_id: int | None, names: Names) -> str:
    return "?" if node_id is None else names.node_label(node_id)


def _latency(value: Any, unit_ns: int) -> str:
    return duration(value * unit_ns) if isinstance(value, int) else _word(value)


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={_word(item)}" for name, item in value.items())
    return "null" if value is None else cell(value)

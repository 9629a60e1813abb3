"""Rows of history as `hopscope query` prints them: objects for JSON, one text a column for tables and CSV."""

from __future__ import annotations

from typing import Any

from ...base.names import Names
from ...present.events import node_object
from ..output import flow_text

EVENT_COLUMNS = ("time", "kind", "metric", "value", "previous", "unit", "node", "port", "flow", "path", "id")
FLOW_COLUMNS = ("flow", "id", "first", "last", "events", "path_changes", "drops", "highest_latency_ns")
PATH_COLUMNS = ("time", "kind", "flow", "path", "id")
HOP_COLUMNS = ("node", "port", "events", "highest_ns", "mean_ns", "time")


def flow_object(row: dict[str, Any]) -> dict[str, Any]:
    """`flow` as the API shows it, in place of its parts."""
    flow = {"id": f"{row.pop('flow_id'):016x}"} if row["flow_id"] is not None else row.pop("flow_id")
    parts = {key: row.pop(key) for key in ("src", "dst", "proto", "sport", "dport")}
    return {"flow": None if flow is None else flow | parts, **row}


def _label(named: dict[str, Any] | None) -> str | None:
    return None if named is None else str(named["name"] or named["id"])


def flat_event(row: dict[str, Any]) -> dict[str, Any]:
    """An event or a path as texts."""
    source = row.get("source")
    path = row.get("path")
    return row | {
        "flow": f"source {source['address']}" if source else row["flow"] and flow_text(row["flow"]),
        "node": _label(source["node"] if source else row.get("node")),
        "port": _label(row.get("port")),
        "path": None if path is None else " → ".join(str(_label(each)) for each in path),
        "metric": None if row.get("metric") == "none" else row.get("metric"),
    }


def flat_flow(row: dict[str, Any]) -> dict[str, Any]:
    """A flow as texts."""
    text = flow_text(row["flow"])
    return row | {"flow": text, "id": row["flow"]["id"], "highest_latency_ns": row["highest_latency"]}


def path_object(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row of `History.paths` with the keys of an event."""
    path = [node_object(names, node) for node in row.pop("path")]
    name = f"{row.pop('shard')}-{row.pop('sequence')}"
    return {"time": row.pop("time"), "kind": row.pop("kind"), **flow_object(row), "path": path, "id": name}


def flat_hop(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A hop as texts."""
    node, port = row["node_id"], row["port"]
    return row | {
        "node": None if node is None else names.node_label(node),
        "port": None if node is None or port is None else names.port_label(node, port),
        "highest_ns": row["highest"],
        "mean_ns": round(row["mean"]),
    }

"""Rows of history as `hopscope query` prints them: objects for JSON, texts for tables and CSV."""

from __future__ import annotations

from typing import Any

from ...base.names import Names
from ...present.events import flow_key, label, node_object
from ...present.events import port_object as named_port
from ...present.units import flow_text

FLOW_COLUMNS = (
    *("flow", "id", "first", "last", "packets", "events", "path_changes", "drops"),
    *("highest_latency_ns", "mean_latency_ns", "worst_hop", "worst_hop_mean_ns"),
)
PATH_COLUMNS = ("time", "kind", "flow", "path", "id")
LABEL_COLUMNS = (
    *("time", "node", "port", "labels", "latency_ns", "highest_latency_ns", "occupancy", "highest_occupancy"),
)
HOP_COLUMNS = ("node", "port", "events", "highest_ns", "mean_ns", "time")


def flow_texts(row: dict[str, Any]) -> dict[str, Any]:
    """A flow with one text per column; the hop with the highest mean is NODE:PORT."""
    mean, worst = row["mean_latency"], row["worst_hop"]
    place = worst and ":".join(str(label(worst[part])) for part in ("node", "port") if worst[part])
    return row | {
        "members": ", ".join(row.get("members", ())),
        "flow": flow_text(row["flow"]),
        "id": row["flow"]["id"],
        "highest_latency_ns": row["highest_latency"],
        "mean_latency_ns": None if mean is None else round(mean),
        "worst_hop": place,
        "worst_hop_mean_ns": worst and worst["latency"],
    }


def path_object(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row of `History.paths` with the keys of an event."""
    path = [node_object(names, node) for node in row["path"]]
    name = f"{row['shard']}-{row['sequence']}"
    shown = {"time": row["time"], "kind": row["kind"], "flow": flow_key(row), "path": path, "id": name}
    return shown | {key: row[key] for key in ("member",) if key in row}


def port_object(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A row about a port, with switch and port as the API shows them."""
    node, port = row.pop("node_id"), row.pop("port")
    return {"node": node_object(names, node), "port": named_port(names, node, port), **row}


def port_texts(row: dict[str, Any]) -> dict[str, Any]:
    """A row about a port with one text per column."""
    return row | {"node": label(row["node"]), "port": label(row["port"])}


def hop_texts(row: dict[str, Any], names: Names) -> dict[str, Any]:
    """A hop with one text per column."""
    node, port = row["node_id"], row["port"]
    return row | {
        "node": None if node is None else names.node_label(node),
        "port": None if node is None or port is None else names.port_label(node, port),
        "highest_ns": row["highest"],
        "mean_ns": round(row["mean"]),
    }

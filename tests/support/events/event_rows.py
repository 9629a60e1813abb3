"""What a table has of an event, written down field by field: the columns of history, None without a value."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from hopscope.base.names import Names
from hopscope.detect.records import NO_NODE, NO_PORT, ClearReason, Kind, Metric
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.destination import Context
from hopscope.export.kinds import destination_class
from hopscope.export.sender import Sender
from hopscope.settings.destinations.kinds import EXPORT_KINDS
from hopscope.wire.address import address
from support.events.event_make import Events, random_events


def table_sender(data: Path, kind: str, **more: Any) -> tuple[Sender, Any]:
    """A sender of all events of the data folder to a database, and its counters; the collector is `m1`."""
    row = np.zeros(1, DESTINATION)
    about = DestinationRow(row)
    given = {"kind": kind, "begin": "oldest", "batch_seconds": 0.1, **more}
    context = Context("lab", "m1", Names(), about.count)
    destination = destination_class(kind)(EXPORT_KINDS[kind](**given), context)
    return Sender(destination, data, about), row


def guide_statements(section: str) -> list[str]:
    """The SQL statements of a section of the guide to databases."""
    guide = Path(__file__).parents[3] / "docs" / "guides" / "databases.md"
    text = guide.read_text().partition(f"## {section}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"^```sql\n(.*?)^```", text, re.S | re.M)
    return [each.strip() for each in "".join(blocks).split(";\n") if each.strip()]


def two_minutes(count: int, shard: int = 0) -> Events:
    """Events of two minutes around a full hour, some with the highest values."""
    events = random_events(count, seed=9)
    events["time_ns"] = 1_700_002_740_000_000_001 + np.arange(count) * (120 * 10**9 // count)
    events["switch_ns"][::5] = 2**64 - 2
    events["value"][::7] = 2**64 - 1
    events["reason"] = np.where(events["kind"] == Kind.CLEARED, events["value"] % 6, 0)
    events["shard"] = shard
    return events


def history_row(event: np.void) -> dict[str, Any]:
    """The row of one event, but for its time."""
    row = {name: event[name].item() for name in event.dtype.names or () if name != "path"}
    in_flow = row["ip_version"] != 0
    has_path = row["metric"] == Metric.FLOW_PATH or row["kind"] == Kind.LOOP
    nodes: list[int] = event["path"][: max(0, row["hop_count"] - row["hop"])].tolist()
    plain = ("ident", "value", "previous", "hop", "hop_count", "ip_version", "shard", "sequence")
    return {
        "kind": Kind(row["kind"]).label,
        "metric": Metric(row["metric"]).label if row["metric"] else None,
        "node_id": row["node_id"] if row["node_id"] != NO_NODE else None,
        "port": row["port"] if row["port"] != NO_PORT else None,
        "reason": ClearReason(row["reason"]).label if row["kind"] == Kind.CLEARED else None,
        "switch_ns": row["switch_ns"] or None,
        "flow_id": row["flow_id"] or None,
        **{side: _text(row[f"{side}_hi"], row[f"{side}_lo"]) for side in ("src", "dst")},
        **{name: row[name] if in_flow else None for name in ("sport", "dport", "proto")},
        "path": nodes if has_path else None,
        **{name: row[name] for name in plain},
    }


def _text(hi: int, lo: int) -> str | None:
    return address(hi, lo) if hi or lo else None

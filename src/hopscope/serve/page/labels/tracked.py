"""Tracked flows on the live page (INT-label, 3.3): their paths, with the latency of each switch."""

from __future__ import annotations

from html import escape

import numpy as np

from ....base.names import Names
from ....present.tracked import latencies, path_of
from ....present.units import ago, duration, endpoints, si
from ....wire.records import Records
from .snapshot import LabelSnapshot

ROWS = 8
"""Maximum flows that are shown."""
LATELY_NS = 60_000_000_000
"""Time during which a new path is highlighted."""
_BUCKET_NS = 10_000_000_000


def paths_table(snapshot: LabelSnapshot, names: Names) -> str:
    """A table of tracked flows; if there are too many, those with a new path and those seen last."""
    flows = snapshot.tracked
    if not len(flows):
        return ""
    shown = chosen(flows, snapshot.tracked_ns)
    rows = "".join(_row(row, snapshot.tracked_ns, names) for row in shown)
    left = f" · {len(shown)} of {len(flows):,}" * (len(flows) > len(shown))
    head = (
        f'<tr><th>Tracked flow{left}<th>Path, latency per switch<th class="n">Total'
        '<th class="n" title="longest queue on the path, bytes">Queue<th class="n">Packets'
        '<th class="n" title="path changes">Changes<th class="n">Last seen</tr>'
    )
    return f'<table class="paths"><thead>{head}</thead><tbody>{rows}</tbody></table>'


def chosen(flows: Records, now_ns: int) -> Records:
    """At most ROWS of TRACKED_FLOW, in their order, so that rows do not jump."""
    if len(flows) <= ROWS:
        return flows
    moved = _moved(flows, now_ns)
    order = np.lexsort((-(flows["received_ns"] // _BUCKET_NS), ~moved))
    return flows[np.sort(order[:ROWS])]


def _moved(flows: Records, now_ns: int) -> np.ndarray:
    return np.asarray((flows["changes"] > 0) & (flows["changed_ns"] > now_ns - LATELY_NS))


def _row(row: np.void, now_ns: int, names: Names) -> str:
    path = path_of(row)
    rows = np.array([row])
    moved, total = bool(_moved(rows, now_ns)[0]), int(latencies(rows)[0])
    slowest = int(np.argmax(path["latency_ns"])) if 2 * int(path["latency_ns"].max()) > total else -1
    hops = "".join(_hop(hop, at == slowest, names) for at, hop in enumerate(path))
    more = int(row["hops"]) - len(path)
    hops += f"<small>and {more} more</small>" * (more > 0)
    before = ""
    if row["previous_hops"]:
        old = " → ".join(escape(names.node_label(int(hop["node_id"]))) for hop in path_of(row, "previous"))
        since = ago(now_ns - int(row["changed_ns"]))
        before = f'<small class="before" title="{old}">until {since} ago: {old}</small>'
    changes, mood = si(int(row["changes"])), ' class="moved"' * moved
    return (
        f"<tr{mood}><td>{endpoints(row, ports=bool(row['sport'] or row['dport']))}"
        f'<td><span class="steps">{hops}</span>{before}'
        f'<td class="n"><b>{duration(total)}</b>'
        f'<td class="n">{si(int(path["occupancy"].max()))}'
        f'<td class="n" title="{_counts(row)}">{si(int(row["packets"]))}'
        f'<td class="n">{changes if row["changes"] else "–"}'
        f'<td class="n">{ago(now_ns - int(row["received_ns"]))} ago</tr>'
    )


def _hop(hop: np.void, slowest: bool, names: Names) -> str:
    node, mood = int(hop["node_id"]), " slow" * slowest
    sides = [
        f"{side} port {number}" + (f" ({label})" if label else "")
        for side, number in (("in", int(hop["ingress_port"])), ("out", int(hop["egress_port"])))
        for label in (names.port(node, number),)
    ]
    tip = (
        f"{names.node_label(node)}: {', '.join(sides)}\n"
        f"latency {duration(int(hop['latency_ns']))}, highest {duration(int(hop['highest_latency_ns']))}\n"
        f"queue {si(int(hop['occupancy']))} bytes, highest {si(int(hop['highest_occupancy']))}"
    )
    return (
        f'<span class="step{mood}" title="{escape(tip)}">{escape(names.node_label(node))}'
        f"<b>{duration(int(hop['latency_ns']))}</b></span>"
    )


def _counts(row: np.void) -> str:
    late, partial = int(row["late"]), int(row["partial"])
    return f"{float(row['rate']):.1f}/s · {late:,} late · {partial:,} without some switches"

"""Labels on the live page (INT-label): coverage over time, and ports by the age of their newest label."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from ....base.names import Names
from ....labels.state import NEVER
from ....present.units import duration, si
from ....wire.records import Records
from ..charts import options
from .snapshot import LabelSnapshot

CELLS = 640
"""Maximum cells of the map, which is drawn twice per second above all other panels."""
WIDE = 64
"""Maximum ports of a switch that have columns by their number."""
LEVELS = ((1, "h3"), (3, "h6"), (10, "h7"))
"""Maximum age in telemetry intervals, and its colour; older labels are `h8`."""
OLDEST, IDLE, SILENT = "h8", "idle", "never"


def coverage_options() -> dict[str, Any]:
    """The chart of coverage: percent, of the last three minutes."""
    chart = options((("Mean", "#2aa198", _nothing), ("Lowest interval", "#d99a2b", _nothing)))
    chart["tooltip"][":valueFormatter"] = "v => v.toFixed(2) + ' %'"
    chart["yAxis"] |= {
        "max": 100,
        "interval": 50,
        "axisLabel": {**chart["yAxis"]["axisLabel"], ":formatter": "v => v + ' %'"},
    }
    chart["series"][1] |= {"areaStyle": {"opacity": 0}, "lineStyle": {"width": 1}}
    return chart


def _nothing(_: object) -> float:
    return 0.0


def coverage_series(snapshot: LabelSnapshot) -> list[dict[str, Any]]:
    """Points of the chart: seconds before now, and percent."""
    return [
        {"data": [[-second.ago, round(100 * getattr(second, which), 2)] for second in snapshot.seconds]}
        for which in ("mean", "lowest")
    ]


def note(snapshot: LabelSnapshot) -> str:
    """The text beside the panel's title."""
    about, ports = snapshot.about, snapshot.ports
    covered = "–" if snapshot.covered is None else f"{100 * snapshot.covered:.2f} %"
    raised = int(np.count_nonzero(ports["shift"]))
    lines = [
        f"<b>{covered}</b> of active ports reported every "
        f"{duration(about.telemetry_ns)}, last minute"
        + f" ({snapshot.intervals:,} of {snapshot.expected_intervals:,} intervals)"
        * (snapshot.intervals < snapshot.expected_intervals),
        f"{snapshot.active:,} active now",
        f"{si(float(ports['rate'].sum()))} labels/s",
        f"T {duration(about.interval_ns)}",
    ]
    if about.mode == "shift":
        lines.append(f"S raised at {raised:,} port{'s' * (raised != 1)}")
    elif about.mode == "one-bit":
        lines.append(f"{raised:,} port{'s' * (raised != 1)} label every packet")
    return " · ".join(lines)


def age_map(snapshot: LabelSnapshot, names: Names) -> str:
    """Switches and their ports as coloured cells; if there are too many, those silent for longest."""
    ports = snapshot.ports
    age = np.where(ports["time_ns"] == NEVER, np.iinfo(np.int64).max, snapshot.time_ns - ports["received_ns"])
    numbers = np.unique(ports["port"])
    columns = {int(number): at for at, number in enumerate(numbers)} if len(numbers) <= WIDE else None
    nodes, first = np.unique(ports["node_id"], return_index=True)
    ends = [*first[1:].tolist(), len(ports)]
    room = max(1, CELLS // min(WIDE, max(1, len(numbers))))
    chosen = np.arange(len(nodes))
    if len(nodes) > room:
        late = age > LEVELS[1][0] * snapshot.about.telemetry_ns  # others come and go, and rows would jump
        late &= (ports["traffic"] == 2) | ((ports["traffic"] == 0) & (ports["time_ns"] != NEVER))
        heard = np.where(late, age, 0)
        chosen = np.sort(np.argsort(-np.maximum.reduceat(heard, first), kind="stable")[:room])
    rows = []
    for at in chosen.tolist():
        span = slice(int(first[at]), min(ends[at], int(first[at]) + CELLS))
        rows.append(_row(snapshot, names, int(nodes[at]), ports[span], age[span], columns))
    width = 110 + 17 * min(len(numbers), WIDE)
    left = f"{len(chosen):,} of {len(nodes):,} switches, those silent for longest" * (len(nodes) > room)
    return (
        f'<div class="ages" style="--wide:{width}px">{"".join(rows)}</div>'
        f'<div class="scale"><span>{left}</span>{_key(snapshot)}<span></span></div>'
    )


def _row(
    snapshot: LabelSnapshot,
    names: Names,
    node: int,
    ports: Records,
    age: np.ndarray,
    columns: dict[int, int] | None,
) -> str:
    cells, place = [], 0
    for port, old in zip(ports, age.tolist(), strict=True):
        column = place if columns is None else columns[int(port["port"])]
        cells.append("<i></i>" * (column - place))
        cells.append(_cell(snapshot, names, node, port, old, column))
        place = column + 1
    name = escape(names.node_label(node))
    return f'<div class="row"><span class="name node" title="{name}">{name}</span>{"".join(cells)}</div>'


def _cell(snapshot: LabelSnapshot, names: Names, node: int, port: np.void, age: int, column: int) -> str:
    number, shift = int(port["port"]), int(port["shift"])
    label = names.port(node, number)
    lines = [f"{names.node_label(node)} · port {number}" + (f" ({label})" if label else "")]
    if port["time_ns"] == NEVER:
        lines.append("no label yet")
    else:
        lines.append(f"last label {duration(max(0, age))} ago · {float(port['rate']):.1f} labels/s")
        lines.append(
            f"latency {duration(int(port['latency_ns']))} · queue {si(int(port['occupancy']))} bytes"
        )
    if port["traffic"] == 1:
        lines.append("no traffic")
    if snapshot.about.mode == "shift":
        lines.append(f"S {shift}: every {duration(snapshot.about.interval_ns / 2**shift)}")
    elif snapshot.about.mode == "one-bit":
        lines.append("labels every packet" if shift else f"every {duration(snapshot.about.interval_ns)}")
    side = "" if column < 8 else " left"
    return (
        f'<i class="{_colour(snapshot, port, age)}{side}" data-tip="{escape(chr(10).join(lines))}">'
        f"{shift if shift else ''}</i>"
    )


def _colour(snapshot: LabelSnapshot, port: np.void, age: int) -> str:
    if port["time_ns"] == NEVER:
        return OLDEST if port["traffic"] == 2 else SILENT
    for intervals, colour in LEVELS:
        if age <= intervals * snapshot.about.telemetry_ns:
            return colour if colour == LEVELS[0][1] or port["traffic"] != 1 else IDLE
    return IDLE if port["traffic"] == 1 else OLDEST


def _key(snapshot: LabelSnapshot) -> str:
    telemetry = snapshot.about.telemetry_ns
    shown = [(colour, duration(intervals * telemetry)) for intervals, colour in LEVELS]
    steps = [(shown[0][0], f"within {shown[0][1]}"), *shown[1:], (OLDEST, "older")]
    if (snapshot.ports["traffic"] == 1).any():
        steps.append((IDLE, "no traffic"))
    if ((snapshot.ports["time_ns"] == NEVER) & (snapshot.ports["traffic"] != 2)).any():
        steps.append((SILENT, "no label yet"))
    return '<span class="key">' + "".join(f'<i class="{c}"></i> {text} ' for c, text in steps) + "</span>"

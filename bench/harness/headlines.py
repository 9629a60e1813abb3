"""The headline figures, and the pictures that are drawn from results in docs/measurements/data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .figures import Sheet
from .tables import Row

HEADLINES: tuple[tuple[str, str, dict[str, str], str], ...] = (
    (
        "Decode, 3 hops with 8 fields, one core, frames in memory",
        "decode_detect", {"what": "decode", "hops": "3", "fields": "8", "flows": "100"}, "collector.md",
    ),
    (
        "Decode and detect, 3 hops with 8 fields, one core, frames in memory",
        "decode_detect", {"what": "decode+detect", "hops": "3", "fields": "8", "flows": "100"},
        "collector.md",
    ),
    (
        "The whole collector over loopback UDP, the same reports, in trains",
        "udp_end_to_end", {"hops": "3", "fields": "8", "flows": "100", "sends": "trains"}, "collector.md",
    ),
    (
        "The whole collector, the same reports, in single datagrams",
        "udp_end_to_end", {"hops": "3", "fields": "8", "flows": "100", "sends": "singles"}, "collector.md",
    ),
    (
        "Values in reports per stored event, T = 1 µs",
        "event_detection", {"T_ns": "1000", "what": "reduction"}, "events.md",
    ),
    (
        "INT sink: decode and update, 5 hops, 4 instructions, 100,000 flows, one core",
        "sink", {"what": "decode, update", "nodes": "5", "instructions": "4", "flows": "100000",
                 "occupancy above": "", "table rows": ""}, "sink.md",
    ),
    (
        "The same with stripping",
        "sink", {"what": "… and strip", "nodes": "5", "instructions": "4", "flows": "100000",
                 "occupancy above": "", "table rows": ""}, "sink.md",
    ),
    (
        "Direct telemetry access: Key-Write, one copy, 32 MiB, one core",
        "direct_primitives", {"what": "Key-Write", "memory": "32 MiB", "copies": "1", "cores": ""},
        "direct.md",
    ),
    (
        "Direct telemetry access: Key-Write over RoCEv2 to the software NIC, two cores",
        "direct_rocev2", {"what": "Key-Write"}, "direct.md",
    ),
    (
        "Simulation of labels, fat tree with k = 16, one core",
        "label_rate", {"k": "16", "algorithm": "base-b"}, "labels.md",
    ),
)  # fmt: skip
"""Text, benchmark, columns of its row, page."""
SHORT = (1, 2, 3, 5, 7)
"""Those that README.md has."""


def table(found: dict[str, list[Row]], short: bool) -> str:
    """The headline figures as a table."""
    base = "docs/measurements/" if short else ""
    lines = ["| what | result |", "|---|---|"]
    for number, (what, bench, wanted, page) in enumerate(HEADLINES):
        if short and number not in SHORT:
            continue
        row = next(r for r in found[bench] if all(r.get(k, "") == v for k, v in wanted.items()))
        value = float(row["result"])
        result = f"{value / 1e6:.3g} M" if value >= 1e5 else f"{value:.3g}"
        lines.append(f"| [{what}]({base}{page}) | {result} {row['unit']} |")
    return "\n".join(lines)


def _value(row: dict[str, str]) -> float:
    return float(row["result"])


def draw(found: dict[str, list[Row]], folder: Path) -> None:
    """The pictures of the pages on the collector, on event detection and on damaged frames."""
    for sheet in (_rates(found), _reduction(found), _outcomes(found)):
        sheet.save(folder)


def _rates(found: dict[str, list[Row]]) -> Sheet:
    cases = [("1", "1"), ("1", "8"), ("3", "1"), ("3", "8"), ("6", "1"), ("6", "8")]
    curves = {
        "decode": ("decode_detect", "what", "decode"),
        "decode and detect": ("decode_detect", "what", "decode+detect"),
        "collector, UDP in trains": ("udp_end_to_end", "sends", "trains"),
        "collector, single datagrams": ("udp_end_to_end", "sends", "singles"),
    }
    rows: list[dict[str, object]] = []
    for hops, fields in cases:
        row: dict[str, object] = {"hops": hops, "fields": fields}
        for name, (bench, column, value) in curves.items():
            wanted = {"hops": hops, "fields": fields, "flows": "100", column: value}
            row[name] = next(_value(r) for r in found[bench] if wanted.items() <= r.items()) / 1e6
        rows.append(row)

    def plot(figure: Any) -> None:
        axes = figure.subplots()
        for number, name in enumerate(curves):
            places = [place + (number - 1.5) * 0.2 for place in range(len(rows))]
            axes.bar(places, [row[name] for row in rows], 0.2, label=name)
        axes.set_xticks(
            range(len(rows)), [f"{h} hop{'s' * (h != '1')}\n{f} field{'s' * (f != '1')}" for h, f in cases]
        )
        axes.set_ylabel("M reports/s")
        axes.legend()

    return Sheet("rates", "Reports per second, 100 flows", plot, rows)


def _reduction(found: dict[str, list[Row]]) -> Sheet:
    detection = found["event_detection"]
    rows: list[dict[str, object]] = [
        {
            "T_ns": int(row["T_ns"]),
            "reduction": _value(row),
            "mse": next(
                _value(r) for r in detection if (r["T_ns"], r["what"]) == (row["T_ns"], "MSE, 200 keys")
            ),
        }
        for row in detection
        if row["what"] == "reduction"
    ]

    def plot(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for axes, column, label in (
            (left, "reduction", "values per stored event"),
            (right, "mse", "mean square error [ns²]"),
        ):
            axes.loglog([row["T_ns"] for row in rows], [row[column] for row in rows], "o-")
            axes.set_xlabel("threshold T [ns]")
            axes.set_ylabel(label)

    return Sheet("reduction", "What event detection saves, and what it costs", plot, rows, width=8.0)


def _outcomes(found: dict[str, list[Row]]) -> Sheet:
    alone = [row for row in found["mutants"] if row["part"] == "alone"]
    mutants = next(_value(row) for row in alone if row["what"] == "mutants")
    rows: list[dict[str, object]] = [
        {"outcome": row["what"], "unit": row["unit"], "share": _value(row) / mutants}
        for row in alone
        if row["what"] != "mutants"
    ]

    def plot(figure: Any) -> None:
        axes = figure.subplots()
        names = [str(row["outcome"]) for row in rows][::-1]
        bars = axes.barh(names, [float(str(row["share"])) * 100 for row in rows][::-1])
        axes.bar_label(bars, fmt="%.3g", padding=3)
        axes.set_xlabel("per 100 damaged frames; a frame may hold several reports")

    return Sheet(
        "mutants", f"What the decoder makes of {mutants / 1e6:,.0f} million damaged frames", plot, rows
    )

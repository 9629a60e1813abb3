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
    for sheet in (_rates(found), _reduction(found), _outcomes(found), _contents(found), _efficiency(found)):
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


PAPER_11 = {"hops": (6, 12.06), "flows": (2000, 8.79), "fields": (9, 12.59), "events": (1000, 15.04)}
"""INTCollector, V-D: the highest value on each axis of Figure 11, and percent of a core at 1 M reports/s."""
PAPER_10 = {
    "IntMon Collector": (9.71, 1.64), "Prometheus INT exporter": (0.175, 22.9),
    "INTCollector without event detection": (5.39, 3.69), "INTCollector": (0.00646, 0.082),
}  # fmt: skip
"""INTCollector, V-C: percent of a processor, by 1,000 reports/s, and without any."""


def _limit(found: dict[str, list[Row]], **wanted: str) -> list[Row]:
    """Rows of `limits` with decode and detect in the specified format 2.0."""
    chosen = {"what": "decode+detect", "format": "", **wanted}
    return [row for row in found["limits"] if chosen.items() <= {**dict.fromkeys(chosen, ""), **row}.items()]


def _percent(row: Row) -> float:
    """Percent of a processor at a million reports per second."""
    return 1e8 / _value(row)


def _contents(found: dict[str, list[Row]]) -> Sheet:
    share = "share of reports with events"
    panels = {
        "hops": _limit(found, fields="8", flows="100", **{share: ""}),
        "flows": _limit(found, hops="6", fields="1", **{share: ""}),
        "fields": _limit(found, hops="6", flows="100", **{share: ""}),
        "events": _limit(found, hops="3", fields="8", flows="100"),
    }
    axis = {"events": share}
    rows: list[dict[str, object]] = [
        {"panel": name, "x": float(row[axis.get(name, name)] or 0) * (1e6 if name == "events" else 1),
         "percent": _percent(row)}
        for name, chosen in panels.items()
        for row in chosen
    ]  # fmt: skip
    rows += [{"panel": f"{name}, paper", "x": x, "percent": y} for name, (x, y) in PAPER_11.items()]

    def plot(figure: Any) -> None:
        labels = ("hops (100 flows, 8 fields)", "flows (6 hops, 1 field)", "fields (100 flows, 6 hops)",
                  "reports with events per second")  # fmt: skip
        for axes, name, label in zip(figure.subplots(2, 2).flat, panels, labels, strict=True):
            ours = sorted((row["x"], row["percent"]) for row in rows if row["panel"] == name)
            axes.plot(*zip(*ours, strict=True), "o-", label="Hopscope, from memory")
            axes.plot(*PAPER_11[name], "s", color="#d1495b", label="INTCollector, paper's text")
            if name in ("flows", "events"):
                axes.set_xscale("symlog", linthresh=1 if name == "flows" else 1000)
            if name == "events":
                axes.set_xticks([0, 1e3, 1e4, 1e5])
            axes.set_ylim(bottom=0)
            axes.set_xlabel(label)
            axes.set_ylabel("% of a core at 1 M/s")
        figure.axes[0].legend()

    return Sheet("contents", "What a report's content costs (INTCollector, Figure 11)", plot, rows, width=8.0)


def _efficiency(found: dict[str, list[Row]]) -> Sheet:
    (ours,) = _limit(found, hops="6", fields="8", flows="1", **{"share of reports with events": ""})
    lines = {"Hopscope, from memory": (1e5 / _value(ours), 0.0), **PAPER_10}
    rows: list[dict[str, object]] = [
        {"what": name, "percent_by_1000": slope, "percent_idle": idle}
        for name, (slope, idle) in lines.items()
    ]

    def plot(figure: Any) -> None:
        axes = figure.subplots()
        for name, (slope, idle) in lines.items():
            rates = [10 ** (k / 20) for k in range(-40, 101)]
            inside = [(rate, slope * rate + idle) for rate in rates if 0.1 <= slope * rate + idle <= 100]
            axes.loglog(*zip(*inside, strict=True), label=name)
        axes.set_xlabel("1,000 reports per second")
        axes.set_ylabel("% of a core")
        axes.legend()

    title = "Reports per second against a core's time (INTCollector, Figure 10)"
    return Sheet("efficiency", title, plot, rows)


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

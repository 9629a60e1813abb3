"""Figures about labels and the packets that carry them: INT-label 7, 8 and 15 to 19."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.fabric.labelling.theory import closed_forms as theory
from hopscope.fabric.labelling.theory.mean_field import labels_on_fat_tree

from .figures import Sheet, Stated, legend, percent
from .label_authors import authors, beside, of
from .label_runs import ALGORITHMS, COLORS, OURS, PACKETS, Row, curve, mean, measure, scheme, spread, table

Curves = dict[str, list[list[Row]]]
COLUMNS = ("packets", "labelled_share", "labels_a_packet", "bandwidth", "coverage_of_all")
SIZES = [4, 8, 12, 16, 20, 24, 28, 32]


def _by_interval(quick: bool) -> tuple[list[int], Curves]:
    seeds, intervals = (2, [10, 50, 100]) if quick else (10, list(range(10, 101, 10)))
    curves = {
        name: [measure(seeds, labelling__interval=t / 1e3, **scheme(name)) for t in intervals]
        for name in ALGORITHMS
    }
    return intervals, curves


def _plain(curves: Curves, intervals: list[int], column: str, suffix: str, label: str) -> Any:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in curves.items():
            curve(axes, intervals, found, column, name, PACKETS)
            beside(axes, authors(7, name, suffix), COLORS[name], PACKETS)
        axes.set_xlabel("labelling interval [ms]")
        axes.set_ylabel(f"{label}, of {PACKETS:,} packets")
        axes.set_ylim(bottom=0)
        legend(axes, OURS)

    return draw


def _ratio(curves: Curves, intervals: list[int], column: str, suffix: str, t: int) -> tuple[float, float]:
    """Base B's over Base A's at T, ours and the authors'."""
    at = intervals.index(t)
    a, b = (mean(curves[name][at], column) for name in ALGORITHMS)
    return b / a, authors(7, "Base B", suffix)[t] / authors(7, "Base A", suffix)[t]


def _share_apart(curves: Curves, intervals: list[int], column: str, suffix: str) -> str:
    """By how much of theirs ours differ, at most, from T = 20 ms on and at 10 ms."""
    found = {
        t: max(abs(mean(curves[n][at], column) / authors(7, n, suffix)[t] - 1) for n in ALGORITHMS)
        for at, t in enumerate(intervals)
    }
    most = percent(max(share for t, share in found.items() if t > 10), 0)
    return f"at most {most} apart, {percent(found[10], 0)} at T = 10 ms"


def figure7(quick: bool) -> Sheet:
    """Packets with labels against the labelling interval."""
    intervals, curves = _by_interval(quick)
    even = [
        mean(measure(10, labelling__interval=0.1, traffic__random=False, **scheme(name)), "labelled_share")
        for name in ALGORITHMS
    ]
    kept = {t: _ratio(curves, intervals, "labelled_share", "_packet", t) for t in (50, 100)}
    stated = [
        Stated("fewer packets with labels by Base B, T = 100 ms", "35.2 %", percent(1 - kept[100][0]),
               "on the published routes, through 25 ports, random gaps; equal gaps: "
               f"{percent(1 - even[1] / even[0])}. {percent(1 - kept[50][0])} at T = 50 ms, the authors "
               f"{percent(1 - kept[50][1])}. Packets with labels are "
               f"{_share_apart(curves, intervals, 'labelled_share', '_packet')}",
               percent(1 - kept[100][1])),
    ]  # fmt: skip
    draw = _plain(curves, intervals, "labelled_share", "_packet", "packets with labels")
    rows = table("interval_ms", intervals, curves, COLUMNS, {"labelled_share": of(7, "_packet")})
    return Sheet("figure7", "Fig. 7: packets with labels", draw, rows, stated)


def figure8(quick: bool) -> Sheet:
    """Labels against the labelling interval."""
    intervals, curves = _by_interval(quick)
    more, theirs = _ratio(curves, intervals, "labels_a_packet", "_int", 50)
    stated = [
        Stated("more labels by Base B", "a small number", f"{percent(more - 1)} at T = 50 ms",
               "labels by count restart the interval, so they replace most of those by interval. Labels "
               f"are {_share_apart(curves, intervals, 'labels_a_packet', '_int')}",
               f"{percent(theirs - 1)} at T = 50 ms"),
    ]  # fmt: skip
    draw = _plain(curves, intervals, "labels_a_packet", "_int", "labels")
    rows = table("interval_ms", intervals, curves, COLUMNS, {"labels_a_packet": of(7, "_int")})
    return Sheet("figure8", "Fig. 8: labels written", draw, rows, stated)


def _expected(pairs: list[tuple[int, float]]) -> dict[str, list[float]]:
    """E[Z] by (k, T_s / T): theory of Base A and B, with both g, and where ports remember."""
    listing = "f2-listing"
    return {
        "Base A": [theory.expected_labels(theory.labels_base_a(k, r)) for k, r in pairs],
        "Base B, our g": [theory.expected_labels(theory.labels_base_b(k, r, listing)) for k, r in pairs],
        "Base B, g of the published code": [
            theory.expected_labels(theory.labels_base_b(k, r, listing, "linear")) for k, r in pairs
        ],
        "Base B, ports remember": [
            theory.expected_labels(labels_on_fat_tree(k, r, listing).labels) for k, r in pairs
        ],
    }


_STYLES = {
    "Base A": (COLORS["Base A"], "-"),
    "Base B, our g": (COLORS["Base B"], "-"),
    "Base B, g of the published code": (COLORS["Base B"], "--"),
    "Base B, ports remember": (COLORS["Base B"], ":"),
}


def _draw_expected(x: list[float], curves: dict[str, list[float]], label: str, log: bool = False) -> Any:
    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, values in curves.items():
            color, line = _STYLES[name]
            axes.plot(x, values, line, color=color, marker="o", label=name)
        axes.set_xlabel(label)
        axes.set_ylabel("labels of a packet, expected")
        if log:
            axes.set_xscale("log")
            axes.set_yscale("log")
        axes.set_ylim(bottom=0.9 * min(curves["Base A"]))
        where = {} if log else {"loc": "center right", "bbox_to_anchor": (1, 0.46)}
        legend(axes, "f(i) = i / 5", **where)

    return draw


def _above(curves: dict[str, list[float]]) -> str:
    above = [b > a for a, b in zip(curves["Base A"], curves["Base B, our g"], strict=True)]
    return "always" if all(above) else f"at {sum(above)} of {len(above)} points"


def figure15(quick: bool) -> Sheet:
    """Expected labels against the size of a fat tree."""
    sizes = SIZES[:3] if quick else SIZES
    curves = _expected([(k, 1 / 100) for k in sizes])
    rows: list[dict[str, object]] = [
        {"k": k} | {name: values[n] for name, values in curves.items()} for n, k in enumerate(sizes)
    ]
    stated = [
        Stated("Base B's expected labels above Base A's, growing with k", "always", _above(curves),
               f"k = {sizes[-1]}: A {curves['Base A'][-1]:.4f}, B {curves['Base B, our g'][-1]:.4f}, where "
               f"ports remember {curves['Base B, ports remember'][-1]:.4f}"),
    ]  # fmt: skip
    draw = _draw_expected([float(k) for k in sizes], curves, "k of the fat tree (T_s / T = 1 / 100)")
    return Sheet("figure15", "Fig. 15: expected labels, by size of the fat tree", draw, rows, stated)


def figure16(quick: bool) -> Sheet:
    """Expected labels against packets in a labelling interval."""
    ratios = [0.001, 0.01, 0.1] if quick else [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2]
    curves = _expected([(20, ratio) for ratio in ratios])
    rows: list[dict[str, object]] = [
        {"ratio": r} | {name: values[n] for name, values in curves.items()} for n, r in enumerate(ratios)
    ]
    stated = [
        Stated("expected labels grow with T_s / T, Base B's above Base A's", "always", _above(curves),
               f"at {ratios[-1]:g}: A {curves['Base A'][-1]:.3f}, B {curves['Base B, our g'][-1]:.3f}"),
    ]  # fmt: skip
    draw = _draw_expected(ratios, curves, "T_s / T (k = 20)", log=True)
    return Sheet("figure16", "Fig. 16: expected labels, by packets in an interval", draw, rows, stated)


def _of_all_packets(row: Row) -> Row:
    """The counts of packets by labels for PACKETS packets: with random gaps their number differs."""
    share = PACKETS / sum(row[f"packets_with_{n}"] for n in range(6))
    return {f"packets_with_{n}": share * row[f"packets_with_{n}"] for n in range(6)}


def figure17(quick: bool) -> Sheet:
    """Packets by how many labels they carry."""
    seeds = 2 if quick else 20
    counts = [1, 2, 3, 4, 5]
    found = {name: [_of_all_packets(row) for row in measure(seeds, **scheme(name))] for name in ALGORITHMS}

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for shift, (name, rows) in zip((-0.2, 0.2), found.items(), strict=True):
            means = [mean(rows, f"packets_with_{n}") for n in counts]
            bars = [spread(rows, f"packets_with_{n}") for n in counts]
            axes.bar(
                np.array(counts) + shift, means, 0.38, yerr=bars, capsize=2, color=COLORS[name], label=name
            )
            beside(axes, {n + shift: value for n, value in authors(17, name).items()}, "black", PACKETS)
        axes.set_xlabel("labels of a packet")
        axes.set_ylabel(f"packets, of {PACKETS:,}")
        legend(axes, "T = 50 ms; bars: ours, diamonds: the authors")

    columns = [f"packets_with_{n}" for n in (0, *counts)]
    rows: list[dict[str, object]] = [
        {"curve": name, "seeds": seeds}
        | {column: mean(one, column) for column in columns}
        | {f"{column}_sd": spread(one, column) for column in columns}
        | {f"packets_with_{n}_authors": PACKETS * authors(17, name)[n] for n in counts}
        for name, one in found.items()
    ]

    def each(name: str) -> tuple[str, str]:
        ours = (mean(found[name], f"packets_with_{n}") for n in counts)
        theirs = (PACKETS * value for value in authors(17, name).values())
        return ", ".join(f"{value:,.0f}" for value in ours), ", ".join(f"{value:,.0f}" for value in theirs)

    (a, a_authors), (b, b_authors) = (each(name) for name in ALGORITHMS)
    stated = [
        Stated("Base B: packets with 1, 2, 3, 4, 5 labels", "most 1, then 5", b, "of 10,000", b_authors),
        Stated("Base A: packets with 1, 2, 3, 4, 5 labels", "falling", a,
               "the authors' values sum to 3,389, in Fig. 7 to 3,602: they are from another run", a_authors),
    ]  # fmt: skip
    return Sheet("figure17", "Fig. 17: labels of a packet", draw, rows, stated)


def figure18(quick: bool) -> Sheet:
    """Rest after a label: Base B between itself and Base A."""
    seeds, rests = (2, [0, 0.5, 1]) if quick else (10, [round(0.1 * n, 1) for n in range(11)])
    found = [measure(seeds, labelling__rest=rest, **scheme("Base B")) for rest in rests]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        other = axes.twinx()
        curve(axes, rests, found, "labelled_share", "packets with labels", PACKETS, color=COLORS["Base B"])
        curve(other, rests, found, "labels_a_packet", "labels", PACKETS, color=COLORS["Base A"], marker="s")
        axes.set_xlabel("rest T1 / T (T = 50 ms)")
        axes.set_ylabel("packets with labels", color=COLORS["Base B"])
        other.set_ylabel("labels", color=COLORS["Base A"])
        other.grid(False)
        other.spines["right"].set_visible(True)

    packets = [PACKETS * mean(rows, "labelled_share") for rows in found]
    labels = [PACKETS * mean(rows, "labels_a_packet") for rows in found]
    half = rests.index(0.5)
    stated = [
        Stated("with the rest, labels fall and packets with labels rise", "both",
               f"labels {labels[0]:,.0f} to {labels[-1]:,.0f}, packets {packets[0]:,.0f} to "
               f"{packets[-1]:,.0f}",
               f"at T1 = T/2, its trade-off: {labels[half]:,.0f}, {packets[half]:,.0f}"),
    ]  # fmt: skip
    return Sheet("figure18", "Fig. 18: rest after a label (Base B)", draw,
                 table("rest", rests, {"Base B": found}, COLUMNS), stated)  # fmt: skip


def figure19(quick: bool) -> Sheet:
    """Probability functions of Base B."""
    seeds = 2 if quick else 20
    names = {"F1": "f1", "F2: i/4": "f2", "listing: i/5": "f2-listing", "F3": "f3"}
    found = {name: measure(seeds, labelling__chance=chance) for name, chance in names.items()}
    found["Base A"] = measure(seeds, **scheme("Base A"))

    def draw(figure: Any) -> None:
        for axes, column, label in zip(
            figure.subplots(1, 2), ("labelled_share", "labels_a_packet"), ("packets with labels", "labels"),
            strict=True,
        ):  # fmt: skip
            axes.bar(
                range(len(found)), [PACKETS * mean(rows, column) for rows in found.values()], 0.6,
                yerr=[PACKETS * spread(rows, column) for rows in found.values()], capsize=3,
                color=[COLORS["Base B"]] * len(names) + [COLORS["Base A"]],
            )  # fmt: skip
            axes.set_xticks(range(len(found)), found, fontsize=8)
            axes.set_ylabel(f"{label}, of {PACKETS:,} packets")

    def means(column: str) -> str:
        return ", ".join(f"{name} {PACKETS * mean(rows, column):,.0f}" for name, rows in found.items())

    fewest = sorted(names, key=lambda name: mean(found[name], "labelled_share"))
    stated = [
        Stated("fewest packets with labels", "F1, then F2, then F3", means("labelled_share"),
               f"T = 50 ms; order {', '.join(fewest)}"),
        Stated("total labels with F1", "no sharp increase", means("labels_a_packet"), ""),
    ]  # fmt: skip
    rows: list[dict[str, object]] = [
        {"chance": name, "seeds": seeds}
        | {column: mean(one, column) for column in COLUMNS}
        | {f"{column}_sd": spread(one, column) for column in COLUMNS}
        for name, one in found.items()
    ]
    return Sheet("figure19", "Fig. 19: probability functions", draw, rows, stated, 9.6)

"""Figures about coverage: INT-label 6 and 9 to 13."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.fabric.labelling.experiment.run import build
from hopscope.fabric.labelling.experiment.settings import Experiment, Run
from hopscope.fabric.labelling.simulation import measures

from .figures import Sheet, Stated, legend, percent
from .label_runs import (
    ALGORITHMS,
    COLORS,
    PRO,
    RATE,
    TELEMETRY,
    curve,
    mean,
    measure,
    scheme,
    setting,
    table,
)

COLUMNS = ("coverage", "coverage_at_switch", "coverage_of_all", "bandwidth", "ports", "lost")
JITTER_MS = 10
"""Of a switch, where it is shown what jitter does. The paper gives no number for bmv2's."""
NO_JITTER = "queues and links alone delay our packets; bmv2 under Mininet adds jitter of ms"


def _axes(axes: Any, x: str, bottom: float | None = None) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel("coverage of telemetry intervals [%]")
    axes.set_ylim(bottom, 100.5)


def figure6(quick: bool) -> Sheet:
    """Coverage and bandwidth against the traffic's rate."""
    seeds, rates = (2, [1, 2.5]) if quick else (10, [0.25, 0.5, 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10])
    curves = {
        name: [measure(seeds, traffic__rate=rate * 1e6, **scheme(name)) for rate in rates]
        for name in ALGORITHMS
    }
    both = [2 * rate for rate in rates]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name, found in curves.items():
            curve(left, both, found, "coverage_of_all", name, 100)
            curve(left, both, found, "coverage", name, 100, linestyle=":", marker="x", label="_")
            curve(right, both, found, "bandwidth", name, 100)
        _axes(left, "traffic of both senders [Mbit/s]")
        left.set_title("of all ports; dotted: of those with traffic in the interval", fontsize=8)
        right.set_xlabel("traffic of both senders [Mbit/s]")
        right.set_ylabel("bytes of labels over bytes of traffic [%]")
        for axes in (left, right):
            axes.axvline(2 * RATE / 1e6, color="grey", linewidth=0.8)
            legend(axes, "grey: default")

    at = rates.index(2.5)
    more = sum(
        mean(b, "coverage_of_all") >= mean(a, "coverage_of_all")
        for a, b in zip(curves["Base A"], curves["Base B"], strict=True)
    )
    wider = all(
        mean(b, "bandwidth") > mean(a, "bandwidth")
        for a, b in zip(curves["Base A"], curves["Base B"], strict=True)
    )
    stated = [
        Stated(
            "Base B's coverage above Base A's", "always", f"at {more} of {len(rates)} rates",
            f"at the default {percent(mean(curves['Base A'][at], 'coverage_of_all'), 2)} and "
            f"{percent(mean(curves['Base B'][at], 'coverage_of_all'), 2)}: at the others they are as near",
        ),
        Stated("Base B's bandwidth above Base A's", "always", "always" if wider else "not always", ""),
    ]  # fmt: skip
    rows = table("sender_mbps", rates, curves, COLUMNS)
    return Sheet("figure6", "Fig. 6: traffic's rate (T = 50 ms, T_i = 100 ms)", draw, rows, stated, 9.6)


def figure9(quick: bool) -> Sheet:
    """Coverage against the ratio of telemetry interval and labelling interval."""
    seeds = 2 if quick else 20
    ratios = [1, 1.6, 2] if quick else [0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2, 2.5]
    curves = {
        name: [measure(seeds, labelling__interval=TELEMETRY / r, **scheme(name)) for r in ratios]
        for name in ALGORITHMS
    }
    jitter = [
        measure(
            seeds, labelling__interval=TELEMETRY / r, network__jitter_ns=JITTER_MS * 10**6, **scheme("Base A")
        )
        for r in ratios
    ]
    double = [
        measure(seeds, labelling__interval=TELEMETRY / r, traffic__rate=2 * RATE, **scheme("Base A"))
        for r in ratios
    ]
    late = f"Base A, switches add up to {JITTER_MS} ms"
    fast = "Base A, 5 Mbit/s of each sender"

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in curves.items():
            curve(axes, ratios, found, "coverage", name, 100)
        curve(axes, ratios, jitter, "coverage", "Base A", 100, linestyle="--", marker="x", label=late)
        curve(axes, ratios, double, "coverage", "Base A", 100, linestyle=":", marker="^", label=fast)
        axes.axhline(98, color="grey", linewidth=0.8)
        axes.axvline(1.6, color="grey", linewidth=0.8)
        _axes(axes, "telemetry interval / labelling interval")
        legend(axes, "5 Mbit/s of both senders", loc="lower right")

    place, two = ratios.index(1.6), ratios.index(2)
    word = f"with jitter up to {JITTER_MS} ms {percent(mean(jitter[two], 'coverage'), 2)}"
    stated = [
        Stated(
            "coverage at T = 50 ms, T_i = 100 ms", "99.72 %",
            f"{percent(mean(curves['Base A'][two], 'coverage'), 2)} A, "
            f"{percent(mean(curves['Base B'][two], 'coverage'), 2)} B",
            f"{word}; with 5 Mbit/s of each sender {percent(mean(double[two], 'coverage'), 2)} (A)",
        ),
        Stated(
            "coverage at ratio 1.6", "above 98 %",
            f"{percent(mean(curves['Base A'][place], 'coverage'), 2)} A, "
            f"{percent(mean(curves['Base B'][place], 'coverage'), 2)} B",
            f"with jitter {percent(mean(jitter[place], 'coverage'), 2)}, with 5 Mbit/s of each "
            f"{percent(mean(double[place], 'coverage'), 2)} (A)",
        ),
    ]  # fmt: skip
    rows = table("ratio", ratios, curves | {late: jitter, fast: double}, COLUMNS)
    return Sheet("figure9", "Fig. 9: telemetry and labelling interval (T_i = 100 ms)", draw, rows, stated)


def figure10(quick: bool) -> Sheet:
    """Coverage and bandwidth against the labelling interval, with traffic that is fast enough."""
    seeds, fast = 2 if quick else 5, 10 * RATE
    intervals = [20, 60, 100] if quick else [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    curves = {
        name: [
            measure(seeds, labelling__interval=t / 1e3, traffic__rate=fast, **scheme(name)) for t in intervals
        ]
        for name in ALGORITHMS
    }

    jitter = [
        measure(
            seeds, labelling__interval=t / 1e3, traffic__rate=fast, network__jitter_ns=JITTER_MS * 10**6,
            **scheme("Base A"),
        )
        for t in intervals
    ]  # fmt: skip
    late = f"Base A, switches add up to {JITTER_MS} ms"

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name, found in curves.items():
            curve(left, intervals, found, "coverage", name, 100)
            curve(right, intervals, found, "bandwidth", name, 100)
        curve(left, intervals, jitter, "coverage", "Base A", 100, linestyle="--", marker="x", label=late)
        _axes(left, "labelling interval [ms]", 90)
        right.set_xlabel("labelling interval [ms]")
        right.set_ylabel("bytes of labels over bytes of traffic [%]")
        right.set_yscale("log")
        legend(left)
        legend(right)

    whole, shaken = (
        [t for t, rows in zip(intervals, found, strict=True) if mean(rows, "coverage") > 0.999]
        for found in (curves["Base A"], jitter)
    )
    stated = [
        Stated("turning point of coverage", "T = 60 ms", f"T = {max(whole)} ms: the longest above 99.9 %",
               f"with jitter up to {JITTER_MS} ms {max(shaken)} ms; 10 times the default traffic, as `fast "
               f"enough`; {NO_JITTER}"),
    ]  # fmt: skip
    rows = table("interval_ms", intervals, curves | {late: jitter}, COLUMNS)
    return Sheet("figure10", "Fig. 10: labelling interval, 25 Mbit/s a sender", draw, rows, stated, 9.6)


def figure11(quick: bool) -> Sheet:
    """Coverage of one telemetry interval after the other, Base A."""
    intervals, count = [20, 40, 60, 80], 50 if quick else 100
    rows: list[dict[str, object]] = []
    shares: dict[tuple[int, int], Any] = {}
    for jitter in (0, JITTER_MS):
        for t in intervals:
            tree = setting(
                labelling__algorithm="base-a", labelling__interval=t / 1e3, network__jitter_ns=jitter * 10**6
            )
            simulation = build(Run(Experiment.model_validate(tree), 1))
            simulation.run(1 + count * TELEMETRY)
            found = measures.coverage(simulation.received, simulation.active, TELEMETRY)[10:]
            shares[jitter, t] = found
            rows.extend(
                {"jitter_ms": jitter, "interval_ms": t, "time_s": 0.1 * n, "coverage": float(one)}
                for n, one in enumerate(found)
            )

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(intervals), 2, sharex=True, sharey=True)
        for (jitter, t), found in shares.items():
            axes = panels[intervals.index(t)][0 if not jitter else 1]
            axes.plot(TELEMETRY * np.arange(len(found)), 100 * found, linewidth=1, color=COLORS["Base A"])
            axes.set_title(f"T = {t} ms{f', switches add up to {jitter} ms' if jitter else ''}", fontsize=8)
            axes.set_ylim(70, 101)
        for axes in panels[-1]:
            axes.set_xlabel("time [s]")
        figure.supylabel("coverage of the interval [%]", fontsize=10)

    low = {key: float(found.min()) for key, found in shares.items()}
    stated = [
        Stated("coverage at T = 20 ms", "always 100 %", f"never below {percent(low[0, 20])}",
               f"random destinations leave gaps on some ports; with jitter up to {JITTER_MS} ms never below "
               f"{percent(low[JITTER_MS, 20])}"),
        Stated("a longer interval varies more", "shown", f"T = 80 ms: down to {percent(low[0, 80])}",
               f"{percent(low[JITTER_MS, 80])} with jitter"),
    ]  # fmt: skip
    return Sheet("figure11", "Fig. 11: coverage over time (Base A)", draw, rows, stated, 9.6)


EARLY = "Pro, one bit, k = 1/2"


def figure12(quick: bool) -> Sheet:
    """Base A, Base B and Pro where the labelling interval comes near the telemetry interval."""
    seeds, intervals = (2, [50, 100]) if quick else (4, [50, 60, 70, 80, 90, 100, 110, 120])
    curves = {
        name: [measure(seeds, labelling__interval=t / 1e3, **scheme(name)) for t in intervals]
        for name in (*ALGORITHMS, *PRO)
    }
    early = [
        measure(seeds, labelling__interval=t / 1e3, adaptive__k=0.5, **scheme("Pro, one bit"))
        for t in intervals
    ]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in curves.items():
            curve(axes, intervals, found, "coverage", name, 100)
        curve(axes, intervals, early, "coverage", "Pro, one bit", 100, linestyle="--", label=EARLY)
        _axes(axes, "labelling interval [ms]")
        legend(axes, "T_i = 100 ms, k = 1", loc="lower left")

    at = intervals.index(100)
    values = {name: percent(mean(found[at], "coverage")) for name, found in curves.items()}
    stated = [
        Stated("Pro's coverage as T grows to T_i", "around 99 %",
               f"{values['Pro, one bit']} one bit, {values['Pro, shift']} shift",
               f"at T = 100 ms, k = 1 (the paper has none): late is after k T; one bit with k = 1/2 "
               f"{percent(mean(early[at], 'coverage'))}; A {values['Base A']}, B {values['Base B']}"),
    ]  # fmt: skip
    rows = table("interval_ms", intervals, curves | {EARLY: early}, COLUMNS)
    return Sheet("figure12", "Fig. 12: long labelling intervals and Pro", draw, rows, stated)


def figure13(quick: bool) -> Sheet:
    """Coverage against the share of packets that are lost."""
    seeds = 2 if quick else 4
    chances = [0, 0.3] if quick else [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4]
    curves = {
        name: [measure(seeds, network__loss=chance, **scheme(name)) for chance in chances]
        for name in (*ALGORITHMS, *PRO)
    }

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in curves.items():
            curve(axes, [100 * mean(rows, "lost") for rows in found], found, "coverage", name, 100)
        axes.axvline(60, color="grey", linewidth=0.8)
        _axes(axes, "packets lost [%]")
        legend(axes, "T = 50 ms, T_i = 100 ms, k = 1")

    at60 = {
        name: float(
            np.interp(0.6, [mean(rows, "lost") for rows in f], [mean(rows, "coverage") for rows in f])
        )
        for name, f in curves.items()
    }
    stated = [
        Stated("coverage with 60 % of packets lost, Pro", "92 %",
               f"{percent(at60['Pro, one bit'])} one bit, {percent(at60['Pro, shift'])} shift",
               f"A {percent(at60['Base A'])}, B {percent(at60['Base B'])}; every link between switches "
               "loses by chance, where the paper limits bmv2's queues"),
    ]  # fmt: skip
    rows = table("link_loss", chances, curves, COLUMNS)
    return Sheet("figure13", "Fig. 13: lost packets", draw, rows, stated)

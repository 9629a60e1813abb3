"""Figures about coverage: INT-label 6 and 9 to 11."""

from __future__ import annotations

from typing import Any

import numpy as np

from hopscope.fabric.labelling.experiment.run import build
from hopscope.fabric.labelling.experiment.settings import Experiment, Run
from hopscope.fabric.labelling.rivals import RIVALS
from hopscope.fabric.labelling.simulation import measures
from hopscope.fabric.labelling.theory.closed_forms import random_window_coverage
from hopscope.fabric.ports import NO_PORT
from hopscope.fabric.topology import parse_topology

from .figures import Sheet, Stated, legend, percent, shares
from .label_authors import authors, beside, of
from .label_runs import (
    ALGORITHMS,
    COLORS,
    OURS,
    RATE,
    TELEMETRY,
    axes_of_coverage,
    curve,
    mean,
    measure,
    scheme,
    setting,
    table,
    worst,
)

COLUMNS = ("coverage_of_all", "coverage", "coverage_at_switch", "labels_a_packet", "bandwidth", "ports")
OCCUPATION = 32 / 1000
"""Bytes of a label over bytes of a packet: times labels a packet, the authors' `bandwidth occupation`."""


def formula(interval: float, telemetry: float, rate: float = RATE) -> float:
    """Base A's coverage of all ports in closed form: ports that are passed at random by as many of the seven
    destinations as there are routes through them; `rate` of each sender, bit/s.
    """
    topology = parse_topology("paper")
    senders = (0, topology.hosts - 1)
    ends = np.array([(a, b) for a in senders for b in range(topology.hosts) if a != b])
    ports = topology.paths(ends[:, 0], ends[:, 1], np.zeros(len(ends), np.uint64))[:, 1:]
    routes = np.bincount(ports[ports != NO_PORT])
    gap = 8 * 1000 * (topology.hosts - 1) / rate
    return float(
        np.mean([random_window_coverage(interval, gap / count, telemetry) for count in routes[routes > 0]])
    )


def figure6(quick: bool) -> Sheet:
    """Coverage and occupation against the traffic's rate, T = 20 ms and T_i = 50 ms."""
    known = list(authors(6, "Base A", "_coverage"))
    seeds, rates = (2, [known[4], known[19]]) if quick else (10, known[:4] + known[4::3])
    curves = {
        name: [
            measure(
                seeds, traffic__rate=4e3 * kilobytes, labelling__interval=0.02, experiment__telemetry=0.05,
                **scheme(name),
            )
            for kilobytes in rates
        ]
        for name in ALGORITHMS
    }  # fmt: skip
    megabits = [8e-3 * kilobytes for kilobytes in rates]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name, found in curves.items():
            curve(left, megabits, found, "coverage_of_all", name, 100)
            curve(right, megabits, found, "labels_a_packet", name, 100 * OCCUPATION)
            for axes, suffix, scale in ((left, "_coverage", 100), (right, "_int", 100 * OCCUPATION)):
                series = authors(6, name, suffix)
                beside(axes, {8e-3 * x: value for x, value in series.items()}, COLORS[name], scale)
        axes_of_coverage(left, "traffic of both senders [Mbit/s]")
        right.set_xlabel("traffic of both senders [Mbit/s]")
        right.set_ylabel("labels over traffic, bytes, last hop [%]")
        legend(left, OURS)
        legend(right, OURS)

    a, b = curves["Base A"], curves["Base B"]
    at = [rates.index(known[4]), rates.index(known[19])]
    cover_a, cover_b = (authors(6, name, "_coverage") for name in ALGORITHMS)
    wide_a, wide_b = (authors(6, name, "_int") for name in ALGORITHMS)
    more = sum(mean(y, "coverage_of_all") >= mean(x, "coverage_of_all") for x, y in zip(a, b, strict=True))
    wider = sum(mean(y, "labels_a_packet") > mean(x, "labels_a_packet") for x, y in zip(a, b, strict=True))
    stated = [
        Stated(
            "Base B's coverage above Base A's", "always", f"at {more} of {len(rates)} rates",
            "the two are within a point of each other at most rates",
            f"at {sum(cover_b[x] >= cover_a[x] for x in known)} of {len(known)} rates",
        ),
        Stated("Base B's bandwidth above Base A's", "always", f"at {wider} of {len(rates)} rates", "",
               f"at {sum(wide_b[x] > wide_a[x] for x in known)} of {len(known)} rates"),
        Stated(
            "Base A's coverage at 142 and 573 kB/s", "",
            shares([mean(a[n], "coverage_of_all") for n in at]),
            "T = 20 ms and T_i = 50 ms: labels a packet at 573 kB/s are those of Fig. 8 at 20 ms; "
            f"{worst(6, rates, curves, '_coverage')}",
            shares([cover_a[rates[n]] for n in at]),
        ),
        Stated(
            "Base A's labels a packet there", "",
            ", ".join(f"{mean(a[n], 'labels_a_packet'):.2f}" for n in at),
            "occupation is labels a packet times 32 B / 1000 B",
            ", ".join(f"{wide_a[rates[n]]:.2f}" for n in at),
        ),
        _three_percent(),
    ]  # fmt: skip
    rows = table(
        "kilobytes_per_s", rates, curves, COLUMNS,
        {"coverage_of_all": of(6, "_coverage"), "labels_a_packet": of(6, "_int")},
    )  # fmt: skip
    return Sheet("figure6", "Fig. 6: traffic's rate (T = 20 ms, T_i = 50 ms)", draw, rows, stated, 9.6)


def _three_percent() -> Stated:
    """The introduction's `Compared with HULA, INT-label consumes only 3% extra bandwidth`."""

    def ratio(name: str) -> float:
        topology = parse_topology(name)
        return RIVALS["int-label"].round(topology).link_bits / RIVALS["hula"].round(topology).link_bits

    here, small, large = (percent(ratio(name)) for name in ("paper", "fat-tree:4", "fat-tree:10"))
    ours = [OCCUPATION * mean(measure(4, **scheme(name)), "labels_a_packet") for name in ALGORITHMS]
    theirs = [
        OCCUPATION * one
        for name in ALGORITHMS
        for one in (authors(7, name, "_int")[50], list(authors(6, name, "_int").values())[19])
    ]
    found = f"{percent(min(theirs))} to {percent(max(theirs))} of traffic at the default rate"
    return Stated(
        "extra bandwidth compared with HULA (introduction)", "3 %",
        f"{percent(min(ours))} to {percent(max(ours))} of traffic, T = 50 ms",
        "no figure shows it, and data of HULA's occupation are not published. 3 % fits labels over traffic "
        f"at the last hop (T = 20 and 50 ms), not labels over HULA: {here} on links of this topology, "
        f"{small} and {large} on fat trees with k = 4 and 10, both once in each interval",
        found,
    )  # fmt: skip


def figure9(quick: bool) -> Sheet:
    """Coverage against the ratio of telemetry interval and labelling interval, T = 50 ms."""
    seeds = 2 if quick else 20
    known = list(authors(9, "Base A"))
    ratios = [1, 1.6, 2] if quick else known
    curves = {
        name: [measure(seeds, experiment__telemetry=0.05 * ratio, **scheme(name)) for ratio in ratios]
        for name in ALGORITHMS
    }

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        exact = [100 * formula(0.05, 0.05 * ratio) for ratio in ratios]
        axes.plot(ratios, exact, "k:", label="Base A, closed form")
        for name, found in curves.items():
            curve(axes, ratios, found, "coverage_of_all", name, 100)
            beside(axes, authors(9, name), COLORS[name], 100)
        axes.axhline(98, color="grey", linewidth=0.8)
        axes.axvline(1.6, color="grey", linewidth=0.8)
        axes_of_coverage(axes, "telemetry interval / labelling interval")
        legend(axes, OURS, loc="lower right")

    def values(name: str, ratio: float) -> str:
        return percent(mean(curves[name][ratios.index(ratio)], "coverage_of_all"))

    def theirs(ratio: float) -> str:
        return f"{percent(authors(9, 'Base A')[ratio])} A, {percent(authors(9, 'Base B')[ratio])} B"

    other = percent(
        mean(measure(seeds, labelling__interval=TELEMETRY, **scheme("Base A")), "coverage_of_all")
    )
    busy = curves["Base B"][ratios.index(2)]
    stated = [
        Stated("coverage at T = 50 ms, T_i = 100 ms", "99.72 %",
               f"{values('Base A', 2)} A, {values('Base B', 2)} B",
               "99.72 % is Base B's of Fig. 10; of the ports with traffic in the interval "
               f"{percent(mean(busy, 'coverage'))} (B)",
               theirs(2)),
        Stated("coverage at ratio 1.6", "above 98 %", f"{values('Base A', 1.6)} A, {values('Base B', 1.6)} B",
               "ports with few packets need it, not delays, which do not occur here; "
               f"{worst(9, ratios, curves)}",
               theirs(1.6)),
        Stated("coverage at ratio 1", "", f"{values('Base A', 1)} A, {values('Base B', 1)} B",
               f"T stays at 50 ms, T_i varies; with T = T_i = 100 ms {other} (A), the authors' Fig. 10: "
               f"{percent(authors(10, 'Base A', '_coverage')[100])}",
               theirs(1)),
    ]  # fmt: skip
    rows = table("ratio", ratios, curves, COLUMNS, {"coverage_of_all": of(9)})
    return Sheet("figure9", "Fig. 9: telemetry and labelling interval (T = 50 ms)", draw, rows, stated)


def figure10(quick: bool) -> Sheet:
    """Coverage and bandwidth against the labelling interval, default traffic."""
    seeds = 2 if quick else 10
    intervals = [50, 60, 100] if quick else [round(x) for x in authors(10, "Base A", "_coverage")]
    curves = {
        name: [measure(seeds, labelling__interval=t / 1e3, **scheme(name)) for t in intervals]
        for name in ALGORITHMS
    }
    megabits = 2 * RATE / 1e6 * OCCUPATION
    """Of labels at last hops, for each label a packet."""

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name, found in curves.items():
            curve(left, intervals, found, "coverage_of_all", name, 100)
            curve(right, intervals, found, "labels_a_packet", name, megabits)
            beside(left, authors(10, name, "_coverage"), COLORS[name], 100)
            beside(right, authors(10, name, "_int"), COLORS[name], 573.4808 * 8e-3 * OCCUPATION)
        axes_of_coverage(left, "labelling interval [ms]")
        right.set_xlabel("labelling interval [ms]")
        right.set_ylabel("labels at last hops [Mbit/s]")
        legend(left, OURS)
        legend(right, OURS)

    a, series = curves["Base A"], authors(10, "Base A", "_coverage")
    at = [50, 60, 70, 100] if not quick else intervals
    ours = [mean(a[intervals.index(t)], "coverage_of_all") for t in at]
    stated = [
        Stated("turning point of coverage", "T = 60 ms", shares(ours),
               f"T = {', '.join(map(str, at))} ms, Base A; 60 ms is the authors' longest above 99 %. The "
               "traffic is the default rate, by which their script multiplies; faster traffic has a later "
               f"turning point; {worst(10, intervals, curves, '_coverage')}",
               shares([series[t] for t in at])),
    ]  # fmt: skip
    rows = table(
        "interval_ms", intervals, curves, COLUMNS,
        {"coverage_of_all": of(10, "_coverage"), "labels_a_packet": of(10, "_int")},
    )  # fmt: skip
    return Sheet("figure10", "Fig. 10: labelling interval (T_i = 100 ms)", draw, rows, stated, 9.6)


def figure11(quick: bool) -> Sheet:
    """Coverage of one telemetry interval after the other, Base A."""
    intervals, count = [20, 50, 80], 50 if quick else 100
    ours: dict[int, Any] = {}
    for t in intervals:
        tree = setting(labelling__algorithm="base-a", labelling__interval=t / 1e3)
        simulation = build(Run(Experiment.model_validate(tree), 1))
        simulation.run(1 + count * TELEMETRY)
        ever = np.broadcast_to(simulation.active.any(axis=0), simulation.active.shape)
        ours[t] = measures.coverage(simulation.received, ever, TELEMETRY)[10:]
    theirs = {t: np.array(list(authors(11, str(t)).values())) for t in intervals}

    def draw(figure: Any) -> None:
        panels = figure.subplots(len(intervals), 2, sharex=True, sharey=True)
        for column, (who, shown) in enumerate((("ours", ours), ("the authors", theirs))):
            for place, t in enumerate(intervals):
                axes = panels[place][column]
                axes.plot(
                    TELEMETRY * np.arange(len(shown[t])), 100 * shown[t], linewidth=1, color=COLORS["Base A"]
                )
                axes.set_title(f"T = {t} ms, {who}", fontsize=8)
                axes.set_ylim(70, 101)
            panels[-1][column].set_xlabel("time [s]")
        figure.supylabel("coverage of the interval [%]", fontsize=10)

    def low(found: Any) -> str:
        return (
            f"lowest {percent(float(found.min()))}, {np.count_nonzero(found < 1)} of {len(found)} below 100 %"
        )

    stated = [
        Stated("coverage at T = 20 ms", "always 100 %", low(ours[20]),
               "random destinations leave gaps on some ports",
               low(theirs[20])),
        Stated("a longer interval varies more", "shown", f"T = 80 ms: {low(ours[80])}",
               "without any jitter of packets: a port whose gap exceeds T_i - T misses an "
               "interval", f"T = 80 ms: {low(theirs[80])}"),
    ]  # fmt: skip
    rows: list[dict[str, object]] = [
        {"interval_ms": t, "time_s": round(TELEMETRY * n, 1), "coverage": float(one)}
        | {"coverage_authors": float(theirs[t][n]) if n < len(theirs[t]) else ""}
        for t in intervals
        for n, one in enumerate(ours[t])
    ]
    return Sheet("figure11", "Fig. 11: coverage over time (Base A)", draw, rows, stated, 9.6)

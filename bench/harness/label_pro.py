"""Figures about adaptive labelling: INT-label 12 and 13."""

from __future__ import annotations

from typing import Any

import numpy as np

from .figures import Sheet, Stated, legend, percent, shares
from .label_authors import authors, beside, of
from .label_runs import (
    ALGORITHMS,
    COLORS,
    OURS,
    RATE,
    TELEMETRY,
    Row,
    axes_of_coverage,
    curve,
    mean,
    measure,
    scheme,
    table,
    worst,
)

COLUMNS = ("coverage_of_all", "coverage", "lost", "labels_a_packet", "bandwidth", "ports")
SHORT = "Pro, one bit, k and flag's life 1"
LATE, LIFE = TELEMETRY, 10 * TELEMETRY
"""The published code's, s: a port is late after TIME_OUT, the telemetry interval, when its ageing entry
expires, and keeps its flag ten times as long (`controller/detect1.py`)."""
STYLES: dict[str, dict[str, Any]] = {
    SHORT: {"color": COLORS["Pro, one bit"], "linestyle": ":", "marker": "^"}
}


def pro(name: str, interval: float) -> dict[str, Any]:
    """Changes of the setting for a curve: Pro's one bit as in the published code, the others with k = 1."""
    if name == SHORT:
        return scheme("Pro, one bit")
    if name == "Pro, one bit":
        return scheme(name) | {"adaptive__k": LATE / interval, "adaptive__flag_life": LIFE / interval}
    return scheme(name)


def figure12(quick: bool) -> Sheet:
    """Base A, Base B and Pro where the labelling interval comes near the telemetry interval."""
    seeds, intervals = (2, [100]) if quick else (3, [60, 70, 80, 85, 90, 95, 100])
    curves = {
        name: [
            measure(seeds if "Pro" in name else 4 * seeds, labelling__interval=t / 1e3, **pro(name, t / 1e3))
            for t in intervals
        ]
        for name in (*ALGORITHMS, "Pro, one bit", SHORT, "Pro, shift")
    }

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for name, found in curves.items():
            curve(left, intervals, found, "coverage_of_all", name, 100, **STYLES.get(name, {}))
            curve(right, intervals, found, "labels_a_packet", name, **STYLES.get(name, {}))
            beside(left, authors(12, name), COLORS.get(name, "grey"), 100)
        axes_of_coverage(left, "labelling interval [ms]")
        right.set_xlabel("labelling interval [ms]")
        right.set_ylabel("labels a packet")
        right.set_ylim(0, 4)
        legend(left, OURS, loc="lower left")

    at, most = len(intervals) - 1, max(intervals)
    ours = {name: found[at] for name, found in curves.items()}
    cover = {name: percent(mean(rows, "coverage_of_all")) for name, rows in ours.items()}
    theirs = {name: percent(authors(12, name)[most]) for name in (*ALGORITHMS, "Pro, one bit")}
    carried = {name: mean(rows, "labels_a_packet") for name, rows in ours.items()}
    stated = [
        Stated("Pro's coverage as T grows to T_i", "around 99 %", cover["Pro, one bit"],
               f"at T = {most} ms: late after T_i, a flag stays for 10 T_i, as in the published code; "
               f"with k and a flag's life of 1 it is {cover[SHORT]}, with shift and k = 1 "
               f"{cover['Pro, shift']}; "
               f"{worst(12, intervals, curves)}", theirs["Pro, one bit"]),
        Stated("Base A, Base B there", "", f"{cover['Base A']}, {cover['Base B']}", "",
               f"{theirs['Base A']}, {theirs['Base B']}"),
        Stated("labels a packet there: A, B, Pro", "",
               ", ".join(f"{carried[name]:.2f}" for name in (*ALGORITHMS, "Pro, one bit")),
               f"a label of every port in every packet would make {27 / 7:.2f}. Pro's 99 % take nearly "
               "as many, since at T = T_i a port is late in most intervals; a flag's life of 1 takes "
               f"{carried[SHORT]:.2f}, shift {carried['Pro, shift']:.2f}"),
    ]  # fmt: skip
    rows = table("interval_ms", intervals, curves, COLUMNS, {"coverage_of_all": of(12)})
    return Sheet("figure12", "Fig. 12: long labelling intervals and Pro", draw, rows, stated, 9.6)


QUEUE = 5
"""Packets of a switch port's queue: MAX_Q_Size of the published topology for HULA; 100 in that for labels."""
LIMITS = [2e6, 1.25e6, 1e6, 8e5, 6.25e5, 5e5, 4e5, 2.5e5, 2e5, 1.6e5]
"""Rates of switch ports, bit/s."""


def figure13(quick: bool) -> Sheet:
    """Coverage against the share of packets lost, where ports of switches are limited in rate and queue."""
    seeds, limits = (2, [5e5]) if quick else (3, LIMITS)

    def limited(name: str, queue: int = QUEUE, times: float = 1) -> list[list[Row]]:
        return [
            measure(
                seeds, traffic__rate=times * RATE, network__rate=round(times * limit), network__host_rate=1e9,
                network__buffer_bytes=1038 * queue, **pro(name, 0.05),
            )
            for limit in limits
        ]  # fmt: skip

    shown = (*ALGORITHMS, "Pro, one bit")
    curves = {name: limited(name) for name in shown}
    others = {
        f"Base A, {20 * QUEUE} packets of queue": limited("Base A", 20 * QUEUE),
        "Base A, 0.4 times the traffic and limits": limited("Base A", times=0.4),
        "Base A, 4 times the traffic and limits": limited("Base A", times=4),
    }
    markers = dict(zip(others, "^vs", strict=True))
    curves |= others

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, found in curves.items():
            style = (
                {"color": COLORS["Base A"], "linestyle": ":", "marker": markers[name]}
                if name in others
                else {}
            )
            lost = [100 * mean(rows, "lost") for rows in found]
            curve(axes, lost, found, "coverage_of_all", name, 100, **style)
            beside(axes, {100 * x: y for x, y in authors(13, name).items()}, COLORS.get(name, "grey"), 100)
        axes.axvline(60, color="grey", linewidth=0.8)
        axes_of_coverage(axes, "packets lost [%]")
        legend(axes, OURS)

    known = list(authors(13, "Base A"))
    sixty, eighty = min(known, key=lambda x: abs(x - 0.6)), max(known)

    def between(name: str, share: float) -> float:
        lost, cover = ([mean(rows, what) for rows in curves[name]] for what in ("lost", "coverage_of_all"))
        return float(np.interp(share, lost, cover))

    chance = [measure(seeds, network__loss=0.33, **pro(name, 0.05)) for name in shown]
    cost = mean(curves["Pro, one bit"][limits.index(5e5)], "labels_a_packet")
    gains = [between("Pro, one bit", x) - between("Base B", x) for x in (0.3, 0.6)]
    stated = [
        Stated(f"coverage with {percent(sixty)} of packets lost: A, B, Pro", "Pro 92 % at 60 %",
               shares([between(name, sixty) for name in shown]),
               f"ports of switches send at 2 Mbit/s to 160 kbit/s from queues of {QUEUE} packets: what is "
               "dropped is not labelled by the port that drops it. Links that lose labelled packets too "
               f"({percent(mean(chance[0], 'lost'), 0)} of packets) give "
               f"{shares([mean(rows, 'coverage_of_all') for rows in chance])}",
               shares([authors(13, name)[sixty] for name in shown])),
        Stated("Pro above Base B", "", f"{100 * gains[0]:.1f} points at 30 %, {100 * gains[1]:.1f} at 60 %",
               f"Pro needs {cost:.1f} labels a packet for this with 56 % lost; Base B has "
               f"{mean(curves['Base B'][limits.index(5e5)], 'labels_a_packet'):.1f}",
               f"{100 * (authors(13, 'Pro, one bit')[known[4]] - authors(13, 'Base B')[known[4]]):.1f} "
               f"points at {percent(known[4], 0)}, "
               f"{100 * (authors(13, 'Pro, one bit')[sixty] - authors(13, 'Base B')[sixty]):.1f} at "
               f"{percent(sixty, 0)}"),
        Stated(f"with {percent(eighty)} lost: A, B, Pro", "",
               shares([between(name, eighty) for name in shown]),
               "the authors also changed the rate of traffic, and do not say to what: with 0.4 and 4 times "
               "the traffic and limits A has "
               f"{shares([between(name, eighty) for name in list(others)[1:]])}; queues of 100 packets make "
               f"{percent(between(next(iter(others)), eighty))}",
               shares([authors(13, name)[eighty] for name in shown])),
    ]  # fmt: skip
    rows = table("limit_bps", limits, curves, COLUMNS)
    return Sheet("figure13", "Fig. 13: lost packets (T = 50 ms, T_i = 100 ms)", draw, rows, stated)

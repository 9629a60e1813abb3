"""What the figures of INT-label share: the paper's setting (section 6.1), runs of a sweep, means and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hopscope.fabric.labelling.experiment.run import simulate_run
from hopscope.fabric.labelling.experiment.settings import Experiment, Run

from .label_authors import Series, apart, authors

Tree = dict[str, dict[str, Any]]
Row = dict[str, Any]

ALGORITHMS = {"Base A": "base-a", "Base B": "base-b"}
COLORS = {
    "Base A": "#00798c", "Base B": "#d1495b", "Pro, one bit": "#edae49", "Pro, shift": "#66a182",
    "HULA": "#2e4057", "Pingmesh": "#8d96a3", "INT-path": "#edae49", "INT-label": "#d1495b",
    "PINT": "#00798c", "INT": "#8d96a3",
}  # fmt: skip
PRO = {"Pro, one bit": "one-bit", "Pro, shift": "shift"}
"""Section 5's form and Algorithm 3, both over Base B."""
RATE = 2.5e6
"""Of each of the two senders, bit/s: 6.1 has `around 5Mbps`; the authors' script for Fig. 6 counts both."""
RANDOM = True
"""Exponential gaps between the packets of a sender, which in the authors' testbed is 20 processes."""
PACKETS = 10_000
SECONDS = PACKETS * 8 * 1000 / (2 * RATE)
"""In which both senders send 10,000 packets of 1 kB."""
TELEMETRY = 0.1
OURS = "lines: ours, diamonds: the authors"


def setting(**changes: Any) -> Tree:
    """6.1: topology 4-4-4, server1 and server8 send to random others, T = 50 ms, F1, telemetry 100 ms.

    `changes` are dotted keys with `__` for the dot.
    """
    tree: Tree = {
        "experiment": {"seconds": SECONDS, "warm_up": 1.0, "telemetry": TELEMETRY},
        "network": {"topology": "paper"},
        "traffic": {"pattern": "senders", "rate": RATE, "size": 1000, "random": RANDOM},
        "labelling": {"algorithm": "base-b", "interval": 0.05, "chance": "f1"},
        "adaptive": {},
    }
    for key, value in changes.items():
        section, name = key.split("__")
        tree[section][name] = value
    return tree


def scheme(name: str) -> dict[str, Any]:
    """Changes that make the setting one of Base A, Base B, Pro."""
    if name in PRO:
        return {"adaptive__mode": PRO[name]}
    return {"labelling__algorithm": ALGORITHMS[name]}


def measure(seeds: int, **changes: Any) -> list[Row]:
    """Measures of the setting with these changes, by seed; cached where figures ask for the same.

    Beside those of a run: `labels_a_packet` and `labelled_share`, of all packets that arrive.
    """
    key = (seeds, tuple(sorted(changes.items())))
    if key not in _KNOWN:
        experiment = Experiment.model_validate(setting(**changes))
        rows = [simulate_run(Run(experiment, seed)) for seed in range(1, seeds + 1)]
        for row in rows:
            row["labels_a_packet"] = row["labels"] / max(1, row["packets"])
            row["labelled_share"] = row["labelled_packets"] / max(1, row["packets"])
        _KNOWN[key] = rows
    return _KNOWN[key]


_KNOWN: dict[tuple[Any, ...], list[Row]] = {}


def mean(rows: Sequence[Row], column: str) -> float:
    """Over the seeds."""
    return float(np.mean([row[column] for row in rows]))


def spread(rows: Sequence[Row], column: str) -> float:
    """Standard deviation over the seeds."""
    return float(np.std([row[column] for row in rows], ddof=1)) if len(rows) > 1 else 0.0


def curve(
    axes: Any, at: Sequence[float], found: Sequence[Sequence[Row]], column: str, name: str,
    scale: float = 1.0, **style: Any,
) -> None:  # fmt: skip
    """A curve of means with bars of one standard deviation."""
    style = {"color": COLORS.get(name), "label": name, "marker": "o", "capsize": 2} | style
    axes.errorbar(
        at, [scale * mean(rows, column) for rows in found], [scale * spread(rows, column) for rows in found],
        **style,
    )  # fmt: skip


def table(
    key: str,
    at: Sequence[Any],
    curves: Mapping[str, Sequence[Sequence[Row]]],
    columns: Sequence[str],
    authors: Mapping[str, Callable[[str], Series]] | None = None,
) -> list[dict[str, object]]:
    """Rows of a figure's CSV: mean and standard deviation of some columns, by curve and x.

    `authors`: by column, what the authors have of a curve.
    """
    return [
        {"curve": name, key: x, "seeds": len(rows)}
        | {column: mean(rows, column) for column in columns}
        | {f"{column}_sd": spread(rows, column) for column in columns}
        | {f"{column}_authors": of(name).get(x, "") for column, of in (authors or {}).items()}
        for name, found in curves.items()
        for x, rows in zip(at, found, strict=True)
    ]


def axes_of_coverage(axes: Any, x: str, bottom: float | None = None) -> None:
    """Names of the axes."""
    axes.set_xlabel(x)
    axes.set_ylabel("coverage of telemetry intervals [%]")
    axes.set_ylim(bottom, 100.5)


def worst(
    figure: int, at: Sequence[float], curves: Mapping[str, Sequence[Sequence[Row]]], suffix: str = ""
) -> str:
    """How far the coverage of any curve is from the authors'."""
    points = [
        100 * apart(authors(figure, name, suffix), at, [mean(rows, "coverage_of_all") for rows in found])
        for name, found in curves.items()
        if authors(figure, name, suffix)
    ]
    return f"at most {max(points):.1f} points apart"

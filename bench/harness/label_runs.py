"""What the figures of INT-label share: the paper's setting (section 6.1), runs of a sweep, means and bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hopscope.fabric.labelling.experiment.run import simulate_run
from hopscope.fabric.labelling.experiment.settings import Experiment, Run

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
"""Of each of the two senders, bit/s. 6.1 has `around 5Mbps`, and does not say whether of each or of both; 6.2
has the default at the turning point of Fig. 6, and ours turns at about 5 Mbit/s of both."""
PACKETS = 10_000
SECONDS = PACKETS * 8 * 1000 / (2 * RATE)
"""In which both senders send 10,000 packets of 1 kB."""
TELEMETRY = 0.1


def setting(**changes: Any) -> Tree:
    """6.1: topology 4-4-4, server1 and server8 send to random others, T = 50 ms, F1, telemetry 100 ms.

    `changes` are dotted keys with `__` for the dot.
    """
    tree: Tree = {
        "experiment": {"seconds": SECONDS, "warm_up": 1.0, "telemetry": TELEMETRY},
        "network": {"topology": "paper"},
        "traffic": {"pattern": "senders", "rate": RATE, "size": 1000},
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
    """Measures of the setting with these changes, by seed; cached where figures ask for the same."""
    key = (seeds, tuple(sorted(changes.items())))
    if key not in _KNOWN:
        experiment = Experiment.model_validate(setting(**changes))
        _KNOWN[key] = [simulate_run(Run(experiment, seed)) for seed in range(1, seeds + 1)]
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
    key: str, at: Sequence[Any], curves: Mapping[str, Sequence[Sequence[Row]]], columns: Sequence[str]
) -> list[dict[str, object]]:
    """Rows of a figure's CSV: mean and standard deviation of some columns, by curve and x."""
    return [
        {"curve": name, key: x, "seeds": len(rows)}
        | {column: mean(rows, column) for column in columns}
        | {f"{column}_sd": spread(rows, column) for column in columns}
        for name, found in curves.items()
        for x, rows in zip(at, found, strict=True)
    ]


def turning(at: Sequence[float], values: Sequence[float], reached: Callable[[float], bool]) -> float:
    """The first x whose value is reached; NaN: none."""
    return next((x for x, value in zip(at, values, strict=True) if reached(value)), float("nan"))

"""What the authors of INT-label measured: the values behind their figures, beside ours.

They were published with the prototype (graytower/INT_LABEL, commit d11eeb2, `Experiment result`) and are in
docs/images/label/authors.csv: figure of the journal, series, x, value. x is the traffic of both senders in
kB/s (6), T in ms (7 and 8, 10, 12), T_i / T (9), the number of the telemetry interval (11), the share of lost
packets (13), the interval of probes in ms (14), labels of a packet (17), k (20, 21). Figures 15, 16, 18, 19
and 22 have none.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

PATH = Path(__file__).parents[2] / "docs" / "images" / "label" / "authors.csv"
LETTERS = {"Base A": "A", "Base B": "B", "Pro, one bit": "Pro"}
"""Our names of curves, and theirs."""
Series = dict[float, float]
"""Value by x."""


@cache
def _all() -> Mapping[tuple[str, str], Series]:
    found: dict[tuple[str, str], Series] = {}
    with PATH.open(newline="") as file:
        for row in csv.DictReader(file):
            found.setdefault((row["figure"], row["series"]), {})[float(row["x"])] = float(row["value"])
    return found


def authors(figure: int, name: str, suffix: str = "") -> Series:
    """Their series of one of our curves, by x in rising order; empty if they have none."""
    found = _all().get((str(figure), LETTERS.get(name, name) + suffix), {})
    return dict(sorted(found.items()))


def of(figure: int, suffix: str = "") -> Callable[[str], Series]:
    """The authors' series of a figure, by curve."""
    return lambda name: authors(figure, name, suffix)


def sending_time() -> float:
    """Seconds that one packet took one of their processes, 71.5 ms.

    The published `topology/clos.py` starts 20 processes on a server, which send by Scapy without a pause. The
    traffic of Fig. 6 rises in even steps to its default at the 20th: a step is one process on each of both
    senders, in kB/s of frames of 1027.71 B (`Experiment result/Fig.3/send`).
    """
    rates = list(authors(6, "Base A", "_coverage"))
    step = (rates[24] - rates[4]) / 20
    return 2 * 1.02771 / step


def beside(axes: Any, found: Series, color: str, scale: float = 1.0) -> None:
    """Draw a series of the authors: open markers, without a line or a label."""
    axes.plot(
        list(found), [scale * value for value in found.values()], "D", color=color, markersize=5,
        markerfacecolor="none", markeredgewidth=1, zorder=3,
    )  # fmt: skip


def apart(found: Series, at: Sequence[float], ours: Sequence[float]) -> float:
    """Largest difference between them and us, where both have an x."""
    return max(abs(value - found[x]) for x, value in zip(at, ours, strict=True) if x in found)

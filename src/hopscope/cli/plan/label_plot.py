"""The picture of `hopscope plan label --plot`. Needs matplotlib, an extra."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...fabric.labelling.theory.plan import LabelPlan, choose, coverages
from ...fabric.labelling.theory.plan_check import PlanCheck
from .plot import canvas


def save(path: Path, plan: LabelPlan, found: PlanCheck | None) -> None:
    """Write the plan as one picture in the format that the file's suffix names. Raises HopscopeError."""
    figure = canvas(path, 2)
    demand, best = plan.demand, plan.best
    longest = max(1.5 * demand.telemetry, 1.2 * best.interval)
    intervals = np.linspace(longest / 300, longest, 300)
    coverage, cost = figure.subplots(1, 2)
    coverage.plot(1e3 * intervals, 100 * coverages(intervals, demand), label="theory, slowest port")
    coverage.axhline(100 * demand.coverage, color="grey", linewidth=0.8, label="required")
    coverage.plot(1e3 * best.interval, 100 * best.coverage, "ko", label="chosen")
    if found is not None and found.slowest is not None:
        coverage.plot(1e3 * best.interval, 100 * found.slowest, "rx", label="simulated, slowest port")
    coverage.set_ylabel("ports updated in an interval [%]")
    coverage.set_title(f"coverage at {demand.resolution:g}/s, {demand.rate / 1e6:g} Mbit/s", fontsize=10)
    coverage.set_ylim(bottom=100 * float(coverages([1.2 * demand.telemetry], demand)[0]), top=101)
    coverage.set_xlim(0, 1e3 * longest)
    coarse = intervals[intervals > longest / 30][::8]
    overheads = [100 * choose(float(interval), 0, demand).overhead for interval in coarse]
    cost.plot(1e3 * coarse, overheads, label="labels, share of traffic")
    cost.plot(
        1e3 * coarse, [100 * choose(float(interval), 0, demand).labelled for interval in coarse], "--",
        label="packets with labels",
    )  # fmt: skip
    cost.axvline(1e3 * best.interval, color="k", linewidth=0.8)
    cost.set_yscale("log")
    cost.yaxis.set_major_formatter("{x:g}")
    cost.set_ylabel("share [%]")
    cost.set_title(f"cost on a path of {demand.hops} switches, {demand.algorithm}", fontsize=10)
    for axes in (coverage, cost):
        axes.set_xlabel("labelling interval [ms]")
        axes.grid(True, alpha=0.3)
        axes.legend(fontsize=8)
    figure.savefig(path, dpi=120)

"""What `hopscope plan label` shows: text, and a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console

from ...fabric.labelling.theory.plan import LabelPlan, choose, coverages
from ...fabric.labelling.theory.plan_check import PlanCheck
from .drawing import percent, picture, table

NOTHING = "–"
"""Shown without a measurement."""


def show(plan: LabelPlan, found: PlanCheck | None, why: str = "") -> None:
    """Print a plan and its simulation, or `why` it was not simulated."""
    console = Console(highlight=False)
    demand, best = plan.demand, plan.best
    console.print(
        f"label every {time(best.interval)}: {percent(demand.coverage)} of ports updated "
        f"{demand.resolution:g} times per second",
        soft_wrap=True,
    )
    heads = ("coverage", "interval", "ratio", "labelled", "labels each", "overhead", "labels/s")
    rows = [
        (
            percent(choice.target), time(choice.interval), f"{demand.telemetry / choice.interval:.2f}",
            _share(choice.labelled), f"{choice.labels:.2f}", _share(choice.overhead),
            f"{choice.port_labels:.3g}",
        )
        for choice in plan.choices
    ]  # fmt: skip
    table(console, heads, rows, left=0, best=plan.choices.index(best))
    console.print(
        f"ratio: telemetry interval over labelling interval; labelled: share of the packets of a path of "
        f"{demand.hops} switches\nthat end with labels, each an export; labels/s: of the port with "
        f"{demand.rate / 1e6:g} Mbit/s, a packet every {time(demand.gap)}",
        style="dim", soft_wrap=True,
    )  # fmt: skip
    if plan.delay:
        console.print(f"mean age of a label at the last hop: {time(plan.delay)}", style="dim")
    if found is not None:
        console.print()
        _simulated(console, plan, found)
    elif why:
        console.print()
        console.print(f"not simulated: {why}", soft_wrap=True)


def _simulated(console: Console, plan: LabelPlan, found: PlanCheck) -> None:
    console.print(
        f"simulated: {found.topology}, {found.ports} ports with traffic, {found.seconds:g} s, every "
        f"{time(plan.best.interval)}",
        soft_wrap=True,
    )
    rows = (
        ("coverage of the slowest port", percent(plan.best.coverage), _known(found.slowest, percent)),
        ("coverage", "", _known(found.coverage, percent)),
        ("packets with labels", _share(found.labelled_theory), _known(found.labelled, _share)),
        ("labels each", f"{found.labels_theory:.2f}", _known(found.labels, "{:.2f}".format)),
        ("overhead", "", _known(found.overhead, _share)),
        ("between updates of a port", "", _known(found.resolution, time)),
        ("label to controller", "", _known(found.delay, time)),
        ("exports per second", "", f"{found.exports:,.0f}"),
    )
    table(console, ("", "theory", "simulated"), rows)
    if found.coverage is None:
        console.print("nothing to measure: no port sent traffic; increase --simulate", style="bold")
    elif found.coverage < plan.demand.coverage:
        apart = plan.demand.path_skew
        if apart > plan.best.interval:
            reason = (
                f"labels on the longest paths arrive {time(apart)} later than those on the shortest, which "
                "overtake them: ports with little traffic on short paths are covered worse than in theory"
            )
        else:
            reason = "its traffic or paths vary more than theory assumes"
        console.print(
            f"the simulation misses the required coverage: {reason}; increase --coverage, or try a "
            "shorter interval in `hopscope label run`",
            style="bold", soft_wrap=True,
        )  # fmt: skip


def _share(share: float) -> str:
    return f"{100 * share:.3g} %"


def _known(value: float | None, text: Callable[[float], str]) -> str:
    return NOTHING if value is None else text(value)


def time(seconds: float) -> str:
    """A time with a unit."""
    for step, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= step:
            return f"{seconds / step:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def save(path: Path, plan: LabelPlan, found: PlanCheck | None) -> None:
    """Write the plan as one picture in the format that the file's suffix names. Raises HopscopeError."""
    demand, best = plan.demand, plan.best
    longest = max(1.5 * demand.telemetry, 1.2 * best.interval)
    intervals = np.linspace(longest / 300, longest, 300)
    with picture(path, 2) as (coverage, cost):
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
            axes.legend(fontsize=8)

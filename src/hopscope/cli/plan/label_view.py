"""Output of `hopscope plan label`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ...fabric.labelling.theory.plan import LabelPlan
from ...fabric.labelling.theory.plan_check import PlanCheck
from .view import percent

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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("coverage", "interval", "ratio", "labelled", "labels each", "overhead", "labels/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for choice in plan.choices:
        table.add_row(
            percent(choice.target), time(choice.interval), f"{demand.telemetry / choice.interval:.2f}",
            f"{100 * choice.labelled:.3g} %", f"{choice.labels:.2f}", f"{100 * choice.overhead:.3g} %",
            f"{choice.port_labels:.3g}", style="bold" if choice is best else None,
        )  # fmt: skip
    console.print(table)
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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("", "theory", "simulated"):
        table.add_column(head, justify="left" if not head else "right", no_wrap=True)
    table.add_row("coverage of the slowest port", percent(plan.best.coverage), _percent(found.slowest))
    table.add_row("coverage", "", _percent(found.coverage))
    table.add_row("packets with labels", _share(found.labelled_theory), _share(found.labelled))
    table.add_row("labels each", f"{found.labels_theory:.2f}", _known(found.labels, "{:.2f}"))
    table.add_row("overhead", "", _share(found.overhead))
    table.add_row(
        "between updates of a port", "", NOTHING if found.resolution is None else time(found.resolution)
    )
    table.add_row("label to controller", "", NOTHING if found.delay is None else time(found.delay))
    table.add_row("exports per second", "", f"{found.exports:,.0f}")
    console.print(table)
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


def _percent(share: float | None) -> str:
    return NOTHING if share is None else percent(share)


def _share(share: float | None) -> str:
    return NOTHING if share is None else f"{100 * share:.3g} %"


def _known(value: float | None, form: str) -> str:
    return NOTHING if value is None else form.format(value)


def time(seconds: float) -> str:
    """A time with a unit."""
    for step, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= step:
            return f"{seconds / step:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"

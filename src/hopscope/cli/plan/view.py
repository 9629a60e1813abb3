"""Output of `hopscope plan direct`, and what all plans print: tables, charts of block characters, units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ...direct.plan import NetworkPlan, StorePlan
from ...direct.theory import outcomes
from ...present.units import size

WIDTH = 40
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = "▁▂▃▄▅▆▇█"


def show(store: StorePlan | None, network: NetworkPlan | None, total: float | None) -> None:
    """Print the plans; `total`: reports per second of all switches, if known."""
    console = Console(highlight=False)
    if store is not None:
        _store(console, store, total)
    if network is not None:
        if store is not None:
            console.print()
        _network(console, network)


def _store(console: Console, plan: StorePlan, total: float | None) -> None:
    best = plan.best
    which = "the oldest" if plan.oldest else "on average"
    console.print(
        f"{count(plan.flows)} flows of {plan.data_bytes} B, found with {percent(plan.success)} {which}: "
        f"{size(best.memory_bytes)}, {best.copies} {'copy' if best.copies == 1 else 'copies'}, checksum of "
        f"{best.checksum_bits} bits",
        soft_wrap=True,
    )
    heads = ("copies", "memory", "per flow", "found", "oldest", "wrong", "lives for", "half")
    rows = [
        (
            str(choice.copies), size(choice.memory_bytes), size(choice.memory_bytes / plan.flows),
            percent(choice.found), percent(choice.found_oldest),
            f"{max(choice.wrong, choice.wrong_stranger):.1e}", _life(choice.survives, total),
            _life(choice.half_life, total),
        )
        for choice in plan.choices
    ]  # fmt: skip
    table(console, heads, rows, left=0, best=plan.choices.index(best))
    notes = [
        f"lives for: until it is found with {percent(plan.success)} only, half: with 50 %; "
        + ("at this rate" if total else "in later flows (--rate gives the time)"),
        f"store: key-write,slots={best.slots},data_bytes={plan.data_bytes},"
        f"checksum_bits={best.checksum_bits},copies={best.copies}",
    ]
    if best.stores > 1:
        notes.append(f"{best.stores} stores of that many slots in total: one has at most 2^32")
    for note in notes:
        console.print(note, style="dim", soft_wrap=True)
    console.print("\nmemory")
    bars(
        console,
        [(f"{choice.copies}", choice.memory_bytes, size(choice.memory_bytes)) for choice in plan.choices],
    )
    ages = np.linspace(0, 3 * best.half_life / best.slots, WIDTH)
    found = outcomes(ages, best.copies, best.checksum_bits).correct
    console.print(f"\nfound, by flows reported later, with {best.copies} copies")
    console.print(f"  {sparkline(found)}  0 to {count(3 * best.half_life)} later flows")


def _network(console: Console, plan: NetworkPlan) -> None:
    console.print(
        f"{plan.switches:,} switches of {count(plan.rate)} reports/s: {count(plan.total)} reports/s",
        soft_wrap=True,
    )
    rows = [
        (
            load.primitive, load.about, f"{load.collectors:,}",
            *(f"{count(value)}/s" for value in (load.reports, load.by_messages, load.by_bytes)),
        )
        for load in plan.loads
    ]  # fmt: skip
    heads = ("primitive", "", "collectors", "capacity", "by messages", "by bytes")
    table(console, heads, [*rows, ("CPU", "cores", f"{plan.cores:,}", f"{count(plan.core_rate)}/s")], left=2)
    console.print("\ncollectors")
    bars(console, [(load.primitive, load.collectors, f"{load.collectors:,}") for load in plan.loads])


def bars(console: Console, rows: Sequence[tuple[str, float, str]]) -> None:
    """One bar per row of (name, length, text after the bar)."""
    most = max(value for _, value, _ in rows)
    names = max(len(name) for name, _, _ in rows)
    for name, value, text in rows:
        eighths = max(1, round(value / most * WIDTH * 8))
        bar = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        console.print(Text.assemble(f"  {name:<{names}} ", (bar, "cyan"), f" {text}"))


def sparkline(values: npt.NDArray[np.float64]) -> str:
    """Values from 0 to 1 as one row of blocks."""
    return "".join(_LEVELS[min(7, int(value * 8))] for value in values)


def count(value: float) -> str:
    """A count as text, such as 100 M, 1.9 G or 12,345."""
    return _scaled(value, ((1e12, "T"), (1e9, "G"), (1e6, "M"))) or f"{value:,.0f}"


def percent(value: float) -> str:
    """A probability, with enough digits to distinguish it from 1."""
    lost = 1 - value
    digits = 1 if lost >= 0.01 or lost <= 0 else min(10, int(-np.log10(lost)))
    return f"{100 * value:.{digits}f}".rstrip("0").rstrip(".") + " %"


def table(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: int = 1,
    best: int | None = None,
) -> None:
    """Print rows under heads, row `best` in bold; the first `left` columns are aligned to the left."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for at, head in enumerate(heads):
        made.add_column(head, justify="left" if at < left else "right", no_wrap=True)
    for at, row in enumerate(rows):
        made.add_row(*row, style="bold" if at == best else None)
    console.print(made)


def share(value: float) -> str:
    """A share as percentage."""
    percentage = 100 * value
    return f"{percentage:,.0f} %" if percentage >= 100 else f"{percentage:.3g} %"


def bits(value: float) -> str:
    """A rate in bit/s with its unit."""
    steps = ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"))
    return _scaled(value, steps) or f"{value:.3g} bit/s"


def _scaled(value: float, steps: Sequence[tuple[float, str]]) -> str:
    """A value in the first unit that it reaches when rounded to three digits; empty if it reaches none."""
    for step, unit in steps:
        if value >= 0.9995 * step:
            return f"{value / step:.3g} {unit}"
    return ""


def _life(flows: int, total: float | None) -> str:
    if total is None:
        return count(flows)
    seconds = flows / total
    for step, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= step:
            return f"{seconds / step:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"

"""What `hopscope plan direct` shows: text, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ...direct.plan import NetworkPlan, StorePlan
from ...direct.theory import average, outcomes
from ...present.units import size
from .drawing import WIDTH, bars, count, percent, picture, sparkline, table


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


def _life(flows: int, total: float | None) -> str:
    if total is None:
        return count(flows)
    seconds = flows / total
    for step, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= step:
            return f"{seconds / step:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def save(path: Path, store: StorePlan | None, network: NetworkPlan | None) -> None:
    """Write the plans as one picture in the format that the file's suffix names. Raises HopscopeError."""
    with picture(path, (store is not None) + (network is not None)) as panels:
        if store is not None:
            _draw_store(panels[0], store)
        if network is not None:
            _draw_network(panels[-1], network)


def _draw_store(axes: Any, plan: StorePlan) -> None:
    memories = plan.best.memory_bytes * np.geomspace(1 / 64, 64, 120)
    for choice in plan.choices:
        load = plan.flows * choice.slot_bytes / memories
        found = average(load, choice.copies, choice.checksum_bits).correct
        axes.plot(memories / 2**30, 100 * found, label=f"N = {choice.copies}")
    axes.plot(plan.best.memory_bytes / 2**30, 100 * plan.best.found, "ko", label="chosen")
    axes.set_xscale("log")
    axes.set_xlabel("memory [GiB]")
    axes.set_ylabel("flows found, mean [%]")
    axes.set_title(f"Key-Write, {count(plan.flows)} flows of {plan.data_bytes} B")
    axes.legend()


def _draw_network(axes: Any, plan: NetworkPlan) -> None:
    switches = np.unique(np.geomspace(1, max(10, plan.switches * 4), 80).round())
    for load, style in zip(plan.loads, ("-", "-", "-", (0, (1, 2))), strict=True):  # two may coincide
        need = np.ceil(switches * plan.rate / load.reports)
        axes.plot(switches, need, linestyle=style, linewidth=2, label=load.primitive)
    axes.plot(switches, np.ceil(switches * plan.rate / plan.core_rate), "k--", label="CPU cores")
    axes.axvline(plan.switches, color="grey", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:,g}")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.set_xlabel("switches")
    axes.set_ylabel("collectors")
    axes.set_title(f"{count(plan.rate)} reports/s from each switch")
    axes.legend()

"""What `hopscope plan int` shows: text, and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ...fabric.overhead import IntPlan, LinkOverhead, wire_bytes
from .drawing import bars, bits, count, picture, share, table

MAX_LINKS = 8
"""Most rows of the table of links."""
TCP_IPV4 = 20 + 20
"""Bytes of an IPv4 and a TCP header."""


def show(plan: IntPlan) -> None:
    """Print a plan."""
    console = Console(highlight=False)
    demand = plan.demand
    each = f"{plan.hop} B per hop" if plan.hop else "no metadata"
    console.print(
        f"INT-{demand.mode.upper()}, Report {demand.version}, {demand.hops} hops: "
        + (f"{plan.fixed} B of headers and {each} in a packet" if plan.fixed else "packets are unchanged"),
        soft_wrap=True,
    )
    if plan.inserted:
        _links(console, plan)
    rows = [
        ("packets that enter", f"{count(demand.packets)}/s", bits(demand.packets * demand.wire_bytes * 8)),
        ("reports", f"{count(plan.reports)}/s", bits(plan.report_bits)),
    ]
    console.print()
    table(console, ("", "rate", "on the wire"), rows)
    console.print()
    for note in _notes(plan):
        console.print(note, style="dim", soft_wrap=True)


def _links(console: Console, plan: IntPlan) -> None:
    links = shown(plan.links)
    table(
        console,
        ("after hop", "INT", "traffic added", "largest packet"),
        [
            (
                str(link.hop), f"{link.inserted} B", share(link.traffic),
                f"{link.largest} B" if link.largest > 0 else "none",
            )
            for link in links
        ],
    )  # fmt: skip
    if plan.hop:
        console.print("\ntraffic added")
        bars(console, [(f"hop {link.hop}", link.traffic, share(link.traffic)) for link in links])


def shown(links: tuple[LinkOverhead, ...]) -> list[LinkOverhead]:
    """Up to MAX_LINKS links, evenly spread, with the first and the last."""
    if len(links) <= MAX_LINKS:
        return list(links)
    last = len(links) - 1
    return [links[round(i * last / (MAX_LINKS - 1))] for i in range(MAX_LINKS)]


def _notes(plan: IntPlan) -> list[str]:
    demand = plan.demand
    notes = [f"fields of a hop (instructions 0x{plan.instructions:04x}): {', '.join(plan.fields)}"]
    if plan.inserted:
        largest = plan.links[-1].largest
        notes.append(
            f"MTU: links need {demand.mtu + plan.inserted} B for packets of {demand.mtu} B; "
            + (
                f"otherwise hosts send at most {largest} B (TCP MSS {largest - TCP_IPV4} over IPv4)"
                if largest > TCP_IPV4
                else f"an MTU of {demand.mtu} B is too small for INT over so many hops"
            )
        )
    notes.append(
        f"a report has {plan.report_hops} {'hop' if plan.report_hops == 1 else 'hops'}, {demand.copied} B of "
        f"the packet, and takes {plan.report_bytes:.0f} B on the wire"
    )
    if plan.reports >= 1:
        rate = count(plan.reports).replace(",", "").replace(" ", "")
        notes.append(f"collectors: hopscope plan cluster --reports {rate}/s --hops {plan.report_hops}")
    return notes


_SIZES = np.unique(np.geomspace(64, 9000, 60).round())


def save(path: Path, plan: IntPlan) -> None:
    """Write the growth of traffic by packet size and by hop as one picture. Raises HopscopeError."""
    with picture(path, 2) as (sizes, hops):
        _by_size(sizes, plan)
        _by_hop(hops, plan)
        for panel in (sizes, hops):
            panel.set_ylabel("traffic added by INT [%]")


def _by_size(axes: Any, plan: IntPlan) -> None:
    demand = plan.demand
    for hop in sorted({1, (demand.hops + 1) // 2, demand.hops}):
        inserted = plan.links[hop - 1].inserted
        growth = [100 * inserted / demand.sample / wire_bytes(size) for size in _SIZES]
        axes.plot(_SIZES, growth, label=f"after hop {hop}")
    axes.plot(demand.size, 100 * plan.links[-1].traffic, "ko", label="this plan")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("IP bytes of a packet")
    axes.set_title(f"INT-{demand.mode.upper()}, one of {demand.sample:g} packets", fontsize=10)
    axes.legend(fontsize=8)


def _by_hop(axes: Any, plan: IntPlan) -> None:
    axes.bar([link.hop for link in plan.links], [100 * link.traffic for link in plan.links], color="tab:cyan")
    axes.axhline(100 * plan.growth, color="black", linewidth=0.8, linestyle="--", label="mean of all links")
    axes.set_xlabel("after hop")
    axes.set_title(f"packets of {plan.demand.size:g} B", fontsize=10)
    axes.legend(fontsize=8)

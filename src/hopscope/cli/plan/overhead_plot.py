"""The picture of `hopscope plan int --plot`. Needs matplotlib, an extra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ...fabric.overhead import IntPlan, wire_bytes
from .plot import canvas

_SIZES = np.unique(np.geomspace(64, 9000, 60).round())


def save(path: Path, plan: IntPlan) -> None:
    """Write the growth of traffic by packet size and by hop as one picture. Raises HopscopeError."""
    figure = canvas(path, 2)
    sizes, hops = figure.subplots(1, 2)
    _by_size(sizes, plan)
    _by_hop(hops, plan)
    for panel in (sizes, hops):
        panel.set_ylabel("traffic added by INT [%]")
        panel.grid(True, which="major", alpha=0.3)
    figure.savefig(path, dpi=120)


def _by_size(axes: Any, plan: IntPlan) -> None:
    demand = plan.demand
    for count in sorted({1, (demand.hops + 1) // 2, demand.hops}):
        inserted = plan.links[count - 1].inserted
        growth = [100 * inserted / demand.sample / wire_bytes(size) for size in _SIZES]
        axes.plot(_SIZES, growth, label=f"after hop {count}")
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

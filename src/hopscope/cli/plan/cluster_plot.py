"""The picture of `hopscope plan cluster --plot`. Needs matplotlib, an extra."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...cluster.planning.failures import ACTIONS, HASHES, FailureReport, times
from ...cluster.planning.sizing import ClusterPlan, ReportPath, plan_cluster
from .plot import canvas

_LINES: dict[ReportPath, str] = {"udp": "-", "ring": "--", "trains": ":", "xdp": "-."}
"""Styles by which curves are seen through each other: often one resource decides for several paths."""


def save(path: Path, plan: ClusterPlan, found: FailureReport | None) -> None:
    """Write members by rate, and the simulation, as one picture. Raises HopscopeError."""
    figure = canvas(path, 1 if found is None else 3)
    panels = figure.subplots(1, 1 if found is None else 3, squeeze=False)[0]
    _members(panels[0], plan)
    if found is not None:
        _moved(panels[1], found)
        _times(panels[2], found)
    for panel in panels:
        panel.grid(True, which="major", alpha=0.3)
    figure.savefig(path, dpi=120)


def _members(axes: Any, plan: ClusterPlan) -> None:
    demand = plan.demand
    rates = np.geomspace(demand.reports / 30, demand.reports * 3, 60)
    events = demand.events / demand.reports
    for kind, style in _LINES.items():
        needed = [
            plan_cluster(replace(demand, reports=rate, events=rate * events, path=kind, members=None)).members
            for rate in rates
        ]
        axes.plot(rates / 1e6, needed, style, label=kind, linewidth=2.5 if kind == demand.path else 1.5)
    axes.plot(demand.reports / 1e6, plan.members, "ko", label="this plan")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("reports [M/s]")
    axes.set_ylabel(f"members of {demand.cores} cores")
    axes.set_title(
        f"{demand.hops:g} hops, {demand.down} down, {100 * demand.headroom:.0f} % free", fontsize=10
    )
    axes.legend(fontsize=8)


def _moved(axes: Any, found: FailureReport) -> None:
    width = 0.25
    for at, kind in enumerate(HASHES):
        each = [next(m for m in found.moved if (m.action, m.hash) == (action, kind)) for action in ACTIONS]
        place = np.arange(len(ACTIONS)) + (at - 1) * width
        axes.bar(place, [100 * m.share.mean for m in each], width, label=kind)
        axes.plot(place, [100 * m.expected for m in each], "k_", markersize=12)
    axes.set_xticks(range(len(ACTIONS)), ACTIONS)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_ylabel("sources that move [%]")
    axes.set_title(f"simulated, {found.model.members} members; lines: closed form", fontsize=10)
    axes.legend(fontsize=8)


def _times(axes: Any, found: FailureReport) -> None:
    random = np.random.default_rng(found.model.seed)
    for what, values in times(found.model, "kill", random).items():
        axes.plot(
            np.sort(values), 100 * (np.arange(len(values)) + 1) / len(values), label=what.replace("_", " ")
        )
    axes.set_xlabel("time since a member was killed [s]")
    axes.set_ylabel("share of the failures [%]")
    axes.set_xlim(left=0)
    axes.set_title("simulated", fontsize=10)
    axes.legend(fontsize=8)

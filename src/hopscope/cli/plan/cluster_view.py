"""What `hopscope plan cluster` shows: text, and a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from ...cluster.planning.failures import ACTIONS, HASHES, FailureReport, times
from ...cluster.planning.sizing import ClusterPlan, ReportPath, plan_cluster
from ...present.units import size
from .drawing import bars, bits, count, picture, share, table
from .label_view import time


def show(plan: ClusterPlan, found: FailureReport | None) -> None:
    """Print a plan, and the simulation of its failures."""
    console = Console(highlight=False)
    demand = plan.demand
    console.print(
        f"{count(demand.reports)} reports/s, {count(demand.events)} events/s: {plan.members} members of "
        f"{demand.cores} cores; {demand.down} of them may be down",
        soft_wrap=True,
    )
    table(console, ("", "a member", f"all {plan.members}"), _rows(plan))
    console.print("\nmembers that each resource needs")
    bars(console, [(bound.what, bound.members, f"{bound.members:.3g}") for bound in plan.bounds])
    console.print("\ncores in use")
    bars(console, [(part.what, part.cores, f"{part.cores:.3g}") for part in plan.parts])
    console.print()
    for note in plan.notes:
        console.print(note, style="dim", soft_wrap=True)
    if found is not None:
        console.print()
        _simulated(console, found)


def _rows(plan: ClusterPlan) -> list[tuple[str, str, str]]:
    demand = plan.demand
    rows = [
        ("reports", f"{count(plan.member_reports)}/s", f"{count(demand.reports)}/s"),
        ("events", f"{count(plan.member_events)}/s", f"{count(demand.events)}/s"),
        ("processors, all up", share(plan.load_all), ""),
        (f"processors, {demand.down} down", share(plan.load), ""),
        ("network in", bits(plan.member_in), bits(plan.member_in * plan.up)),
        ("network out", bits(plan.member_out), bits(plan.member_out * plan.up)),
        ("memory", size(plan.member_memory), size(plan.member_memory * plan.members)),
        ("local disk", size(plan.member_disk), size(plan.member_disk * plan.members)),
        ("NATS servers", "", f"{plan.nats_servers}"),
        ("NATS, to servers", _rate(plan.nats_bytes / plan.members), _rate(plan.nats_bytes)),
        ("NATS, between them", "", _rate(plan.nats_traffic)),
    ]
    if demand.stream:
        rows.append(("NATS, stream, an hour", "", size(plan.nats_disk_hour)))
    if demand.retention_days:
        rows += [
            ("PostgreSQL commits", f"{plan.commits / plan.members:.3g}/s", f"{plan.commits:.3g}/s"),
            ("S3, a day", size(plan.s3_day / plan.members), size(plan.s3_day)),
            (f"S3, {demand.retention_days:g} days", "", size(plan.s3_total)),
        ]
    return rows


def _simulated(console: Console, found: FailureReport) -> None:
    model = found.model
    console.print(
        f"simulated: {model.members} members, {model.sources:,} sources, {model.rounds:,} changes of each "
        f"kind, seed {model.seed}",
        soft_wrap=True,
    )
    table(
        console,
        ("change", "hash", "moved", "expected", "ideal", "of others", "fullest"),
        [
            (
                each.action, each.hash, share(each.share.mean), share(each.expected), share(each.ideal),
                share(each.others.mean), f"{each.fullest.mean:.2f}",
            )
            for each in found.moved
        ],
        left=2,
    )  # fmt: skip
    console.print(
        "moved: share of all sources; of others: share moved from members that stay; fullest: sources of the "
        "fullest member, relative to the mean",
        style="dim", soft_wrap=True,
    )  # fmt: skip
    console.print()
    table(
        console,
        ("change", "until", "mean", "expected", "median", "99 %", "most"),
        [
            (each.action, each.what.replace("_", " "), *map(time, (
                each.seconds.mean, each.expected, each.seconds.median, each.seconds.p99, each.seconds.most,
            )))
            for each in found.taken
        ],
        left=2,
    )  # fmt: skip
    console.print(
        f"kill: probes every {time(model.probe)}, {model.probes} missed; heartbeat {time(model.heartbeat)}, "
        f"gone after {time(model.member)}; starts again after {time(model.restart)}, ready "
        f"{time(model.start[0])} to {time(model.start[1])} later; commits every {time(model.every)}",
        style="dim", soft_wrap=True,
    )  # fmt: skip


def _rate(value: float) -> str:
    return f"{size(value)}/s"


_LINES: dict[ReportPath, str] = {"udp": "-", "ring": "--", "trains": ":", "xdp": "-."}
"""Styles by which curves are seen through each other: often one resource decides for several paths."""


def save(path: Path, plan: ClusterPlan, found: FailureReport | None) -> None:
    """Write members by rate, and the simulation, as one picture. Raises HopscopeError."""
    with picture(path, 1 if found is None else 3) as panels:
        _members(panels[0], plan)
        if found is not None:
            _moved(panels[1], found)
            _times(panels[2], found)


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

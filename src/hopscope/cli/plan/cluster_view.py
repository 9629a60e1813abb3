"""Output of `hopscope plan cluster`."""

from __future__ import annotations

from rich.console import Console

from ...cluster.planning.failures import FailureReport
from ...cluster.planning.sizing import ClusterPlan
from ...present.units import size
from .label_view import time
from .view import bars, bits, count, share, table


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

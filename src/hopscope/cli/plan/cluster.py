"""`hopscope plan cluster`: members, NATS, PostgreSQL and S3 for a rate of reports, and what failures do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast, get_args

from ...base.errors import HopscopeError
from ...base.quantities import bit_rate, days, per_second
from ..options.declare import Options, option
from ..options.network import SeedOption
from ..output.printer import Summary
from .options import PlanOutput

if TYPE_CHECKING:
    from ...cluster.planning.failures import FailureModel
    from ...cluster.planning.sizing import ClusterDemand, ClusterPlan


@dataclass(frozen=True)
class DemandOptions(Options):
    """What the cluster must take."""

    reports: str = option("--reports RATE", "Reports of all switches, such as 50M/s.", "1M/s")
    events: str | None = option(
        "--events RATE", "Events that these reports cause.", show_default="1 % of reports"
    )
    retention: str = option("--retention TIME", "Time that the lake keeps them; 0: no lake.", "90d")
    local: str = option("--local TIME", "Time that members keep them (history.keep_days).", "7d")
    hops: float = option("--hops HOPS", "Hops of a report, with 8 fields each.", 3)
    flows: float = option("--flows COUNT", "Flows that are active at a time.", 1e6)
    path: str = option(
        "--path PATH", "How reports arrive: udp (one in a datagram), trains, ring or xdp.", "udp"
    )
    queries: str = option("--queries RATE", "Queries to all members.", "1/s")


@dataclass(frozen=True)
class MachineOptions(Options):
    """The machines."""

    title: ClassVar = "Members"

    members: int | None = option(
        "--members COUNT", "Number of members.", show_default="as many as are needed"
    )
    cores: int = option("--cores COUNT", "Cores per member.", 16)
    headroom: float = option("--headroom SHARE", "Share of cores and network cards that stays free.", 0.5)
    down: int = option("--down COUNT", "Members that may be down with this headroom left.", 1)
    line_rate: str = option("--line-rate BITS", "Rate of a member's network card.", "25G")
    shards: int = option("--shards COUNT", "Shards of a member's events.", 1)
    replicas: int = option("--replicas COUNT", "NATS servers with a copy: 1, 3 or 5.", 3)
    stream: bool = option("--stream", "Events also go to the cluster's stream.", False)
    every: float = option("--every SECONDS", "Time between commits (lake.every_seconds).", 30.0)
    cost: list[str] | None = option(
        "--cost NAME=VALUE",
        "A cost that you have measured, such as udp_3=900; JSON names all costs. Repeatable.",
    )


@dataclass(frozen=True)
class SimulationOptions(Options):
    """Members that are killed, drained and added: a simulation, not a measurement."""

    title: ClassVar = "Simulation"

    simulate: bool = option("--simulate", "Simulate failures of this cluster.", False)
    sources: int = option("--sources COUNT", "Addresses that send reports.", 10_000)
    rounds: int = option("--rounds COUNT", "Failures of each kind.", 1000)
    seed: SeedOption = 1


def cluster(
    demand: DemandOptions, machines: MachineOptions, simulation: SimulationOptions, output: PlanOutput
) -> None:
    """Members of a cluster for a rate of reports and events; NATS, PostgreSQL, S3, traffic, memory and disk.

    Computed from measured costs of one core, which are listed with --format json. --simulate draws failures.
    """
    from dataclasses import asdict

    from ...cluster.planning.failures import simulate
    from ...cluster.planning.sizing import COSTS, plan_cluster

    plan = plan_cluster(_demand(demand, machines))
    found = simulate(_model(plan, simulation)) if simulation.simulate else None
    if output.plot is not None:
        from .cluster_view import save

        save(output.plot, plan, found)
    if output.form is Summary.JSON:
        costs = {
            name: asdict(cost) | ({"value": plan.demand.cost(name), "source": "--cost"} if given else {})
            for name, cost in COSTS.items()
            for given in [name in plan.demand.costs]
        }
        print(json.dumps(asdict(plan) | {"costs": costs, "simulated": found and asdict(found)}))
    else:
        from .cluster_view import show

        show(plan, found)


def _demand(demand: DemandOptions, machines: MachineOptions) -> ClusterDemand:
    """Raises HopscopeError."""
    from ...cluster.planning.sizing import ClusterDemand, ReportPath

    if demand.path not in get_args(ReportPath):
        raise HopscopeError(f"--path {demand.path}: expected {', '.join(get_args(ReportPath))}")
    reports = per_second("--reports", demand.reports)
    return ClusterDemand(
        reports=reports,
        events=reports / 100 if demand.events is None else per_second("--events", demand.events),
        retention_days=days("--retention", demand.retention),
        local_days=days("--local", demand.local),
        hops=demand.hops,
        flows=demand.flows,
        path=cast(ReportPath, demand.path),
        cores=machines.cores,
        headroom=machines.headroom,
        down=machines.down,
        line_rate=bit_rate("--line-rate", machines.line_rate),
        members=machines.members,
        shards=machines.shards,
        replicas=machines.replicas,
        stream=machines.stream,
        every_seconds=machines.every,
        queries=per_second("--queries", demand.queries),
        costs=dict(map(_cost, machines.cost or ())),
    )


def _model(plan: ClusterPlan, options: SimulationOptions) -> FailureModel:
    from ...cluster.planning.failures import FailureModel

    return FailureModel(
        members=plan.members, sources=options.sources, rounds=options.rounds, seed=options.seed,
        heartbeat=plan.demand.heartbeat_seconds, every=plan.demand.every_seconds,
    )  # fmt: skip


def _cost(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e15:
        raise HopscopeError(f"--cost {text}: expected NAME=VALUE, such as udp_3=900")
    return name, number

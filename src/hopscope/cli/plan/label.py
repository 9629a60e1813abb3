"""`hopscope plan label`: how often ports must label packets, and the overhead of that."""

from __future__ import annotations

import json
from typing import Annotated, cast

import typer

from ..quantities import bit_rate, per_second, seconds
from .options import JsonOption, PlotOption


def label(
    resolution: Annotated[
        str,
        typer.Option("--resolution", metavar="RATE", help="Updates per port, as 10/s."),
    ] = "10/s",
    coverage: Annotated[
        float, typer.Option("--coverage", metavar="SHARE", help="Share of active ports that reach it.")
    ] = 0.999,
    rate: Annotated[
        str,
        typer.Option(
            "--rate", metavar="BITS", help="Traffic of the least loaded port that matters, as 5Mbps."
        ),
    ] = "5Mbps",
    size: Annotated[int, typer.Option("--size", metavar="BYTES", help="Mean IP bytes of a packet.")] = 1000,
    delay: Annotated[str, typer.Option("--delay", metavar="TIME", help="Mean delay of a hop.")] = "0ms",
    jitter: Annotated[
        str | None,
        typer.Option(
            "--jitter",
            metavar="TIME",
            help="Standard deviation of the delay; default: uniform from 0 to twice the mean.",
            show_default=False,
        ),
    ] = None,
    hops: Annotated[
        int, typer.Option("--hops", metavar="COUNT", help="Switches on the longest path.")
    ] = 5,
    algorithm: Annotated[
        str, typer.Option("--algorithm", metavar="NAME", help="base-a (interval) or base-b (probability).")
    ] = "base-b",
    chance: Annotated[
        str, typer.Option("--chance", metavar="NAME", help="Probability of base-b: f1, f2, f2-listing or f3.")
    ] = "f1",
    topology: Annotated[
        str | None,
        typer.Option(
            "--topology",
            metavar="NAME",
            help="Fabric to simulate: paper (default), fat-tree:K, leaf-spine:LxS; none: theory only.",
            show_default=False,
        ),
    ] = None,
    simulated: Annotated[
        str | None,
        typer.Option(
            "--simulate", metavar="TIME", help="Simulated time; default 20s.", show_default=False
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", min=0, help="Seed of the simulation.")
    ] = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """The labelling interval for a resolution and coverage (INT-label), and its overhead.

    Theory covers the port with the least traffic. A simulation of a fabric whose ports have at least as much
    runs too, if it is quick or requested by --topology or --simulate.
    """
    from dataclasses import asdict
    from typing import get_args

    from ...base.errors import HopscopeError
    from ...fabric.labelling.theory.plan import Chance, LabelDemand, PlanError, plan_labels
    from ...fabric.labelling.theory.plan_check import check

    if algorithm not in ("base-a", "base-b"):
        raise HopscopeError(f"--algorithm {algorithm}: expected base-a or base-b")
    if chance not in get_args(Chance):
        raise HopscopeError(f"--chance {chance}: expected one of {', '.join(get_args(Chance))}")
    demand = LabelDemand(
        per_second("--resolution", resolution), coverage, bit_rate("--rate", rate), size,
        seconds("--delay", delay), None if jitter is None else seconds("--jitter", jitter), hops,
        "base-a" if algorithm == "base-a" else "base-b", cast("Chance", chance),
    )  # fmt: skip
    plan = plan_labels(demand)
    found, why = None, ""
    if topology != "none":
        try:
            found = check(plan, topology or "paper", seconds("--simulate", simulated or "20s"), seed)
        except PlanError as error:
            if topology is not None or simulated is not None:
                raise
            why = str(error)
    if plot is not None:
        from .label_plot import save

        save(plot, plan, found)
    if as_json:
        print(json.dumps(asdict(plan) | {"simulated": found and asdict(found), "not_simulated": why or None}))
    else:
        from .label_view import show

        show(plan, found, why)

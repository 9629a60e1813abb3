"""`hopscope plan label`: how often ports must label packets, and what that costs."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from .plan_options import JsonOption, PlotOption
from .quantities import bit_rate, per_second, seconds


def label(
    resolution: Annotated[
        str,
        typer.Option("--resolution", metavar="RATE", help="How often every port is to be heard of, as 10/s."),
    ] = "10/s",
    coverage: Annotated[
        float, typer.Option("--coverage", metavar="SHARE", help="Share of the ports with traffic that is.")
    ] = 0.999,
    rate: Annotated[
        str,
        typer.Option(
            "--rate", metavar="BITS", help="Traffic of the port with the least that counts, as 5Mbps."
        ),
    ] = "5Mbps",
    size: Annotated[int, typer.Option("--size", metavar="BYTES", help="IP bytes of a packet, mean.")] = 1000,
    delay: Annotated[str, typer.Option("--delay", metavar="TIME", help="Delay of a hop, mean.")] = "0ms",
    jitter: Annotated[
        str | None,
        typer.Option(
            "--jitter",
            metavar="TIME",
            help="Standard deviation of that delay; default: spread evenly from 0 to twice the mean.",
            show_default=False,
        ),
    ] = None,
    hops: Annotated[
        int, typer.Option("--hops", metavar="COUNT", help="Switches on the longest path.")
    ] = 5,
    algorithm: Annotated[
        str, typer.Option("--algorithm", metavar="NAME", help="base-a (interval) or base-b (times).")
    ] = "base-b",
    topology: Annotated[
        str,
        typer.Option(
            "--topology",
            metavar="NAME",
            help="Fabric of the simulation: paper, fat-tree:K, leaf-spine:LxS; none: theory alone.",
        ),
    ] = "paper",
    simulated: Annotated[
        str, typer.Option("--simulate", metavar="TIME", help="Simulated time.")
    ] = "20s",
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", min=0, help="Of the simulation.")
    ] = 1,
    plot: PlotOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """The labelling interval for a resolution and a coverage (INT-label), and what labels cost.

    Theory is about the port with the least traffic; a simulation of a fabric whose ports have at least as
    much stands beside it.
    """
    from dataclasses import asdict

    from ..errors import HopscopeError
    from ..fabric.labelling.plan import LabelDemand, plan_labels
    from ..fabric.labelling.plan_check import check

    if algorithm not in ("base-a", "base-b"):
        raise HopscopeError(f"--algorithm {algorithm}: expected base-a or base-b")
    demand = LabelDemand(
        per_second("--resolution", resolution), coverage, bit_rate("--rate", rate), size,
        seconds("--delay", delay), None if jitter is None else seconds("--jitter", jitter), hops,
        "base-a" if algorithm == "base-a" else "base-b",
    )  # fmt: skip
    plan = plan_labels(demand)
    found = None
    if topology != "none":
        found = check(plan, topology, seconds("--simulate", simulated), seed)
    if plot is not None:
        from .plan_label_plot import save

        save(plot, plan, found)
    if as_json:
        print(json.dumps(asdict(plan) | {"simulated": None if found is None else asdict(found)}))
    else:
        from .plan_label_view import show

        show(plan, found)

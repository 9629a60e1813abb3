"""`hopscope plan label`: how often ports must label packets, and the overhead."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast, get_args

from ...base.errors import HopscopeError
from ...base.quantities import bit_rate, per_second, seconds
from ..options.declare import Options, option
from ..options.network import SeedOption
from ..output.printer import Summary
from .options import PlanOutput

if TYPE_CHECKING:
    from ...fabric.labelling.theory.plan import LabelDemand


@dataclass(frozen=True)
class DemandOptions(Options):
    """What labelling must achieve, and for which traffic."""

    resolution: str = option("--resolution RATE", "Updates per port, such as 10/s.", "10/s")
    coverage: float = option("--coverage SHARE", "Share of active ports that reach it.", 0.999)
    rate: str = option(
        "--rate BITS", "Traffic of the least loaded port that matters, such as 5Mbps.", "5Mbps"
    )
    size: int = option("--size BYTES", "Mean IP bytes of a packet.", 1000)
    delay: str = option("--delay DURATION", "Mean delay of a hop.", "0ms")
    jitter: str | None = option(
        "--jitter DURATION", "Standard deviation of the delay; default: uniform from 0 to twice the mean."
    )
    hops: int = option("--hops COUNT", "Switches on the longest path.", 5)
    algorithm: str = option("--algorithm ALGORITHM", "base-a (interval) or base-b (probability).", "base-b")
    chance: str = option("--chance CHANCE", "Probability of base-b: f1, f2, f2-listing or f3.", "f1")

    def demand(self) -> LabelDemand:
        """The demand that these options describe, for `plan_labels`. Raises HopscopeError."""
        from ...fabric.labelling.theory.plan import Chance, LabelDemand

        if self.algorithm not in ("base-a", "base-b"):
            raise HopscopeError(f"--algorithm {self.algorithm}: expected base-a or base-b")
        if self.chance not in get_args(Chance):
            raise HopscopeError(f"--chance {self.chance}: expected one of {', '.join(get_args(Chance))}")
        jitter = None if self.jitter is None else seconds("--jitter", self.jitter)
        return LabelDemand(
            per_second("--resolution", self.resolution), self.coverage, bit_rate("--rate", self.rate),
            self.size, seconds("--delay", self.delay), jitter, self.hops,
            "base-a" if self.algorithm == "base-a" else "base-b", cast(Chance, self.chance),
        )  # fmt: skip


@dataclass(frozen=True)
class SimulationOptions(Options):
    """The simulation that checks the plan."""

    title: ClassVar = "Simulation"

    topology: str | None = option(
        "--topology TOPOLOGY",
        "Fabric to simulate: paper (default), fat-tree:K, leaf-spine:LxS, FILE.toml, or none.",
    )
    simulate: str | None = option("--simulate DURATION", "Simulated time.", show_default="20s")
    seed: SeedOption = 1


def label(options: DemandOptions, simulation: SimulationOptions, output: PlanOutput) -> None:
    """The labelling interval for a resolution and coverage (INT-label), and its overhead.

    Theory covers the port with the least traffic. A simulation of a fabric whose ports have at least as much
    also runs if it is quick, or if --topology or --simulate is given.
    """
    from dataclasses import asdict

    from ...fabric.labelling.theory.plan import PlanError, plan_labels
    from ...fabric.labelling.theory.plan_check import check

    plan = plan_labels(options.demand())
    found, why = None, ""
    topology, simulated = simulation.topology, simulation.simulate
    if topology != "none":
        try:
            duration = seconds("--simulate", simulated or "20s")
            found = check(plan, topology or "paper", duration, simulation.seed)
        except PlanError as error:
            if topology is not None or simulated is not None:
                raise
            why = str(error)
    if output.plot is not None:
        from .label_view import save

        save(output.plot, plan, found)
    if output.form is Summary.JSON:
        print(json.dumps(asdict(plan) | {"simulated": found and asdict(found), "not_simulated": why or None}))
    else:
        from .label_view import show

        show(plan, found, why)

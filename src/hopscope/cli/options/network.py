"""Options of simulated networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .declare import Options, option

TopologyOption = Annotated[
    str,
    option(
        "--topology -t TOPOLOGY", "fat-tree:K, leaf-spine:LxS[xHOSTS], paper (4-4-4), or your own, FILE.toml."
    ),
]
SeedOption = Annotated[int, option("--seed N", "Same seed, same traffic.", min=0)]


@dataclass(frozen=True)
class NetworkOptions(Options):
    """A network whose switches report."""

    title: ClassVar = "Network"

    topology: TopologyOption = "fat-tree:4"
    load: float = option("--load SHARE", "Mean load of host links, 0 to 1.", 0.35)
    rate: float = option("--rate N", "INT reports per second (sampled packets); 0: all.", 20_000, min=0)
    report_version: str = option("--report-version VERSION", "0.5, 1.0 or 2.0.", "2.0")
    seed: SeedOption = 1

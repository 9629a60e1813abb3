"""Options of simulated networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from .declare import Options, option

TopologyOption = Annotated[
    str,
    option(
        "--topology", "-t", metavar="TOPOLOGY",
        help="fat-tree:K, leaf-spine:LxS[xHOSTS], paper (4-4-4), or your own, FILE.toml.",
    ),
]  # fmt: skip
SeedOption = Annotated[int, option("--seed", metavar="N", min=0, help="Same seed, same traffic.")]


@dataclass(frozen=True)
class NetworkOptions(Options):
    """A network whose switches report."""

    title: ClassVar = "Network"

    topology: TopologyOption = "fat-tree:4"
    load: Annotated[float, option("--load", metavar="SHARE", help="Mean load of host links, 0 to 1.")] = 0.35
    rate: Annotated[
        float, option("--rate", metavar="N", min=0, help="INT reports per second (sampled packets); 0: all.")
    ] = 20_000
    report_version: Annotated[str, option("--report-version", metavar="VERSION", help="0.5, 1.0 or 2.0.")] = (
        "2.0"
    )
    seed: SeedOption = 1

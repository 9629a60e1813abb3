"""The figures of DTA and DART again: pictures, CSV files, and the papers' numbers beside ours."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from harness import (
    direct_counts,
    direct_drawn,
    direct_errors,
    direct_list_rates,
    direct_rates,
    direct_success,
)
from harness.common import Bench
from harness.figures import Sheet, chosen, make

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "images" / "direct"
PAGE = ROOT / "docs" / "guides" / "direct-theory.md"

SHARES: dict[str, Callable[[bool], Sheet]] = {
    "equations": direct_errors.equations,
    "dta8": direct_counts.dta8,
    "dta12": direct_success.dta12,
    "dta13": direct_success.dta13,
    "dta14": direct_counts.dta14,
    "dart3": direct_success.dart3,
    "dart4": direct_success.dart4,
    "dartreports": direct_drawn.dartreports,
    "dart5": direct_errors.dart5,
}
"""Figures about what is found and counted: the same on every machine."""
RATES: dict[str, Callable[[bool], Sheet]] = {
    "dta7": direct_rates.dta7,
    "dta10": direct_rates.dta10,
    "dta11": direct_rates.dta11,
    "dta14rate": direct_list_rates.dta14rate,
    "dta15": direct_list_rates.dta15,
    "dta16": direct_list_rates.dta16,
}
"""Figures about speed: they want a quiet machine."""


def arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join([*SHARES, *RATES])
    parser.add_argument("--only", metavar="NAMES", help=f"comma-separated, of {names}; or shares, rates")
    parser.add_argument("--output", type=Path, help="folder; default docs/images/direct, --quick: bench/out")


def asked(only: str | None) -> list[str]:
    """Names of the figures that were asked for."""
    if only is None:
        return [*SHARES, *RATES]
    groups = {"shares": list(SHARES), "rates": list(RATES)}
    return [name for word in only.split(",") for name in groups.get(word.strip(), [word])]


def main() -> None:
    """Make the figures and say what the papers have."""
    bench, args = Bench.start(
        "direct_figures",
        "the answers that queries find in stores of direct telemetry access, and how quickly, "
        "as in the papers' figures.",
        "networks and NICs; figures of 100 million flows, which do not fit into memory, are made at 1:10.",
        arguments,
    )
    make(bench, chosen(asked(args.only), {**SHARES, **RATES}), args.output, DOCS, PAGE)


if __name__ == "__main__":
    main()

"""The figures of DTA and DART again: pictures, CSV files, and the papers' numbers beside ours."""

from __future__ import annotations

import argparse
import time
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
from harness.figures import Sheet, keep, put_table

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


def chosen(only: str | None) -> list[str]:
    """Names of the figures that were asked for."""
    every = {**SHARES, **RATES}
    if only is None:
        return list(every)
    names: list[str] = []
    for name in only.split(","):
        names += {"shares": list(SHARES), "rates": list(RATES)}.get(name.strip(), [name.strip()])
    if wrong := [name for name in names if name not in every]:
        raise SystemExit(f"no figure {', '.join(wrong)}; there are {', '.join(every)}")
    return names


def main() -> None:
    """Make the figures and say what the papers have."""
    bench, args = Bench.start(
        "direct_figures",
        "the answers that queries find in stores of direct telemetry access, and how quickly, "
        "as in the papers' figures.",
        "networks and NICs; figures of 100 million flows, which do not fit into memory, are made at 1:10.",
        arguments,
    )
    names, sheets = chosen(args.only), []
    folder = args.output or (ROOT / "bench" / "out" if bench.quick else DOCS)
    for name in names:
        start = time.perf_counter()
        sheet = {**SHARES, **RATES}[name](bench.quick)
        sheet.save(folder)
        sheets.append(sheet)
        bench.say(f"{name}: {sheet.title}")
        for one in sheet.stated:
            bench.say(
                f"    {one.what}: paper {one.paper}, ours {one.ours}{'; ' + one.word if one.word else ''}"
            )
        bench.row({"figure": name}, time.perf_counter() - start, "s", f"{len(sheet.rows)} rows")
    rows = keep(folder, sheets)
    if folder == DOCS and PAGE.exists():
        put_table(PAGE, rows)


if __name__ == "__main__":
    main()

"""A benchmark of this checkout and of another one, in turn: how many times as fast is this one?

    python bench/compare.py ../other decode_detect sink [--rounds 5] [--json]

The other checkout has a virtual environment of its own (`.venv`) and a benchmark of the same name.  Programs
alternate, on one processor; the ratio is the median of the rounds' ratios, so that what the machine does
meanwhile falls on both.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from harness.common import Bench, case_text

HERE = Path(__file__).resolve().parents[1]


def rates(checkout: Path, name: str) -> dict[str, float]:
    """Results of one run, by case."""
    command = [str(checkout / ".venv" / "bin" / "python"), f"bench/{name}.py", "--quick", "--json"]
    done = subprocess.run(
        command, cwd=checkout, capture_output=True, text=True, preexec_fn=lambda: os.sched_setaffinity(0, {0})
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} in {checkout.name} ended with {done.returncode}:\n{done.stderr}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        case_text(row["case"]): row["rate"] for row in rows if "case" in row and row["unit"].endswith("/s")
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    """What to compare."""
    parser.add_argument("other", type=Path, help="another checkout")
    parser.add_argument("names", nargs="+", help="benchmarks, as decode_detect")
    parser.add_argument("--rounds", type=int, default=5)


def main() -> None:
    """Every case of every benchmark."""
    bench, options = Bench.start(
        "compare",
        "the rate of this checkout relative to another one: each benchmark's quick cases, in "
        "alternating runs on one core.",
        "everything that the benchmarks themselves hide.",
        arguments,
    )
    for name in options.names:
        for checkout in (HERE, options.other):
            rates(checkout, name)  # compiles what is missing
        ratios: dict[str, list[float]] = {}
        for _ in range(options.rounds):
            ours, theirs = rates(HERE, name), rates(options.other, name)
            for case in ours.keys() & theirs.keys():
                ratios.setdefault(case, []).append(ours[case] / theirs[case])
        for case, found in sorted(ratios.items()):
            note = f"{min(found):.2f} to {max(found):.2f} in {len(found)} rounds"
            bench.row({"benchmark": name, "case": case}, statistics.median(found), "times as fast", note)


if __name__ == "__main__":
    main()

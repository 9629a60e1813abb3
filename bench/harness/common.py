"""What every benchmark shares: its arguments, its table, its lines of JSON."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Bench:
    """One benchmark: collects rows, prints them as a table or as JSON lines."""

    name: str
    measures: str
    hides: str
    json: bool = False
    quick: bool = False
    rows: list[tuple[dict[str, object], float, str, str]] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        name: str,
        measures: str,
        hides: str,
        extra: Callable[[argparse.ArgumentParser], object] | None = None,
    ) -> tuple[Bench, argparse.Namespace]:
        """Read the arguments and say what is measured."""
        parser = argparse.ArgumentParser(description=f"Measures {measures} Hides: {hides}")
        parser.add_argument("--quick", action="store_true", help="fewer cases and rounds; under a minute")
        parser.add_argument("--json", action="store_true", help="one JSON object a line")
        if extra:
            extra(parser)
        arguments = parser.parse_args()
        bench = cls(name, measures, hides, arguments.json, arguments.quick)
        bench.say(f"{name}: measures {measures}\nhides: {hides}\non: {machine()}\n")
        if bench.json:
            about = {"bench": name, "measures": measures, "hides": hides, "machine": machine()}
            print(json.dumps(about), flush=True)
        return bench, arguments

    def say(self, text: str) -> None:
        """Print for people: to stderr when stdout carries JSON."""
        print(text, file=sys.stderr if self.json else sys.stdout, flush=True)

    def row(self, case: dict[str, object], rate: float, unit: str, note: str = "") -> None:
        """One result."""
        self.rows.append((case, rate, unit, note))
        if self.json:
            print(
                json.dumps({"bench": self.name, "case": case, "rate": rate, "unit": unit, "note": note}),
                flush=True,
            )
        else:
            print(
                f"  {case_text(case):<58} {number(rate):>12} {unit}{'  ' + note if note else ''}", flush=True
            )


def case_text(case: dict[str, object]) -> str:
    """A case in one line."""
    return "  ".join(f"{key}={value}" for key, value in case.items())


def number(value: float) -> str:
    """Four significant digits with thousands separated."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def machine() -> str:
    """Processor, cores and versions, without the name of the machine."""
    model = platform.processor() or "unknown processor"
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    import numba  # noqa: TID251 - only its version
    import numpy

    versions = f"Python {platform.python_version()}, NumPy {numpy.__version__}, Numba {numba.__version__}"
    return f"{model}, {os.cpu_count()} cores, {versions}"


def seconds_of(work: Callable[[], object], rounds: int) -> list[float]:
    """Wall-clock seconds of each round, after one that is not counted."""
    work()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return taken


def median(values: Iterable[float]) -> float:
    """Median."""
    return statistics.median(values)

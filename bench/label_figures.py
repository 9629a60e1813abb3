"""Figures 6 to 22 of INT-label again: pictures, CSV files, and the paper's numbers beside ours."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from harness import label_coverage, label_packets, label_pro, label_systems
from harness.common import Bench
from harness.figures import Sheet, chosen, make

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs" / "images" / "label"
PAGE = ROOT / "docs" / "measurements" / "labels.md"

FIGURES: dict[str, Callable[[bool], Sheet]] = {
    "6": label_coverage.figure6,
    "7": label_packets.figure7,
    "8": label_packets.figure8,
    "9": label_coverage.figure9,
    "10": label_coverage.figure10,
    "11": label_coverage.figure11,
    "12": label_pro.figure12,
    "13": label_pro.figure13,
    "14": label_systems.figure14,
    "15": label_packets.figure15,
    "16": label_packets.figure16,
    "17": label_packets.figure17,
    "18": label_packets.figure18,
    "19": label_packets.figure19,
    "20": label_systems.figure20,
    "21": label_systems.figure21,
    "22": label_systems.figure22,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="NUMBERS", help="comma-separated figures of the paper, as 9,13")
    parser.add_argument("--output", type=Path, help="folder; default docs/images/label, --quick: bench/out")


def main() -> None:
    """Make the figures and say what the paper has."""
    bench, args = Bench.start(
        "label_figures",
        "coverage, labelled packets and cost of INT-label and of its rivals, as in the paper's figures.",
        "bmv2: switches here take only the time of their pipeline; only links and queues delay packets.",
        arguments,
    )
    names = args.only.split(",") if args.only else FIGURES
    make(bench, chosen(names, FIGURES), args.output, DOCS, PAGE)


if __name__ == "__main__":
    main()

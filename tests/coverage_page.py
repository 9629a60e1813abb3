"""Writes the table of covered lines by room into a page: python tests/coverage_page.py LINES.json PAGE.md

`make coverage` runs it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path


def table(report: dict[str, dict[str, dict[str, dict[str, int]]]]) -> str:
    """Rooms and their lines, in the order of their names; kernels and the sum last."""
    lines: Counter[str] = Counter()
    covered: Counter[str] = Counter()
    for name, file in report["files"].items():
        inside = name.split("hopscope/", 1)[1].split("/")
        room = "kernels of all rooms" if name.endswith("_kernel.py") else inside[0].removesuffix(".py")
        for row in (room, "all"):
            lines[row] += file["summary"]["num_statements"]
            covered[row] += file["summary"]["covered_lines"]
    rooms = sorted(lines, key=lambda row: (row == "all", row.startswith("kernels"), row))
    rows = [f"| {row} | {lines[row]:,} | {100 * covered[row] / max(1, lines[row]):.1f} |" for row in rooms]
    return "\n".join(["| room | lines | run by tests, % |", "|---|--:|--:|", *rows])


if __name__ == "__main__":
    report, page = (Path(word) for word in sys.argv[1:])
    block = f"<!-- coverage -->\n\n{table(json.loads(report.read_text()))}\n\n<!-- end -->"
    page.write_text(
        re.sub(r"<!-- coverage -->.*?<!-- end -->", lambda _: block, page.read_text(), flags=re.S)
    )

"""Write the tables of docs/measurements.md from what benchmarks print with `--json`.

    cd bench
    python decode_detect.py --json > decode_detect.jsonl
    python -m harness.page decode_detect.jsonl …

A table stands between `<!-- bench: NAME -->` and `<!-- end -->`; tables of other benchmarks stay as they are.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from .common import number

PAGE = Path(__file__).parents[2] / "docs" / "measurements.md"


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table: one column for each parameter of the cases."""
    keys = list(dict.fromkeys(key for row in rows for key in row["case"]))
    noted = any(row["note"] for row in rows)
    head = [*keys, "result", "unit", *(["note"] if noted else [])]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [str(row["case"].get(key, "")) for key in keys]
        cells += [number(row["rate"]), row["unit"], *([row["note"]] if noted else [])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Replace the tables of the benchmarks whose results are given."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name in sys.argv[1:]:
        for line in Path(name).read_text().splitlines():
            row = json.loads(line)
            found.setdefault(row["bench"], []).append(row)
    page = PAGE.read_text()
    for bench, rows in found.items():
        place = re.search(rf"(?<=<!-- bench: {bench} -->\n).*?(?=<!-- end -->)", page, re.S)
        if place is None:
            print(f"docs/measurements.md has no place for {bench}", file=sys.stderr)
            return 1
        page = f"{page[: place.start()]}\n{table(rows)}\n\n{page[place.end() :]}"
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Write the tables of docs/measurements/ from what benchmarks print with `--json`.

    cd bench
    python decode_detect.py --json > decode_detect.jsonl
    python -m harness.page decode_detect.jsonl …

A block stands between `<!-- bench: NAME -->` and `<!-- end -->` of one page: what the program measures and
hides, and its table. Blocks of other benchmarks stay as they are. The headline figures (also of README.md)
and the pictures that are drawn from tables follow.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from . import headlines
from .common import number

FOLDER = Path(__file__).parents[2] / "docs" / "measurements"


def block(measures: str, hides: str, rows: list[dict[str, Any]]) -> str:
    """What a benchmark includes and hides, and a table with one column for each parameter of the cases."""
    keys = list(dict.fromkeys(key for row in rows for key in row["case"]))
    noted = any(row["note"] for row in rows)
    head = [*keys, "result", "unit", *(["note"] if noted else [])]
    lines = [f"**Measures** {measures}  ", f"**Hides** {hides}", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [str(row["case"].get(key, "")) for key in keys]
        cells += [number(row["rate"]), row["unit"], *([row["note"]] if noted else [])]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def put(pages: list[Path], name: str, text: str) -> bool:
    """Replace the block of this name in the page that has it."""
    for page in pages:
        old = page.read_text()
        place = re.search(rf"(?<=<!-- bench: {name} -->\n).*?(?=<!-- end -->)", old, re.S)
        if place is not None:
            page.write_text(f"{old[: place.start()]}\n{text}\n\n{old[place.end() :]}")
            return True
    return False


def main() -> int:
    """Replace the blocks of the benchmarks whose results are given."""
    rows: dict[str, list[dict[str, Any]]] = {}
    about: dict[str, dict[str, str]] = {}
    for name in sys.argv[1:]:
        for line in Path(name).read_text().splitlines():
            row = json.loads(line)
            if "measures" in row:
                about[row["bench"]] = row
            else:
                rows.setdefault(row["bench"], []).append(row)
    pages = sorted(FOLDER.glob("*.md"))
    for bench, found in rows.items():
        if not put(pages, bench, block(about[bench]["measures"], about[bench]["hides"], found)):
            print(f"docs/measurements/ has no place for {bench}", file=sys.stderr)
            return 1
    tables = headlines.tables(pages)
    for page in (FOLDER / "index.md", FOLDER.parents[1] / "README.md"):
        put([page], "headlines", headlines.table(tables, page.name == "README.md"))
    headlines.draw(tables, FOLDER.parent / "images" / "collector")
    return 0


if __name__ == "__main__":
    sys.exit(main())

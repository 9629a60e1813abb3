"""Write the tables of docs/measurements/ from what benchmarks print with `--json`.

    cd bench
    python decode_detect.py --json > decode_detect.jsonl
    python -m harness.page decode_detect.jsonl …

A block stands between `<!-- bench: NAME -->` and `<!-- end -->` of one page: what the program measures and
hides, where it ran, and its tables. Every row is in docs/measurements/data/NAME.csv. Without files, blocks
are written again from that folder. The headline figures (also of README.md) and the pictures of these results
follow.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from . import headlines, tables

FOLDER = Path(__file__).parents[2] / "docs" / "measurements"


def block(name: str, about: str, rows: list[tables.Row]) -> str:
    """What a benchmark includes and hides, its tables, and where all of its rows are."""
    return f"{about}\n\n{tables.render(rows)}\n\nEvery row: [{name}.csv](data/{name}.csv)."


def row_of(result: dict[str, Any]) -> tables.Row:
    """The row of a result."""
    case = {key: str(value) for key, value in result["case"].items()}
    return {**case, "result": f"{result['rate']:.6g}", "unit": result["unit"], "note": result["note"]}


def about_of(pages: list[Path], name: str) -> str:
    """What the block of this name says that its benchmark includes and hides, and where it ran."""
    for page in pages:
        found = re.search(
            rf"<!-- bench: {name} -->\n+(\*\*Measures\*\* .*?\n\*\*Hides\*\* .*?)\n\n", page.read_text(), re.S
        )
        if found is not None:
            return found[1]
    raise SystemExit(f"docs/measurements/ has no place for {name}")


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
    """Take the results of the benchmarks that are given, and write all blocks."""
    pages = sorted(FOLDER.glob("*.md"))
    given: dict[str, list[tables.Row]] = {}
    about: dict[str, str] = {}
    for name in sys.argv[1:]:
        for line in Path(name).read_text().splitlines():
            result = json.loads(line)
            if "measures" in result:
                about[result["bench"]] = (
                    f"**Measures** {result['measures']}  \n**Hides** {result['hides']}  \n"
                    f"**Ran on** {result['machine']}."
                )
            else:
                given.setdefault(result["bench"], []).append(row_of(result))
    for name, rows in given.items():
        tables.write(FOLDER / "data" / f"{name}.csv", rows)
    found = tables.read(FOLDER / "data")
    for name, rows in found.items():
        put(pages, name, block(name, about.get(name) or about_of(pages, name), rows))
    for page in (FOLDER / "index.md", FOLDER.parents[1] / "README.md"):
        put([page], "headlines", headlines.table(found, page.name == "README.md"))
    headlines.draw(found, FOLDER.parent / "images" / "collector")
    return 0


if __name__ == "__main__":
    sys.exit(main())

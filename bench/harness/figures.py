"""Figures of papers made again: one style, a picture and a CSV each, and the papers' numbers beside ours."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

STYLE: Any = {
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "legend.framealpha": 0.9,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
    "svg.hashsalt": "hopscope",
}
COLORS = {1: "#d1495b", 2: "#00798c", 3: "#edae49", 4: "#30638e"}
"""By number of copies, in all figures."""


@dataclass(frozen=True, slots=True)
class Stated:
    """One number that a paper's text states, and ours."""

    what: str
    paper: str
    ours: str
    word: str = ""
    """Why they differ, or how ours was made."""
    authors: str = ""
    """The same number in the data that the authors published."""


@dataclass(slots=True)
class Sheet:
    """One figure."""

    name: str
    title: str
    draw: Callable[[Any], None]
    """Draws into a matplotlib figure."""
    rows: list[dict[str, object]]
    """Of its CSV; all with the same columns."""
    stated: list[Stated] = field(default_factory=list)
    width: float = 6.4

    def save(self, folder: Path) -> None:
        """Write NAME.png and NAME.csv."""
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from PIL import Image

        folder.mkdir(parents=True, exist_ok=True)
        with matplotlib.rc_context(STYLE):
            figure = Figure(figsize=(self.width, 4), layout="constrained")
            FigureCanvasAgg(figure)
            self.draw(figure)
            figure.suptitle(self.title, fontsize=11)
            picture = BytesIO()
            figure.savefig(picture, dpi=100, format="png")
        # 128 colours suffice, and halve the file
        Image.open(picture).convert("RGB").quantize(128).save(folder / f"{self.name}.png", optimize=True)
        with (folder / f"{self.name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(self.rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows({key: _cell(value) for key, value in row.items()} for row in self.rows)


def _cell(value: object) -> object:
    return f"{value:.7g}" if isinstance(value, float) else value


def legend(axes: Any, title: str = "", **where: Any) -> None:
    """A legend whose title stands at its left."""
    axes.legend(title=title, alignment="left", **where)


def percent(share: float, digits: int = 1) -> str:
    """A share as the papers write it."""
    return f"{100 * share:.{digits}f} %"


def shares(values: Sequence[float], digits: int = 1) -> str:
    """Shares in one line."""
    return ", ".join(f"{100 * value:.{digits}f}" for value in values) + " %"


def keep(folder: Path, sheets: Sequence[Sheet]) -> list[dict[str, str]]:
    """Write the stated numbers of these sheets into stated.csv, beside those of others; all of them."""
    path = folder / "stated.csv"
    kept: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if row["figure"] not in {one.name for one in sheets}]
    for sheet in sheets:
        kept += [{"figure": sheet.name} | asdict(one) for one in sheet.stated]
    kept.sort(key=lambda row: [int(p) if p.isdigit() else p for p in re.split(r"(\d+)", row["figure"])])
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, _columns(kept), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(kept)
    return kept


def _columns(rows: Sequence[dict[str, str]]) -> list[str]:
    """Columns of the table of stated numbers; that of the authors' data only if there are any."""
    names = ["figure", "what", "paper", "authors", "ours", "word"]
    return names if any(row.get("authors") for row in rows) else [n for n in names if n != "authors"]


def put_table(page: Path, rows: Sequence[dict[str, str]]) -> None:
    """Replace the table between `<!-- stated -->` and `<!-- end -->` of a page."""
    columns = _columns(rows)
    titles = {"authors": "authors' data", "word": ""}
    lines = [
        "| " + " | ".join(titles.get(name, name) for name in columns) + " |",
        "|---" * len(columns) + "|",
    ]
    lines += ["| " + " | ".join(row.get(name, "") for name in columns) + " |" for row in rows]
    text = page.read_text()
    page.write_text(
        re.sub(
            r"(?<=<!-- stated -->\n).*?(?=<!-- end -->)",
            lambda _: "\n" + "\n".join(lines) + "\n\n",
            text,
            flags=re.S,
        )
    )

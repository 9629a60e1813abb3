"""Figures of papers made again: one style, a picture and a CSV each, and the papers' numbers beside ours."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

from .common import Bench

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


def make(
    bench: Bench, figures: Mapping[str, Callable[[bool], Sheet]], output: Path | None, docs: Path, page: Path
) -> None:
    """Make these figures and print the papers' numbers beside ours; those of `docs` also in the page's table.

    They go into `output`, or else into `docs`, with --quick into bench/out.
    """
    folder = output or (Path(__file__).parents[1] / "out" if bench.quick else docs)
    rows: list[dict[str, str]] = []
    for name, figure in figures.items():
        start = time.perf_counter()
        sheet = figure(bench.quick)
        sheet.save(folder)
        rows = _keep(folder, sheet)
        bench.say(f"{name}: {sheet.title}")
        for one in sheet.stated:
            authors = f", authors {one.authors}" if one.authors else ""
            word = f"; {one.word}" if one.word else ""
            bench.say(f"    {one.what}: paper {one.paper or '-'}{authors}, ours {one.ours}{word}")
        bench.row({"figure": name}, time.perf_counter() - start, "s", f"{len(sheet.rows)} rows")
    if folder == docs and page.exists():
        _put_table(page, rows)


def chosen(
    names: Iterable[str], figures: Mapping[str, Callable[[bool], Sheet]]
) -> dict[str, Callable[[bool], Sheet]]:
    """The figures with these names."""
    names = [name.strip() for name in names]
    if wrong := [name for name in names if name not in figures]:
        raise SystemExit(f"no figure {', '.join(wrong)}; there are {', '.join(figures)}")
    return {name: figures[name] for name in names}


def _keep(folder: Path, sheet: Sheet) -> list[dict[str, str]]:
    """Write a sheet's stated numbers into stated.csv, beside those of others; all of them."""
    path = folder / "stated.csv"
    kept: list[dict[str, str]] = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if row["figure"] != sheet.name]
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


def _put_table(page: Path, rows: Sequence[dict[str, str]]) -> None:
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

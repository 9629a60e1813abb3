"""DART without a translator: a switch draws one of N copies for each report; what is found."""

from __future__ import annotations

from typing import Any

from hopscope.direct import theory
from support.direct.dart_reports import expected, found_by_reports

from .figures import COLORS, Sheet, Stated, legend, percent


def dartreports(quick: bool) -> Sheet:
    """Found keys by reports per key, for two and four copies at two loads."""
    slots, counts = 1 << (14 if quick else 20), (1, 2, 3, 4, 6, 8, 12)
    cases = [(copies, load) for load in (0.1, 0.5) for copies in (2, 4)]
    rows: list[dict[str, object]] = [
        {"copies": copies, "load": load, "reports": reports, "slots": slots,
         "found": found_by_reports(slots, round(load * slots), copies, reports),
         "theory": expected(load, copies, reports),
         "copies_present": float(theory.copies_present(reports, copies))}
        for copies, load in cases for reports in counts
    ]  # fmt: skip

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for copies, load in cases:
            shown = [r for r in rows if (r["copies"], r["load"]) == (copies, load)]
            style = "-" if load < 0.3 else "--"
            axes.plot(
                counts, [100 * float(str(r["theory"])) for r in shown], style, color=COLORS[copies],
                label=f"N = {copies}, load {load:g}",
            )  # fmt: skip
            axes.plot(counts, [100 * float(str(r["found"])) for r in shown], "o", color=COLORS[copies])
        axes.set_xlabel("reports of each key, each into one of N slots at random")
        axes.set_ylabel("keys found, mean over all ages [%]")
        axes.set_ylim(70, 100.5)
        legend(axes, "lines: closed form; dots: measured")

    low = [r for r in rows if (r["copies"], r["load"]) == (2, 0.1)]
    shares = ", ".join(percent(float(str(r["found"]))) for r in low[:4])
    return Sheet(
        "dartreports", "DART §3.1: reports that draw their copy", draw, rows,
        [Stated("found after 1, 2, 3, 4 reports, N = 2, load 0.1", "no number", shares,
                "closed form " + ", ".join(percent(float(str(r["theory"]))) for r in low[:4]))],
    )  # fmt: skip

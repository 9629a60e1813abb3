"""`hopscope bench`: how fast this machine decodes and detects."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from .options.declare import option
from .output.printer import Format, FormatOption, Printer

if TYPE_CHECKING:
    from ..runtime.measure import Case, Speed

COLUMNS = ("hops", "fields", "flows", "decode_ns", "decode_detect_ns", "million_per_second")
ROUNDS, QUICK_ROUNDS = 15, 5


def bench(
    quick: bool = option("--quick", "Fewer cases and rounds: some seconds.", False),
    plot: Path | None = option("--plot FILE", "Write a plot (PNG, SVG, PDF); needs hopscope[plot]."),
    form: FormatOption = Format.TABLE,
) -> None:
    """Measure how fast one core of this machine decodes reports and detects events.

    Reports are 2.0 with INT-MD, in memory; flows are known, and nothing is an event. Each row has the median
    time of a report, first when it is only decoded, then when it is also compared with the state of its flow,
    and how many reports per second one core takes in the second case. Sockets are not included: see `hopscope
    blast`.
    """
    from ..runtime.measure import CASES, QUICK_CASES, measure
    from ..runtime.warmup import compile_parts

    canvas = None
    if plot is not None:
        from .plan.drawing import canvas as new_canvas

        canvas = new_canvas(plot, 2)
    compile_parts("collector", "encoder")
    found: list[tuple[Case, Speed]] = []
    printer = Printer(form, COLUMNS)
    for case in QUICK_CASES if quick else CASES:
        speed = measure(case, QUICK_ROUNDS if quick else ROUNDS)
        found.append((case, speed))
        printer.put([_row(case, speed)])
        printer.flush()
    if canvas is not None:
        _draw(canvas, found)
        canvas.savefig(plot, dpi=120)


def _row(case: Case, speed: Speed) -> dict[str, Any]:
    numbers = (round(speed.decode_ns, 1), round(speed.both_ns, 1), round(1e3 / speed.both_ns, 2))
    return dict(zip(COLUMNS, (case.hops, case.fields, case.flows, *numbers), strict=True))


def _draw(figure: Any, found: list[tuple[Case, Speed]]) -> None:
    """Decoding, and decoding with detection, by hops; a line for each number of fields and flows."""
    lines: dict[tuple[int, int], list[tuple[int, Speed]]] = {}
    for case, speed in found:
        lines.setdefault((case.fields, case.flows), []).append((case.hops, speed))
    panels = figure.subplots(1, 2, sharey=True)
    for (fields, flows), points in lines.items():
        label = f"{fields} field{'s' if fields > 1 else ''}, {flows:,} flow{'s' if flows > 1 else ''}"
        hops = [hop for hop, _ in points]
        panels[0].plot(hops, [speed.decode_ns for _, speed in points], "o-", label=label)
        panels[1].plot(hops, [speed.both_ns for _, speed in points], "o-", label=label)
    for axes, title in zip(panels, ("decode", "decode and detect"), strict=True):
        axes.set_title(title)
        axes.set_xlabel("hops of a report")
        axes.set_ylim(bottom=0)
        axes.grid(True, alpha=0.3)
    panels[0].set_ylabel("time of a report on one core [ns]")
    panels[1].legend(fontsize=8)

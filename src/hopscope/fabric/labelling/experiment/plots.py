"""Plots of an experiment: measures over the swept settings, and telemetry intervals over time with events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..simulation.measures import Floats
from .events import Event
from .files import Intervals, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110
SECONDS = {
    "labelling.interval", "experiment.telemetry", "experiment.seconds", "experiment.warm_up", "resolution",
    "resolution_worst", "silence", "delay", "delay_99", "recovery_begin", "recovery_end",
}  # fmt: skip
"""Columns in s; also columns of events whose last part is a time."""
TIMES = ("at", "until", "reroute")
MAX_PANELS = 6
"""Largest number of different schedules of events in one plot."""
MAX_SHOWN = 8
"""Largest number of events that are named for a schedule."""
FAILS, LOSES = "#c0392b", "#d68910"


def write_plot(
    path: Path, rows: Sequence[Row], x: str, y: Sequence[str], by: Sequence[str], title: str
) -> bool:
    """A panel for each of `y` over `x`, a curve for each combination of `by`. Error bars: standard deviation
    over the remaining settings and the seeds. Returns False without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    figure = Figure(figsize=(1 + 4.6 * len(y), 4.2), layout="constrained")
    panels = figure.subplots(1, len(y), squeeze=False)[0]
    for axes, measure in zip(panels, y, strict=True):
        for name, points in _curves(rows, x, measure, by).items():
            at = sorted(points) if _numbers(points) else list(points)
            mean = [float(np.mean(points[value])) for value in at]
            bars = [float(np.std(points[value], ddof=1)) if len(points[value]) > 1 else 0.0 for value in at]
            shown = at if _numbers(points) else ["never" if value is None else str(value) for value in at]
            axes.errorbar(shown, mean, bars, marker="o", markersize=3, capsize=2, label=name)
        axes.set_xlabel(with_unit(x))
        axes.set_title(with_unit(measure), fontsize=10)
        axes.grid(True, alpha=0.3)
    _finish(figure, panels[0] if by else None, ", ".join(by), title, path)
    return True


def write_timeline(
    path: Path,
    rows: Sequence[Row],
    intervals: Intervals,
    events: Sequence[Sequence[Event]],
    y: Sequence[str],
    by: Sequence[str],
    title: str,
) -> bool:
    """Telemetry intervals over time: a row of panels for each of `y`, a column for each schedule of events,
    with the events above it; a curve for each combination of `by`, averaged over the rest. `intervals` and
    `events` belong to `rows`. Returns False without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    tables: dict[tuple[object, ...], list[int]] = {}
    for place, own in enumerate(events):
        key = tuple((e.key, e.name, e.at, e.until, e.reroute) for e in own)
        tables.setdefault(key, []).append(place)
    if len(tables) > MAX_PANELS:
        title += f" ({MAX_PANELS} of {len(tables)} schedules)"
    groups = list(tables.values())[:MAX_PANELS]
    bars = max(min(len(events[group[0]]), MAX_SHOWN) for group in groups)
    heights = ([0.1 + 0.26 * bars] if bars else []) + [2.6] * len(y)
    figure = Figure(figsize=(1.4 + 5.4 * len(groups), 1.4 + sum(heights)), layout="constrained")
    panels = figure.subplots(
        len(heights), len(groups), squeeze=False, sharex="col", sharey="row", height_ratios=heights
    )
    for group, column in zip(groups, panels.T, strict=True):
        telemetry = max(rows[place]["experiment.telemetry"] for place in group)
        end = max(rows[p]["experiment.telemetry"] * len(intervals[p]["coverage"]) for p in group)
        own = events[group[0]]
        if bars:
            _draw_events(column[0], own, end, bars)
        for axes, measure in zip(column[bool(bars) :], y, strict=True):
            for event in own[:MAX_SHOWN]:
                span = (event.at or 0.0, end if event.until is None else event.until)
                axes.axvspan(*span, color=_color(event), alpha=0.1, lw=0)
            for name, (times, mean) in _over_time(rows, intervals, group, measure, by).items():
                axes.plot(times, mean, label=name, linewidth=1.2)
            axes.grid(True, alpha=0.3)
            axes.set_xlim(0, max(end, telemetry))
        column[-1].set_xlabel("time after the warm-up, s")
    for axes, measure in zip(panels[bool(bars) :, 0], y, strict=True):
        axes.set_ylabel(measure)
    _finish(figure, panels[-1, 0] if by else None, ", ".join(by), title, path)
    return True


def with_unit(column: str) -> str:
    """A column's name with its unit."""
    section, _, rest = column.partition(".")
    timed = section in ("failure", "loss") and rest.rpartition(".")[2] in TIMES
    return f"{column} [s]" if timed or column in SECONDS else column


def _draw_events(axes: Any, events: Sequence[Event], end: float, bars: int) -> None:
    """One bar per event, from its start to its end, with its name."""
    for place, event in enumerate(events[:MAX_SHOWN]):
        begin, until = event.at or 0.0, end if event.until is None else event.until
        axes.barh(place, until - begin, 0.8, begin, color=_color(event), alpha=0.25)
        more = len(events) - MAX_SHOWN if place == MAX_SHOWN - 1 else 0
        name = f"{event.name}, and {more} more" if more > 0 else event.name
        left = begin < 0.6 * end
        side = "left" if left else "right"
        text = axes.text(begin if left else until, place, f" {name} ", fontsize=8, va="center", ha=side)
        text.set_in_layout(False)  # a long name must not shrink the panels
    axes.set_ylim(bars - 0.5, -0.5)
    axes.set_axis_off()


def _color(event: Event) -> str:
    return FAILS if event.share is None else LOSES


def _over_time(
    rows: Sequence[Row], intervals: Intervals, group: Sequence[int], measure: str, by: Sequence[str]
) -> dict[str, tuple[Floats, Floats]]:
    """By curve: the middle of each interval, s, and the mean of the runs that have a value."""
    curves: dict[str, list[int]] = {}
    for place in group:
        curves.setdefault(_name(rows[place], by), []).append(place)
    found = {}
    for name, places in curves.items():
        longest = max(len(intervals[place][measure]) for place in places)
        values = np.full((len(places), longest), np.nan)
        for line, place in zip(values, places, strict=True):
            line[: len(intervals[place][measure])] = intervals[place][measure]
        known = ~np.isnan(values)
        total, count = np.where(known, values, 0).sum(axis=0), known.sum(axis=0)
        mean = np.divide(total, count, out=np.full(longest, np.nan), where=count > 0)
        found[name] = ((np.arange(longest) + 0.5) * rows[places[0]]["experiment.telemetry"], mean)
    return found


def _curves(
    rows: Sequence[Row], x: str, measure: str, by: Sequence[str]
) -> dict[str, dict[Any, list[float]]]:
    """By curve and x: the values; missing ones are left out."""
    curves: dict[str, dict[Any, list[float]]] = {}
    for row in rows:
        if row[measure] is not None:
            curves.setdefault(_name(row, by), {}).setdefault(row[x], []).append(float(row[measure]))
    return curves


def _name(row: Mapping[str, Any], by: Sequence[str]) -> str:
    return ", ".join("never" if row[column] is None else str(row[column]) for column in by)


def _finish(figure: Figure, named: Any, head: str, title: str, path: Path) -> None:
    """Add a title, and one legend for all panels with the curves of panel `named`; write the file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    if named is not None:
        lines, names = named.get_legend_handles_labels()
        if len(lines) > 12:
            names, lines = [*names[:11], f"… {len(names) - 12} more", names[-1]], [*lines[:12], lines[-1]]
        figure.legend(
            lines,
            names,
            title=head,
            loc="outside right upper",
            alignment="left",
            fontsize=8,
            title_fontsize=8,
        )
    figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=DPI)


def _numbers(values: Iterable[object]) -> bool:
    return all(isinstance(value, (int, float)) for value in values)

"""The histogram of a measure at a switch, as HTML."""

from __future__ import annotations

import math
from html import escape

from ...base.names import Names
from ...detect.distributions.quantiles import QUANTILES, Distribution, Quantile, grouped
from ...detect.sink.records import Measure
from ...present.distributions import columns, unit
from ...present.units import duration, si
from .recent import Recently

COLUMNS = 64
TABS = {
    "latency": Measure.HOP_LATENCY,
    "queues": Measure.QUEUE_OCCUPANCY,
    "links": Measure.LINK_UTILIZATION,
    "path": Measure.END_TO_END,
}
"""Measures by tab of the panel."""


def switches(recently: Recently, names: Names, chosen: int) -> str:
    """A menu of switches: those with distributions, the chosen one, and (-1) all of them."""
    nodes = {part.node for part in recently.parts if part.node is not None} | {chosen} - {-1}
    shown = [(-1, "all switches"), *((node, names.node_label(node)) for node in sorted(nodes))]
    options = "".join(
        f'<option value="{node}"{" selected" * (node == chosen)}>{escape(label)}</option>'
        for node, label in shown
    )
    return f'<select class="switch" aria-label="Switch">{options}</select>'


def histogram(recently: Recently, measure: Measure, node: int) -> str:
    """Columns on a logarithmic scale, with quantiles as lines and a table; `node` -1: all switches."""
    of_measure = [part for part in recently.parts if part.measure == measure]
    chosen = [part for part in of_measure if node < 0 or part.node is None or part.node == node]
    if not chosen:
        hint = "Distributions are off. Set <code>distributions.enabled = true</code>"
        if recently.counted:
            hint = f"No values {recently.span}"
        return f'<p class="empty">{hint}.</p>'
    (joined,) = grouped(chosen, "network")
    what = unit(measure)
    bars = columns(joined, COLUMNS)
    low, high = bars[0][0], bars[-1][1]
    largest = max(count for _, _, count in bars)
    drawn = "".join(_bar(at, bar, largest, what) for at, bar in enumerate(bars) if bar[2])
    lines = "".join(_line(joined, q, low, high) for q in QUANTILES)
    ends = (_shown(low, what), escape(recently.span), _shown(joined.highest, what))
    return (
        f'<div class="hist"><div><svg viewBox="0 0 {COLUMNS} 100" preserveAspectRatio="none">'
        f'{drawn}{lines}</svg><div class="ends">{"".join(f"<span>{end}</span>" for end in ends)}</div></div>'
        f"{_figures(joined, what)}</div>"
    )


def _bar(at: int, bar: tuple[float, float, float], largest: float, what: str | None) -> str:
    low, high, count = bar
    height = max(100 * count / largest, 1.0)
    title = f"{_shown(low, what)} – {_shown(high, what)}: {si(count)}"
    box = f'x="{at}" y="{100 - height:.1f}" width="0.9" height="{height:.1f}"'
    return f"<rect {box}><title>{title}</title></rect>"


def _line(distribution: Distribution, q: float, low: float, high: float) -> str:
    found = distribution.quantile(q)
    if found is None or high <= low:
        return ""
    at = COLUMNS * math.log2((found.estimate + 1) / (low + 1)) / math.log2((high + 1) / (low + 1))
    return f'<path d="M{min(max(at, 0.0), COLUMNS):.2f} 0v100"><title>p{100 * q:g}</title></path>'


def _figures(distribution: Distribution, what: str | None) -> str:
    rows = [("Values", si(distribution.count), ""), ("Mean", _shown(distribution.mean or 0, what), "")]
    for q in QUANTILES:
        found = distribution.quantile(q)
        if found is not None:
            rows.append((f"p{100 * q:g}", _shown(found.estimate, what), _bounds(found, what)))
    body = "".join(
        f'<tr><td>{name}<td class="n"><b>{value}</b><td class="n"><em>{bounds}</em></tr>'
        for name, value, bounds in rows
    )
    return f"<table><tbody>{body}</tbody></table>"


def _bounds(found: Quantile, what: str | None) -> str:
    if found.upper is None:
        return f"&gt; {_shown(found.lower, what)}"
    return f"{_shown(found.lower, what)} – {_shown(found.upper, what)}"


def _shown(value: float, what: str | None) -> str:
    return duration(value) if what == "ns" else si(value)

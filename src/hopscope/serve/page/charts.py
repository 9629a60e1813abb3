"""The line charts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .snapshot import POINTS, Point

_SI = (
    "v => v >= 1e6 ? +(v / 1e6).toPrecision(3) + 'M' : v >= 1e3 ? +(v / 1e3).toPrecision(3) + 'k' "
    ": +v.toPrecision(3) + ''"
)
_MINUTES = "v => v === 0 ? 'now' : '−' + -v / 60 + ' min'"
Series = tuple[str, str, Callable[[Point], float]]
RATE: tuple[Series, ...] = (
    ("Received", "#2aa198", lambda point: point.reports),
    ("Events", "#6c8ebf", lambda point: point.events),
)
LOSS: tuple[Series, ...] = (
    ("Reports lost", "#d9534f", lambda point: point.lost),
    ("Rejected", "#d99a2b", lambda point: point.rejected),
    ("Dropped by kernel", "#a05fb4", lambda point: point.dropped),
    ("Duplicate", "#8794a3", lambda point: point.duplicate),
)


def options(lines: tuple[Series, ...]) -> dict[str, Any]:
    """A line chart of the last three minutes, in colours for a dark and a light page."""
    grey = "#8592a0"
    axis = {
        "axisLine": {"show": False},
        "axisTick": {"show": False},
        "splitLine": {"lineStyle": {"color": "#80808022"}},
    }
    small = {"color": grey, "fontSize": 11}
    return {
        "animation": False,
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 44, "right": 8, "top": 24, "bottom": 20},
        "legend": {
            "top": 0,
            "left": 0,
            "itemWidth": 12,
            "itemHeight": 2,
            "icon": "rect",
            "itemGap": 14,
            "textStyle": small,
        },
        "tooltip": {
            "trigger": "axis",
            ":valueFormatter": f"v => (({_SI})(v)) + ' /s'",
            "textStyle": {"fontSize": 12},
            "axisPointer": {"lineStyle": {"color": grey}},
        },
        "xAxis": {
            "type": "value",
            "min": -POINTS,
            "max": 0,
            "interval": 60,
            **axis,
            "splitLine": {"show": False},
            "axisLabel": {**small, ":formatter": _MINUTES},
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "splitNumber": 3,
            "minInterval": 1,
            **axis,
            "axisLabel": {**small, ":formatter": _SI},
        },
        "series": [
            {
                "name": name,
                "type": "line",
                "data": [],
                "showSymbol": False,
                "lineStyle": {"width": 1.6},
                "itemStyle": {"color": color},
                "areaStyle": {"opacity": 0.10},
            }
            for name, color, _ in lines
        ],
    }

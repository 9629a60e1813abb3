"""The live page: what the network does now, on one screen. Every open page shows the same look, drawn once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from nicegui import events, ui

from .context import Context
from .fragments import Fragments
from .poller import POINTS, Look, Point, Poller

REFRESH_SECONDS = 0.5
_CSS = (Path(__file__).parent / "live.css").read_text(encoding="utf-8")
_MARK = (
    '<svg viewBox="0 0 30 14" fill="none" stroke="currentColor" stroke-width="1.6"><path d="M4 10C8 1 12 1 15 7s7 6 11-3"/>'
    '<circle cx="4" cy="10" r="2.2" fill="currentColor"/><circle cx="15" cy="7" r="2.2" fill="var(--accent)" stroke="none"/>'
    '<circle cx="26" cy="4" r="2.2" fill="currentColor"/></svg>'
)
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M5 22C10 6 14 8 16 16s8 6 11-6" fill="none" '
    'stroke="#0e8f84" stroke-width="3"/><circle cx="5" cy="22" r="4" fill="#0e8f84"/><circle cx="27" cy="10" r="4" fill="#0e8f84"/></svg>'
)
_FLOW_OF_CLICK = '(e) => { const row = e.target.closest("[data-flow]"); if (row) emit(row.dataset.flow); }'
_SI = "v => v >= 1e6 ? +(v/1e6).toPrecision(3) + 'M' : v >= 1e3 ? +(v/1e3).toPrecision(3) + 'k' : +v.toPrecision(3) + ''"
Series = tuple[str, str, Callable[[Point], float]]
_RATE: tuple[Series, ...] = (
    ("Reports", "#2aa198", lambda point: point.reports),
    ("Events", "#6c8ebf", lambda point: point.events),
)
_LOSS: tuple[Series, ...] = (
    ("Lost", "#d9534f", lambda point: point.lost),
    ("Refused", "#d99a2b", lambda point: point.refused),
    ("Dropped by kernel", "#a05fb4", lambda point: point.dropped),
    ("Duplicate", "#8794a3", lambda point: point.duplicate),
)


def mount(app: FastAPI) -> None:
    """Put the page on the application, at `/`."""
    context: Context = app.state.context
    drawing = Drawing(context)

    @ui.page("/", title="Hopscope")
    def page() -> None:
        Page(drawing).build()

    inner = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(owner: FastAPI) -> AsyncIterator[Any]:
        async with inner(owner) as state:
            task = asyncio.create_task(drawing.poller.run())
            try:
                yield state
            finally:
                task.cancel()

    app.router.lifespan_context = lifespan
    ui.run_with(app, title="Hopscope", favicon=_ICON, dark=None, tailwind=False, show_welcome_message=False)


class Drawing:
    """The newest look as HTML and chart points, shared by all pages."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.poller = Poller(context)
        self._fragments: Fragments | None = None
        self._paths: dict[int | None, str] = {}
        self._series: dict[str, list[dict[str, Any]]] = {}

    def fragments(self) -> Fragments | None:
        """Parts of the newest look; None before the first."""
        look = self.poller.look
        if look is not None and (self._fragments is None or self._fragments.look is not look):
            self._fragments = Fragments(look, self.context.names)
            self._paths.clear()
            self._series.clear()
        return self._fragments

    def path(self, flow_id: int | None) -> str:
        """Path of a flow, or (None) of the slowest one."""
        fragments = self._fragments
        if fragments is None:
            return ""
        if flow_id not in self._paths:
            self._paths[flow_id] = self._draw_path(fragments, flow_id)
        return self._paths[flow_id]

    def _draw_path(self, fragments: Fragments, flow_id: int | None) -> str:
        rows = fragments.look.slow_flows
        if flow_id is not None:
            rows = self.context.state.flows()
            rows = rows[rows["flow_id"] == np.uint64(flow_id)]
        if not len(rows):
            said = (
                "No live flow carries hop latencies."
                if flow_id is None
                else "This flow has left the flow table."
            )
            return f'<p class="empty">{said}</p>'
        return fragments.path(rows[0], self.context.state.hops_of(rows[0]))

    def series(self, which: str, lines: tuple[Series, ...]) -> list[dict[str, Any]]:
        """Points of a chart: seconds before now, and the value."""
        if which not in self._series:
            points = self._fragments.look.points if self._fragments else ()
            first = 1 - len(points)
            self._series[which] = [
                {"data": [[first + at, round(value(point), 1)] for at, point in enumerate(points)]}
                for _, _, value in lines
            ]
        return self._series[which]


class Page:
    """One open page."""

    def __init__(self, drawing: Drawing) -> None:
        self.drawing = drawing
        self.shown: Look | None = None
        self.flow_id: int | None = None
        self.strip = "queues"
        self.feed = "notable"

    def build(self) -> None:
        """Lay the page out, and refresh it while it is open."""
        ui.add_css(_CSS)
        self.dark = ui.dark_mode(None)
        with ui.element("main").classes("page"):
            self._build_head()
            with self._panel("figs"):
                self.figures = ui.html("", sanitize=False).classes("figures")
            self.rate = self._chart("rate", "Rate", "per second", _RATE)
            self.loss = self._chart("loss", "Losses", "per second", _LOSS)
            self._build_feed()
            self._build_strip()
            self._build_path()
            self.flows = self._table("flow-panel", "Slowest flows", "latest latency, click for the path")
            self.hops = self._table("hops", "Slowest hops", "of these flows")
            self.limits = self._table("lims", "Limits", "change them with the API")
        self.refresh()
        ui.timer(REFRESH_SECONDS, self.refresh)

    def _build_head(self) -> None:
        with ui.element("header").classes("head"):
            folder = self.drawing.context.folder.name
            ui.html(f"{_MARK}<span>Hopscope</span>", sanitize=False).classes("brand")
            self.status = ui.html("", sanitize=False).classes("status")
            ui.element("span").classes("grow")
            ui.label(folder).classes("pill").tooltip("Data folder")
            ui.html('<a class="quiet-button" href="/api/v0/openapi.json">API</a>', sanitize=False)
            button = (
                ui.element("button").classes("quiet-button").props('type=button aria-label="Dark or light"')
            )
            with button:
                ui.html("◐", sanitize=False, tag="span")
            button.on(
                "click",
                js_handler="() => emit(document.body.classList.contains('body--dark'))",
                handler=self._flip,
            )

    def _flip(self, event: events.GenericEventArguments) -> None:
        self.dark.value = not event.args

    def _panel(self, area: str) -> ui.element:
        return ui.element("section").classes(f"panel {area}")

    def _title(self, text: str, note: str = "") -> None:
        ui.html(f"<h2>{text}</h2>", sanitize=False, tag="span")
        if note:
            ui.html(note, sanitize=False, tag="small")

    def _chart(self, area: str, title: str, note: str, lines: tuple[Series, ...]) -> ui.echart:
        with self._panel(area):
            with ui.element("header"):
                self._title(title, note)
            return ui.echart(_options(lines)).classes("chart")

    def _table(self, area: str, title: str, note: str) -> ui.html:
        with self._panel(area):
            with ui.element("header"):
                self._title(title, note)
            table = ui.html("", sanitize=False)
        table.on("click", handler=self._choose, js_handler=_FLOW_OF_CLICK)
        return table

    def _tabs(self, names: tuple[str, ...], choose: Callable[[str], None]) -> None:
        with ui.element("div").classes("tabs"):
            tabs = {name: ui.element("button").classes("tab").props("type=button") for name in names}

        def chosen(name: str) -> None:
            for other, tab in tabs.items():
                tab.classes(remove="on") if other != name else tab.classes(add="on")
            choose(name)
            self.shown = None
            self.refresh()

        for name, tab in tabs.items():
            with tab:
                ui.html(name.capitalize(), sanitize=False, tag="span")
            tab.on("click", lambda name=name: chosen(name))
        tabs[names[0]].classes(add="on")

    def _build_feed(self) -> None:
        with self._panel("feed"):
            with ui.element("header"):
                self._title("Events")
                self._tabs(("notable", "latest"), lambda name: setattr(self, "feed", name))
            self.events = ui.html("", sanitize=False).classes("scroll")
        self.events.on("click", handler=self._choose, js_handler=_FLOW_OF_CLICK)

    def _build_strip(self) -> None:
        with self._panel("heat"):
            with ui.element("header"):
                self._title(
                    "Most occupied",
                    "last minute, highest of each half second, in the unit that switches send",
                )
                self._tabs(("queues", "buffers", "links"), lambda name: setattr(self, "strip", name))
            head = '<span></span><span></span><span class="n">now</span><span class="n">peak</span>'
            ui.html(head, sanitize=False).classes("strip-head")
            self.strips = ui.html("", sanitize=False)

    def _build_path(self) -> None:
        with self._panel("path"):
            with ui.element("header"):
                self._title("Path")
                self.whose = ui.html("of the slowest flow", sanitize=False, tag="small")
                self.release = ui.element("button").classes("tab tabs").props("type=button")
                with self.release:
                    ui.html("Follow the slowest", sanitize=False, tag="span")
                self.release.on("click", lambda: self._follow(None))
                self.release.set_visibility(False)
            self.path = ui.html("", sanitize=False)

    def _choose(self, event: events.GenericEventArguments) -> None:
        try:
            self._follow(int(str(event.args), 16) & 0xFFFFFFFFFFFFFFFF)
        except ValueError:
            return  # not of this page

    def _follow(self, flow_id: int | None) -> None:
        self.flow_id = flow_id
        self.whose.set_content("of the slowest flow" if flow_id is None else "of the chosen flow")
        self.release.set_visibility(flow_id is not None)
        self.shown = None
        self.refresh()

    def refresh(self) -> None:
        """Show the newest look, if it is another than the one shown."""
        fragments = self.drawing.fragments()
        if fragments is None or fragments.look is self.shown:
            return
        self.shown = fragments.look
        for element, name in (
            (self.status, "status"),
            (self.figures, "figures"),
            (self.strips, f"strip:{self.strip}"),
            (self.events, self.feed),
            (self.flows, "flows"),
            (self.hops, "hops"),
            (self.limits, "limits"),
        ):
            element.set_content(fragments.get(name))
        self.path.set_content(self.drawing.path(self.flow_id))
        if fragments.look.number % 2:  # a point a second
            self.rate.run_chart_method("setOption", {"series": self.drawing.series("rate", _RATE)})
            self.loss.run_chart_method("setOption", {"series": self.drawing.series("loss", _LOSS)})


def _options(lines: tuple[Series, ...]) -> dict[str, Any]:
    """A line chart of the last three minutes, in colours that fit a dark and a light page."""
    grey = "#8592a0"
    axis = {
        "axisLine": {"show": False},
        "axisTick": {"show": False},
        "splitLine": {"lineStyle": {"color": "#80808022"}},
    }
    return {
        "animation": False,
        "textStyle": {"fontFamily": "Roboto, system-ui, sans-serif"},
        "grid": {"left": 44, "right": 8, "top": 24, "bottom": 20},
        "legend": {"top": 0, "left": 0, "itemWidth": 12, "itemHeight": 2, "icon": "rect", "itemGap": 14,
                   "textStyle": {"color": grey, "fontSize": 11}},
        "tooltip": {"trigger": "axis", ":valueFormatter": f"v => (({_SI})(v)) + ' /s'", "textStyle": {"fontSize": 12},
                    "axisPointer": {"lineStyle": {"color": grey}}},
        "xAxis": {"type": "value", "min": -POINTS, "max": 0, "interval": 60, **axis, "splitLine": {"show": False},
                  "axisLabel": {"color": grey, "fontSize": 11, ":formatter": "v => v === 0 ? 'now' : v / 60 + ' min'"}},
        "yAxis": {"type": "value", "min": 0, "splitNumber": 3, "minInterval": 1, **axis,
                  "axisLabel": {"color": grey, "fontSize": 11, ":formatter": _SI}},
        "series": [
            {"name": name, "type": "line", "data": [], "showSymbol": False, "lineStyle": {"width": 1.6},
             "itemStyle": {"color": color}, "areaStyle": {"opacity": 0.10}}
            for name, color, _ in lines
        ],
    }  # fmt: skip

"""The live page: the state of the network on one screen; all open pages share one snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from nicegui import events, ui

from ..detect.bottleneck.shares import QuantileRange, Queues, of_flow
from ..detect.flows.flow_hops import FlowHops
from .context import Context
from .page.charts import LOSS, RATE, Series, options
from .page.fragments import FOLDED, Fragments
from .page.histogram import TABS, histogram, switches
from .page.labels.panel import LabelPanel
from .page.snapshot import Poller, Snapshot

REFRESH_SECONDS = 0.5
_CSS = (Path(__file__).parent / "page" / "page.css").read_text(encoding="utf-8")
_MARK = (
    '<svg viewBox="0 0 30 14" fill="none" stroke="currentColor" stroke-width="1.6">'
    '<path d="M4 10C8 1 12 1 15 7s7 6 11-3"/><circle cx="4" cy="10" r="2.2" fill="currentColor"/>'
    '<circle cx="15" cy="7" r="2.2" fill="var(--accent)" stroke="none"/>'
    '<circle cx="26" cy="4" r="2.2" fill="currentColor"/></svg>'
)
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" fill="#0e8f84">'
    '<path d="M5 22C10 6 14 8 16 16s8 6 11-6" fill="none" stroke="#0e8f84" stroke-width="3"/>'
    '<circle cx="5" cy="22" r="4"/><circle cx="27" cy="10" r="4"/></svg>'
)
_FLOW_OF_CLICK = """(e) => {
  const row = e.target.closest("[data-flow]");
  if (!row) return;
  emit(row.dataset.flow);
  document.querySelector(".panel.path").scrollIntoView({block: "nearest"});
}"""


def mount(app: FastAPI, poller: Poller) -> None:
    """Put the page on the application, at `/`; it shows the snapshots of `poller`."""
    drawing = Drawing(app.state.context, poller)

    @ui.page("/", title="Hopscope")
    async def page() -> None:
        await Page(drawing).build()

    logging.getLogger("nicegui").setLevel(logging.ERROR)  # it warns of every unknown path
    ui.run_with(app, title="Hopscope", favicon=_ICON, dark=None, tailwind=False, show_welcome_message=False)


class Drawing:
    """The newest snapshot as HTML and chart points, shared by all pages."""

    def __init__(self, context: Context, poller: Poller) -> None:
        self.context, self.poller = context, poller
        self._fragments: Fragments | None = None
        self._paths: dict[int | None, str] = {}
        self._series: dict[str, list[dict[str, Any]]] = {}

    def fragments(self) -> Fragments | None:
        """Parts of the newest snapshot; None before the first."""
        snapshot = self.poller.snapshot
        if snapshot is not None and (self._fragments is None or self._fragments.snapshot is not snapshot):
            self._fragments = Fragments(snapshot, self.context.names)
            self._paths = {}
            self._series.clear()
        return self._fragments

    async def path(self, flow_id: int | None) -> str:
        """Path of a flow, or (None) of the slowest one."""
        fragments, paths = self._fragments, self._paths
        if fragments is None:
            return ""
        if flow_id not in paths:
            paths[flow_id] = await self.context.draw(self._draw_path, fragments, flow_id)
        return paths[flow_id]

    def _draw_path(self, fragments: Fragments, flow_id: int | None) -> str:
        path, text = fragments.snapshot.slowest, "No live flow carries hop latencies."
        if flow_id is not None:
            rows, text = self.context.state.flows(), "This flow is no longer in the flow table."
            rows = rows[rows["flow_id"] == np.uint64(flow_id)]
            path = self.context.state.path_of(rows[0]) if len(rows) else None
        if path is None:
            return f'<p class="empty">{text}</p>'
        return fragments.path(path.flows[0], path.hops, self._quantiles(path))

    def _quantiles(self, path: FlowHops) -> dict[int, QuantileRange]:
        """Rank of the latest latency of a flow's hops among those of all packets there, by hop."""
        queues = Queues(self.context.state.distributions())
        shares = of_flow(path, queues) if queues.places() else []
        return {
            each.hop: each.quantile for each in shares if each.hop is not None and each.quantile is not None
        }

    def series(self, which: str, lines: tuple[Series, ...]) -> list[dict[str, Any]]:
        """Points of a chart: seconds before now, and the value."""
        if which not in self._series:
            points = self._fragments.snapshot.points if self._fragments else ()
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
        self.shown: Snapshot | None = None
        self.filled = False
        self.flow_id: int | None = None
        self.strip = "queues"
        self.measure = next(iter(TABS))
        self.node = -1
        self.drawn: tuple[object, str, int] = (None, "", -1)
        self.feed = "notable"
        self.panels: dict[str, ui.element] = {}
        """Panels that are folded away while they have no data, by their area."""

    async def build(self) -> None:
        """Lay the page out, and refresh it while it is open."""
        ui.add_css(_CSS)
        self.dark = ui.dark_mode(None)
        with ui.element("main").classes("page"):
            self._build_head()
            with self._panel("figs"):
                self.figures = ui.html("", sanitize=False).classes("figures")
            self.rate = self._chart("rate", "Rate", "per second", RATE)
            self.loss = self._chart("loss", "Report losses", "per second", LOSS)
            self.labels = LabelPanel(self._panel("labels"))
            self._build_losses()
            self._build_feed()
            self._build_strip()
            self._build_path()
            self.contributors = self._table(
                "contributors", "Top latency contributors", "by switch, port and queue"
            )
            self._build_histogram()
            self.flows = self._table("flow-panel", "Slowest flows", "by latest latency; click for the path")
            self.hops = self._table("hops", "Slowest hops", "on the 100 slowest flows")
            self.limits = self._table("lims", "Limits", "<code>hopscope limits set</code> changes them")
            self.folded = ui.html("", sanitize=False, tag="p").classes("folded")
        await self.refresh()
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
        panel = ui.element("section").classes(f"panel {area}")
        if area in FOLDED or area == "figs":
            self.panels[area] = panel
        return panel

    def _title(self, text: str, note: str = "") -> None:
        ui.html(f"<h2>{text}</h2>", sanitize=False, tag="span")
        if note:
            ui.html(note, sanitize=False, tag="small")

    def _chart(self, area: str, title: str, note: str, lines: tuple[Series, ...]) -> ui.echart:
        with self._panel(area):
            with ui.element("header"):
                self._title(title, note)
            return ui.echart(options(lines)).classes("chart")

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

        async def chosen(name: str) -> None:
            for other, tab in tabs.items():
                tab.classes(remove="on") if other != name else tab.classes(add="on")
            choose(name)
            self.shown = None
            await self.refresh()

        for name, tab in tabs.items():
            with tab:
                ui.html(name.capitalize(), sanitize=False, tag="span")
            tab.on("click", lambda name=name: chosen(name))
        tabs[names[0]].classes(add="on")

    def _build_losses(self) -> None:
        with self._panel("plac"):
            with ui.element("header"):
                self._title("Losses by place")
            with ui.element("div").classes("places"):
                self.lost = ui.html("", sanitize=False)
                self.dropped = ui.html("", sanitize=False)

    def _build_feed(self) -> None:
        with self._panel("feed"):
            with ui.element("header"):
                self._title("Events")
                self._tabs(("notable", "latest", "rejected"), lambda name: setattr(self, "feed", name))
            self.events = ui.html("", sanitize=False).classes("scroll")
        self.events.on("click", handler=self._choose, js_handler=_FLOW_OF_CLICK)

    def _build_strip(self) -> None:
        with self._panel("heat"):
            with ui.element("header"):
                self._title(
                    "Busiest queues",
                    "peak per half second, in the switches' units (links: often per mille)",
                )
                self._tabs(("queues", "buffers", "links"), lambda name: setattr(self, "strip", name))
            head = '<span></span><span></span><span class="n">now</span><span class="n">peak</span>'
            ui.html(head, sanitize=False).classes("strip-head")
            self.strips = ui.html("", sanitize=False)

    def _build_path(self) -> None:
        with self._panel("path"):
            with ui.element("header"):
                self._title("Path")
                self.path_note = ui.html("of the slowest flow", sanitize=False, tag="small")
                self.release = ui.element("button").classes("tab tabs").props("type=button")
                with self.release:
                    ui.html("Follow the slowest", sanitize=False, tag="span")
                self.release.on("click", lambda: self._follow(None))
                self.release.set_visibility(False)
            self.path = ui.html("", sanitize=False)

    def _build_histogram(self) -> None:
        with self._panel("dist"):
            with ui.element("header"):
                self._title("Distribution", "of all packets, logarithmic scale")
                self.switch = ui.html("", sanitize=False, tag="span")
                self.switch.on(
                    "change", handler=self._choose_switch, js_handler="(e) => emit(e.target.value)"
                )
                self._tabs(tuple(TABS), lambda name: setattr(self, "measure", name))
            self.histogram = ui.html("", sanitize=False)

    async def _choose_switch(self, event: events.GenericEventArguments) -> None:
        try:
            self.node = int(str(event.args))
        except ValueError:
            return  # not of this page
        self.shown = None
        await self.refresh()

    def _draw_histogram(self, snapshot: Snapshot) -> None:
        chosen = (self.measure, self.node)
        if snapshot.recently is self.drawn[0] and chosen == self.drawn[1:]:
            return
        self.drawn = (snapshot.recently, *chosen)
        self.switch.set_content(switches(snapshot.recently, self.drawing.context.names, self.node))
        self.histogram.set_content(histogram(snapshot.recently, TABS[self.measure], self.node))

    async def _choose(self, event: events.GenericEventArguments) -> None:
        try:
            await self._follow(int(str(event.args), 16) & 0xFFFFFFFFFFFFFFFF)
        except ValueError:
            return  # not of this page

    async def _follow(self, flow_id: int | None) -> None:
        self.flow_id = flow_id
        self.path_note.set_content("of the slowest flow" if flow_id is None else "of the chosen flow")
        self.release.set_visibility(flow_id is not None)
        self.shown = None
        await self.refresh()

    async def refresh(self) -> None:
        """Show the newest snapshot, unless it is shown already."""
        fragments = self.drawing.fragments()
        if fragments is None or fragments.snapshot is self.shown:
            return
        self.shown = fragments.snapshot
        for element, name in (
            (self.status, "status"),
            (self.figures, "figures"),
            (self.strips, f"strip:{self.strip}"),
            (self.events, self.feed),
            (self.lost, "lost"),
            (self.dropped, "dropped"),
            (self.flows, "flows"),
            (self.hops, "hops"),
            (self.folded, "folded"),
        ):
            element.set_content(fragments.get(name))
        self._draw_histogram(fragments.snapshot)
        self.labels.show(fragments)
        empty = fragments.empty_panels()
        for area, panel in self.panels.items():
            panel.set_visibility(area not in empty or (area == "path" and self.flow_id is not None))
        self.path.set_content(await self.drawing.path(self.flow_id))
        if fragments.snapshot.number % 2 or not self.filled:  # once per second: jumping rows cannot be read
            self.filled = True
            self.contributors.set_content(fragments.get("contributors"))
            self.limits.set_content(fragments.get("limits"))
            self.rate.run_chart_method("setOption", {"series": self.drawing.series("rate", RATE)})
            self.loss.run_chart_method("setOption", {"series": self.drawing.series("loss", LOSS)})

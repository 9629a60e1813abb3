"""The panel of labels, shown once labels arrive."""

from __future__ import annotations

from nicegui import ui

from ..fragments import Fragments
from .ports import coverage_options, coverage_series, note


class LabelPanel:
    """Coverage over time, the map of ports, and the paths of tracked flows."""

    def __init__(self, panel: ui.element) -> None:
        self._panel = panel
        self._panel.set_visibility(False)
        self._built = False

    def show(self, fragments: Fragments) -> None:
        """Draw a snapshot; the panel is built with the first one that has labels."""
        snapshot = fragments.snapshot.labels
        self._panel.set_visibility(snapshot is not None)
        if snapshot is None:
            return
        if not self._built:
            self._build()
        self._note.set_content(note(snapshot))
        self._map.set_content(fragments.get("labels"))
        self._paths.set_content(fragments.get("tracked"))
        if fragments.snapshot.number % 2 or not self._built:
            self._chart.run_chart_method("setOption", {"series": coverage_series(snapshot)})
        self._built = True

    def _build(self) -> None:
        with self._panel:
            with ui.element("header"):
                ui.html("<h2>Labels</h2>", sanitize=False, tag="span")
                self._note = ui.html("", sanitize=False, tag="small")
            with ui.element("div").classes("label-parts"):
                self._chart = ui.echart(coverage_options()).classes("chart")
                self._map = ui.html("", sanitize=False)
            self._paths = ui.html("", sanitize=False)

"""Counters and health of destinations."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from hopscope.base.names import Names
from hopscope.cli.top.view import TopView
from hopscope.export.counters import DestinationLabel, open_counters
from hopscope.present.collector_state import CollectorState
from hopscope.serve import prometheus
from hopscope.serve.readiness import exports
from hopscope.settings.serve import TopFlowSettings


def test_health_is_shown_everywhere(regions: Path) -> None:
    """Counters and health of every destination are in /metrics, /readyz and `hopscope top`."""
    folder = regions.parent
    places = [
        DestinationLabel("webhook", "http://a/b", "pager"),
        DestinationLabel("redis_state", "redis://***@c:1/0", "near"),
        DestinationLabel("redis_state", "redis://d:1/0", "far"),
    ]
    rows = open_counters(folder, places)["destinations"]
    rows["ok"], rows["since_ns"] = [1, 1, 0], 10**18
    rows["problem"][2], rows["expired_total"][2], rows["sent_total"] = b"refused", 1234, 5
    text = prometheus.render(
        CollectorState(folder), Names(), folder, folder / "direct", TopFlowSettings()
    ).decode()
    for line in (
        'hopscope_export_sent_total{destination="pager"} 5.0',
        'hopscope_export_up{destination="far"} 0.0',
        'hopscope_export_sent_total{destination="near"} 5.0',
        'hopscope_export_lost_total{destination="far",reason="expired"} 1234.0',
    ):
        assert line in text.splitlines()
    hook, first, second = exports(folder)
    assert (hook.name, hook.ready, hook.detail) == ("pager", True, "http://a/b, 0 lost")
    assert (first.name, first.detail) == ("near", "redis://***@c:1/0, 0 lost")
    assert (second.ready, second.detail) == (
        False,
        "redis://d:1/0, 1,234 lost (1,234 expired), failing since 2001-09-09T01:46:40Z: refused",
    )
    rows["ok"][2] = 1
    *_, second = exports(folder)
    assert second.ready
    assert "raise history.keep_days" in second.advice
    rows["ok"][2] = 0
    table = TopView(folder, Names(), SimpleNamespace())._counts()  # type: ignore[arg-type]
    cells = list(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert ("far", "1,234 lost", "5 sent, failing") in cells


def test_counters_go_on_when_destinations_change(regions: Path) -> None:
    """SIGHUP: those of a destination that stays do not begin again, wherever it is in the list; its place is
    the new one. Another kind of the same name is another destination.
    """
    pager, near, far = (
        DestinationLabel("webhook", f"http://{name}", name) for name in ("pager", "near", "far")
    )
    with open_counters(regions.parent, [pager, near]) as region:
        region["destinations"]["sent_total"] = 5, 7
    moved = near._replace(place="http://elsewhere")
    with open_counters(regions.parent, [far, moved, pager]) as region:
        rows = region["destinations"].copy()
        region["destinations"]["sent_total"][0] = 1
    assert rows["sent_total"].tolist() == [0, 7, 5]
    assert rows["place"].tolist() == [b"http://far", b"http://elsewhere", b"http://pager"]
    with open_counters(regions.parent, [pager, far._replace(kind="slack"), near]) as region:
        assert region["destinations"]["sent_total"].tolist() == [5, 0, 7]

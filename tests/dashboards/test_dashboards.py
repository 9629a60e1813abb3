"""Dashboards as files: what Grafana's types say of them, and where panels are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import units

from hopscope.dashboards.panel import Panel, Plot, Source
from hopscope.dashboards.provisioning import DASHBOARDS
from support.processes.command import hopscope

PANELS = [panel for dashboard in DASHBOARDS for panel in dashboard.panels]
UNITS = {value for name, value in vars(units).items() if name[0].isupper() and isinstance(value, str)}


@pytest.fixture(scope="module", params=Source)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Source, Path]:
    """The files for a kind of database, as the command writes them."""
    folder = tmp_path_factory.mktemp(request.param)
    given = [
        "--url",
        "https://db.example.net:8444",
        "--user",
        "grafana",
        "--page",
        "http://hopscope.example.net/",
    ]
    done = hopscope("dashboards", "--kind", request.param, "--to", str(folder), *given)
    assert sorted(done.stdout.splitlines()) == sorted(str(p) for p in folder.rglob("*") if p.is_file())
    return request.param, folder


def dashboards(written: tuple[Source, Path]) -> list[dict[str, Any]]:
    source, folder = written
    paths = sorted((folder / f"dashboards/hopscope-{source}").glob("*.json"))
    assert [path.stem for path in paths] == ["fabric", "flows", "health", "queues"]
    return [json.loads(path.read_text()) for path in paths]


def lost(found: Any, again: Any, at: str = "") -> Iterator[str]:
    """Where `again` lacks something of `found`; it may have defaults beside it."""
    if isinstance(found, dict) and isinstance(again, dict):
        for name, value in found.items():
            yield from lost(value, again.get(name), f"{at}/{name}")
    elif isinstance(found, list) and isinstance(again, list) and len(found) == len(again):
        for number, (before, after) in enumerate(zip(found, again, strict=True)):
            yield from lost(before, after, f"{at}/{number}")
    elif found != again:
        yield f"{at}: {found} {again}"


def test_they_fit_grafana_s_types(written: tuple[Source, Path]) -> None:
    """Read by the SDK's types and written again, nothing is missing: Grafana knows all that is in them."""
    register_default_plugins()
    for found in dashboards(written):
        if written[0] is not Source.PROMETHEUS:  # the SDK has no type for queries of the others
            for panel in found["panels"]:
                panel.pop("targets")
        again = json.loads(json.dumps(models.Dashboard.from_json(found).to_json(), cls=JSONEncoder))
        assert not list(lost(found, again))


def test_panels_fill_the_rows(written: tuple[Source, Path]) -> None:
    """Panels have numbers of their own, do not overlap, and leave no gap between the first and the last."""
    for found in dashboards(written):
        assert len({panel["id"] for panel in found["panels"]}) == len(found["panels"])
        taken: set[tuple[int, int]] = set()
        for panel in found["panels"]:
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & taken, panel["title"]
            taken |= cells
        assert {x for x, _ in taken} == set(range(24))
        assert len(taken) == 24 * len({y for _, y in taken}), found["title"]


def test_links_lead_somewhere(written: tuple[Source, Path]) -> None:
    """A flow's id leads to the dashboard of flows, by the identifier that it has, and to Hopscope."""
    found = dashboards(written)
    uids = {one["uid"] for one in found}
    assert len(uids) == 4
    links = [
        link["url"]
        for one in found for panel in one["panels"]
        for override in panel["fieldConfig"]["overrides"] if override["matcher"]["options"] == "flow"
        for each in override["properties"] if each["id"] == "links" for link in each["value"]
    ]  # fmt: skip
    assert links
    for link in links:
        if link.startswith("/d/"):
            assert re.match(r"/d/([\w-]+)\?var-flow=", link)[1] in uids  # type: ignore[index]
        else:
            assert link.startswith("http://hopscope.example.net/api/v0/events?flow=")


def test_the_provisioning_is_grafana_s(written: tuple[Source, Path]) -> None:
    """The data source has the address and the user; its password is in Grafana's environment."""
    source, folder = written
    (database,) = yaml.safe_load((folder / f"datasources/hopscope-{source}.yaml").read_text())["datasources"]
    (provider,) = yaml.safe_load((folder / f"dashboards/hopscope-{source}.yaml").read_text())["providers"]
    types = {dashboards(written)[0]["templating"]["list"][0]["query"]}
    assert types == {database["type"]}
    assert Path(provider["options"]["path"]) == folder / f"dashboards/hopscope-{source}"
    assert list(database["secureJsonData"].values()) == ["$HOPSCOPE_DATABASE_PASSWORD"]
    assert "grafana" in (
        database.get("user"),
        database.get("basicAuthUser"),
        database["jsonData"].get("username"),
    )
    assert database["url"] == "https://db.example.net:8444"
    if source is Source.CLICKHOUSE:
        about = database["jsonData"]
        assert (about["host"], about["port"], about["secure"]) == ("db.example.net", 8444, True)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_says_what_it_shows(panel: Panel) -> None:
    """Sentences for a reader, units that Grafana knows, a column for a table's value."""
    assert panel.about.endswith(".")
    assert panel.unit in UNITS
    assert panel.plot is not Plot.TABLE or panel.unit == "short" or panel.value
    assert all(panel.queries.values())

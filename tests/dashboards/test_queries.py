"""Every query of every panel is answered by a real database that has the demo's events and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hopscope.dashboards.panel import Source
from hopscope.dashboards.provisioning import URLS, write
from hopscope.dashboards.provisioning import Database as Described
from hopscope.export.block import EventBlock
from hopscope.export.databases.clickhouse import ClickHouse
from hopscope.export.databases.influx import Influx
from hopscope.export.destination import Context
from hopscope.export.metrics.influx import InfluxMetrics
from hopscope.export.metrics.remote_write import RemoteWrite
from hopscope.fabric.faults import FaultKind
from hopscope.history.files.journal_file import read_journals
from hopscope.settings.destinations.databases import ClickHouseSettings, InfluxMetricsSettings, InfluxSettings
from hopscope.settings.destinations.metrics import RemoteWriteSettings
from support.processes.demo_collector import ROUND_SECONDS, DemoCollector, demo_collector
from support.servers import grafana
from support.servers.clickhouse_server import ClickHouseToday
from support.servers.grafana import Asked, Database, Row, View
from support.servers.server_process import InfluxServer, PrometheusServer, ServerProcess, VictoriaMetrics
from support.waiting import eventually

SOURCES = {
    "prometheus": Source.PROMETHEUS,
    "victoriametrics": Source.PROMETHEUS,
    "influxdb": Source.INFLUXDB,
    "clickhouse": Source.CLICKHOUSE,
}


@dataclass(frozen=True)
class Filled:
    """A database with the demo in it, and the dashboards for it."""

    name: str
    source: Source
    database: Database
    folder: Path
    demo: DemoCollector
    view: View

    def asked(self, panel: str) -> Asked:
        """The first query of a panel."""
        return next(asked for asked in grafana.targets(self.folder) if asked.panel == panel)

    def rows(self, panel: str, view: View | None = None) -> list[Row]:
        """Its answer."""
        return self.database.ask(self.asked(panel), view or self.view)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoCollector]:
    with demo_collector(tmp_path_factory.mktemp("demo")) as made:
        yield made


@pytest.fixture(scope="module", params=SOURCES)
def filled(
    request: pytest.FixtureRequest,
    demo: DemoCollector,
    tool: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Filled]:
    name = request.param
    folder = tmp_path_factory.mktemp(name)
    server, database = _STARTED[name](tool, folder, demo)
    try:
        source = SOURCES[name]
        for _ in write(folder / "grafana", Described(source, URLS[source]), "http://127.0.0.1:8080"):
            pass
        view = View(demo.start_ns / 1e9 - 60, demo.end_ns / 1e9 + 1, ROUND_SECONDS)
        yield Filled(name, source, database, folder / f"grafana/dashboards/hopscope-{source}", demo, view)
        database.close()
    finally:
        server.kill()


def _context(demo: DemoCollector) -> Context:
    return Context("lab", "m1", demo.names, lambda *_: None)


def _block(demo: DemoCollector) -> EventBlock:
    events = read_journals(demo.folder)
    return EventBlock("m1", 0, int(events["sequence"][0]), int(events["sequence"][-1]), events)


def _send_metrics(destination: Any, demo: DemoCollector) -> None:
    destination.connect()
    for taken in demo.rounds:
        destination.send(taken)
    destination.close()


def _prometheus(tool: Any, folder: Path, demo: DemoCollector) -> tuple[ServerProcess, Database]:
    server = PrometheusServer(tool("prometheus"), folder)
    server.start()
    settings = RemoteWriteSettings(kind="remote_write", url=f"{server.url}/api/v1/write")
    _send_metrics(RemoteWrite(settings, _context(demo)), demo)
    return server, grafana.Prometheus(server.url)


def _victoria_metrics(tool: Any, folder: Path, demo: DemoCollector) -> tuple[ServerProcess, Database]:
    server = VictoriaMetrics(tool("victoria-metrics"), folder)
    server.start()
    settings = RemoteWriteSettings(kind="remote_write", url=f"{server.url}/api/v1/write")
    _send_metrics(RemoteWrite(settings, _context(demo)), demo)
    eventually(lambda: server.series("hopscope_flows"))
    return server, grafana.Prometheus(server.url)


def _influxdb(tool: Any, folder: Path, demo: DemoCollector) -> tuple[ServerProcess, Database]:
    server = InfluxServer(tool("influxd"), folder)
    server.start()
    given: dict[str, Any] = {"kind": "influxdb", "url": server.url, "api": 1}
    _send_metrics(InfluxMetrics(InfluxMetricsSettings(**given), _context(demo)), demo)
    events = Influx(InfluxSettings(**given), _context(demo))
    events.connect()
    events.send(_block(demo))
    events.close()
    return server, grafana.InfluxDB(server.url)


def _clickhouse(tool: Any, folder: Path, demo: DemoCollector) -> tuple[ServerProcess, Database]:
    pytest.importorskip("chdb")
    server = ClickHouseToday(folder)
    server.start()
    settings = ClickHouseSettings(kind="clickhouse", url=server.url, database="default")
    events = ClickHouse(settings, _context(demo))
    events.connect()
    events.send(_block(demo))
    events.close()
    return server, grafana.ClickHouse(server.url)


_STARTED = {
    "prometheus": _prometheus,
    "victoriametrics": _victoria_metrics,
    "influxdb": _influxdb,
    "clickhouse": _clickhouse,
}


def test_every_query_returns_data(filled: Filled) -> None:
    """With nothing chosen, there are rows with values for every query of every panel."""
    problems = []
    for asked in grafana.targets(filled.folder):
        try:
            rows = filled.database.ask(asked, filled.view)
            if not any(value not in (None, "") for row in rows for value in row.values()):
                problems.append(f"{asked.dashboard}: {asked.panel}: no data: {asked.target}")
        except AssertionError as error:
            problems.append(f"{asked.dashboard}: {asked.panel}: {error}")
    assert not problems, "\n".join(problems)


def place(row: Row) -> tuple[str, str]:
    """Switch and port of a row."""
    if "place" in row:
        node, _, port = row["place"].partition(" port ")
        return node, port
    return row.get("node_name") or row["node"], str(row.get("port_id") or row["port"])


def test_the_demo_s_faults_are_seen(filled: Filled) -> None:
    """The fullest queue is where the microburst was, drops are at the lossy port, the slow hop is among the
    slowest; numbers are those of the events.
    """
    places = {fault.kind: (fault.node_name, str(fault.number)) for fault in filled.demo.faults}
    (kinds,) = (one for one in filled.demo.rounds[-1].families if one.name == "hopscope_events")
    counted = {sample.labels["kind"]: sample.value for sample in kinds.samples}

    def highest(panel: str, column: str, count: int) -> list[tuple[str, str]]:
        rows = filled.rows(panel)
        name = column if column in rows[0] else "value"
        return [place(row) for row in sorted(rows, key=lambda row: -float(row[name]))[:count]]

    def number(panel: str) -> float:
        (row,) = filled.rows(panel)
        return float(next(value for name, value in row.items() if name != "time"))

    assert highest("Worst queues", "occupancy", 1) == [places[FaultKind.MICROBURST]]
    assert highest("Drop reports by place", "drops", 9) == [places[FaultKind.LOSSY_PORT]]
    assert places[FaultKind.SLOW_HOP] in highest("Slowest hops", "latency", 3)
    # Prometheus extrapolates increases
    assert number("Drop reports") == pytest.approx(counted["drop"], rel=0.1)
    assert number("Path changes") == pytest.approx(counted["path_change"], rel=0.1)
    assert number("Silent sources") == counted["silent"] > 0
    if filled.source is Source.INFLUXDB:  # a rate over time is what was counted
        drops = [row["sum"] for row in filled.rows("Events") if row["kind"] == "drop"]
        assert sum(drops) * ROUND_SECONDS == pytest.approx(counted["drop"])


def test_a_choice_narrows_the_answers(filled: Filled) -> None:
    """With one switch chosen, every query is still a query, and no other switch is in its answer."""
    variables = dict(grafana.variable_queries(filled.folder))
    texts = filled.database.values(variables["node"], filled.view)
    assert set(texts.values()) == set(filled.demo.names.nodes.values())
    node = next(fault for fault in filled.demo.faults if fault.kind is FaultKind.MICROBURST)
    chosen = [value for value, text in texts.items() if text == node.node_name]
    view = replace(filled.view, chosen={"node": chosen})
    assert str(node.number) in filled.database.values(variables["port"], view)
    view = replace(filled.view, chosen={"node": chosen, "port": [str(node.number)]})
    for asked in grafana.targets(filled.folder):
        rows = filled.database.ask(asked, view)
        if asked.dashboard == "queues":
            shown = {
                str(row.get("node_name") or row.get("node") or row.get("label", "").partition(" ")[0])
                for row in rows
            }
            assert shown <= {node.node_name}, f"{asked.panel}: {shown}"
        if asked.panel in ("Worst queues", "Queue occupancy, all queues", "Hop latency by port"):
            assert rows, asked.panel


def test_a_flow_has_its_hops(filled: Filled) -> None:
    """The slowest flow leads to its path and its hops."""
    if filled.source is Source.PROMETHEUS:
        return  # flows are no labels there
    slowest = filled.rows("Slowest flows")[0]
    view = replace(filled.view, chosen={"flow": [slowest["flow"]]})
    assert {row["flow"] for row in filled.rows("Slowest flows", view)} == {slowest["flow"]}
    nodes = {row["node"] for row in filled.rows("Hops of a flow", view)}
    paths = {str(row.get("nodes") or row["path"]) for row in filled.rows("Paths", view)}
    numbers = {name: str(number) for number, name in filled.demo.names.nodes.items()}
    known = nodes | {numbers[node] for node in nodes}
    assert nodes
    for path in paths:
        assert set(path.replace(" → ", ",").split(",")) <= known

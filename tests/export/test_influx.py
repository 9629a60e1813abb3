"""InfluxDB: events written by line protocol, read back by the server's own query language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from hopscope.base.names import Names
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, ClearReason, Kind, Metric
from hopscope.export.block import EventBlock
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.databases import duplicate_points
from hopscope.export.databases.influx import Influx
from hopscope.export.databases.line_protocol import IntCollectorEncoder, LineEncoder
from hopscope.export.destination import Context
from hopscope.export.metrics.destination import Round
from hopscope.export.metrics.influx import InfluxMetrics
from hopscope.export.sender import Sender
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.destinations.databases import InfluxMetricsSettings, InfluxSettings
from hopscope.wire.address import address
from support.events.event_make import Events, random_events
from support.servers.server_process import InfluxServer, VictoriaMetrics
from support.waiting import HANG_SECONDS, eventually

MAX = 2**63 - 1


@pytest.fixture
def server(tmp_path: Path, tool: Callable[[str], str]) -> Iterator[InfluxServer]:
    folder = tmp_path / "influx"
    folder.mkdir()
    made = InfluxServer(tool("influxd"), folder)
    made.start()
    yield made
    made.kill()


def sender(folder: Path, url: str, names: Names, **more: Any) -> tuple[Sender, Any]:
    """A sender of the data folder to a server, and its counters."""
    row = np.zeros(1, DESTINATION)
    about = DestinationRow(row)
    given = {"kind": "influxdb", "url": url, "api": 1, "begin": "oldest", "batch_seconds": 0.1, **more}
    context = Context("lab", "m1", names, about.count)
    return Sender(Influx(InfluxSettings(**given), context), folder, about), row


def expected(event: np.void, names: Names) -> dict[str, Any]:
    """What the database has of an event, written down field by field."""
    row = {name: event[name].item() for name in event.dtype.names or () if name != "path"}
    found: dict[str, Any] = {
        "time": row["time_ns"],
        "collector": "m1",
        "shard": str(row["shard"]),
        "sequence": row["sequence"],
        "kind": Kind(row["kind"]).label,
        "metric": Metric(row["metric"]).label,
    }
    if row["node_id"] != NO_NODE:
        found["node"] = names.node(row["node_id"]) or str(row["node_id"])
        found["node_id"] = str(row["node_id"])
        if row["port"] != NO_PORT:
            found["port"] = names.port(row["node_id"], row["port"]) or str(row["port"])
            found["port_id"] = str(row["port"])
    dropped = row["kind"] in (Kind.DROP, Kind.QUEUE_REPORT) and (row["ident"] or row["value"])
    if dropped or row["metric"] in (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION, Metric.BUFFER_OCCUPANCY):
        found["queue"] = str(row["ident"])
    if row["metric"] == Metric.FLOW_PATH and row["kind"] != Kind.FLOW_RECORD:
        found["value_hash"], found["previous_hash"] = f"{row['value']:016x}", f"{row['previous']:016x}"
    else:
        found["value"], found["previous"] = min(row["value"], MAX), min(row["previous"], MAX)
    if row["flow_id"]:
        found["flow"] = f"{row['flow_id']:016x}"
        found["src"], found["dst"] = (
            address(row[f"{side}_hi"], row[f"{side}_lo"]) for side in ("src", "dst")
        )
        found |= {name: row[name] for name in ("sport", "dport", "proto")}
    if row["metric"] == Metric.HOP_LATENCY:
        found["hop"] = row["hop"]
    if row["kind"] == Kind.CLEARED:
        found["reason"] = ClearReason(row["reason"]).label
    if row["switch_ns"]:
        found["switch_ns"] = row["switch_ns"]
    return found


def made(count: int) -> Events:
    """Events as a collector has them: many at the same time, paths of at most eight nodes."""
    events = random_events(count, seed=9)
    events["time_ns"] = 1_700_000_000_000_000_000 + np.arange(count) // 7 * 1_000
    events["hop_count"] %= 9
    events["switch_ns"][::5] = 12345678901234567
    return events


def test_every_value_is_read_back(tmp_path: Path, server: InfluxServer) -> None:
    """Every event is in the database once, with every value and the time in ns, although many have the same
    time and tags; also those that came while the server was killed.
    """
    names = Names({1: "leaf 1, rack=7", 2: 'a"b\\', 3: "größe\n"}, {(1, 2): "to=spine"})
    shown = Names({1: "leaf 1, rack=7", 2: 'a"b', 3: "größe"}, {(1, 2): "to=spine"})
    events = made(6000)
    data = tmp_path / "data"
    with JournalWriter(data, 2) as writer:
        one, row = sender(data, server.url, names, batch_events=500)
        one.start()
        for at in range(0, 3000, 300):
            writer.append(events[at : at + 300])
        eventually(lambda: row["events_total"][0] == 3000)
        server.kill()
        writer.append(events[3000:])
        eventually(lambda: row["retried_total"][0] > 0)
        server.start()
        eventually(lambda: row["events_total"][0] == 6000)
        one.finish()
        assert one.ended(HANG_SECONDS)
    found = server.query("SELECT * FROM int_event", "hopscope")
    rows = {
        int(str(each["sequence"])): {
            key: value for key, value in each.items() if value is not None and key not in ("n", "path")
        }
        for each in found
    }
    assert len(found) == len(rows) == 6000
    for event in events:
        assert rows[int(event["sequence"])] == expected(event, shown)
    paths = {int(str(each["sequence"])): each["path"] for each in found if each["path"] is not None}
    for event in events:
        if event["metric"] == Metric.FLOW_PATH or event["kind"] == Kind.LOOP:
            nodes = event["path"][: int(event["hop_count"])]
            assert paths.pop(int(event["sequence"])) == ",".join(map(str, nodes))
    assert not paths


def test_victoria_metrics(tmp_path: Path, tool: Callable[[str], str]) -> None:
    """Both versions of the API: numbers arrive, with their tags as labels, at their time in ms."""
    folder, data = tmp_path / "victoria", tmp_path / "data"
    folder.mkdir()
    events = made(300)
    events["kind"], events["metric"], events["node_id"] = Kind.RAISED, Metric.HOP_LATENCY, 1
    events["time_ns"] = 1_700_000_000_000_000_000 + np.arange(len(events)) * 1_000_000
    with JournalWriter(data, 0) as writer:
        writer.append(events)
    server = VictoriaMetrics(tool("victoria-metrics"), folder)
    server.start()
    try:
        for api in (1, 2):
            one, row = sender(data, server.url, Names({1: "leaf, 1"}), api=api, create=False, begin="oldest")
            one.start()
            eventually(lambda row=row: row["events_total"][0] == len(events))  # type: ignore[misc]
            one.finish()
            assert one.ended(HANG_SECONDS)
            (data / "export" / "lab.positions").unlink()
        series = server.series('int_event_value{kind="raised",node="leaf, 1",metric="hop_latency"}')
        found = {
            time: value
            for each in series
            for time, value in zip(each["timestamps"], each["values"], strict=True)
        }
        assert found == dict(zip((events["time_ns"] // 1_000_000).tolist(), range(300), strict=True))
    finally:
        server.kill()


def test_metrics(server: InfluxServer) -> None:
    """Ports, queues and hops are measurements of their own, with numbers and names of switches as tags."""
    queue = GaugeMetricFamily("hopscope_queue_occupancy", "", labels=["node", "node_name", "queue", "port"])
    queue.add_metric(["1", 'leaf 1, "x=', "3", "2"], 70)
    queue.add_metric(["2", "", "0", ""], 5)
    highest = GaugeMetricFamily(
        "hopscope_queue_occupancy_highest", "", labels=["node", "node_name", "queue", "port"]
    )
    highest.add_metric(["2", "", "0", ""], 9)
    drops = CounterMetricFamily("hopscope_drops", "", labels=["node", "node_name", "port", "port_name"])
    drops.add_metric(["1", "leaf", "2", "to spine"], 4)
    hops = HistogramMetricFamily("hopscope_hop_latency_seconds", "", labels=["node"])
    hops.add_metric(["1"], [("0.5", 1), ("+Inf", 3)], 4.5)
    other = GaugeMetricFamily("hopscope_flows", "", value=12)
    other.add_metric([], float("nan"))
    row = np.zeros(1, DESTINATION)
    settings = InfluxMetricsSettings(kind="influxdb", url=server.url, api=1)
    one = InfluxMetrics(settings, Context("lab", "m1", Names(), DestinationRow(row).count))
    one.connect()
    one.send(Round(1_700_000_000_123, [queue, highest, drops, hops, other]))
    one.close()
    assert row["bytes_total"][0] > 0

    def asked(measurement: str) -> list[dict[str, Any]]:
        rows = server.query(f"SELECT * FROM {measurement}", "hopscope")
        return [{key: value for key, value in each.items() if value is not None} for each in rows]

    about = {"time": 1_700_000_000_123_000_000, "collector": "m1"}
    first = {"node": 'leaf 1, "x=', "node_id": "1", "queue": "3", "port": "2", "port_id": "2"}
    second = {"node": "2", "node_id": "2", "queue": "0", "occupancy": 5, "occupancy_highest": 9}
    found = sorted(asked("int_queue"), key=lambda each: str(each["node_id"]))
    assert found == [about | first | {"occupancy": 70}, about | second]
    port = {"node": "leaf", "node_id": "1", "port": "to spine", "port_id": "2", "drops_total": 4}
    assert asked("int_port") == [about | port]
    hop = [each for each in asked("int_hop") if "le" not in each]
    sums = {"latency_seconds_count": 3, "latency_seconds_sum": 4.5}
    assert hop == [about | {"node": "1", "node_id": "1"} | sums]
    assert asked("hopscope") == [about | {"flows": 12}]


def of_few_times(n: int, span: int) -> Any:
    """Records of flows as they expire: those of one time are far apart, but within `span` events."""
    events = random_events(n, seed=2)
    events["time_ns"] = events["time_ns"][0] + np.arange(n) // span * 10 + np.arange(n) * 7919 % 10
    events["kind"], events["metric"] = Kind.FLOW_RECORD, Metric.FLOW_LATENCY
    events["node_id"] = np.where(np.arange(n) % 3 == 0, NO_NODE, 1)
    events["sequence"] = np.arange(n)
    return events


def test_events_of_one_time_in_other_blocks_replace_none(tmp_path: Path, server: InfluxServer) -> None:
    """All are in the database, also those that another sender sent."""
    data, events = tmp_path / "data", of_few_times(3000, 3000)
    with JournalWriter(data, 2) as writer:
        for at in (0, 1700):
            one, row = sender(data, server.url, Names(), batch_events=50)
            writer.append(events[at : 1700 if at == 0 else None])
            one.start()
            eventually(lambda at=at, row=row: row["events_total"][0] == (1700 if at == 0 else 1300))
            one.finish()
            assert one.ended(HANG_SECONDS)
    found = server.query("SELECT sequence FROM int_event", "hopscope")
    assert sorted(int(str(each["sequence"])) for each in found) == list(range(3000))


@pytest.mark.parametrize("window", [128, duplicate_points.WINDOW])
def test_twins_are_counted_alike_by_every_process(monkeypatch: pytest.MonkeyPatch, window: int) -> None:
    """No two points are the same one if those of one time are within a window; a block that is sent again
    makes the same points, and so does a process that was shown what came before.
    """
    monkeypatch.setattr(duplicate_points, "WINDOW", window)
    events = of_few_times(1000, min(window, 700))

    def blocks(begin: int, end: int, size: int) -> list[EventBlock]:
        cuts = [*range(begin, end, size), end]
        return [EventBlock("m", 0, a, b - 1, events[a:b]) for a, b in pairwise(cuts)]

    one, points = LineEncoder(Names(), "m"), []
    for block in blocks(0, 1000, 70):
        body = one.encode(block)
        assert one.encode(block) == body
        points += [(*line.split(" ")[::2],) for line in body.decode().splitlines()]
        other = LineEncoder(Names(), "m")
        for earlier in blocks(max(0, block.first - 2 * window), block.first, 33):
            other.recall(earlier)
        assert other.encode(block) == body
    assert len(set(points)) == len(points) == 1000


def test_destinations_with_filters_of_their_own_replace_no_points(tmp_path: Path) -> None:
    """An event is the same point whichever destination sends it, also one that wanted none of the events
    before; no two events are one point.
    """
    data, events = tmp_path / "data", of_few_times(600, 600)
    events["node_id"], events["port"], events["metric"] = 7, 2, Metric.HOP_LATENCY
    events["flow_id"], events["ip_version"], events["src_hi"], events["dst_hi"] = 1, 4, 0, 0
    events["src_lo"], events["dst_lo"] = 0xFFFF_0A00_0000, 0xFFFF_0A09_0000
    events["src_lo"][::3] += np.uint64(0x10000)
    events["src_lo"][:200] = 0xFFFF_0A00_0000
    with JournalWriter(data, 0) as writer:
        writer.append(events)

    def points(*prefixes: str) -> dict[int, str]:
        sent: list[bytes] = []
        one, row = sender(data, "http://127.0.0.1:9/", Names(), prefixes=prefixes, batch_events=50)
        one.destination.connect = lambda: None  # type: ignore[method-assign]
        encode = one.destination._encoder.encode  # type: ignore[attr-defined]
        one.destination.send = lambda block: sent.append(encode(block))  # type: ignore[method-assign]
        one.start()
        eventually(lambda: row["events_total"][0] + row["filtered_total"][0] == 600)
        one.finish()
        assert one.ended(HANG_SECONDS)
        (data / "export" / "lab.positions").unlink()
        lines = (line.split(" ") for line in b"".join(sent).decode().splitlines())
        return {
            int(values.split(",")[0].removeprefix("sequence=").removesuffix("i")): f"{tags} {time}"
            for tags, values, time in lines
        }

    all_, first, second = points(), points("10.0.0.0/16"), points("10.1.0.0/16")
    assert len(set(all_.values())) == 600
    assert first | second == all_
    assert min(len(first), len(second)) > 100


def test_what_a_database_rejects_is_counted(tmp_path: Path, server: InfluxServer) -> None:
    """A block that the server rejects is counted as failed, and the next one is sent."""
    data = tmp_path / "data"
    with JournalWriter(data, 0) as writer:
        one, row = sender(data, server.url, Names(), batch_events=10)
        writer.append(made(10))
        one.start()
        eventually(lambda: row["events_total"][0] == 10)
        client = one.destination._encoder  # type: ignore[attr-defined]
        encode, client.encode = client.encode, lambda block: b"int_event value= 1"
        writer.append(made(10))
        eventually(lambda: row["failed_total"][0] == 10)
        assert b"status 400" in row["problem"][0]
        client.encode = encode
        writer.append(made(10))
        eventually(lambda: row["events_total"][0] == 20)
        one.finish()
        assert one.ended(HANG_SECONDS)


def test_measurements_of_intcollector() -> None:
    """With its naming, the lines are those that its exporter writes, escaped as InfluxDB's client does."""
    events = np.zeros(6, EVENT)
    events["time_ns"], events["kind"], events["value"] = 5, Kind.NEW_KEY, [9, 400, 4, 30, 2, 1]
    events["metric"] = [
        *(Metric.FLOW_PATH, Metric.FLOW_LATENCY, Metric.HOP_LATENCY, Metric.QUEUE_OCCUPANCY),
        *(Metric.QUEUE_CONGESTION, Metric.LINK_UTILIZATION),
    ]
    events["src_lo"], events["dst_lo"] = 0xFFFF0A000001, 0xFFFF0A000002
    events["sport"] = events["dport"] = 5000
    events["proto"], events["node_id"], events["port"], events["ident"] = 17, 4, 3, 2
    events["path"][:, :3], events["hop_count"] = [4, 5, 6], 3
    assert IntCollectorEncoder().encode(EventBlock("m", 0, 0, 5, events)).decode().splitlines() == [
        'flow_stat\\,10.0.0.1:5000->10.0.0.2:5000\\,proto=17 path="4:5:6" 5',
        "flow_stat\\,10.0.0.1:5000->10.0.0.2:5000\\,proto=17 flow_latency=400i 5",
        "flow_hop_latency\\,10.0.0.1:5000->10.0.0.2:5000\\,proto=17\\,sw_id=4 value=4i 5",
        "queue_occupancy\\,sw_id=4\\,queue_id=2 value=30i 5",
        "queue_congestion\\,sw_id=4\\,queue_id=2 value=2i 5",
        "port_tx_utilize\\,sw_id=4\\,port_id=3 value=1i 5",
    ]
    events["kind"] = Kind.RAISED
    assert not IntCollectorEncoder().encode(EventBlock("m", 0, 0, 5, events))


@settings(deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_names_cannot_break_a_line(node: str, port: str) -> None:
    """Whatever a name has in it, a block has a line for each event, with the same tags and fields."""
    events = np.zeros(2, EVENT)
    events["node_id"], events["port"], events["kind"], events["metric"] = (
        7,
        3,
        Kind.RAISED,
        Metric.HOP_LATENCY,
    )
    block = EventBlock("m", 0, 0, 1, events)
    lines = LineEncoder(Names({7: node}, {(7, 3): port}), "m").encode(block).decode().split("\n")
    assert lines.pop() == ""
    for line in lines:
        head, fields, time = unescaped(line, " ")
        assert time == "0"
        assert [unescaped(part, "=")[0] for part in unescaped(head, ",")[1:8]] == [
            *("collector", "kind", "metric", "node", "node_id", "port", "port_id"),
        ]
        assert fields.startswith("sequence=0i,value=0i")
    assert len(lines) == 2


def unescaped(text: str, separator: str) -> list[str]:
    """Parts between separators that have no backslash before them, as InfluxDB reads a line."""
    parts: list[str] = []
    part, at = "", 0
    while at < len(text):
        if text[at] == "\\" and at + 1 < len(text):
            part, at = part + text[at : at + 2], at + 2
        elif text[at] == separator:
            parts, part, at = [*parts, part], "", at + 1
        else:
            part, at = part + text[at], at + 1
    return [*parts, part]

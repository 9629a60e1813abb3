"""ClickHouse: events written as RowBinary, read back by SQL: Debian's server, and today's engine."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import NO_PORT, ClearReason, Kind, Metric
from hopscope.export.block import EventBlock
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.databases.clickhouse import ClickHouse
from hopscope.export.databases.clickhouse_schema import migrations
from hopscope.export.destination import Context, DeliveryError
from hopscope.export.sender import Sender
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.destinations.databases import ClickHouseSettings
from support.events.event_make import Events, random_events
from support.events.event_rows import guide_statements
from support.servers.clickhouse_server import ClickHouse as Server
from support.servers.clickhouse_server import ClickHouseServer, ClickHouseToday
from support.waiting import HANG_SECONDS, eventually


@pytest.fixture(scope="module", params=["debian", "today"])
def server(
    request: pytest.FixtureRequest, tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "debian":
        made: Server = ClickHouseServer(tool("clickhouse-server"), folder)
    else:
        pytest.importorskip("chdb")
        made = ClickHouseToday(folder)
    made.start()
    yield made
    made.kill()


def destination(
    server: Server, count: Callable[[str, int], None] = lambda *_: None, **more: Any
) -> ClickHouse:
    """A destination at the server; `names` and `member` are those of its context."""
    names, member = more.pop("names", Names()), more.pop("member", "m1")
    values = {"kind": "clickhouse", "url": server.url, "begin": "oldest", "batch_seconds": 0.1, **more}
    context = Context("lab", member, names, count)
    return ClickHouse(ClickHouseSettings(**values), context)


def made(count: int) -> Events:
    """Events of two minutes, as a collector has them, some with the highest values."""
    events = random_events(count, seed=9)
    events["time_ns"] = 1_700_000_040_000_000_001 + np.arange(count) * (120 * 10**9 // count)
    events["switch_ns"][::5] = 2**64 - 2
    events["value"][::7] = 2**64 - 1
    events["reason"] = np.where(events["kind"] == Kind.CLEARED, events["sequence"] % 6, 0)
    return events


def expected(event: np.void) -> dict[str, Any]:
    """What the database has of an event, written down field by field."""
    row = {name: event[name].item() for name in event.dtype.names or () if name != "path"}
    has_path = row["metric"] == Metric.FLOW_PATH or row["kind"] == Kind.LOOP
    nodes: list[int] = event["path"][: max(0, row["hop_count"] - row["hop"])].tolist() if has_path else []
    return {
        "time": row["time_ns"],
        "kind": Kind(row["kind"]).label,
        "metric": Metric(row["metric"]).label,
        "reason": ClearReason(row["reason"]).label,
        **{side: (row[f"{side}_hi"] << 64 | row[f"{side}_lo"]) for side in ("src", "dst")},
        "path": nodes,
        "collector": "m1",
        **{
            name: row[name]
            for name in (
                *("node_id", "port", "ident", "value", "previous", "switch_ns", "flow_id", "sport", "dport"),
                *("proto", "ip_version", "hop", "hop_count", "shard", "sequence"),
            )
        },
    }


def read(server: Server, database: str) -> dict[int, dict[str, Any]]:
    """The events of a database by sequence."""
    modern = isinstance(server, ClickHouseToday)
    time = "toUnixTimestamp64Nano(time)" if modern else "time"
    address = "hex(IPv6StringToNum(toString({0})))" if modern else "hex({0})"
    found = {}
    for row in server.query(
        f"SELECT *, {time} AS time_ns, {address.format('src')} AS s, {address.format('dst')} AS d"
        f" FROM {database}.int_event FINAL"
    ):
        row["time"] = int(row.pop("time_ns"))
        row["src"], row["dst"] = int(row.pop("s"), 16), int(row.pop("d"), 16)
        row = {
            name: int(value) if isinstance(value, str) and name not in TEXTS else value
            for name, value in row.items()
        }
        assert row["sequence"] not in found
        found[row["sequence"]] = row
    return found


TEXTS = ("kind", "metric", "reason", "collector")


def test_every_value_is_read_back(tmp_path: Path, server: Server) -> None:
    """Every event is in the database once, with every value, also those that came while the server was
    killed; the roll-ups have their number, highest value and quantiles.
    """
    events = made(6000)
    data, row = tmp_path / "data", np.zeros(1, DESTINATION)
    with JournalWriter(data, 2) as writer:
        events["shard"] = 2
        about = DestinationRow(row)
        one = destination(server, about.count, batch_events=500)
        sender = Sender(one, data, about)
        sender.start()
        writer.append(events[:3000])
        eventually(lambda: row["events_total"][0] == 3000)
        server.kill()
        writer.append(events[3000:])
        eventually(lambda: row["retried_total"][0] > 0)
        server.start()
        eventually(lambda: row["events_total"][0] == 6000, lambda: bytes(row["problem"][0]))
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    found = read(server, "hopscope")
    assert len(found) == 6000
    for event in events:
        assert found[int(event["sequence"])] == expected(event)
    minutes = server.query(
        "SELECT toUnixTimestamp(minute) AS start, kind, metric, sum(events) AS events,"
        " max(highest) AS highest"
        " FROM hopscope.int_minute GROUP BY minute, kind, metric"
    )
    for each in minutes:
        of = events[
            (events["time_ns"] // (60 * 10**9) * 60 == int(each["start"]))
            & (events["kind"] == Kind[each["kind"].upper()])
            & (events["metric"] == Metric[each["metric"].upper()])
        ]
        assert (int(each["events"]), int(each["highest"])) == (len(of), int(of["value"].max()))
    assert sum(int(each["events"]) for each in minutes) == 6000
    for statement in guide_statements("ClickHouse"):
        server.query(statement)


def test_a_copy_of_a_block_is_there_once(server: Server) -> None:
    """A block that is sent again: once in the events, and with a server of today once in the roll-ups; a
    block of the same numbers at another time, of a new data folder, is kept.
    """
    one = destination(server, database="copies")
    one.connect()
    events = made(100)
    block = EventBlock("m1", 0, 0, 99, events)
    for _ in range(3):
        one.send(block)
    (count,) = server.query("SELECT count() AS n FROM copies.int_event FINAL")
    assert int(count["n"]) == 100
    if isinstance(server, ClickHouseToday):
        (rolled,) = server.query("SELECT sum(events) AS n FROM copies.int_minute")
        (stored,) = server.query("SELECT count() AS n FROM copies.int_event")
        assert (int(rolled["n"]), int(stored["n"])) == (100, 100)
    later = events.copy()
    later["time_ns"] += 1
    one.send(EventBlock("m1", 0, 0, 99, later))
    (count,) = server.query("SELECT count() AS n FROM copies.int_event FINAL")
    assert int(count["n"]) == 200
    one.close()


def test_migrations_are_applied_once(server: Server) -> None:
    """Connecting again changes nothing; a TTL is set where there is one, and deletes old events."""
    for _ in range(2):
        one = destination(server, database="twice")
        one.connect()
        one.close()
    applied = server.query("SELECT number FROM twice.int_migration ORDER BY number")
    assert [int(row["number"]) for row in applied] == [1, 2]
    lasting = destination(server, database="twice", ttl_days=30, minute_ttl_days=365)
    if not isinstance(server, ClickHouseToday):
        with pytest.raises(DeliveryError, match="has no TTL"):
            lasting.connect()
        lasting.close()
        return
    for _ in range(2):
        lasting.connect()
    lasting.send(EventBlock("m1", 0, 0, 9, recent(10)))
    lasting.send(EventBlock("m1", 0, 10, 19, made(10)))  # of 2023
    lasting.close()
    server.query("OPTIMIZE TABLE twice.int_event FINAL SETTINGS optimize_skip_merged_partitions = 0")
    (count,) = server.query("SELECT count() AS n FROM twice.int_event")
    assert int(count["n"]) == 10
    (table,) = server.query(
        "SELECT engine_full FROM system.tables WHERE database = 'twice' AND name = 'int_event_minute'"
    )
    assert "toDateTime(minute) + toIntervalDay(365)" in table["engine_full"]


def recent(count: int) -> Events:
    events = made(count)
    events["time_ns"] = int(datetime.now(UTC).timestamp()) * 10**9 + np.arange(count)
    return events


_NODES = itertools.count(1)


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    node=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
    | st.sampled_from(["'; DROP TABLE int_event; --", "`x`\\'\"", "\n\t\0", "ü" * 4096]),
    port=st.text(st.characters(codec="utf-8"), max_size=60),
)
def test_names_are_kept_as_they_are(server: Server, node: str, port: str) -> None:
    """Whatever a name has in it, the database has it."""
    number = next(_NODES)
    one = destination(server, database="names", names=Names({number: node}, {(number, 3): port}))
    one.connect()
    one.close()
    rows = server.query(f"SELECT port, hex(name) AS name FROM names.int_name WHERE node_id = {number}")
    found = {int(row["port"]): bytes.fromhex(row["name"]).decode() for row in rows}
    assert found == {NO_PORT: node, 3: port}


def test_what_keeps_it_from_connecting_is_named() -> None:
    """An address where nothing answers, and a password that is not where it should be."""
    context = Context("lab", "m1", Names(), lambda *_: None)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"url": "http://127.0.0.1:1"}, "ConnectError"),
        ({"password": "env:HOPSCOPE_NO_SUCH_VARIABLE"}, "no environment variable"),
    )
    for values, problem in cases:
        one = ClickHouse(ClickHouseSettings(kind="clickhouse", **values), context)
        with pytest.raises(DeliveryError, match=problem):
            one.connect()
        one.close()


def test_a_released_migration_never_changes() -> None:
    """Whoever has applied a migration does not get it again: what a new kind of event, metric or column needs
    is a further migration.
    """
    released = [
        hashlib.sha256(";".join(statements).encode()).hexdigest()[:16]
        for modern in (False, True)
        for statements in migrations("db", modern)
    ]
    assert released == ["85e4c163758d4e27", "a78c802556c51ebf", "441d10a996e84de9", "a78c802556c51ebf"]

"""PostgreSQL: events by binary COPY, read back by psql."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import NO_PORT, Kind, Metric
from hopscope.export.block import EventBlock
from hopscope.export.databases.postgres import Postgres
from hopscope.export.databases.postgres_schema import migrations
from hopscope.export.destination import Context, DeliveryError
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.destinations.databases import PostgresSettings
from support.events.event_rows import guide_statements, history_row, table_sender, two_minutes
from support.servers.postgres_server import PostgresServer
from support.waiting import HANG_SECONDS, eventually


@pytest.fixture(scope="module")
def server(tool: Callable[..., str]) -> Iterator[PostgresServer]:
    folder = Path(tempfile.mkdtemp(prefix="hopscope-postgres-"))
    folder.chmod(0o755)
    made = PostgresServer(tool, folder)
    made.start()
    made.run("CREATE DATABASE hopscope", "postgres")
    yield made
    made.kill()
    shutil.rmtree(folder, ignore_errors=True)


def destination(server: PostgresServer, schema: str, names: Names | None = None, **more: Any) -> Postgres:
    """A connected destination."""
    values = {"kind": "postgres", "port": server.port, "schema_name": schema, **more}
    one = Postgres(PostgresSettings(**values), Context("lab", "m1", names or Names(), lambda *_: None))
    one.connect()
    return one


def test_every_value_is_read_back(tmp_path: Path, server: PostgresServer) -> None:
    """Every event is in the database once, with every value, also those that came while the server was
    killed; there is a partition for each day.
    """
    events, data = two_minutes(4000, shard=2), tmp_path / "data"
    events["time_ns"] += 3600 * 10**9  # around midnight
    with JournalWriter(data, 2) as writer:
        sender, row = table_sender(data, "postgres", port=server.port, batch_events=500)
        sender.start()
        writer.append(events[:2000])
        eventually(lambda: row["events_total"][0] == 2000, lambda: bytes(row["problem"][0]))
        server.kill()
        writer.append(events[2000:])
        eventually(lambda: row["retried_total"][0] > 0)
        server.start()
        eventually(lambda: row["events_total"][0] == 4000, lambda: bytes(row["problem"][0]))
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    micros = "(extract(epoch FROM time) * 1000000)::bigint AS micros"
    found = server.query(f"SELECT *, {micros} FROM hopscope.int_event")
    rows = {row["sequence"]: row for row in found}
    assert len(found) == len(rows) == 4000
    for event in events:
        row = rows[int(event["sequence"])]
        expected = history_row(event) | {"collector": "m1", "time_ns": event["time_ns"]}
        assert {name: row[name] for name in expected} == expected
        assert row["micros"] == event["time_ns"] // 1000
    parts = server.run(
        "SELECT tableoid::regclass, count(*) FROM hopscope.int_event GROUP BY 1 ORDER BY 1::text"
    )
    assert sorted(parts.split()) == ["int_event_20231114|2000", "int_event_20231115|2000"]

    for statement in guide_statements("PostgreSQL and TimescaleDB"):
        server.run(statement)
    assert server.run("SELECT count(*) FROM hopscope.int_event") == "2000\n"  # the last one drops a day


def test_a_copy_of_a_block_is_not_written(server: PostgresServer) -> None:
    """A block that is sent again is there once; one of the same numbers, of a new data folder, is kept."""
    one = destination(server, "copies")
    events = two_minutes(100)
    for _ in range(3):
        one.send(EventBlock("m1", 0, 0, 99, events))
    assert server.run("SELECT count(*) FROM copies.int_event") == "100\n"
    later = events.copy()
    later["time_ns"] += 1
    one.send(EventBlock("m1", 0, 0, 99, later))
    assert server.run("SELECT count(*) FROM copies.int_event") == "200\n"
    one.close()


def test_migrations_are_applied_once(server: PostgresServer) -> None:
    """Connecting again changes nothing, and a server with TimescaleDB is asked for a hypertable.

    Debian has no TimescaleDB: a function of that name stands in for it.
    """
    for _ in range(2):
        destination(server, "twice").close()
    assert server.query("SELECT number FROM twice.int_migration") == [{"number": 1}]
    server.run("CREATE DATABASE scale", "postgres")
    server.run("CREATE TABLE asked (relation regclass, field name, chunk interval)", "scale")
    server.run(
        "CREATE FUNCTION create_hypertable(relation regclass, field name, chunk_time_interval interval)"
        " RETURNS void LANGUAGE sql AS 'INSERT INTO asked VALUES ($1, $2, $3)'",
        "scale",
    )
    for _ in range(2):
        one = destination(server, "hopscope", database="scale")
        one.send(EventBlock("m1", 0, 0, 99, two_minutes(100)))
        one.close()
    assert server.run("SELECT * FROM asked", "scale") == "int_event|time|1 day\n"
    assert server.run("SELECT count(*) FROM hopscope.int_event", "scale") == "100\n"


_NODES = itertools.count(1)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    node=st.text(st.characters(codec="utf-8"), min_size=1, max_size=60)
    | st.sampled_from(["'; DROP TABLE int_event; --", ":name `x`\\'\"", "\n\t", "ü" * 4096]),
    port=st.text(st.characters(codec="utf-8"), max_size=60),
)
def test_names_are_kept_as_they_are(server: PostgresServer, node: str, port: str) -> None:
    """Whatever a name has in it, the database has it, but for NUL, which no text there has."""
    number = next(_NODES)
    destination(server, "names", Names({number: "old"})).close()
    destination(server, "names", Names({number: node}, {(number, 3): port})).close()
    rows = server.query(f"SELECT port, name FROM names.int_name WHERE node_id = {number}")
    found = {row["port"]: row["name"] for row in rows}
    assert found == {NO_PORT: node.replace("\0", "\ufffd"), 3: port.replace("\0", "\ufffd")}


def test_what_keeps_it_from_connecting_is_named(server: PostgresServer) -> None:
    """An address where nothing answers, a missing database, a password that is not where it should be."""
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"port": 1}, "Can't create a connection"),
        ({"database": "missing"}, 'database "missing" does not exist'),
        ({"password": "env:HOPSCOPE_NO_SUCH_VARIABLE"}, "no environment variable"),
        ({"tls": True}, "SSL"),
    )
    for values, problem in cases:
        with pytest.raises(DeliveryError, match=problem) as raised:
            destination(server, "x", **values)
        assert raised.value.again


def test_a_released_migration_never_changes() -> None:
    """Whoever has applied a migration does not get it again: a new column needs a further one."""
    released = [
        hashlib.sha256(";".join(statements).encode()).hexdigest()[:16]
        for hypertable in (False, True)
        for statements in migrations("s", hypertable)
    ]
    assert released == ["79ddbb287becd9b8", "bfa611e3ea75c5c0"]


def test_labels_are_those_of_history(server: PostgresServer) -> None:
    """Every kind and metric is written by its name."""
    one = destination(server, "labels")
    events = two_minutes(len(Kind) + len(Metric))
    events["kind"], events["metric"] = Kind.RAISED, Metric.HOP_LATENCY
    events["kind"][: len(Kind)] = list(Kind)
    events["metric"][len(Kind) :] = list(Metric)
    one.send(EventBlock("m1", 0, 0, len(events) - 1, events))
    one.close()
    kinds = server.run("SELECT DISTINCT kind FROM labels.int_event").split()
    assert sorted(kinds) == sorted(kind.label for kind in Kind)
    metrics = server.run("SELECT DISTINCT metric FROM labels.int_event WHERE metric IS NOT NULL").split()
    assert sorted(metrics) == sorted(metric.label for metric in Metric if metric)
    assert np.count_nonzero(events["metric"] == Metric.NONE) == 1

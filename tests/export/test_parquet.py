"""Parquet files in a folder and in S3, read back by pyarrow and DuckDB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow.dataset
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.base.names import Names
from hopscope.export.block import EventBlock
from hopscope.export.databases.parquet import Parquet
from hopscope.export.destination import Context, DeliveryError
from hopscope.export.kinds import check_exports
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.collector import Settings
from hopscope.settings.destinations.databases import ParquetSettings
from support.events.event_make import Events
from support.events.event_rows import history_row, table_sender, two_minutes
from support.servers.s3_server import S3Server
from support.servers.tls import Files, relay
from support.waiting import HANG_SECONDS, eventually


def destination(folder: Path | str, member: str = "m1", **more: Any) -> Parquet:
    """A connected destination."""
    context = Context("lake", member, Names(), lambda *_: None)
    one = Parquet(ParquetSettings(kind="parquet", folder=str(folder), **more), context)
    one.connect()
    return one


def check(found: list[dict[str, Any]], events: Events) -> None:
    """The rows are the events, value by value, each once, in the folders of their hours."""
    assert len(found) == len(events)
    rows = {row["sequence"]: row for row in found}
    assert len(rows) == len(events)
    for event in events:
        row = rows[int(event["sequence"])]
        expected = history_row(event) | {"collector": "m1"}
        assert {name: row[name] for name in expected} == expected
        assert row["time"].value == event["time_ns"]
        assert [row["src_hi"] << 64 | row["src_lo"], row["dst_hi"] << 64 | row["dst_lo"]] == [
            int(event[f"{side}_hi"]) << 64 | int(event[f"{side}_lo"]) for side in ("src", "dst")
        ]
        at = np.datetime64(int(event["time_ns"]), "ns").astype("datetime64[h]")
        assert f"{row['date']}T{int(row['hour']):02}" == str(at)


def test_every_value_is_read_back(tmp_path: Path) -> None:
    """By pyarrow: every event is there once, with every value, also those that came while the folder could
    not be written; DuckDB reads the same.
    """
    events, target = two_minutes(3000, shard=2), tmp_path / "lake"
    data = tmp_path / "data"
    with JournalWriter(data, 2) as writer:
        sender, row = table_sender(data, "parquet", folder=str(target), batch_events=500)
        sender.start()
        writer.append(events[:1500])
        eventually(lambda: row["events_total"][0] == 1500)
        target.rename(tmp_path / "away")
        target.write_text("not a folder")
        writer.append(events[1500:])
        eventually(lambda: row["retried_total"][0] > 0)
        target.unlink()
        (tmp_path / "away").rename(target)
        eventually(lambda: row["events_total"][0] == 3000)
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    table = pyarrow.dataset.dataset(target, partitioning="hive").to_table()
    check(table.to_pylist(), events)
    assert sorted(path.name for path in target.glob("date=*/*")) == ["hour=22", "hour=23"]
    assert not [path for path in target.rglob("*") if path.is_file() and path.suffix != ".parquet"]
    files = f"read_parquet('{target}/*/*/*.parquet', hive_partitioning = true)"
    sums = "count(DISTINCT sequence), sum(value::HUGEINT), max(hour)"
    with duckdb.connect() as database:
        found = database.execute(f"SELECT {sums} FROM {files}").fetchall()
    assert found == [(3000, sum(events["value"].tolist()), 23)]


def test_a_copy_of_a_block_replaces_itself(tmp_path: Path) -> None:
    """A block that is sent again is there once, also if the process was killed while it wrote; a block of the
    same numbers at another time is kept.
    """
    events = two_minutes(100)
    one = destination(tmp_path, "m-1..x")
    one.send(EventBlock("m-1..x", 0, 0, 99, events))
    before = sorted(tmp_path.rglob("*.parquet"))
    for path in before:
        path.with_name(f".{path.name}.part").write_bytes(b"half")
    one.send(EventBlock("m-1..x", 0, 0, 99, events))
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert len(before) == 2
    later = events.copy()
    later["time_ns"] += 1
    one.send(EventBlock("m-1..x", 0, 0, 99, later))
    one.close()
    assert pyarrow.dataset.dataset(tmp_path, partitioning="hive").count_rows() == 200


def test_what_cannot_be_a_folder_is_named(tmp_path: Path) -> None:
    """A file where a folder should be is an error of its own."""
    (tmp_path / "lake").write_text("")
    with pytest.raises(DeliveryError, match="lake: File exists"):
        destination(tmp_path / "lake")


def test_a_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 without its client is an error at the start; a folder needs none."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for folder, fine in (("lake", True), ("s3://bucket/x", False)):
        settings = Settings.model_validate({"export": {"lake": {"kind": "parquet", "folder": folder}}})
        if fine:
            check_exports(settings)
        else:
            with pytest.raises(HopscopeError, match=r"export\.lake: S3.*hopscope\[s3\]"):
                check_exports(settings)


@pytest.fixture(scope="module")
def s3(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tool(str(Path(sys.executable).with_name("weed"))), tmp_path_factory.mktemp("s3"))
    server.start()
    server.make_bucket("lake")
    yield server
    server.kill()


@pytest.mark.e2e
def test_a_bucket_is_read_back(tmp_path: Path, s3: S3Server) -> None:
    """Every event is in the bucket once, also those that came while the server was killed."""
    events, data = two_minutes(2000), tmp_path / "data"
    with JournalWriter(data, 0) as writer:
        given = {"folder": "s3://lake/a+b/c", "endpoint": s3.url, "access_key": s3.KEY, "secret": s3.SECRET}
        sender, row = table_sender(data, "parquet", batch_events=500, timeout_seconds=3, **given)
        sender.start()
        writer.append(events[:1000])
        eventually(lambda: row["events_total"][0] == 1000, lambda: bytes(row["problem"][0]))
        s3.kill()
        writer.append(events[1000:])
        eventually(lambda: row["retried_total"][0] > 0)
        s3.start()
        eventually(lambda: row["events_total"][0] == 2000, lambda: bytes(row["problem"][0]))
        sender.finish()
        assert sender.ended(HANG_SECONDS)
    s3.download("lake/a+b/c", tmp_path / "copy")
    table = pyarrow.dataset.dataset(tmp_path / "copy", partitioning="hive").to_table()
    check(table.to_pylist(), events)


@pytest.mark.e2e
def test_a_bucket_of_a_private_authority(tmp_path: Path, s3: S3Server) -> None:
    """Over TLS: written with its CA, rejected with another one and without any."""
    files, events = Files(tmp_path), two_minutes(100)
    events["sequence"] = np.arange(100)
    given: dict[str, Any] = {"access_key": s3.KEY, "secret": s3.SECRET, "timeout_seconds": 5}
    with relay(files.context(asks=False), ("127.0.0.1", s3.port)) as port:
        given["endpoint"] = f"https://127.0.0.1:{port}"
        one = destination("s3://lake/safe", ca_file=files.ca, **given)
        one.send(EventBlock("m1", 0, 0, 99, events))
        one.close()
        for ca in (files.other_ca, None):
            with pytest.raises(DeliveryError, match="certificate"):
                destination("s3://lake/safe", ca_file=ca, **given)
        other_name = given | {"endpoint": f"https://localhost:{port}"}
        with pytest.raises(DeliveryError, match="certificate"):
            destination("s3://lake/safe", ca_file=files.ca, **other_name)
    with pytest.raises(DeliveryError, match=r"none\.pem: No such file"):
        destination("s3://lake/safe", ca_file=tmp_path / "none.pem", **given)
    with pytest.raises(DeliveryError, match=r"server\.key: "):
        destination("s3://lake/safe", ca_file=files.key, **given)
    s3.download("lake/safe", tmp_path / "copy")
    table = pyarrow.dataset.dataset(tmp_path / "copy", partitioning="hive").to_table()
    check(table.to_pylist(), events)


@pytest.mark.e2e
def test_what_a_bucket_rejects_is_named(s3: S3Server) -> None:
    """A wrong secret, a missing bucket."""
    given = {"endpoint": s3.url, "access_key": s3.KEY, "secret": "wrong"}
    with pytest.raises(DeliveryError, match="SignatureDoesNotMatch"):
        destination("s3://lake", **given)
    with pytest.raises(DeliveryError, match="NoSuchBucket"):
        destination("s3://missing", **given | {"secret": s3.SECRET})

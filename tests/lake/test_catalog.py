"""The lake is made, attached and read; what is wrong with it is said in one line."""

from __future__ import annotations

import shutil
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hopscope.history.columns import connect
from hopscope.lake import extensions
from hopscope.lake.catalog import Lake, LakeError, create, prepared
from hopscope.lake.database import Database
from hopscope.lake.extensions import check_lake, connect_with_extensions, extension_files
from hopscope.settings.lake import LakeSettings
from support.cluster.lake_make import in_bucket, lake_settings
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

pytestmark = pytest.mark.e2e


def test_a_lake_is_made_once_and_read_only(database: PostgresServer, local: LakeSettings) -> None:
    """Many may make it; a reader changes nothing; its tables are in the database, as psql sees it."""
    with pytest.raises(LakeError, match=rf"no lake in schema {local.schema_name}; .*hopscope lake init"):
        Lake(local, read_only=True)
    assert [create(local), create(local)] == [True, False]
    with Lake(local, read_only=True) as lake:
        assert lake.connection.execute(f"SELECT count(*) FROM {lake.events}").fetchall() == [(0,)]
        with pytest.raises(duckdb.Error, match="read-only"):
            lake.connection.execute(f"INSERT INTO {lake.marks} VALUES ('m', 'i', 0, 1, NULL)")
    schema = local.schema_name
    tables = database.query(f"SELECT table_name FROM {schema}.ducklake_table")
    assert {row["table_name"] for row in tables} == {"events", "marks", "gaps"}
    assert database.run(f"SELECT version FROM {schema}.hopscope_lake") == "1\n"


def test_what_a_killed_creation_left_is_made_again(database: PostgresServer, local: LakeSettings) -> None:
    """A catalog without its version is none."""
    create(local)
    database.run(f"DELETE FROM {local.schema_name}.hopscope_lake")
    assert create(local)
    with Lake(local) as lake:
        assert lake.connection.execute(f"SELECT count(*) FROM {lake.events}").fetchall() == [(0,)]


def test_no_lake_without_its_bucket(database: PostgresServer, store: S3Server) -> None:
    """Without the bucket, or with a wrong key, no lake is made, and the reason is that of the store. As soon
    as the bucket exists, it is made.
    """
    place = {**in_bucket(store), "data": "s3://later/x"}
    settings = lake_settings(database, **place)
    wrong = lake_settings(database, **{**place, "secret": "wrong"})
    with pytest.raises(LakeError, match="NoSuchBucket"):
        create(settings)
    with pytest.raises(LakeError, match="there is no lake"):
        Lake(settings, read_only=True)
    store.make_bucket("later")
    with pytest.raises(LakeError, match="403"):
        create(wrong)
    assert [create(settings), create(settings)] == [True, False]


def test_what_is_wrong_is_named(local: LakeSettings) -> None:
    """One line with the place, without what DuckDB was passed."""
    create(local)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"catalog": "postgresql://hopscope@127.0.0.1:1/hopscope"}, "refused"),
        ({"data": "/nowhere/else"}, "files are elsewhere"),
        ({"tls": True}, "SSL"),
        ({"password": "env:NO_SUCH_VARIABLE"}, "NO_SUCH_VARIABLE"),
        ({"ca_file": "/no/such/file"}, "/no/such/file"),
        (
            {"data": "s3://lake/x", "access_key": "k", "secret": "file:/no/such"},
            "lake.secret cannot be read: .*/no/such",
        ),
    ]
    for change, problem in wrong:
        with pytest.raises(LakeError, match=problem) as raised:
            Lake(LakeSettings.model_validate({**local.model_dump(), **change}), read_only=True)
        assert "\n" not in str(raised.value)
        assert "keepalives" not in str(raised.value)


def test_signatures_of_extensions_are_checked_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The first connection checks them, the next one takes the same files for checked, and a file that has
    changed since is checked again. None can load other files unsigned. One of another DuckDB is named.
    """
    monkeypatch.setenv("HOPSCOPE_KERNEL_CACHE", str(tmp_path / "cache"))
    files, checks = extension_files(), list[bool]()

    def connecting(memory_bytes: int, threads: int, *, unsigned: bool) -> duckdb.DuckDBPyConnection:
        checks.append(not unsigned)
        return connect(memory_bytes, threads, unsigned=unsigned)

    monkeypatch.setattr(extensions, "connect", connecting)
    copies = [Path(shutil.copy(path, tmp_path)) for path in files]
    damaged = tmp_path / "damaged.duckdb_extension"
    damaged.write_bytes(files[0].read_bytes()[:-1] + b"\0")
    for change in (lambda: None, lambda: None, copies[1].touch):
        change()
        monkeypatch.setattr(extensions, "extension_files", lambda: copies)
        with connect_with_extensions(256 * 1024**2, 1) as connection:
            with pytest.raises(duckdb.Error, match="signature"):
                connection.execute(f"LOAD '{damaged}'")
            with pytest.raises(duckdb.Error, match="running"):
                connection.execute("SET GLOBAL allow_unsigned_extensions = true")
    assert checks == [True, False, True]
    monkeypatch.setattr(extensions, "extension_files", lambda: [damaged])
    with pytest.raises(LakeError, match=r"damaged\.duckdb_extension cannot be loaded"):
        connect_with_extensions(256 * 1024**2, 1)
    monkeypatch.undo()
    monkeypatch.setattr("importlib.metadata.version", lambda _: "9.9.9")
    with pytest.raises(LakeError, match=r"DuckDB is 9\.9\.9, .* for v1.*install .*'hopscope\[lake\]'"):
        check_lake()


def test_a_later_version_is_rejected(database: PostgresServer, local: LakeSettings) -> None:
    """A newer Hopscope made it: nothing is read or written."""
    create(local)
    database.run(f"UPDATE {local.schema_name}.hopscope_lake SET version = 2")
    with pytest.raises(LakeError, match="version 2"):
        Lake(local)


def test_a_database_in_another_language_is_rejected(
    local: LakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake knows conflicts by their English message."""
    with Database(local) as one:
        one.check_language()
        monkeypatch.setattr(one, "run", lambda _: [["de_DE.UTF-8"]])
        with pytest.raises(LakeError, match=r"de_DE\.UTF-8, expected English; .*lc_messages = 'C'"):
            one.check_language()


def test_a_store_behind_a_path(local: LakeSettings) -> None:
    """The path of an endpoint, as of a gateway, is a part of every address."""
    asked: list[str] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path.partition("?")[0])
            self.send_error(403)

        def log_message(self, format: str, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_port}/s3/"
        settings = local.model_copy(update={"data": "s3://lake/x", "endpoint": endpoint})
        made = prepared(settings, memory_bytes=256 * 1024**2, threads=1)
        with closing(made) as connection, pytest.raises(duckdb.HTTPException):
            connection.execute("SELECT * FROM read_parquet('s3://lake/x/a.parquet')")
        server.shutdown()
    assert set(asked) == {"/s3/lake/x/a.parquet"}

"""The SQLite file: private, whole or not at all, versions of tables, and what is said when it fails."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from hopscope.memory.data_folder import DataFolder
from hopscope.operators.database import Database, OperatorsError, Tables
from support.processes.small_disk import fill, small_disk

FIRST = Tables(
    "notes", ("CREATE TABLE notes (text TEXT NOT NULL UNIQUE); CREATE INDEX by_text ON notes (text);",)
)
STRANGER = 42_425
"""A user that the machine does not know."""
SECOND = Tables(
    "notes", (*FIRST.migrations, "ALTER TABLE notes ADD COLUMN kind TEXT NOT NULL DEFAULT 'plain';")
)


def opened(folder: Path, tables: Tables = FIRST) -> Database:
    database = Database(folder)
    database.declare(tables)
    return database


def write(database: Database, *texts: str) -> None:
    with database.transaction() as connection:
        for text in texts:
            connection.execute("INSERT INTO notes (text) VALUES (?)", (text,))


def test_the_file_is_private_and_made_at_first_use(tmp_path: Path) -> None:
    """Nothing is made before; then only its user may read it and its journal, also if it was open before."""
    database = opened(tmp_path)
    assert not database.path.exists()
    write(database, "one")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    database.close()
    database.path.chmod(0o644)
    assert database.rows("SELECT text FROM notes") == [("one",)]
    assert database.path.stat().st_mode & 0o777 == 0o600
    database.close()


def test_only_the_collectors_user_and_root_make_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file of another one, who may write into the folder, would lock the collector out."""
    (tmp_path / "owner.lock").touch()
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: STRANGER)
    database = opened(tmp_path)
    with pytest.raises(OperatorsError, match="is another user's: run this as that user, or as root"):
        database.rows("SELECT text FROM notes")
    assert not database.path.exists()
    monkeypatch.setattr(os, "geteuid", lambda: mine)
    if mine == 0:  # who makes it for the collector, whose lock it is
        os.chown(tmp_path / "owner.lock", STRANGER, STRANGER)
    write(database, "one")
    assert database.path.stat().st_uid == (tmp_path / "owner.lock").stat().st_uid
    database.close()


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    """An exception, or a row that violates a constraint, undoes all of it, and what was nested in it."""
    database = opened(tmp_path)

    def fail() -> None:
        with database.transaction():
            write(database, "nested")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with pytest.raises(sqlite3.IntegrityError):
        write(database, "a", "a")
    assert database.rows("SELECT * FROM notes") == []
    write(database, "b")
    assert database.rows("SELECT * FROM notes") == [("b",)]
    database.close()


def test_tables_get_newer_and_never_older(tmp_path: Path) -> None:
    """A newer version changes the table and keeps its rows; an older version of the program refuses it."""
    old = opened(tmp_path)
    write(old, "kept")
    old.close()
    new = opened(tmp_path, SECOND)
    assert new.rows("SELECT text, kind FROM notes") == [("kept", "plain")]
    new.declare(Tables("later", ("CREATE TABLE later (id INTEGER);",)))
    assert new.rows("SELECT * FROM later") == []
    new.close()
    with pytest.raises(OperatorsError, match=r"notes has version 2, .* knows 1"):
        old.rows("SELECT * FROM notes")
    old.close()


def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path) -> None:
    """Its first statement is undone with the second; the rows stay."""
    old = opened(tmp_path)
    write(old, "kept")
    old.close()
    broken = opened(
        tmp_path, Tables("notes", (*FIRST.migrations, "DELETE FROM notes; SELECT * FROM missing;"))
    )
    with pytest.raises(OperatorsError, match="no such table"):
        broken.rows("SELECT * FROM notes")
    broken.close()
    assert old.rows("SELECT text FROM notes") == [("kept",)]
    old.close()


def test_threads_and_processes_take_turns(tmp_path: Path) -> None:
    """Four threads of two connections write 20 rows each, and none is lost."""
    databases = [opened(tmp_path), opened(tmp_path)]

    def fill_in(n: int) -> None:
        for k in range(20):
            write(databases[n % 2], f"{n}-{k}")

    threads = [threading.Thread(target=fill_in, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert databases[0].rows("SELECT count(*) FROM notes") == [(80,)]
    for database in databases:
        database.close()


def test_a_file_that_is_being_made_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process makes the file: SQLite refuses a log at once, whatever its timeout is."""
    other = sqlite3.connect(tmp_path / "console.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(time, "sleep", lambda _: other.commit())
    database = opened(tmp_path)
    write(database, "one")
    assert database.rows("SELECT text FROM notes") == [("one",)]
    database.close()
    other.close()


@pytest.mark.parametrize("damage", ["text", "page"])
def test_a_damaged_file_is_one_clear_line(tmp_path: Path, damage: str) -> None:
    """A file of something else, or with a torn page, names the file and the remedy."""
    database = opened(tmp_path)
    if damage == "text":
        database.path.write_bytes(b"nothing that SQLite wrote" * 200)
    else:
        write(database, *(f"row {n}" * 50 for n in range(200)))
        database.close()
        raw = bytearray(database.path.read_bytes())
        raw[4096:] = bytes(b ^ 0x5A for b in raw[4096:])
        database.path.write_bytes(raw)
    with pytest.raises(OperatorsError, match="damaged") as found:
        database.rows("SELECT text FROM notes")
    assert str(database.path) in str(found.value)
    assert "\n" not in str(found.value)
    database.close()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """Another user who may write the folder cannot have a file of theirs used."""
    (tmp_path / "other").touch()
    (tmp_path / "console.sqlite").symlink_to(tmp_path / "other")
    with pytest.raises(OperatorsError, match=r"console\.sqlite"):
        opened(tmp_path).rows("SELECT 1")


def test_a_full_disk_is_one_clear_line_and_ends(tmp_path: Path) -> None:
    """A change fails whole, reading goes on, and with room again changes do, too."""
    with small_disk(tmp_path / "disk", "1m") as folder:
        database = opened(folder)
        write(database, "before")
        ballast = fill(folder)
        with pytest.raises(OperatorsError, match="disk is full"):
            write(database, *(f"{n}" * 1000 for n in range(500)))
        assert database.rows("SELECT text FROM notes") == [("before",)]
        ballast.unlink()
        write(database, "after")
        assert database.rows("SELECT count(*) FROM notes") == [(2,)]
        database.close()


def test_users_may_be_made_before_the_first_collector(tmp_path: Path) -> None:
    """A data folder with this file alone is taken by a collector, as an empty one is."""
    database = opened(tmp_path / "data")
    (tmp_path / "data").mkdir()
    write(database, "early")
    folder = DataFolder(tmp_path / "data", tmp_path / "regions")
    folder.acquire()
    folder.close()
    assert database.rows("SELECT text FROM notes") == [("early",)]
    database.close()

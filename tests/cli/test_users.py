"""`hopscope users`: who may log in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hopscope.operators import passwords
from hopscope.operators.audit import Audit
from hopscope.operators.database import Database
from hopscope.operators.users import Users
from support.processes.command import run


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of the least cost."""
    monkeypatch.setattr(passwords, "PASSES", 1)
    monkeypatch.setattr(passwords, "MEMORY_KIB", 64)
    passwords._hasher.cache_clear()
    passwords._of_no_one.cache_clear()


def users(folder: Path, *arguments: object) -> tuple[int, str, str]:
    return run("users", *arguments, "--data", folder)


def listed(folder: Path) -> list[tuple[str, str]]:
    _, out, _ = users(folder, "list", "--format", "json")
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    return [(row["name"], row["role"]) for row in rows]


def test_a_folder_that_cannot_be_made_is_an_error_with_advice(tmp_path: Path) -> None:
    """By any user: a file is where the folder should be."""
    (tmp_path / "file").touch()
    (tmp_path / "secret").write_text("correct horse")
    status, out, said = users(
        tmp_path / "file" / "data", "add", "ada", "--password-file", tmp_path / "secret"
    )
    assert (status, out) == (2, "")
    why = "is not a folder; choose another one with --data"
    assert said == f"hopscope: data folder {tmp_path}/file/data: {why}\n"


def test_a_question_makes_no_folder(tmp_path: Path) -> None:
    """A wrong name of the data folder is an error, not one without users."""
    status, out, said = users(tmp_path / "data", "list")
    assert (status, out) == (2, "")
    assert said == f"hopscope: data folder {tmp_path}/data does not exist; choose another one with --data\n"
    assert not (tmp_path / "data").exists()


def test_users_are_added_changed_and_removed(tmp_path: Path) -> None:
    """Each change works at once and is in the audit with who ran the command; a password is in none of it."""
    folder, secret = tmp_path / "data", tmp_path / "secret"
    folder.mkdir()
    assert users(folder, "list", "--format", "json") == (
        0, "", "hopscope: no users: `hopscope users add NAME` adds one\n"
    )  # fmt: skip
    secret.write_text("correct horse\n")
    assert users(folder, "add", "Ada", "--role", "operator", "--password-file", secret)[0] == 0
    assert users(folder, "add", "vera", "--password-file", secret)[0] == 0
    assert listed(folder) == [("ada", "operator"), ("vera", "viewer")]
    known = Users(Database(folder))
    assert known.verified("ADA", "correct horse")
    secret.write_text("battery staple\n")
    assert users(folder, "password", "ada", "--password-file", secret)[0] == 0
    assert not known.verified("ada", "correct horse")
    assert known.verified("ada", "battery staple")
    assert users(folder, "role", "ada", "viewer")[0] == 0
    assert users(folder, "remove", "vera")[0] == 0
    assert listed(folder) == [("ada", "viewer")]
    entries = Audit(Database(folder)).page()
    kinds = ["users.remove", "users.role", "users.password", "users.add", "users.add"]
    assert [entry.kind for entry in entries] == kinds
    assert all(entry.who and not entry.address for entry in entries)
    assert "horse" not in str(entries)
    assert "staple" not in str(entries)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("add", "ada", "--password-file", "SECRET"), "there is a user 'ada' already"),
        (("add", "a b", "--password-file", "SECRET"), "found name 'a b'"),
        (("add", "bob", "--password-file", "SHORT"), "found 5 characters, expected 10 to 256"),
        (("add", "bob"), "no terminal to ask for the password"),
        (("add", "bob", "--password-file", "NONE"), "No such file"),
        (("remove", "bob"), "there is no user 'bob'"),
        (("role", "bob", "viewer"), "there is no user 'bob'"),
        (("password", "bob", "--password-file", "SECRET"), "there is no user 'bob'"),
    ],
)
def test_what_cannot_be_done_is_one_line(tmp_path: Path, arguments: tuple[str, ...], line: str) -> None:
    """With exit status 2, and nothing is changed."""
    (tmp_path / "SECRET").write_text("correct horse")
    (tmp_path / "SHORT").write_text("short")
    users(tmp_path / "data", "add", "ada", "--password-file", tmp_path / "SECRET")
    given = [tmp_path / each if each.isupper() else each for each in arguments]
    status, out, err = users(tmp_path / "data", *given)
    assert (status, out, len(err.splitlines())) == (2, "", 1)
    assert line in err
    assert listed(tmp_path / "data") == [("ada", "viewer")]

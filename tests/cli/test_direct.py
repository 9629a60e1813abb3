"""`hopscope direct query` and `list`: what stores answer, and how wrong queries are told."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.cli.options.settings import StoresOptions
from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import parse_store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.memory import running
from hopscope.rdma.notices import NOTICES_FILE, Notifier, create_notices
from hopscope.settings.collector import Settings
from support.direct.direct_make import as_bytes, dta
from support.processes.command import hopscope

pytestmark = pytest.mark.kernel
run = partial(hopscope, "direct")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with one Key-Write store that holds the key 7, and a file that is no store."""
    folder = tmp_path_factory.mktemp("data")
    stores = open_stores(folder / "direct", [parse_store("paths=key-write,slots=1024")])
    store = stores["paths"]
    translator = Translator([store.layout], MemoryTransport([store]))
    keys = as_bytes(np.array([7], np.uint64))
    translator.translate(*dta(1, keys, as_bytes(np.array([0xBEEF], np.uint64)), redundancy=2))
    lists = open_stores(folder / "direct", [parse_store("events=append,lists=2,batches=8,batch=2")])["events"]
    appending = Translator([lists.layout], MemoryTransport([lists]))
    numbers = as_bytes(np.array([1, 1, 1], np.uint64))
    appending.translate(*dta(2, numbers, as_bytes(np.arange(3, dtype=np.uint64)), list=1))
    appending.flush()
    notifier = Notifier(create_notices(folder / "direct" / NOTICES_FILE))
    telling = Translator([store.layout], MemoryTransport([store], notifier))
    telling.translate(*dta(1, keys, as_bytes(np.array([0xBEEF], np.uint64)), redundancy=2, flags=1))
    (folder / "direct" / "broken.region").write_bytes(b"no region")
    return folder


def test_a_key_is_answered(data: Path) -> None:
    """The data that was reported is printed; a key that nobody reported is empty, and the status says so."""
    done = run("query", "paths", "7", "8", "--data", str(data), "--format", "json")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"key": "7", "status": "found", "data": "0000beef", "votes": 2},
        {"key": "8", "status": "empty"},
    ]
    assert done.returncode == 1
    everywhere = run("query", "paths", "7", "--data", str(data), "--format", "json", "--epoch", "all")
    assert json.loads(everywhere.stdout)["epoch"] == 0
    table = run("query", "paths", "7", "--data", str(data))
    assert table.returncode == 0
    assert table.stdout.splitlines()[1].split() == ["7", "found", "0000beef", "2"]


def test_one_of_several_collectors_says_so(tmp_path: Path) -> None:
    """A key that is empty at one collector may be at another: the error output names how to ask all."""
    words = ("query", "paths", "7", "--data", str(tmp_path))
    open_stores(tmp_path / "direct", [parse_store("paths=key-write,slots=1024,collectors=2")])
    done = run(*words)
    assert "paths is spread over 2 collectors, and one was asked: name all by --collector" in done.stderr
    both = run(*words, "--collector", str(tmp_path), "--collector", str(tmp_path))
    assert (both.returncode, both.stderr) == (1, "")


def test_stores_are_listed(data: Path) -> None:
    """Every store with its layout; one that cannot be read says why."""
    stores = [json.loads(line) for line in run("list", "--data", str(data), "-f", "json").stdout.splitlines()]
    assert stores[0]["name"] == "broken"
    assert "not a Hopscope region" in stores[0]["error"]
    assert stores[1]["name"] == "events"
    assert stores[2]["layout"]["slots"] == 1024
    assert "slots=1024" in run("list", "--data", str(data)).stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("query", "nothing", "7"), "known: broken, events, paths"),
        (("query", "broken", "7"), "not a Hopscope region"),
        (("query", "paths", "x"), "found 'x'"),
        (("query", "paths", "7", "--copies", "9"), "9 copies"),
        (("query", "paths", "7", "--consensus", "5"), "a consensus of 5, expected 1 to 4 copies"),
        (("query", "paths", "7", "--values", "/nowhere"), "--values /nowhere"),
        (("query", "paths", "7", "--epoch", "3"), "unknown epoch 3"),
        (("query", "paths", "7", "--epoch", "x"), "expected a number or all"),
    ],
)
def test_wrong_queries_are_told_in_one_line(data: Path, words: tuple[str, ...], said: str) -> None:
    """Exit status 2 and one line that says what was found."""
    done = run(*words, "--data", str(data))
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_entries_of_a_list_are_printed(data: Path) -> None:
    """In the order in which they were appended; another list is empty; a store without lists says so."""
    done = run("list", "events", "1", "--data", str(data))
    assert done.stdout.split() == ["data", "00000000", "00000001", "00000002"]
    assert run("list", "events", "0", "--data", str(data), "-f", "json").stdout == ""
    assert "expected one of append" in run("list", "paths", "0", "--data", str(data)).stderr
    assert "the store has lists 0 to 1" in run("list", "events", "2", "--data", str(data)).stderr


def test_tables_say_what_the_objects_say(data: Path, tmp_path: Path) -> None:
    """In a table too: why a list has no entries, and past epochs, as ranges."""
    asked = run("query", "events", "9", "--data", str(data))
    assert "list 9: the store has lists 0 to 1" in asked.stdout
    assert asked.returncode == 1
    open_stores(tmp_path / "direct", [parse_store("paths=key-write,slots=1024")])
    (tmp_path / "direct" / "history").mkdir()
    for number in (3, 4, 5, 12):
        (tmp_path / "direct" / "history" / f"paths-{number}.region").write_bytes(b"")
    assert "3-5, 12" in run("list", "--data", str(tmp_path)).stdout


def test_immediate_reports_are_told(data: Path, tmp_path: Path) -> None:
    """A report with the immediate flag is one notice for all its copies; without a writer there are none."""
    (told,) = [
        json.loads(line) for line in run("notices", "--data", str(data), "-f", "json").stdout.splitlines()
    ]
    assert told["store"] == 0
    assert told["bytes"] == 8
    nothing = run("notices", "--data", str(tmp_path))
    assert nothing.returncode == 2
    assert "a translator or a software NIC creates it" in nothing.stderr


def test_the_stores_that_are_written_here_are_asked(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a folder: those of a running translator or NIC, else of the running collector; not the stores
    of others if the user's own are written, or if the user chose.
    """
    own, there = tmp_path / "own", data / "direct"
    monkeypatch.setattr(
        Settings, "stores_folder", property(lambda self: self.direct.folder or own / "direct")
    )

    def asked(stores: list[Path], collectors: list[Path], **options: Any) -> Path:
        monkeypatch.setattr(running, "running_stores", lambda: stores)
        monkeypatch.setattr(running, "running_folders", lambda: collectors)
        return StoresOptions(**options).load().stores_folder

    assert asked([], []) == own / "direct"
    assert asked([tmp_path], [tmp_path]) == own / "direct", "neither has a store"
    assert capsys.readouterr().err == ""
    assert asked([there, tmp_path], []) == there
    assert str(there) in capsys.readouterr().err
    assert asked([], [data]) == there
    open_stores(own / "direct", [parse_store("paths=key-write,slots=1024")])
    assert asked([there, own / "direct"], []) == own / "direct"
    monkeypatch.setattr(Settings, "stores_folder", property(lambda self: tmp_path))
    with pytest.raises(HopscopeError, match="choose one with"):
        asked([there, own / "direct"], [])
    assert asked([there, own / "direct"], [], data=data) == tmp_path

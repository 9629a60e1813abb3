"""`hopscope cluster owners`: who has which keys, set, shown and changed; `direct query` asks them."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from hopscope.cluster.connection import Connection
from hopscope.cluster.membership import drain
from hopscope.cluster.membership.members import MemberRecord, Registration
from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import parse_store
from hopscope.direct.translation.routes import routes_of
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from support.cluster.members import Member, make, running, settings_of
from support.direct.direct_make import as_bytes, dta
from support.processes import command
from support.servers.server_process import NatsServer

pytestmark = pytest.mark.kernel
SPEC = "paths=key-write,slots=4096,collectors=16"


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> object:
    """A NATS server."""
    made = NatsServer(tool("nats-server"), tmp_path_factory.mktemp("nats"))
    made.start()
    yield made
    made.kill()


def test_owners_are_set_shown_and_changed(nats: NatsServer, tmp_path: Path) -> None:
    """Three members, one more, one less, one whose folder has moved; keys are found by `direct query`."""
    place = ("--nats", nats.url, "--cluster", "owners")
    owners = partial(command.run, "cluster", "owners")
    make(settings_of(nats.url, "owners", "c1"))
    folders = {name: tmp_path / name for name in ("c1", "c2", "c3", "c4")}
    described = [parse_store(SPEC)]
    stores = {name: list(open_stores(folder, described).values()) for name, folder in folders.items()}

    status, _, error = owners("show", *place)
    assert (status, "there is no table of owners" in error) == (2, True)
    given = [f"{name}={folders[name]},192.0.2.{number}" for number, name in enumerate(("c1", "c2", "c3"), 1)]
    status, _, error = owners("set", *given, *place, "--shares", "64")
    assert (status, "paths is spread over 16 collectors, expected 64 shares" in error) == (2, True)
    status, _, error = owners("set", "c1=http://127.0.0.1:1", *place)
    assert (status, error.startswith("hopscope: c1: collector http://127.0.0.1:1")) == (2, True)
    status, out, _ = owners("set", *given, *place, "--shares", "16")
    assert (status, out) == (0, "generation 1: c1 (6), c2 (5), c3 (5)\n")

    shown = json.loads(owners("show", *place, "--format", "json")[1])
    assert [each["nic"] for each in shown["members"]] == ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
    assert shown["collectors"] == [f"192.0.2.{number % 3 + 1}" for number in range(16)]
    assert shown["begins"]["c2"] == {"paths": 0}
    keys = np.arange(50, dtype=np.uint64)
    translator = Translator(
        [described[0].layout],
        [MemoryTransport(stores[name]) for name in ("c1", "c2", "c3")],
        routes=routes_of([described[0].layout], names=["paths"], shares=shown["shares"]),
    )
    translator.translate(*dta(1, as_bytes(keys), as_bytes(keys), redundancy=1))

    status, out, _ = owners("add", f"c4={folders['c4']},192.0.2.4", *place)
    assert (status, out) == (0, "generation 2: c1 (4), c2 (4), c3 (4), c4 (4); 4 of 16 shares moved\n")
    assert "c4 is an owner already" in owners("add", f"c4={folders['c4']}", *place)[2]
    status, out, _ = owners("remove", "c1", *place)
    assert (status, "4 of 16 shares moved" in out) == (0, True)
    assert "c9 is no owner; owners: c1, c2, c3, c4" in owners("remove", "c9", *place)[2]
    folders["c1"].rename(tmp_path / "moved")
    assert owners("place", f"c1={tmp_path / 'moved'}", *place)[0] == 0
    past = [json.loads(line) for line in owners("history", *place, "--format", "json")[1].splitlines()]
    assert [(each["generation"], each["moved"], each["state"]) for each in past] == [
        (1, None, "answers"), (2, 4, "answers"), (3, 4, "current"),
    ]  # fmt: skip

    config = tmp_path / "c.toml"
    config.write_text(f'[cluster]\nname = "owners"\nnats = ["{nats.url}"]\n')
    words = ("--config", str(config), "--format", "json")
    status, out, _ = command.run("direct", "query", "paths", *map(str, range(50)), *words)
    answers = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [each["data"] for each in answers] == [f"{number:08x}" for number in range(50)]
    assert {each["collector"] for each in answers} == {"c1", "c2", "c3"}
    status, out, _ = owners("remove", "c1", "--lost", *place)
    assert (status, out) == (0, "generation 3: c2 (5), c3 (5), c4 (6); 0 of 16 shares moved\n")
    status, out, _ = command.run("direct", "query", "paths", *map(str, range(50)), *words)
    assert status == 1
    assert {json.loads(line)["status"] for line in out.splitlines()} == {"found", "empty"}


def test_who_leaves_owns_no_keys(nats: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cluster drain` gives the keys of a member to the others, and `cluster forget` those of one that is
    gone; of the last owner they stay, and the command says so. Keys of before are still asked of them.
    """
    monkeypatch.setattr(drain, "QUIET_SECONDS", 0.05)
    settings = settings_of(nats.url, "leave", "c1")
    make(settings)
    place = ("--nats", nats.url, "--cluster", "leave")
    names = ("c1", "c2", "c3")
    for name in names:
        open_stores(tmp_path / name, [parse_store(SPEC)])
    cluster = partial(command.run, "cluster")
    given = [f"{name}={tmp_path / name},192.0.2.1" for name in names]
    assert cluster("owners", "set", *given, *place, "--shares", "16")[0] == 0
    member = Member(settings, tmp_path / "c1", lambda context: [drain.Drain(context)])
    with running(member):
        status, out, _ = cluster("drain", "c1", *place)
        assert status == 0
        assert out.startswith("generation 2: c2 (8), c3 (8); 6 of 16 shares moved\n")
        assert cluster("drain", "c1", "--undo", *place)[0] == 0
        status, out, _ = cluster("drain", "c1", *place)
        assert (status, "generation" in out) == (0, False)
    with Connection(settings.cluster, "test") as connection:
        for name in ("c2", "c3"):
            Registration(connection, 1.0).remember(MemberRecord(name, "folder"))
    status, out, _ = cluster("status", *place)
    keeps = "hopscope cluster forget c2; until then it keeps its 8 of 16 shares of the keys"
    assert (status, keeps in out) == (1, True), out
    status, out, _ = cluster("forget", "c2", *place)
    assert (status, out) == (0, "c2 is forgotten.\ngeneration 3: c3 (16); 8 of 16 shares moved\n")
    status, out, error = cluster("forget", "c3", *place)
    assert (status, out) == (0, "c3 is forgotten.\n")
    assert "c3: it keeps its keys: it is their only owner" in error
    assert "c1 (6), c2 (5), c3 (5)" in cluster("owners", "history", *place)[1]

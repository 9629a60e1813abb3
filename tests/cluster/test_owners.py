"""The table of owners: shares, what moves, how long earlier generations answer, and two writers."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopscope.cluster.connection import ClusterError, Connection
from hopscope.cluster.owners.file import FILE_NAME, OwnersFile, OwnersPart
from hopscope.cluster.owners.follow import OwnersFollower
from hopscope.cluster.owners.table import (
    Owner,
    OwnerTable,
    checked_owner,
    decode,
    first_table,
    read_owners,
    write_owners,
)
from hopscope.cluster.shares import assign
from hopscope.settings.direct import TranslatorSettings
from support.cluster.members import Member, make, running, settings_of
from support.processes import command
from support.servers.server_process import NatsServer
from support.waiting import eventually

SECOND = 1_000_000_000


def table_of(*names: str, shares: int = 64, **kept: float) -> OwnerTable:
    """A table of one generation, at second 100."""
    owners = {name: Owner(f"http://{name}.example:8080") for name in names}
    return first_table(names, owners, {}, 100 * SECOND, shares=shares, **kept)  # type: ignore[arg-type]


@pytest.mark.parametrize("shares", [16, 64, 256, 257])
def test_few_shares_move(shares: int) -> None:
    """Members join and leave at random: all have as many shares, give or take one, and only those move that
    have to: those of a member that leaves, or the part of one that joins.
    """
    random = np.random.default_rng(shares)
    names = ["m0", "m1", "m2"]
    owners = [names[at] for at in assign(names, shares, [])]
    for step in range(40):
        before = Counter(owners)
        if len(names) < 3 or (len(names) < 15 and random.random() < 0.6):
            names.append(f"n{step}")
            most = -(-shares // len(names))
        else:
            most = before[names.pop(int(random.integers(len(names))))] + len(names)
        after = [names[at] for at in assign(names, shares, owners)]
        counts = Counter(after)
        assert set(counts.values()) <= {shares // len(names), -(-shares // len(names))}
        assert sum(a != b for a, b in zip(owners, after, strict=True)) <= most
        owners = after


def test_changes_make_generations() -> None:
    """A fourth member takes a quarter of each; one that leaves gives its own away, and stays in the table."""
    one = table_of("c1", "c2", "c3")
    assert one.current.counts() == {"c1": 22, "c2": 21, "c3": 21}
    two = one.changed(["c1", "c2", "c3", "c4"], {"c4": Owner("/data/c4")}, {"c4": {"paths": 7}}, 200 * SECOND)
    assert (two.current.number, two.current.counts()) == (2, {"c1": 16, "c2": 16, "c3": 16, "c4": 16})
    moved = [
        pair
        for pair in zip(one.current.of_share(), two.current.of_share(), strict=True)
        if pair[0] != pair[1]
    ]
    assert len(moved) == 16
    assert {new for _, new in moved} == {"c4"}
    three = two.changed(["c2", "c3", "c4"], {}, {}, 300 * SECOND)
    assert set(three.owners) == {"c1", "c2", "c3", "c4"}
    assert set(three.current.members) == {"c2", "c3", "c4"}
    for each in three.generations:  # so that lists are numbered alike by whoever has the addresses by share
        assert each.members == tuple(dict.fromkeys(each.of_share()))
    assert decode(three.encode()) == three
    assert (
        three.addresses[0] == {"c2": "c2.example", "c3": "c3.example", "c4": ""}[three.current.of_share()[0]]
    )
    gone = three.without_memory_of("c1")
    assert "c1" not in gone.owners
    assert all("c1" not in each.members for each in gone.generations)
    with pytest.raises(ClusterError, match="c2 is an owner: remove it first"):
        three.without_memory_of("c2")


def test_generations_end_with_their_epochs() -> None:
    """With epochs of 10 s of which 3 are kept, keys of a generation that ended at 200 s are in memory until
    240 s, and in the current epoch until 210 s; without epochs for ever.
    """
    one = table_of("c1", "c2", epoch_seconds=10.0, keep_epochs=3)
    two = one.changed(["c1"], {}, {}, 200 * SECOND)
    assert two.kept.answers_until(200 * SECOND, None) == 210 * SECOND
    assert two.kept.answers_until(200 * SECOND, "all") == 240 * SECOND
    assert len(two.pruned(240 * SECOND - 1).generations) == 2
    assert len(two.pruned(240 * SECOND).generations) == 1
    assert set(two.pruned(240 * SECOND).owners) == {"c1"}
    for_ever = table_of("c1", "c2").changed(["c1"], {}, {}, 200 * SECOND)
    assert len(for_ever.pruned(10**18).generations) == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda tree: tree["generations"][0]["shares"].append(9), "shares are not those of its members"),
        (lambda tree: tree["owners"].pop("c1"), "c1 has no address"),
        (lambda tree: tree["generations"].append(tree["generations"][0]), "not in order"),
        (lambda tree: tree.update(generations=[]), "generations"),
        (lambda tree: tree["owners"].update(c1={"place": "ftp://x"}), "expected http"),
        (lambda tree: tree["generations"][0].update(shares=[-1]), "greater than or equal to 0"),
    ],
)
def test_a_damaged_table_is_rejected(change: object, text: str) -> None:
    """Whoever has credentials can write to NATS: one line says what is wrong."""
    tree = json.loads(table_of("c1", "c2", shares=4).encode())
    change(tree)  # type: ignore[operator]
    with pytest.raises(ClusterError, match=f"the table of owners is damaged: .*{text}"):
        decode(json.dumps(tree).encode())


def test_wrong_changes_are_rejected() -> None:
    """No member, one twice, more members than shares, an address without sense."""
    table = table_of("c1", "c2", shares=4)
    wrong: list[tuple[list[str], str]] = [
        ([], "no member is left"),
        (["c1", "c1"], "named twice"),
        (["a", "b", "c", "d", "e"], "5 members, but 4 shares"),
    ]
    for names, text in wrong:
        with pytest.raises(ClusterError, match=text):
            table.changed(names, {}, {}, 200 * SECOND)
    for name, place, text in (
        ("c 1", "/x", "letters, digits"),
        ("c1", "", "found no place"),
        ("c1", "ftp://x", "http"),
    ):
        with pytest.raises(ClusterError, match=text):
            checked_owner(name, Owner(place))


def test_one_of_two_writers_wins(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """Both read revision n; the second to write is refused. A follower sees the winner's table, and keeps it
    in a file, from which the next one starts while NATS is away.
    """
    settings = settings_of(nats.url, cluster, "c1").cluster
    make(settings_of(nats.url, cluster, "c1"))
    said: list[str] = []
    with Connection(settings, "test") as connection:
        assert read_owners(connection) == (None, 0)
        with OwnersFollower(settings, tmp_path, said.append, 0.02) as follower:
            eventually(lambda: (tmp_path / FILE_NAME).exists())
            assert follower.newest() is None
            write_owners(connection, table_of("c1", "c2"), 0)
            table, revision = read_owners(connection)
            assert table is not None
            won = table.changed(["c1", "c2", "c3"], {"c3": Owner("/c3")}, {}, 200 * SECOND)
            write_owners(connection, won, revision)
            with pytest.raises(ClusterError, match="the table of owners has been changed"):
                write_owners(connection, replace(table, keep_epochs=1), revision)
            eventually(lambda: follower.newest() == won)
    away = settings.model_copy(update={"nats": ("nats://127.0.0.1:1",)})
    with OwnersFollower(away, tmp_path, said.append, 0.02) as follower:
        assert follower.newest() == won
        eventually(lambda: any("the last table of owners holds" in line for line in said))
    assert OwnersFile(tmp_path).table == won
    with pytest.raises(ClusterError, match="the owners of keys are not known"):
        OwnersFile(tmp_path / "none").table  # noqa: B018


def test_a_member_keeps_the_table_in_its_data_folder(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """Its cluster process writes what NATS has: first that there is none, then each table."""
    settings = settings_of(nats.url, cluster, "c1")
    make(settings)
    with running(Member(settings, tmp_path, lambda context: [OwnersPart(context)])):
        file = OwnersFile(tmp_path)
        eventually((tmp_path / FILE_NAME).exists)
        assert file.table is None
        with Connection(settings.cluster, "test") as connection:
            write_owners(connection, table_of("c1", "c2"), 0)
        eventually(lambda: file.table == table_of("c1", "c2"))


def test_a_translator_follows_a_cluster_or_has_addresses() -> None:
    """`cluster` beside addresses, and without a cluster, is rejected in one line."""
    with pytest.raises(ValueError, match='found collectors beside "cluster"'):
        TranslatorSettings(transport="rocev2", collectors=("cluster", "192.0.2.1"))
    assert TranslatorSettings(transport="rocev2", collectors=("cluster",)).follows_cluster
    status, _, error = command.run("translate", "--to", "cluster")
    assert (status, "but cluster.nats names no servers" in error) == (2, True)

"""deploy/cluster/nats.conf and users.conf on real servers: what each user may do; strangers may nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from nats.js import JetStreamContext
from nats.js.api import StreamConfig
from nats.js.errors import KeyNotFoundError, NoKeysError

from deploy.nats_servers import ClusterServers, certificates
from hopscope.cluster.connection import MEMBER, ClusterError, Connection, Reply
from hopscope.cluster.names import ClusterNames
from hopscope.cluster.setup import init
from hopscope.settings.cluster import ClusterSettings
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.e2e
BUCKETS = ClusterNames("dc1")
SECRET = b"of dc1"


@pytest.fixture(scope="module", autouse=True)
def buckets(servers: ClusterServers) -> None:
    """Those of `hopscope cluster init`, and a stream."""
    make(servers.settings("admin"))


def make(settings: ClusterSettings) -> None:
    """Make them, if they are not there."""
    with Connection(settings, "test") as connection:
        init(connection)
    as_user(settings, lambda js: js.add_stream(name="feed", subjects=["hopscope.dc1.feed"], num_replicas=3))


def as_user(
    settings: ClusterSettings,
    work: Callable[[JetStreamContext], Awaitable[Any]],
    seconds: float = HANG_SECONDS,
) -> Any:
    """Its result, with a connection of its own; `seconds`: for an answer."""
    with Connection(settings, "test") as connection:

        async def run() -> Any:
            return await work(connection.client.jetstream(timeout=seconds))

        return connection.run(run(), HANG_SECONDS)


def refused(settings: ClusterSettings, work: Callable[[JetStreamContext], Awaitable[Any]]) -> str:
    """The error of what may not be done."""
    with pytest.raises(ClusterError) as caught:
        as_user(settings, work, 1)  # a server does not answer what it refuses
    return str(caught.value)


async def write(js: JetStreamContext) -> Any:
    """A record, by compare-and-set, a configuration and a message of the stream."""
    members = await js.key_value(BUCKETS.known)
    await members.purge("c1")
    revision = await members.create("c1", SECRET)
    await members.update("c1", SECRET, last=revision)
    await (await js.key_value(BUCKETS.configuration)).put("now", SECRET)
    await js.publish("hopscope.dc1.feed", SECRET)


async def read(js: JetStreamContext) -> Any:
    """The key, its value, a history, and a message of the stream."""
    members, configuration = await js.key_value(BUCKETS.known), await js.key_value(BUCKETS.configuration)
    history = await once_there(lambda: configuration.history("now"))
    subscription = await js.subscribe("hopscope.dc1.feed", ordered_consumer=True)
    message = await subscription.next_msg(HANG_SECONDS)
    entry = await once_there(lambda: members.get("c1"))
    keys = await once_there(members.keys)
    return keys.count("c1"), entry.value, history[-1].value, message.data


async def once_there(ask: Callable[[], Awaitable[Any]]) -> Any:
    """The answer of a server that may follow the one that was written to."""
    while True:
        with suppress(NoKeysError, KeyNotFoundError):
            return await ask()
        await asyncio.sleep(0.1)


ALL_READ = (1, SECRET, SECRET, SECRET)


def test_a_member_reads_and_writes(servers: ClusterServers) -> None:
    """Everything that a collector does, without one refusal."""
    before = servers.refused()
    as_user(servers.settings("c1"), write)
    assert as_user(servers.settings("c1"), read) == ALL_READ
    assert servers.refused() == before


def test_a_member_makes_and_deletes_no_buckets(servers: ClusterServers) -> None:
    """A collector that somebody has taken over cannot delete the configuration with its history."""
    member = servers.settings("c1")
    for work in (
        lambda js: js.delete_stream(f"KV_{BUCKETS.configuration}"),
        lambda js: js.purge_stream("feed"),
        lambda js: js.add_stream(StreamConfig(name="mine", subjects=["hopscope.dc1.mine"])),
    ):
        assert "permissions violation" in refused(member, work)


def test_a_reader_reads_and_asks_but_changes_nothing(servers: ClusterServers) -> None:
    """Keys and streams are read, a query is answered by a member; nothing can be written or answered."""
    as_user(servers.settings("c1"), write)
    reader = servers.settings("reader")
    assert as_user(reader, read) == ALL_READ
    with Connection(servers.settings("c1"), "member") as member, Connection(reader, "asks") as asks:

        async def answer(message: Any) -> None:
            await member.client.publish(message.reply, b"here", headers={MEMBER: "c1"})

        member.answer("hopscope.dc1.ask", answer)
        found: list[Reply] = []

        def answered() -> bool:
            found[:] = asks.ask("hopscope.dc1.ask", b"who?", 0.2, ["c1"])
            return bool(found)

        eventually(
            answered, lambda: str(servers.refused())
        )  # subscriptions reach the other servers a little later
        assert (found[0].member, found[0].body) == ("c1", b"here")

    async def change(js: JetStreamContext) -> Any:
        return await (await js.key_value(BUCKETS.configuration)).put("now", b"of a reader")

    assert "permissions violation" in refused(reader, change)
    assert "permissions violation" in refused(reader, lambda js: js.publish("hopscope.dc1.feed", b"no"))
    assert as_user(reader, read) == ALL_READ


def test_another_account_sees_nothing(servers: ClusterServers) -> None:
    """Whose cluster has the same name on the same servers, with all rights there: no keys, no answers."""
    as_user(servers.settings("c1"), write)
    other = servers.settings("other")
    assert "NotFound" in refused(other, read)
    make(other)
    with Connection(servers.settings("c1"), "member") as member, Connection(other, "asks") as asks:
        heard: list[bytes] = []

        async def answer(message: Any) -> None:
            heard.append(message.data)
            await member.client.publish(message.reply, b"here", headers={MEMBER: "c1"})

        member.answer("hopscope.dc1.ask", answer)
        assert asks.ask("hopscope.dc1.ask", b"who?", 0.5, ["c1"]) == []
        assert not heard
    as_user(other, lambda js: js.delete_stream(f"KV_{BUCKETS.configuration}"))
    assert as_user(servers.settings("reader"), read) == ALL_READ


def test_strangers_do_not_get_in(servers: ClusterServers, tmp_path: Path) -> None:
    """A certificate that no user has, one of another authority, none, and a server that is not ours."""
    assert "Authorization Violation" in refused(servers.settings("nobody"), read)
    certificates(tmp_path, "c1")
    foreign = {"cert_file": tmp_path / "c1.pem", "key_file": tmp_path / "c1.key"}
    for settings in (
        servers.settings("c1", **foreign),
        servers.settings("c1", cert_file=None, key_file=None, user="c1", password="guessed"),
        servers.settings(
            "c1",
            nats=[url.replace("tls:", "nats:") for url in servers.settings("c1").nats],
            ca_file=None,
            cert_file=None,
            key_file=None,
        ),
    ):
        with pytest.raises(ClusterError):
            as_user(settings, read)
    assert "certificate verify failed" in refused(servers.settings("c1", ca_file=tmp_path / "ca.pem"), read)


def test_access_that_is_taken_away_ends_at_once(servers: ClusterServers) -> None:
    """A line of users.conf is removed, the servers read it again: the open connection ends, none is made."""
    with Connection(servers.settings("c1"), "test") as connection:
        try:
            servers.change_users(r' *{ user: "c1" }', "")
            eventually(lambda: not connection.connected, lambda: servers.log)
            eventually(lambda: shut_out(servers.settings("c1")), lambda: servers.log)
        finally:
            servers.change_users("^", "")
    eventually(lambda: as_user(servers.settings("c1"), read_back), lambda: servers.log)


def shut_out(settings: ClusterSettings) -> bool:
    """Whether no server lets a user in; each reads the file again in its own time."""
    try:
        as_user(settings, read_back, 1)
    except ClusterError as error:
        return "Authorization Violation" in str(error)
    return False


async def read_back(js: JetStreamContext) -> Any:
    """Something of NATS."""
    return await js.account_info()

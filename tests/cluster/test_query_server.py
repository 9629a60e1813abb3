"""One query to all: answers in many messages, deadlines, and how many a member answers at a time."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from hopscope.base.errors import HopscopeError
from hopscope.cluster.connection import MEMBER, MESSAGE_BYTES, MORE, ClusterError, Connection, Reply
from hopscope.cluster.process import Context
from hopscope.cluster.queries.client import ASK, QueryClient
from hopscope.cluster.queries.parts import (
    ANSWER_BYTES,
    HEADER_BYTES,
    PART,
    Answer,
    DamagedAnswerError,
    join,
    split,
)
from hopscope.cluster.queries.server import AT_ONCE, MAX_WAITING, QueryServer
from support.cluster.members import Member, make, running, settings_of, with_nats
from support.servers.server_process import NatsServer
from support.waiting import HANG_SECONDS

LARGE = np.random.default_rng(1).bytes(3_000_000)
"""Three messages of NATS, since it does not get smaller."""


class Answers:
    """Answers as the query says; counts those under way."""

    def __init__(self) -> None:
        self.now = self.most = 0

    async def __call__(self, query: Mapping[str, Any]) -> Answer:
        """`what`: how."""
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            match query["what"]:
                case "large":
                    return Answer(200, LARGE)
                case "too large":
                    return Answer(200, bytes(ANSWER_BYTES + 1))
                case "never":
                    await asyncio.sleep(3600)
                case "fail":
                    raise ZeroDivisionError
                case "refuse":
                    raise HopscopeError("the disk\nis gone")
            return Answer(200, b"now")
        finally:
            self.now -= 1

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture(scope="module")
def member(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Member]:
    """One member, which answers queries of the kind `test`."""

    def parts(context: Context) -> list[Any]:
        return [QueryServer(context, {"test": Answers})]

    settings = settings_of(nats.url, "one", "c1", member_seconds=30, answer_seconds=5)
    make(settings)
    made = Member(settings, tmp_path_factory.mktemp("c1"), parts)
    with running(made):
        yield made


@pytest.fixture
def query_client(member: Member) -> Iterator[QueryClient]:
    """Asks it."""
    with closing(QueryClient(Connection(member.context.settings.cluster, "test"))) as made:
        yield made


def body(answer: Answer) -> bytes:
    """What was answered."""
    return answer.body


def test_a_large_answer_comes_in_several_messages(query_client: QueryClient) -> None:
    """Three megabytes arrive as they were, through messages of one."""
    assert query_client.ask("test", {"what": "large"}, body).found == {"c1": LARGE}


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("too large", "error 413: its answer has 32 MiB, more than 32 MiB: ask for less"),
        ("fail", "error 500: internal error: see this member's log"),
        ("refuse", "error 503: the disk is gone"),
    ],
)
def test_what_a_member_cannot_answer_is_its_reason(query_client: QueryClient, what: str, reason: str) -> None:
    """Nothing is cut: the member is missing, and says why in one line."""
    gathered = query_client.ask("test", {"what": what}, body)
    assert (gathered.found, gathered.answer.missing) == ({}, {"c1": reason})


def test_a_kind_of_another_version_is_refused(query_client: QueryClient) -> None:
    """A member that does not know it says so."""
    assert "unknown kind of query 'newer'" in query_client.ask("newer", {}, body).answer.missing["c1"]


def test_an_answer_that_cannot_be_read_is_its_members_reason(query_client: QueryClient) -> None:
    """As is what `read` raises."""

    def refuse(answer: Answer) -> bytes:
        raise ValueError("found no\ntable")

    assert query_client.ask("test", {"what": "now"}, refuse).answer.missing == {"c1": "found no table"}


def test_members_are_asked_while_their_list_cannot_be_read(query_client: QueryClient) -> None:
    """As when JetStream has no leader: those of the last list are asked, which needs none."""

    class NoLeader:
        def living(self, seconds: float) -> Any:
            raise ClusterError("no leader")

    query_client.ask("test", {"what": "now"}, body)
    query_client._directory, query_client._list_at = NoLeader(), float("-inf")  # type: ignore[assignment]
    assert query_client.ask("test", {"what": "now"}, body).found == {"c1": b"now"}


def test_strangers_fill_no_memory(nats: NatsServer, member: Member) -> None:
    """One who answers under many names, with empty messages, too: all of them have the room of one member."""
    with (
        Connection(member.context.settings.cluster, "stranger") as stranger,
        Connection(member.context.settings.cluster, "test") as query_client,
    ):
        sent = threading.Event()

        async def answer(message: Any) -> None:
            for number in range(200):
                headers = {MEMBER: f"s{number}", MORE: "1"}
                await stranger.client.publish(message.reply, bytes(1000 * (number % 2)), headers=headers)
            await stranger.client.publish(message.reply, b"end", headers={MEMBER: "c1"})
            await stranger.client.flush()
            sent.set()

        stranger.answer("hopscope.test.strangers", answer)
        stranger.run(stranger.client.flush(), HANG_SECONDS)  # the server knows that it answers
        found = query_client.ask("hopscope.test.strangers", b"", 5, ["c1"], most_bytes=20 * MESSAGE_BYTES)
        assert sent.wait(HANG_SECONDS)
        assert len(found) <= 1 + 20
        assert found[-1].body == b"end"


def test_few_queries_are_answered_at_a_time_and_none_too_late(nats: NatsServer, member: Member) -> None:
    """A hundred that never end: four are under way, 60 wait, the others are refused at once; after the
    deadline none is under way and none was answered, and the next one is.
    """
    queries = next(part for part in member.process._parts if isinstance(part, QueryServer))
    late = member.context.counts["queries_late"]

    async def flood(client: Any, _: Any) -> list[str]:
        subject, inbox = f"hopscope.one.{ASK}", client.new_inbox()
        answers = await client.subscribe(inbox)
        query = json.dumps({"kind": "test", "what": "never", "seconds": 1}).encode()
        for _ in range(100):
            await client.publish(subject, query, reply=inbox)
        await client.flush()
        found = []
        try:
            while True:
                found.append((await answers.next_msg(3)).headers["hopscope-status"])
        except TimeoutError:
            return found

    assert with_nats(nats.url, flood) == ["503"] * (100 - MAX_WAITING)
    made = queries._made["test"]
    assert isinstance(made, Answers)
    assert (made.most, made.now) == (AT_ONCE, 0)
    assert member.context.counts["queries_late"] == late + MAX_WAITING
    with closing(QueryClient(Connection(member.context.settings.cluster, "test"))) as query_client:
        assert query_client.ask("test", {"what": "now"}, body).found == {"c1": b"now"}


def replies(answer: Answer, name: str = "x", largest: int = HEADER_BYTES + 1024) -> list[Reply]:
    """An answer as it comes."""
    return [Reply("c1", headers, body, 0.0) for headers, body in split(answer, name, largest)]


@pytest.mark.parametrize("size", [0, 1, 1024, 100_000])
def test_parts_join_to_what_was_split(size: int) -> None:
    """Of any size; parts of another answer between them do not matter."""
    answer = Answer(200, LARGE[:size])
    messages = replies(answer)
    assert (len(messages) > 90) == (size == 100_000)
    assert all((MORE in each.headers) == (at < len(messages) - 1) for at, each in enumerate(messages))
    assert join(messages) == answer
    others = replies(Answer(200, LARGE[:5000]), "other")[:-1]
    assert join([others[0], *messages[:-1], *others[1:], messages[-1]]) == answer


def test_parts_that_are_missing_are_noticed() -> None:
    """Without the last part it is not whole; without one between, or with one twice, it is damaged."""
    messages = replies(Answer(200, LARGE[:5000]))
    assert join(messages[:-1]) is None
    for bad in ([messages[0], *messages[2:]], [messages[0], *messages], messages[1:]):
        with pytest.raises(DamagedAnswerError, match="parts of its answer are missing"):
            join(bad)
    cut = [Reply("c1", {**messages[0].headers}, messages[0].body, 0.0)]
    del cut[0].headers[MORE]
    with pytest.raises(DamagedAnswerError, match="ends too early"):
        join(cut)
    with pytest.raises(DamagedAnswerError, match="status"):
        join([Reply("c1", {PART: "0"}, b"", 0.0)])

"""Slow work of one kind holds up no other, and ends when its client is gone."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import HTTPException

from hopscope.base.names import Names
from hopscope.history.sandbox.processes import Sandbox, SqlError
from hopscope.history.sandbox.query import folder_source
from hopscope.present.history import SharedHistory
from hopscope.serve import context as budgets
from hopscope.serve.context import Context
from hopscope.serve.live.answers import HUB, is_watched
from hopscope.serve.routes import flows as flow_routes
from hopscope.settings.serve import ServeSettings
from support.waiting import HANG_SECONDS

SLOW = {"sql": "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b"}


def request(gone: bool = False, client: str = "192.0.2.1") -> Any:
    """A request of a client that is there, or gone."""

    async def is_disconnected() -> bool:
        return gone

    scope = {"client": (client, 4711)}
    return SimpleNamespace(scope=scope, query_params={}, is_disconnected=is_disconnected)


def held_until(free: threading.Event, work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, which does not begin before."""

    def late(*args: Any) -> Any:
        free.wait(HANG_SECONDS)
        return work(*args)

    return late


def test_health_is_answered_while_everything_else_is_full(api: Any, collector: Any) -> None:
    """Slow requests of state and history in all threads and queues: health and metrics answer at once."""
    free = threading.Event()

    async def use() -> None:
        async with api(collector.folder) as client:
            context: Context = client._transport.app.app.app.state.context
            held: list[Any] = [context.run(free.wait) for _ in range(budgets.WAITING)]
            held += [
                context.query(request(), lambda _, gone: free.wait(HANG_SECONDS))
                for _ in range(budgets.PER_CLIENT)
            ]
            tasks = [asyncio.ensure_future(each) for each in held]
            await asyncio.sleep(0)
            try:
                for path in ("/healthz", "/readyz", "/metrics"):
                    assert (await client.get(path)).status_code == 200, path
                assert (await client.get("/api/v0/summary")).status_code == 503
            finally:
                free.set()
            await asyncio.gather(*tasks)
            assert (await client.get("/api/v0/summary")).status_code == 200

    asyncio.run(use())


def test_what_is_cheap_waits_for_nothing_that_is_not(
    api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries about alarms, flows and a time range of history that do not end: tables, counters and the
    newest events are answered.
    """
    free = threading.Event()
    collector.report()

    async def use() -> None:
        async with api(collector.folder) as client:
            context: Context = client._transport.app.app.app.state.context
            assert (await client.get("/api/v0/alarms")).status_code == 200
            for place, name in (
                (context.alarms, "read"),
                (flow_routes, "flow_rows"),
                (SharedHistory, "counts"),
            ):
                monkeypatch.setattr(place, name, held_until(free, getattr(place, name)))
            slow = ["/api/v0/alarms", "/api/v0/flows", "/api/v0/events/histogram"]
            held = [asyncio.ensure_future(client.get(path)) for path in slow for _ in range(2)]
            await asyncio.sleep(0.1)
            try:
                for path in ("summary", "queues", "ports", "switches", "sources", "system", "events"):
                    async with asyncio.timeout(HANG_SECONDS / 2):
                        assert (await client.get(f"/api/v0/{path}")).status_code == 200, path
            finally:
                free.set()
                await asyncio.gather(*held)

    asyncio.run(use())


def test_who_waits_too_long_is_told_when_to_come_back(
    api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No thread is free in time, for state or for history: 503 with Retry-After, and the work is never done;
    what a page watches waits on.
    """
    monkeypatch.setattr(budgets, "PATIENCE_SECONDS", 0.2)
    free = threading.Event()
    done: list[str] = []

    async def watch(context: Context) -> None:
        is_watched.set(True)
        await context.scan(lambda: done.append("watched"))

    async def use() -> None:
        async with api(collector.folder) as client:
            context: Context = client._transport.app.app.app.state.context
            held: list[Any] = [context.scan(lambda: free.wait(HANG_SECONDS))]
            held += [
                context.query(request(client="192.0.2.9"), lambda _, gone: free.wait(HANG_SECONDS))
                for _ in range(budgets.QUERIES)
            ]
            tasks = [asyncio.ensure_future(each) for each in held]
            await asyncio.sleep(0.1)
            watched = asyncio.ensure_future(watch(context))
            late = context.query(request(), lambda _, gone: done.append("late"))
            with pytest.raises(HTTPException, match="busy") as refused:
                await late
            assert (refused.value.status_code, refused.value.headers) == (503, {"Retry-After": "5"})
            answer = await client.get("/api/v0/flows")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "busy" in answer.json()["error"]
            free.set()
            await asyncio.gather(*tasks, watched)
            assert done == ["watched"]
            assert (await client.get("/api/v0/flows")).status_code == 200

    asyncio.run(use())


def test_metrics_are_made_once_for_all_who_wait(tmp_path: Path) -> None:
    """Work on health that is under way is shared; what is asked afterwards is done again."""
    calls: list[int] = []
    free = threading.Event()

    def work() -> int:
        calls.append(1)
        free.wait(HANG_SECONDS)
        return len(calls)

    async def use() -> None:
        context = Context(ServeSettings(), tmp_path, Names(), tmp_path)
        waiting = [asyncio.ensure_future(context.shared("metrics", work)) for _ in range(100)]
        await asyncio.sleep(0)
        free.set()
        assert set(await asyncio.gather(*waiting)) == {1}
        assert await context.shared("metrics", work) == 2
        context.close()

    asyncio.run(use())


def test_a_client_has_few_queries_at_a_time(tmp_path: Path) -> None:
    """One more than PER_CLIENT is refused while they run; afterwards it is taken."""
    free = threading.Event()

    async def use() -> None:
        context = Context(ServeSettings(), tmp_path, Names(), tmp_path)
        tasks = [
            asyncio.ensure_future(context.query(request(), lambda _, gone: free.wait(HANG_SECONDS)))
            for _ in range(budgets.PER_CLIENT)
        ]
        await asyncio.sleep(0)
        with pytest.raises(HTTPException, match="too many queries") as refused:
            await context.query(request(), lambda _, gone: True)
        assert refused.value.status_code == 503
        free.set()
        assert all(await asyncio.gather(*tasks))
        assert await context.query(request(), lambda _, gone: True)
        assert not context.asking.total()
        context.close()

    asyncio.run(use())


def test_watched_answers_leave_room_for_queries(tmp_path: Path) -> None:
    """However many answers are watched: they wait, none is refused, and a query of a client is taken."""
    free = threading.Event()

    async def use() -> None:
        context = Context(ServeSettings(), tmp_path, Names(), tmp_path)
        watched = [
            asyncio.ensure_future(context.query(request(client=HUB), lambda _, gone: free.wait(HANG_SECONDS)))
            for _ in range(2 * budgets.MAX_QUERIES)
        ]
        await asyncio.sleep(0)
        assert context.asking.total() == budgets.QUERIES
        asked = asyncio.ensure_future(context.query(request(), lambda _, gone: True))
        await asyncio.sleep(0)
        free.set()
        assert await asked
        assert all(await asyncio.gather(*watched))
        assert not context.asking.total()
        context.close()

    asyncio.run(use())


def test_watched_answers_leave_room_for_requests_of_state(tmp_path: Path) -> None:
    """More than may wait are watched: none is refused, and a client's request is taken."""
    free = threading.Event()

    async def watch(context: Context) -> bool:
        is_watched.set(True)
        return await context.run(free.wait, HANG_SECONDS)

    async def use() -> None:
        context = Context(ServeSettings(), tmp_path, Names(), tmp_path)
        watched = [asyncio.ensure_future(watch(context)) for _ in range(2 * budgets.WAITING)]
        await asyncio.sleep(0)
        asked = asyncio.ensure_future(context.run(lambda: True))
        await asyncio.sleep(0)
        free.set()
        assert await asked
        assert all(await asyncio.gather(*watched))
        context.close()

    asyncio.run(use())


def test_a_query_ends_with_its_client(collector: Any) -> None:
    """SQL that would take for ever: its process is killed once the client is gone, and its place is free."""
    ended = threading.Event()

    def work(_: SharedHistory, gone: threading.Event) -> None:
        source = folder_source(collector.folder, {}, ())
        with closing(Sandbox()) as sandbox, pytest.raises(SqlError, match="stopped"):
            sandbox.run(SLOW["sql"], source, limit=1, seconds=200, memory_bytes=1 << 28, stop=gone)
        ended.set()

    async def use() -> None:
        context = Context(ServeSettings(), collector.folder, Names(), collector.folder)
        with pytest.raises(HTTPException):
            await context.query(request(gone=True), work)
        assert await asyncio.to_thread(ended.wait, HANG_SECONDS)
        assert not context.asking.total()
        context.close()

    asyncio.run(use())


def test_live_feeds_are_few(api: Any, collector: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the most live feeds, of a client or of all, are refused in one line."""

    async def use() -> list[httpx.Response]:
        async with api(collector.folder) as client:
            context: Context = client._transport.app.app.app.state.context
            context.streaming["127.0.0.1"] = budgets.PER_CLIENT
            first = await client.get("/api/v0/events/live")
            context.streaming = Counter({"192.0.2.1": budgets.STREAMS})
            return [first, await client.get("/api/v0/events/live")]

    for answer in asyncio.run(use()):
        assert answer.status_code == 503
        assert "live feeds" in answer.json()["error"]

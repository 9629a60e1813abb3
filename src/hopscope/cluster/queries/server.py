"""Answers queries from other members, a few at a time, and none after its deadline.

Anyone with credentials for NATS can ask, and no query can change anything. Messages that are not queries
are counted, and get no answer; queries that cannot be answered get an HTTP status and one line of text.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from ...base.errors import HopscopeError, described
from ...base.log import logger
from ...base.process.loop_thread import LoopThread
from ..connection import MEMBER
from ..process import Context, Part
from .client import ASK
from .parts import Answer, split

AT_ONCE = 4
"""How many queries are answered at a time."""
MAX_WAITING = 64
"""How many queries may wait; any further one is answered with 503."""
MAX_BYTES = 256 * 1024
"""Longest query."""
MAX_SECONDS = 60.0
READY_SECONDS = 2.0
"""How long after the start handlers are made, so that the first query does not wait 1-2 s for imports."""


class Handler(Protocol):
    """Answers queries of one kind."""

    async def __call__(self, query: Mapping[str, Any]) -> Answer:
        """Answer a query; cancelled at the deadline. A HopscopeError becomes 503 with its text."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


class QueryServer(Part):
    """Answers queries by kind; `handlers` are made soon after the start, or for the first query."""

    name = "queries"
    seconds = 10.0

    def __init__(self, context: Context, handlers: Mapping[str, Callable[[], Handler]]) -> None:
        super().__init__(context)
        self._make = handlers
        self._made: dict[str, Handler] = {}
        self._loop: LoopThread | None = None
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    def start(self) -> None:
        """Subscribe."""
        self._loop = LoopThread("queries")  # the client's loop has heartbeats to send
        self._free, self._waiting = asyncio.Semaphore(AT_ONCE), 0
        connection = self.context.connection
        connection.answer(connection.names.subject(ASK), self._take)
        self._loop.loop.call_soon_threadsafe(self._loop.loop.call_later, READY_SECONDS, self._prepare)

    def turn(self) -> None:
        """Nothing to do: queries arrive through the subscription."""

    def stop(self) -> None:
        """Cancel pending queries."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
        for handler in self._made.values():
            handler.close()
        self._made = {}

    def _prepare(self) -> None:
        """In this part's loop: make the handlers that do not exist yet."""
        for kind in self._make:
            with suppress(HopscopeError):  # a query will report the reason
                self._handler(kind)

    async def _take(self, message: Any) -> None:
        """In the client's loop: hand a query over."""
        loop, client = self._loop, asyncio.get_running_loop()
        if loop is None or not message.reply:
            return
        query = _query(message.data)
        if query is None:
            self.context.counts["queries_bad"] += 1
            return
        to = query.get("to")
        if isinstance(to, list) and self.context.name not in to:
            return
        self.context.counts["queries"] += 1
        with suppress(RuntimeError):  # the loop has just been closed
            asyncio.run_coroutine_threadsafe(self._work(query, message, client), loop.loop)

    async def _work(self, query: dict[str, Any], message: Any, client: asyncio.AbstractEventLoop) -> None:
        """In this part's loop: answer a query, if there is time."""
        try:
            async with asyncio.timeout(query["seconds"]):
                answer = await self._answer(query)
        except TimeoutError:
            self.context.counts["queries_late"] += 1
            return
        if answer.status >= 500:
            self.context.counts["queries_failed"] += 1
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._send(answer, message), client)

    async def _answer(self, query: dict[str, Any]) -> Answer:
        if self._waiting >= MAX_WAITING:
            return Answer(503, b"too many queries at once: try again in a moment")
        self._waiting += 1
        try:
            async with self._free:
                return await self._handler(query["kind"])(query)
        except HopscopeError as error:
            return Answer(503, str(error).encode())
        except (asyncio.CancelledError, TimeoutError):
            raise
        except Exception as error:
            logger("cluster").error("a query failed", kind=query["kind"], error=described(error))
            return Answer(500, b"internal error: see this member's log")
        finally:
            self._waiting -= 1

    def _handler(self, kind: str) -> Handler:
        if kind not in self._made:
            if kind not in self._make:
                raise HopscopeError(f"unknown kind of query {kind[:40]!r}: its version may be an older one")
            self._made[kind] = self._make[kind]()
        return self._made[kind]

    async def _send(self, answer: Answer, message: Any) -> None:
        """In the client's loop: send an answer in as many messages as needed."""
        import nats.errors

        client = self.context.connection.client
        with suppress(nats.errors.Error):  # the connection is gone: the member is named as missing
            for headers, body in split(answer, secrets.token_hex(8), client.max_payload):
                await client.publish(message.reply, body, headers={MEMBER: self.context.name, **headers})


def _query(body: bytes) -> dict[str, Any] | None:
    """A query with its kind and remaining seconds; None: the message is not a query."""
    if len(body) > MAX_BYTES:
        return None
    try:
        query = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(query, dict) or not isinstance(query.get("kind"), str):
        return None
    seconds = query.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MAX_SECONDS:
        return None
    return query

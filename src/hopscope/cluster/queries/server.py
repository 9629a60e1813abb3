"""Answers questions from other members, a few at a time, and none after its deadline.

Anyone with credentials for NATS can ask, and no question can change anything. Messages that are not questions
are counted, and get no answer; questions that cannot be answered get an HTTP status and one line of text.
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
"""How many questions are answered at a time."""
MOST_WAITING = 64
"""How many questions may wait; any further one is answered with 503."""
MOST_BYTES = 256 * 1024
"""Longest question."""
MOST_SECONDS = 60.0
READY_SECONDS = 2.0
"""How long after the start answerers are made, so that the first question does not wait 1-2 s for imports."""


class Answerer(Protocol):
    """Answers questions of one kind."""

    async def __call__(self, question: Mapping[str, Any]) -> Answer:
        """Answer a question; cancelled at the deadline. A HopscopeError becomes 503 with its text."""
        ...

    def close(self) -> None:
        """Release resources."""
        ...


class Questions(Part):
    """Answers questions by kind; `answerers` are made soon after the start, or for the first question."""

    name = "questions"
    seconds = 10.0

    def __init__(self, context: Context, answerers: Mapping[str, Callable[[], Answerer]]) -> None:
        super().__init__(context)
        self._make = answerers
        self._made: dict[str, Answerer] = {}
        self._loop: LoopThread | None = None
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    def start(self) -> None:
        """Subscribe."""
        self._loop = LoopThread("questions")  # the client's loop has heartbeats to send
        self._free, self._waiting = asyncio.Semaphore(AT_ONCE), 0
        connection = self.context.connection
        connection.answer(connection.names.subject(ASK), self._take)
        self._loop.loop.call_soon_threadsafe(self._loop.loop.call_later, READY_SECONDS, self._prepare)

    def turn(self) -> None:
        """Nothing to do: questions arrive through the subscription."""

    def stop(self) -> None:
        """Cancel pending questions."""
        if self._loop is not None:
            self._loop.close()
            self._loop = None
        for answerer in self._made.values():
            answerer.close()
        self._made = {}

    def _prepare(self) -> None:
        """In this part's loop: make the answerers that do not exist yet."""
        for kind in self._make:
            with suppress(HopscopeError):  # a question will report the reason
                self._answerer(kind)

    async def _take(self, message: Any) -> None:
        """In the client's loop: hand a question over."""
        loop, client = self._loop, asyncio.get_running_loop()
        if loop is None or not message.reply:
            return
        question = _question(message.data)
        if question is None:
            self.context.counts["questions_bad"] += 1
            return
        to = question.get("to")
        if isinstance(to, list) and self.context.name not in to:
            return
        self.context.counts["questions"] += 1
        with suppress(RuntimeError):  # the loop has just been closed
            asyncio.run_coroutine_threadsafe(self._work(question, message, client), loop.loop)

    async def _work(self, question: dict[str, Any], message: Any, client: asyncio.AbstractEventLoop) -> None:
        """In this part's loop: answer a question, if there is time."""
        try:
            async with asyncio.timeout(question["seconds"]):
                answer = await self._answer(question)
        except TimeoutError:
            self.context.counts["questions_late"] += 1
            return
        if answer.status >= 500:
            self.context.counts["questions_failed"] += 1
        with suppress(RuntimeError):
            asyncio.run_coroutine_threadsafe(self._send(answer, message), client)

    async def _answer(self, question: dict[str, Any]) -> Answer:
        if self._waiting >= MOST_WAITING:
            return Answer(503, b"too many questions at once: try again in a moment")
        self._waiting += 1
        try:
            async with self._free:
                return await self._answerer(question["kind"])(question)
        except HopscopeError as error:
            return Answer(503, str(error).encode())
        except (asyncio.CancelledError, TimeoutError):
            raise
        except Exception as error:
            logger("cluster").error("a question failed", kind=question["kind"], error=described(error))
            return Answer(500, b"internal error: see this member's log")
        finally:
            self._waiting -= 1

    def _answerer(self, kind: str) -> Answerer:
        if kind not in self._made:
            if kind not in self._make:
                raise HopscopeError(
                    f"unknown kind of question {kind[:40]!r}: its version may be an older one"
                )
            self._made[kind] = self._make[kind]()
        return self._made[kind]

    async def _send(self, answer: Answer, message: Any) -> None:
        """In the client's loop: send an answer in as many messages as needed."""
        import nats.errors

        client = self.context.connection.client
        with suppress(nats.errors.Error):  # the connection is gone: the member is named as missing
            for headers, body in split(answer, secrets.token_hex(8), client.max_payload):
                await client.publish(message.reply, body, headers={MEMBER: self.context.name, **headers})


def _question(body: bytes) -> dict[str, Any] | None:
    """A question with its kind and remaining seconds; None: the message is not a question."""
    if len(body) > MOST_BYTES:
        return None
    try:
        question = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(question, dict) or not isinstance(question.get("kind"), str):
        return None
    seconds = question.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS:
        return None
    return question

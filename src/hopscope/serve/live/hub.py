"""The hub: each watched answer is made once for all viewers, and sent to each if it has changed.

An answer is made twice per second at most, less often if it is slow to make or large: at most SHARE of the
time is spent on one answer and BUDGET on all, and a viewer gets at most VIEWER_BYTES per second.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from .answers import Answer

PERIOD_SECONDS = 0.5
CLUSTER_SECONDS = 2.0
"""Period of answers of a whole cluster."""
SHARE = 0.2
"""Share of the time that one answer may take to be made."""
BUDGET = 0.5
"""Share of the time that all answers may take, whoever watches what."""
VIEWER_BYTES = 200_000
"""Per second and viewer, before compression."""
MOST_PATHS = 24
"""Answers that one viewer watches."""
MOST_VIEWERS = 128
PER_CLIENT = 32
"""Viewers of one address: tabs of a browser, or browsers through one proxy."""
STILL_SECONDS = 5.0
"""A viewer without news gets a message this often, by which it knows that the server is there."""

Ask = Callable[[str], Coroutine[Any, Any, Answer]]


class Viewer:
    """One open connection: the newest of each answer that waits to be sent."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.paths: frozenset[str] = frozenset()
        self._waiting: dict[str, bytes] = {}
        self._news = asyncio.Event()
        self._budget = float(VIEWER_BYTES)
        self._at = time.monotonic()

    def offer(self, path: str, message: bytes) -> None:
        """Have a message sent, in the place of one of the same path that still waits."""
        self._waiting.pop(path, None)
        self._waiting[path] = message
        self._news.set()

    def keep(self, paths: frozenset[str]) -> None:
        """Watch these from now on; what waits of others is dropped."""
        self.paths = paths
        for path in set(self._waiting) - paths:
            del self._waiting[path]

    async def next(self) -> bytes:
        """The next message, once there is one and the viewer's share of bytes allows it; one without news
        after STILL_SECONDS.
        """
        while not self._waiting:
            self._news.clear()
            try:
                await asyncio.wait_for(self._news.wait(), STILL_SECONDS)
            except TimeoutError:
                return b'{"still": true}'
        while (owed := self._owed()) > 0:
            await asyncio.sleep(owed)
        if not self._waiting:
            return b'{"still": true}'
        path = next(iter(self._waiting))
        message = self._waiting.pop(path)
        self._budget -= len(message)
        return message

    def _owed(self) -> float:
        """Seconds until the viewer may get more: it may get VIEWER_BYTES at once, and as many per second."""
        now = time.monotonic()
        self._budget = min(VIEWER_BYTES, self._budget + (now - self._at) * VIEWER_BYTES)
        self._at = now
        return max(0.0, -self._budget / VIEWER_BYTES)


class _Topic:
    """One answer, and who watches it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.viewers: set[Viewer] = set()
        self.last: Answer | None = None
        self.message = b""
        self.share = 0.0
        """Of the time that it would take, were it the only one."""
        self.task: asyncio.Task[None] | None = None


class Hub:
    """All viewers and what they watch. Used in the server's event loop only."""

    def __init__(self, ask: Ask) -> None:
        """`ask` makes an answer of a path."""
        self._ask = ask
        self._topics: dict[str, _Topic] = {}
        self.viewers: set[Viewer] = set()
        self.clients: Counter[str] = Counter()

    def has_room(self, client: str) -> bool:
        """Whether one more viewer of this address is taken."""
        return len(self.viewers) < MOST_VIEWERS and self.clients[client] < PER_CLIENT

    def enter(self, viewer: Viewer) -> None:
        """A viewer has come."""
        self.viewers.add(viewer)
        self.clients[viewer.client] += 1

    def leave(self, viewer: Viewer) -> None:
        """A viewer has gone."""
        self.watch(viewer, ())
        self.viewers.discard(viewer)
        self.clients[viewer.client] -= 1
        if not self.clients[viewer.client]:
            del self.clients[viewer.client]

    def watch(self, viewer: Viewer, paths: Iterable[str]) -> None:
        """Let a viewer watch these answers, and no others; what is known of new ones is sent at once."""
        before, after = viewer.paths, frozenset(paths)
        viewer.keep(after)
        for path in before - after:
            topic = self._topics.get(path)
            if topic is None:  # all has ended
                continue
            topic.viewers.discard(viewer)
            if not topic.viewers and topic.task is not None:
                topic.task.cancel()
                del self._topics[path]
        for path in after - before:
            topic = self._topics.setdefault(path, _Topic(path))
            topic.viewers.add(viewer)
            if topic.message:
                viewer.offer(path, topic.message)
            if topic.task is None:
                topic.task = asyncio.create_task(self._follow(topic))

    def close(self) -> None:
        """End all work."""
        for topic in self._topics.values():
            if topic.task is not None:
                topic.task.cancel()
        self._topics.clear()

    async def _follow(self, topic: _Topic) -> None:
        """Make the answer again and again while it is watched."""
        slowest = CLUSTER_SECONDS if "scope=cluster" in topic.path else PERIOD_SECONDS
        before = 0.0  # the first answer reads code and pages: it says little about the next ones
        while True:
            begin = time.monotonic()
            try:
                answer = await self._ask(topic.path)
            except Exception:  # the application has logged it; the viewer sees it; the next may work
                answer = Answer(500, b'{"error":"internal error: see the collector\'s log"}')
            if answer != topic.last:
                topic.last, topic.message = answer, _message(topic.path, answer)
                for viewer in topic.viewers:
                    viewer.offer(topic.path, topic.message)
            took = time.monotonic() - begin
            usual, before = min(took, before), took
            topic.share = min(SHARE, usual / slowest)
            period = period_of(usual, slowest, [each.share for each in self._topics.values()])
            await asyncio.sleep(max(0.05, period - took, len(topic.message) / VIEWER_BYTES - took))


def period_of(usual: float, least: float, shares: Iterable[float]) -> float:
    """Seconds from one making of an answer to the next.

    `usual` is what it takes, `least` the shortest period, `shares` what each watched answer would take of the
    time, were it the only one.
    """
    return max(least, usual / SHARE) * max(1.0, sum(shares) / BUDGET)


def _message(path: str, answer: Answer) -> bytes:
    name, body = json.dumps(path).encode(), answer.body or b"null"
    return b'{"path":%b,"status":%d,"data":%b}' % (name, answer.status, body)

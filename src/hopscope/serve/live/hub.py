"""The hub: makes each watched answer once for all viewers, and sends it to them if it has changed.

An answer is made at most twice per second, less often if it is large or slow to make: one answer takes at
most SHARE of the time, all together BUDGET, and a viewer gets at most VIEWER_BYTES per second.
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
"""Share of the time that making one answer may take."""
BUDGET = 0.5
"""Share of the time that making all watched answers may take."""
VIEWER_BYTES = 200_000
"""Per second and viewer, before compression."""
MAX_PATHS = 24
"""Maximum number of answers that one viewer watches."""
MAX_VIEWERS = 128
PER_CLIENT = 32
"""Maximum number of viewers from one address: tabs of a browser, or browsers behind one proxy."""
STILL_SECONDS = 5.0
"""A viewer without news gets a message this often, as a sign that the server is reachable."""

Ask = Callable[[str], Coroutine[Any, Any, Answer]]


class Viewer:
    """One open connection, with the newest version of each answer that waits to be sent."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.paths: frozenset[str] = frozenset()
        self._waiting: dict[str, bytes] = {}
        self._news = asyncio.Event()
        self._budget = float(VIEWER_BYTES)
        self._at = time.monotonic()

    def offer(self, path: str, message: bytes) -> None:
        """Queue a message; it replaces a waiting message of the same path."""
        self._waiting.pop(path, None)
        self._waiting[path] = message
        self._news.set()

    def keep(self, paths: frozenset[str]) -> None:
        """Watch only these paths from now on; drop waiting messages of others."""
        self.paths = paths
        for path in set(self._waiting) - paths:
            del self._waiting[path]

    async def next(self) -> bytes:
        """The next message, as soon as there is one and the viewer's byte rate allows it; after
        STILL_SECONDS, a message without news.
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
        """Seconds until the viewer may get more: VIEWER_BYTES at once, and the same number per second."""
        now = time.monotonic()
        self._budget = min(VIEWER_BYTES, self._budget + (now - self._at) * VIEWER_BYTES)
        self._at = now
        return max(0.0, -self._budget / VIEWER_BYTES)


class _Topic:
    """One answer and its viewers."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.viewers: set[Viewer] = set()
        self.last: Answer | None = None
        self.message = b""
        self.share = 0.0
        """Share of the time that it would take if it were the only answer."""
        self.task: asyncio.Task[None] | None = None


class Hub:
    """All viewers and the answers that they watch. Used only in the server's event loop."""

    def __init__(self, ask: Ask) -> None:
        """`ask` makes the answer to a path."""
        self._ask = ask
        self._topics: dict[str, _Topic] = {}
        self.viewers: set[Viewer] = set()
        self.clients: Counter[str] = Counter()

    def has_room(self, client: str) -> bool:
        """Whether one more viewer from this address is accepted."""
        return len(self.viewers) < MAX_VIEWERS and self.clients[client] < PER_CLIENT

    def enter(self, viewer: Viewer) -> None:
        """Add a viewer."""
        self.viewers.add(viewer)
        self.clients[viewer.client] += 1

    def leave(self, viewer: Viewer) -> None:
        """Remove a viewer."""
        self.watch(viewer, ())
        self.viewers.discard(viewer)
        self.clients[viewer.client] -= 1
        if not self.clients[viewer.client]:
            del self.clients[viewer.client]

    def watch(self, viewer: Viewer, paths: Iterable[str]) -> None:
        """Let a viewer watch only these answers; if a new one is already known, it is sent at once."""
        before, after = viewer.paths, frozenset(paths)
        viewer.keep(after)
        for path in before - after:
            topic = self._topics.get(path)
            if topic is None:  # the hub has been closed
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
        before = 0.0  # the first answer loads code and pages, so its time says little
        while True:
            begin = time.monotonic()
            try:
                answer = await self._ask(topic.path)
            except Exception:  # logged by the application, shown to the viewer; the next may work
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

    `usual` is the time that it takes, `least` the shortest period, `shares` the share of the time that each
    watched answer would take if it were the only one.
    """
    return max(least, usual / SHARE) * max(1.0, sum(shares) / BUDGET)


def _message(path: str, answer: Answer) -> bytes:
    name, body = json.dumps(path).encode(), answer.body or b"null"
    return b'{"path":%b,"status":%d,"data":%b}' % (name, answer.status, body)

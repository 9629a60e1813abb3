"""Alerts: events of chosen kinds, posted as JSON to a webhook, at a bounded rate, with retries.

Nothing waits for a webhook: events are taken from the rings, a post is queued if there is room, and what is
held back or dropped is counted and told in the next post of its kind.
"""

from __future__ import annotations

import json
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from .. import __version__
from ..config import AlertSettings
from ..detect.records import Kind
from ..log import logger
from ..wire.records import Records

QUEUE = 100
"""Posts that wait for a webhook that is slow or gone."""
EVENTS = 50
"""Events in one post, those of one kind that were found together; more are held back."""
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
Describe = Callable[[np.void], dict[str, Any]]
"""An EVENT record as the object that the API shows."""


@dataclass(slots=True)
class Allowance:
    """Posts of one kind that may still be sent: a bucket of a minute's worth that fills evenly."""

    per_minute: int
    left: float = field(init=False)
    since: float = field(init=False)
    held_back: int = 0
    """Events that the next post tells about."""

    def __post_init__(self) -> None:
        self.left, self.since = float(self.per_minute), time.monotonic()

    def take(self, now: float) -> bool:
        """Whether one more post may be sent at `now` (monotonic seconds)."""
        self.left = min(float(self.per_minute), self.left + (now - self.since) * self.per_minute / 60)
        self.since = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Webhook:
    """One webhook: `offer` it events, from one thread; a thread of its own posts. `close` ends it.

    `counted` is its COUNTER_ROW; only this object writes it.
    """

    def __init__(self, settings: AlertSettings, describe: Describe, counted: Records) -> None:
        known = {kind.label: kind for kind in Kind}
        self.settings = settings
        self._describe = describe
        self._counted = counted
        self._kinds = np.array([known[name] for name in settings.kinds if name in known], np.uint8)
        self._allowed = {int(kind): Allowance(settings.per_minute) for kind in self._kinds}
        self._queue: queue.Queue[dict[str, Any]] = queue.Queue(QUEUE)
        self._stop = threading.Event()
        self._log = logger("export")
        self._thread = threading.Thread(target=self._work, name="webhook", daemon=True)
        self._thread.start()

    def offer(self, events: Records, lost: int = 0) -> None:
        """Take EVENT records; at most one post for each of the kinds among them is queued. Never waits."""
        if lost:
            self.count("ring_lost_total", lost)
        wanted = events[np.isin(events["kind"], self._kinds)]
        now = time.monotonic()
        for kind, allowance in self._allowed.items():
            found = wanted[wanted["kind"] == kind]
            if not len(found):
                continue
            if not allowance.take(now):
                self._hold_back(allowance, len(found))
                continue
            self._hold_back(allowance, max(0, len(found) - EVENTS))
            post = {
                "kind": Kind(kind).label,
                "sent_by": f"hopscope {__version__}",
                "held_back": allowance.held_back,
                "events": [self._describe(row) for row in found[:EVENTS]],
            }
            try:
                self._queue.put_nowait(post)
                allowance.held_back = 0
            except queue.Full:
                self.count("queue_full_total", len(found[:EVENTS]))
                allowance.held_back += len(found[:EVENTS])

    def _hold_back(self, allowance: Allowance, events: int) -> None:
        allowance.held_back += events
        self.count("held_back_total", events)

    def count(self, name: str, more: int = 1) -> None:
        """Add to a counter of COUNTED."""
        with _COUNTING:
            self._counted[name] += np.uint64(more)

    def close(self, timeout: float = 2.0) -> None:
        """Give what is queued `timeout` seconds, then stop; what is left is counted as failed."""
        until = time.monotonic() + timeout
        while not self._queue.empty() and time.monotonic() < until and self._thread.is_alive():
            time.sleep(0.02)
        self._stop.set()
        self._thread.join(self.settings.timeout_seconds + 1)

    def _work(self) -> None:
        timeout = httpx.Timeout(self.settings.timeout_seconds)
        with httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client:
            while not self._stop.is_set():
                try:
                    post = self._queue.get(timeout=0.1)
                except queue.Empty:
                    continue
                self._deliver(client, post)
        self.count("failed_total", self._queue.qsize())

    def _deliver(self, client: httpx.Client, post: dict[str, Any]) -> None:
        """Try until it is taken, the retries are used up, or the end."""
        content = json.dumps(post, separators=(",", ":")).encode()
        problem = ""
        for tried in range(self.settings.retries + 1):
            if tried:
                self.count("retried_total")
                pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (tried - 1))
                if self._stop.wait(pause * random.uniform(0.5, 1.5)):  # apart from other collectors' retries
                    break
            problem, again = self._post(client, content)
            if not problem:
                self.count("sent_total")
                self.count("events_total", len(post["events"]))
                return
            if not again:
                break
        self.count("failed_total")
        self._log.warning("alert not delivered", url=self.settings.url, kind=post["kind"], reason=problem)

    def _post(self, client: httpx.Client, content: bytes) -> tuple[str, bool]:
        """Post once: what went wrong (empty: nothing), and whether another try may help."""
        headers = {"content-type": "application/json", "user-agent": f"hopscope/{__version__}"}
        deadline = time.monotonic() + self.settings.timeout_seconds
        try:
            with client.stream("POST", self.settings.url, content=content, headers=headers) as answer:
                status = answer.status_code
                if 200 <= status < 300:
                    return "", False
                if 300 <= status < 400:
                    return f"status {status}: redirects are not followed", False
                if time.monotonic() > deadline:
                    return "no answer in time", True
                return f"status {status}", status in (408, 425, 429) or status >= 500
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, OSError) as error:
            return f"{type(error).__name__}: {error}", not isinstance(error, httpx.InvalidURL)


_COUNTING = threading.Lock()

"""Alerts: events of chosen kinds, posted as JSON to a webhook, at a bounded rate, with retries.

Events above the rate, and those dropped because the queue of posts is full, are counted; the next post has
their number for its kind.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx
import numpy as np

from ...base.version import VERSION
from ...detect.records import Kind
from ...present.events import LongPaths, continues, long_paths
from ...settings.destinations.webhook import AlertSettings
from ...wire.records import Records
from ..batch import ExportBatch
from ..exporter import DeliveryError, Exporter

QUEUE = 100
"""Maximum queued posts for a slow or unreachable webhook."""
EVENTS = 50
"""Maximum events per post, of one kind; further ones are suppressed."""
Post = dict[str, Any]


class Describe(Protocol):
    """Converts an EVENT record to the API's object."""

    def __call__(self, event: np.void, *, paths: LongPaths) -> dict[str, Any]:
        """`paths` are the `long_paths` of its block."""
        ...


@dataclass(slots=True)
class PostLimit:
    """Rate limit of one kind: a token bucket with the capacity of one minute."""

    per_minute: int
    left: float = field(init=False)
    since: float = field(init=False)
    throttled: int = 0
    """Suppressed events, which the next post counts."""

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


class Webhook(Exporter[Post]):
    """One webhook; `row` is its DESTINATION."""

    def __init__(self, settings: AlertSettings, describe: Describe, row: Records) -> None:
        known = {kind.label: kind for kind in Kind}
        self.settings = settings
        self.retries = settings.retries
        self._describe = describe
        self._kinds = np.array([known[name] for name in settings.kinds if name in known], np.uint8)
        self._allowed = {int(kind): PostLimit(settings.per_minute) for kind in self._kinds}
        self._client: httpx.Client | None = None
        super().__init__(row, QUEUE)

    @property
    def grace(self) -> float:
        """Timeout of one post, with a margin."""
        return self.settings.timeout_seconds + 1

    def items(self, batch: ExportBatch) -> Iterator[Post]:
        """At most one post per kind in a block."""
        for block in batch.events.blocks:
            yield from self._posts(block)

    def _posts(self, events: Records) -> Iterator[Post]:
        wanted = events[np.isin(events["kind"], self._kinds) & ~continues(events)]
        paths = long_paths(events)
        now = time.monotonic()
        for kind, allowance in self._allowed.items():
            found = wanted[wanted["kind"] == kind]
            if not len(found):
                continue
            if not allowance.take(now):
                self._throttle(allowance, len(found))
                continue
            self._throttle(allowance, max(0, len(found) - EVENTS))
            throttled, allowance.throttled = allowance.throttled, 0
            yield {
                "kind": Kind(kind).label,
                "sent_by": f"hopscope {VERSION}",
                "throttled": throttled,
                "events": [self._describe(row, paths=paths) for row in found[:EVENTS]],
            }

    def events(self, item: Post) -> int:
        """Events in a post."""
        return len(item["events"])

    def dropped(self, item: Post) -> None:
        """Add its events to the count of the next post of its kind."""
        kind = next(kind for kind in self._allowed if Kind(kind).label == item["kind"])
        self._allowed[kind].throttled += item["throttled"] + len(item["events"])

    def failed(self, item: Post) -> None:
        """Count an abandoned post."""
        self.count("failed_total")

    left = failed

    def _throttle(self, allowance: PostLimit, events: int) -> None:
        allowance.throttled += events
        self.count("throttled_total", events)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def deliver(self, item: Post) -> None:
        """Post it."""
        if self._client is None:
            timeout = httpx.Timeout(self.settings.timeout_seconds)
            self._client = httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False)
        content = json.dumps(item, separators=(",", ":")).encode()
        problem, again = self._post(self._client, content)
        if problem:
            raise DeliveryError(problem, again)
        self.count("events_total", len(item["events"]))

    def _post(self, client: httpx.Client, content: bytes) -> tuple[str, bool]:
        """Post once; returns the problem (empty: none), and whether a retry may succeed."""
        headers = {"content-type": "application/json", "user-agent": f"hopscope/{VERSION}"}
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

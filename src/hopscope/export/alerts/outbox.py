"""Collects alerts in messages, by group, and limits the rate of messages for each kind."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ...present.events import label
from ...settings.destinations.alerts import Grouping
from .alarms import Alert, fields_of
from .severity import rank

MAX_MESSAGES = 1000
"""How many messages may wait; alerts of further groups share one more message per kind."""
OTHERS = "others"


@dataclass(slots=True)
class Message:
    """One message: alerts of one group, or any alerts in order."""

    kind: str
    """Kind of all its alerts; empty: various kinds."""
    group: dict[str, str]
    """Common properties of its alerts, by the names in `group_by`."""
    due_ns: int
    alerts: list[Alert] = field(default_factory=list)
    count: int = 0
    """Number of alerts, including those that are not listed."""
    severity: str = "info"
    """Highest severity of all its alerts."""

    @property
    def id(self) -> str:
        """Id of the message, the same for every attempt to send it."""
        first = self.alerts[0]
        return f"{first['alarm']}-{first['kind']}"

    @property
    def more(self) -> int:
        """Number of alerts that are not listed."""
        return self.count - len(self.alerts)


@dataclass(slots=True)
class RateLimit:
    """Rate limit of one kind: a token bucket with the capacity of one minute."""

    per_minute: int
    left: float = field(init=False)
    since: float = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.since = float(self.per_minute), time.monotonic()

    def take(self, now: float) -> bool:
        """Whether one more message may be sent at `now` (monotonic seconds)."""
        self.left = min(float(self.per_minute), self.left + (now - self.since) * self.per_minute / 60)
        self.since = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Outbox:
    """Messages of one destination; `unlisted` counts alerts that messages count, but do not list."""

    def __init__(self, grouping: Grouping) -> None:
        self._grouping = grouping
        self._waiting: dict[tuple[str, ...], Message] = {}
        self._full: deque[Message] = deque()
        self._limits: dict[str, RateLimit] = {}
        self.under_way: Message | None = None
        """The message being sent, which may have been accepted already; it no longer changes."""
        self.unlisted = 0

    def add(self, alert: Alert, now_ns: int) -> None:
        """Put an alert into its message, at `now_ns` since the epoch."""
        by = self._grouping.by
        group = {} if by is None else {name: _value(alert, name) for name in by}
        kind = "" if by is None else alert["kind"]
        key = (kind, *group.values())
        if key not in self._waiting and len(self._waiting) >= MAX_MESSAGES:
            group = dict.fromkeys(group, OTHERS)
            key = (kind, *group.values())
        message = self._waiting.get(key)
        if message is None:
            message = Message(kind, group, now_ns + round(self._grouping.seconds * 1e9))
            self._waiting[key] = message
        message.count += 1
        message.severity = max(message.severity, alert["severity"], key=rank)
        if len(message.alerts) < self._grouping.listed:
            message.alerts.append(alert)
        else:
            self.unlisted += 1
        if by is None and len(message.alerts) >= self._grouping.listed:
            self._full.append(self._waiting.pop(key))

    @property
    def is_full(self) -> bool:
        """Whether messages without room for further alerts wait; until they are gone, no blocks are read."""
        return bool(self._full)

    def next(self, now_ns: int, ending: bool) -> Message | None:
        """The message to send now; None: none is due, or the rate limit does not allow it."""
        if self.under_way is not None:
            return self.under_way
        if self._full:
            self.under_way = self._full.popleft()
            return self.under_way
        now, most_ns = time.monotonic(), round(self._grouping.seconds * 1e9)
        refused: set[str] = set()
        for key, message in sorted(self._waiting.items(), key=lambda item: item[1].due_ns):
            waits = 0 < message.due_ns - now_ns <= most_ns  # longer: the clock was set back
            if message.kind in refused or (waits and not ending):
                continue
            if self._grouping.per_minute is not None:
                limit = self._limits.setdefault(message.kind, RateLimit(self._grouping.per_minute))
                if not limit.take(now):
                    refused.add(message.kind)
                    continue
            self.under_way = self._waiting.pop(key)
            return self.under_way
        return None

    def done(self) -> None:
        """The message being sent was accepted, or dropped."""
        self.under_way = None

    def dump(self) -> dict[str, Any]:
        """The waiting messages, for JSON."""
        return {
            "under_way": None if self.under_way is None else fields_of(self.under_way),
            "full": [fields_of(message) for message in self._full],
            "waiting": [fields_of(message) for message in self._waiting.values()],
        }

    def load(self, dumped: dict[str, Any]) -> None:
        """Restore waiting messages, with the grouping that was in use then."""
        under_way = dumped["under_way"]
        self.under_way = None if under_way is None else Message(**under_way)
        self._full.extend(Message(**each) for each in dumped["full"])
        for each in dumped["waiting"]:
            message = Message(**each)
            self._waiting[(message.kind, *message.group.values())] = message


def _value(alert: Alert, name: str) -> str:
    """A property of an alert as text: a node, a port (of a node), a flow or a metric; `-`: none."""
    if name == "metric":
        return str(alert["metric"])
    if name == "flow":
        return "-" if alert["flow"] is None else str(alert["flow"]["id"])
    source = alert["source"]
    node = label(source["node"] if source else alert["node"]) or "-"
    return node if name == "node" else f"{node} {label(alert['port']) or '-'}"

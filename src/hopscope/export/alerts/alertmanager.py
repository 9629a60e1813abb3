"""Alertmanager, through its API v2: alerts with bounded labels, resent while they last.

Alarms with the same labels, such as those of several flows at one switch, are one alert, which lasts as long
as any of them.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable
from typing import Any

from ...detect.records import Kind, Metric
from ...present.events import when
from ...settings.destinations.alerts import AlertmanagerSettings
from ..destination import Context
from .alarms import Alert
from .outbox import Message
from .post import PostingDestination
from .texts import plain, values

RESENT = 500
"""Maximum number of alerts in one POST."""
_LABELS = ("severity", "collector", "node", "node_id", "port", "port_id", "queue", "source")
_ENDS = (Kind.CLEARED.label, Kind.RETURNED.label)
_BEGINS = (Kind.RAISED.label, Kind.SILENT.label)
Labels = tuple[tuple[str, str], ...]


class Alertmanager(PostingDestination):
    """One server, or a cluster whose members share alerts."""

    Settings = AlertmanagerSettings
    path = "/api/v2/alerts"

    def __init__(self, settings: AlertmanagerSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._resent_at = 0.0

    def connect(self) -> None:
        """Resend lasting alerts, since the server may have lost them."""
        super().connect()
        self._resent_at = 0.0

    def look(self) -> None:
        """Check whether the server accepts alerts."""
        self.post([])

    def tick(self, idle: Collection[int], ending: bool) -> int:
        """Deliver messages, and resend lasting alerts."""
        delivered = super().tick(idle, ending)
        now = time.monotonic()
        if not self._resent_at or now - self._resent_at >= self.settings.resend_seconds:
            found = [self._lasting(labels, alerts) for labels, alerts in self._active().items()]
            for at in range(0, len(found), RESENT):
                self.post(found[at : at + RESENT])
                delivered += 1
            self._resent_at = now
        return delivered

    def deliver(self, message: Message) -> None:
        """Post the alerts of a message; alerts with the same labels go one after the other."""
        active = self._active()
        posts: list[dict[Labels, dict[str, Any]]] = [{}]
        for alert in message.alerts:
            labels = self.labels(alert)
            if alert["kind"] in _ENDS and labels in active:
                continue  # it belongs to another alarm with these labels
            if alert["kind"] in _ENDS:
                found = self._alert(labels, [alert], alert["since"], alert["time"])
            elif alert["kind"] in _BEGINS:
                found = self._lasting(labels, active.get(labels, [alert]))
            else:
                ends = time.time_ns() + round(self.settings.event_seconds * 1e9)
                found = self._alert(labels, [alert], alert["time"], when(ends))
            if labels in posts[-1]:
                posts.append({})
            posts[-1][labels] = found
        for post in filter(None, posts):
            self.post(list(post.values()))

    def labels(self, alert: Alert) -> Labels:
        """The labels of an alert: its place, but neither flow nor numbers."""
        found = values(alert, self.context.member)
        name = alert["kind"] if alert["kind"] not in (*_BEGINS, *_ENDS) else alert["metric"]
        if name == Metric.NONE.label:
            name = Kind.SILENT.label
        given = {"alertname": name, **{key: found[key] for key in _LABELS}}
        return tuple((key, plain(value)) for key, value in given.items() if value)

    def _active(self) -> dict[Labels, list[Alert]]:
        """Open alarms that were sent, by labels, earliest first."""
        found: dict[Labels, list[Alert]] = {}
        for alarm in sorted(self.alarms, key=lambda alarm: alarm.since_ns):
            wanted = alarm.alert["kind"] in (self.settings.kinds or _BEGINS)
            if alarm.sent and wanted and not self.is_held_back(alarm):
                found.setdefault(self.labels(alarm.alert), []).append(alarm.alert)
        return found

    def _lasting(self, labels: Labels, alerts: list[Alert]) -> dict[str, Any]:
        ends = time.time_ns() + round(4e9 * self.settings.resend_seconds)
        return self._alert(labels, alerts, alerts[0]["since"], when(ends))

    def _alert(self, labels: Labels, alerts: Iterable[Alert], since: str, until: str) -> dict[str, Any]:
        first, *others = alerts
        found = values(first, self.context.member)
        more = f" and {len(others):,} more" if others else ""
        notes = {name: plain(found[name]) for name in ("value", "limit", "flow", "path", "reason", "time")}
        page = self.texts.page(first)
        return {
            "labels": dict(labels),
            "annotations": {
                "summary": self.texts.line(first) + more,
                "alarms": str(1 + len(others)),
                **{name: text for name, text in notes.items() if text},
            },
            "startsAt": since,
            "endsAt": until,
            **({"generatorURL": page} if page else {}),
        }

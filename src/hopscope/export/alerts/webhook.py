"""Webhooks: messages as JSON."""

from __future__ import annotations

from typing import Any

from ...base.version import VERSION
from ...settings.destinations.alerts import WebhookSettings
from .outbox import Message
from .post import PostingDestination


class Webhook(PostingDestination):
    """One webhook."""

    Settings = WebhookSettings

    def deliver(self, message: Message) -> None:
        """Post a message; a repeated message has the same `id`."""
        self.post(self._body(message), message.id)

    def _body(self, message: Message) -> dict[str, Any]:
        return {
            "id": message.id,
            "kind": message.kind,
            "severity": message.severity,
            "group": message.group,
            "title": self.texts.title(message),
            "count": message.count,
            "unlisted": message.more,
            "collector": self.context.member,
            "sent_by": f"hopscope {VERSION}",
            "events": [alert | {"page": self.texts.page(alert) or None} for alert in message.alerts],
        }

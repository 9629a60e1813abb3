"""Settings of webhooks."""

from __future__ import annotations

from pydantic import Field

from ...section import Seconds
from ..shown import shown_webhook
from ..tls import TlsSettings
from .common import MessageSettings

URL = r"^(https?://[^\s]+|env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$"


class WebhookSettings(TlsSettings, MessageSettings):
    """Alerts as JSON, by POST."""

    url: str = Field(pattern=URL)
    """Where messages are posted; `env:NAME` or `file:PATH` says where to find the address."""
    token: str = ""
    """Bearer token; `env:NAME` or `file:PATH` says where to find it."""
    group_seconds: Seconds = Field(default=0.0, le=86_400)
    """How long a message waits for more alerts; 0: it does not wait."""
    listed: int = Field(default=50, ge=1, le=500)
    """Most alerts that a message lists; it also gives the number of further alerts."""

    @property
    def place(self) -> str:
        """Without the path, which is the key of some services."""
        return shown_webhook(self.url)

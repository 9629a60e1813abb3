"""Settings of Slack and Mattermost."""

from __future__ import annotations

from pydantic import Field

from ..shown import shown_webhook
from ..tls import TlsSettings
from .common import MessageSettings
from .webhook import URL


class SlackSettings(TlsSettings, MessageSettings):
    """Messages in a channel, by an incoming webhook of Slack, Mattermost, or a compatible service."""

    url: str = Field(pattern=URL)
    """The incoming webhook. Since the address is a secret, `env:NAME` or `file:PATH` can say where to find
    it.
    """

    @property
    def place(self) -> str:
        """Without the path, which is the key."""
        return shown_webhook(self.url)

"""Slack, Mattermost and compatible services: messages in a channel, through an incoming webhook.

A message is its `text`, which all of them show; Slack shows `blocks` instead. Names of nodes and ports can
neither mention anyone nor be links: `&`, `<` and `>` are escaped, and an invisible space follows `@`.
"""

from __future__ import annotations

from typing import Any

from ...settings.destinations.alerts import SlackSettings
from ..destination import Context
from .outbox import Message
from .post import PostingDestination
from .texts import Texts, plain

BLOCK = 2900
"""Maximum length of a block; Slack accepts 3,000 characters."""
ICONS = {"info": ":information_source:", "warning": ":warning:", "critical": ":rotating_light:"}
TITLE = 1000
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@\u200b"} | dict.fromkeys("*~`[]|\\", " ")
_TABLE = str.maketrans(_ESCAPES)


def escaped(text: str) -> str:
    """A value escaped for Slack: no mention, no link, no markup."""
    return plain(text).translate(_TABLE)


class Slack(PostingDestination):
    """One channel."""

    Settings = SlackSettings

    def __init__(self, settings: SlackSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.texts = Texts(settings, context.member, escaped)

    def deliver(self, message: Message) -> None:
        """Post a message."""
        self.post(self._body(message))

    def _body(self, message: Message) -> dict[str, Any]:
        text = f"{ICONS[message.severity]} {self.texts.title(message)}"[:TITLE]
        for at, alert in enumerate(message.alerts):
            page = self.texts.page(alert)
            line = f"\n• {self.texts.line(alert)}" + (f" <{page}|page>" if page else "")
            if len(text) + len(line) > BLOCK:
                return _message(text, message.count - at)
            text += line
        return _message(text, message.more)


def _message(text: str, more: int) -> dict[str, Any]:
    text += f"\n… {more:,} more" if more else ""
    return {"text": text, "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": text}}]}

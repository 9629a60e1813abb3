"""Settings of e-mail."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ...section import Seconds
from ..tls import TlsSettings
from .common import MessageSettings

Address = Annotated[str, Field(pattern=r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$", max_length=254)]


class EmailSettings(TlsSettings, MessageSettings):
    """E-mail, by a mail server."""

    url: str = Field(
        default="smtp://127.0.0.1:25", pattern=r"^smtps?://(\[[0-9A-Fa-f:.]+\]|[^\s/@:\[\]]+):\d{1,5}$"
    )
    """Address of the mail server, such as `smtp://mail.example:587`; `smtps://…:465` uses TLS from the
    start.
    """
    starttls: bool = True
    """Change to TLS (STARTTLS) before anything is sent; without it, a password is sent in the clear."""
    user: str = ""
    """User; empty: no login."""
    password: str = ""
    """Password; `env:NAME` or `file:PATH` says where to find it."""
    sender: Address = "hopscope@localhost"
    """Address of the sender."""
    to: tuple[Address, ...] = Field(min_length=1, max_length=100)
    """Addresses of the recipients."""
    group_seconds: Seconds = Field(default=30.0, le=86_400)
    """How long a message waits for more alerts; 0: it does not wait."""
    listed: int = Field(default=50, ge=1, le=500)
    """Most alerts that a message lists; it also gives the number of further alerts."""
    per_minute: int = Field(default=4, ge=1)
    """Most messages per minute of each kind; above the limit, a message waits and collects further alerts."""

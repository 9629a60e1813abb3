"""Authentication and trust settings of a NATS client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..settings.destinations.buses import NatsAccess
from .credentials import secret, tls_context


def access_options(settings: NatsAccess, servers: Sequence[str]) -> dict[str, Any]:
    """Options for nats-py's `connect`. The DeliveryError that it may raise names the invalid file."""
    options: dict[str, Any] = {}
    if settings.user:
        options |= {"user": settings.user, "password": secret(settings.password)}
    if settings.token:
        options["token"] = secret(settings.token)
    if settings.credentials:
        options["user_credentials"] = str(settings.credentials)
    encrypted = any(server.startswith("tls:") for server in servers)
    if encrypted or settings.ca_file or settings.cert_file:
        options["tls"] = tls_context(settings)
    return options

"""How a client of NATS shows who it is, and whom it trusts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..settings.destinations.buses.nats import NatsAccess
from .credentials import secret
from .tls import tls_context


def access_options(settings: NatsAccess, servers: Sequence[str]) -> dict[str, Any]:
    """Options of `connect` of nats-py. Raises DeliveryError, which names a file that is no good."""
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

"""Passwords, tokens and certificates, read when a destination connects."""

from __future__ import annotations

import ssl

from ..base.tls import TlsError, client_context
from ..settings.destinations import shown
from ..settings.destinations.tls import TlsSettings
from .destination import DeliveryError


def secret(text: str) -> str:
    """A password or token of the settings (`shown.secret`). Raises DeliveryError if it cannot be read."""
    try:
        return shown.secret(text)
    except (ValueError, OSError) as error:
        raise DeliveryError(error) from None


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context that verifies the server and its host name. DeliveryError names an invalid file."""
    try:
        return client_context(settings.ca_file, settings.cert_file, settings.key_file)
    except TlsError as error:
        raise DeliveryError(str(error)) from None

"""Connections of destinations over TLS."""

from __future__ import annotations

import ssl

from ..base.tls import TlsError, client_context
from ..settings.destinations.tls import TlsSettings
from .destination import DeliveryError


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Verifies the server and its host name. Raises DeliveryError, which names a file that is no good."""
    try:
        return client_context(settings.ca_file, settings.cert_file, settings.key_file)
    except TlsError as error:
        raise DeliveryError(str(error)) from None

"""TLS contexts for destinations."""

from __future__ import annotations

import ssl

from ..base.tls import TlsError, client_context
from ..settings.destinations.tls import TlsSettings
from .destination import DeliveryError


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """A context that verifies the server and its host name. DeliveryError names an invalid file."""
    try:
        return client_context(settings.ca_file, settings.cert_file, settings.key_file)
    except TlsError as error:
        raise DeliveryError(str(error)) from None

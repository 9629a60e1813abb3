"""Connections over TLS: who is trusted, and what is presented."""

from __future__ import annotations

import ssl
from pathlib import Path

from ..settings.destinations.tls import TlsSettings
from .destination import DeliveryError


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Verifies the server and its host name. Raises DeliveryError, which names a file that is no good.

    Reading the system's certificates takes 50 ms of a processor.
    """
    file: Path | None = settings.ca_file
    try:
        context = ssl.create_default_context(cafile=file)
        if settings.cert_file is not None:
            file = settings.key_file or settings.cert_file
            context.load_cert_chain(settings.cert_file, settings.key_file, password="")  # never asks for one
    except OSError as error:
        raise DeliveryError(f"{file}: {error.strerror or error}") from None
    return context

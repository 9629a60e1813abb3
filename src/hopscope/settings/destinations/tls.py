"""Settings of connections over TLS."""

from __future__ import annotations

from pathlib import Path

from ..section import Section


class TlsSettings(Section):
    """How a server is verified, and what is presented to it; its host name is always checked."""

    ca_file: Path | None = None
    """TLS: CA certificates (PEM) to verify the server with; default: those of the system."""
    cert_file: Path | None = None
    """TLS: own certificate (PEM), if the server asks for one."""
    key_file: Path | None = None
    """TLS: key of the certificate (PEM), if it is in another file."""

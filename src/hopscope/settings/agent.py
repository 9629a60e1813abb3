"""The HTTP server of a Linux switch: the table `[agent]` of the file of `hopscope switch`."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from .section import ListenAddress, Seconds, Section, Token, host_and_port, is_loopback


class AgentSettings(Section):
    """`hopscope switch serve`: where a controller reaches this switch."""

    listen: ListenAddress = "127.0.0.1:7255"
    """Address and TCP port; any address except loopback needs `cert_file`."""
    token: Token
    """Bearer token that requests must carry, 16 characters or more; `env:NAME` or `file:PATH` says where to
    find it.
    """
    cert_file: Path | None = None
    """TLS: certificate (PEM)."""
    key_file: Path | None = None
    """TLS: key of the certificate (PEM), if it is in another file."""
    client_ca_file: Path | None = None
    """TLS: CA certificates (PEM); with them, controllers need a certificate that one of these CAs signed."""
    lease_seconds: Seconds = Field(default=60.0, ge=0)
    """After this long without a request, ports label at their own interval again; 0: never."""

    @model_validator(mode="after")
    def _safe(self) -> AgentSettings:
        if self.cert_file is None and not is_loopback(host_and_port(self.listen)[0]):
            raise ValueError(
                f"found listen {self.listen!r} without cert_file, expected it or a loopback address"
            )
        if self.cert_file is None and (self.key_file or self.client_ca_file):
            raise ValueError("found key_file or client_ca_file without cert_file, expected both")
        return self

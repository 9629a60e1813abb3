"""HTTP API and console: addresses, logins, limits."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, model_validator

from ..wire.address import with_port
from .access import OidcSettings, Role
from .section import Network, Seconds, Section, Token
from .top_flows import TopFlowSettings

_HEADER = r"^[A-Za-z0-9-]*$"


class ServeSettings(Section):
    """HTTP API and console."""

    enabled: bool = True
    """Whether to serve the API and the console."""
    host: str = "127.0.0.1"
    """Address to serve on; anything but loopback needs a login: a token, users, a proxy that names them, or
    OpenID Connect."""
    port: int = Field(default=8080, ge=0, le=65535)
    """TCP port; 0 lets the kernel choose one."""
    token: Token | None = None
    """Bearer token that requests must carry, 16 characters or more; `env:NAME` or `file:PATH` says where to
    find it.
    """
    public_url: str = Field(default="", pattern=r"^(https?://[^/?#@\s]+/?)?$")
    """Address that browsers use, if it differs from `host`, such as `https://hopscope.example`; it also needs
    a login.
    """
    viewer_token: Token | None = None
    """Bearer token of programs that only read, such as Prometheus, in the same form as `token`."""
    cert_file: Path | None = None
    """TLS: certificate (PEM). A renewed file is in use within seconds."""
    key_file: Path | None = None
    """TLS: key of the certificate (PEM), if it is in another file."""
    session_idle_seconds: Seconds = Field(default=43_200, ge=60)
    """A browser's login ends after this long without use."""
    session_seconds: Seconds = Field(default=604_800, ge=60)
    """A browser's login ends this long after it began."""
    proxy_addresses: tuple[Network, ...] = ()
    """Networks of trusted reverse proxies, such as `127.0.0.1`: the client's address is taken from their
    `X-Forwarded-For`.
    """
    proxy_user_header: str = Field(default="", pattern=_HEADER)
    """Header in which a trusted proxy names the user that it has authenticated, such as `X-Forwarded-User`.
    """
    proxy_role: Role = "viewer"
    """Role of users that a proxy names, if `proxy_role_header` is not set."""
    proxy_role_header: str = Field(default="", pattern=_HEADER)
    """Header in which a trusted proxy lists the user's groups, such as `X-Forwarded-Groups`."""
    proxy_operators: tuple[str, ...] = ()
    """Groups of `proxy_role_header` that make an operator; all others make a viewer."""
    oidc: OidcSettings = OidcSettings()
    """Login by OpenID Connect."""
    sql_seconds: Seconds = Field(default=10.0, gt=0)
    """Time limit of one SQL query."""
    sql_memory_bytes: int = Field(default=512 * 1024**2, ge=64 * 1024**2)
    """Memory limit of one SQL query."""
    sql_rows: int = Field(default=10_000, ge=1)
    """Most rows that an SQL query returns."""
    top_flows: TopFlowSettings = TopFlowSettings()
    """Flows in `/metrics`, and in metrics that are pushed."""

    @property
    def address(self) -> str:
        """As a URL, without a path."""
        return f"{'https' if self.cert_file else 'http'}://{with_port(self.host, self.port)}"

    @model_validator(mode="after")
    def _safe(self) -> ServeSettings:
        if self.key_file and self.cert_file is None:
            raise ValueError("found key_file without cert_file, expected both")
        if self.proxy_user_header and not self.proxy_addresses:
            raise ValueError(
                "found proxy_user_header without proxy_addresses: anyone could claim to be anyone"
            )
        return self

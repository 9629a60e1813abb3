"""HTTP API and console: addresses, logins, limits."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from ..wire.address import with_port
from .section import Network, Seconds, Section, Token

Role = Literal["viewer", "operator"]
"""`viewer` reads everything, with SQL and live values; `operator` also changes."""


class OidcSettings(Section):
    """Login by OpenID Connect (authorization code with PKCE); it needs the extra `oidc` and `public_url`."""

    issuer: str = Field(default="", pattern=r"^(https?://[^?#@\s]+)?$")
    """Address of the provider, such as `https://login.example/realms/noc`; empty: none. Its configuration is
    read from `/.well-known/openid-configuration` there.
    """
    client_id: str = ""
    """Name of Hopscope at the provider. The redirect address to register there is `public_url` with
    `/login/oidc/callback`."""
    client_secret: str | None = None
    """Secret of the client, or `env:NAME` or `file:PATH`; absent for a public client."""
    scopes: tuple[str, ...] = ("openid", "profile")
    """Scopes to request; `openid` is always requested."""
    name_claim: str = "preferred_username"
    """Claim of the ID token with the user's name; `sub` if it is absent."""
    role_claim: str = "groups"
    """Claim of the ID token with a string or a list of strings that determine the role."""
    operators: tuple[str, ...] = ()
    """Values of the role claim that make an operator."""
    viewers: tuple[str, ...] = ()
    """Values of the role claim that make a viewer; empty: all users of the provider."""
    ca_file: Path | None = None
    """CA certificates (PEM) of the provider; default: the system's."""

    @property
    def enabled(self) -> bool:
        """Whether there is a provider."""
        return bool(self.issuer)

    @model_validator(mode="after")
    def _whole(self) -> OidcSettings:
        if self.issuer and not self.client_id:
            raise ValueError("found issuer without client_id, expected both")
        return self


class TopFlowSettings(Section):
    """Flows with series of their own in metrics: the highest by a measure."""

    count: int = Field(default=0, ge=0, le=1000)
    """How many flows; each flow that becomes one of them is a new series for the database."""
    by: Literal["latency", "packets"] = "latency"
    """Measure: mean latency, or packets."""


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

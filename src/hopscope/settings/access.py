"""Who may see and change what over HTTP: roles, and the login by OpenID Connect."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from .section import Section

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

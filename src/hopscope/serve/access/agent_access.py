"""Access control of a switch's agent: controllers share one token."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import Scope

from .host_and_origin import Sites
from .identity import Identity
from .tokens import Token, Tokens, bearer_token


class AgentAccess:
    """Every request needs the token. There are no pages for browsers."""

    has_login_page = False
    login_hint = "send `Authorization: Bearer TOKEN`"

    def __init__(self, host: str, token: str) -> None:
        self.sites = Sites(host)
        self._tokens = Tokens(Token(token, "controller", "operator"))

    async def identify(self, scope: Scope, headers: Headers) -> Identity | None:
        """A controller, if the request has the token; otherwise None."""
        given = bearer_token(headers)
        token = None if given is None else self._tokens.find(given)
        client = scope.get("client")
        return token and Identity(token.name, token.role, "token", str(client[0]) if client else "")

    def is_secure(self, scope: Scope) -> bool:
        """Whether the client came by TLS."""
        return scope.get("scheme") == "https"

    def is_named(self, headers: Headers) -> bool:
        """False: controllers are not browsers."""
        return False

    def count(self, key: str) -> None:
        """A switch has no counters of requests."""

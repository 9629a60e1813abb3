"""Login by OpenID Connect: authorization code with PKCE, state and nonce (OpenID Connect Core 1.0, RFC 7636).

Authlib (extra `oidc`) makes requests and checks tokens; it is imported at the first login.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import secrets
import ssl
import time
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, ClassVar

from ...base.errors import HopscopeError, described
from ...base.extras import install_command
from ...base.log import logger
from ...base.tls import client_context
from ...settings.configuration.secrets import value_of
from ...settings.serve import OidcSettings, Role, ServeSettings
from .login import Login, LoginError

log = logger("serve")
CALLBACK = "/login/oidc/callback"
_LONGEST_ADDRESS = 1500
"""Longest address to return to after a login: browsers keep cookies of up to 4,096 bytes (RFC 6265, 6.1)."""
_READ_AGAIN_SECONDS = 3600
_READ_SECONDS = 10.0
_AWAY_SECONDS = 5.0
"""Pause after a provider did not answer, since anyone may begin a login."""
_LEEWAY_SECONDS = 60
"""How much the provider's clock may differ."""
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures with public keys; `none`, and signatures with the client's own secret, are never accepted."""
_LONGEST_NAME = 200


@dataclass(frozen=True)
class PendingLogin:
    """A login that has begun. The browser keeps it in a cookie that only this process can make or read, so
    that logins begun by strangers cannot displace others.
    """

    state: str
    nonce: str
    verifier: str
    target: str
    """Address to which the browser returns afterwards."""


class Provider:
    """The provider of the settings. Raises HopscopeError if the extra or a setting is missing."""

    WAIT_SECONDS: ClassVar[int] = 600
    """How long a user may take to log in at the provider."""

    def __init__(self, settings: OidcSettings, public_url: str) -> None:
        try:
            import authlib  # noqa: F401  # its parts are imported at the first login
        except ImportError:
            raise HopscopeError(f"serve.oidc needs Authlib: {install_command('oidc')}") from None
        if not public_url:
            raise HopscopeError(
                "serve.oidc needs serve.public_url, to which the provider sends browsers back"
            )
        self._settings = settings
        self._callback = f"{public_url.rstrip('/')}{CALLBACK}"
        self._secret = value_of("serve.oidc.client_secret", settings.client_secret)
        self._key = base64.urlsafe_b64encode(secrets.token_bytes(32))
        self._metadata: dict[str, Any] = {}
        self._keys: Any = None
        self._read_at = 0.0
        self._away_until = 0.0
        self._reading = asyncio.Lock()
        self._trusted: ssl.SSLContext | None = None
        """Made with each reading of the configuration, not for each login: it takes 50 ms of CPU time."""

    @classmethod
    def of(cls, settings: ServeSettings) -> Provider | None:
        """The provider; None: the settings have none. Raises HopscopeError."""
        return cls(settings.oidc, settings.public_url) if settings.oidc.enabled else None

    async def begin(self, target: str) -> tuple[str, str]:
        """The provider's address for a login, and the cookie for the browser. `target`: the address to
        return to; the start page, if it is too long. Raises LoginError.
        """
        await self._read()
        pending = PendingLogin(
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            target if len(target) <= _LONGEST_ADDRESS else "/",
        )
        async with self._client() as client:
            address, _ = client.create_authorization_url(
                self._metadata["authorization_endpoint"],
                state=pending.state,
                nonce=pending.nonce,
                code_verifier=pending.verifier,
            )
        return address, self._sealed(pending)

    def pending(self, cookie: str | None, answer: dict[str, str]) -> PendingLogin:
        """The login to which `answer`, the provider's answer, belongs. Raises LoginError."""
        pending = None if cookie is None else self._opened(cookie)
        if pending is None:
            raise LoginError(400, "this login was not started in this browser, or took too long: try again")
        if not hmac.compare_digest(answer.get("state", "").encode(), pending.state.encode()):
            raise LoginError(400, "the login was started elsewhere: try again")
        if answer.get("iss", self._settings.issuer).rstrip("/") != self._settings.issuer.rstrip("/"):
            raise LoginError(400, "the answer is from a different provider")  # RFC 9207
        if "code" not in answer:
            raise LoginError(401, f"the provider refused: {answer.get('error', 'no reason')[:100]}")
        return pending

    async def end(self, pending: PendingLogin, code: str) -> Login:
        """The user that the provider has logged in. The provider ensures that a code is used only once (RFC
        6749, 4.1.2). Raises LoginError.
        """
        try:
            claims = await self._claims(code, pending)
        except LoginError:
            raise
        except Exception as error:  # the provider may send anything, and the library raise anything
            log.warning("login by OpenID Connect failed", error=described(error)[:300])
            raise LoginError(502, "the provider's answer cannot be used: see the collector's log") from None
        return Login(self._name(claims), self._role(claims), "oidc")

    def _sealed(self, pending: PendingLogin) -> str:
        from cryptography.fernet import Fernet

        return Fernet(self._key).encrypt(json.dumps(asdict(pending)).encode()).decode()

    def _opened(self, cookie: str) -> PendingLogin | None:
        """The content of a cookie; None: this process did not make it, or it has expired."""
        from cryptography.fernet import Fernet, InvalidToken

        try:
            return PendingLogin(
                **json.loads(Fernet(self._key).decrypt(cookie.encode(), ttl=self.WAIT_SECONDS))
            )
        except InvalidToken:
            return None

    async def _claims(self, code: str, pending: PendingLogin) -> Any:
        """The verified claims of the ID token that the provider exchanges for a code."""
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError

        async with self._client() as client:
            token = await client.fetch_token(
                self._metadata["token_endpoint"],
                code=code,
                code_verifier=pending.verifier,
                grant_type="authorization_code",
            )
        decode = partial(jwt.decode, token["id_token"], algorithms=_ALGORITHMS)
        try:
            found = decode(key=self._keys)
        except (JoseError, ValueError):  # the provider may have new keys
            await self._read(again=True)
            found = decode(key=self._keys)
        claims = CodeIDToken(
            found.claims,
            found.header,
            {
                "iss": {"essential": True, "value": self._metadata["issuer"]},
                "aud": {"essential": True, "value": self._settings.client_id},
            },
            {
                "nonce": pending.nonce,
                "client_id": self._settings.client_id,
                "access_token": token.get("access_token"),
            },
        )
        claims.validate(leeway=_LEEWAY_SECONDS)
        return claims

    def _name(self, claims: Any) -> str:
        name = claims.get(self._settings.name_claim) or claims["sub"]
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST_NAME:
            raise LoginError(403, f"the provider's {self._settings.name_claim} is not a name")
        return name

    def _role(self, claims: Any) -> Role:
        given = claims.get(self._settings.role_claim, [])
        found = {given} if isinstance(given, str) else set(map(str, given if isinstance(given, list) else []))
        if found & set(self._settings.operators):
            return "operator"
        if not self._settings.viewers or found & set(self._settings.viewers):
            return "viewer"
        raise LoginError(403, "this account has no access: ask the administrator of the collector")

    def _client(self) -> Any:
        """A client of the provider. Without a secret it is a public client, protected by PKCE alone."""
        from authlib.integrations.httpx_client import AsyncOAuth2Client

        return AsyncOAuth2Client(
            self._settings.client_id,
            self._secret,
            scope=" ".join(dict.fromkeys(["openid", *self._settings.scopes])),
            redirect_uri=self._callback,
            code_challenge_method="S256",
            token_endpoint_auth_method="client_secret_basic" if self._secret else "none",
            timeout=_READ_SECONDS,
            verify=self._trusted or True,
            follow_redirects=False,
        )

    async def _read(self, *, again: bool = False) -> None:
        """Read the provider's configuration and keys, once an hour. Raises LoginError."""
        async with self._reading:
            now = time.monotonic()
            if self._metadata and not again and now - self._read_at < _READ_AGAIN_SECONDS:
                return
            if now < self._away_until:
                raise _away()
            await self._read_now()

    async def _read_now(self) -> None:
        issuer = self._settings.issuer.rstrip("/")
        try:
            import httpx  # 0.07 s, only for collectors with a provider
            from joserfc.jwk import KeySet

            self._trusted = await asyncio.to_thread(client_context, self._settings.ca_file)
            async with httpx.AsyncClient(verify=self._trusted, timeout=_READ_SECONDS) as client:
                answer = await client.get(f"{issuer}/.well-known/openid-configuration")
                metadata = answer.raise_for_status().json()
                if str(metadata["issuer"]).rstrip("/") != issuer:  # Discovery 1.0, 4.3
                    raise ValueError(f"it names itself {str(metadata['issuer'])[:100]!r}")
                keys = await client.get(metadata["jwks_uri"])
                self._keys = KeySet.import_key_set(keys.raise_for_status().json())
        except Exception as error:  # the server may not answer, or send anything
            log.error("the OpenID provider cannot be read", issuer=issuer, error=described(error)[:300])
            self._away_until = time.monotonic() + _AWAY_SECONDS
            raise _away() from None
        self._metadata, self._read_at = metadata, time.monotonic()


def _away() -> LoginError:
    return LoginError(503, "the login provider does not answer: try again")

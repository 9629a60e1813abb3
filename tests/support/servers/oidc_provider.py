"""A small OpenID provider on loopback: it logs one user in without asking, and can be made to lie."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

CLIENT, SECRET = "hopscope", "the client's secret"


class Provider:
    """Authorization code with PKCE, client_secret_basic, ES256 (OpenID Connect Core 1.0, RFC 7636)."""

    def __init__(self, port: int) -> None:
        self.issuer = f"http://127.0.0.1:{port}/realm"
        self.key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
        self.signing: Any = None
        """Another key than the published one."""
        self.claims: dict[str, Any] = {"sub": "4711", "preferred_username": "grace"}
        self.lies: dict[str, Any] = {}
        """Claims in place of the right ones."""
        self.algorithm = "ES256"
        self.codes: dict[str, dict[str, str]] = {}
        self.codes_asked = self.tokens_given = 0

    def configuration(self) -> dict[str, Any]:
        """What is at /.well-known/openid-configuration."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
        }

    def authorize(self, asked: dict[str, str]) -> str:
        """Where the browser is sent with a code."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = secrets.token_urlsafe(16)
        self.codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def token(self, given: dict[str, str], authorization: str) -> dict[str, Any] | None:
        """Tokens for a code; None: something does not fit."""
        self.codes_asked += 1
        asked = self.codes.pop(given.get("code", ""), None)
        proof = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        digest = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or authorization != f"Basic {proof}"
            or asked["code_challenge"] != challenge
            or asked["redirect_uri"] != given.get("redirect_uri")
        ):
            return None
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": asked["nonce"],
            **self.claims, **self.lies,
        }  # fmt: skip
        key = self.signing or self.key
        self.tokens_given += 1
        header = {"alg": self.algorithm, "kid": "one"}
        if self.algorithm == "none":
            parts = [json.dumps(header).encode(), json.dumps(claims).encode()]
            signed = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + "."
        else:
            signed = jwt.encode(header, claims, key, algorithms=[self.algorithm])
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": signed}


@contextmanager
def provider() -> Iterator[Provider]:
    """A provider that runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            asked = {key: values[0] for key, values in parse_qs(parts.query).items()}
            if parts.path == "/realm/authorize":
                self.send_response(302)
                self.send_header("location", found.authorize(asked))
                self.send_header("content-length", "0")
                self.end_headers()
            elif parts.path == "/realm/keys":
                self._json(200, KeySet([found.key]).as_dict(private=False))
            else:
                self._json(200, found.configuration())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            given = {key: values[0] for key, values in parse_qs(body).items()}
            answer = found.token(given, self.headers.get("authorization", ""))
            self._json(200 if answer else 400, answer or {"error": "invalid_grant"})

        def _json(self, status: int, value: Any) -> None:
            text = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found = Provider(server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield found
        server.shutdown()

"""HTTP requests to destinations, with uniform handling of failures."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx

from ..base.errors import described
from ..base.version import VERSION
from ..settings.destinations.tls import TlsSettings
from .credentials import secret, tls_context
from .destination import DeliveryError

_MAY_PASS = (401, 403, 404, 408, 425, 429)
"""Client errors after which a retry may succeed, since their cause can be fixed at the server."""


class HttpClient:
    """A connection to one server; no proxies, no redirects."""

    def __init__(
        self,
        url: str,
        headers: dict[str, str],
        tls: TlsSettings,
        timeout_seconds: float,
        auth: httpx.Auth | None = None,
    ) -> None:
        self._client = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"user-agent": f"hopscope/{VERSION}", **headers},
            auth=auth,
            timeout=httpx.Timeout(timeout_seconds),
            follow_redirects=False,
            trust_env=False,
            verify=tls_context(tls) if url.startswith("https:") else False,
        )

    def ask(self, method: str, path: str, fine: tuple[int, ...] = (), **more: Any) -> httpx.Response:
        """One request. Raises DeliveryError unless its status is 2xx, or one of `fine`."""
        try:
            answer = self._client.request(method, path, **more)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise DeliveryError(described(error)) from None
        status = answer.status_code
        if 200 <= status < 300 or status in fine:
            return answer
        reason = " ".join(answer.text.split())[:160]
        again = status in _MAY_PASS or not 400 <= status < 500
        problem = f"status {status}: {reason}" if reason else f"status {status}"
        raise DeliveryError(problem, again, after_seconds=_retry_after(answer))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def bearer(token: str, scheme: str = "Bearer") -> dict[str, str]:
    """The header with a token of the settings; empty without a token. Raises DeliveryError."""
    return {"authorization": f"{scheme} {secret(token)}"} if token else {}


def basic_auth(user: str, password: str) -> httpx.Auth | None:
    """User and password of the settings; None without a user. Raises DeliveryError."""
    return httpx.BasicAuth(user, secret(password)) if user else None


def _retry_after(answer: httpx.Response) -> float:
    """Seconds from now until Retry-After, which has seconds or a date (RFC 9110 §10.2.3); 0 without it."""
    given = answer.headers.get("retry-after", "")
    if given.isdecimal():
        return float(given)
    try:
        return max(0.0, parsedate_to_datetime(given).timestamp() - time.time())
    except (ValueError, OverflowError):
        return 0.0

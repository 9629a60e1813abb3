"""Base of destinations that POST JSON over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx

from ..credentials import secret
from ..destination import Context, DeliveryError
from ..http import HttpClient, basic_auth, bearer
from .destination import AlertDestination

_ANY = tuple(range(300, 600))


class PostingDestination(AlertDestination):
    """Posts to the `url` of its settings, followed by `path`, with their `token`, or `user` and `password`.

    Errors do not show the address, since it may contain a secret.
    """

    _client: HttpClient

    path = ""

    def __init__(self, settings: Any, context: Context) -> None:
        super().__init__(settings, context)
        self._url = ""

    def connect(self) -> None:
        """Read address and passwords, and check whether the server answers."""
        self.close()
        self._url = secret(self.settings.url).rstrip("/" if self.path else "") + self.path
        headers = bearer(getattr(self.settings, "token", ""))
        auth = basic_auth(getattr(self.settings, "user", ""), getattr(self.settings, "password", ""))
        try:
            timeout = self.settings.timeout_seconds
            self._client = HttpClient(self._url, headers, self.settings, timeout, auth)
        except (httpx.InvalidURL, ValueError):
            raise DeliveryError("the address is not a URL") from None
        self.look()

    def look(self) -> None:
        """Check whether the server answers, with any status, since most accept only POST."""
        self._client.ask("HEAD", self._url, fine=_ANY)

    def post(self, body: Any, key: str = "") -> None:
        """Post a body as JSON. `key` is the same for every attempt. Raises DeliveryError."""
        content = json.dumps(body, separators=(",", ":")).encode()
        headers = {"content-type": "application/json"} | ({"idempotency-key": key} if key else {})
        self._client.ask("POST", self._url, content=content, headers=headers)
        self.context.count("bytes_total", len(content))

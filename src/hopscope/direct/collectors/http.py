"""A collector that is queried over its HTTP API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ...base.tls import TlsError, client_context
from ..stores.answers import QueryOptions
from ..stores.numbers import show_numbers
from ..stores.store import StoreError
from .collector import NO_TOKEN, ApiAccess, CollectorError, Epoch

if TYPE_CHECKING:
    from ssl import SSLContext

KEYS = 200
"""Most keys in one request: a request has at most 64 KiB."""
VALUES_BYTES = 30_000
"""Most characters for the values that a hop can have."""
_LARGE = {"counter", "estimate"}
"""Numbers in an answer that are text if they are above 2^53 - 1."""
_PLACE = "/api/v0/direct/stores"


@cache
def _trusted(ca_file: Path | None) -> SSLContext:
    """Trusted certificates, read once: reading them takes up to 50 ms. Raises TlsError."""
    return client_context(ca_file)


class HttpCollector:
    """Queries a collector's API, such as `http://192.0.2.7:8080`, for its own stores."""

    def __init__(self, url: str, access: ApiAccess = NO_TOKEN) -> None:
        self.name = url.rstrip("/")
        self._access = access
        self._headers = {"authorization": f"Bearer {access.token}"} if access.token else {}

    def stores(self) -> list[dict[str, Any]]:
        """See `Collector`."""
        items = self._get("", {"local": "true"})["items"]
        return [
            {name: value for name, value in store.items() if value is not None and name != "own"}
            for store in items
        ]

    def query(
        self, store: str, keys: Sequence[str], options: QueryOptions, epoch: Epoch
    ) -> list[dict[str, Any]]:
        """See `Collector`."""
        asked: dict[str, Any] = {
            "local": "true",
            "consensus": options.consensus,
            "partial": str(options.partial).lower(),
            "limit": options.limit,
        }
        if options.copies is not None:
            asked["copies"] = options.copies
        if epoch is not None:
            asked["epoch"] = epoch
        if options.values is not None:
            asked["values"] = show_numbers(options.values)
            if len(asked["values"]) > VALUES_BYTES:
                raise StoreError(
                    f"--values: {len(options.values):,} values are too many for a request to {self.name}"
                )
        answers: list[dict[str, Any]] = []
        for first in range(0, len(keys), KEYS):
            asked["key"] = list(keys[first : first + KEYS])
            answers += self._get(f"/{quote(store)}/query", asked)["items"]
        for answer in answers:
            for name in answer.keys() & _LARGE:
                answer[name] = int(answer[name])
        return answers

    def read_list(self, store: str, number: int, after: str | None, limit: int) -> tuple[list[str], int, str]:
        """See `Collector`."""
        asked: dict[str, Any] = {"local": "true", "limit": limit}
        if after is not None:
            asked["after"] = after
        found = self._get(f"/{quote(store)}/lists/{number}", asked)
        return found["items"], found["lost"], found["next"]

    def _get(self, path: str, asked: dict[str, Any]) -> Any:
        import httpx

        try:
            answer = httpx.get(
                self.name + _PLACE + path,
                params=asked,
                headers=self._headers,
                timeout=self._access.timeout_seconds,
                trust_env=False,
                verify=_trusted(self._access.ca_file) if self.name.startswith("https:") else False,
            )
            content = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, TlsError, ValueError, OSError) as error:
            raise CollectorError(f"collector {self.name}: {error or type(error).__name__}") from error
        if answer.status_code == 200 and isinstance(content, dict):
            return content
        said = content.get("error") if isinstance(content, dict) else None
        if answer.status_code in (400, 404):
            raise StoreError(f"collector {self.name}: {said}")
        raise CollectorError(f"collector {self.name}: HTTP status {answer.status_code}: {said}")

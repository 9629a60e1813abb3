"""InfluxDB 1, 2 and 3, and VictoriaMetrics: events as line protocol over HTTP."""

from __future__ import annotations

import gzip
from typing import Any

import httpx

from ...base.version import VERSION
from ...settings.destinations.influx import InfluxSettings
from ...settings.destinations.shown import secret
from ..block import EventBlock
from ..destination import Context, Destination
from ..exporter import DeliveryError
from .line_protocol import IntCollectorEncoder, LineEncoder


class Influx(Destination):
    """One server."""

    Settings = InfluxSettings

    def __init__(self, settings: InfluxSettings, context: Context) -> None:
        super().__init__(settings, context)
        naming = settings.naming == "intcollector"
        self._encoder = IntCollectorEncoder() if naming else LineEncoder(context.names, context.member)
        self._client: httpx.Client | None = None

    def connect(self) -> None:
        """Create the database or bucket, if asked to and it is missing."""
        one: InfluxSettings = self.settings
        self.close()
        try:
            headers, auth = {"user-agent": f"hopscope/{VERSION}"}, None
            if one.token:
                headers["authorization"] = f"{'Token' if one.api == 2 else 'Bearer'} {secret(one.token)}"
            if one.user:
                auth = httpx.BasicAuth(one.user, secret(one.password))
        except (ValueError, OSError) as error:
            raise DeliveryError(str(error)) from None
        timeout = httpx.Timeout(one.timeout_seconds)
        base = one.url.rstrip("/")
        self._client = httpx.Client(
            base_url=base,
            headers=headers,
            auth=auth,
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        )
        if one.create:
            self._create(one)

    def _create(self, one: InfluxSettings) -> None:
        if one.api == 1:
            name = one.database.replace("\\", "\\\\").replace('"', '\\"')
            self._ask("POST", "/query", data={"q": f'CREATE DATABASE "{name}"'})
        elif one.api == 3:
            self._ask("POST", "/api/v3/configure/database", json={"db": one.database}, fine=(409,))
        else:
            found = self._ask(
                "GET", "/api/v2/buckets", params={"name": one.database, "org": one.organization}, fine=(404,)
            )
            if found.status_code == 200 and found.json().get("buckets"):
                return
            orgs: list[Any] = (
                self._ask("GET", "/api/v2/orgs", params={"org": one.organization}).json().get("orgs") or []
            )
            if not orgs:
                raise DeliveryError(f"there is no organization {one.organization!r}")
            body = {"orgID": orgs[0]["id"], "name": one.database, "retentionRules": []}
            self._ask("POST", "/api/v2/buckets", json=body, fine=(422,))

    def send(self, block: EventBlock) -> None:
        """Write the points of a block in one request."""
        one: InfluxSettings = self.settings
        body = "\n".join(self._encoder.lines(block)).encode("utf-8", "replace")
        if not body:
            return
        headers = {"content-type": "text/plain; charset=utf-8"}
        if one.gzip:
            body, headers["content-encoding"] = gzip.compress(body, compresslevel=1, mtime=0), "gzip"
        if one.api == 1:
            path, params = "/write", {"db": one.database, "precision": "ns"}
        elif one.api == 2:
            path = "/api/v2/write"
            params = {"org": one.organization, "bucket": one.database, "precision": "ns"}
        else:
            path, params = "/api/v3/write_lp", {"db": one.database, "precision": "nanosecond"}
        self._ask("POST", path, params=params, content=body, headers=headers)
        self.context.count("bytes_total", len(body))

    def _ask(self, method: str, path: str, fine: tuple[int, ...] = (), **more: Any) -> httpx.Response:
        """One request. Raises DeliveryError unless its status is 2xx, or one of `fine`."""
        assert self._client is not None
        try:
            answer = self._client.request(method, path, **more)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise DeliveryError(f"{type(error).__name__}: {error}") from None
        status = answer.status_code
        if 200 <= status < 300 or status in fine:
            return answer
        reason = " ".join(answer.text.split())[:160]
        again = status in (401, 403, 404, 408, 425, 429) or status >= 500
        raise DeliveryError(f"status {status}: {reason}" if reason else f"status {status}", again)

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

"""InfluxDB 1, 2 and 3, and VictoriaMetrics: events as line protocol over HTTP."""

from __future__ import annotations

import gzip
from typing import Any

import httpx

from ...settings.destinations.influx import InfluxSettings
from ...settings.destinations.shown import secret
from ..block import EventBlock
from ..destination import Context, Destination
from ..exporter import DeliveryError
from .http import HttpClient
from .line_protocol import IntCollectorEncoder, LineEncoder


class Influx(Destination):
    """One server."""

    Settings = InfluxSettings

    def __init__(self, settings: InfluxSettings, context: Context) -> None:
        super().__init__(settings, context)
        naming = settings.naming == "intcollector"
        self._encoder = IntCollectorEncoder() if naming else LineEncoder(context.names, context.member)
        self._client: HttpClient | None = None

    def connect(self) -> None:
        """Create the database or bucket, if asked to and it is missing."""
        one: InfluxSettings = self.settings
        self.close()
        try:
            headers: dict[str, str] = {}
            auth = None
            if one.token:
                headers["authorization"] = f"{'Token' if one.api == 2 else 'Bearer'} {secret(one.token)}"
            if one.user:
                auth = httpx.BasicAuth(one.user, secret(one.password))
        except (ValueError, OSError) as error:
            raise DeliveryError(str(error)) from None
        self._client = HttpClient(one.url, headers, one.timeout_seconds, auth)
        self._client.ask("GET", "/ping", fine=(400, 401, 403, 404, 405))  # a proxy may not pass it on
        if one.create:
            self._create(self._client, one)

    def _create(self, client: HttpClient, one: InfluxSettings) -> None:
        if one.api == 1:
            name = one.database.replace("\\", "\\\\").replace('"', '\\"')
            client.ask("POST", "/query", data={"q": f'CREATE DATABASE "{name}"'})
        elif one.api == 3:
            client.ask("POST", "/api/v3/configure/database", json={"db": one.database}, fine=(409,))
        else:
            found = client.ask(
                "GET", "/api/v2/buckets", params={"name": one.database, "org": one.organization}, fine=(404,)
            )
            if found.status_code == 200 and found.json().get("buckets"):
                return
            orgs: list[Any] = (
                client.ask("GET", "/api/v2/orgs", params={"org": one.organization}).json().get("orgs") or []
            )
            if not orgs:
                raise DeliveryError(f"there is no organization {one.organization!r}")
            body = {"orgID": orgs[0]["id"], "name": one.database, "retentionRules": []}
            client.ask("POST", "/api/v2/buckets", json=body, fine=(422,))

    def send(self, block: EventBlock) -> None:
        """Write the points of a block in one request."""
        assert self._client is not None
        one: InfluxSettings = self.settings
        body = self._encoder.encode(block)
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
        self._client.ask("POST", path, params=params, content=body, headers=headers)
        self.context.count("bytes_total", len(body))

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

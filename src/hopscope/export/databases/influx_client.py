"""Line protocol over HTTP: InfluxDB 1, 2 and 3, and VictoriaMetrics."""

from __future__ import annotations

import gzip
from typing import Any

from ...settings.destinations.databases import InfluxServerSettings
from ..destination import DeliveryError
from ..http import HttpClient, basic_auth, bearer


class InfluxClient:
    """A connection to one server; with `create`, a missing database or bucket is created.

    Every method raises DeliveryError.
    """

    def __init__(self, settings: InfluxServerSettings, timeout_seconds: float) -> None:
        self._settings = one = settings
        headers = bearer(one.token, "Token" if one.api == 2 else "Bearer")
        auth = basic_auth(one.user, one.password)
        self._http = HttpClient(one.url, headers, one, timeout_seconds, auth)
        try:
            self._http.ask("GET", "/ping", fine=(400, 401, 403, 404, 405))  # a proxy may not pass it on
            if one.create:
                self._create(self._http, one)
        except DeliveryError:
            self.close()
            raise

    def _create(self, client: HttpClient, one: InfluxServerSettings) -> None:
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

    def write(self, body: bytes) -> int:
        """Write lines in one request; returns the bytes that were sent."""
        settings = self._settings
        headers = {"content-type": "text/plain; charset=utf-8"}
        if settings.gzip:
            body, headers["content-encoding"] = gzip.compress(body, compresslevel=1, mtime=0), "gzip"
        if settings.api == 1:
            path, params = "/write", {"db": settings.database, "precision": "ns"}
        elif settings.api == 2:
            path = "/api/v2/write"
            params = {"org": settings.organization, "bucket": settings.database, "precision": "ns"}
        else:
            path, params = "/api/v3/write_lp", {"db": settings.database, "precision": "nanosecond"}
        self._http.ask("POST", path, params=params, content=body, headers=headers)
        return len(body)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

"""Requests of OTLP over HTTP (OTLP 1.x, section OTLP/HTTP), in binary protocol buffers."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import cast

from ...base.version import VERSION
from ...settings.destinations.otlp import OtlpServerSettings
from ..credentials import secret
from ..http import HttpClient, bearer
from ..protobuf import bytes_field, fields, text_field


class OtlpClient:
    """A connection to one receiver, for the signal `logs` or `metrics`. Every method raises DeliveryError."""

    def __init__(
        self, settings: OtlpServerSettings, signal: str, member: str, timeout_seconds: float
    ) -> None:
        self._path, self._gzip = f"{settings.url.rstrip('/')}/v1/{signal}", settings.gzip
        headers = {name: secret(value) for name, value in settings.headers.items()} | bearer(settings.token)
        headers["content-type"] = "application/x-protobuf"
        if settings.gzip:
            headers["content-encoding"] = "gzip"
        about = {"service.name": "hopscope", "service.version": VERSION, "service.instance.id": member}
        self._resource = b"".join(attribute(1, *each) for each in (about | settings.resource).items())
        self._http = HttpClient(settings.url, headers, settings, timeout_seconds)

    def post(self, contents: bytes, scope: Mapping[str, str]) -> tuple[int, int, str]:
        """Post log records or metrics, as fields of a ScopeLogs or ScopeMetrics; `scope`: its attributes.

        Returns the bytes sent, how many items the receiver rejected, and its reason.
        """
        about = text_field(1, "hopscope") + text_field(2, VERSION)
        about += b"".join(attribute(3, *each) for each in scope.items())
        resource = bytes_field(1, self._resource)
        body = bytes_field(1, resource + bytes_field(2, bytes_field(1, about) + contents))
        return self.send(body)

    def send(self, body: bytes) -> tuple[int, int, str]:
        """Post an ExportLogsServiceRequest or ExportMetricsServiceRequest; returns as `post` does."""
        sent = gzip.compress(body, compresslevel=1, mtime=0) if self._gzip else body
        answer = self._http.ask("POST", self._path, content=sent)
        return len(sent), *partial_success(answer.content)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def partial_success(answer: bytes) -> tuple[int, str]:
    """How many items of a request the receiver rejected, and why; an answer that is not OTLP rejects none."""
    try:
        for field, part in fields(answer):
            if field == 1 and isinstance(part, bytes):
                found = dict(fields(part))
                text = cast(bytes, found.get(2, b"")).decode("utf-8", "replace")
                rejected = cast(int, found.get(1, 0))
                return rejected, f"{rejected} rejected: {' '.join(text.split())[:160]}"
    except (ValueError, AttributeError):
        pass
    return 0, ""


def attribute(field: int, key: str, text: str) -> bytes:
    """A field of type KeyValue with a text."""
    return key_value(field, key, text_field(1, text))


def key_value(field: int, key: str, value: bytes) -> bytes:
    """A field of type KeyValue; `value` is the content of an AnyValue."""
    return bytes_field(field, text_field(1, key) + bytes_field(2, value))

"""Prometheus remote write, versions 1.0 and 2.0: samples as protocol buffers, compressed by Snappy.

Specifications: prometheus.io/docs/specs/prw/remote_write_spec and remote_write_spec_2_0; the messages are
`prometheus.WriteRequest` and `io.prometheus.write.v2.Request`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.samples import Exemplar, Timestamp

from ...settings.destinations.metrics import RemoteWriteSettings
from ..destination import Context
from ..http import HttpClient, basic_auth, bearer
from ..protobuf import bytes_field, double_field, number_field, text_field, varint
from .destination import MetricsDestination, Round

SERIES = 2000
"""Maximum number of series in one request."""
TEXT = 1024
"""Maximum length of a label's value."""
_TYPES = {"counter": 1, "gauge": 2, "histogram": 3}
"""`MetricType` of both versions."""
_CONTENT = {
    1: ("application/x-protobuf", "0.1.0"),
    2: ("application/x-protobuf;proto=io.prometheus.write.v2.Request", "2.0.0"),
}
"""Content type and protocol version for the headers, by version in the settings."""
Labels = tuple[tuple[str, str], ...]
Sample = tuple[Labels, float, Exemplar | None]


class RemoteWrite(MetricsDestination):
    """One server."""

    _client: HttpClient

    def __init__(self, settings: RemoteWriteSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._common = {"job": "hopscope", "instance": context.member, **settings.labels}
        self._describe = True

    def connect(self) -> None:
        """Read the secrets, and check with an empty request whether the server accepts samples."""
        settings = self.settings
        self.close()
        kind, version = _CONTENT[settings.version]
        headers = {
            "content-type": kind,
            "content-encoding": "snappy",
            "x-prometheus-remote-write-version": version,
            **bearer(settings.token),
        }
        auth = basic_auth(settings.user, settings.password)
        self._client = HttpClient(settings.url, headers, settings, settings.timeout_seconds, auth)
        self._post(b"")
        self._describe = True

    def send(self, taken: Round) -> None:
        """Post the samples of a round, a few thousand series at a time."""
        if self.settings.version == 2:
            for described in batches(self._samples(taken.families), SERIES):
                self._post(request_2(described, taken.time_ms))
            return
        if self._describe:
            self._post(metadata_1(taken.families))
            self._describe = False
        samples = (sample for _, *sample in self._samples(taken.families))
        for batch in batches(samples, SERIES):
            self._post(request_1(batch, taken.time_ms))

    def _samples(self, families: Iterable[Metric]) -> Iterator[tuple[Metric, Labels, float, Exemplar | None]]:
        """Yield (family, labels sorted by name, value, exemplar of a bucket)."""
        for family in families:
            for sample in family.samples:
                labels = {**self._common, **sample.labels, "__name__": sample.name}
                yield (
                    family,
                    tuple(sorted((name, text[:TEXT]) for name, text in labels.items() if text)),
                    float(sample.value),
                    sample.exemplar,
                )

    def _post(self, body: bytes) -> None:
        import cramjam

        packed = bytes(cramjam.snappy.compress_raw(body))
        self._client.ask("POST", self.settings.url, content=packed)
        self.context.count("bytes_total", len(packed))


def batches(rows: Iterable[Any], count: int) -> Iterator[list[Any]]:
    """Lists of at most `count` rows."""
    left = iter(rows)
    while batch := list(islice(left, count)):
        yield batch


def request_1(samples: Iterable[Sample], time_ms: int) -> bytes:
    """`prometheus.WriteRequest` of these samples."""
    at = number_field(2, time_ms)
    return b"".join(
        bytes_field(
            1,
            _labels_1(labels)
            + bytes_field(2, double_field(1, value) + at)
            + (b"" if exemplar is None else _exemplar(3, exemplar, _labels_1(exemplar.labels.items()))),
        )
        for labels, value, exemplar in samples
    )


def _labels_1(labels: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(bytes_field(1, text_field(1, name) + text_field(2, text)) for name, text in labels)


def _exemplar(field: int, exemplar: Exemplar, labels: bytes) -> bytes:
    """An `Exemplar` of either version; `labels` are its first field."""
    assert isinstance(exemplar.timestamp, Timestamp)
    at = number_field(3, exemplar.timestamp.sec * 1000 + exemplar.timestamp.nsec // 10**6)
    return bytes_field(field, labels + double_field(2, exemplar.value) + at)


def metadata_1(families: Iterable[Metric]) -> bytes:
    """`prometheus.WriteRequest` with the type and the help of each family."""
    return b"".join(
        bytes_field(
            3,
            number_field(1, _TYPES.get(family.type, 0))
            + text_field(2, f"{family.name}_total" if family.type == "counter" else family.name)
            + text_field(4, family.documentation),
        )
        for family in families
    )


def request_2(samples: Iterable[tuple[Metric, Labels, float, Exemplar | None]], time_ms: int) -> bytes:
    """`io.prometheus.write.v2.Request` of these samples; each text is stored once in a table."""
    table: dict[str, int] = {"": 0}

    def refs(labels: Iterable[tuple[str, str]]) -> bytes:
        numbers = (varint(table.setdefault(text, len(table))) for pair in labels for text in pair)
        return bytes_field(1, b"".join(numbers))

    at = number_field(2, time_ms)
    series = []
    for family, labels, value, exemplar in samples:
        about = number_field(1, _TYPES.get(family.type, 0))
        about += number_field(3, table.setdefault(family.documentation, len(table)))
        one = refs(labels) + bytes_field(2, double_field(1, value) + at)
        if exemplar is not None:
            one += _exemplar(4, exemplar, refs(exemplar.labels.items()))
        series.append(bytes_field(5, one + bytes_field(5, about)))
    return b"".join(text_field(4, text) for text in table) + b"".join(series)

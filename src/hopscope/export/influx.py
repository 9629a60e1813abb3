"""InfluxDB 1, 2 and 3, and VictoriaMetrics: events as line protocol over HTTP.

An event is a point of the measurement `int_event` at its time in ns.  Tags are bounded: kind, metric, node,
port, queue, collector, shard.  The flow is a field.  Points with the same tags and time would replace
each other: the second and later ones in a block have a tag `n`.  A block that is sent again writes the same
points, so each is there once.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from typing import Any

import httpx

from ..base.names import Names
from ..base.version import VERSION
from ..detect.records import NO_NODE, NO_PORT, PATH_PART, ClearReason, Kind, Metric
from ..present.events import continues, long_paths
from ..settings.export import InfluxSettings, secret
from ..wire.address import address
from .block import EventBlock
from .destination import Context, Destination
from .exporter import DeliveryError

MAX_INTEGER = 2**63 - 1
"""Largest integer of a field; larger values are written as this one."""
TEXT = 256
"""Most characters of a name in a tag."""
_QUEUED = (Metric.QUEUE_OCCUPANCY, Metric.QUEUE_CONGESTION, Metric.BUFFER_OCCUPANCY)
_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_KINDS = {kind.value: kind.label for kind in Kind}
_METRICS = {metric.value: metric.label for metric in Metric}
_REASONS = {reason.value: reason.label for reason in ClearReason}


def tag(text: str) -> str:
    """A tag's value: separators escaped; control characters and backslashes are spaces, as no escape keeps
    them.
    """
    clean = _CONTROL.sub(" ", text[:TEXT]).strip() or "-"
    return clean.replace(",", "\\,").replace("=", "\\=").replace(" ", "\\ ")


def text_field(text: str) -> str:
    """A text as a field's value, in quotes."""
    clean = _CONTROL.sub(" ", text)
    return '"' + clean.replace('"', '\\"') + '"'


class LineEncoder:
    """Events as lines."""

    def __init__(self, names: Names, member: str) -> None:
        self._names = names
        self._member = tag(member)
        self._heads: dict[tuple[int, ...], str] = {}

    def lines(self, block: EventBlock) -> Iterator[str]:
        """A line for each event; a long path is one event."""
        paths = long_paths(block.records)
        records = block.records[~continues(block.records)]
        columns = {name: records[name].tolist() for name in records.dtype.names or ()}
        seen: dict[tuple[str, int], int] = {}
        for row in zip(*(columns[name] for name in _COLUMNS), strict=True):
            (
                kind,
                metric,
                node,
                port,
                ident,
                value,
                previous,
                time_ns,
                sequence,
                switch_ns,
                reason,
                *rest,
            ) = row
            flow_id, version, src_hi, src_lo, dst_hi, dst_lo, sport, dport, proto, hop, hops, path = rest
            queue = ident if metric in _QUEUED else -1
            head = self._head(block.shard, kind, metric, node, port, queue)
            before = seen.get((head, time_ns), 0)
            seen[head, time_ns] = before + 1
            fields = [f"sequence={sequence}i"]
            if metric == Metric.FLOW_PATH and kind != Kind.FLOW_RECORD:
                fields.append(f'value_hash="{value:016x}",previous_hash="{previous:016x}"')
            else:
                fields.append(f"value={min(value, MAX_INTEGER)}i,previous={min(previous, MAX_INTEGER)}i")
            if flow_id:
                fields.append(
                    f'flow="{flow_id:016x}",src="{address(src_hi, src_lo)}",dst="{address(dst_hi, dst_lo)}",'
                    f"sport={sport}i,dport={dport}i,proto={proto}i"
                )
            elif version or src_lo:
                fields.append(f'source="{address(src_hi, src_lo)}",hw_id={ident}i')
            if metric == Metric.HOP_LATENCY:
                fields.append(f"hop={hop}i")
            if metric == Metric.FLOW_PATH or kind == Kind.LOOP:
                whole = paths.get((block.shard, sequence)) or path[: min(PATH_PART, hops)]
                fields.append(f'path="{",".join(map(str, whole))}"')
            if kind == Kind.CLEARED:
                fields.append(f'reason="{_REASONS.get(reason, str(reason))}"')
            if switch_ns:
                fields.append(f"switch_ns={min(switch_ns, MAX_INTEGER)}i")
            number = f",n={before}" if before else ""
            yield f"{head}{number} {','.join(fields)} {time_ns}"

    def _head(self, shard: int, kind: int, metric: int, node: int, port: int, queue: int) -> str:
        """Measurement and tags."""
        key = shard, kind, metric, node, port, queue
        head = self._heads.get(key)
        if head is None:
            tags = [f"collector={self._member}", f"kind={_KINDS.get(kind, kind)}"]
            tags.append(f"metric={_METRICS.get(metric, metric)}")
            if node != NO_NODE:
                tags.append(f"node={tag(self._names.node(node) or str(node))},node_id={node}")
                if port != NO_PORT:
                    tags.append(f"port={tag(self._names.port(node, port) or str(port))},port_id={port}")
            if queue >= 0:
                tags.append(f"queue={queue}")
            head = f"int_event,{','.join(tags)},shard={shard}"
            if len(self._heads) > 100_000:
                self._heads.clear()
            self._heads[key] = head
        return head


_COLUMNS = (
    *("kind", "metric", "node_id", "port", "ident", "value", "previous", "time_ns", "sequence", "switch_ns"),
    *("reason", "flow_id", "ip_version", "src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto"),
    *("hop", "hop_count", "path"),
)


class Influx(Destination):
    """One server."""

    Settings = InfluxSettings

    def __init__(self, settings: InfluxSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._encoder = LineEncoder(context.names, context.member)
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

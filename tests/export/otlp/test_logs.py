"""OTLP logs: events read back by OpenTelemetry's own messages, at a receiver and after a real collector."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs

from hopscope.base.names import Names
from hopscope.detect.records import EVENT, NO_NODE, NO_PORT, ClearReason, Kind, Metric
from hopscope.export.block import EventBlock
from hopscope.export.destination import DeliveryError
from hopscope.export.otlp.client import OtlpClient
from hopscope.export.otlp.log_records import LogEncoder
from hopscope.history.writing.journal import JournalWriter
from hopscope.settings.destinations.otlp import OtlpSettings
from support.events.event_make import Events, random_events
from support.servers.bus_make import NAMES, bus_sender, need
from support.servers.otlp_receiver import OtlpReceiver, rotel
from support.waiting import HANG_SECONDS, eventually

MAX = 2**63 - 1
WARNINGS = {"threshold", "raised", "cleared", "loop", "drop", "queue_report", "silent", "returned", "gap"}
UNITS = {"flow_latency": "ns", "hop_latency": "ns", "label_latency": "ns", "label_age": "ns"}
UNITS |= {"label_occupancy": "bytes", "label_coverage": "ppm"}


def made(count: int) -> Events:
    """Events as a collector has them: many at the same time, short paths, clocks of switches."""
    events = random_events(count, seed=9)
    events["time_ns"] = 1_700_000_000_000_000_000 + np.arange(count) // 7 * 1_000
    events["hop_count"] %= 9
    events["switch_ns"][::5] = 12345678901234567
    events["switch_ns"][1::5] = events["time_ns"][1::5] - 1234
    return events


def value_of(value: AnyValue) -> Any:
    """What an AnyValue holds."""
    held = value.WhichOneof("value")
    if held == "array_value":
        return [value_of(each) for each in value.array_value.values]
    return getattr(value, str(held))


def attributes(pairs: Any) -> dict[str, Any]:
    """Attributes by key, each of which may be there once."""
    found = {pair.key: value_of(pair.value) for pair in pairs}
    assert len(found) == len(pairs)
    return found


def expected(row: np.void) -> dict[str, Any]:
    """The attributes of an event, written down field by field."""
    kind, metric = Kind(row["kind"]).label, Metric(row["metric"]).label
    sequence, node, port = int(row["sequence"]), int(row["node_id"]), int(row["port"])
    found: dict[str, Any] = {
        "hopscope.kind": kind,
        "hopscope.shard": int(row["shard"]),
        "hopscope.sequence": sequence,
        "log.record.uid": f"m.1-{row['shard']}-{sequence}-{row['time_ns']}",
    }
    if metric != "none":
        found["hopscope.metric"] = metric
    if metric in UNITS:
        found["hopscope.unit"] = UNITS[metric]
    for name in ("value", "previous"):
        if metric == "flow_path" and kind != "flow_record":
            found[f"hopscope.{name}_hash"] = f"{int(row[name]):016x}"
        else:
            found[f"hopscope.{name}"] = min(int(row[name]), MAX)
    if node != NO_NODE:
        found["hopscope.node.id"] = node
        if node in NAMES.nodes:
            found["hopscope.node.name"] = NAMES.nodes[node]
        if port != NO_PORT:
            found["hopscope.port.id"] = port
            if (node, port) in NAMES.ports:
                found["hopscope.port.name"] = NAMES.ports[node, port]
    whole = {side: int(row[f"{side}_hi"]) << 64 | int(row[f"{side}_lo"]) for side in ("src", "dst")}
    written = {}
    for side, number in whole.items():
        address = ip_address(number.to_bytes(16, "big"))
        written[side] = str(getattr(address, "ipv4_mapped", None) or address)
    if kind in ("silent", "returned", "gap", "source_moved"):
        found["hopscope.source.address"] = written["src"]
        found["hopscope.source.hw_id"] = int(row["ident"])
    elif row["flow_id"]:
        found["hopscope.flow.id"] = f"{int(row['flow_id']):016x}"
        found["hopscope.flow.protocol"] = int(row["proto"])
        found["source.address"], found["destination.address"] = written["src"], written["dst"]
        found["source.port"], found["destination.port"] = int(row["sport"]), int(row["dport"])
        found["network.transport"] = {6: "tcp", 17: "udp"}[int(row["proto"])]
        found["network.type"] = "ipv6" if row["ip_version"] == 6 else "ipv4"
    dropped = kind in ("drop", "queue_report") and (row["ident"] or row["value"])
    if dropped or metric in ("queue_occupancy", "queue_congestion", "buffer_occupancy"):
        found["hopscope.queue.id"] = int(row["ident"])
    if metric == "hop_latency":
        found["hopscope.hop"] = int(row["hop"])
    if kind == "cleared":
        found["hopscope.reason"] = ClearReason(row["reason"]).label
    if row["switch_ns"]:
        found["hopscope.switch_ns"] = int(row["switch_ns"])
    if metric == "flow_path" or kind == "loop":
        found["hopscope.path"] = row["path"][: int(row["hop_count"])].tolist()
    return found


def check(record: LogRecord, row: np.void) -> None:
    """A record has all of an event."""
    kind, metric, node = Kind(row["kind"]).label, Metric(row["metric"]).label, int(row["node_id"])
    assert attributes(record.attributes) == expected(row)
    assert record.event_name == f"hopscope.{kind}"
    severity = (13, "WARN") if kind in WARNINGS else (9, "INFO")
    assert (record.severity_number, record.severity_text) == severity
    assert record.observed_time_unix_nano == row["time_ns"]
    near = abs(int(row["switch_ns"]) - int(row["time_ns"])) < 60 * 10**9
    assert record.time_unix_nano == (row["switch_ns"] if near else row["time_ns"])
    body = kind if metric == "none" else f"{kind} {metric}"
    if node != NO_NODE:
        body += f" at {NAMES.nodes.get(node) or node}"
    assert record.body.string_value == body


def records_of(receiver: OtlpReceiver) -> dict[int, LogRecord]:
    """Every record that a receiver has, by sequence; each is there once."""
    found: dict[int, LogRecord] = {}
    for request in receiver.logs:
        for resource in request.resource_logs:
            about = attributes(resource.resource.attributes)
            assert about["service.name"] == "hopscope"
            assert about["service.instance.id"] == "m.1"
            assert about["site"] == "größe"
            for scope in resource.scope_logs:
                for record in scope.log_records:
                    sequence = attributes(record.attributes)["hopscope.sequence"]
                    assert sequence not in found
                    found[sequence] = record
    return found


def test_a_real_collector_passes_on_every_value(tmp_path: Path) -> None:
    """Through rotel, a collector of OpenTelemetry: every event once, with every value and time."""
    need("rotel")
    events = made(3000)
    with OtlpReceiver() as receiver, rotel(tmp_path, receiver.url) as server:
        with JournalWriter(tmp_path / "data", 2) as writer:
            writer.append(events)
            one, row = bus_sender(tmp_path / "data", "otlp", url=server.url, resource={"site": "größe"})
            one.start()
            one.finish()
            assert one.ended(HANG_SECONDS)
            assert row["events_total"][0] == 3000, row
        eventually(lambda: len(records_of(receiver)) == 3000)
        found = records_of(receiver)
    for event in events:
        check(found[int(event["sequence"])], event)


def test_what_a_receiver_rejects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers are sent; the scope has the block's id; parts that are rejected, and requests, are counted."""
    monkeypatch.setenv("LAB_KEY", "k3y")
    partial = ExportLogsPartialSuccess(rejected_log_records=3, error_message="too old")
    events = made(40)
    with OtlpReceiver() as receiver, JournalWriter(tmp_path, 0) as writer:
        receiver.answers += [
            (503, {}, b"busy"),
            (200, {}, ExportLogsServiceResponse(partial_success=partial).SerializeToString()),
            (400, {}, b"not like this"),
        ]
        more = {"headers": {"X-Key": "env:LAB_KEY"}, "token": "t0ken", "gzip": False, "batch_events": 10}
        one, row = bus_sender(tmp_path, "otlp", url=f"{receiver.url}/", **more)
        events["time_ns"] += np.arange(40)
        writer.append(events)
        one.start()
        eventually(lambda: len(receiver.headers) == 5)
        one.finish()
        assert one.ended(HANG_SECONDS)
    assert (row["failed_total"][0], row["events_total"][0], row["retried_total"][0]) == (3 + 10, 7 + 20, 1)
    assert [headers["x-key"] for headers in receiver.headers] == ["k3y"] * 5
    assert receiver.headers[0]["authorization"] == "Bearer t0ken"
    scopes = [request.resource_logs[0].scope_logs[0].scope for request in receiver.logs]
    times = events["time_ns"]
    assert [attributes(scope.attributes)["hopscope.block.id"] for scope in scopes] == [
        f"m.1-0-{first}-{first + 9}-{times[first]}" for first in (0, 20, 30)
    ]


def test_a_receiver_may_ask_for_a_pause() -> None:
    """Retry-After in seconds, as a date, and what is neither."""
    settings = OtlpSettings(kind="otlp")
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    with OtlpReceiver() as receiver:
        client = OtlpClient(settings.model_copy(update={"url": receiver.url}), "logs", "m", HANG_SECONDS)
        for given, least, most in (("7", 7, 7), (soon, 1, 100), ("later", 0, 0), ("", 0, 0)):
            receiver.answers.append((429, {"retry-after": given}, b""))
            with pytest.raises(DeliveryError) as found:
                client.post(b"", {})
            assert found.value.again
            assert least <= found.value.after_seconds <= most
        client.close()


def test_long_paths() -> None:
    """A path of twenty nodes is one record with all of them."""
    events = np.zeros(4, EVENT)
    events["sequence"], events["time_ns"], events["kind"] = range(4), 7, Kind.PATH_CHANGE
    events["metric"], events["hop_count"], events["hop"] = Metric.FLOW_PATH, [20, 20, 20, 2], [0, 8, 16, 0]
    events["path"] = np.arange(32).reshape(4, 8) + 2**31
    logs = ScopeLogs()
    logs.ParseFromString(LogEncoder(Names(), "m").encode(EventBlock("m", 0, 0, 3, events)))
    paths = [attributes(record.attributes)["hopscope.path"] for record in logs.log_records]
    assert paths == [[2**31 + node for node in range(20)], [2**31 + 24, 2**31 + 25]]


@settings(max_examples=30)
@given(st.text(max_size=300), st.text(max_size=300))
def test_names_are_whole(node: str, port: str) -> None:
    """Whatever a name has in it, it arrives, cut after 256 characters."""
    events = np.zeros(2, EVENT)
    events["node_id"], events["port"], events["kind"], events["metric"] = 7, 3, Kind.RAISED, 3
    logs = ScopeLogs()
    names = Names({7: node}, {(7, 3): port})
    logs.ParseFromString(LogEncoder(names, "m").encode(EventBlock("m", 0, 0, 1, events)))
    for record in logs.log_records:
        found = attributes(record.attributes)
        assert found.get("hopscope.node.name", "") == node[:256]
        assert found.get("hopscope.port.name", "") == port[:256]
        assert record.body.string_value == f"raised hop_latency at {node[:256] or 7}"

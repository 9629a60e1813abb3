"""Events as OTLP logs into a receiver: rates, and what the sender costs."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from harness import exports
from harness.common import Bench
from hopscope.base.names import Names
from hopscope.export.block import EventBlock
from hopscope.export.otlp.log_records import LogEncoder

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs

from support.bus_make import bus_sender
from support.event_make import random_events
from support.otlp_receiver import Rotel
from support.server_process import free_port

RECORDS = 5000


def main() -> None:
    """The encoder alone, against OpenTelemetry's messages; then rotel, with and without gzip."""
    bench, _ = Bench.start(
        "export_otlp",
        "events from a journal into rotel on this machine, by one sender: rate, and the sender's share; what"
        " rotel passes on goes nowhere. The encoder alone, and the same records by the package"
        " opentelemetry-proto.",
        "a network, a receiver that has cores of its own, and what a receiver does with logs.",
    )
    events = random_events(20_000 if bench.quick else 200_000, seed=9)
    events["time_ns"] = events["time_ns"][0] + np.arange(len(events)) * 20_000
    block = EventBlock("m", 0, 0, RECORDS - 1, events[:RECORDS])
    encoder = LogEncoder(Names(), "m")
    encoded = encoder.encode(block)
    began = time.process_time()
    for _ in range(10):
        encoder.encode(block)
    spent = (time.process_time() - began) / (10 * RECORDS)
    bench.row({"encoder": "columns"}, spent * 1e6, "us an event", f"{len(encoded) / RECORDS:.0f} bytes")
    logs = ScopeLogs()
    logs.ParseFromString(encoded)
    began = time.process_time()
    again = ScopeLogs()
    for record in logs.log_records:
        copy = again.log_records.add(
            time_unix_nano=record.time_unix_nano,
            observed_time_unix_nano=record.observed_time_unix_nano,
            severity_number=record.severity_number,
            severity_text=record.severity_text,
            event_name=record.event_name,
        )
        copy.body.string_value = record.body.string_value
        for pair in record.attributes:
            made = copy.attributes.add(key=pair.key)
            if pair.value.HasField("string_value"):
                made.value.string_value = pair.value.string_value
            else:
                made.value.int_value = pair.value.int_value
    again.SerializeToString()
    spent = (time.process_time() - began) / RECORDS
    bench.row({"encoder": "opentelemetry-proto"}, spent * 1e6, "us an event")
    with tempfile.TemporaryDirectory() as name:
        server = Rotel(Path(name), f"http://127.0.0.1:{free_port()}")
        server.start()
        try:
            for packed in (True, False):
                rate, spent, size = exports.measure(
                    lambda folder, packed=packed: bus_sender(  # type: ignore[misc]
                        folder, "otlp", url=server.url, gzip=packed, timeout_seconds=60
                    ),
                    events,
                )
                note = f"sender {spent * 1e6:.1f} us of a processor an event, {size:.0f} bytes"
                bench.row({"server": "rotel", "gzip": packed}, rate, "events/s", note)
        finally:
            server.kill()


if __name__ == "__main__":
    main()

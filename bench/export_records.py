"""Events as OTLP logs and as data records of IPFIX: rates, and what the sender costs."""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
from opentelemetry.proto.logs.v1.logs_pb2 import ScopeLogs

from harness import exports
from harness.common import Bench
from hopscope.base.names import Names
from hopscope.export.block import EventBlock
from hopscope.export.otlp.log_records import LogEncoder
from support.events.event_make import Events, random_events
from support.servers.bus_make import bus_sender
from support.servers.otlp_receiver import Rotel
from support.servers.server_process import free_port

RECORDS = 5000


def processor_time(work: Callable[[], object], rounds: int) -> float:
    """Seconds of a processor for a round."""
    work()
    began = time.process_time()
    for _ in range(rounds):
        work()
    return (time.process_time() - began) / rounds


def by_library(logs: ScopeLogs) -> bytes:
    """The same records, made field by field."""
    made = ScopeLogs()
    for record in logs.log_records:
        copy = made.log_records.add(
            time_unix_nano=record.time_unix_nano,
            observed_time_unix_nano=record.observed_time_unix_nano,
            severity_number=record.severity_number,
            severity_text=record.severity_text,
            event_name=record.event_name,
        )
        copy.body.string_value = record.body.string_value
        for pair in record.attributes:
            value = copy.attributes.add(key=pair.key).value
            if pair.value.HasField("string_value"):
                value.string_value = pair.value.string_value
            else:
                value.int_value = pair.value.int_value
    return made.SerializeToString()


def encoders(bench: Bench, events: Events) -> None:
    """Log records from columns, and by the package opentelemetry-proto."""
    block, encoder = EventBlock("m", 0, 0, RECORDS - 1, events[:RECORDS]), LogEncoder(Names(), "m")
    encoded = encoder.encode(block)
    spent = processor_time(lambda: encoder.encode(block), 10) / RECORDS
    bench.row({"what": "log records from columns"}, spent * 1e6, "us", f"{len(encoded) / RECORDS:.0f} bytes")
    logs = ScopeLogs()
    logs.ParseFromString(encoded)
    spent = processor_time(lambda: by_library(logs), 2) / RECORDS
    bench.row({"what": "log records by opentelemetry-proto"}, spent * 1e6, "us")


def into_rotel(bench: Bench, events: Events, packed: bool) -> None:
    """OTLP logs into rotel, which passes them on to nobody."""
    with tempfile.TemporaryDirectory() as name:
        server = Rotel(Path(name), f"http://127.0.0.1:{free_port()}")
        server.start()
        try:
            rate, spent, size = exports.measure(
                lambda folder: bus_sender(folder, "otlp", url=server.url, gzip=packed, timeout_seconds=60),
                events,
            )
        finally:
            server.kill()
    note = f"sender {spent * 1e6:.1f} CPU us per event, {size:.0f} bytes"
    bench.row({"what": f"OTLP logs into rotel, {'gzip' if packed else 'plain'}"}, rate, "events/s", note)


def into_a_socket(bench: Bench, events: Events) -> None:
    """IPFIX over TCP into a reader that drops it: the sender's time has the reader's in it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def read() -> None:
            connection, _ = server.accept()
            with closing(connection):
                while connection.recv(1 << 20):
                    pass

        thread = threading.Thread(target=read)
        thread.start()
        url = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        rate, spent, size = exports.measure(
            lambda folder: bus_sender(folder, "ipfix", url=url, kinds=[], metrics=[]), events
        )
        thread.join()
    note = f"sender {spent * 1e6:.1f} CPU us per event, {size:.0f} bytes"
    bench.row({"what": "IPFIX over TCP"}, rate, "events/s", note)


def main() -> None:
    """The encoder of OTLP, then both destinations."""
    bench, _ = Bench.start(
        "export_records",
        "the time to make OTLP log records from columns and with the package "
        "opentelemetry-proto; events per second from a journal into rotel, and over TCP to a "
        "reader on this machine, by one sender.",
        "a network, a receiver with cores of its own, and the receiver's work on the records.",
    )
    events = random_events(20_000 if bench.quick else 200_000, seed=9)
    events["time_ns"] = events["time_ns"][0] + np.arange(len(events)) * 20_000
    encoders(bench, events)
    for packed in (True, False):
        into_rotel(bench, events, packed)
    into_a_socket(bench, events)


if __name__ == "__main__":
    main()

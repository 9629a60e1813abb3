"""A real collector with something on every page of the console: reports, labels, a store, a destination that
does not answer.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from hopscope.direct.stores.folder import open_stores
from hopscope.direct.stores.spec import parse_store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.wire.label.batch import encode_blocks
from hopscope.wire.label.records import LABEL

from ..direct.direct_make import as_bytes, dta
from .collector_process import Collector, Load

SETTINGS = """
[label]
listen = "127.0.0.1:0"
silent_seconds = 2.0

[detect]
idle_seconds = 3600  # flows of a slow test stay

[detect.thresholds.hop_latency]
change = 100
raise_above = 2000
clear_below = 1

[export.dead]
kind = "webhook"
url = "http://127.0.0.1:9/alerts"
"""
KEYS = 1000


@contextmanager
def console_collector(folder: Path) -> Iterator[Collector]:
    """It receives reports and labels until the end; port 4 sends one label and falls silent. The hop
    latencies of three switches are in alarm to the end.
    """
    data, config = folder / "data", folder / "hopscope.toml"
    config.write_text(SETTINGS)
    one = Collector(data, "--config", str(config), "--listen", "udp://127.0.0.1:0", "--http-port", "0")
    one.start()
    _write_stores(data)
    load, ended = Load(100), threading.Event()
    load.port = one.port
    labels = threading.Thread(target=_send_labels, args=(one.owner["labels"], ended))
    labels.start()
    try:
        yield one
    finally:
        ended.set()
        labels.join()
        load.close()
        one.stop()


def _write_stores(data: Path) -> None:
    """`paths` has KEYS keys in as many slots, twice each; `events` lists; `packets` counters."""
    specs = [
        f"paths=key-write,slots={KEYS},copies=2",
        "events=append,lists=3,batches=64,batch=2",
        "packets=key-increment,slots=64,copies=1",
    ]
    stores = open_stores(data / "direct", [parse_store(spec) for spec in specs])
    keys = as_bytes(np.arange(1, KEYS + 1, dtype=np.uint64))
    Translator([stores["paths"].layout], MemoryTransport([stores["paths"]])).translate(
        *dta(1, keys, keys, redundancy=2)
    )
    lists = np.array([1, 1, 0, 0, 0], np.uint64)
    translator = Translator([stores["events"].layout], MemoryTransport([stores["events"]]))
    translator.translate(*dta(2, as_bytes(lists), as_bytes(lists + np.uint64(70)), list=lists))
    translator.flush()
    stores["packets"].memory.view(np.uint64)[[5, 9, 60]] = 7, 2**60, 1


def _send_labels(place: str, ended: threading.Event) -> None:
    host, _, port = place.rpartition("//")[2].rpartition(":")
    ports = [1, 2, 3, 4]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        while not ended.wait(0.05):
            labels = np.zeros(len(ports), LABEL)
            labels["node_id"], labels["egress_port"], labels["time_ns"] = 7, ports, time.time_ns()
            labels["count"], labels["position"] = len(ports), range(len(ports))
            labels["latency_ns"], labels["occupancy"] = 900, 4096
            sender.sendto(encode_blocks(labels), (host, int(port)))
            ports = [1, 2, 3]

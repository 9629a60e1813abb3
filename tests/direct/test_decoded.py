"""Answers decoded by the monitor that reported them, against bytes written out by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.direct.collectors.open import open_collectors
from hopscope.direct.monitors.query import decode_entries, monitor_of, query_decoded
from hopscope.direct.monitors.registry import MonitorError, make_monitors
from hopscope.direct.monitors.run import start
from hopscope.direct.monitors.systems.pint import Pint
from hopscope.direct.stores.answers import QueryOptions
from hopscope.direct.stores.store import StoreError
from hopscope.switch.direct_sender import observations_of
from hopscope.wire.craft.frames import craft
from hopscope.wire.decode.plain import PlainDecoder
from hopscope.wire.dialect import DEFAULT
from support.events.monitor_traffic import TREE, seen

pytestmark = pytest.mark.kernel
FLOW = "0a0000010a00000206005001bb"
SHOWN = "10.0.0.1,10.0.0.2,tcp,80,443"


@pytest.mark.parametrize(
    ("monitor", "data", "fields"),
    [
        ("int-path-tracing", "00000008" "0000000f" "00000007" + 16 * "0", {"path": [8, 15, 7]}),
        ("marple-host-values", "000003e8", {"bytes": 1000}),
        (
            "packetscope-traversal", "0001" "0002" "000000ff" "00000010",
            {"ingress_port": 1, "egress_port": 2, "hop_latency": 255, "queue_depth": 16},
        ),
        ("sonata-results", "00000003", {"count": 3}),
        ("marple-tcp-timeouts", "00000002", {"timeouts": 2}),
        (
            "dshark", "000000000000abcd" "0000000000000005" "00000009" "01" "05" "00",
            {"packet": 0xABCD, "time_ns": 5, "switch": 9, "hop": 1, "path_length": 5, "drop_reason": 0},
        ),
        ("int-congestion", "00004e20", {"queue_depth": 20_000}),
        (
            "int-congestion-events", "0000000000000007" "00000003" "0002" "00004e20",
            {"time_ns": 7, "switch": 3, "egress_port": 2, "queue_depth": 20_000},
        ),
        ("marple-lossy-flows", FLOW, {"flow": SHOWN}),
        ("marple-flowlets", FLOW + "00000011", {"flow": SHOWN, "packets": 17}),
        (
            "netseer-losses", FLOW + "0009" "03" "01" "ff",
            {"flow": SHOWN, "switch": 9, "egress_port": 3, "reason": 1, "packets": 255},
        ),
        (
            "packetscope-losses", "00000009" "0001" "0002" "04" "03" "deadbeef",
            {"switch": 9, "ingress_port": 1, "egress_port": 2, "reason": 4, "hop": 3, "flow": 0xDEADBEEF},
        ),
        (
            "sonata-tuples", "0a000001" "0a000002" "0050" "01bb",
            {"source": "10.0.0.1", "destination": "10.0.0.2", "sport": 80, "dport": 443},
        ),
        ("marple-host-counters", "0000000000000fff", {"bytes": 4095}),
        ("turboflow", "0000000000000003", {"packets": 3}),
    ],
)  # fmt: skip
def test_data_of_every_monitor_are_decoded(monitor: str, data: str, fields: dict[str, Any]) -> None:
    """Field by field; data of another length are left as they are."""
    decoder = monitor_of(monitor)
    assert decode_entries([data, data + "00"], decoder) == [
        {"data": data, "decoded": fields},
        {"data": data + "00"},
    ]


def test_a_flow_over_ipv6_is_found_by_its_addresses(tmp_path: Path) -> None:
    """A switch's monitors fold IPv6 addresses to four bytes each; whoever asks gives them as they are. With a
    switch in front of the flow, too.
    """
    report = {
        "report": {"node_id": 3, "metadata": {"ingress_port": 5, "egress_port": 6, "hop_latency": 7}},
        "flow": {"src": "2001:db8::7", "dst": "2001:db8:1::8", "proto": 6, "sport": 80, "dport": 443},
        "hops": [{"node_id": 1}, {"node_id": 2}],
    }
    batch = PlainDecoder(DEFAULT).decode(craft([report]))  # to compile one with bounds checks takes 25 s
    for name in ("int-path-tracing", "packetscope-traversal"):
        (monitor,) = make_monitors([name]).values()
        start(monitor, 64, tmp_path / f"{name}.region").take(observations_of(batch, 0, 0))
    flow = "2001:db8::7,2001:db8:1::8,tcp,80,443"
    group, options = open_collectors((), tmp_path), QueryOptions()
    for name, key, decoded in (
        ("int-path-tracing", flow, {"path": [1, 2, 3]}),
        (
            "packetscope-traversal", f"3+{flow}",
            {"ingress_port": 5, "egress_port": 6, "hop_latency": 7, "queue_depth": 0},
        ),
    ):  # fmt: skip
        (answer,) = query_decoded(group, name, [key], options, monitor=monitor_of(name))
        assert answer["key"] == key
        assert answer.get("decoded") == decoded


def test_the_path_of_a_flow_comes_from_all_its_bytes(tmp_path: Path) -> None:
    """PINT's key is the flow, its path the monitor's own answer; without switches it says what it needs."""
    running = start(Pint(), 64, tmp_path / "pint-path.region")
    running.take(seen())
    running.flush()
    switches = np.arange(1, len(TREE.switches) + 1, dtype=np.uint32)
    flows = np.unique(seen()["flow"], axis=0)
    truth = running.monitor.query(running.store, flows, switches)  # type: ignore[attr-defined]
    group = open_collectors((), tmp_path)
    texts = [f"0x{bytes(flow).hex()}" for flow in flows]
    answers = query_decoded(
        group, "pint-path", texts, QueryOptions(values=switches), monitor=monitor_of("pint-path")
    )
    assert truth.found.any()
    for text, found, path, answer in zip(texts, truth.found, truth.values, answers, strict=True):
        assert answer["key"] == text
        assert (answer["status"] == "found") == found
        assert answer.get("decoded") == ({"path": path[path > 0].tolist()} if found else None)
    with pytest.raises(StoreError, match="needs the switches"):
        query_decoded(group, "pint-path", texts[:1], QueryOptions(), monitor=monitor_of("pint-path"))


def test_the_monitor_is_that_of_the_store_or_the_one_that_is_named() -> None:
    """A store of another name is not decoded."""
    assert monitor_of("paths") is None
    assert monitor_of("turboflow").name == "turboflow"  # type: ignore[union-attr]
    assert monitor_of("paths", "turboflow").name == "turboflow"  # type: ignore[union-attr]
    with pytest.raises(MonitorError, match="unknown monitor 'nothing'"):
        monitor_of("paths", "nothing")

"""Reports made of samples and flow records: one node each, any number of packets, no path."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from hopscope.detect.detector import Detector
from hopscope.detect.records import FlowState
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.records import Have, Link
from hopscope.wire.versions import IPFIX, SFLOW
from support.packets.ipfix_make import FLOW, message, packet_9, record, set_of, template
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel
SETTINGS = DetectSettings(
    flow_rows=16,
    hop_pool=8,
    ports=64,
    sources=16,
    push_seconds=0,
    thresholds=ThresholdSettings(hop_latency=MetricLimits(change=100, raise_above=1000, clear_below=500)),
)
UTILIZATION = Have.TX_UTILIZATION
SAMPLED = Have.NODE_ID | Have.PORTS | Have.HOP_LATENCY


@pytest.fixture
def detector() -> Detector:
    return Detector(SETTINGS)


def sample(make: ModuleType, node: int, *, packets: int = 1, version: int = SFLOW, **fields: Any) -> Any:
    """A report of one node about a flow; `packets` are put in by `run`."""
    given = {"latency": 10, "have": SAMPLED} | {
        name: fields.pop(name) for name in ("latency", "have", "utilization", "port") if name in fields
    }
    report = make.Report(
        [make.Hop(node, **given)], version=version, int_version=0, node=None, flags=0, **fields
    )
    report.packets = packets
    return report


def run(make: ModuleType, detector: Detector, *reports: Any) -> list[tuple[Any, ...]]:
    """Kind, metric, node, value and path of each event."""
    batch = make.batch(list(reports))
    batch.reports["packet_id"] = [getattr(report, "packets", 0) for report in reports]
    events = make.events_of(detector.update(batch))
    return [
        (e.kind, e.path[: e.hop_count]) if e.metric == "flow_path" else (e.kind, e.metric, e.node, e.value)
        for e in events
    ]


def flow(detector: Detector) -> Any:
    """The only flow."""
    flows = detector.tables["flows"]["flows"]
    (at,) = (flows["flow_id"] != 0).nonzero()[0]
    return flows[at]


def test_nodes_that_saw_a_flow(make: ModuleType, detector: Detector) -> None:
    """The flow is new once; every node keeps its own latency, whichever reports next; packets add up."""
    assert run(make, detector, sample(make, 7, packets=512)) == [
        ("new_key", (7,)),
        ("new_key", "hop_latency", 7, 10),
    ]
    events = run(
        make, detector, sample(make, 8, latency=20, sequence=1, packets=512), sample(make, 7, sequence=2),
        sample(make, 8, latency=21, version=IPFIX, packets=1000, sequence=3, source=2),
    )  # fmt: skip
    assert events == [("new_key", "hop_latency", 8, 20)]
    found = flow(detector)
    assert (found["packets"], found["hop_count"]) == (512 + 512 + 1 + 1000, 2)
    assert found["state"] & (FlowState.HAS_PATH | FlowState.INCOMPLETE) == FlowState.INCOMPLETE


def test_large_interface_numbers(make: ModuleType, detector: Detector) -> None:
    """Ethernet1/1, Ethernet1/2 and port-channel1 of a switch: the upper bits of ifIndexes are the type."""
    indexes = [436_207_616, 436_211_712, 369_098_752]
    links = [
        make.Report(
            [make.Hop(7, l2_port=index, utilization=10 * k, have=Have.NODE_ID | Have.L2_PORTS | UTILIZATION)],
            flow=None, int_version=0, version=SFLOW,
        )
        for k, index in enumerate(indexes)
    ]  # fmt: skip
    events = make.run(detector, links)
    assert [(e.kind, e.ident, e.value) for e in events] == [
        ("new_key", index, 10 * k) for k, index in enumerate(indexes)
    ]


def test_alarms(make: ModuleType, detector: Detector) -> None:
    """A limit is exceeded at one node, and not when another one reports."""
    run(make, detector, sample(make, 7), sample(make, 8, sequence=1))
    assert ("raised", "hop_latency", 7, 5000) in run(
        make, detector, sample(make, 7, latency=5000, sequence=2)
    )
    assert run(make, detector, sample(make, 8, sequence=3)) == []
    events = run(make, detector, sample(make, 7, latency=10, sequence=4))
    assert [event for event in events if event[0] == "cleared"] == [("cleared", "hop_latency", 7, 10)]


def test_samples_beside_int(make: ModuleType, detector: Detector) -> None:
    """A path from INT replaces the list of nodes, and stays: samples of its nodes go to its hops, those of
    others to their ports.
    """
    run(make, detector, sample(make, 9))
    whole = make.Report(make.path(1, 2, 3, have=SAMPLED))
    assert ("new_key", (1, 2, 3)) in run(make, detector, whole)
    events = run(
        make, detector, sample(make, 2, latency=500, sequence=1, packets=64), sample(make, 9, sequence=2),
        make.Report(make.path(1, 2, 3, latency=10, have=SAMPLED), sequence=1),
    )  # fmt: skip
    assert events == [("change", "hop_latency", 2, 500), ("change", "hop_latency", 2, 10)]
    found = flow(detector)
    assert (found["packets"], found["hop_count"]) == (1 + 1 + 64 + 1 + 1, 3)
    assert found["state"] & (FlowState.HAS_PATH | FlowState.INCOMPLETE) == FlowState.HAS_PATH


def test_ports_without_a_flow(make: ModuleType, detector: Detector) -> None:
    """The utilisation of an interface."""
    have = Have.NODE_ID | Have.PORTS | Have.TX_UTILIZATION
    report = sample(make, 7, flow=None, have=have, utilization=250, port=3)
    assert run(make, detector, report) == [("new_key", "link_utilization", 7, 250)]


def test_missing_datagrams(make: ModuleType, detector: Detector) -> None:
    """Sequence numbers are those of datagrams."""
    events = run(make, detector, *[sample(make, 7, sequence=n) for n in (1, 2, 2**22 + 2)])
    assert [event for event in events if event[0] == "gap"] == [("gap", "none", 0, 2**22 - 1)]


def test_many_nodes(make: ModuleType, detector: Detector) -> None:
    """A list of more than 8 nodes, and of more than 64, of which the rest is not kept."""
    run(make, detector, *[sample(make, 100 + n, sequence=n) for n in range(80)])
    assert (flow(detector)["hop_count"], flow(detector)["packets"]) == (64, 80)
    assert run(make, detector, *[sample(make, 100 + n, sequence=80 + n) for n in range(80)]) == []


@pytest.mark.parametrize(("version", "received", "lost"), [(10, 800, 200), (9, 82, 20)])
def test_loss_of_an_exporter_has_one_unit(detector: Detector, version: int, received: int, lost: int) -> None:
    """Every fifth of 100 messages with ten records is missing: a fifth, in data records, which IPFIX numbers,
    and in packets, which NetFlow 9 numbers.
    """
    decoder, data = IpfixDecoder(), set_of(256, record() * 10)
    if version == 10:
        first = message(set_of(2, template(256, FLOW)))
        sent = [message(data, sequence=10 * n) for n in range(100)] + [message(sequence=1000)]
    else:
        first = packet_9(set_of(0, template(256, FLOW)))
        sent = [packet_9(data, sequence=n + 1) for n in range(100)] + [packet_9(sequence=101)]
    messages = [first, *(one for n, one in enumerate(sent) if n % 5 != 4)]
    list(detector.update(decoder.decode(frame_batch(messages, link=Link.UDP_PAYLOAD))))
    rows = detector.tables["sources"]["sources"]
    (row,) = rows[rows["bits"] != 0]
    assert (int(row["received"]), int(row["lost"])) == (received, lost)


def test_a_decoder_that_begins_again(detector: Detector) -> None:
    """After a restart of the worker, whose tables stay, messages of an exporter are none that came before."""
    for time_ns in (10**18, 10**18 + 10**9):
        decoder = IpfixDecoder()
        batch = frame_batch([packet_9(sequence=n) for n in range(40)], link=Link.UDP_PAYLOAD)
        batch.frames["time_ns"] = time_ns
        list(detector.update(decoder.decode(batch)))
    rows = detector.tables["sources"]["sources"]
    (row,) = rows[rows["bits"] != 0]
    counted = [int(row[name]) for name in ("received", "lost", "duplicate", "restarts")]
    assert counted == [80, 0, 0, 1]

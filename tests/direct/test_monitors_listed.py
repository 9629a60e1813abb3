"""Monitors that append to lists, and those of switches' queries, against what the traffic really did."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest

from hopscope.direct.monitors.run import run_monitors
from hopscope.direct.monitors.systems.congestion import CongestionDepths, CongestionEvents
from hopscope.direct.monitors.systems.dshark import DShark, PacketGroup
from hopscope.direct.monitors.systems.flowlets import FlowletSizes
from hopscope.direct.monitors.systems.lossy_flows import LossyFlows
from hopscope.direct.monitors.systems.netseer import NetSeer
from hopscope.direct.monitors.systems.packetscope import FIELDS, PipelineLosses, Traversal, flow_digest
from hopscope.direct.monitors.systems.path_tracing import PathTracing
from hopscope.direct.monitors.systems.sonata import NEW_CONNECTIONS, PacketQuery, SonataResults, SonataTuples
from hopscope.fabric.faults import make_fault
from hopscope.fabric.observe import observe
from hopscope.fabric.queueing import LinkModel
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.observation import ACK, FIN, SYN
from support.events.monitor_traffic import TREE, columns, fed, flows_of, lossy, observation, seen, ways

pytestmark = pytest.mark.kernel
BATCHES = [1, 23]


@pytest.mark.parametrize("batches", BATCHES)
def test_congestion(batches: int) -> None:
    """Every packet that found a deep queue, in order: its depth, and with switch, port and time."""
    deep = seen()[seen()["queue_depth"] > 10_000]
    assert len(deep) > 500
    running = fed(depths := CongestionDepths(10_000), seen(), batches)
    assert depths.query(running.store).tolist() == deep["queue_depth"].tolist()
    running = fed(events := CongestionEvents(10_000), seen(), batches)
    names = ("time_ns", "switch", "egress_port", "queue_depth")
    assert events.query(running.store).tolist() == list(columns(deep, *names))


def test_a_list_that_is_too_short_keeps_the_newest() -> None:
    """A ring of fewer events than there were: the last ones, none of them damaged."""
    truth = seen()["queue_depth"][seen()["queue_depth"] > 10_000].tolist()
    running = fed(monitor := CongestionDepths(10_000), seen(), expected=128)
    kept = monitor.query(running.store).tolist()
    assert 100 <= len(kept) <= 128
    assert kept == truth[-len(kept) :]


def test_congestion_of_a_microburst() -> None:
    """In the fabric's own traffic, an incast is reported by its port, and its losses
    likewise.
    """
    fault = make_fault(TREE, "microburst", 0.005, "edge-0-0", 1, 0.03, fill=1.5)
    model = SimulationModel(
        traffic=TrafficModel(flows=100, load=0.1), link=LinkModel(buffer_bytes=200_000), faults=(fault,),
        reports_per_second=0, seed=2,
    )  # fmt: skip
    running = run_monitors(
        observe(Simulation(TREE, model), 0.05),
        {"queues": CongestionEvents(150_000), "losses": NetSeer(), "paths": PathTracing()},
        expected=1 << 14,
    )
    queues = running["queues"].monitor.query(running["queues"].store)  # type: ignore[attr-defined]
    losses = running["losses"].monitor.query(running["losses"].store)  # type: ignore[attr-defined]
    for events in (queues, losses):
        assert len(events) > 20
        assert set(events["switch"].tolist()) == {fault.node_id}
        assert set(events["egress_port"].tolist()) == {fault.number}
    assert running["paths"].reports > 1000


@pytest.mark.parametrize("batches", BATCHES)
def test_lossy_flows(batches: int) -> None:
    """Lists of ranges of loss rates as a count packet by packet gives them, in its order."""
    bounds, expected = (0.01, 0.05, 0.2), defaultdict(list)
    packets: Counter[tuple[int, bytes]] = Counter()
    lost: Counter[tuple[int, bytes]] = Counter()
    inside: Counter[tuple[int, bytes]] = Counter()
    for switch, flow, drop_reason in columns(seen(), "switch", "flow", "drop_reason"):
        key = switch, flow
        packets[key] += 1
        lost[key] += drop_reason > 0
        rate = lost[key] / packets[key]
        here = sum(rate >= bound for bound in bounds) if packets[key] >= 10 else 0
        if here not in (0, inside[key]):
            expected[here - 1].append(key[1])
        inside[key] = here
    running = fed(monitor := LossyFlows(bounds, min_packets=10), seen(), batches)
    for number in range(3):
        assert [f.tobytes() for f in monitor.query(running.store, number)] == expected[number]
        assert len(expected[number]) > 5


def flowlets(gap_ns: int) -> Counter[tuple[bytes, int]]:
    """Flow and packets of every flowlet where flows enter, and how often."""
    sizes: dict[bytes, list[int]] = {}
    last: dict[bytes, int] = {}
    for flow, now in columns(seen()[seen()["hop"] == 1], "flow", "time_ns"):
        if flow not in sizes or now - last[flow] > gap_ns:
            sizes.setdefault(flow, []).append(0)
        sizes[flow][-1] += 1
        last[flow] = now
    return Counter((flow, size) for flow, many in sizes.items() for size in many)


@pytest.mark.parametrize("batches", BATCHES)
def test_flowlets(batches: int) -> None:
    """Every flowlet with its packets, in the list of its size; a flow's histogram counts its own."""
    truth = flowlets(500_000)
    running = fed(monitor := FlowletSizes(500_000, lists=5), seen(), batches)
    flows, packets = monitor.query(running.store)
    assert Counter((f.tobytes(), int(n)) for f, n in zip(flows, packets, strict=True)) == truth
    assert max(size for _, size in truth) >= 32
    for flow in flows_of(seen())[::20]:
        expected = [0] * 5
        for (whose, size), times in truth.items():
            if whose == flow.tobytes():
                expected[min(size.bit_length() - 1, 4)] += times
        assert monitor.histogram(running.store, flow.tobytes()).tolist() == expected


def test_flowlets_are_those_that_senders_made() -> None:
    """Pauses much longer than queues part nearly all flows alike at their senders and first switches."""
    gap_ns = 2_000_000
    running = fed(monitor := FlowletSizes(gap_ns), seen())
    flows, packets = monitor.query(running.store)
    told: dict[bytes, list[int]] = defaultdict(list)
    for flow, size in zip(flows, packets, strict=True):
        told[flow.tobytes()].append(int(size))
    truth = lossy().flowlets(gap_ns)
    same = sum(sorted(told[flow]) == sorted(sizes) for flow, sizes in truth.items())
    assert same >= 0.9 * len(truth)


@pytest.mark.parametrize("batches", BATCHES)
def test_netseer(batches: int) -> None:
    """Every lost packet is counted once, with flow, switch, port and reason."""
    truth: Counter[tuple[bytes, int, int, int]] = Counter()
    for o in seen()[seen()["drop_reason"] > 0]:
        key = (o["flow"].tobytes(), int(o["switch"]), int(o["egress_port"]), int(o["drop_reason"]))
        truth[key] += 1
    running = fed(monitor := NetSeer(), seen(), batches)
    told: Counter[tuple[bytes, int, int, int]] = Counter()
    for loss in monitor.query(running.store):
        told[loss["flow"].tobytes(), int(loss["switch"]), int(loss["egress_port"]), int(loss["reason"])] += (
            int(loss["packets"])
        )
    assert told == truth
    assert sum(truth.values()) == lossy().connections["lost"].sum() > 400
    assert {reason for _, _, _, reason in truth} == {71, 200}


def test_netseer_counts_beyond_one_event() -> None:
    """More losses of one flow than an event counts are several events, with none lost."""
    lost = np.repeat(observation(switch=3, egress_port=2, drop_reason=71, hop=1), 600)
    running = fed(monitor := NetSeer(), lost)
    assert monitor.query(running.store)["packets"].tolist() == [255, 255, 90]


@pytest.mark.parametrize("batches", BATCHES)
def test_packetscope(batches: int) -> None:
    """The latest packet of each flow in each switch; every loss with its place in the pipeline."""
    latest = {}
    for switch, flow, *values in columns(seen()[seen()["drop_reason"] == 0], "switch", "flow", *FIELDS):
        latest[switch, flow] = tuple(values)
    running = fed(monitor := Traversal(), seen(), batches)
    switches = np.array([switch for switch, _ in latest])
    flows = np.frombuffer(b"".join(flow for _, flow in latest), np.uint8).reshape(-1, 13)
    told = monitor.query(running.store, switches, flows)
    assert told.found.all()
    assert told.values.tolist() == list(latest.values())
    assert not monitor.query(running.store, switches + 100, flows).found.any()
    running = fed(losses := PipelineLosses(), seen(), batches)
    expected = [
        (
            int(o["switch"]),
            int(o["ingress_port"]),
            int(o["egress_port"]),
            int(o["drop_reason"]),
            int(o["hop"]),
        )
        for o in seen()[seen()["drop_reason"] > 0]
    ]
    found = losses.query(running.store)
    assert [row[:5] for row in found.tolist()] == expected
    lost = seen()["flow"][seen()["drop_reason"] > 0]
    assert (found["flow"] == flow_digest(lost)).all()


CLOSING = PacketQuery(3, "closed connections", lambda seen: np.asarray(seen["flags"] & FIN > 0))


@pytest.mark.parametrize("batches", BATCHES)
def test_sonata(batches: int) -> None:
    """Counts of two queries by switch and window, and the tuples after them."""
    window_ns = 5_000_000
    counts: Counter[tuple[int, int, int]] = Counter()
    tuples = defaultdict(list)
    for o in seen()[seen()["hop"] == 1]:
        flags, flow = int(o["flags"]), o["flow"].tobytes()
        for number, passes in ((0, flags & (SYN | ACK) == SYN), (3, flags & FIN)):
            if passes:
                counts[number, int(o["switch"]), int(o["time_ns"]) // window_ns] += 1
                ports = int.from_bytes(flow[9:11]), int.from_bytes(flow[11:])
                tuples[number].append((int.from_bytes(flow[:4]), int.from_bytes(flow[4:8]), *ports))
    queries = (NEW_CONNECTIONS, CLOSING)
    running = fed(results := SonataResults(queries, window_ns), seen(), batches)
    numbers, switch, window = (np.array(column) for column in zip(*counts, strict=True))
    told = results.query(running.store, numbers, switch, window * window_ns + 17)
    assert told.values.tolist() == list(counts.values())
    assert not results.query(running.store, numbers, switch, (window + 1000) * window_ns).found.any()
    running = fed(sent := SonataTuples(queries), seen(), batches)
    for each in (0, 3):
        assert sent.query(running.store, each).tolist() == tuples[each]
    assert len(tuples[0]) == len(lossy().connections) + counts_of_repeats()


def counts_of_repeats() -> int:
    """SYNs that senders sent again."""
    segments = lossy().segments
    return int((segments["is_retransmission"][segments["flags"] == SYN]).sum())


@pytest.mark.parametrize("batches", BATCHES)
def test_dshark(batches: int) -> None:
    """Groupers put every packet together, each only its own; paths and drops are as they were."""
    running = fed(monitor := DShark(groupers=4), seen(), batches, expected=1 << 16)
    truth, dropped = ways(seen()), set(seen()["packet"][seen()["drop_reason"] > 0].tolist())
    told: dict[int, PacketGroup] = {}
    for number in range(4):
        mine = monitor.query(running.store, number)
        assert not mine.keys() & told.keys()
        assert len(mine) > len(truth) / 8
        told |= mine
    assert told.keys() == set(seen()["packet"].tolist())
    for packet, grouped in told.items():
        assert grouped.whole
        assert grouped.dropped == (packet in dropped)
        assert list(grouped.path[: len(grouped.path) - grouped.dropped]) == truth.get(packet, [])


def test_dshark_sees_what_is_missing() -> None:
    """A packet of which one switch did not answer is not whole."""
    full = seen()[seen()["packet"] == seen()["packet"][seen()["path_length"] == 5][0]]
    running = fed(monitor := DShark(groupers=1), full[full["hop"] != 3])
    (grouped,) = monitor.query(running.store, 0).values()
    assert not grouped.whole
    assert len(grouped.path) == len(full) - 1

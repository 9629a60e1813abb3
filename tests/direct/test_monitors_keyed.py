"""Monitors whose reports are written and asked by key, against what the traffic really did."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from hopscope.direct.monitors.systems.path_tracing import PathTracing
from hopscope.direct.monitors.systems.pint import Pint, digest
from hopscope.direct.monitors.systems.postcards import Postcards
from hopscope.direct.monitors.systems.timeouts import TcpTimeouts
from hopscope.direct.monitors.systems.trajectory import Trajectories
from hopscope.direct.primitives.postcarding import PathVerdict, PostcardingWriter
from hopscope.direct.stores.answers import Status
from hopscope.wire.observation import ACK, SYN
from hopscope.wire.records import Records
from support.events.monitor_traffic import SWITCHES, columns, fed, flows_of, lossy, observation, seen, ways

pytestmark = pytest.mark.kernel
BATCHES = [1, 23]


def paths() -> dict[bytes, list[int]]:
    """Switches on the way of every flow of which a packet has reached its sink."""
    by_packet, found = ways(seen()), {}
    for flow, packet in columns(seen()[seen()["is_sink"] == 1], "flow", "packet"):
        found[flow] = by_packet[packet]
    return found


@pytest.mark.parametrize("batches", BATCHES)
def test_path_tracing(batches: int) -> None:
    """Every flow's path, padded with zeros, wherever batches end; nothing for flows that never were."""
    running = fed(monitor := PathTracing(), seen(), batches)
    flows, truth = flows_of(seen()), paths()
    told = monitor.query(running.store, flows)
    for flow, found, switches in zip(flows, told.found, told.values, strict=True):
        way = truth.get(flow.tobytes())
        assert bool(found) == (way is not None)
        if way is not None:
            assert switches.tolist() == way + [0] * (5 - len(way))
    assert {len(way) for way in truth.values()} == {1, 3, 5}
    assert running.reports == (seen()["is_sink"] == 1).sum()
    assert not monitor.query(running.store, flows ^ np.uint8(255)).found.any()


def test_an_overloaded_store_forgets_and_does_not_lie() -> None:
    """With more flows than slots many answers are missing, and none is wrong: 32 bits guard each."""
    running = fed(monitor := PathTracing(), seen(), expected=4)
    flows, truth = flows_of(seen()), paths()
    told = monitor.query(running.store, flows)
    assert 0 < told.found.sum() < len(truth) / 2
    for flow, switches in zip(flows[told.found], told.values[told.found], strict=True):
        way = truth[flow.tobytes()]
        assert switches.tolist() == way + [0] * (5 - len(way))
    assert not told.values[~told.found].any()


def test_paths_longer_than_a_report_are_cut() -> None:
    """A report of two hops holds the first two switches; hop numbers beyond it, and 0, do no harm."""
    running = fed(monitor := PathTracing(hops=2), seen())
    flows, truth = flows_of(seen()), paths()
    told = monitor.query(running.store, flows)
    assert all(
        switches.tolist() == (truth[flow.tobytes()] + [0, 0])[:2]
        for flow, found, switches in zip(flows, told.found, told.values, strict=True)
        if found
    )
    strange = np.concatenate([observation(packet=1, hop=hop, is_sink=1, switch=9) for hop in (0, 3, 255)])
    told = monitor.query(fed(PathTracing(hops=2), strange).store, strange["flow"])
    assert told.found.all()
    assert not told.values.any()


@pytest.mark.parametrize("batches", BATCHES)
def test_tcp_timeouts(batches: int) -> None:
    """Every flow's timeouts as its sender counted them; a flow without one is not there."""
    running = fed(monitor := TcpTimeouts(), seen(), batches)
    connections = lossy().connections
    told = monitor.query(running.store, connections["flow"])
    assert told.values.tolist() == connections["timeouts"].tolist()
    assert told.found.tolist() == (connections["timeouts"] > 0).tolist()
    assert connections["timeouts"].sum() > 20
    assert connections["timeouts"].max() > 1
    # a repeated SYN is answered again: the other direction has that for a timeout
    segments = lossy().segments
    answers = segments["connection"][segments["flags"] == SYN | ACK]
    again = np.bincount(answers, minlength=len(connections)) - 1
    assert monitor.query(running.store, connections["back_flow"]).values.tolist() == again.tolist()
    assert running.reports == connections["timeouts"].sum() + again.sum()


def test_timeouts_over_the_end_of_sequence_numbers() -> None:
    """Numbers that begin again after 2^32 are not taken for bytes that were sent before."""
    flow = seen()["flow"][0]
    start = (1 << 32) - 3000
    numbers = [0, 1460, 2920, 4380, 2920, 5840]
    times = [0, 1, 20, 21, 60, 61]
    rows = [
        observation(flow=flow, hop=1, payload=1460, sequence=(start + n) % (1 << 32), time_ns=t * 1_000_000)
        for n, t in zip(numbers, times, strict=True)
    ]
    for batches in (1, 5):
        running = fed(monitor := TcpTimeouts(), np.concatenate(rows), batches)
        assert monitor.query(running.store, flow[None]).values.tolist() == [1]


@pytest.mark.parametrize("batches", BATCHES)
def test_pint(batches: int) -> None:
    """Flows with enough packets have their whole path out of single bytes; no path is wrong."""
    running = fed(monitor := Pint(per_hop=2), seen(), batches, expected=1 << 12)
    flows, truth = flows_of(seen()), paths()
    told = monitor.query(running.store, flows, SWITCHES)
    packets = Counter(flow for (flow,) in columns(seen()[seen()["is_sink"] == 1], "flow"))
    for flow, status, switches in zip(flows, told.status, told.values, strict=True):
        if status == Status.FOUND:
            way = truth[flow.tobytes()]
            assert switches.tolist() == way + [0] * (5 - len(way))
        elif status == Status.EMPTY:
            assert packets[flow.tobytes()] < 60
    many = np.array([packets[flow.tobytes()] >= 60 for flow in flows])
    assert many.sum() > 10
    assert told.found[many].mean() > 0.9


def test_pint_reports_indistinguishable_switches() -> None:
    """Two switches whose bytes agree in all copies of a hop: a conflict, no guess."""
    monitor = Pint(hops=1, per_hop=1)
    same = next(v for v in range(2, 5000) if digest([0], v) == digest([0], 1))
    running = fed(monitor, observation(packet=1, hop=1, is_sink=1, switch=1))
    flow = np.zeros((1, 13), np.uint8)
    assert monitor.query(running.store, flow, [1, same]).status.tolist() == [Status.CONFLICT]
    assert monitor.query(running.store, flow, [1]).values.tolist() == [[1]]
    assert monitor.query(running.store, flow, [same + 5000]).found.sum() == 0


def openings() -> Records:
    """One packet a flow: those that open connections."""
    return seen()[seen()["flags"] & SYN > 0]


@pytest.mark.parametrize("batches", BATCHES)
def test_postcards_tell_paths(batches: int) -> None:
    """The path of every flow of which a packet arrived, out of its switches' postcards."""
    running = fed(monitor := Postcards(), openings(), batches)
    flows, truth = flows_of(openings()), paths()
    told = monitor.query(running.store, flows, SWITCHES)
    assert told.found.all()
    for flow, way, length in zip(flows, told.path, told.length, strict=True):
        assert way[:length].tolist() == truth[flow.tobytes()]


def test_postcards_tell_latencies() -> None:
    """The latency of each hop, in steps and up to the longest."""
    running = fed(monitor := Postcards("hop_latency", step_ns=100, steps=64), openings())
    latency: dict[tuple[bytes, int], int] = {}
    for o in openings()[openings()["drop_reason"] == 0]:
        latency[o["flow"].tobytes(), int(o["hop"])] = min(int(o["hop_latency"]) // 100, 63)
    flows = flows_of(openings())
    told = monitor.query(running.store, flows)
    assert told.found.all()
    for flow, way, length in zip(flows, told.path, told.length, strict=True):
        assert way[:length].tolist() == [latency[flow.tobytes(), hop + 1] for hop in range(length)]
    assert len(set(latency.values())) > 10
    assert max(latency.values()) == 63


@pytest.mark.parametrize("rate", [1, 8])
def test_postcards_of_packets_that_mix_are_not_wrong(rate: int) -> None:
    """Flows with many packets in flight: a path is reported right or not at all, and a sample reports
    more.
    """
    running = fed(monitor := Postcards(rate=rate), seen())
    flows, truth = flows_of(seen()), paths()
    told = monitor.query(running.store, flows, SWITCHES)
    for flow, way, length in zip(
        flows[told.found], told.path[told.found], told.length[told.found], strict=True
    ):
        assert way[:length].tolist() == truth[flow.tobytes()]
    assert told.found.mean() > (0.05 if rate == 1 else 0.3)


@pytest.mark.parametrize("batches", BATCHES)
def test_trajectories(batches: int) -> None:
    """Each sampled packet that arrived has its way; a dropped one has the beginning, and is not told."""
    running = fed(monitor := Trajectories(rate=4), seen(), batches, 1 << 16)
    truth = ways(seen())
    arrived = seen()["packet"][(seen()["is_sink"] == 1) & monitor.sampled(seen()["packet"])]
    told = monitor.query(running.store, monitor.labels(arrived), SWITCHES)
    for row in np.flatnonzero(told.found):
        assert told.path[row, : told.length[row]].tolist() == truth[int(arrived[row])]
    # two packets in flight at once may want the same row of the translator's cache: one of them has holes
    assert (told.verdict[~told.found] == PathVerdict.HOLES).all()
    writer = running.translator.writers[0]
    assert isinstance(writer, PostcardingWriter)
    assert (~told.found).sum() <= writer.counters["early"] < 10
    assert 0.2 < len(arrived) / (seen()["is_sink"] == 1).sum() < 0.3
    others = seen()["packet"][~monitor.sampled(seen()["packet"])]
    assert not monitor.query(running.store, monitor.labels(others[:500]), SWITCHES).found.any()


def test_trajectories_count_packets_by_path() -> None:
    """Frequencies over a sample of labels are those of the packets themselves."""
    running = fed(monitor := Trajectories(rate=8), seen(), expected=1 << 16)
    arrived = np.unique(seen()["packet"][(seen()["is_sink"] == 1) & monitor.sampled(seen()["packet"])])
    arrived = arrived[monitor.query(running.store, monitor.labels(arrived), SWITCHES).found]
    truth = ways(seen())
    expected = Counter(tuple(truth[int(packet)]) for packet in arrived)
    found = monitor.query(running.store, monitor.labels(arrived), SWITCHES)
    paths = zip(found.path[found.found].tolist(), found.length[found.found].tolist(), strict=True)
    assert Counter(tuple(path[:length]) for path, length in paths) == expected
    assert len(expected) > 10


def test_a_full_translator_cache_loses_no_truth() -> None:
    """Chunks of more packets than there is room for: what is reported is right, the rest has a reason."""
    running = fed(monitor := Trajectories(rate=1), seen(), expected=32)
    truth = ways(seen())
    arrived = np.unique(seen()["packet"][seen()["is_sink"] == 1])
    told = monitor.query(running.store, monitor.labels(arrived), SWITCHES)
    assert 0 < told.found.sum() < len(arrived) / 2
    for row in np.flatnonzero(told.found):
        assert told.path[row, : told.length[row]].tolist() == truth[int(arrived[row])]
    assert set(told.verdict[~told.found].tolist()) <= {PathVerdict.NO_CHUNK, PathVerdict.HOLES}

"""TCP over the fabric: nothing is lost or made, every byte arrives once, timers go off when they should."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from hopscope.fabric.faults import Fault, make_fault
from hopscope.fabric.queueing import LinkModel
from hopscope.fabric.records import PS, STAGES
from hopscope.fabric.tcp import TcpModel, TcpSimulation
from hopscope.fabric.topology import FabricError, FatTree, LeafSpine
from hopscope.fabric.traffic import SizeDistribution
from hopscope.wire.observation import ACK, SYN

pytestmark = pytest.mark.kernel
TREE, LEAVES = FatTree(4), LeafSpine(2, 1, 1)
SHALLOW = LinkModel(buffer_bytes=60_000)
FAULT = make_fault(TREE, "lossy-port", 0.0, "agg-1-0", 1, 10.0, loss=0.03)
MODEL = TcpModel(connections=60, max_bytes=200_000)
ONE = TcpModel(connections=1, sizes=SizeDistribution("fixed", (292_000, 292_001), (0, 1)))


def lossy(seed: int = 3, connections: int = 60) -> TcpSimulation:
    model = replace(MODEL, connections=connections)
    simulation = TcpSimulation(TREE, model, SHALLOW, (FAULT,), seed)
    simulation.run()
    return simulation


def test_every_packet_arrives_or_is_dropped() -> None:
    """Packets sent are packets arrived and packets dropped, by connection too; losses came of both kinds."""
    simulation = lossy()
    packets, segments, connections = simulation.packets, simulation.segments, simulation.connections
    assert simulation.idle
    assert ((segments["arrived"] > 0) != (packets["drop_reason"] > 0)).all()
    assert set(packets["drop_reason"]) == {0, 71, 200}
    lost = np.bincount(segments["connection"][packets["drop_reason"] > 0], minlength=len(connections))
    assert (lost == connections["lost"]).all()
    assert (connections["sent"].sum() + connections["acknowledgments"].sum()) == len(packets)
    assert len(set(packets["number"].tolist())) == len(packets)
    assert simulation.ports["dropped"].sum() == lost.sum()


def test_every_byte_is_delivered_once_and_in_order() -> None:
    """A receiver that is put together from the arrivals gets each stream whole; so said the simulation."""
    simulation = lossy()
    for row, connection in enumerate(simulation.connections):
        mine = simulation.segments[(simulation.segments["connection"] == row)]
        arrived = mine[(mine["is_ack"] == 0) & (mine["arrived"] > 0)]
        covered = np.zeros(int(connection["bytes"]), np.uint8)
        for segment in arrived:
            at = (int(segment["sequence"]) - int(connection["sequence"]) - 1) % (1 << 32)
            if segment["payload"]:
                covered[at : at + int(segment["payload"])] = 1
        assert covered.all()
        assert connection["delivered"] == connection["bytes"] == len(covered)
        assert connection["finished"] == mine["arrived"][mine["is_ack"] == 1].max() or connection["lost"]
        sent = mine[mine["is_ack"] == 0]
        assert len(sent) - connection["retransmissions"] == len(np.unique(sent["segment"]))
        assert connection["retransmissions"] == sent["is_retransmission"].sum()


def test_acknowledgments_say_what_is_expected() -> None:
    """Every acknowledgment says the first byte that had not arrived when it was sent, by brute force."""
    simulation = lossy()
    connection = simulation.connections[0]
    mine = simulation.segments[simulation.segments["connection"] == 0]
    data = mine[(mine["is_ack"] == 0) & (mine["arrived"] > 0)]
    for answer in mine[mine["is_ack"] == 1]:
        here = set(data["segment"][data["arrived"] <= answer["sent"]].tolist())
        expected = next(n for n in range(int(connection["segments"]) + 3) if n not in here)
        before = 1 + min((expected - 1) * int(connection["mss"]), int(connection["bytes"]))
        before += expected == connection["segments"] + 2
        assert answer["segment"] == expected
        assert answer["flags"] in (ACK, ACK | SYN)
        assert int(answer["acknowledgment"]) == (int(connection["sequence"]) + before) % (1 << 32)


def test_only_a_syn_is_answered_with_a_syn() -> None:
    """Each SYN that arrived has one answer that is a SYN too; no other packet is one."""
    segments = lossy().segments
    openings = (segments["segment"] == 0) & (segments["is_ack"] == 0)
    assert (segments["flags"][openings] == SYN).all()
    answered = segments["sent"][segments["flags"] == SYN | ACK]
    arrived = segments["arrived"][openings & (segments["arrived"] > 0)]
    assert sorted(answered) == sorted(arrived)


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Twice, and cut into pieces, the run is the same; another seed's is another."""
    one, other, pieces = lossy(), lossy(4), TcpSimulation(TREE, MODEL, SHALLOW, (FAULT,), 3)
    for number in range(1, 40):
        pieces.run(number * 0.003)
    pieces.run()
    for simulation in (lossy(), pieces):
        assert one.segments.tobytes() == simulation.segments.tobytes()
        assert one.connections.tobytes() == simulation.connections.tobytes()
        assert one.observations().tobytes() == simulation.observations().tobytes()
    assert one.segments.tobytes() != other.segments.tobytes()


def test_without_losses_nothing_is_sent_twice() -> None:
    """Queues that hold everything: no loss, no retransmission, no timeout, and the windows had grown."""
    simulation = TcpSimulation(TREE, replace(MODEL, window=32), LinkModel(buffer_bytes=50_000_000), seed=3)
    simulation.run()
    for name in ("lost", "retransmissions", "fast_retransmits", "timeouts"):
        assert not simulation.connections[name].any(), name
    assert (simulation.connections["cwnd"] == 32).any()


def test_timers_go_off_when_nothing_came_for_their_time() -> None:
    """Each timeout is one RTO after the last thing that starts the timer: an acknowledgment of something
    new, an earlier timeout, or the first segment after everything had been acknowledged.
    """
    simulation = lossy(connections=300)
    assert len(simulation.timeouts) == simulation.connections["timeouts"].sum() > 20
    for row in np.unique(simulation.timeouts["connection"]):
        mine = simulation.segments[simulation.segments["connection"] == row]
        answers = mine[(mine["is_ack"] == 1) & (mine["arrived"] > 0)]
        answers = answers[np.argsort(answers["arrived"], kind="stable")]
        highest = np.maximum.accumulate(np.concatenate([[0], answers["segment"]]))
        starts = answers["arrived"][answers["segment"] > highest[:-1]].tolist()
        starts.append(int(mine["sent"][(mine["is_ack"] == 0) & (mine["segment"] == 0)].min()))
        sent = mine[mine["is_ack"] == 0]
        new = sent[np.unique(sent["segment"], return_index=True)[1]]
        for segment in new:  # sent when all before it had been acknowledged
            ready = answers["arrived"][answers["segment"] >= segment["segment"]]
            if len(ready) and ready.min() <= segment["sent"]:
                starts.append(int(segment["sent"]))
        timeouts = simulation.timeouts[simulation.timeouts["connection"] == row]
        starts += timeouts["time"].tolist()
        for timeout in timeouts:
            last = max(start for start in starts if start < timeout["time"])
            assert timeout["time"] - timeout["rto"] == last
            again = sent[(sent["sent"] == timeout["time"]) & (sent["is_retransmission"] == 1)]
            assert again["segment"].tolist()[:1] == [timeout["segment"]]


def passes(simulation: TcpSimulation, segment: int) -> float:
    """When a segment of the only connection reaches the port to its host, s."""
    rows = (simulation.segments["segment"] == segment) & (simulation.segments["is_ack"] == 0)
    row = int(np.flatnonzero(rows)[0])
    traces = simulation._blocks.traces.reshape(-1, STAGES)
    return float(traces[row, STAGES - 1]["ingress"]) / PS


def outage(start: float, duration: float) -> tuple[Fault, ...]:
    both = [make_fault(LEAVES, "lossy-port", start, f"leaf-{n}", 1, duration, loss=1.0) for n in (0, 1)]
    return tuple(both)


@pytest.mark.parametrize(
    ("segment", "fast", "timeouts"), [(100, 1, 0), (201, 0, 1), (200, 0, 1), (0, 0, 1), (1, 1, 0)]
)
def test_one_loss_is_repaired_as_it_should(segment: int, fast: int, timeouts: int) -> None:
    """A hole with packets after it takes a fast retransmit and no timeout; the SYN, the last segments and
    the FIN, after which too little comes, take a timeout.
    """
    clean = TcpSimulation(LEAVES, ONE)
    clean.run()
    assert clean.connections["segments"][0] == 200
    assert not clean.connections["lost"][0]
    at = passes(clean, segment)
    simulation = TcpSimulation(LEAVES, ONE, faults=outage(at - 1e-10, 2e-10))
    simulation.run()
    found = simulation.connections[0]
    assert found["lost"] == 1
    assert (found["fast_retransmits"], found["timeouts"]) == (fast, timeouts)
    assert found["retransmissions"] == 1
    assert found["delivered"] == found["bytes"]


def test_the_timer_backs_off() -> None:
    """While nothing passes, each timeout waits twice as long as the one before, and ends at the limit."""
    clean = TcpSimulation(LEAVES, ONE)
    clean.run()
    model = replace(ONE, max_rto_s=0.1)
    simulation = TcpSimulation(LEAVES, model, faults=outage(passes(clean, 100), 0.5))
    simulation.run()
    waited = simulation.timeouts["rto"].tolist()
    assert len(waited) >= 6
    assert all(b == min(2 * a, round(0.1 * PS)) for a, b in pairwise(waited))
    assert simulation.connections["delivered"][0] == simulation.connections["bytes"][0]


def test_a_late_packet_may_cost_a_needless_timeout() -> None:
    """A hop that becomes slower than the timer: segments are sent again although none was lost."""
    clean = TcpSimulation(LEAVES, ONE)
    clean.run()
    slow = make_fault(LEAVES, "slow-hop", passes(clean, 100), "leaf-0", 1, 5.0, delay_ns=60_000_000)
    both = (slow, make_fault(LEAVES, "slow-hop", slow.start, "leaf-1", 1, 5.0, delay_ns=60_000_000))
    simulation = TcpSimulation(LEAVES, ONE, faults=both)
    simulation.run()
    found = simulation.connections[0]
    assert not found["lost"]
    assert found["timeouts"] > 0
    assert found["delivered"] == found["bytes"]


def test_observations_hold_every_packet() -> None:
    """A packet that arrived is seen by all switches of its way, one that was dropped until its drop."""
    simulation = lossy()
    seen = simulation.observations()
    arrived = np.flatnonzero(simulation.segments["arrived"] > 0)
    assert (seen["is_sink"] == 1).sum() == len(arrived)
    assert (seen["drop_reason"] > 0).sum() == (simulation.packets["drop_reason"] > 0).sum()
    used = (simulation.paths[simulation.packets["route"][arrived], 1:] >= 0).sum()
    lost = np.isin(seen["packet"], seen["packet"][seen["drop_reason"] > 0])
    assert (~lost).sum() == used
    first = seen[seen["hop"] == 1]
    order = np.argsort(first["packet"])
    by_number = np.argsort(simulation.packets["number"])
    for name in ("sequence", "acknowledgment", "flags", "payload"):
        assert (first[name][order] == simulation.segments[name][by_number]).all(), name
    assert (np.diff(seen["time_ns"]) >= 0).all()


def test_bursts_make_flowlets() -> None:
    """An application that writes and pauses makes one flowlet a burst, where a burst fits the window."""
    model = replace(ONE, burst_bytes=10 * 1460, pause_s=0.05, initial_window=128, min_rto_s=0.5)
    simulation = TcpSimulation(LEAVES, model)
    simulation.run()
    sizes = simulation.flowlets(1_000_000)[simulation.connections["flow"][0].tobytes()]
    assert sizes[0] == 11  # with the SYN
    assert sum(sizes) == 202
    assert len(sizes) >= 18
    assert all(size % 10 == 0 for size in sizes[1:-1])


def test_impossible_values_are_rejected() -> None:
    """Other faults, and windows that are none."""
    with pytest.raises(FabricError, match="lossy or slow"):
        TcpSimulation(TREE, faults=(make_fault(TREE, "microburst", 0, "agg-1-0", 1),))
    with pytest.raises(FabricError, match="window of 0"):
        TcpSimulation(TREE, TcpModel(window=0))

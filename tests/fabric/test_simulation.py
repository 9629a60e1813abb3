"""The simulation as a whole: determinism, sequence numbers, and that its bytes say what happened."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.postcards.joiner import Joiner
from hopscope.fabric.faults import make_fault
from hopscope.fabric.instructions import INSTRUCTIONS, fields_of
from hopscope.fabric.queueing import Departures
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import MODES, ReportModel, Switches
from hopscope.fabric.topology import FabricError, FatTree, LeafSpine
from hopscope.fabric.traffic import TrafficModel
from hopscope.settings.postcards import PostcardSettings
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.records import Carried, Flag, Kind, Link, ReportBatch
from hopscope.wire.versions import REPORT_VERSIONS

TREE = FatTree(4)
FAULT = make_fault(TREE, "lossy-port", 0.01, "agg-1-0", 1, 0.1, loss=0.05)
MODEL = SimulationModel(traffic=TrafficModel(flows=200), faults=(FAULT,), reports_per_second=8000, seed=6)
pytestmark = pytest.mark.kernel


POSITIONS = ("packet", "time_ns", "int_at", "own_at", "carrier", "npt", "ttl", "packet_id")
"""Columns of REPORT that say where something is in a file or a frame, and what the encoder chose."""


def model_of(version: str, **more: Any) -> SimulationModel:
    return replace(MODEL, report=ReportModel(version=version, **more))


def assert_same(decoded: ReportBatch, truth: ReportBatch) -> None:
    """All that a report says is what happened; `packet` counts from each file's start."""
    assert len(decoded) == len(truth)
    for name in decoded.reports.dtype.names or ():
        if name not in POSITIONS:
            assert np.array_equal(decoded.reports[name], truth.reports[name]), name
    for name in decoded.hops.dtype.names or ():
        assert np.array_equal(decoded.hops[name], truth.hops[name]), name


@pytest.mark.parametrize("link", [Link.UDP_PAYLOAD, Link.ETHERNET])
@pytest.mark.parametrize(
    ("version", "group", "mode"),
    [
        ("0.5", 1, "md"),
        ("1.0", 1, "md"),
        ("2.0", 1, "md"),
        ("2.0", 4, "md"),
        ("2.0", 1, "mx"),
        ("2.0", 4, "xd"),
    ],
)
def test_frames_decode_to_the_truth(version: str, group: int, mode: str, link: Link) -> None:
    """Frames of every version and mode, read by the scalar codecs, give what the queues had, and drops."""
    simulation = Simulation(TREE, model_of(version, group=group, mode=mode))
    truth = simulation.step(0.08)
    decoded = decode_plain(simulation.frames(truth, link))
    assert not decoded.reports["reason"].any()
    assert_same(decoded, truth)
    kinds = set(truth.reports["kind"])
    assert kinds == {Kind.INT, Kind.DROP}
    assert set(truth.reports["flags"][truth.reports["kind"] == Kind.DROP]) == {Flag.DROPPED}
    assert truth.hops["hop_latency"].max() > 800
    if group > 1:
        assert truth.reports["index"].max() == group - 1


@pytest.mark.parametrize("mode", ["mx", "xd"])
def test_grouped_postcards_join_in_path_order(mode: str) -> None:
    """Groups of reports arrive out of order; the TTL of each postcard's packet still tells its hop."""
    simulation = Simulation(TREE, model_of("2.0", group=8, mode=mode))
    decoded = decode_plain(simulation.frames(simulation.step(0.08), Link.ETHERNET))
    joiner = Joiner(PostcardSettings(window_ms=1000.0))
    several = 0
    for part in [*joiner.update(decoded), *joiner.flush()]:
        for row in part.reports[part.reports["flags"] & Flag.JOINED > 0]:
            hops = part.hops[row["first_hop"] : row["first_hop"] + row["hop_count"]]
            several += len(hops) > 1
            assert (np.diff(hops["ingress_time"].astype(np.int64)) > 0).all()
    assert several > 100


def test_the_last_window_may_be_shorter() -> None:
    """A run ends at its time, not at the window before or after it."""
    for seconds, windows in ((0.01, 1), (0.04, 2), (0.05, 3)):
        simulation = Simulation(TREE, SimulationModel())
        assert len(list(simulation.run(seconds, 0.02))) == windows
        assert simulation.now == seconds


def test_a_capture_decodes_to_the_truth(tmp_path: Path) -> None:
    """The same through a file, with times."""
    from hopscope.capture.pcap.reader import PcapWriter, read

    simulation = Simulation(TREE, MODEL)
    file = tmp_path / "fabric.pcap"
    truths = []
    with PcapWriter(file) as writer:
        for reports in simulation.run(0.06, 0.02):
            truths.append(reports)
            writer.write(simulation.frames(reports, Link.ETHERNET))
    at = 0
    (frames,) = read(file)
    decoded = decode_plain(frames)
    for truth in truths:
        part = decoded.reports[at : at + len(truth)]
        assert np.array_equal(part["time_ns"], truth.reports["time_ns"])
        assert np.array_equal(part["sequence"], truth.reports["sequence"])
        at += len(truth)
    assert at == len(decoded)
    assert np.array_equal(
        decoded.hops["hop_latency"], np.concatenate([t.hops["hop_latency"] for t in truths])
    )


@pytest.mark.parametrize("mode", MODES)
def test_same_seed_same_bytes(mode: str) -> None:
    """Two runs give equal bytes; another seed gives others."""
    runs = []
    for seed in (1, 1, 2):
        simulation = Simulation(TREE, replace(model_of("2.0", mode=mode), seed=seed))
        runs.append(b"".join(simulation.frames(r).arena.tobytes() for r in simulation.run(0.05)))
    assert runs[0] == runs[1] != runs[2]
    assert len(runs[0]) > 10_000


@pytest.mark.parametrize(("version", "group"), [("0.5", 1), ("2.0", 1), ("2.0", 3)])
def test_sequence_numbers_are_gapless(version: str, group: int) -> None:
    """Each (node, hw id), in 0.5 (source, hw id), counts its datagrams from 0 without a gap."""
    simulation = Simulation(TREE, model_of(version, group=group))
    rows = np.concatenate([batch.reports for batch in simulation.run(0.1)])
    for source in np.unique(rows["source_lo"]):
        for unit in (0, 1):
            own = rows[(rows["source_lo"] == source) & (rows["hw_id"] == unit) & (rows["index"] == 0)]
            assert np.array_equal(own["sequence"], np.arange(len(own)))
    if version != "0.5":
        assert len(np.unique(rows[["source_lo", "node_id"]])) == len(np.unique(rows["source_lo"]))


@pytest.mark.parametrize("mode", MODES)
def test_postcards_are_the_path(mode: str) -> None:
    """The postcards of a packet, in order of time, are the hops that INT-MD has of it; packets are
    distinguished by their IP identification.
    """
    model = replace(model_of("2.0", mode=mode), faults=())
    (path,) = Simulation(TREE, replace(model, report=ReportModel())).run(0.05, 0.05)
    (cards,) = Simulation(TREE, model).run(0.05, 0.05)
    assert len(cards.hops) == len(path.hops) > len(path) > 100
    assert len(cards) == (len(path) if mode == "md" else len(path.hops))
    for name in ("node_id", "ingress_time", "egress_time", "queue_occupancy", "egress_port"):
        assert np.array_equal(np.sort(cards.hops[name]), np.sort(path.hops[name])), name
    if mode == "md":
        return
    rows = cards.reports
    assert (rows["hop_count"] == 0).all()
    assert (rows["carried"] & Carried.OWN_HOP > 0).all()
    keys = ["src_lo", "dst_lo", "sport", "dport", "proto", "packet_id"]
    nodes = [path.hops["node_id"][r["first_hop"] : r["first_hop"] + r["hop_count"]] for r in path.reports]
    packets: dict[Any, list[int]] = {}
    for row in rows:
        packets.setdefault(row[keys].item(), []).append(int(cards.hops["node_id"][row["first_hop"]]))
    assert sorted(packets.values()) == sorted(map(list, nodes))


@pytest.mark.parametrize("mode", MODES)
def test_reports_come_in_order_of_time(mode: str) -> None:
    """Also over windows: what leaves a sink later is reported later."""
    simulation = Simulation(TREE, model_of("2.0", mode=mode))
    times = np.concatenate([batch.reports["time_ns"] for batch in simulation.run(0.1, 0.005)])
    assert np.all(np.diff(times) >= 0)


def test_the_truth_adds_up() -> None:
    """Sent is delivered, dropped or in flight; every drop is a report; the rate is as asked for."""
    simulation = Simulation(TREE, replace(MODEL, report=ReportModel(drops_per_switch=0)))
    reports = sum(len(batch) for batch in simulation.run(0.5))
    truth = simulation.truth
    assert truth.emitted == truth.delivered + truth.dropped + truth.in_flight
    assert truth.drop_reports == truth.dropped > 0
    assert truth.reports == reports
    assert reports - truth.drop_reports == pytest.approx(4000, rel=0.15)


def test_paths_and_ports_of_hops() -> None:
    """Each hop's ports lead from the hop before to the hop after."""
    simulation = Simulation(TREE, replace(MODEL, faults=()))
    batch = simulation.step(0.05)
    ports = TREE.ports
    for report in batch.reports[:200]:
        hops = batch.hops[report["first_hop"] : report["first_hop"] + report["hop_count"]]
        for here, there in pairwise(hops):
            row = TREE.port_row(int(here["node_id"]), int(here["egress_port"]))
            assert ports["peer_switch"][row] == there["node_id"] - 1
            assert ports["peer_number"][row] == there["ingress_port"]
        assert report["node_id"] == hops[-1]["node_id"]
        assert np.all(hops["egress_time"] - hops["ingress_time"] == hops["hop_latency"])
        assert np.all(np.diff(hops["ingress_time"].astype(np.int64)) > 0)
        assert np.array_equal(hops["queue_id"], hops["egress_port"])


def test_buffers_hold_their_queues() -> None:
    """A buffer's occupancy is at least that of the packet's queue, less a cell for rounding."""
    batch = Simulation(TREE, replace(MODEL, faults=())).step(0.2)
    hops = batch.hops
    assert np.all(hops["buffer_occupancy"].astype(int) >= hops["queue_occupancy"].astype(int) - 1)
    assert np.any(hops["buffer_occupancy"] > hops["queue_occupancy"] + 1)


@pytest.mark.parametrize("version", REPORT_VERSIONS)
def test_instructions_decide_what_is_written(version: str) -> None:
    """With a short instruction bitmap only its fields are in the hops; frames decode to the truth."""
    report = ReportModel(version=version, instructions=0xA000)
    simulation = Simulation(TREE, replace(MODEL, report=report))
    truth = simulation.step(0.05)
    assert fields_of(REPORT_VERSIONS[version], 0xA000)[1] == 2
    assert_same(decode_plain(simulation.frames(truth)), truth)
    assert not truth.hops["queue_occupancy"].any()


def test_limits_hold_reports_back() -> None:
    """A sink sends at most its limit, and what it held back is counted."""
    model = replace(MODEL, faults=(), reports_per_second=20_000, report=ReportModel(reports_per_switch=500))
    simulation = Simulation(TREE, model)
    rows = np.concatenate([batch.reports for batch in simulation.run(0.5)])
    assert np.bincount(rows["node_id"]).max() <= 250 + 50
    assert simulation.truth.suppressed > 4000
    assert simulation.truth.reports == len(rows)


def test_leaf_spine_reports() -> None:
    """Leaf-spine paths have one hop or three."""
    batch = Simulation(LeafSpine(4, 2), replace(MODEL, faults=())).step(0.05)
    assert set(batch.reports["hop_count"]) == {1, 3}


def test_windows_join() -> None:
    """One long step gives the reports of many short ones, faults in between included."""
    simulation = Simulation(TREE, MODEL)
    short = [simulation.step(at) for at in (0.01, 0.05, 0.11, 0.13)]
    whole = Simulation(TREE, MODEL).step(0.13)
    for name in ("node_id", "hw_id", "sport", "hop_count", "drop_reason", "time_ns"):
        assert np.array_equal(np.concatenate([b.reports[name] for b in short]), whole.reports[name]), name
    with pytest.raises(ValueError, match="already"):
        simulation.step(0.1)


def test_all_instructions_are_known() -> None:
    """All fields of a version fill the hop that its INT header announces; unknown bits are rejected."""
    assert [fields_of(v, i)[1] for v, i in INSTRUCTIONS.items()] == [8, 9, 12]
    with pytest.raises(FabricError, match="0x0001"):
        fields_of(20, 0x0001)
    with pytest.raises(FabricError, match="0x0000"):
        fields_of(20, 0)


def test_impossible_reports() -> None:
    """Unknown versions, and groups where a version has none, are rejected."""
    with pytest.raises(FabricError, match="report version"):
        Simulation(TREE, model_of("3.0"))
    with pytest.raises(FabricError, match="mode 'ioam'"):
        Simulation(TREE, model_of("2.0", mode="ioam"))
    with pytest.raises(FabricError, match=r"takes Report 2\.0"):
        Simulation(TREE, model_of("1.0", mode="mx"))
    with pytest.raises(FabricError, match=r"only Report 2\.0"):
        Simulation(TREE, model_of("1.0", group=2))


def test_empty_windows() -> None:
    """A window without any report gives an empty batch and no frames."""
    simulation = Simulation(TREE, replace(MODEL, reports_per_second=1, faults=()))
    batch = simulation.step(1e-6)
    assert len(batch) == 0
    assert len(simulation.frames(batch)) == 0
    switches = Switches(TREE, simulation.network.ports, ReportModel())
    network, paths = simulation.network, simulation.traffic.paths
    empty = Departures(network._packets[:0], paths[:0], network._traces[:0])
    assert len(switches.report(empty, simulation.traffic.table, 1)) == 0

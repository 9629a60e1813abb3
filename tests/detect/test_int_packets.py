"""The benches' workload of INT packets: what it says of its packets is what others read in them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hopscope.capture.pcap.writer import PcapWriter
from hopscope.wire.decode.plain import PlainDecoder
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import Carrier
from support.packets.int_packets import BITMAPS, HIGHEST, IntPackets, Workload, keys, nodes, popularity

pytestmark = pytest.mark.kernel


@pytest.mark.parametrize(("hops", "instructions"), [(1, 1), (3, 2), (5, 4), (8, 3)])
def test_decoded_packets_are_the_truth(hops: int, instructions: int) -> None:
    """The decoder finds the flow, path and values that the generator states, over UDP and inserted UDP."""
    workload = Workload(hops, instructions, flows=3000, tcp=0.5, seed=7)
    packets = IntPackets(workload, 1000, batch=400)
    packets.fill(123_456)
    decoder, start = PlainDecoder(replace(DEFAULT, packets=True)), 0
    for frames in packets.batches():
        batch = decoder.decode(frames)
        reports, here = batch.reports, slice(start, start + len(frames))
        assert len(reports) == len(frames)
        assert not reports["reason"].any()
        for name, expected in keys(workload, packets.flow[here]).items():
            assert (reports[name] == expected).all(), name
        inserted = np.where(reports["proto"] == 6, Carrier.UDP_INSERTED, Carrier.UDP)
        assert (reports["carrier"] == inserted).all()
        assert (reports["instructions"] == BITMAPS[instructions]).all()
        assert (reports["hop_count"] == hops).all()
        assert (reports["time_ns"] == packets.times_ns[here]).all()
        stack = batch.hops.reshape(len(reports), hops)
        assert (stack["node_id"] == nodes(workload, packets.flow[here])).all()
        values = packets.values[here]
        for measure, name in enumerate(("hop_latency", "queue_occupancy", "tx_utilization")):
            assert (stack[name] == values[:, :, measure]).all(), name
            assert (values[:, :, measure] > 0).any() == (measure + 1 < instructions), name
        start += len(frames)


def test_flows_and_values_are_distributed_as_stated() -> None:
    """Shares of the most popular flows are the Zipf law's, values exponential; a number gives one packet."""
    for skew in (1.0, 1.3, 0.0):
        workload = Workload(flows=1000, skew=skew)
        packets = IntPackets(workload, 60_000)
        packets.fill(0)
        shares = np.bincount(packets.flow, minlength=1000) / 60_000
        expected = popularity(workload)
        assert np.abs(shares - expected).max() < 5 * np.sqrt(expected.max() / 60_000)
        assert len(shares) == 1000
    for measure, highest in enumerate(HIGHEST):
        values = packets.values[:, :, measure]
        assert values.max() <= highest
        assert values.max() > 0.9 * highest
        assert abs((values > highest / 6).mean() - np.exp(-1)) < 0.02
    again = IntPackets(workload, 10)
    again.fill(59_990)
    assert (again.values == packets.values[-10:]).all()
    assert (again.arena == packets.arena[-len(again.arena) :]).all()


def test_checksums_hold(tool: Callable[..., str], tmp_path: Path) -> None:
    """tshark finds IPv4 and UDP headers whose lengths and checksums are right."""
    packets = IntPackets(Workload(tcp=0.5), 50)
    packets.fill(0)
    path = tmp_path / "int.pcap"
    with PcapWriter(path) as writer:
        for frames in packets.batches():
            writer.write(frames)
    command = [tool("tshark"), "-n", "-r", str(path), "-T", "json", "-o", "ip.check_checksum:TRUE"]
    command += ["-o", "udp.check_checksum:TRUE"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [one["_source"]["layers"] for one in json.loads(text)]
    assert len(found) == 50
    for layers in found:
        assert layers["ip"]["ip.checksum.status"] == "1"
        assert layers["udp"]["udp.checksum.status"] == "1"
        assert layers["udp"]["udp.dstport"] == str(0x1000)

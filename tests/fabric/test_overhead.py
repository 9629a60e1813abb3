"""Sizes of INT by hand from the specifications, and against the packets and reports of a simulated fabric."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from hopscope.fabric.overhead import IntDemand, plan_int
from hopscope.fabric.packets import int_packets
from hopscope.fabric.ports import FabricError
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import LeafSpine
from hopscope.fabric.traffic import TrafficModel
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.records import ReportBatch

UDP = 17
CRC_PREAMBLE_GAP = 4 + 8 + 12
FOUR = ("node_id", "ports", "hop_latency", "queue_occupancy")


def simulated(version: str, mode: str) -> Iterator[ReportBatch]:
    """Reports of a fabric with paths of one and three switches, window by window."""
    model = SimulationModel(
        traffic=TrafficModel(flows=50),
        report=ReportModel(version=version, mode=mode),
        reports_per_second=2000,
    )
    return Simulation(LeafSpine(2, 2), model).run(0.2)


@pytest.mark.kernel
@pytest.mark.parametrize(
    ("version", "mode"), [("0.5", "md"), ("1.0", "md"), ("2.0", "md"), ("2.0", "mx"), ("2.0", "xd")]
)
def test_a_report_is_as_long_as_planned(version: str, mode: str) -> None:
    """Frames of simulated reports about UDP packets, for each number of hops."""
    demand = IntDemand(mode=mode, version=version)
    seen = set()
    for batch in simulated(version, mode):
        lengths = encode_reports(batch).frames["wire_length"].tolist()
        for row, length in zip(batch.reports, lengths, strict=True):
            if row["proto"] == UDP:
                hops = int(row["hop_count"]) if mode == "md" else 1
                seen.add(hops)
                assert length + CRC_PREAMBLE_GAP == plan_int(replace(demand, hops=hops)).report_bytes
    assert seen == ({1, 3} if mode == "md" else {1})


@pytest.mark.kernel
@pytest.mark.parametrize("version", ["0.5", "1.0", "2.0"])
def test_a_packet_grows_as_planned(version: str) -> None:
    """The length in the INT shim of packets at the sink, in words: 2.x leaves the shim itself out."""
    links = plan_int(IntDemand(version=version, hops=3)).links
    seen = set()
    for batch in simulated(version, "md"):
        made = int_packets(batch)
        for row, offset in zip(batch.reports, made.frames["offset"].tolist(), strict=True):
            shim = offset + 14 + 20 + (8 if row["proto"] == UDP else 20)
            words = made.arena[shim + 1] + 1 if version == "2.0" else made.arena[shim + 2]
            seen.add(int(row["hop_count"]))
            assert 4 * int(words) == links[row["hop_count"] - 1].inserted
    assert seen == {1, 3}


def test_int_md_by_hand() -> None:
    """INT 2.1: a shim of 4 bytes, a header of 12, and 4 words per hop; Ethernet adds 38 bytes to a packet."""
    plan = plan_int(IntDemand(fields=FOUR, hops=3, packets=1000, size=462, sample=10, reported=0.5))
    assert plan.instructions == 0xF000
    assert [link.inserted for link in plan.links] == [32, 48, 64]
    assert [link.traffic for link in plan.links] == pytest.approx([0.0064, 0.0096, 0.0128])
    assert [link.largest for link in plan.links] == [1468, 1452, 1436]
    assert plan.growth == pytest.approx(0.0096)
    assert plan.reports == 50
    # Ethernet 38, IPv4 20, UDP 8; group 8, report 4, main contents 8; 42 + 64 of the packet, padded to 108
    assert plan.report_bytes == 38 + 28 + 20 + 108
    assert plan.report_bits == 50 * 194 * 8


def test_every_switch_of_a_path_reports_in_mx_and_xd() -> None:
    """Packets with MX keep their length after the source, those with XD are unchanged."""
    mx = plan_int(IntDemand(mode="mx", fields=FOUR, hops=4, packets=100))
    xd = plan_int(IntDemand(mode="xd", fields=FOUR, hops=4, packets=100))
    assert [link.inserted for link in mx.links] == [16] * 4
    assert [link.inserted for link in xd.links] == [0] * 4
    assert mx.reports == xd.reports == 400
    assert mx.report_hops == 1
    # the switch is in the group header: 3 words of values
    assert xd.report_bytes == 38 + 28 + 20 + 12 + 44
    assert mx.report_bytes == 38 + 28 + 20 + 12 + 60


def test_reports_of_a_group_share_its_headers() -> None:
    """Outer headers and the group header, 74 bytes, are divided by the reports of a datagram."""
    one, four = (plan_int(IntDemand(group=group)).report_bytes for group in (1, 4))
    assert one - four == 74 * 3 / 4


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"fields": ("latency",)}, "field 'latency': expected node_id, "),
        ({"version": "1.0", "fields": ("buffer_occupancy",)}, "field 'buffer_occupancy': expected"),
        ({"mode": "mc"}, "mode 'mc': expected md, mx, xd"),
        ({"version": "3"}, "report version '3'"),
        ({"version": "1.0", "mode": "xd"}, "mode xd takes Report 2.0"),
        ({"version": "0.5", "group": 2}, "only Report 2.0"),
        ({"hops": 65}, "hops: found 65, expected 1 to 64"),
        ({"size": float("nan")}, "size: found nan"),
        ({"size": 9000}, "size: found 9000, but mtu is 1500"),
        ({"size": 100, "copied": 115}, "copied: found 115, more than Ethernet and an IP packet of 100 B"),
        ({"group": 2, "copied": 760}, "group: found 2, but a report of 1024 B is the last of its datagram"),
    ],
)
def test_wrong_values_are_named(wrong: dict[str, Any], text: str) -> None:
    """With the values that are possible."""
    with pytest.raises(FabricError) as raised:
        plan_int(replace(IntDemand(), **wrong))
    assert text in str(raised.value)


@pytest.mark.parametrize(("version", "most"), [("0.5", 31), ("1.0", 28), ("2.0", 21)])
def test_a_path_is_as_long_as_the_length_field_of_int_allows(version: str, most: int) -> None:
    """255 words: in INT 2.x of header and stack, before with the shim, and the tail of 0.5."""
    assert plan_int(IntDemand(version=version, hops=most)).links[-1].hop == most
    with pytest.raises(FabricError, match=f"hops: found {most + 1} .* allows {most}"):
        plan_int(IntDemand(version=version, hops=most + 1))

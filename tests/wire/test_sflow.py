"""sFlow 5: datagrams by hand, what becomes of them, damage, and tshark as the second reader."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from hopscope.wire.address import number_of
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import Carried, Flag, Have, Kind, Link, ReportBatch
from hopscope.wire.sflow.decoder import SflowDecoder
from support.packets import sflow_make as make
from support.packets.by_hand import ethernet, ipv4, ipv6, tcp, udp
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel
UDP_PACKET = ethernet(ipv4(udp(bytes(40))))
NODE = 0xC0000207
SECOND = 10**9
PORTS = "00000fa0 00000035 00000000 00000000"
"""4000, 53, no flags, no class of service."""


@pytest.fixture(scope="module")
def decoder() -> SflowDecoder:
    return SflowDecoder({number_of("192.0.2.8"): 8})


def decode(decoder: SflowDecoder, *datagrams: bytes, time_ns: int = 1) -> ReportBatch:
    batch = frame_batch(list(datagrams), link=Link.UDP_PAYLOAD, gap=3, filler=0xFF)
    batch.frames["time_ns"] = time_ns
    batch.frames["source_lo"] = number_of("192.0.2.99") & (1 << 64) - 1
    return decoder.decode(batch)


def counted(decoder: SflowDecoder, *datagrams: bytes, time_ns: int = 1) -> dict[str, int]:
    """What the datagrams add to the counts."""
    before = decoder.counts()
    decode(decoder, *datagrams, time_ns=time_ns)
    return {name: more for name, total in decoder.counts().items() if (more := total - before[name])}


def row(batch: ReportBatch, index: int = 0) -> dict[str, Any]:
    names = batch.reports.dtype.names or ()
    return {name: batch.reports[index][name].tolist() for name in names}


def hop(batch: ReportBatch, index: int = 0) -> dict[str, Any]:
    """The values that a hop has."""
    found = batch.hops[index]
    bits = {
        Have.NODE_ID: ["node_id"],
        Have.PORTS: ["ingress_port", "egress_port"],
        Have.L2_PORTS: ["l2_ingress_port", "l2_egress_port"],
        Have.HOP_LATENCY: ["hop_latency"],
        Have.QUEUE_OCCUPANCY: ["queue_id", "queue_occupancy"],
        Have.TX_UTILIZATION: ["tx_utilization"],
    }
    assert not int(found["present"]) & ~sum(bits)
    return {name: int(found[name]) for bit, names in bits.items() if found["present"] & bit for name in names}


def test_flow_sample(decoder: SflowDecoder) -> None:
    """Flow, rate, ports, transit delay, queue and its depth."""
    sample = make.flow(
        make.number(1036, 5), make.raw(UDP_PACKET), make.number(1039, 1234), make.number(1040, 4096), rate=512
    )
    batch = decode(decoder, make.datagram(sample, sequence=77, sub_agent=2))
    found = row(batch)
    assert len(batch) == len(batch.hops) == 1
    assert (found["version"], found["reason"], found["index"], found["sequence"]) == (105, 0, 0, 77)
    assert (found["node_id"], found["hw_id"], found["kind"]) == (NODE, 2, Kind.INNER)
    assert (found["source_hi"], found["source_lo"]) == (0, number_of("192.0.2.99"))
    assert (found["src_lo"], found["dst_lo"]) == (number_of("198.51.100.1"), number_of("203.0.113.9"))
    assert (found["proto"], found["sport"], found["dport"], found["ip_version"]) == (17, 4000, 53, 4)
    assert found["carried"] == Carried.NODE_ID | Carried.FLOW | Carried.PORTS
    assert (found["packet_id"], found["hop_count"], found["int_version"]) == (512, 1, 0)
    assert hop(batch) == {
        "node_id": NODE, "ingress_port": 3, "egress_port": 4, "hop_latency": 1234, "queue_id": 5,
        "queue_occupancy": 4096,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (make.raw(ethernet(ipv6(tcp(b""), 6), 0x86DD, (0x8100,))), (6, 6, 4000, 53)),
        (make.raw(ipv4(udp(b"")), protocol=11), (4, 17, 4000, 53)),
        (make.raw(ipv6(udp(b"")), protocol=12), (6, 17, 4000, 53)),
        (make.raw(ethernet(ipv4(udp(bytes(900))))[:60], length=946), (4, 17, 4000, 53)),
        (make.raw(ethernet(ipv4(udp(bytes(900))))[:34], length=946), (4, 17, 0, 0)),
        (make.raw(ethernet(bytes(28), 0x0806)), (0, 0, 0, 0)),
        (make.raw(bytes(20), protocol=7), (0, 0, 0, 0)),
        (make.element(3, bytes.fromhex("00000040 00000011 c6336401 cb007109" + PORTS)), (4, 17, 4000, 53)),
        (make.element(4, bytes.fromhex("00000040 00000011 20010db8000000000000000000000001"
                                       "20010db8000000000000000000000009" + PORTS)), (6, 17, 4000, 53)),
    ],
)  # fmt: skip
def test_sampled_packets(decoder: SflowDecoder, record: bytes, expected: tuple[int, ...]) -> None:
    """Every form of a header; one that the sampler cut, and no IP, are no damage."""
    found = row(decode(decoder, make.datagram(make.flow(record))))
    assert found["reason"] == 0
    assert (found["ip_version"], found["proto"], found["sport"], found["dport"]) == expected
    if expected[0] == 6:
        assert (found["src_hi"] << 64 | found["src_lo"]) == number_of("2001:db8::1")
        assert (found["dst_hi"] << 64 | found["dst_lo"]) == number_of("2001:db8::9")


def test_agents(decoder: SflowDecoder) -> None:
    """A node id that the settings give, one from an IPv6 address, and one from the sender's address."""
    sample = make.flow(make.raw(UDP_PACKET))
    unknown = make.datagram(sample)
    unknown = unknown[:4] + bytes(4) + unknown[12:]
    batch = decode(
        decoder,
        make.datagram(sample, agent="192.0.2.8"),
        make.datagram(sample, agent="2001:db8::abcd"),
        unknown,
    )
    assert batch.reports["node_id"].tolist() == [8, 0xABCD, 0xC0000263]
    assert batch.hops["node_id"].tolist() == [8, 0xABCD, 0xC0000263]


def test_ports(decoder: SflowDecoder) -> None:
    """Expanded samples, unknown and several outputs, interfaces of the agent itself, large ifIndexes."""
    record = make.raw(UDP_PACKET)
    samples = [
        make.expanded_flow(record, input_=1, output=2),
        make.expanded_flow(record, input_=1, output=70_000),
        make.expanded_flow(record, output=2, output_format=2),
        make.flow(record, output=0x80000007),
        make.flow(record, output=0),
        make.flow(record, output=0x3FFFFFFF),
    ]
    batch = decode(decoder, make.datagram(*samples))
    assert batch.reports["reason"].tolist() == [0] * 6
    assert batch.reports["index"].tolist() == list(range(6))
    assert [hop(batch, i) for i in range(6)] == [
        {"node_id": NODE, "ingress_port": 1, "egress_port": 2},
        {"node_id": NODE, "l2_ingress_port": 1, "l2_egress_port": 70_000},
        *[{"node_id": NODE}] * 4,
    ]


def test_discarded_packets(decoder: SflowDecoder) -> None:
    """A notification, and a flow sample whose output states why: a drop report, with its port and reason."""
    record = make.raw(UDP_PACKET)
    samples = [make.discard(record, output=4, reason=259), make.flow(record, output=0x40000000 | 13)]
    batch = decode(decoder, make.datagram(*samples))
    assert batch.reports["kind"].tolist() == [Kind.DROP] * 2
    assert batch.reports["flags"].tolist() == [Flag.DROPPED] * 2
    assert batch.reports["drop_reason"].tolist() == [131, 13]
    assert batch.reports["hop_count"].tolist() == [0, 0]
    assert all(batch.reports["carried"] & Carried.OWN_HOP)
    assert hop(batch) == {"node_id": NODE, "ingress_port": 3, "egress_port": 4}


def test_counters(decoder: SflowDecoder) -> None:
    """A quarter of 1 Gbit/s for 2 s; nothing of the first sample, after a reset, or without a speed."""
    second = 10**9 // 8

    def send(octets: int, uptime: int, index: int = 11, **more: int) -> list[int]:
        sample = make.counters(make.element(2, bytes(52)), make.interface(index, octets, **more))
        batch = decode(decoder, make.datagram(sample, uptime=uptime))
        assert batch.reports["reason"].tolist() == [0]
        return [hop(batch, i)["tx_utilization"] for i in range(len(batch.hops))]

    assert send(1000, 0xFFFFFE00) == []
    assert send(1000 + second // 2, 0xFFFFFE00 + 2000 - (1 << 32), out_discards=7) == [250]
    assert send(5, 4000) == []
    assert send(5 + second, 5000) == [1000]
    assert send(5 + second, 5000) == []
    assert send(6 + 2 * second, 6000, speed=0) == []
    assert decoder.counts()["sflow_port_discards"] == 7
    batch = decode(
        decoder, make.datagram(make.counters(make.interface(12, 0), make.interface(13, 0)), uptime=1)
    )
    more = make.counters(make.interface(12, second // 10), make.interface(13, second), expanded=True)
    batch = decode(decoder, make.datagram(more, uptime=1001))
    assert [hop(batch, i) for i in (0, 1)] == [
        {"node_id": NODE, "ingress_port": 0, "egress_port": index, "tx_utilization": value}
        for index, value in ((12, 100), (13, 1000))
    ]
    assert batch.reports["carried"].tolist() == [Carried.NODE_ID] * 2


def test_sampling_is_counted(decoder: SflowDecoder) -> None:
    """Packets that could have been sampled and samples that were lost, by data source; counters wrap."""
    sample = {"source": 40, "pool": 0xFFFFFF00, "drops": 5}
    assert counted(decoder, make.datagram(make.flow(**sample))) == {"sflow_flow_samples": 1}
    sample = {"source": 40, "pool": 0x100, "drops": 9}
    assert counted(decoder, make.datagram(make.flow(**sample))) == {
        "sflow_flow_samples": 1, "sflow_pool_packets": 512, "sflow_lost_samples": 4,
    }  # fmt: skip
    other = make.element(0x1234001, b"none of ours")
    assert counted(decoder, make.datagram(other, make.counters())) == {
        "sflow_other_samples": 1, "sflow_counter_samples": 1,
    }  # fmt: skip


def test_sampling_over_a_restart_and_with_late_samples(decoder: SflowDecoder) -> None:
    """An agent that restarts begins to count at 0, which is no wrap, however long it was up; a late sample
    counts nothing twice, also while the uptime wraps.
    """
    last = (1 << 32) - 1000
    sent = [
        (1, last, 3_000_000_000),
        (4, last + 3000, 3_000_000_100),
        (5, last + 2000, 3_000_000_050),
        (6, last + 3000, 3_000_000_110),
        (7, last + 4000, 3_000_000_200),
        (904, 900_000, 3_000_001_200),
        (910, 5000, 40),
        (911, 6000, 70),
        (3_000_906, 3_000_001_000, 3_000_000_070),
        (3_000_916, 5000, 40),
        (3_000_917, 6000, 120),
    ]
    total = 0
    for seconds, uptime, pool in sent:
        datagram = make.datagram(make.flow(source=41, pool=pool, drops=pool), uptime=uptime & 0xFFFFFFFF)
        found = counted(decoder, datagram, time_ns=seconds * SECOND)
        total += found.get("sflow_pool_packets", 0)
        assert found.get("sflow_pool_packets") == found.get("sflow_lost_samples")
    assert total == 1200 + 30 + 80


def test_sequence_numbers_without_contents(decoder: SflowDecoder) -> None:
    """A datagram of which nothing is read is a report without contents: its number is not missing."""
    batch = decode(decoder, make.datagram(make.element(99, b""), sequence=9), make.datagram(sequence=10))
    assert batch.reports["sequence"].tolist() == [9, 10]
    assert batch.reports["carried"].tolist() == [Carried.NODE_ID] * 2
    assert not batch.reports["hop_count"].any()


FLOW = make.flow(make.raw(UDP_PACKET))
DAMAGE = {
    "no version": (b"\0\0\0", Reason.TRUNCATED, Place.REPORT_HEADER),
    "version 4": (b"\0\0\0\4" + make.datagram()[4:], Reason.UNKNOWN_VERSION, Place.REPORT_HEADER),
    "address of a third kind": (
        b"\0\0\0\5\0\0\0\3" + make.datagram()[8:], Reason.UNKNOWN_TYPE, Place.REPORT_HEADER,
    ),
    "header cut": (make.datagram()[:20], Reason.TRUNCATED, Place.REPORT_HEADER),
    "more samples than there are": (make.datagram(count=1), Reason.TRUNCATED, Place.SFLOW),
    "sample cut": (make.datagram(FLOW)[:-4], Reason.TRUNCATED, Place.SFLOW),
    "sample shorter than its header": (
        make.datagram(make.element(1, bytes(16))), Reason.BAD_LENGTH, Place.SFLOW,
    ),
    "counter sample shorter than its header": (
        make.datagram(make.element(4, bytes(8))), Reason.BAD_LENGTH, Place.SFLOW,
    ),
    "record after the end": (
        make.datagram(make.flow(make.raw(UDP_PACKET), count=2)), Reason.TRUNCATED, Place.SFLOW,
    ),
    "short delay": (make.datagram(make.flow(make.element(1039, b"\1\2"))), Reason.BAD_LENGTH, Place.SFLOW),
    "header longer than its record": (
        make.datagram(make.flow(make.element(1, bytes(11) + b"\1" + bytes(3) + b"\x40"))),
        None, None,
    ),
    "short counters": (
        make.datagram(make.counters(make.element(1, bytes(60)))), Reason.BAD_LENGTH, Place.SFLOW,
    ),
    "IP in a whole packet is cut": (
        make.datagram(make.flow(make.raw(ethernet(b"\x45" + bytes(9))))), Reason.TRUNCATED, Place.INNER_IP,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(decoder: SflowDecoder, name: str) -> None:
    """Damage is a rejected report with its reason and place, and the next datagram is read."""
    damaged, reason, place = DAMAGE[name]
    batch = decode(decoder, damaged, make.datagram(FLOW))
    if reason is not None:
        assert (batch.reports["reason"][0], batch.reports["place"][0]) == (reason, place)
        assert batch.reports["reason_at"][0] <= len(damaged)
    assert batch.reports["reason"].tolist()[1:] == [0]
    assert hop(batch, -1)["node_id"] == NODE


def test_a_damaged_sample_leaves_its_neighbours(decoder: SflowDecoder) -> None:
    """Samples state their length; a damaged one is rejected and not counted as a sample."""
    before = decoder.counts()["sflow_counter_samples"]
    batch = decode(decoder, make.datagram(FLOW, make.element(3, bytes(8)), make.element(4, b""), FLOW))
    assert decoder.counts()["sflow_counter_samples"] == before
    assert batch.reports["reason"].tolist() == [0, Reason.BAD_LENGTH, Reason.BAD_LENGTH, 0]
    assert batch.reports["first_hop"].tolist() == [0, 1, 1, 1]


def test_blocks_grow() -> None:
    """Many samples in one datagram, and many datagrams."""
    small = SflowDecoder(frames=1)
    batch = decode(small, *[make.datagram(*[make.flow()] * 300, sequence=n) for n in range(50)])
    assert len(batch) == len(batch.hops) == 15_000
    assert batch.reports["sequence"].tolist() == np.repeat(np.arange(50), 300).tolist()
    assert batch.reports["first_hop"].tolist() == list(range(15_000))


def test_fuzz(decoder: SflowDecoder) -> None:
    """Whatever arrives, every datagram has at least one row, and rows refer to their hops."""
    rng = random.Random(5)
    seeds = [
        make.datagram(FLOW, make.expanded_flow(make.raw(UDP_PACKET)), make.discard(make.raw(UDP_PACKET))),
        make.datagram(
            make.counters(make.interface(1, 5)), make.counters(make.interface(2, 9), expanded=True)
        ),
        make.datagram(make.flow(make.number(1036, 1), make.number(1040, 2)), agent="2001:db8::1"),
    ]
    for _ in range(40):
        damaged = []
        for _ in range(200):
            one = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(4)):
                one[rng.randrange(len(one))] = rng.choice((0, 1, 2, 3, 5, 0x7F, 0xFF, rng.randrange(256)))
            damaged.append(bytes(one[: rng.choice((len(one), rng.randrange(len(one) + 1)))]))
        batch = decode(decoder, *damaged, time_ns=rng.randrange(1, 10**9))
        assert set(batch.reports["packet"].tolist()) == set(range(200))
        ends = batch.reports["first_hop"].astype(np.int64) + batch.reports["hop_count"]
        assert ends.max() <= len(batch.hops)
        assert set(batch.reports["reason"].tolist()) <= set(Reason)

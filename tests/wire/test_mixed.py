"""Captured datagrams of sFlow, IPFIX and NetFlow 9: the rows are those of the live decoders, in order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from hopscope.wire import timing
from hopscope.wire.decode.as_json import report_object, report_objects
from hopscope.wire.dialect import DEFAULT, Clock, Dialect
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.mixed.decoder import MixedDecoder
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from hopscope.wire.sflow.decoder import SflowDecoder
from hopscope.wire.versions import IPFIX, NETFLOW_9, SFLOW
from support.packets import ipfix_make, sflow_make
from support.packets.by_hand import (
    FLOW_6,
    ethernet,
    group,
    hop_2,
    inner_udp,
    int_2,
    ipv4,
    ipv6,
    outer,
    single,
    udp,
)
from support.packets.ipfix_make import message, packet_9, record, set_of, template
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel
SECOND = 1_000_000_000
TEMPLATE, DATA = set_of(2, template(256, ipfix_make.FLOW)), set_of(256, record())
TEMPLATE_9 = set_of(0, template(256, ipfix_make.FLOW))
SAMPLE = sflow_make.datagram(
    sflow_make.flow(sflow_make.raw(ethernet(ipv4(udp(bytes(40))))), sflow_make.number(1039, 9000), rate=64)
)
REPORT = group(single(ethernet(inner_udp(int_2(0xA000, [hop_2(5, 500)], 2)))))
SOURCE = 0xFFFF_C000_0201  # 192.0.2.1 of `outer`


def captured(*frames: bytes, link: int = Link.ETHERNET, seconds: int = 1) -> FrameBatch:
    """Frames, a millisecond apart."""
    batch = frame_batch(list(frames), link=link, gap=3, filler=0xFF)
    batch.frames["time_ns"] = seconds * SECOND + 1_000_000 * np.arange(len(frames))
    return batch


def live(batch: FrameBatch, payloads: dict[int, bytes]) -> FrameBatch:
    """The payloads of some frames, as a listener receives them."""
    frames = frame_batch(list(payloads.values()), link=Link.UDP_PAYLOAD)
    frames.frames["time_ns"] = batch.frames["time_ns"][list(payloads)]
    frames.frames["source_lo"] = SOURCE
    return frames


def values(rows: Records, *left_out: str) -> list[list[Any]]:
    names = [name for name in rows.dtype.names or () if name not in left_out]
    return [[row[name].tolist() for name in names] for row in rows]


@pytest.mark.parametrize("small", [False, True])
def test_rows_are_those_of_the_live_decoders(small: bool) -> None:
    """Reports, samples and flow records come in the order of their packets, with the hops of each."""
    flows = {2: message(TEMPLATE + DATA), 4: packet_9(TEMPLATE_9, DATA), 6: message(DATA, sequence=1)}
    samples = {0: SAMPLE, 5: SAMPLE}
    frames = {1: outer(REPORT), 3: outer(b"noise", 53)}
    frames |= {at: outer(payload, 6343) for at, payload in samples.items()}
    frames |= {at: outer(payload, 2055 if at == 4 else 4739) for at, payload in flows.items()}
    batch = captured(*(frames[at] for at in range(7)))
    found = MixedDecoder(small=small).decode(batch)
    assert found.other == 1
    assert found.reports["packet"].tolist() == [0, 1, 2, 4, 5, 6]
    assert found.reports["version"].tolist() == [SFLOW, 20, IPFIX, NETFLOW_9, SFLOW, IPFIX]
    for version, decoder, payloads in ((SFLOW, SflowDecoder(), samples), (IPFIX, IpfixDecoder(), flows)):
        expected = decoder.decode(live(batch, payloads))
        rows = found.reports[(found.reports["version"] == SFLOW) == (version == SFLOW)]
        rows = rows[rows["version"] > 20]
        assert rows["packet"].tolist() == [list(payloads)[at] for at in expected.reports["packet"]]
        assert values(rows, "packet", "first_hop") == values(expected.reports, "packet", "first_hop")
        for mine, theirs in zip(rows, expected.reports, strict=True):
            hops = found.hops[int(mine["first_hop"]) :][:1], expected.hops[int(theirs["first_hop"]) :][:1]
            assert values(hops[0]) == values(hops[1])
    report = found.reports[found.reports["version"] == 20][0]
    assert int(found.hops[int(report["first_hop"])]["node_id"]) == 5


@pytest.mark.parametrize(
    ("frame", "link", "source"),
    [
        (outer(SAMPLE, 6343), Link.ETHERNET, "192.0.2.1"),
        (ethernet(ipv4(udp(SAMPLE, 6343), outer=True), tags=(0x8100,)), Link.ETHERNET, "192.0.2.1"),
        (ethernet(ipv4(udp(SAMPLE, 6343), outer=True), tags=(0x88A8, 0x8100)), Link.ETHERNET, "192.0.2.1"),
        (ipv4(udp(SAMPLE, 6343), outer=True), Link.RAW_IP, "192.0.2.1"),
        (ethernet(ipv6(udp(SAMPLE, 6343)), 0x86DD), Link.ETHERNET, FLOW_6["src"]),
        (
            ethernet(ipv4(udp(bytes([8, 0, 0, 0, 0, 0, 9, 0]) + outer(SAMPLE, 6343), 4789))),
            Link.ETHERNET,
            "192.0.2.1",
        ),
        (
            ethernet(ipv4(bytes([0, 0, 8, 0]) + ipv4(udp(SAMPLE, 6343), outer=True), proto=47)),
            Link.ETHERNET,
            "192.0.2.1",
        ),
    ],
)
def test_datagrams_are_found_where_reports_are(frame: bytes, link: int, source: str) -> None:
    """Behind VLAN tags, over IPv6, in VXLAN and GRE: the source is that of the datagram itself."""
    batch = captured(frame, link=link)
    for small in (True, False):
        found = MixedDecoder(small=small).decode(batch)
        (one,) = report_objects(found, batch)
        assert (one["source"], one["report"]["packets"], found.other) == (source, 64, 0)


def test_damage_names_the_place_in_the_frame() -> None:
    """Fragments, wrong lengths, cut frames, other versions and damaged sets are rejected reports."""
    header = len(outer(b""))
    bad_udp = bytearray(outer(SAMPLE, 6343))
    bad_udp[38:40] = b"\xff\xff"
    frames = [
        ethernet(ipv4(udp(SAMPLE, 6343), outer=True, fragment=0x2000)),
        ethernet(ipv4(udp(SAMPLE, 6343), outer=True, fragment=0x0010)),  # a later fragment: no header
        bytes(bad_udp),
        outer(SAMPLE, 6343)[:-10],
        outer(b"\0\5" + bytes(70), 2055),
        outer(message(set_of(4, b"")), 4739),
        outer(b"", 6343),
    ]
    batch = captured(*frames)
    decoder = MixedDecoder()
    found = decoder.decode(batch)
    errors = [
        (int(row["packet"]), Reason(row["reason"]), Place(row["place"]), int(row["reason_at"]) - header)
        for row in found.reports
        if row["reason"]
    ]
    assert errors == [
        (0, Reason.FRAGMENT, Place.OUTER_IP, 14 - header),
        (2, Reason.BAD_LENGTH, Place.OUTER_UDP, 34 - header),
        (3, Reason.TRUNCATED, Place.SFLOW, 28),
        (4, Reason.UNKNOWN_VERSION, Place.REPORT_HEADER, 0),
        (5, Reason.UNKNOWN_TYPE, Place.IPFIX, 16),
        (6, Reason.TRUNCATED, Place.REPORT_HEADER, 0),
    ]
    assert found.other == 1
    assert decoder.rejected == {
        "fragment": 1, "bad_length": 1, "truncated": 2, "unknown_version": 1, "unknown_type": 1
    }  # fmt: skip
    details = [one["error"]["detail"] for one in report_objects(found, batch) if "error" in one]
    assert details[3] == f"NetFlow version 5, expected 9 or 10 (IPFIX) (byte {header})"
    assert details[4] == f"set 4, which is reserved (byte {header + 16})"


def test_templates_belong_to_an_exporter_and_a_domain() -> None:
    """A template of another source, version or domain does not fit; a late template releases its data."""
    other = ethernet(ipv4(udp(message(TEMPLATE + DATA), 4739)))  # from 198.51.100.1
    decoder = MixedDecoder()
    first = decoder.decode(captured(outer(message(DATA), 4739), other, outer(message(DATA, domain=2), 4739)))
    assert [int(row["hop_count"]) for row in first.reports] == [0, 1, 0]
    assert decoder.undecoded_sets == 2
    late = captured(outer(message(TEMPLATE + DATA, sequence=1), 4739), seconds=3)
    second = decoder.decode(late)
    assert second.reports["hop_count"].tolist() == [1, 1]
    assert second.reports["index"].tolist() == [0, 1]
    assert set(second.reports["time_ns"]) == {3 * SECOND}
    counts = decoder.counts()
    assert (counts["ipfix_early_sets"], counts["ipfix_waiting_sets"]) == (2, 1)
    withdrawn = message(set_of(2, template(256, [])), DATA, sequence=2)
    assert decoder.decode(captured(outer(withdrawn, 4739), seconds=4)).reports["hop_count"].tolist() == [0]
    decoder.decode(captured(outer(message(), 4739), seconds=100))
    assert decoder.counts()["ipfix_expired_sets"] == 2


def test_ports_of_reports_come_first() -> None:
    """A port that a dialect has for reports is no port of samples."""
    batch = captured(outer(SAMPLE, 7000), outer(REPORT, 6343), outer(SAMPLE, 6343))
    usual = MixedDecoder().decode(batch)
    assert (usual.other, usual.reports["version"].tolist()) == (1, [SFLOW, SFLOW])
    own = MixedDecoder(Dialect("own", ports=(6343,), sflow_ports=(6343, 7000))).decode(batch)
    assert (own.other, own.reports["version"].tolist()) == (0, [SFLOW, 20, 5])


def test_clocks_are_those_of_reports() -> None:
    """The delay in a sample is ns, whatever the unit of the dialect."""
    found = MixedDecoder().decode(captured(outer(REPORT), outer(SAMPLE, 6343)))
    timing.apply(found, Clock(unit_ns=1000, latency="reported"))
    latencies = [int(found.hops[int(row["first_hop"])]["hop_latency"]) for row in found.reports]
    assert latencies == [500_000, 9000]


def test_frames_without_datagrams_cost_no_decoder() -> None:
    """The decoders of samples and flow records are made when a datagram needs them."""
    decoder = MixedDecoder(small=True)
    decoder.decode(captured(outer(REPORT), outer(b"noise", 53)))
    assert decoder.counts() == {}


def test_damaged_frames_are_read_alike_and_counted() -> None:
    """Mutants: plain and compiled kernels find the same, and each frame is in `other` or has a row. The plain
    kernel raises an error if it reads outside the frames.
    """
    chance = random.Random(3)
    seeds = [
        outer(SAMPLE, 6343),
        outer(message(TEMPLATE + DATA), 4739),
        ethernet(ipv4(udp(packet_9(TEMPLATE_9, DATA), 9995), outer=True), tags=(0x8100,)),
        ethernet(ipv4(udp(bytes([8, 0, 0, 0, 0, 0, 9, 0]) + outer(SAMPLE, 6343), 4789))),
        outer(REPORT),
    ]
    frames = []
    for _ in range(1500):
        frame = bytearray(chance.choice(seeds))
        for _ in range(chance.randrange(4)):
            frame[chance.randrange(len(frame))] = chance.choice((0, 1, 255, chance.randrange(256)))
        frames.append(bytes(frame[: chance.choice((len(frame), chance.randrange(len(frame) + 1)))]))
    batch = captured(*frames)
    plain, compiled = (MixedDecoder(DEFAULT, small=small).decode(batch) for small in (True, False))
    assert values(plain.reports) == values(compiled.reports)
    assert len(np.unique(compiled.reports["packet"])) + compiled.other == len(frames)
    assert len(list(report_objects(compiled, batch))) == len(compiled)


def test_a_sample_is_shown_without_its_bytes() -> None:
    """As evidence of an event, whose datagram may not be kept."""
    for port, payload, version in (
        (6343, SAMPLE, "sflow-5"),
        (4739, message(TEMPLATE + DATA), "ipfix"),
        (2055, packet_9(TEMPLATE_9, DATA), "netflow-9"),
    ):
        found = MixedDecoder().decode(captured(outer(payload, port)))
        one = report_object(found, 0, FrameBatch(np.zeros(0, np.uint8), np.zeros(1, FRAME)))
        assert (one["report"]["version"], one["flow"]["dport"]) == (version, 53)

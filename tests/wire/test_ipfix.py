"""IPFIX and NetFlow 9: messages by hand, templates and their ends, options, damage."""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import pytest

from hopscope.wire.address import number_of
from hopscope.wire.ipfix import domains
from hopscope.wire.ipfix.decoder import IpfixDecoder
from hopscope.wire.ipfix.domains import Session
from hopscope.wire.ipfix.records import DOMAINS, TEMPLATES, TEMPLATES_OF_DOMAIN
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import FRAME, Carried, Flag, Have, Kind, Link, ReportBatch
from support.packets import ipfix_make as make
from support.packets.ipfix_make import message, packet_9, record, set_of, template
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel
SECOND = 1_000_000_000
TEMPLATE = set_of(2, template(256, make.FLOW))
NODE = 0xC0000263


NUMBERED_FROM_0 = 64 * SECOND
"""A time at which the numbers of a new domain's rows begin at 0."""


def decode(
    decoder: IpfixDecoder, *messages: bytes, time_ns: int = SECOND, source: str = "192.0.2.99"
) -> ReportBatch:
    batch = frame_batch(list(messages), link=Link.UDP_PAYLOAD, gap=3, filler=0xFF)
    batch.frames["time_ns"] = time_ns
    batch.frames["source_lo"] = number_of(source) & (1 << 64) - 1
    return decoder.decode(batch)


def row(batch: ReportBatch, index: int = 0) -> dict[str, Any]:
    names = batch.reports.dtype.names or ()
    return {name: batch.reports[index][name].tolist() for name in names}


def hop(batch: ReportBatch, index: int = 0) -> dict[str, int]:
    """The values that a hop has."""
    found = batch.hops[index]
    bits = {
        Have.NODE_ID: ["node_id"],
        Have.PORTS: ["ingress_port", "egress_port"],
        Have.L2_PORTS: ["l2_ingress_port", "l2_egress_port"],
        Have.HOP_LATENCY: ["hop_latency"],
    }
    assert not int(found["present"]) & ~sum(bits)
    return {name: int(found[name]) for bit, names in bits.items() if found["present"] & bit for name in names}


@pytest.mark.parametrize("version", [9, 10])
def test_flow_records(version: int) -> None:
    """Two records of a template of fixed fields, with padding: flow, ports, packets, delay in ns."""
    data = set_of(256, record(packets=10) + record("10.0.0.1", protocol=1, packets=7, delay=0) + bytes(3))
    if version == 9:
        sent = packet_9(set_of(0, template(256, make.FLOW)), data, sequence=5, source=0x203)
    else:
        sent = message(TEMPLATE, data, sequence=5, domain=0x203)
    batch = decode(IpfixDecoder(), sent)
    found = row(batch)
    assert len(batch) == len(batch.hops) == 2
    assert (found["version"], found["reason"], found["kind"]) == (100 + version, 0, Kind.INNER)
    assert (found["node_id"], found["hw_id"], found["index"]) == (NODE, 1, 0)
    assert (found["src_lo"], found["dst_lo"]) == (number_of("198.51.100.1"), number_of("203.0.113.9"))
    assert (found["proto"], found["sport"], found["dport"], found["ip_version"]) == (17, 4000, 53, 4)
    assert found["carried"] == Carried.NODE_ID | Carried.FLOW | Carried.PORTS
    assert (found["packet_id"], found["hop_count"], found["first_hop"]) == (10, 1, 0)
    assert hop(batch) == {"node_id": NODE, "ingress_port": 3, "egress_port": 4, "hop_latency": 25_000}
    other = row(batch, 1)
    assert (other["proto"], other["sport"], other["packet_id"], other["index"]) == (1, 0, 7, 1)
    assert other["carried"] == Carried.NODE_ID | Carried.FLOW


def test_ipv6_enterprise_and_variable_fields() -> None:
    """IPv6, an element of an enterprise, interface names of variable length (short and long form), sums of
    delays, ports above 16 bits.
    """
    fields = [
        (82, 65535), (27, 16), (28, 16), (4, 1), (7, 2), (11, 2), (2, 4), (533, 8), (2, 4, 9999),
        (95, 65535), (10, 4), (14, 4),
    ]  # fmt: skip
    addresses = bytes.fromhex("20010db8000000000000000000000001 20010db8000000000000000000000009")

    def one(name: bytes, packets: int) -> bytes:
        length = bytes([len(name)]) if len(name) < 255 else b"\xff" + struct.pack(">H", len(name))
        return (
            length + name + addresses + struct.pack(">BHHIQI", 6, 80, 443, packets, 900, 77) + b"\0"
            + struct.pack(">II", 1, 70_000)
        )  # fmt: skip

    records = one(b"eth0", 3) + one(b"x" * 300, 9) + one(b"", 0)
    batch = decode(IpfixDecoder(), message(set_of(2, template(300, fields)), set_of(300, records)))
    assert batch.reports["reason"].tolist() == [0, 0, 0]
    found = row(batch)
    assert (found["src_hi"] << 64 | found["src_lo"]) == number_of("2001:db8::1")
    assert (found["dst_hi"] << 64 | found["dst_lo"]) == number_of("2001:db8::9")
    assert (found["ip_version"], found["sport"], found["dport"]) == (6, 80, 443)
    assert batch.reports["packet_id"].tolist() == [3, 9, 0]
    ports = {"l2_ingress_port": 1, "l2_egress_port": 70_000}
    assert hop(batch) == {"node_id": NODE, "hop_latency": 300_000, **ports}
    assert hop(batch, 1) == {"node_id": NODE, "hop_latency": 100_000, **ports}
    assert hop(batch, 2) == {"node_id": NODE, **ports}


def test_a_template_with_addresses_of_both_versions() -> None:
    """That which is not 0 is the flow's."""
    fields = [(8, 4), (12, 4), (27, 16), (28, 16), (4, 1)]
    six = bytes(8) + b"\x20" + bytes(30) + b"\1" + b"\6"
    four = b"\x0a\0\0\1\x0a\0\0\2" + bytes(32) + b"\6"
    batch = decode(IpfixDecoder(), message(set_of(2, template(256, fields)), set_of(256, six + four)))
    assert batch.reports["ip_version"].tolist() == [6, 4]
    assert batch.reports["packet_id"].tolist() == [1, 1]


def test_dropped_packets() -> None:
    """A forwarding status of 128 to 191 is a drop, with its port."""
    fields = [(8, 4), (12, 4), (14, 4), (89, 1)]
    addresses = bytes(range(8))
    records = b"".join(addresses + struct.pack(">IB", 5, status) for status in (64, 130))
    batch = decode(IpfixDecoder(), message(set_of(2, template(256, fields)), set_of(256, records)))
    assert batch.reports["kind"].tolist() == [Kind.INNER, Kind.DROP]
    assert batch.reports["flags"].tolist() == [0, Flag.DROPPED]
    assert row(batch, 1)["drop_reason"] == 130
    assert row(batch, 1)["carried"] & Carried.OWN_HOP
    assert hop(batch, 1) == {"node_id": NODE, "ingress_port": 0, "egress_port": 5}


def test_templates_of_each_exporter_and_domain() -> None:
    """The same id means something else in another domain, of another exporter, and in another version."""
    decoder = IpfixDecoder({number_of("192.0.2.8"): 8})
    short = [(12, 4), (8, 4)]
    first = decode(decoder, message(TEMPLATE), message(set_of(2, template(256, short)), domain=2))
    assert first.reports["carried"].tolist() == [Carried.NODE_ID] * 2
    decode(decoder, message(set_of(2, template(256, [(8, 4), (12, 4), (2, 1)]))), source="192.0.2.8")
    addresses = bytes.fromhex("0a000001 0a000002")
    batch = decode(decoder, message(set_of(256, record())), message(set_of(256, addresses), domain=2))
    assert batch.reports["src_lo"].tolist() == [number_of("198.51.100.1"), number_of("10.0.0.2")]
    batch = decode(decoder, message(set_of(256, addresses + b"\7")), source="192.0.2.8")
    assert (row(batch)["src_lo"], row(batch)["packet_id"], row(batch)["node_id"]) == (
        number_of("10.0.0.1"), 7, 8,
    )  # fmt: skip
    decode(decoder, packet_9(set_of(256, addresses)))
    counts = decoder.counts()
    assert (counts["ipfix_domains"], counts["ipfix_templates"], counts["ipfix_early_sets"]) == (4, 3, 1)


def test_data_before_its_template() -> None:
    """It waits, and is read as if it had come with the template; after a minute it is lost, and counted."""
    decoder = IpfixDecoder()
    early = decode(decoder, message(set_of(256, record()), sequence=0))
    assert early.reports["carried"].tolist() == [Carried.NODE_ID]
    assert decoder.counts()["ipfix_waiting_sets"] == 1
    batch = decode(
        decoder, message(TEMPLATE, set_of(256, record("10.9.9.9")), sequence=1), time_ns=5 * SECOND
    )
    assert batch.reports["time_ns"].tolist() == [5 * SECOND] * 2
    assert batch.reports["src_lo"].tolist() == [number_of("10.9.9.9"), number_of("198.51.100.1")]
    assert row(batch, 1)["index"] > 0
    assert decoder.counts()["ipfix_waiting_sets"] == 0
    decode(decoder, message(set_of(300, record())))
    decode(decoder, message(), time_ns=SECOND * (7 + domains.WAITING_SECONDS))
    counts = decoder.counts()
    assert (counts["ipfix_early_sets"], counts["ipfix_expired_sets"], counts["ipfix_waiting_sets"]) == (
        2,
        1,
        0,
    )


def test_what_waits_is_bounded() -> None:
    """Of one domain, and of all, in bytes: large ones take 235 units of 256 bytes each, small ones one."""
    decoder = IpfixDecoder()
    decode(decoder, *[message(set_of(256, record()))] * (domains.WAITING_SETS + 5))
    assert decoder.counts()["ipfix_waiting_sets"] == domains.WAITING_SETS
    assert decoder.counts()["ipfix_expired_sets"] == 5
    large = set_of(256, bytes(60_000))
    for domain in range(2, 5):
        decode(decoder, *[message(large, domain=domain)] * domains.WAITING_SETS)
    waiting = decoder.counts()["ipfix_waiting_sets"] - domains.WAITING_SETS
    assert waiting == (16_384 - domains.WAITING_SETS) // 235


def test_the_address_with_most_waiting_bytes_makes_room() -> None:
    """One address fills all room with large sets of many domains. Small sets of another still find room, at
    the cost of a large one; further large ones do not.
    """
    decoder = IpfixDecoder()
    large, small = set_of(256, bytes(60_000)), set_of(256, record())

    def sent(source: str, data: bytes, count: int) -> list[int]:
        """Send sets in domains of their own; returns how many sets wait, and how many were dropped."""
        for domain in range(count):
            decode(decoder, message(data, domain=domain), source=source)
        counts = decoder.counts()
        return [counts["ipfix_waiting_sets"], counts["ipfix_expired_sets"]]

    assert sent("203.0.113.9", large, 70) == [69, 1]
    assert sent("192.0.2.1", small, 200) == [69 + 200 - 1, 2]  # 69 * 235 = 16,215 of 16,384 units
    assert sent("203.0.113.9", large, 5) == [69 + 200 - 1, 7]
    found = decode(decoder, message(TEMPLATE, domain=7), source="192.0.2.1")
    assert row(found, 1)["src_lo"] == number_of("198.51.100.1")


def test_a_set_without_room_costs_others_nothing() -> None:
    """Two addresses wait with a small set and 23 large ones each (1 + 23 * 235 units), a third with 23 large
    ones. Of 16,384 units, 167 are left: its 24th would need room for 68 units more, and would make it the
    address with the most. Only this set is dropped, not the small sets of the others that come first.
    """
    decoder = IpfixDecoder()
    large, small = message(set_of(256, bytes(60_000))), message(set_of(256, record()))
    for source in ("192.0.2.1", "192.0.2.2"):
        decode(decoder, small, *[large] * 23, source=source)
    decode(decoder, *[large] * 24, source="192.0.2.3")
    counts = decoder.counts()
    assert (counts["ipfix_waiting_sets"], counts["ipfix_expired_sets"]) == (2 * 24 + 23, 1)
    for source in ("192.0.2.1", "192.0.2.2"):
        found = decode(decoder, message(TEMPLATE), source=source)
        assert row(found, 1)["src_lo"] == number_of("198.51.100.1")


def test_sets_wait_or_are_dropped_as_shares_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brute force with random sets: what waits fits. A set is refused only if its address would have more
    than any before, and then nothing else is dropped; else it waits, and its address loses nothing.
    """
    monkeypatch.setattr(domains, "WAITING_BYTES", 100 * domains.WAITING_UNIT)
    monkeypatch.setattr(domains, "WAITING_SETS", 1000)
    rng, known, frame = random.Random(7), domains.Domains({}), np.zeros(1, FRAME)[0]
    found = [known.of_row(known.find((0, source, 10, 0, 1), SECOND) or 0) for source in range(5)]
    for _ in range(2000):
        before = [sum(each.units for each in domain.waiting) for domain in found]
        asking = rng.randrange(5)
        units = rng.choice((1, 2, 30))
        known.wait(found[asking], domains.WaitingSet(256, bytes(units * domains.WAITING_UNIT), frame))
        after = [sum(each.units for each in domain.waiting) for domain in found]
        assert sum(after) <= 100
        if after[asking] == before[asking]:
            assert after == before
            assert sum(before) + units > 100
            assert before[asking] + units > max(before)
        else:
            assert after[asking] == before[asking] + units


def test_shares_find_the_largest() -> None:
    """Brute force: after random changes, no address has more than the largest."""
    rng, shares, counts = random.Random(7), domains.Shares(), dict.fromkeys(range(5), 0)
    for _ in range(2000):
        number = rng.randrange(5)
        step = rng.randint(-counts[number], 300)
        counts[number] += step
        shares.change((0, number), step)
        asked = rng.randrange(5)
        most = max(counts.values())
        _, found = shares.largest((0, asked)) if most else (0, asked)
        assert counts[found] == most
        assert found == asked or counts[asked] < most


def test_templates_change_end_and_expire() -> None:
    """A new definition counts from then on; a withdrawal, of one or of all, ends a template; so does time."""
    decoder = IpfixDecoder()
    decode(decoder, message(TEMPLATE, set_of(2, template(257, make.FLOW))))
    decode(decoder, message(set_of(2, template(256, [(12, 4), (8, 4)]))))
    batch = decode(decoder, message(set_of(256, bytes.fromhex("0a000001 0a000002"))))
    assert row(batch)["src_lo"] == number_of("10.0.0.2")

    def left() -> int:
        return decoder.counts()["ipfix_templates"]

    assert left() == 2
    decode(decoder, message(set_of(2, struct.pack(">HH", 256, 0))))
    assert left() == 1
    decode(decoder, message(TEMPLATE, set_of(3, make.options_template(400, [(144, 4)], [(34, 4)]))))
    assert left() == 3
    decode(decoder, message(set_of(2, struct.pack(">HH", 2, 0))))
    assert left() == 1
    decode(decoder, message(TEMPLATE))
    assert left() == 2
    decode(decoder, message(), time_ns=SECOND * (2 + domains.TEMPLATE_SECONDS))
    assert left() == 0


def test_tables_are_bounded() -> None:
    """Templates of a domain, fields of a template, and domains: the one silent longest makes room."""
    decoder = IpfixDecoder()
    many = [set_of(2, template(256 + n, [(8, 4), (12, 4)])) for n in range(TEMPLATES_OF_DOMAIN + 3)]
    decode(decoder, message(*many))
    decode(decoder, message(set_of(2, template(256, [(82, 65535)] * 200)), domain=2))
    counts = decoder.counts()
    assert (counts["ipfix_templates"], counts["ipfix_rejected_templates"]) == (TEMPLATES_OF_DOMAIN, 4)
    for domain in range(3, DOMAINS + 10):
        decode(decoder, message(domain=domain), time_ns=SECOND + domain)
    counts = decoder.counts()
    assert (counts["ipfix_domains"], counts["ipfix_templates"]) == (DOMAINS, 0)


@pytest.mark.parametrize(
    ("fields", "values", "rate"),
    [
        ([(34, 4), (35, 1)], struct.pack(">IB", 100, 1), 100),
        ([(305, 4), (306, 4)], struct.pack(">II", 1, 999), 1000),
        ([(309, 4), (310, 4)], struct.pack(">II", 2, 100), 50),
        ([(50, 4)], struct.pack(">I", 64), 64),
    ],
)
def test_sampling_by_options(fields: make.Fields, values: bytes, rate: int) -> None:
    """A rate that an options record states multiplies packets, whichever elements state it."""
    decoder = IpfixDecoder()
    options = set_of(3, make.options_template(400, [(144, 4)], fields))
    sent = message(
        TEMPLATE, options, set_of(400, struct.pack(">I", 1) + values), set_of(256, record(packets=3))
    )
    assert row(decode(decoder, sent))["packet_id"] == 3 * rate
    assert decoder.counts()["ipfix_options_records"] == 1


def test_samplers_of_netflow_9() -> None:
    """A record names its sampler; an unknown one has a rate of 1; a record may state the rate itself."""
    decoder = IpfixDecoder()
    options = set_of(1, make.options_template_9(257, [(1, 4)], [(48, 1), (49, 1), (50, 4)]))
    data = b"".join(struct.pack(">IBBI", 0, sampler, 2, rate) for sampler, rate in ((1, 10), (2, 1000)))
    fields = [(8, 4), (12, 4), (2, 4), (48, 1)]
    own = [(8, 4), (12, 4), (2, 4), (34, 4)]
    templates = set_of(0, template(256, fields) + template(258, own))
    records = b"".join(bytes(range(8)) + struct.pack(">IB", 5, sampler) for sampler in (1, 2, 3))
    more = set_of(258, bytes(range(8)) + struct.pack(">II", 5, 7))
    batch = decode(decoder, packet_9(templates, options, set_of(257, data), set_of(256, records), more))
    assert batch.reports["packet_id"].tolist() == [50, 5000, 5, 35]


def test_missing_messages() -> None:
    """Rows of a message share a number, which is as far ahead as records (IPFIX) or packets (NetFlow 9) are
    missing; options count, a late message does not.
    """
    decoder = IpfixDecoder()
    two = set_of(256, record() * 2)
    options = set_of(3, make.options_template(400, [(144, 4)], [(34, 4)]))
    one_option = set_of(400, struct.pack(">II", 1, 1))

    def numbers(*messages: bytes) -> list[int]:
        reports = decode(decoder, *messages, time_ns=NUMBERED_FROM_0).reports
        return [int(number) for number in reports["sequence"]]

    assert numbers(message(TEMPLATE, options, two, sequence=50)) == [1, 1]
    assert numbers(message(two, one_option, sequence=52)) == [2, 2]
    assert numbers(message(two, sequence=55)) == [3, 3]
    assert numbers(message(two, sequence=67)) == [14, 14]
    assert numbers(message(two, sequence=57), message(sequence=69)) == [15, 15, 16]
    assert numbers(message(set_of(300, record()), sequence=69), message(two, sequence=75)) == [17, 18, 18]
    nine = [packet_9(sequence=n) for n in (7, 8, 11, 12)]
    assert numbers(*nine) == [1, 2, 5, 6]


@pytest.mark.parametrize("exported", [make.EXPORTED, (1 << 32) - 1])
@pytest.mark.parametrize("seconds", [1, -61, -(10**9)])
def test_an_exporter_that_begins_again(exported: int, seconds: int) -> None:
    """Two messages that follow each other with lower numbers, exported later, or long before (a clock was set
    back), are a restart: what is missing after it is missing. One alone is late, as one from before it is.
    Export times wrap in 2106.
    """
    later = (exported + seconds) & 0xFFFFFFFF
    two = set_of(256, record() * 2)
    for pack, step in ((message, 2), (packet_9, 1)):
        decoder = IpfixDecoder()

        def numbers(*messages: bytes, decoder: IpfixDecoder = decoder) -> list[int]:
            reports = decode(decoder, *messages, time_ns=NUMBERED_FROM_0).reports
            return [int(each["sequence"]) for each in reports if each["index"] == 0]

        templates = TEMPLATE if pack is message else set_of(0, template(256, make.FLOW))
        assert numbers(pack(templates, two, sequence=1000, exported=exported)) == [1]
        late = pack(two, sequence=1000 - step, exported=later)
        assert numbers(late, pack(two, sequence=1000 + step, exported=exported)) == [2, 3]
        again = [pack(two, sequence=step * n, exported=later) for n in (0, 1, 4)]
        assert numbers(*again) == [4, 5, 6 + 2 * step]
        assert numbers(pack(two, sequence=step * 3, exported=later)) == [7 + 2 * step]
        assert numbers(pack(two, sequence=step * 5, exported=later)) == [8 + 2 * step]


def test_late_messages_are_no_restart() -> None:
    """Several that follow each other, exported up to a minute before the newest: what comes then is next."""
    decoder = IpfixDecoder()
    sent = [packet_9(sequence=1000)]
    sent += [packet_9(sequence=900 + n, exported=make.EXPORTED - 60) for n in range(3)]
    sent += [packet_9(sequence=1001), packet_9(sequence=1003)]
    reports = decode(decoder, *sent, time_ns=NUMBERED_FROM_0).reports
    assert reports["sequence"].tolist() == [1, 2, 3, 4, 5, 7]


@pytest.mark.parametrize("distance", [500, 100_000])
@pytest.mark.parametrize("taken", [1, 2, 3])
def test_two_exporters_with_one_domain(distance: int, taken: int) -> None:
    """Line cards that share a source id, or a pair behind one address, take turns: what is missing is what
    each of them lost.
    """
    two = set_of(256, record() * 2)
    for pack, step in ((message, 2), (packet_9, 1)):
        decoder = IpfixDecoder()
        templates = TEMPLATE if pack is message else set_of(0, template(256, make.FLOW))
        sent = [pack(templates, sequence=20 + distance)]
        numbers = [20 + distance + (pack is packet_9), 20]
        lost = 0
        for turn in range(40):
            for _ in range(taken):
                sent.append(pack(two, sequence=numbers[turn % 2], exported=make.EXPORTED + turn))
                numbers[turn % 2] += step
            if turn in (16, 24):
                numbers[0] += 3 * step
                lost += 3 * step
        reports = decode(decoder, *sent, time_ns=NUMBERED_FROM_0).reports
        assert int(reports["sequence"][-1]) - len(sent) == lost


def test_data_records_of_a_message() -> None:
    """Its first row counts them as the exporter does: options and what is no flow, too, but no templates.
    Those that waited for their template are in the next message's.
    """
    decoder = IpfixDecoder()
    options = set_of(3, make.options_template(400, [(144, 4)], [(34, 4)]))
    other = set_of(2, template(257, [(2, 8)]))
    records = set_of(256, record() * 3)
    early = set_of(300, record() * 2)
    data = set_of(257, bytes(16)), set_of(400, struct.pack(">II", 1, 1))

    def counted(*messages: bytes) -> list[int]:
        reports = decode(decoder, *messages).reports
        return [int(each["inner_length"]) for each in reports if each["index"] == 0]

    assert counted(message(TEMPLATE, options, other)) == [0]
    assert counted(message(records, *data), message(sequence=6)) == [6, 0]
    assert counted(message(records, early, sequence=6)) == [3]
    assert counted(message(set_of(2, template(300, make.FLOW)), records, sequence=11)) == [3]
    assert counted(message(records, sequence=14)) == [5]


DAMAGE = {
    "nothing": (b"", Reason.TRUNCATED, Place.REPORT_HEADER),
    "version 5": (b"\0\5" + bytes(40), Reason.UNKNOWN_VERSION, Place.REPORT_HEADER),
    "header cut": (message()[:15], Reason.TRUNCATED, Place.REPORT_HEADER),
    "header of NetFlow 9 cut": (packet_9()[:19], Reason.TRUNCATED, Place.REPORT_HEADER),
    "message longer than the datagram": (message(TEMPLATE)[:-1], Reason.TRUNCATED, Place.REPORT_HEADER),
    "length below the header's": (b"\0\x0a\0\x0f" + message()[4:], Reason.BAD_LENGTH, Place.REPORT_HEADER),
    "set shorter than its header": (message(struct.pack(">HH", 256, 3)), Reason.BAD_LENGTH, Place.IPFIX),
    "set longer than the message": (message(struct.pack(">HH", 256, 9)), Reason.TRUNCATED, Place.IPFIX),
    "reserved set": (message(set_of(5, bytes(4))), Reason.UNKNOWN_TYPE, Place.IPFIX),
    "template cut": (message(set_of(2, template(256, make.FLOW)[:-2])), Reason.TRUNCATED, Place.IPFIX),
    "template of a reserved id": (
        message(set_of(2, template(200, make.FLOW))), Reason.TRUNCATED, Place.IPFIX,
    ),
    "template without bytes": (message(set_of(2, template(256, [(210, 0)]))), Reason.TRUNCATED, Place.IPFIX),
    "value longer than its set": (
        message(set_of(2, template(256, [(8, 4), (12, 4), (82, 65535)])), set_of(256, bytes(8) + b"\5abc")),
        Reason.TRUNCATED, Place.IPFIX,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name: str) -> None:
    """Damage is a rejected report with its reason and place, and the next message is read."""
    damaged, reason, place = DAMAGE[name]
    batch = decode(IpfixDecoder(), damaged, message(TEMPLATE, set_of(256, record()), domain=9))
    rejected = batch.reports[batch.reports["reason"] > 0]
    assert [(r["reason"], r["place"], r["packet"]) for r in rejected] == [(reason, place, 0)]
    assert rejected["reason_at"][0] <= len(damaged)
    assert row(batch, -1)["src_lo"] == number_of("198.51.100.1")


def test_blocks_grow() -> None:
    """Many records in one set, and many messages."""
    small = IpfixDecoder(frames=1)
    decode(small, message(TEMPLATE))
    data = set_of(256, b"".join(record(packets=n) for n in range(1000)))
    batch = decode(small, *[message(data, sequence=1000 * n) for n in range(10)])
    assert len(batch) == len(batch.hops) == 10_000
    assert batch.reports["packet_id"].tolist() == list(range(1000)) * 10
    assert batch.reports["first_hop"].tolist() == list(range(10_000))


def test_fuzz() -> None:
    """Whatever arrives, every message has at least one row, and rows refer to their hops."""
    rng = random.Random(6)
    variable = template(257, [(82, 65535), (8, 4), (12, 4), (2, 4)])
    seeds = [
        message(TEMPLATE, set_of(256, record() * 3)),
        message(set_of(2, variable), set_of(257, b"\4eth0" + bytes(12) + b"\0" + bytes(12))),
        message(set_of(3, make.options_template(400, [(144, 4)], [(34, 4)])), set_of(400, bytes(8))),
        packet_9(set_of(0, template(256, make.FLOW)), set_of(256, record())),
        packet_9(
            set_of(1, make.options_template_9(257, [(1, 4)], [(48, 1), (50, 4)])), set_of(257, bytes(9))
        ),
    ]
    decoder = IpfixDecoder()
    for turn in range(40):
        damaged = []
        for _ in range(100):
            one = bytearray(rng.choice(seeds))
            for _ in range(rng.randrange(4)):
                one[rng.randrange(len(one))] = rng.choice((0, 1, 2, 3, 4, 0x7F, 0xFF, rng.randrange(256)))
            damaged.append(bytes(one[: rng.choice((len(one), rng.randrange(len(one) + 1)))]))
        batch = decode(decoder, *damaged, time_ns=SECOND * turn + 1)
        assert set(batch.reports["packet"].tolist()) == set(range(100))
        ends = batch.reports["first_hop"].astype(np.int64) + batch.reports["hop_count"]
        assert ends.max() <= len(batch.hops)
        assert set(batch.reports["reason"].tolist()) <= set(Reason)


@pytest.mark.parametrize("ended", [None, []], ids=["udp", "tcp"])
def test_the_address_with_most_domains_makes_room(ended: list[Session] | None) -> None:
    """16 addresses with 64 domains each replace domains of their own, although others are silent longer."""
    decoder = IpfixDecoder(ended=ended)
    decode(decoder, message(TEMPLATE), source="192.0.2.1")
    for host in range(16):
        hostile = [message(TEMPLATE, domain=number) for number in range(64)]
        decode(decoder, *hostile, source=f"203.0.113.{host}")
    counts = decoder.counts()
    assert (counts["ipfix_domains"], counts["ipfix_templates"]) == (DOMAINS, DOMAINS)
    found = decode(decoder, message(set_of(256, record())), source="192.0.2.1")
    assert found.reports["hop_count"].tolist() == [1]


def test_the_address_with_most_templates_makes_room() -> None:
    """All templates are of one address: it gets no more, and others do, in place of its oldest ones."""
    decoder = IpfixDecoder()
    each = [set_of(2, template(256 + number, make.FLOW)) for number in range(TEMPLATES_OF_DOMAIN)]
    full = TEMPLATES // TEMPLATES_OF_DOMAIN
    decode(decoder, *(message(*each, domain=number) for number in range(full)))
    decode(decoder, message(TEMPLATE, domain=full))
    assert decoder.counts()["ipfix_rejected_templates"] == 1
    options = set_of(3, make.options_template(400, [(144, 4)], [(34, 4)]))
    found = decode(decoder, message(TEMPLATE, options, set_of(256, record())), source="192.0.2.1")
    assert found.reports["hop_count"].tolist() == [1]
    counts = decoder.counts()
    assert (counts["ipfix_templates"], counts["ipfix_rejected_templates"]) == (TEMPLATES, 3)
    found = decode(decoder, *(message(set_of(256 + number, record()), domain=0) for number in range(4)))
    assert found.reports["hop_count"].tolist() == [0, 0, 1, 1]


def test_a_domain_that_makes_room_has_been_decoded() -> None:
    """Messages of more domains than there is room for, in one batch, become what each becomes by itself, also
    data that had waited for a template.
    """
    decoders = IpfixDecoder(), IpfixDecoder()
    with_template = [message(TEMPLATE, set_of(256, record(packets=n)), domain=n) for n in range(1, DOMAINS)]
    data = [message(set_of(256, record(packets=n)), domain=n) for n in range(1, 40)]
    early = [message(each, domain=7 * DOMAINS) for each in (set_of(256, record(packets=77)), TEMPLATE)]
    messages = [*early, *with_template, *data]
    messages += [*(message(domain=DOMAINS + n) for n in range(2 * DOMAINS)), *data]
    whole = decode(decoders[0], *messages)
    order = np.lexsort((whole.reports["index"], whole.reports["packet"]))
    one_by_one = [decode(decoders[1], each).reports.copy() for each in messages]
    for number, rows in enumerate(one_by_one):
        rows["packet"] = number
    expected = np.concatenate(one_by_one)
    for name in ("packet", "index", "packet_id", "hw_id", "sequence", "hop_count", "inner_length"):
        assert whole.reports[name][order].tolist() == expected[name].tolist(), name


@pytest.mark.parametrize("before", [0, 1, 2])
def test_rows_of_rejected_sets_have_numbers_of_their_own(before: int) -> None:
    """Rows of a message are numbered from 0, whatever is rejected; all have the number of the message."""
    decoder = IpfixDecoder()
    first, *_ = decode(decoder, message(TEMPLATE)).reports["sequence"].tolist()
    data, bad = set_of(256, record()), set_of(5, bytes(4))
    batch = decode(decoder, message(*[data] * before, bad, bad, data), message(data, sequence=before + 1))
    reasons = [0] * before + [Reason.UNKNOWN_TYPE] * 2 + [0]
    assert batch.reports["reason"].tolist() == [*reasons, 0]
    assert batch.reports["index"].tolist() == [*range(len(reasons)), 0]
    assert batch.reports["sequence"].tolist() == [first + 1] * len(reasons) + [first + 2]
    assert batch.reports["inner_length"][0] == before + 1

"""The DTA and DART programs on bmv2: reports and RoCEv2 packets equal those of `wire/`, byte for byte.

Slots, checksums and codes are those of the stores (`direct/`); scapy computes the invariant CRC again.
"""

from __future__ import annotations

import socket
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scapy.contrib import roce as scapy_roce
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from hopscope.direct.hashing import POLYNOMIALS, Hashing, checksums_of, collectors_of, slots_of
from hopscope.direct.primitives.append_layout import AppendLayout
from hopscope.direct.primitives.key_increment import KeyIncrementLayout
from hopscope.direct.primitives.key_write import KeyWriteLayout
from hopscope.direct.primitives.postcarding_layout import PostcardingLayout
from hopscope.direct.primitives.postcarding_query import BLANK, MISSING
from hopscope.wire.dta.forms import Form, Opcode
from hopscope.wire.dta.layout import DTA_PORT
from hopscope.wire.layout import SOURCE_MAC, TARGET_MAC
from hopscope.wire.observation import flow_bytes
from hopscope.wire.roce.layout import Aeth, AtomicEth, Bth, Reth
from hopscope.wire.roce.records import Opcode as RoceOpcode
from oracle import roce
from oracle.dta_codec import DtaReport, push_dta
from oracle.roce import RoceFrame, read_frame, write_frame
from support.network.bmv2 import Bmv2, taken

pytestmark = [pytest.mark.e2e, pytest.mark.kernel]
IN, NIC, OTHER = 1, 2, 3
"""Ports: where packets and reports come in, of the NIC, of whom no report is for."""
NODE = 7
SWITCH_IP, NIC_IP = "10.9.0.2", "10.9.0.1"
BASE, KEY, PAIR, PSN, SPORT = 0x7F0000000000, 0x1234, 0x4711, 0xFFFFFE, 49152
SLOTS = 1000
FLOW = ("10.0.0.1", "192.0.2.1", 6, 1234, 443)


def station(port: int) -> str:
    """Address that leads to a port."""
    return f"02:00:00:00:00:{port:02x}"


def number(text: str) -> int:
    """An IPv4 address."""
    return int.from_bytes(socket.inet_aton(text))


def dta(report: DtaReport, form: Form) -> bytes:
    """A frame with a report to the translator."""
    body = bytearray()
    push_dta(body, report, form)
    layers = IP(src="10.8.0.1", dst=SWITCH_IP) / UDP(sport=5, dport=DTA_PORT, chksum=0) / Raw(bytes(body))
    return bytes(Ether(src="02:00:00:00:01:00", dst=station(NIC)) / layers)


def expected(packet: roce.Packet) -> bytes:
    """The frame with a packet from switch to NIC."""
    mapped = 0xFFFF << 32
    frame = write_frame(RoceFrame(packet, mapped | number(SWITCH_IP), mapped | number(NIC_IP), SPORT))
    assert read_frame(frame).packet == packet
    return frame


def bth(opcode: int, psn: int) -> Bth:
    """The transport header of the switch's packets; only RC asks for answers."""
    return Bth(opcode=opcode, migration=1, queue_pair=PAIR, ack_request=opcode >> 5 == 0, psn=psn & 0xFFFFFF)


def write(psn: int, address: int, payload: bytes, opcode: int = RoceOpcode.RC_WRITE_ONLY) -> bytes:
    """The frame of a write into the store."""
    reth = Reth(BASE + address, KEY, len(payload))
    return expected(roce.Packet(bth(opcode, psn), reth=reth, payload=payload))


def key_of(value: int) -> Any:
    """A key of 4 bytes as the hash functions take it."""
    return np.frombuffer(value.to_bytes(4, "big"), np.uint8).reshape(1, -1)


def divided(message: bytes, polynomial: int) -> int:
    """CRC-32 by long division, bit by bit: no code of ours."""
    crc = 0xFFFFFFFF
    for octet in message:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Translator:
    """The translator, and the number of its next packet."""

    def __init__(self, switch: Bmv2) -> None:
        self.switch = switch
        self.at, self.nic = switch.raw(IN), switch.raw(NIC)
        self.psn = PSN

    def sends(self, report: DtaReport, form: Form = Form.SIZED) -> None:
        """A report comes in."""
        self.at.send(dta(report, form))

    def makes(self, count: int = 1) -> list[bytes]:
        """Packets that it sends."""
        frames = [taken(self.nic) for _ in range(count)]
        self.psn = self.psn + count & 0xFFFFFF
        return frames


@pytest.fixture(scope="module")
def translator(made: Path) -> Iterator[Translator]:
    """A translator with a store for each primitive, all at one address."""
    with Bmv2("dta_translator", made) as one:
        control = one.control
        for port in (IN, NIC, OTHER):
            control.insert("station", {"destination": port + 0x020000000000}, "to_port", port=port)
        for copies in range(1, 5):
            control.multicast_group(copies, [(NIC, instance) for instance in range(copies, 0, -1)])
        for opcode, count, most in ((1, SLOTS, 4), (2, 16, 8), (3, SLOTS, 4), (4, SLOTS, 1)):
            control.insert("store", {"opcode": opcode}, "to_store", connection=1, groups=0, first_psn=PSN,
                           address=BASE, memory_key=KEY, count=count, most=most, epoch=0xABCDEF)  # fmt: skip
        control.insert("answers", {"destination": number(SWITCH_IP), "queue_pair": 0x99}, "from_nic",
                       connection=1, first_psn=PSN)  # fmt: skip
        control.insert(
            "connections", {"connection": 1}, "to_nic", source_mac=SOURCE_MAC, destination_mac=TARGET_MAC,
            source=number(SWITCH_IP), destination=number(NIC_IP), source_port=SPORT, queue_pair=PAIR,
        )  # fmt: skip
        made_one = Translator(one)
        yield made_one
        made_one.at.close()
        made_one.nic.close()


def test_the_division_is_that_of_the_stores() -> None:
    """Long division, zlib and `direct/hashing` agree, so expectations have an independent witness."""
    params = KeyWriteLayout(slots=1 << 32, hashing=Hashing.CRC).params()
    for value in (0, 1, 0x01020304, 0xFFFFFFFF):
        key = value.to_bytes(4, "big")
        assert divided(key, POLYNOMIALS[0]) == zlib.crc32(key)
        slots = [divided(key, POLYNOMIALS[copy]) for copy in range(4)]
        assert slots_of(params, key_of(value), 4)[0].tolist() == slots


@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("copies", [1, 2, 4])
def test_key_write(translator: Translator, form: Form, copies: int) -> None:
    """As many writes as the redundancy says, each to its copy's slot, numbered across the wrap of 24 bits."""
    params = KeyWriteLayout(slots=SLOTS, hashing=Hashing.CRC).params()
    value = 0x01020300 + copies * 16 + form
    translator.sends(DtaReport(Opcode.KEY_WRITE, value.to_bytes(4, "big"), b"data", redundancy=copies), form)
    psn = translator.psn
    check = int(checksums_of(params, key_of(value), 32)[0])
    assert check == divided(value.to_bytes(4, "big"), POLYNOMIALS[16])
    slots = slots_of(params, key_of(value), copies)[0]
    wanted = [
        write(psn + copy, int(slot) * 8, check.to_bytes(4, "little") + b"data")
        for copy, slot in enumerate(slots)
    ]
    assert translator.makes(copies) == wanted


@pytest.mark.parametrize("form", list(Form))
def test_key_increment(translator: Translator, form: Form) -> None:
    """A FETCH ADD for each copy; counters that copies share are added to once."""
    params = KeyIncrementLayout(slots=SLOTS, copies=4, hashing=Hashing.CRC).params()
    shared = next(
        value for value in range(1, 10**6)
        if len({divided(value.to_bytes(4, "big"), POLYNOMIALS[copy]) * SLOTS >> 32 for copy in range(4)}) == 3
    )  # fmt: skip
    for value in (0x0A0B0C0D, shared):
        report = DtaReport(
            Opcode.KEY_INCREMENT, value.to_bytes(4, "big"), (1 << 40).to_bytes(8, "big"), redundancy=4
        )
        translator.sends(report, form)
        psn = translator.psn
        slots = list(dict.fromkeys(slots_of(params, key_of(value), 4)[0].tolist()))
        wanted = [
            expected(roce.Packet(bth(RoceOpcode.RC_FETCH_ADD, psn + copy),
                                  atomic=AtomicEth(BASE + slot * 8, KEY, 1 << 40)))
            for copy, slot in enumerate(slots)
        ]  # fmt: skip
        assert translator.makes(len(slots)) == wanted


@pytest.mark.parametrize("form", list(Form))
def test_append(translator: Translator, form: Form) -> None:
    """Four entries become a slot, with the number of its batch and its head; lists are apart."""
    layout = AppendLayout(batches=16, lists=8, batch=4, data_bytes=4)
    first = [Form.TWO, Form.THREE, Form.SIZED].index(form) * 2
    for batch in range(first, first + 2):
        entries = [bytes([batch, entry, 0, 1]) for entry in range(4)]
        for entry in entries[:3]:
            translator.sends(DtaReport(Opcode.APPEND, (3).to_bytes(4, "big"), entry), form)
        translator.sends(
            DtaReport(Opcode.APPEND, (5).to_bytes(4, "big"), b"none"), form
        ) if batch % 4 == 0 else None
        translator.sends(DtaReport(Opcode.APPEND, (3).to_bytes(4, "big"), entries[3]), form)
        psn = translator.psn
        stamp = (0x80000000 | batch).to_bytes(4, "little")
        head = (batch * 4).to_bytes(4, "little") + b"\x04" + (0xABCDEF).to_bytes(3, "little")
        slot = stamp + head + b"".join(entries) + stamp
        assert len(slot) == layout.slot_bytes
        assert translator.makes() == [write(psn, (3 * 16 + batch) * layout.slot_bytes, slot)]


def chunk(key: int, values: list[int | None]) -> tuple[int, bytes]:
    """(offset, bytes) of the chunk of a path."""
    raw = key.to_bytes(4, "big")
    codes = [zlib.crc32((BLANK if value is None else value).to_bytes(4, "big")) for value in values]
    words = b"".join(
        (divided(raw, POLYNOMIALS[8 + hop]) ^ code).to_bytes(4, "little") for hop, code in enumerate(codes)
    )
    layout = PostcardingLayout(chunks=SLOTS, hashing=Hashing.CRC)
    return int(slots_of(layout.params(), key_of(key), 1)[0, 0]) * layout.stride, words


@pytest.mark.parametrize("form", list(Form))
def test_postcarding(translator: Translator, form: Form) -> None:
    """Five postcards in any order become one write; in the sized form, as many as the path is long."""
    key = 0x51000000 + form
    for hop in (2, 5, 1, 4, 3):
        translator.sends(
            DtaReport(Opcode.POSTCARDING, key.to_bytes(4, "big"), bytes([0, 0, 0, hop * 11]), hop=hop), form
        )
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(key, [11, 22, 33, 44, 55]))]
    if form is Form.SIZED:
        for hop in (3, 1, 2):
            report = DtaReport(Opcode.POSTCARDING, b"abcd", bytes([0, 0, 0, hop]), hop=hop, path_length=3)
            translator.sends(report, form)
        psn = translator.psn
        assert translator.makes() == [write(psn, *chunk(int.from_bytes(b"abcd"), [1, 2, 3, None, None]))]


def test_another_key_evicts_a_path(translator: Translator) -> None:
    """A key that needs the row of another one makes the incomplete path leave: with blanks, and where its
    length is known, with hops that are missing. A hop that reports the blank is missing, too.
    """
    rows = [zlib.crc32(value.to_bytes(4, "big")) % 1024 for value in range(20_000)]
    one = 17_000
    other, third = [value for value in range(20_000) if rows[value] == rows[one] and value != one][:2]
    translator.sends(DtaReport(Opcode.POSTCARDING, one.to_bytes(4, "big"), bytes([0, 0, 0, 9]), hop=2))
    translator.sends(
        DtaReport(Opcode.POSTCARDING, other.to_bytes(4, "big"), bytes([0, 0, 0, 8]), hop=1, path_length=2)
    )
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(one, [None, 9, None, None, None]))]
    translator.sends(
        DtaReport(Opcode.POSTCARDING, other.to_bytes(4, "big"), bytes([0, 0, 0, 7]), hop=2, path_length=2)
    )
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(other, [8, 7, None, None, None]))]
    for hop, value in ((1, 6), (2, BLANK)):
        postcard = DtaReport(
            Opcode.POSTCARDING, third.to_bytes(4, "big"), value.to_bytes(4, "big"), hop=hop, path_length=4
        )
        translator.sends(postcard)
    translator.sends(
        DtaReport(Opcode.POSTCARDING, one.to_bytes(4, "big"), bytes([0, 0, 0, 5]), hop=1, path_length=2)
    )
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(third, [6, MISSING, MISSING, MISSING, None]))]
    translator.sends(
        DtaReport(Opcode.POSTCARDING, one.to_bytes(4, "big"), bytes([0, 0, 0, 4]), hop=2, path_length=2)
    )
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(one, [5, 4, None, None, None]))]


def test_a_path_of_one_hop_that_evicts_another_waits(translator: Translator) -> None:
    """A report becomes one chunk at most, the evicted path. The path of one hop leaves at its next report."""
    rows = [zlib.crc32(value.to_bytes(4, "big")) % 1024 for value in range(20_000)]
    one = 18_000
    other = rows.index(rows[one])
    for key, hop, length, data in ((one, 2, 3, b"\0\0\0\x09"), (other, 1, 1, b"\0\0\0\x08")):
        report = DtaReport(Opcode.POSTCARDING, key.to_bytes(4, "big"), data, hop=hop, path_length=length)
        translator.sends(report)
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(one, [MISSING, 9, MISSING, None, None]))]
    translator.sends(
        DtaReport(Opcode.POSTCARDING, other.to_bytes(4, "big"), bytes([0, 0, 0, 7]), hop=1, path_length=1)
    )
    psn = translator.psn
    assert translator.makes() == [write(psn, *chunk(other, [7, None, None, None, None]))]


def test_what_is_no_report_is_counted(translator: Translator) -> None:
    """Too many copies, a list or hop beyond the store, other sizes: nothing is written, all is counted."""
    control = translator.switch.control
    before = [control.counter("rejected", index) for index in range(5)]
    for report in (
        DtaReport(Opcode.KEY_WRITE, b"keys", b"data", redundancy=5),
        DtaReport(Opcode.KEY_WRITE, b"keys", b"data"),
        DtaReport(Opcode.APPEND, (8).to_bytes(4, "big"), b"data"),
        DtaReport(Opcode.KEY_INCREMENT, b"keys", bytes(8), redundancy=5),
        DtaReport(Opcode.POSTCARDING, b"keys", b"data", hop=6),
        DtaReport(Opcode.POSTCARDING, b"keys", b"data", hop=3, path_length=2),
        DtaReport(Opcode.KEY_WRITE, b"a key", b"data", redundancy=1),
        DtaReport(77, b"keys", b"data"),
    ):
        translator.sends(report)
    translator.sends(DtaReport(Opcode.KEY_WRITE, b"last", b"data", redundancy=1))
    psn = translator.psn
    (frame,) = translator.makes()
    assert read_frame(frame).packet.bth.psn == psn & 0xFFFFFF
    assert [control.counter("rejected", index) - before[index] for index in range(5)] == [2, 2, 1, 1, 2]


def test_a_nak_sets_the_packet_number(translator: Translator) -> None:
    """After a sequence NAK the next packet has the number that the NIC expects; answers end in the switch."""
    mapped = 0xFFFF << 32
    for opcode, syndrome in ((RoceOpcode.RC_ACK, 0x1F), (RoceOpcode.RC_ACK, 0x60)):
        answer = roce.Packet(Bth(opcode=opcode, queue_pair=0x99, psn=0x000123), aeth=Aeth(syndrome, 1))
        frame = write_frame(RoceFrame(answer, mapped | number(NIC_IP), mapped | number(SWITCH_IP), 4791))
        translator.nic.send(bytes.fromhex(station(IN).replace(":", "")) + frame[6:])
    fatal = roce.Packet(Bth(opcode=RoceOpcode.RC_ACK, queue_pair=0x99, psn=9), aeth=Aeth(0x62, 1))
    frame = write_frame(RoceFrame(fatal, mapped | number(NIC_IP), mapped | number(SWITCH_IP), 4791))
    frame = bytes.fromhex(station(IN).replace(":", "")) + frame[6:]
    translator.nic.send(frame)
    assert taken(translator.at) == frame
    translator.psn = 0x123
    translator.sends(DtaReport(Opcode.KEY_WRITE, b"last", b"data", redundancy=1))
    (frame,) = translator.makes()
    assert read_frame(frame).packet.bth.psn == 0x123


def test_scapy_computes_the_same_crc(translator: Translator) -> None:
    """The invariant CRC of a packet of each kind, by another implementation."""
    translator.sends(DtaReport(Opcode.KEY_WRITE, b"keys", b"data", redundancy=1))
    translator.sends(DtaReport(Opcode.KEY_INCREMENT, b"keys", bytes(8), redundancy=1))
    for frame in translator.makes(2):
        found = Ether(frame)
        assert found[scapy_roce.BTH].icrc == int.from_bytes(frame[-4:])
        found[scapy_roce.BTH].icrc = None
        assert bytes(found) == frame


# ----------------------------------------------------------------------------------------- reporters


class Reporter:
    """A reporter, whose reports leave through port `NIC`."""

    def __init__(self, switch: Bmv2) -> None:
        self.switch = switch
        self.at, self.out, self.reports = switch.raw(IN), switch.raw(OTHER), switch.raw(NIC)

    def passes(self, layers: Packet) -> bytes:
        """The report of a packet, which must leave as it came."""
        frame = bytes(Ether(src="02:00:00:00:01:00", dst=station(OTHER)) / layers)
        self.at.send(frame)
        assert taken(self.out) == frame
        return taken(self.reports)


@pytest.fixture(scope="module")
def reporter(made: Path) -> Iterator[Reporter]:
    """A DTA reporter; ports 1 to 4 of TCP choose the primitive."""
    with Bmv2("dta_reporter", made, number=1) as one:
        control = one.control
        control.insert("station", {"destination": OTHER + 0x020000000000}, "to_port", port=OTHER)
        control.default("node", "set_node", id=NODE, epoch_ns=0, queue_unit=1)
        control.clone_session(3, NIC)
        for table in ("report_ipv4", "report_ipv6"):

            def watch(port: int, action: str, table: str = table, **params: Any) -> None:
                match = {"protocol": 6, "destination_port": port}
                control.insert(table, match, action, sample=0xFFFFFFFF, **params)

            watch(1, "key_write", redundancy=2, value=0)
            watch(2, "append", number=9, value=5)
            watch(3, "key_increment", redundancy=3, value=3)
            watch(4, "postcard", ttl=64, length=3, value=0)
            watch(5, "append", number=1, value=7)
        made_one = Reporter(one)
        yield made_one
        for handle in (made_one.at, made_one.out, made_one.reports):
            handle.close()


@pytest.mark.parametrize("form", list(Form))
def test_the_reporter_speaks_all_forms(reporter: Reporter, form: Form) -> None:
    """Each primitive in each form equals `push_dta`; keys are the CRC-32 of the 5-tuple."""
    reporter.switch.control.default(
        "translator", "to_translator", base=form, source_mac=SOURCE_MAC, destination_mac=TARGET_MAC,
        source=number("10.8.0.1"), destination=number(SWITCH_IP), source_port=0xC0DE,
    )  # fmt: skip
    sequences = []
    for version in (4, 6):
        for port in (1, 2, 3, 4, 5):
            if version == 4:
                ip: Any = IP(src="10.0.0.1", dst="192.0.2.1", ttl=63)
                flow = flow_bytes(number("10.0.0.1"), number("192.0.2.1"), 6, 1234, port).tobytes()
            else:
                ip = IPv6(src="fd00::1", dst="2001:db8::2", hlim=63)
                flow = socket.inet_pton(10, "fd00::1") + socket.inet_pton(10, "2001:db8::2")
                flow += b"\x06" + (1234).to_bytes(2, "big") + port.to_bytes(2, "big")
            layers = ip / TCP(sport=1234, dport=port) / Raw(b"x" * 100)
            key, size = zlib.crc32(flow).to_bytes(4, "big"), len(bytes(layers))
            frame = reporter.passes(layers)
            found = Ether(frame)
            del found[IP].chksum
            assert bytes(found) == frame
            assert (found[UDP].sport, found[UDP].dport, found[UDP].len) == (0xC0DE, DTA_PORT, len(frame) - 34)
            sequence = (
                int.from_bytes(frame[46:50]) if form is Form.SIZED else frame[43] if form is Form.THREE else 0
            )
            node = NODE.to_bytes(4, "big")
            report = {
                1: DtaReport(Opcode.KEY_WRITE, key, node, redundancy=2),
                2: DtaReport(Opcode.APPEND, (9).to_bytes(4, "big"), (IN << 16 | OTHER).to_bytes(4, "big")),
                3: DtaReport(Opcode.KEY_INCREMENT, key, size.to_bytes(8, "big"), redundancy=3),
                4: DtaReport(Opcode.POSTCARDING, key, node, hop=2, path_length=3 * (form is Form.SIZED)),
                5: DtaReport(Opcode.APPEND, (1).to_bytes(4, "big"), key),
            }[port]
            report.sequence = sequence
            sequences.append(sequence)
            body = bytearray()
            push_dta(body, report, form)
            assert frame[42:] == bytes(body)
    if form is not Form.TWO:
        assert [sequence - sequences[0] for sequence in sequences] == list(range(10))


COLLECTORS, COPIES = 3, 4


@pytest.fixture(scope="module")
def dart(made: Path) -> Iterator[Reporter]:
    """A DART reporter to three collectors, all through one port."""
    with Bmv2("dart_reporter", made, number=2) as one:
        control = one.control
        control.insert("station", {"destination": OTHER + 0x020000000000}, "to_port", port=OTHER)
        control.default("node", "set_node", id=NODE, epoch_ns=0, queue_unit=1)
        control.default(
            "stores", "set_stores", slot_count=SLOTS, copy_count=COPIES, collector_count=COLLECTORS
        )
        control.insert("report_ipv4", {"protocol": 6}, "report", sample=0xFFFFFFFF)
        for collector in range(COLLECTORS):
            control.clone_session(16 + collector, NIC)
            control.insert(
                "collector", {"collector": collector}, "to_nic", source_mac=SOURCE_MAC,
                destination_mac=TARGET_MAC, source=number(SWITCH_IP), destination=number(NIC_IP),
                source_port=SPORT + collector, queue_pair=PAIR, operation=RoceOpcode.UC_WRITE_ONLY,
                first_psn=PSN, address=BASE, memory_key=KEY,
            )  # fmt: skip
        made_one = Reporter(one)
        yield made_one
        for handle in (made_one.at, made_one.out, made_one.reports):
            handle.close()


def test_dart_writes_one_copy_at_the_right_collector(dart: Reporter) -> None:
    """Slot, checksum and collector are those of `direct/hashing`, and every copy is drawn."""
    layout = KeyWriteLayout(slots=SLOTS, copies=COPIES, data_bytes=20, collectors=COLLECTORS, drawn=True,
                            hashing=Hashing.CRC)  # fmt: skip
    params, copies, sent = layout.params(), set(), [0] * COLLECTORS
    for port in range(1, 41):
        frame = dart.passes(IP(src="10.0.0.1", dst="192.0.2.1") / TCP(sport=1234, dport=port))
        flow = flow_bytes(number("10.0.0.1"), number("192.0.2.1"), 6, 1234, port).tobytes()
        key = key_of(zlib.crc32(flow))
        found = read_frame(frame)
        collector = int(collectors_of(params, key)[0])
        assert found.sport == SPORT + collector
        assert found.packet.reth is not None
        slot, rest = divmod(found.packet.reth.address - BASE, layout.stride)
        assert rest == 0
        copies.add(slots_of(params, key, COPIES)[0].tolist().index(slot))
        data = found.packet.payload
        check = int(checksums_of(params, key, 32)[0]).to_bytes(4, "little")
        assert 0 < int.from_bytes(data[8:12]) < 10**9  # latency
        ports = (IN << 16 | OTHER).to_bytes(4, "big")
        # latency, queue occupancy and time are those of bmv2
        wanted = check + NODE.to_bytes(4, "big") + data[8:16] + ports + data[20:]
        reth = Reth(BASE + slot * layout.stride, KEY, 24)
        packet = roce.Packet(bth(RoceOpcode.UC_WRITE_ONLY, PSN + sent[collector]), reth=reth, payload=wanted)
        mapped = 0xFFFF << 32
        ends = mapped | number(SWITCH_IP), mapped | number(NIC_IP)
        assert frame == write_frame(RoceFrame(packet, *ends, SPORT + collector))
        sent[collector] += 1
    assert copies == set(range(COPIES))
    assert all(sent)

"""RoCEv2 and RDMA-CM against packets of others, scapy's ICRC, and tshark's dissector, field by field."""

from __future__ import annotations

import ipaddress
import json
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.reader import PcapReader
from hopscope.capture.pcap.writer import PcapWriter
from hopscope.rdma.advertisement import RemoteRegion, encode
from hopscope.rdma.management import packets
from hopscope.wire.reasons import RoceReason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from hopscope.wire.roce import cm
from hopscope.wire.roce.cm import MESSAGES, Addresses, Message, Request, push_addresses
from hopscope.wire.roce.frames import RoceFrames
from hopscope.wire.roce.records import ROCE, Opcode
from oracle.roce import RoceFrame, icrc, pull_packet, push_packet, read_frame, write_frame
from support.packets.roce_cases import OPCODES, packet_of, rows_of

pytestmark = pytest.mark.kernel

ENDS = [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")]


def raws_of(batch: FrameBatch) -> list[bytes]:
    return [
        batch.arena[offset : offset + length].tobytes()
        for offset, length in batch.frames[["offset", "length"]].tolist()
    ]


def captured(path: Path) -> tuple[list[bytes], Records]:
    """Frames of a capture, and what the kernel reads."""
    (batch,) = PcapReader(str(path))
    return raws_of(batch), RoceFrames("127.0.0.1").parse(batch)


# ---------------------------------------------------------------------------------------- packets of others


@pytest.mark.shared
def test_packets_of_real_cards(shared: Path) -> None:
    """ConnectX: CNP, RoCEv1 WRITE_ONLY and ACK, RoCEv2 SEND_ONLY over IPv4 and IPv6, with their ICRCs."""
    raws, rows = captured(shared / "rocev2" / "roce_uts_vectors.pcap")
    frames = [read_frame(raw) for raw in raws]
    assert [frame.icrc for frame in frames] == [0x82FD002A, 0xE3D856BB, 0x25F0C038, 0x78F353F3, 0x3E5B743B]
    assert [frame.version for frame in frames] == [2, 1, 1, 2, 2]
    opcodes = [Opcode.CNP, Opcode.RC_WRITE_ONLY, Opcode.RC_ACK, Opcode.UC_SEND_ONLY, Opcode.UC_SEND_ONLY]
    assert [frame.packet.bth.opcode for frame in frames] == opcodes
    assert rows["reason"].tolist() == [0, RoceReason.TRUNCATED, RoceReason.TRUNCATED, 0, 0]  # no UDP in v1
    assert rows["opcode"].tolist() == [Opcode.CNP, 0, 0, Opcode.UC_SEND_ONLY, Opcode.UC_SEND_ONLY]
    for raw in raws[:1] + raws[3:]:
        damaged = bytearray(raw)
        damaged[-6] ^= 1
        frame = np.zeros(1, FRAME)
        frame["length"], frame["link"] = len(raw), Link.ETHERNET
        batch = FrameBatch(np.frombuffer(bytes(damaged), np.uint8), frame)
        assert RoceFrames("127.0.0.1").parse(batch)["reason"].tolist() == [RoceReason.BAD_ICRC]


@pytest.mark.shared
def test_eight_opcodes(shared: Path) -> None:
    """RC and UC writes, SEND, FETCH_ADD, ACK, NAK and ATOMIC_ACK: every ICRC is right, every field read."""
    raws, rows = captured(shared / "rocev2" / "rocev2_8_opcodes.pcap")
    assert not rows["reason"].any()
    assert rows["opcode"].tolist() == [0x0A, 0x2A, 0x0B, 0x04, 0x14, 0x11, 0x11, 0x12]
    assert set(rows["queue_pair"].tolist()) == {0x123456}
    assert set(rows["psn"].tolist()) == {0xABC}
    assert set(rows["partition"].tolist()) == {0xFFFF}
    assert set(rows["source_port"].tolist()) == {10_000}
    assert (rows["address"] == 0x7F0011223344).tolist() == [True] * 3 + [False, True] + [False] * 3
    assert rows["immediate"].tolist() == [0, 0, 0x01020304, 0, 0, 0, 0, 0]
    assert rows["length"].tolist() == [8, 8, 8, 0, 0, 0, 0, 0]
    assert rows["syndrome"].tolist() == [0, 0, 0, 0, 0, 0x1F, 0x60, 0x1F]
    assert rows["value"].tolist() == [0, 0, 0, 0, 5, 0, 0, 0x29]
    assert rows["payload_bytes"].tolist() == [8, 8, 8, 8, 0, 0, 0, 0]
    (batch,) = PcapReader(str(shared / "rocev2" / "rocev2_8_opcodes.pcap"))
    for raw, row in zip(raws, rows, strict=True):
        assert read_frame(raw).packet == packet_of(row, batch.arena)
        assert icrc(raw[14:-4]) == raw[-4:]


@pytest.mark.shared
def test_headers_without_icrc(shared: Path) -> None:
    """Six packets of a header test, whose ICRC was never computed: read unchecked, refused where checked."""
    raws, rows = captured(shared / "rocev2" / "tests_RoCEv2Test_expected_packets.pcap")
    heads = [read_frame(raw, check=False).packet.bth for raw in raws]
    assert [(head.opcode, head.queue_pair, head.ack_request, head.psn) for head in heads] == [
        (0x04, 0xA4107C, 1, 0x2A0872), (0x04, 0x41, 1, 2), (0x11, 0xCA1839, 0, 2), (0x04, 0xCA1839, 1, 0x3E),
        (0x11, 0x41, 0, 0x3E), (0x11, 0xCA1839, 0, 2),
    ]  # fmt: skip
    assert rows["opcode"].tolist() == [head.opcode for head in heads]
    assert (rows["reason"] == RoceReason.BAD_ICRC).all()


@pytest.mark.shared
def test_the_published_translator(shared: Path) -> None:
    """Ordinary traffic, and DTA's own packets, are no RoCEv2 packets."""
    for name in ("dta/dta_generators.pcap", "traffic/dpkt_http.pcap", "traffic/tcpreplay_test.pcap"):
        assert (captured(shared / name)[1]["reason"] == RoceReason.TRUNCATED).all()


# --------------------------------------------------------------------------------------------- scapy's ICRC


@pytest.mark.parametrize(("sender", "receiver"), ENDS)
def test_scapys_icrc(sender: str, receiver: str) -> None:
    """Every opcode that scapy names, with several payloads: its ICRC is ours, scalar and compiled."""
    roce = pytest.importorskip("scapy.contrib.roce")
    inet, inet6 = pytest.importorskip("scapy.layers.inet"), pytest.importorskip("scapy.layers.inet6")
    from scapy.layers.l2 import Ether

    rng = random.Random(1)
    batches = []
    opcodes = sorted(roce._bth_opcodes)
    assert set(opcodes) >= set(OPCODES)
    for opcode in opcodes:
        for size in (0, 16, 20, 48, 1024):
            six = ":" in sender
            outer = inet6.IPv6 if six else inet.IP
            ip = outer(src=sender, dst=receiver, **({"tc": 7, "fl": 99} if six else {"tos": 2, "id": 77}))
            bth = roce.BTH(
                opcode=opcode, dqpn=rng.getrandbits(24), psn=rng.getrandbits(24), fecn=rng.getrandbits(1),
                ackreq=rng.getrandbits(1), becn=rng.getrandbits(1), solicited=rng.getrandbits(1),
            )  # fmt: skip
            udp = inet.UDP(sport=rng.getrandbits(16), dport=4791)
            raw = bytes(
                Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
                / ip
                / udp
                / bth
                / roce.Raw(rng.randbytes(size))
            )
            assert icrc(raw[14:-4]) == raw[-4:], (opcode, size)
            frame = np.zeros(1, FRAME)
            frame["length"], frame["link"] = len(raw), Link.ETHERNET
            row = RoceFrames(receiver).parse(FrameBatch(np.frombuffer(raw, np.uint8), frame))[0]
            assert row["reason"] != RoceReason.BAD_ICRC, (opcode, size)
            assert (row["reason"] == RoceReason.UNKNOWN_OPCODE) == (opcode not in OPCODES)
            batches.append(raw)
    assert len(batches) == 5 * len(opcodes)


@pytest.mark.parametrize(("sender", "receiver"), ENDS)
def test_scapy_finds_our_icrc_right(sender: str, receiver: str) -> None:
    """Our frames of every opcode, built again by scapy, have the same ICRC."""
    roce = pytest.importorskip("scapy.contrib.roce")
    from scapy.layers.l2 import Ether

    rows, payload = rows_of(OPCODES * 3, 2, receiver)
    rows["payload_bytes"] %= 512
    for raw in raws_of(RoceFrames(sender, link=Link.ETHERNET, port=50_000).build(rows, payload)):
        packet = Ether(raw)
        assert packet[roce.BTH].icrc == int.from_bytes(raw[-4:], "big")
        packet[roce.BTH].icrc = None
        assert bytes(packet)[-4:] == raw[-4:]


# --------------------------------------------------------------------------------------- tshark's dissector


class Dissector:
    """tshark without our own dissector.

    Its heuristics see RPC over RDMA and Ethernet over InfiniBand in short SENDs, and call them malformed:
    `PLAIN` switches these two off.
    """

    PLAIN = ("--disable-protocol", "rpcordma", "--disable-protocol", "infiniband.eoib")

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self.folder = folder

    def fields(self, raws: list[bytes], *options: str) -> list[dict[str, Any]]:
        """All fields of each frame by name, the first of a name; an expert's word fails."""
        path = self.folder / "roce.pcap"
        arena = np.frombuffer(b"".join(raws), np.uint8)
        frames = np.zeros(len(raws), FRAME)
        frames["length"] = frames["wire_length"] = [len(raw) for raw in raws]
        frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
        frames["link"] = Link.ETHERNET
        with PcapWriter(path) as writer:
            writer.write(FrameBatch(arena, frames))
        command = [self.program, "-n", "-r", str(path), "-T", "json", *options]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert "alformed" not in done.stdout
        assert "_ws.expert" not in done.stdout
        out: list[dict[str, Any]] = []
        for packet in json.loads(done.stdout):
            found: dict[str, Any] = {}
            _flatten(packet["_source"]["layers"], found)
            out.append(found)
        return out


def _flatten(tree: dict[str, Any], out: dict[str, Any]) -> None:
    for name, value in tree.items():
        if isinstance(value, dict):
            _flatten(value, out)
        else:
            out.setdefault(name, value)


def number(value: str) -> int:
    """A number of tshark's: decimal, 0x…, an IPv6 address, or bytes with colons."""
    if "::" in value or value.count(":") == 7:
        return int(ipaddress.IPv6Address(value))
    return int(value.replace(":", ""), 16) if ":" in value else int(value, 0)


@pytest.fixture(scope="module")
def tshark(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Dissector:
    return Dissector(tool("tshark"), tmp_path_factory.mktemp("tshark"))


BTH = {
    "opcode": "opcode", "queue_pair": "destqp", "psn": "psn", "partition": "p_key", "solicited": "se",
    "migration": "m", "ack_request": "a",
}  # fmt: skip


@pytest.mark.parametrize(("sender", "receiver"), ENDS)
def test_tshark_reads_every_opcode(tshark: Dissector, sender: str, receiver: str) -> None:
    """Every opcode with pads of all lengths: no complaint, and every header field as we wrote it."""
    rows, payload = rows_of(OPCODES * 6, 3, receiver)
    raws = raws_of(RoceFrames(sender, link=Link.ETHERNET, port=50_000).build(rows, payload))
    shown = tshark.fields(raws, *Dissector.PLAIN)
    for raw, row, found in zip(raws, rows, shown, strict=True):
        packet = packet_of(row, payload)
        want = {f"bth.{theirs}": getattr(packet.bth, ours) for ours, theirs in BTH.items()}
        want["bth.padcnt"] = -len(packet.payload) % 4
        if packet.bth.opcode != Opcode.CNP:  # of which tshark knows no more than the BTH
            want["invariant.crc"] = int.from_bytes(raw[-4:], "big")
        if packet.reth is not None:
            want |= {"reth.va": packet.reth.address, "reth.r_key": packet.reth.key,
                     "reth.dmalen": packet.reth.length}  # fmt: skip
        if packet.atomic is not None:
            want |= {"reth.va": packet.atomic.address, "reth.r_key": packet.atomic.key}
            want |= {"atomiceth.swapdt": packet.atomic.value, "atomiceth.cmpdt": packet.atomic.compare}
        if packet.aeth is not None:
            want |= {"aeth.syndrome": packet.aeth.syndrome, "aeth.msn": packet.aeth.message}
        if packet.original is not None:
            want["atomicacketh.origremdt"] = packet.original
        if packet.deth is not None:
            want |= {"deth.q_key": packet.deth.queue_key, "deth.srcqp": packet.deth.source_queue_pair}
        if packet.immediate is not None:
            want["immdt"] = packet.immediate
        assert {name: number(found[f"infiniband.{name}"]) for name in want} == want


def test_tshark_reads_what_is_sent(tshark: Dissector) -> None:
    """What a translator and a NIC send, with all of tshark's heuristics on: no complaint."""
    rng = random.Random(4)
    kinds: list[int] = [
        Opcode.RC_WRITE_ONLY, Opcode.RC_WRITE_ONLY_IMMEDIATE, Opcode.UC_WRITE_ONLY, Opcode.RC_FETCH_ADD,
        Opcode.RC_CMP_SWAP, Opcode.RC_ACK, Opcode.RC_ATOMIC_ACK, Opcode.CNP,
    ]  # fmt: skip
    rows, payload = rows_of(kinds * 40, 5, "10.0.0.2")
    writes = (rows["opcode"] & 31 == 0x0A) | (rows["opcode"] & 31 == 0x0B)
    rows["payload_bytes"] = np.where(writes, rng.choices(range(4, 65), k=len(rows)), 0)
    rows["payload_bytes"][rows["opcode"] == Opcode.CNP] = 16
    messages = [
        message
        for count in (1, 3)
        for message in encode(RemoteRegion(f"store-{i}", i << 44, 1 << 30, i) for i in range(count))
    ]
    sends: Records = np.zeros(len(messages), ROCE)
    sends["opcode"], sends["source_lo"] = Opcode.RC_SEND_ONLY, rows["source_lo"][0]
    sends["payload_bytes"] = [len(message) for message in messages]
    sends["payload_at"] = np.cumsum(sends["payload_bytes"]) - sends["payload_bytes"]
    here = RoceFrames("10.0.0.1", link=Link.ETHERNET)
    told = here.build(sends, np.frombuffer(b"".join(messages), np.uint8))
    raws = raws_of(here.build(rows, payload)) + raws_of(told)
    assert len(tshark.fields(raws)) == len(raws)


CM: dict[str, str] = {
    "local_id": "", "service": "serviceid", "ca_guid": "localcaguid", "queue_key": "localqkey",
    "queue_pair": "localqpn", "ee_context": "localeecn", "responder_resources": "responderres",
    "initiator_depth": "initdepth", "remote_ee_context": "remoteeecn", "remote_timeout": "remoteresptout",
    "service_type": "transpsvctype", "flow_control": "e2eflowctrl", "psn": "startpsn",
    "local_timeout": "localresptout", "retries": "retrcount", "partition": "pkey", "path_mtu": "pppmtu",
    "rdc": "rdcexist", "not_ready_retries": "rnrretrcount", "cm_retries": "maxcmretr",
    "shared_receive_queue": "srq", "extended_type": "ext_transport", "remote_id": "remotecommid",
    "ack_delay": "tgtackdelay", "failover": "failoveracc", "rejected": "msgrej", "info_length": "rejinfolen",
    "reason": "reason",
}  # fmt: skip
PATH = {
    "local_lid": "locallid", "remote_lid": "remotelid", "local_gid": "localgid", "remote_gid": "remotegid",
    "traffic_class": "tfcclass", "hop_limit": "hoplim", "service_level": "sl",
    "subnet_local": "subnetlocal", "ack_timeout": "localacktout",
}  # fmt: skip
SHORT = {0x10: "req", 0x12: "rej", 0x13: "rep", 0x14: "rtu", 0x15: "dreq", 0x16: "drsp"}
NOT_SHOWN = {"info", "primary_flow_label", "primary_packet_rate", "alternate_flow_label",
             "alternate_packet_rate"}  # fmt: skip
"""`info` is shown as bytes; of the flow label and the rate tshark 4.0 masks 3 bytes with masks for 4."""


def shown_as(kind: type[Message], name: str) -> str:
    """tshark's name of a field."""
    base = f"infiniband.cm.{SHORT[kind.attribute]}"
    for ours, theirs in (("primary_", "prim_"), ("alternate_", "alt_")):
        if name.startswith(ours):
            return f"{base}.{theirs}{PATH[name.removeprefix(ours)]}"
    if name == "local_id":
        return base if kind.attribute in (0x10, 0x13) else f"{base}.localcommid"
    if name == "responder_resources" and kind.attribute == 0x13:
        return f"{base}.respres"
    if kind.attribute == 0x15 and name == "queue_pair":
        return "infiniband.cm.req.remoteqpneecn"
    return f"{base}.{CM[name]}"


def test_tshark_reads_connection_management(tshark: Dissector) -> None:
    """Each message with random fields: the management datagram's header and every field of the message."""
    rng = random.Random(6)
    messages = []
    for kind in list(MESSAGES.values()) * 8:
        fields: dict[str, Any] = {
            name: rng.getrandbits(mask.bit_length()) for name, _, mask in kind.header.shifts
        }
        if kind is Request:
            fields["service"] = 0x0123456789ABCDEF  # of a port of RDMA-CM only the port is shown
        messages.append(kind(transaction=rng.getrandbits(64), private=rng.randbytes(20), **fields))
    rows, payload = packets([(0xFD << 120 | 2, message) for message in messages], 0xFFFFF0)
    raws = raws_of(RoceFrames("fd00::1", link=Link.ETHERNET).build(rows, payload))
    for message, found in zip(messages, tshark.fields(raws), strict=True):
        assert number(found["infiniband.mad.baseversion"]) == 1
        assert number(found["infiniband.mad.mgmtclass"]) == 7
        assert number(found["infiniband.mad.classversion"]) == 2
        assert number(found["infiniband.mad.method"]) == 3
        assert number(found["infiniband.mad.attributeid"]) == message.attribute
        assert number(found["infiniband.mad.transactionid"]) == message.transaction
        assert number(found["infiniband.bth.destqp"]) == number(found["infiniband.deth.srcqp"]) == 1
        assert number(found["infiniband.deth.q_key"]) == 0x80010000
        kind = type(message)
        for name, _, _ in kind.header.shifts:
            if name not in NOT_SHOWN:
                shown = found[shown_as(kind, name)]
                assert number(shown) == getattr(message, name), (kind, name, shown)
        private = found[f"infiniband.cm.{SHORT[message.attribute]}.private"]
        assert bytes.fromhex(private.replace(":", "")).rstrip(b"\0") == message.private


def test_tshark_reads_rdma_cms_addresses(tshark: Dissector) -> None:
    """A REQ for a port of RDMA-CM: the port, versions, and both addresses of IPv4 and IPv6."""
    four = Addresses(source_port=40_000, source=0x0A000001, destination=0x0A000002)
    six = Addresses(ip_version=6, source_port=40_001, source=0xFD << 120 | 1, destination=0xFD << 120 | 2)
    requests: list[Message] = [
        Request(local_id=1, service=cm.RDMA_CM_SERVICE + 1330, private=push_addresses(one, b"own"))
        for one in (four, six)
    ]
    rows, payload = packets([(0xFFFF_0A00_0002, message) for message in requests])
    raws = raws_of(RoceFrames("10.0.0.1", link=Link.ETHERNET).build(rows, payload))
    base = "infiniband.cm.req"
    for found, addresses, shown in zip(
        tshark.fields(raws), (four, six), (("4", "10.0.0.1", "10.0.0.2"), ("6", "fd00::1", "fd00::2")),
        strict=True,
    ):  # fmt: skip
        assert number(found[f"{base}.serviceid.dport"]) == 1330
        assert number(found[f"{base}.serviceid.protocol"]) == 6
        assert number(found[f"{base}.ip_cm.ipv"]) == addresses.ip_version
        assert number(found[f"{base}.ip_cm.majv"]) == number(found[f"{base}.ip_cm.minv"]) == 0
        assert number(found[f"{base}.ip_cm.sport"]) == addresses.source_port
        version, source, destination = shown
        assert found[f"{base}.ip_cm.sip{version}"] == source
        assert found[f"{base}.ip_cm.dip{version}"] == destination
        assert found[f"{base}.ip_cm.private"].startswith("6f:77:6e:00")


def test_scalar_frames_are_what_tshark_read() -> None:
    """The scalar codec writes what the compiled one does, whose frames tshark has read above."""
    rows, payload = rows_of(OPCODES, 3, "10.0.0.2")
    raws = raws_of(RoceFrames("10.0.0.1", link=Link.ETHERNET, port=50_000).build(rows, payload))
    for raw, row in zip(raws, rows, strict=True):
        packet = packet_of(row, payload)
        assert write_frame(RoceFrame(packet, 0xFFFF_0A00_0001, 0xFFFF_0A00_0002, 50_000)) == raw
        body = bytearray()
        push_packet(body, packet)
        assert pull_packet(bytes(body)) == packet

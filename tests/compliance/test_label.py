"""INT-label as others read it: tshark with the generated dissector, and packets made by scapy."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Raw

from hopscope.capture.pcap.reader import PcapReader
from hopscope.wire.label.as_json import label_objects
from hopscope.wire.label.codec import LabelFlow, push_flow, push_label, read_labels, restore
from hopscope.wire.label.layout import LabelItem, PublishedItem
from support.packets.by_hand import ethernet, ipv4, udp
from support.packets.label_cases import probe
from support.packets.packet_cases import Packet
from support.packets.tshark import Pairs, Tshark, fields, value_of, values_of
from support.packets.wire_cases import frame_batch


@pytest.fixture(scope="module")
def tshark(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    """tshark with our dissector."""
    return Tshark(tool("tshark"), tmp_path_factory.mktemp("labels"))


def _item(rng: random.Random) -> LabelItem:
    return LabelItem(*(rng.getrandbits(width) for width in (32, 16, 16, 64, 32, 32)))


def _published(rng: random.Random) -> PublishedItem:
    return PublishedItem(*(rng.getrandbits(width) for width in (8, 8, 8, 48, 48, 32, 24, 32, 24)))


def _frames(rng: random.Random) -> list[tuple[bytes, int]]:
    """Packets of every form with labels, and datagrams of last hops; with where their labels begin."""
    out = []
    for version in (4, 6):
        for tags in (0, 1, 2):
            frame = Packet(version=version, tags=tags, options=tags == 1).frame()
            for _ in range(1 + tags):
                frame = push_label(frame, _item(rng), tracked=version == 6)
            labels = read_labels(frame)
            assert labels
            out.append((frame, labels.at))
            blocks = frame[labels.at : labels.end]
            if version == 6:
                flow = bytearray()
                a, b = (rng.getrandbits(128) if tags else 0xFFFF0A000000 | rng.getrandbits(24) for _ in "ab")
                push_flow(flow, LabelFlow(a, b, 0, 50_000 * (tags < 2), 53 * (tags < 2)))
                blocks = bytes(flow) + blocks
            out.append((ethernet(ipv4(udp(blocks * (1 + tags), 7254, sport=50_000))), 42))
    for route in ((), (4, 5)):
        frame = probe(route, specific=bool(route))
        for _ in range(7):
            frame = push_label(frame, _published(rng))
        out.append((frame, 14))
    return out


def _shown(layers: Pairs) -> list[dict[str, Any]]:
    """What the dissector says, as `label_objects` would."""
    packet, datagram = value_of(layers, "hopscope.label"), value_of(layers, "hopscope.labels")
    trees = [packet] if packet else values_of(datagram, "hopscope.label.block") if datagram else []
    out = []
    for tree in trees:
        own = fields(tree, "hopscope.label.")
        items = [fields(one, "hopscope.label.item.") for one in values_of(tree, "hopscope.label.item")]
        if len(items) == own.get("labels") and "reason" not in fields(tree, "hopscope.error."):
            out.append({"tracked": own.get("tracked", 0), "labels": items[::-1]})
            if flow := fields(value_of(tree, "hopscope.flow") or [], "hopscope.flow."):
                out[-1]["flow"] = {name.rstrip("6"): value for name, value in flow.items()}
    error = fields(packet or datagram or [], "hopscope.error.")
    if error:
        out.append({"error": (error["reason"], error["place"], error["byte"])})
    return [one for one in out if one.get("labels") != [] or "error" not in (out[-1])]


def _said(one: dict[str, Any]) -> dict[str, Any]:
    """What the decoder says, with the dissector's names."""
    if "error" in one:
        byte = int(one["error"]["detail"].rpartition("(byte ")[2][:-1])
        return {"error": (one["error"]["reason"], one["error"]["at"], byte)}
    said = {"tracked": int(one.get("tracked", False)), "labels": one["labels"]}
    return said | {"flow": one["flow"]} if one["form"] == "export" and "flow" in one else said


def test_tshark_reads_what_decode_reads(tshark: Tshark) -> None:
    """Every label of every form, and every refusal with its place, of whole, cut and changed frames."""
    rng = random.Random(7)
    whole = _frames(rng)
    frames, wire = [frame for frame, _ in whole], [len(frame) for frame, _ in whole]
    for frame, start in whole:
        frames += [frame[:size] for size in range(start + 1, len(frame), 7)]
        wire += [len(frame)] * (len(frames) - len(wire))
        for _ in range(12):
            broken = bytearray(frame)
            at = rng.choice((start + 1, start + 1, rng.randrange(start, len(frame))))
            broken[at] = rng.choice((0, 1, 2, 5, 6, 8, 255))
            frames.append(bytes(broken))
            wire.append(len(frame))
    short = bytearray(frames[0])
    short[16:18] = (20 + 20).to_bytes(2, "big")
    frames.append(bytes(short))
    batch = frame_batch(frames)
    batch.frames["wire_length"] = [*wire, len(short)]
    capture = tshark.write("labels.pcap", batch)
    ours: dict[int, list[dict[str, Any]]] = {}
    for batch in PcapReader(str(capture)):
        for one in label_objects(batch):
            ours.setdefault(one["packet"], []).append(_said(one))
    agreed = refused = 0
    for number, layers in enumerate(tshark.frames(capture)):
        said, shown = ours.get(number, []), _shown(layers)
        assert shown == said, (number, frames[number].hex())
        agreed += len(said)
        refused += "error" in said[-1] if said else 0
    assert agreed > 200
    assert refused > 80


def test_the_packet_behind_the_labels(tshark: Tshark) -> None:
    """Wireshark's own dissectors go on behind the labels, of IPv4 and of IPv6; other settings are obeyed."""
    frames = []
    for version in (4, 6):
        frame = Packet(version=version).frame()
        for node in (5, 6):
            frame = push_label(frame, LabelItem(node, egress_port=3), protocol=200, max_hop=9)
        frames.append(frame)
    capture = tshark.write("behind.pcap", frame_batch(frames))
    columns = ("-T", "fields", "-e", "udp.dstport", "-e", "hopscope.label.item.node_id")
    assert tshark.run(capture, *columns).split() == []
    lines = tshark.run(capture, *columns, label_protocol="200", label_max_hop="9").splitlines()
    assert [line.split("\t")[:2] for line in lines] == [["53000", "6,5"]] * 2
    flag = ("-T", "fields", "-e", "hopscope.label.tracked")
    assert tshark.run(capture, *flag, label_protocol="200", label_max_hop="1").split() == ["1", "1"]


def _scapy_packets() -> list[Any]:
    data = Raw(bytes(range(100)))
    four, six = IP(src="10.0.0.1", dst="10.0.1.2", id=77), IPv6(src="fd00::1", dst="fd00::2")
    tops = (UDP(sport=50_001, dport=50_002), TCP(sport=50_003, dport=50_004, flags="PA"), ICMP())
    plain = [ip / top / data for ip in (four, six) for top in tops[: 3 if ip is four else 2]]
    tagged = [Dot1Q(vlan=5) / Dot1Q(vlan=6) / one.copy() for one in plain]
    fragment = IP(src="10.0.0.1", dst="10.0.1.2", flags="MF", frag=8, proto=17) / data
    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    return [link / one for one in (*plain, *tagged, fragment)]


def test_scapy_packets_and_their_checksums(tshark: Tshark) -> None:
    """Packets of scapy come back as scapy made them; on the way their IP header is as scapy would write it,
    and Wireshark finds no wrong checksum and no wrong length.
    """
    rng = random.Random(3)
    labelled = []
    for packet in _scapy_packets():
        frame = original = bytes(packet)
        for _ in range(3):
            frame = push_label(frame, _item(rng))
            labelled.append(frame)
        assert restore(frame) == original
        again = Ether(frame)
        if IP in again:
            del again[IP].chksum, again[IP].len
        elif IPv6 in again:
            del again[IPv6].plen
        assert bytes(again) == frame
    capture = tshark.write("scapy.pcap", frame_batch(labelled))
    options = ("-o", "ip.check_checksum:TRUE", "-o", "ip.defragment:FALSE")
    text = tshark.run(capture, *options, "-T", "fields", "-e", "ip.checksum.status")
    assert set(text.split()) == {"1"}
    assert len(text.split()) == 3 * sum(IP in packet for packet in _scapy_packets())
    warned = ("-Y", "_ws.expert.severity >= 6291456 && !tcp", "-T", "fields", "-e", "_ws.expert.message")
    assert tshark.run(capture, *options, *warned).split() == []

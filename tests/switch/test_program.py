"""The programs of a switch: packets with INT as the codecs of `wire` write them, all others as they came."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.writer import PcapWriter
from hopscope.switch.layout import SwitchCount
from hopscope.switch.program import SwitchProgram
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import Carrier, Have, Hop
from oracle.insert import Form, insert_int
from support.network.switch_programs import LO, NEXT, PORT, plain, total, udp_error
from support.packets.packet_cases import Packet
from support.packets.wire_cases import frame_batch

BITMAP, HOP_BYTES = 0xEA00, 28
DIALECT = replace(DEFAULT, inserted_udp_ports=(PORT,))
SHORTEST = 54
"""Bytes of Ethernet and IPv6 headers: the kernel runs no program on less."""
EVERY = Packet(payload=b"payload!")


def hop(node: int, ingress: int) -> Hop:
    """A hop of which `ingress` saw nothing: its times are not known."""
    made = Hop(
        node_id=node, ingress_port=ingress, egress_port=LO, hop_latency=0xFFFFFFFF,
        ingress_time=(1 << 64) - 1, l2_ingress_port=ingress, l2_egress_port=LO,
    )  # fmt: skip
    made.present = Have.NODE_ID | Have.PORTS | Have.HOP_LATENCY | Have.INGRESS_TIME | Have.L2_PORTS
    return made


@pytest.mark.parametrize(("npt", "form"), [(0, {}), (1, {"port": PORT})], ids=["dscp", "port"])
def test_packets_are_those_of_the_encoder(
    load: Callable[..., SwitchProgram], npt: int, form: dict[str, int]
) -> None:
    """A source and two transits write, byte for byte, what the codecs write for these hops."""
    watch = [{"protocol": "any"}]
    switches = [load(node_id=node, watch=watch * (node == 1), **form) for node in (1, 2, 3)]
    packets = plain(tcp=not form)
    for packet in packets:
        original = frame = packet.frame()
        hops: list[Hop] = []
        for node, switch in enumerate(switches, 1):
            verdict, frame = switch.leave(frame, ingress=node + 10, egress=LO)
            hops.append(hop(node, node + 10))
            want = Form(Carrier.UDP if packet.protocol == 17 else Carrier.TCP, npt, remaining_hops=8 - node)
            assert (verdict, frame.hex()) == (
                NEXT,
                insert_int(original, hops, BITMAP, want, dialect=DIALECT).hex(),
            )
    counts = [switch.counts() for switch in switches]
    assert counts[0][SwitchCount.SOURCE] == counts[1][SwitchCount.TRANSIT] == len(packets)
    assert sum(sum(each.values()) for each in counts) == 3 * len(packets)


def test_tshark_finds_right_checksums(
    load: Callable[..., SwitchProgram], tool: Callable[..., str], tmp_path: Path
) -> None:
    """Wireshark, which shares no code with this, finds no wrong checksum or length after three switches, nor
    where only a bit of the INT was set.
    """
    switches = [load(hop_limit=limit, mtu=mtu) for limit, mtu in ((2, 1500), (2, 1500), (2, 1500), (9, 1200))]
    frames = []
    for packet in plain(tcp=False):
        frame = packet.frame()
        for switch in switches:
            _, frame = switch.leave(frame)
            frames.append(frame)
    with PcapWriter(tmp_path / "out.pcap") as writer:
        writer.write(frame_batch(frames))
    fields = ("udp.checksum.status", "ip.checksum.status", "udp.length", "_ws.malformed")
    command = [tool("tshark"), "-n", "-r", str(tmp_path / "out.pcap"), "-T", "fields"]
    command += [word for check in ("udp", "ip") for word in ("-o", f"{check}.check_checksum:TRUE")]
    command += [word for field in fields for word in ("-e", field)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(lines) == len(frames)
    for line, frame in zip(lines, frames, strict=True):
        udp, ip, length, *malformed = line.split("\t")
        is_v4 = frame[12:14] == b"\x08\x00"
        zero = frame[(40 if is_v4 else 60) :][:2] == b"\0\0"
        assert udp == (("3" if is_v4 else "4") if zero else "1"), line  # 3: none, 4: none in IPv6
        assert ip == ("1" if is_v4 else ""), line
        assert int(length) == len(frame) - (34 if is_v4 else 54)
        assert not any(malformed)


def test_limits_set_bits_alone(load: Callable[..., SwitchProgram]) -> None:
    """Beyond the hop limit, a transit sets E, and beyond the MTU, M: the packet keeps its length, and its
    checksum fits. A source leaves a packet alone that would be too long.
    """
    frame = Packet(payload=bytes(100)).frame()
    size = len(frame)
    _, first = load(hop_limit=1).leave(frame)
    for counted, bit, switch, given in (
        (SwitchCount.HOP_LIMIT, 0x04, load(), first),
        (SwitchCount.MTU, 0x02, load(mtu=len(first) - 14 + HOP_BYTES - 1), load().leave(frame)[1]),
    ):
        _, out = switch.leave(given)
        assert switch.counts()[counted] == 1
        assert out[46] ^ given[46] == bit
        assert [
            at for at, (a, b) in enumerate(zip(out, given, strict=True)) if a != b and at not in (40, 41)
        ] == [46]
        assert udp_error(out) == udp_error(given) == 0
    added = 16 + HOP_BYTES
    for mtu, counted in ((size - 15 + added, SwitchCount.LONG), (size - 14 + added, SwitchCount.SOURCE)):
        switch = load(mtu=mtu)
        _, out = switch.leave(frame)
        assert switch.counts()[counted] == 1
        assert len(out) == size + added * (counted == SwitchCount.SOURCE)


def test_what_is_not_understood_leaves_as_it_came(load: Callable[..., SwitchProgram]) -> None:
    """Each reason has its counter."""
    frame = EVERY.frame()
    fragment = bytearray(frame)
    fragment[20] = 0x20
    short = bytearray(frame)
    short[17] -= 1
    marked = replace(EVERY, dscp=0x17).frame()
    cases = (
        (SwitchCount.OTHER, replace(EVERY, protocol=1).frame()),
        (SwitchCount.UNWATCHED, replace(EVERY, protocol=6).frame()),
        (SwitchCount.OTHER, replace(EVERY, tags=1).frame()),
        (SwitchCount.OTHER, bytes(12) + b"\x08\x06" + bytes(46)),
        (SwitchCount.OTHER, bytes(12) + b"\x08\x00" + bytes(20)),
        (SwitchCount.OPTIONS, replace(EVERY, options=True).frame()),
        (SwitchCount.OPTIONS, replace(EVERY, options=True, version=6).frame()),
        (SwitchCount.FRAGMENT, bytes(fragment)),
        (SwitchCount.LENGTH, bytes(short)),
        (SwitchCount.LENGTH, replace(EVERY, trailer=b"pad").frame()),
        (SwitchCount.INT, marked),
    )
    for counted, given in cases:
        switch = load()
        assert switch.leave(given) == (NEXT, given), counted
        assert {count for count, number in switch.counts().items() if number} == {counted}
    switch = load()
    assert switch.leave(frame, gso=500)[1] == frame
    assert switch.counts()[SwitchCount.GSO] == 1


def test_the_watch_list(load: Callable[..., SwitchProgram]) -> None:
    """Prefixes of both addresses and the destination port choose the packets."""
    v4, v6 = Packet().frame(), Packet(version=6).frame()
    cases: tuple[tuple[dict[str, Any], tuple[bool, bool]], ...] = (
        ({}, (True, True)),
        ({"source": "192.0.2.0/24"}, (True, False)),
        ({"source": "0.0.0.0/0"}, (True, False)),
        ({"source": "::/0"}, (True, True)),
        ({"source": "192.0.2.2/32"}, (False, False)),
        ({"destination": "192.0.2.2/32", "port": 53_000}, (True, False)),
        ({"destination": "2001:db8::2/128"}, (False, True)),
        ({"port": 52_999}, (False, False)),
        ({"port": 52_999, "last_port": 53_000}, (True, True)),
    )
    for watch, watched in cases:
        switch = load(watch=[{"source": "203.0.113.0/24"}, watch])
        assert tuple(switch.leave(frame)[1] != frame for frame in (v4, v6)) == watched, watch
    switch = load(watch=[{"sample": 1 << 31}])
    assert switch.leave(v4)[1] == v4
    assert switch.counts()[SwitchCount.UNSAMPLED] == 1


def test_a_sample_of_flows(load: Callable[..., SwitchProgram]) -> None:
    """About one flow in so many is chosen, with all its packets, and the same ones at every switch."""
    flows = []
    for port in range(1000, 1400):
        frame = bytearray(replace(EVERY, check=False).frame())
        frame[34:36] = port.to_bytes(2, "big")
        flows.append(bytes(frame))
    chosen = []
    for node in (1, 2):
        switch = load(node_id=node, watch=[{"sample": 4, "sample_by": "flow"}])
        chosen.append([switch.leave(frame)[1] != frame for frame in flows * 2])
    assert chosen[0] == chosen[1]
    assert chosen[0][:400] == chosen[0][400:]
    assert 60 < sum(chosen[0][:400]) < 140


def test_mutants_leave_as_they_came_or_whole(load: Callable[..., SwitchProgram]) -> None:
    """Of damaged packets with and without INT, each leaves unchanged, or longer by whole words with lengths
    that fit; a checksum is wrong by as much as it was before.
    """
    random = np.random.default_rng(3)
    source, switch = load(), load()
    seeds = [packet.frame() for packet in plain() if len(packet.payload) > 20]
    seeds += [source.leave(seed)[1] for seed in seeds]
    changed = 0
    for number in range(4000):
        mutant = bytearray(seeds[number % len(seeds)])
        for _ in range(1 + number % 3):
            mutant[random.integers(12, min(len(mutant), 90))] = random.integers(256)
        if number % 7 == 0 and len(mutant) > SHORTEST:
            del mutant[random.integers(SHORTEST, len(mutant)) :]
        given = bytes(mutant)
        verdict, out = switch.leave(given)
        assert verdict == NEXT
        if out == given:
            continue
        changed += 1
        grown, l4 = len(out) - len(given), 34 if out[12:14] == b"\x08\x00" else 54
        assert grown % 4 == 0
        assert int.from_bytes(out[l4 + 4 : l4 + 6], "big") == len(out) - l4
        assert udp_error(out) == udp_error(given), given.hex()
        if l4 == 34:
            assert total(out[14:34]) % 0xFFFF == total(given[14:34]) % 0xFFFF
            assert int.from_bytes(out[16:18], "big") == len(out) - 14
        assert out[l4 + 8 + grown + 16 :] == given[l4 + 8 + 16 :] or out[l4 + 8 + grown :] == given[l4 + 8 :]
    assert changed > 1000


def test_the_note_of_ingress_changes_no_packet(load: Callable[..., SwitchProgram]) -> None:
    """What comes in goes on, whatever it is."""
    switch = load()
    for frame in (
        EVERY.frame(),
        replace(EVERY, version=6).frame(),
        replace(EVERY, protocol=6).frame(),
        bytes(14),
    ):
        assert switch.run("ingress", frame)[0] == NEXT

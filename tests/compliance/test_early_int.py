"""INT from before its standards, and INT that no dialect explains: it is decoded, or rejected by name, and
never passes for ordinary traffic. Every frame is written by hand.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest

from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from oracle.decode import decode_scalar
from support.packets.by_hand import (
    FLOW,
    Report,
    ethernet,
    group,
    int_1_0,
    int_2,
    ipv4,
    ipv6,
    outer,
    single,
    u32,
    udp,
)  # fmt: skip
from support.packets.wire_cases import assert_same, frame_batch

pytestmark = pytest.mark.kernel

PACKETS = replace(DEFAULT, name="packets", packets=True)


def hexadecimal(text: str) -> bytes:
    """Bytes; what follows # in a line is a comment."""
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


@lru_cache(16)
def _decoder(dialect: Dialect) -> Decoder:
    return Decoder(dialect, frames=4)


def decode(frame: bytes, dialect: Dialect = PACKETS) -> list[Report]:
    """The objects of a frame; compiled or not, the decoder gives the same, and so does the oracle."""
    batch = frame_batch([frame])
    plain = decode_plain(batch, dialect)
    assert_same(plain, _decoder(dialect).decode(batch))
    assert_same(plain, decode_scalar(batch, dialect))
    return list(report_objects(plain, batch, dialect))


def error(frame: bytes, dialect: Dialect = PACKETS) -> tuple[str, str]:
    """Reason and header of the only, rejected, packet."""
    (found,) = decode(frame, dialect)
    return found["error"]["reason"], found["error"]["at"]


# ------------------------------------------------------------ INT 0.4, 64-bit times, swapped mask

RECORD = hexadecimal("""
    00000006 00010002       # node, ports
    17a1b2c3d4e5f607        # ingress time, 64 bits
    17a1b2c3d4e5f700        # egress time
""")
INT_0_4 = hexadecimal("""
    01 00 0a 00             # shim: Length 10 words with itself and the tail
    40 04 08 01 00cc 0000   # version 1 in 2 bits; 4 instructions, 8 hops at most, 1 now; 0xcc00 swapped
""") + RECORD + hexadecimal("11 0035 00")  # fmt: skip


def test_int_0_4_with_64_bit_times_and_swapped_bytes() -> None:
    """`geant-dpdk-0.4` reads it."""
    (found,) = decode(ethernet(ipv4(udp(INT_0_4), dscp=0x20)), DIALECTS["geant-dpdk-0.4"])
    assert found["flow"] == FLOW
    assert found["int"]["version"] == "0.4"
    assert found["hops"] == [{
        "node_id": 6, "ingress_port": 1, "egress_port": 2,
        "ingress_time": 0x17A1B2C3D4E5F607, "egress_time": 0x17A1B2C3D4E5F700,
    }]  # fmt: skip


def test_swapped_bytes_are_named_where_they_are_not_expected() -> None:
    """All bits of 0x00cc are reserved: the reason says so, and which layout may help."""
    (found,) = decode(ethernet(ipv4(udp(INT_0_4), dscp=0x20)), PACKETS)
    assert found["error"] == {
        "reason": "unknown_instructions", "at": "int header",
        "detail": "all bits of 0x00cc are reserved: perhaps its bytes are swapped (byte 46)",
    }  # fmt: skip


# ------------------------------------------------------------ VXLAN-GPE, no P

GPE_FLAGS = pytest.mark.parametrize("flags", [0x08, 0x0C, 0x00])
INT_2015 = hexadecimal("""
    01 00 05 03             # shim: type, Length 5 words with itself, Ethernet follows
    00 01 08 02 8000 0000   # 1 instruction, 8 hops at most, 2 now
    00000007 80000006       # nodes 7 and 6; the last word has the bottom-of-stack bit
""")


def gpe(flags: int, telemetry: bytes, next_protocol: int = 5) -> bytes:
    """Ethernet, IPv4, UDP, VXLAN-GPE of network 77, INT, and a packet in a frame."""
    head = struct.pack("!BHBI", flags, 0, next_protocol, 77 << 8)
    return ethernet(ipv4(udp(head + telemetry + ethernet(ipv4(udp(b"payload"))), 4790), outer=True))


@GPE_FLAGS
def test_int_of_2015_over_vxlan_gpe(flags: int) -> None:
    """The next protocol counts whether or not the P flag (0x04) is set."""
    (found,) = decode(gpe(flags, INT_2015), DIALECTS["int-2015"])
    assert [hop["node_id"] for hop in found["hops"]] == [6, 7]
    assert found["flow"] == FLOW | {"layers": ["vxlan_gpe"]} | ({"tunnel_id": 77} if flags & 8 else {})
    assert found["int"]["version"] == "2015"


def test_ethernet_without_p_stays_ethernet() -> None:
    """A frame after VXLAN-GPE without P is read as one, whatever the unused next protocol is."""
    inner = ethernet(ipv4(udp(int_2(0x8000, [u32(9)], 1)), dscp=0x17))
    head = struct.pack("!BHBI", 0x08, 0, 5, 77 << 8)
    frame = ethernet(ipv4(udp(head + inner, 4790), outer=True))
    (found,) = decode(frame, PACKETS)
    assert found["hops"] == [{"node_id": 9}]


@GPE_FLAGS
def test_what_a_tunnel_announces_is_rejected_by_name(flags: int) -> None:
    """VXLAN-GPE says that INT follows: what does not begin like INT is rejected, not ignored."""
    assert error(gpe(flags, b"\x07" + INT_2015[1:])) == ("unknown_type", "int shim")
    assert error(gpe(flags, INT_2015[:4] + b"\xf0" + INT_2015[5:])) == ("unknown_version", "int header")


def test_what_a_port_announces_is_rejected_by_name() -> None:
    """So does a port that is INT's alone; a DSCP says it only together with lengths that agree."""
    noise = bytes.fromhex("ff") * 40
    by_port = replace(PACKETS, int_ports=(666,), tcp_ports=False)
    assert error(ethernet(ipv4(udp(noise, 666))), by_port) == ("unknown_type", "int shim")
    assert error(ethernet(ipv6(udp(noise, 666)), 0x86DD), by_port) == ("unknown_type", "int shim")
    assert error(ethernet(ipv4(udp(noise, 666))), replace(by_port, tcp_ports=True)) == (
        "unknown_type", "int shim",
    )  # fmt: skip
    assert decode(ethernet(ipv4(udp(noise), dscp=0x17)), by_port) == []
    geneve = struct.pack("!BBHI", 3, 0, 0x0800, 77 << 8) + struct.pack("!HBB", 0x0103, 9, 2) + bytes(8)
    frame = ethernet(ipv4(udp(geneve + ipv4(udp(b"payload")), 6081), outer=True))
    assert error(frame) == ("unknown_type", "int shim")


def test_what_only_a_dscp_announces_is_counted() -> None:
    """INT of an unknown version passes as ordinary traffic, and its number is known; in a report and around
    VLAN tags too. Other traffic is not counted.
    """
    unknown = int_2(0x8000, [u32(9)], 1)
    unknown = unknown[:4] + b"\x70" + unknown[5:]  # version 7
    marked, usual = ethernet(ipv4(udp(unknown), dscp=0x17)), ethernet(ipv4(udp(unknown)))
    walked = ethernet(ipv6(udp(unknown), dscp=0x17, extensions=((0, bytes(7)),)), 0x86DD)
    reported = outer(group(single(marked, flags=""), single(usual)))
    batch = frame_batch([marked, usual, walked, reported, marked])
    for decoder in (lambda: _decoder(PACKETS).decode(batch), lambda: decode_plain(batch, PACKETS)):
        for _ in range(2):
            assert decoder().unknown_int == 4


# ------------------------------------------------------------ instructions, sizes


@pytest.mark.parametrize("bitmap", [0x0010, 0x004C, 0x003E])
@pytest.mark.parametrize("version", [int_1_0, int_2])
def test_masks_of_reserved_bits_alone(bitmap: int, version: Callable[..., bytes]) -> None:
    """A hop without one known value is rejected, whether its nodes add words for the bits or nothing."""
    words = bitmap.bit_count()
    telemetry = version(bitmap, [bytes(4 * words)] * 2, words)
    assert error(ethernet(ipv4(udp(telemetry), dscp=0x17))) == ("unknown_instructions", "int header")
    telemetry = version(bitmap, [], 0)
    assert error(ethernet(ipv4(udp(telemetry), dscp=0x17))) == ("unknown_instructions", "int header")


def test_domain_specific_metadata_alone_are_no_reserved_bits() -> None:
    """A bitmap of 0 with a DS instruction names values of a domain; the hops are there."""
    telemetry = int_2(0, [bytes(8)] * 2, 2, domain=(5, 0x8000, 0))
    (found,) = decode(ethernet(ipv4(udp(telemetry), dscp=0x17)), PACKETS)
    assert len(found["hops"]) == 2


def test_a_hop_size_that_nothing_explains() -> None:
    """If the stack is a whole number of hops, it is INT of an unknown layout; otherwise ordinary traffic."""
    whole = int_1_0(0x8000, [bytes(12)] * 2, 3)
    assert error(ethernet(ipv4(udp(whole), dscp=0x17))) == ("bad_hop_size", "int header")
    odd = int_1_0(0x8000, [bytes(12), bytes(4)], 3)
    assert decode(ethernet(ipv4(udp(odd), dscp=0x17)), PACKETS) == []
    beyond = whole[:2] + bytes([60]) + whole[3:]
    assert decode(ethernet(ipv4(udp(beyond), dscp=0x17)), PACKETS) == []


def test_a_report_says_the_same() -> None:
    """Found in a report, with F or without it."""
    inner = ethernet(ipv4(udp(int_1_0(0x0010, [bytes(4)], 1)), dscp=0x17))
    for flags in ("F", ""):
        assert error(outer(group(single(inner, flags=flags))), DEFAULT) == (
            "unknown_instructions", "int header",
        )  # fmt: skip


def test_cut_at_every_byte() -> None:
    """Each beginning of such a packet is read alike by both decoders."""
    for frame in (gpe(0x08, INT_2015), ethernet(ipv4(udp(INT_0_4), dscp=0x20))):
        for size in range(len(frame)):
            decode(frame[:size], PACKETS)

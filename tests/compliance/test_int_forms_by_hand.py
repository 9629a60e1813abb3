"""INT written by hand in hexadecimal, byte by byte as each implementation or specification has it; kernel and
scalar codec must both say what it means.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hopscope.wire import layout
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import HOP, Carrier, Have, IntFlag
from support.packets.int_cases import Compiled, Result, scalar

pytestmark = pytest.mark.kernel
PAYLOAD = b"what follows INT"


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    """One for all tests."""
    return Compiled()


class Read:
    """What both decoders say of one INT header and its stack."""

    def __init__(self, result: Result) -> None:
        self.why = (Reason(result[0] >> 8).label, Place(result[0] & 255).label)
        self.at = result[1]
        self.row = result[3]
        self.hops = np.frombuffer(result[4], HOP)

    def of(self, name: str) -> list[int]:
        """A field of all hops in path order."""
        return [int(value) for value in self.hops[name]]


def read(
    compiled: Compiled, text: str, dialect: Dialect = DEFAULT, carrier: int = Carrier.UDP, report: int = 20
) -> Read:
    """Read `text`, with a payload behind it, and every prefix of it; both decoders must agree on all."""
    raw = bytes.fromhex(text) + PAYLOAD
    for cut in range(len(raw) + 1):
        one = scalar(raw, cut, cut, carrier, dialect, report)
        assert one == compiled.read(raw, cut, cut, carrier, dialect, report)
    return Read(one)


def accepted(compiled: Compiled, text: str, *more: Any, **others: Any) -> Read:
    """As `read`, and all of `text` is INT."""
    found = read(compiled, text, *more, **others)
    assert found.why == ("none", "none")
    assert found.at == len(bytes.fromhex(text))
    return found


def dialect_with(**rules: Any) -> Dialect:
    """The specifications, but for these rules."""
    return replace(DEFAULT, **rules)


# ------------------------------------------------------------------------------------------- 2015, 0.4, 0.5

NETRONOME = """01000d03 0005ff02 ec000000
    0000cafe 00000304 000002c5 0c4c3cf6 00000302  0008feed 00000008 00000111 01111111 80000009"""
"""gpe_int_2sets.pcap of open-nfpsw: VXLAN-GPE, two hops of five words."""


def test_netronome_2015(compiled: Compiled) -> None:
    """The form of 2015 over VXLAN-GPE: 31-bit values, one port to a word, bottom bit on the last."""
    found = accepted(compiled, NETRONOME, DIALECTS["int-2015"], Carrier.VXLAN_GPE, report=0)
    assert found.row["int_version"] == 1
    assert (found.row["hop_words"], found.row["remaining_hops"], found.row["int_at"]) == (5, 253, 4)
    assert found.of("node_id") == [0x8FEED, 0xCAFE]
    assert found.of("ingress_port") == [8, 0x304]
    assert found.of("hop_latency") == [0x111, 0x2C5]
    assert found.of("ingress_time") == [0x1111111, 0xC4C3CF6]
    assert found.of("egress_port") == [9, 0x302]


@pytest.mark.parametrize(("at", "value"), [(-20, 0x80), (-4, 0), (-40, 0x80)])
def test_a_misplaced_bottom(compiled: Compiled, at: int, value: int) -> None:
    """2015: a bottom-of-stack bit before the last word, or none on it."""
    raw = bytearray.fromhex(NETRONOME)
    raw[at] = value
    found = read(compiled, raw.hex(), DIALECTS["int-2015"], Carrier.VXLAN_GPE, report=0)
    assert found.why == ("bad_bottom", "int stack")
    assert found.at == len(raw) + (at if value else -4)


def test_unavailable_in_2015(compiled: Compiled) -> None:
    """All ones below the bottom bit is no value, with the bit or without; ports are null when both are."""
    text = "01000900 0003ff02 c4000000 7fffffff 00000001 7fffffff  00000002 7fffffff ffffffff"
    found = accepted(compiled, text, DIALECTS["int-2015"], Carrier.VXLAN_GPE, report=0)
    assert found.of("null") == [Have.PORTS, Have.NODE_ID]
    assert found.of("ingress_port") == [0x7FFF, 1]


GEANT_0_4 = """01001600 08060a01 fc000000
    00000001 00020003 00000004 05000006 0000000000000007 0000000000000008
    00000002 00020003 00000004 05000006 0000000000000009 000000000000000a 11003517"""


def test_geant_0_4(compiled: Compiled) -> None:
    """0.4 with 64-bit timestamps: the header counts 6 instructions, a hop takes 8 words; 22 = 1+2+2*8+1 words
    and 2 hops; C is the fifth bit.
    """
    text = GEANT_0_4.replace("01001600", "01001400").replace("08060a01", "08060a02")
    found = accepted(compiled, text, DIALECTS["geant-0.4"], report=10)
    assert (found.row["int_version"], found.row["hop_words"], found.row["remaining_hops"]) == (4, 8, 8)
    assert found.row["int_flags"] == IntFlag.COPY
    assert found.of("egress_time") == [10, 8]
    assert read(compiled, GEANT_0_4, DIALECTS["geant-0.4"], report=10).why == ("bad_length", "int stack")


def test_0_4_by_its_version(compiled: Compiled) -> None:
    """A header that begins with 0x40 is 0.4 (version 1 in two bits) in every dialect; items as in 0.5."""
    found = accepted(compiled, "01000600 44010502 80000000 00000009 00000008 11003500")
    assert (found.row["int_version"], found.row["int_flags"]) == (4, IntFlag.HOPS_EXCEEDED)
    assert found.of("node_id") == [8, 9]


def test_0_5_over_vxlan_gpe_has_no_tail(compiled: Compiled) -> None:
    """Over VXLAN-GPE and Geneve nothing follows the stack of 0.5."""
    head = "00012002 80000000 00000009 00000008"
    found = accepted(compiled, "01000503" + head, carrier=Carrier.VXLAN_GPE)
    assert (found.row["int_version"], found.of("node_id")) == (5, [8, 9])
    found = accepted(compiled, "00ab0104" + head, carrier=Carrier.GENEVE)
    assert (found.row["int_version"], found.of("node_id")) == (5, [8, 9])
    assert found.row["carrier"] == Carrier.GENEVE
    assert read(compiled, "00ab0105" + head, carrier=Carrier.GENEVE).why == ("bad_length", "int stack")


def test_intcollector_0_5(compiled: Compiled) -> None:
    """Length 0: the header's hop count tells the stack; queue and congestion words are 16 + 16, and a queue
    above 255 saturates its column.
    """
    text = "01000000 00020802 12000000 00050258 000503e8  01ff0006 ffffffff 0000000e"
    found = accepted(compiled, text, DIALECTS["intcollector"], report=5)
    assert found.of("queue_id") == [255, 5]
    assert found.of("queue_occupancy") == [6, 600]
    assert (found.of("congestion_queue_id")[1], found.of("queue_congestion")[1]) == (5, 1000)
    assert found.of("null") == [Have.QUEUE_CONGESTION, 0]
    assert read(compiled, text, report=5).why == ("bad_length", "int shim")


def test_host_int(compiled: Compiled) -> None:
    """Shim type 3: a sequence number behind the stack; the tail is there in packets, and not in reports."""
    hop = "0000000{} 00010001 00000064 00000064 "
    head = "00040202 cc000000" + hop.format(2) + hop.format(1)
    for text in (f"03000c00 {head} 0000abcd", f"03000d00 {head} 0000abcd 06005000"):
        found = accepted(compiled, text, DIALECTS["host-int"], report=5)
        assert found.of("node_id") == [1, 2]
        assert found.row["int_version"] == 5
    for length in (0x0B, 0x0E):
        text = f"0300{length:02x}00 {head} 0000abcd 06005000"
        assert read(compiled, text, DIALECTS["host-int"], report=5).why == ("bad_length", "int stack")


# ------------------------------------------------------------------------------------------------------ 1.0


def test_intcollector_1_0(compiled: Compiled) -> None:
    """Version nibble 0 is INT 1.0 in a Report 1.0; bit 6 takes 4 bytes; a Length of 0 means whole hops to the
    packet's end.
    """
    hop = "0000000{} 00050003 00000190 00050258 000002bc 5ad8a000 000503e8 00000001 "
    stack = hop.format(4) + hop.format(5) + hop.format(6)
    found = accepted(compiled, "01001b00 00000803 ff000000" + stack, DIALECTS["intcollector"], report=10)
    assert (found.row["int_version"], found.row["hop_words"]) == (10, 8)
    assert found.of("node_id") == [6, 5, 4]
    assert (found.of("queue_id")[2], found.of("queue_occupancy")[2]) == (5, 600)
    found = read(compiled, "01000000 00000803 ff000000" + stack, DIALECTS["intcollector"], report=10)
    assert found.of("node_id") == [6, 5, 4]
    assert found.at == 12 + 3 * 32


@pytest.mark.parametrize(
    ("words", "times"),
    [("06", "00000007 00000008"), ("08", "0000000000000007 0000000000000008")],
)
def test_geant_timestamps(compiled: Compiled, words: str, times: str) -> None:
    """Of two item tables the one is used whose hop size is the header's."""
    length = f"{3 + int(words):02x}"
    hop = f"00000001 00020003 00000004 05000006 {times}"
    found = accepted(compiled, f"0100{length}00 1000{words}05 fc000000 {hop}", DIALECTS["geant"], report=10)
    assert (found.of("ingress_time"), found.of("egress_time")) == ([7], [8])
    assert (found.of("queue_id"), found.of("queue_occupancy")) == ([5], [6])


@pytest.mark.parametrize("dialect", [DEFAULT, dialect_with(swapped=True), dialect_with(reversed=True)])
def test_bitmaps(compiled: Compiled, dialect: Dialect) -> None:
    """The row holds what the bitmap means, however the wire has it."""
    bitmap = "00c0" if dialect.swapped else "0003" if dialect.reversed else "c000"
    found = accepted(compiled, f"01000500 10000205 {bitmap}0000 00000001 00020003", dialect)
    assert found.row["instructions"] == 0xC000
    assert (found.of("node_id"), found.of("egress_port")) == ([1], [3])


@pytest.mark.parametrize(
    ("head", "sizes", "bitmap", "version"),
    [
        ("01000{0}00 10000{1}05", 3, "8022", 10),
        ("10{0:>02}0000 20000{1}05", 3, "8022", 20),
        ("01000{0}00 000{1}0201", 4, "8081", 5),
    ],
)
def test_reserved_bits(compiled: Compiled, head: str, sizes: int, bitmap: str, version: int) -> None:
    """A reserved bit takes 4 bytes of ones in each hop, or none at all."""
    behind = {10: "0000", 20: "0000 00000000", 5: "0000"}[version]
    tail = "11003500" if version == 5 else ""
    for words, hop in ((3, "00000001 ffffffff ffffffff"), (1, "00000001")):
        text = head.format(sizes + words, words) + bitmap + behind + hop + tail
        found = accepted(compiled, text)
        assert (found.row["int_version"], found.row["hop_words"]) == (version, words)
        assert (found.of("node_id"), found.of("present")) == ([1], [Have.NODE_ID])
    text = head.format(sizes + 2, 2) + bitmap + behind + "00000001 ffffffff" + tail
    assert read(compiled, text).why == ("bad_hop_size", "int header")


def test_1_0_over_geneve_and_vxlan_gpe(compiled: Compiled) -> None:
    """1.0: over Geneve the option's length plays the shim's role; next protocol is in the shim of GPE."""
    head = "10000105 80000000 00000009 00000008"
    assert accepted(compiled, "00ab0104" + head, carrier=Carrier.GENEVE).of("node_id") == [8, 9]
    assert accepted(compiled, "01000503" + head, carrier=Carrier.VXLAN_GPE).of("node_id") == [8, 9]
    assert read(compiled, "00ab0204" + head, carrier=Carrier.GENEVE).why == ("unsupported", "int shim")
    assert read(compiled, "00ab0404" + head, carrier=Carrier.GENEVE).why == ("unknown_type", "int shim")


# ------------------------------------------------------------------------------------------------------ 2.x

STACK_2 = "20000105 8000{} 00000009 00000008"


@pytest.mark.parametrize(
    ("shim", "carrier"),
    [
        ("10050000", Carrier.TCP), ("10050000", Carrier.UDP_INSERTED), ("10050800", Carrier.GRE),
        ("1f050800", Carrier.GRE), ("10058003", Carrier.VXLAN_GPE), ("1f050001", Carrier.VXLAN_GPE),
        ("01030105", Carrier.GENEVE), ("010301e5", Carrier.GENEVE),
    ],
)  # fmt: skip
def test_2_1_behind_every_carrier(compiled: Compiled, shim: str, carrier: Carrier) -> None:
    """INT-MD 2.x behind each carrier's shim, with its reserved bits set too."""
    found = accepted(compiled, shim + STACK_2.format("0000 00000000"), carrier=carrier)
    assert (found.row["int_version"], found.row["carrier"], found.row["npt"]) == (20, carrier, 0)
    assert found.of("node_id") == [8, 9]


def test_source_only_metadata(compiled: Compiled) -> None:
    """What the source alone adds lies at the bottom, told by DS Flags alone; without them it is an error."""
    text = "10080000 20000205 a0000007 00004000 00000009 00000090 00000008 00000080 aabbccdd"
    found = accepted(compiled, text)
    assert (found.of("node_id"), found.of("hop_latency")) == ([8, 9], [0x80, 0x90])
    assert read(compiled, text.replace("00004000", "00000000")).why == ("bad_length", "int stack")


def test_domain_specific_metadata(compiled: Compiled) -> None:
    """Behind the baseline of each hop, then what the source alone adds; the checksum complement is last."""
    text = """100a0000 20000305 80010007 80004000
        00000009 d0000001 c0000009  00000008 d0000002 50000001 c0000008"""
    found = accepted(compiled, text)
    assert (found.of("node_id"), found.of("checksum_complement")) == ([8, 9], [0xC0000008, 0xC0000009])
    assert [found.row[name] for name in ("domain_id", "ds_instruction", "ds_flags")] == [7, 0x8000, 0x4000]
    assert read(compiled, text.replace("80004000", "00004000")).why == ("bad_hop_size", "int header")


def test_cablelabs(compiled: Compiled) -> None:
    """Length counts the shim, E is two bits further right, the source adds 8 bytes to hops of a word."""
    text = "1808 0006 20000109 8000 5453 8000 4000 00000003 00000002 020000000001 0000"
    found = accepted(compiled, text, DIALECTS["cablelabs"])
    assert found.of("node_id") == [2, 3]
    assert (found.row["int_flags"], found.row["npt"]) == (0, 2)
    found = accepted(compiled, text.replace("20000109", "21000109"), DIALECTS["cablelabs"])
    assert found.row["int_flags"] == IntFlag.HOPS_EXCEEDED
    found = accepted(compiled, "1805 0006 20800109 8000 5453 8000 4000 00000003", dialect_with(
        length_with_shim=True, md_shifts=(25, 24, 23)))  # fmt: skip
    assert (found.of("node_id"), found.row["int_flags"]) == ([3], IntFlag.MTU_EXCEEDED)
    text = "1805 0006 20800109 8000 5453 8000 4000 00000003"
    assert read(compiled, text, DIALECTS["cablelabs"]).why == ("bad_length", "int stack")


def test_elavinal(compiled: Compiled) -> None:
    """Reversed bits, and DS fields in the order flags, instruction, id."""
    found = accepted(
        compiled, "10050017 20000209 0003 0001 0000 0007 00000001 00020003", DIALECTS["elavinal"]
    )
    assert found.row["instructions"] == 0xC000
    assert [found.row[name] for name in ("ds_flags", "ds_instruction", "domain_id")] == [1, 0, 7]
    assert (found.of("ingress_port"), found.of("egress_port")) == ([2], [3])


def test_mandaryoshi(compiled: Compiled) -> None:
    """Shim type 3 in front of an INT-MD header."""
    found = accepted(compiled, "30045c00 20000109 8000 0000 0000 0000 00000005", DIALECTS["mandaryoshi"])
    assert (found.row["int_mode"], found.of("node_id")) == (1, [5])


def test_scapy_default_version(compiled: Compiled) -> None:
    """Scapy's header has version 0 unless told otherwise."""
    text = "10040000 00000109 8000 0000 0000 0000 00000005"
    assert accepted(compiled, text, DIALECTS["scapy"], report=0).of("node_id") == [5]
    assert read(compiled, text, report=0).why == ("unknown_version", "int header")


# ------------------------------------------------------------------------------------------------------- MX


def test_mx(compiled: Compiled) -> None:
    """INT-MX has no hops; D is read, and what the source adds by DS Flags is skipped."""
    found = accepted(compiled, "30030000 28000000 ff000007 00000000")
    assert (found.row["int_mode"], found.row["instructions"]) == (3, 0xFF00)
    assert (found.row["hop_words"], found.row["int_flags"]) == (0, IntFlag.DISCARD)
    assert len(found.hops) == 0
    found = accepted(compiled, "30050000 20000000 ff000007 00004000 aaaaaaaa bbbbbbbb", carrier=Carrier.GRE)
    assert (len(found.hops), found.row["ds_flags"]) == (0, 0x4000)
    assert read(compiled, "30030000 10000000 ff000007 00000000").why == ("unknown_version", "int header")
    assert read(compiled, "30020000 20000000 ff000007 00000000").why == ("bad_length", "int shim")


def test_laofan13(compiled: Compiled) -> None:
    """The node's own metadata behind the MX header are one hop; too short a record is an error."""
    text = "300e5c00 20000000 ff00 0000 0000 0000 " + (
        "00000007 00010002 00000064 00000005 0000000000000001 0000000000000002 0000000300000004 00000000"
    )
    found = accepted(compiled, text, DIALECTS["laofan13"])
    assert (found.row["int_mode"], found.row["hop_words"]) == (3, 11)
    assert (found.of("node_id"), found.of("egress_time"), found.of("l2_egress_port")) == ([7], [2], [4])
    assert found.of("present") == [0xFF]
    short = text.replace("300e", "300d")
    assert read(compiled, short, DIALECTS["laofan13"]).why == ("bad_length", "int stack")
    assert len(accepted(compiled, text).hops) == 0


def test_destination_type(compiled: Compiled) -> None:
    """Destination-type INT has no defined contents."""
    for shim in ("02000300", "20030000"):
        assert read(compiled, shim + bytes(12).hex()).why == ("unsupported", "int shim")


def test_more_than_64_hops(compiled: Compiled) -> None:
    """65 hops are refused in every form."""
    stack = bytes(4 * 65).hex()
    for text, carrier in (("01004400 10000105 80000000", 2), ("10440000 20000105 80000000 00000000", 3)):
        assert read(compiled, text + stack, carrier=carrier).why == ("too_many_hops", "int stack")
    text = "01000000 00000105 80000000"
    found = read(compiled, text + stack, DIALECTS["intcollector"], report=10)
    assert found.why == ("too_many_hops", "int stack")


def test_wide_values_saturate(compiled: Compiled) -> None:
    """A dialect may put wide items where the specification has narrow ones, and the other way round."""
    items = (layout.INGRESS_32, *layout.HOP_2_0[1:3], layout.QUEUE_8_19, *layout.HOP_2_0[4:])
    dialect = dialect_with(items=((layout.INT_2_0, items),))
    found = accepted(compiled, "10050000 20000205 9000 0000 0000 0000 00000007 07ffffff", dialect)
    assert (found.of("ingress_time"), found.of("node_id")) == ([7], [0])
    assert (found.of("queue_id"), found.of("queue_occupancy")) == ([7], [0x7FFFF])

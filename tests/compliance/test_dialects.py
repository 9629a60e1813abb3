"""One frame by hand for each dialect, as its implementation sends it: read right under its dialect, refused
or read as something else under `spec`, and by both decoders alike.
"""

from __future__ import annotations

from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from hopscope.capture.pcap.reader import PcapReader
from hopscope.wire import layout
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import PlainDecoder, decode_plain
from hopscope.wire.dialect import DIALECTS
from support.packets.by_hand import FLOW, Report, ethernet, ipv4, outer, pcap, tcp, u32, u64, udp

pytestmark = pytest.mark.kernel

OPTIONS = bytes.fromhex("0101080a0000000100000002")
"""12 bytes of TCP options."""


@lru_cache(64)
def _decoder(name: str) -> Decoder:
    return Decoder(DIALECTS[name], frames=4)


def decode(name: str, frame: bytes) -> list[Report]:
    """The objects of a frame under a dialect; both decoders must give the same."""
    found: list[Report] = []
    for batch in PcapReader(BytesIO(pcap([frame]))):
        plain, compiled = decode_plain(batch, DIALECTS[name]), _decoder(name).decode(batch)
        assert plain.reports.tobytes() == compiled.reports.tobytes()
        assert plain.hops.tobytes() == compiled.hops.tobytes()
        assert plain.other == compiled.other
        found += report_objects(plain, batch, DIALECTS[name])
    return found


def one(name: str, frame: bytes) -> Report:
    """The object of the only report, which must be none under `spec`, or another one."""
    (found,) = decode(name, frame)
    assert "error" not in found, found["error"]
    assert found not in decode("spec", frame)
    return found


def hexadecimal(text: str) -> bytes:
    """Bytes; what is behind # in a line is a comment."""
    return bytes.fromhex("".join(line.split("#")[0] for line in text.splitlines()))


REPORT_1_0 = hexadecimal("""
    14 00 00 40     # Ver 1, Length 4, F
    00000009 00000005 5ad88132      # switch, sequence, time
""")


def report_1_0(inner: bytes, first: str = "14000040") -> bytes:
    """A Report 1.0 whose first word is given, on an Ethernet frame."""
    return outer(bytes.fromhex(first) + REPORT_1_0[4:] + ethernet(inner))


# --------------------------------------------------------------------------------------------- INTCollector


def test_intcollector_0_5() -> None:
    """Report 0.5 as version 1, DSCP 0, a shim's Length of 0: the header's counts tell; queue words 16+16."""
    telemetry = hexadecimal("""
        01 00 00 00                 # shim, Length 0
        00 08 08 02 ff00 0000       # Ver 0, InsCnt 8, 8 hops at most, 2 now
        00000004 00020003 00000190 00050258 000002bc 5ad9f940 000503e8 00000001
        00000005 00020003 00000004 00050006 00000007 5ad9f941 0005000a 00000001
        00 0000 0e                  # tail
    """)
    head = hexadecimal("10 20 00 00 00000000 5ad88132")
    found = one("intcollector", outer(head + ethernet(ipv4(udp(telemetry))), 54321))
    assert (found["report"]["version"], found["report"]["ingress_time"]) == ("0.5", 1524138290)
    assert found["flow"] == FLOW
    assert found["hops"][1] == {
        "node_id": 4, "ingress_port": 2, "egress_port": 3, "hop_latency": 400,
        "queue_id": 5, "queue_occupancy": 600, "queue_congestion": 1000,
        "ingress_time": 700, "egress_time": 1524234560, "tx_utilization": 1,
    }  # fmt: skip
    assert [hop["node_id"] for hop in found["hops"]] == [5, 4]


def test_intcollector_1_0() -> None:
    """Report 1.0 with Length 1, INT 1.0 with version 0, bit 6 in 4 bytes: 8 words for 0xFF00."""
    telemetry = hexadecimal("""
        01 00 0b 00                 # shim, Length 3 + 8
        00 00 08 03 ff00 0000       # Ver 0, HopML 8, 3 hops may follow
        00000004 00050003 00000190 00050258 000002bc 5ad9f940 000503e8 00000001
    """)
    found = one("intcollector", report_1_0(ipv4(udp(telemetry)), "11000040"))
    assert (found["report"]["version"], found["report"]["node_id"]) == ("1.0", 9)
    assert found["int"]["version"] == "1.0"
    assert found["hops"] == [{
        "node_id": 4, "ingress_port": 5, "egress_port": 3, "hop_latency": 400,
        "queue_id": 5, "queue_occupancy": 600, "ingress_time": 700, "egress_time": 1524234560,
        "l2_ingress_port": 5, "l2_egress_port": 1000, "tx_utilization": 1,
    }]  # fmt: skip


def test_intcollector_reads_in_front_of_tcp_options() -> None:
    """Its packets have no TCP options, and it reads INT behind 20 bytes of TCP."""
    telemetry = hexadecimal("01 00 04 00 00 00 01 03 8000 0000 00000004")
    segment = tcp(telemetry + OPTIONS + b"payload", b"")
    segment = segment[:12] + b"\x80" + segment[13:]  # header length with the options
    (found,) = decode("intcollector", report_1_0(ipv4(segment, 6), "11000040"))
    assert found["hops"] == [{"node_id": 4}]


# ---------------------------------------------------------------------------------------------------- GEANT

GEANT_RECORD = hexadecimal("""
    00000006 00010002 0000000f 07000258     # node, ports, latency, queue 8+24
    17a1b2c3d4e5f607 17a1b2c3d4e5f700       # timestamps, 64 bits
    00000000 00000000                       # bit 6 in 4 bytes, utilisation
""")
GEANT_HOP = {
    "node_id": 6, "ingress_port": 1, "egress_port": 2, "hop_latency": 15, "queue_id": 7,
    "queue_occupancy": 600, "ingress_time": 0x17A1B2C3D4E5F607, "egress_time": 0x17A1B2C3D4E5F700,
    "l2_ingress_port": 0, "l2_egress_port": 0, "tx_utilization": 0,
}  # fmt: skip


def test_geant_64() -> None:
    """INT 1.0 of a switch: 0xFF00 takes 10 words, the reserved bits are a sequence number."""
    telemetry = hexadecimal("01 00 0d 00  10 00 0a 05 ff00 0007") + GEANT_RECORD
    found = one("geant", report_1_0(ipv4(udp(telemetry), dscp=0x20)))
    assert found["int"]["hop_words"] == 10
    assert found["hops"] == [GEANT_HOP]


GENERATED = hexadecimal("""
    01 00 0b 00  00 00 08 03 ff00 0000      # shim, Ver 0, HopML 8
    00000006 00010002 0000000f 05ab0258 000002bc 00003b91 000283e8 00000001
""")


def test_geant_32() -> None:
    """Its generator: Length 1, version 0, 32-bit timestamps, and the specification's queue word."""
    (hop,) = one("geant", report_1_0(ipv4(udp(GENERATED)), "11000040"))["hops"]
    assert (hop["queue_id"], hop["queue_occupancy"]) == (5, 0xAB0258)
    assert (hop["egress_time"], hop["l2_ingress_port"], hop["l2_egress_port"]) == (0x3B91, 2, 0x83E8)


def test_geant_collector() -> None:
    """Its collector takes the low 16 bits for the queue's occupancy."""
    (hop,) = one("geant-collector", report_1_0(ipv4(udp(GENERATED)), "11000040"))["hops"]
    assert (hop["queue_id"], hop["queue_occupancy"]) == (5, 600)


def test_geant_0_4() -> None:
    """The header counts 8 instructions, which take 10 words; the tail's DSCP is in the low bits."""
    telemetry = hexadecimal("01 00 0e 00  00 08 0a 01 ff00 0000") + GEANT_RECORD + hexadecimal("11 0035 20")
    found = one("geant-0.4", report_1_0(ipv4(udp(telemetry, 9999), dscp=0x20)))
    assert found["int"]["version"] == "0.4"
    hop = {key: value for key, value in GEANT_HOP.items() if not key.startswith("l2_")}
    assert found["hops"] == [hop | {"queue_congestion": 0}]
    assert found["flow"] == FLOW


def test_geant_dpdk() -> None:
    """A packet, no report: the bitmap's bytes are swapped, a reserved bit is set."""
    telemetry = hexadecimal("""
        01 00 09 00  10 01 06 ff 00cc 0001
        00000006 00010002 17a1b2c3d4e5f607 17a1b2c3d4e5f700
    """)
    found = one("geant-dpdk", ethernet(ipv4(udp(telemetry), dscp=0x20)))
    assert "report" not in found
    assert found["int"]["instructions"] == "0xcc00"
    keys = ("node_id", "ingress_port", "egress_port", "ingress_time", "egress_time")
    assert found["hops"] == [{key: GEANT_HOP[key] for key in keys}]


def test_geant_dpdk_0_4() -> None:
    """A packet with INT 0.4: 4 instructions of 6 words, their bitmap's bytes swapped, a tail."""
    telemetry = hexadecimal("""
        01 00 0a 00  40 04 08 01 00cc 0000
        00000006 00010002 17a1b2c3d4e5f607 17a1b2c3d4e5f700
        11 0035 00
    """)
    found = one("geant-dpdk-0.4", ethernet(ipv4(udp(telemetry, 9999), dscp=0x20)))
    assert found["int"]["version"] == "0.4"
    assert found["flow"] == FLOW
    keys = ("node_id", "ingress_port", "egress_port", "ingress_time", "egress_time")
    assert found["hops"] == [{key: GEANT_HOP[key] for key in keys}]


# -------------------------------------------------------------------------------------- Tofino, bmv2 and BPF


def test_amlight() -> None:
    """F=0 and yet INT, between TCP and its options, in a frame with a VLAN tag; no hop latency ever."""
    telemetry = hexadecimal("""
        01 00 09 5c  10 00 06 09 fc00 0000
        00000007 000a000b ffffffff 05ffffff 00000064 00000096
    """)
    segment = tcp(telemetry + OPTIONS, b"")
    segment = segment[:12] + b"\x80" + segment[13:]
    frame = outer(
        bytes.fromhex("14000000") + REPORT_1_0[4:] + ethernet(ipv4(segment, 6, 0x17), tags=(0x8100,))
    )
    found = one("amlight", frame)
    assert found["report"]["tracked"] is False
    assert found["hops"] == [{
        "node_id": 7, "ingress_port": 10, "egress_port": 11, "hop_latency": None,
        "queue_id": 5, "queue_occupancy": 0xFFFFFF, "ingress_time": 100, "egress_time": 150,
    }]  # fmt: skip


def md_2_0(first: str, record: bytes, bitmap: int, words: int) -> bytes:
    """Shim of which the first byte and the last two are given, INT 2.x and one hop."""
    shim = bytes.fromhex(first[:2]) + bytes([3 + len(record) // 4]) + bytes.fromhex(first[2:])
    return shim + u32(0x20000000 | words << 8 | 9, bitmap << 16, 0) + record


RECORD_2_0 = u32(7, 0x10002, 30, 0x05000258) + u64(1000, 1030) + u32(8, 9, 70)
HOP_2_0 = {
    "node_id": 7, "ingress_port": 1, "egress_port": 2, "hop_latency": 30, "queue_id": 5,
    "queue_occupancy": 600, "ingress_time": 1000, "egress_time": 1030, "l2_ingress_port": 8,
    "l2_egress_port": 9, "tx_utilization": 70,
}  # fmt: skip


def test_bmv2() -> None:
    """Lengths of the report 0, the original DSCP in the shim's first 6 bits, INT in front of TCP options."""
    head = hexadecimal("""
        20 40 00 2a 00000007        # group: hw_id 1, sequence 42, node 7
        13 00 00 20                 # INT, Ethernet, lengths 0, F
        0000 0000 0000 0000         # main contents
    """)
    segment = tcp(md_2_0("10b800", RECORD_2_0, 0xFF00, 11) + OPTIONS, b"")
    segment = segment[:12] + b"\x80" + segment[13:]
    found = one("bmv2", outer(head + ethernet(ipv4(segment, 6, 0x17)), 1234))
    assert found["report"]["sequence"] == 42
    assert found["hops"] == [HOP_2_0]


MX_HEAD = hexadecimal("""
    10 40 00 00 00000007            # Ver 1, though the rest is that of 2.0
    14 00 00 30                     # INT, "IPv4", lengths 0, F and I
    0000 0000 0000 0000
""")


@pytest.mark.parametrize("name", ["laofan13", "mandaryoshi-mx"])
def test_mx_of_bmv2_and_tofino(name: str) -> None:
    """Version 1 with the layout of 2.0, Ethernet under InType 4, the node's metadata behind the MX header."""
    telemetry = hexadecimal("30 0e b800  20000000 ff00 0000 0000 0000") + RECORD_2_0
    found = one(name, outer(MX_HEAD + ethernet(ipv4(udp(telemetry), dscp=0x17)), 1234))
    assert (found["report"]["version"], found["report"]["intermediate"]) == ("2.0", True)
    assert found["int"]["mode"] == "mx"
    assert found["hops"] == [HOP_2_0]
    assert found["flow"] == FLOW


def test_mandaryoshi() -> None:
    """INT-MD 2.1: Ethernet right behind the group header, and a shim whose type says MX."""
    head = hexadecimal("20 40 00 00 00000007")
    frame = outer(head + ethernet(ipv4(udp(md_2_0("30b800", RECORD_2_0, 0xFF00, 11)), dscp=0x17)), 1234)
    found = one("mandaryoshi", frame)
    assert (found["report"]["version"], found["report"]["node_id"]) == ("2.0", 7)
    assert found["int"]["mode"] == "md"
    assert found["hops"] == [HOP_2_0]
    for cut in range(len(frame) - 30, len(frame)):  # the datagram says that there was more
        assert decode("mandaryoshi", frame[:cut])[0]["error"]["reason"] == "truncated"


def test_mandaryoshi_1_0() -> None:
    """INT-MD 1.0 is the specification's."""
    telemetry = hexadecimal("01 00 05 00  10 00 02 05 a000 0000 00000007 0000001e")
    (found,) = decode("mandaryoshi", report_1_0(ipv4(udp(telemetry), dscp=0x17), "14000041"))
    assert found["hops"] == [{"node_id": 7, "hop_latency": 30}]


def test_elavinal() -> None:
    """A packet: bit 0 of the bitmap is the last, and the order of the DS fields is the other way round."""
    telemetry = hexadecimal("""
        10 0f 002e              # shim: the DSCP in the low 6 bits
        2000 0c 09              # Ver 2, HopML 12
        01ff 0003 0002 0001     # all nine, DS flags, DS instruction, domain
    """)
    found = one("elavinal", ethernet(ipv4(udp(telemetry + RECORD_2_0 + u32(0x06000011)), dscp=0x17)))
    assert found["int"]["instructions"] == "0xff80"
    assert {key: found["int"][key] for key in ("domain_id", "ds_instruction", "ds_flags")} == {
        "domain_id": 1, "ds_instruction": "0x0002", "ds_flags": "0x0003",
    }  # fmt: skip
    assert found["hops"] == [HOP_2_0 | {"buffer_id": 6, "buffer_occupancy": 17}]


def test_scapy() -> None:
    """Packets on a port: NPT 2 with the protocol in the first byte, version 0; NPT 1 over TCP too."""
    header = hexadecimal("0000 02 05 a000 0000 0000 0000") + u32(7, 30)
    added = udp(hexadecimal("18 05 0600") + header + tcp(b"payload"), 0x4568)
    found = one("scapy", ethernet(ipv4(added)))
    assert (found["int"]["npt"], found["flow"]) == (2, FLOW | {"proto": 6})
    assert found["hops"] == [{"node_id": 7, "hop_latency": 30}]
    segment = tcp(hexadecimal("14 05 0035") + header + b"payload", dport=0x4568)
    found = one("scapy", ethernet(ipv4(segment, 6)))
    assert (found["int"]["npt"], found["flow"]) == (1, FLOW | {"proto": 6})


def test_cablelabs() -> None:
    """A header of 24 bytes with lengths that say nothing, D, E and M two bits lower, the source's MAC."""
    head = hexadecimal("""
        20 00 00 40 00000003        # Ver 2, sequence 1 above 6 bits of pad, node 3
        04 0a 09 00                 # RepType 0, InType 4, lengths that are none of this report
        0000 5453 0000 0000         # main contents, though RepType 0 has none
        00000000                    # one more word
    """)
    telemetry = hexadecimal("""
        18 09 00 11                 # NPT 2, Length with the shim: 1 + 3 + 5, UDP
        21 00 01 08                 # Ver 2, Rep 0, E, HopML 1, 8 hops may follow
        8000 5453 8000 4000
        00000003 00000002           # newest first
        00000001 0a0b0c0d0e0f 0000  # the source, its MAC address
    """)
    frame = outer(head + ethernet(ipv4(udp(telemetry + udp(b"payload"), 555))), 556)
    found = one("cablelabs", frame)
    assert (found["report"]["kind"], found["report"]["sequence"]) == ("int", 64)
    assert (found["int"]["hops_exceeded"], found["int"]["mtu_exceeded"]) == (True, False)
    assert [hop["node_id"] for hop in found["hops"]] == [1, 2, 3]
    assert found["flow"] == FLOW


def test_host_int() -> None:
    """A latency report: the sink's node id, IPv4, a shim of type 3, and a sequence number for a tail."""
    head = hexadecimal("""
        04 20 00 00 0000002a 5ad88132   # NProto 4, F
        00000009                        # sink
    """)
    telemetry = hexadecimal("""
        03 00 0c 00                     # shim: 1 + 2 + 8 + 1
        00 04 02 02 cc00 0000
        00000009 00030004 000003e8 000003e8     # the sink first
        00000008 00010002 00000064 00000064
        0000002a                        # the flow's sequence number
    """)
    found = one("host-int", outer(head + ipv4(udp(telemetry))))
    assert (found["report"]["kind"], found["report"]["tracked"], found["flow"]) == ("int", True, FLOW)
    assert [(hop["node_id"], hop["ingress_time"]) for hop in found["hops"]] == [(8, 100), (9, 1000)]


def test_host_int_drop_summary() -> None:
    """A drop summary: 24 bytes, then IPv4 and UDP with addresses and ports alone, all else 0."""
    head = hexadecimal("""
        03 a0 00 00 0000002b 5ad88132   # NProto 3, D and F
        00000008 00000009 0001 0004 5ad88131 0000002a 00000003
    """)
    ip = bytearray(ipv4(udp(b"")))
    ip[2:9], ip[22 + 2 :] = bytes(7), bytes(4)
    found = one("host-int", outer(head + ip))
    assert (found["report"]["kind"], found["report"]["dropped"]) == ("drop", True)
    assert found["flow"] == FLOW
    assert "int" not in found


LOCAL = hexadecimal("00000007 00010002 05f80258 00000096")


def test_fabric_tna() -> None:
    """A postcard: occupancy has 19 bits, and F does not mean that INT follows, whatever the DSCP."""
    head = hexadecimal("02 20 00 01 0000002a 00000064") + LOCAL
    found = one("fabric-tna", outer(head + ethernet(ipv4(udp(bytes(40)), dscp=0x17))))
    assert found["report"]["metadata"] == {
        "ingress_port": 1, "egress_port": 2, "queue_id": 5, "queue_occupancy": 600, "egress_time": 150,
    }  # fmt: skip
    assert (found["report"]["queue_id"], found["flow"]) == (5, FLOW)
    assert "int" not in found


def test_h3c() -> None:
    """INT behind a probe marker."""
    telemetry = hexadecimal("aaaaaaaabbbbbbbb  01 00 05 00  10 00 02 05 a000 0000 00000007 0000001e")
    found = one("h3c", ethernet(ipv4(udp(telemetry))))
    assert found["hops"] == [{"node_id": 7, "hop_latency": 30}]


def test_int_0_4() -> None:
    """Two bits of version: five reserved bits behind, and a tail."""
    telemetry = hexadecimal("01 00 06 00  00 02 08 01 a000 0000 00000007 0000001e 11 0035 00")
    found = one("int-0.4", ethernet(ipv4(udp(telemetry, 9999), dscp=0x17)))
    assert (found["int"]["version"], found["flow"]) == ("0.4", FLOW)
    assert found["hops"] == [{"node_id": 7, "hop_latency": 30}]


def test_int_2015() -> None:
    """VXLAN-GPE, next protocol 5: values of 31 bits, the last word of the stack marked."""
    telemetry = hexadecimal("""
        0c 0000 05 00002a 00        # VXLAN-GPE, VNI 42
        01 00 0d 03                 # shim, Length 1 + 2 + 10, Ethernet follows
        00 05 ff 02 ec00 0000       # InsCnt 5, 2 hops
        0000cafe 00000304 000002c5 0c4c3cf6 00000302
        0008feed 00000008 00000111 01111111 80000009
    """)
    found = one("int-2015", ethernet(ipv4(udp(telemetry + ethernet(ipv4(udp(b"payload"))), 4790))))
    assert found["int"]["version"] == "2015"
    assert [(hop["node_id"], hop["egress_port"]) for hop in found["hops"]] == [(0x8FEED, 9), (0xCAFE, 0x302)]
    assert found["flow"] | {"layers": 0, "tunnel_id": 0} == FLOW | {"layers": 0, "tunnel_id": 0}


def test_every_dialect_has_a_frame_here() -> None:
    """A dialect without a frame by hand is not proven."""
    text = Path(__file__).read_text().partition("def test_every_dialect")[0]
    missing = [name for name in DIALECTS if f'"{name}"' not in text]
    assert missing == ["report-0.5", "report-1.0", "report-2.0"]  # these only fix the report's version


def test_streams_of_many_bitmaps() -> None:
    """A decoder that sees one bitmap after the other, again and again, reads each as if it were alone."""
    dialect = DIALECTS["intcollector"]
    items = dialect.alternatives(layout.INT_1_0)[0]
    random = np.random.default_rng(16)
    frames, alone = [], []
    for bits in random.permutation(np.arange(1, 256))[:40].tolist():
        size = layout.metadata_size(items, bits << 8)
        telemetry = bytes([1, 0, 3 + size // 2, 0, 0, 0, size // 4, 3, bits, 0, 0, 0])
        packet = ipv4(udp(telemetry + random.bytes(2 * size)))
        frames.append(report_1_0(packet, "11000040"))
        (batch,) = PcapReader(BytesIO(pcap(frames[-1:])))
        alone += [hop.tobytes() for hop in PlainDecoder(dialect).decode(batch).hops]
    (batch,) = PcapReader(BytesIO(pcap(frames + frames)))
    for decoder in (PlainDecoder(dialect), Decoder(dialect)):
        assert [hop.tobytes() for hop in decoder.decode(batch).hops] == alone + alone
    assert len(alone) == 80

"""INT of every version, mode and carrier in packets: the dissector and the scalar codec agree in each dialect
that has a form of its own, on whole and on damaged INT.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hopscope.wire.buffer import Buffer
from hopscope.wire.decode import as_json
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.errors import WireError
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import HOP, REPORT, Carrier, Hop
from oracle.int_header import pull_header, pull_stack, row_fields
from support.packets.by_hand import STACK_2, ethernet, int_0_5, int_1_0, int_2, ipv4, tcp, udp
from support.packets.tshark import Tshark, assert_hops, assert_int, reports
from support.packets.wire_cases import frame_batch

FRAMES = 300
"""Per dialect."""
TIMES_64 = "00000001 00020003 00000004 05000006 0000000000000007 0000000000000008"
FORMS = [
    int_0_5(0xA000, STACK_2), int_1_0(0xA000, STACK_2, 2), int_2(0xA000, STACK_2, 2),
    int_2(0xA000, STACK_2, 2, npt=1, original=53), int_2(0xA001, [hop + bytes(8) for hop in STACK_2], 4),
    *map(bytes.fromhex, (
        "01000d03 0005ff02 ec000000 0000cafe 00000304 000002c5 0c4c3cf6 00000302"
        "0008feed 00000008 00000111 01111111 80000009",  # 2015
        "01000600 44010502 80000000 00000009 00000008 11003500",  # 0.4
        f"01001400 08060a02 fc000000 {TIMES_64} {TIMES_64} 11003517",  # 0.4 of GEANT
        "01000000 00080801 ff000000 00000004 00020003 00000190 00050258 000002bc 5ad9f940 000503e8 00000001"
        "0000000e",  # 0.5 of INTCollector
        "03000c00 00040202 cc000000 00000001 00020002 00000003 00000003 00000002 00010001 00000004 00000004"
        "00000009",  # 0.5 of Host INT
        "01000900 10000603 00cc0000 00000001 00020003 0000000000000004 0000000000000005",  # of GEANT's DPDK
        "10040000 20000107 00010000 00000000 00000009",  # 2.x with its bits reversed
        "18070006 20800109 80005453 80004000 00000003 00000002 00000001 020000000001 0000",  # cablelabs
        "30030000 20000000 fe000000 77770000",  # MX
        "30050000 20000000 c0000000 00000000 00000009 00010002",  # MX with a record
    )),
]  # fmt: skip


@dataclass
class Case:
    """INT in a frame."""

    carrier: Carrier
    raw: bytes
    frame: bytes


def _mutant(rng: random.Random) -> bytes:
    raw = bytearray(rng.choice(FORMS) + b"what follows")
    for _ in range(rng.choice((0, 1, 1, 2))):
        at = rng.randrange(min(len(raw), 20))
        raw[at] = rng.choice((0, raw[at] ^ 1 << rng.randrange(8), rng.randrange(256)))
    return bytes(raw[: rng.randrange(len(raw))] if rng.random() < 0.15 else raw)


def _packed(raw: bytes, carrier: Carrier, dialect: Dialect) -> Case:
    """The frame that carries this INT where `dialect` looks for it."""
    if carrier == Carrier.GRE:
        packet = ipv4(struct.pack("!HH", 0, dialect.gre_protocol) + raw, 47)
    elif carrier == Carrier.VXLAN_GPE:
        packet = ipv4(udp(struct.pack("!BHBI", 12, 0, 0x82, 0) + raw, 4790))
    elif carrier == Carrier.GENEVE:
        words = raw[1] & 31 if len(raw) > 1 else 0
        body = raw[4:].ljust(4 * words, b"\0")[: 4 * words]
        raw = struct.pack("!HBB", dialect.geneve_classes[0], 1, words) + body
        packet = ipv4(udp(struct.pack("!BBHI", words + 1, 0, 0x6558, 0) + raw, 6081))
    elif carrier == Carrier.TCP and dialect.int_dscp:
        packet = ipv4(tcp(raw, dport=9999), 6, dscp=dialect.int_dscp[0])
    else:
        carrier, port = Carrier.UDP, dialect.int_ports[0] if dialect.int_ports else 9999
        packet = ipv4(udp(raw, port), dscp=dialect.int_dscp[0] if dialect.int_dscp else 0)
    return Case(carrier, raw, ethernet(packet))


def _read(case: Case, dialect: Dialect) -> tuple[dict[str, int], list[Hop], WireError | None]:
    """(columns, none where no header was read; hops; refusal) by the scalar codec."""
    buf = Buffer(case.raw)
    row: dict[str, int] = {}
    hops: list[Hop] = []
    try:
        shim, md, at = pull_header(buf, case.carrier, dialect, 0, row)
        row = dict.fromkeys(REPORT.names or (), 0) | row_fields(shim, md, at)
        hops, _ = pull_stack(buf, shim, md, dialect)
    except WireError as error:
        return row, hops, error
    return row, hops, None


def _is_certain(case: Case, dialect: Dialect) -> bool:
    """Whether a tunnel or a port of INT's own announces it, and not a DSCP alone."""
    return case.carrier not in (Carrier.TCP, Carrier.UDP) or (
        case.carrier == Carrier.UDP and bool(dialect.int_ports)
    )


def _assert_same(case: Case, dialect: Dialect, shown: list[dict[str, Any]]) -> None:
    row, hops, error = _read(case, dialect)
    if error is None:
        assert_int(as_json._int(row), shown[0]["int"])
        assert_hops([as_json._hop(_record(hop)) for hop in hops], shown[0]["hops"])
    elif row or _is_certain(case, dialect) or (error.place, error.reason) == (
        Place.INT_HEADER, Reason.TRUNCATED,
    ):  # fmt: skip
        said = shown[0]["error"]
        byte = error.at + len(case.frame) - len(case.raw)
        assert (said["reason"], said["place"], said["byte"]) == (error.reason.label, error.place.label, byte)
    else:
        assert not shown, "ordinary traffic is no INT"


def _record(hop: Hop) -> tuple[int, ...]:
    return tuple(getattr(hop, name) for name in HOP.names or ())


@pytest.mark.parametrize(
    "name",
    ["spec", "intcollector", "geant", "geant-0.4", "geant-dpdk", "laofan13", "mandaryoshi", "elavinal",
     "cablelabs", "host-int", "int-2015"],
)  # fmt: skip
def test_forms_of_int(tshark: Tshark, tmp_path: Path, name: str) -> None:
    """What the codec reads, and why it refuses the rest, is what tshark shows."""
    rng, dialect = random.Random(name), DIALECTS[name]
    carriers = (Carrier.UDP, Carrier.UDP, Carrier.TCP, Carrier.GRE, Carrier.VXLAN_GPE, Carrier.GENEVE)
    cases = [_packed(_mutant(rng), rng.choice(carriers), dialect) for _ in range(FRAMES)]
    capture = tshark.write("forms.pcap", frame_batch([case.frame for case in cases]))
    for case, layers in zip(cases, tshark.frames(capture, dialect=name), strict=True):
        _assert_same(case, dialect, reports(layers))


def test_domain_specific_metadata(tshark: Tshark) -> None:
    """What a dialect knows of a domain has a name; other bytes of a domain are shown as they are."""
    known = bytes.fromhex("1808000620800109 80005453 80004000 00000002 00000001 020000000001 0000")
    other = known.replace(b"\x54\x53", b"\x54\x54")
    frames = [ethernet(ipv4(udp(raw, 555))) for raw in (known, other)]
    capture = tshark.write("domain.pcap", frame_batch(frames))
    names = ("-e", "hopscope.int.domain.source_mac", "-e", "hopscope.int.hop.domain_specific")
    lines = tshark.run(capture, "-T", "fields", *names, dialect="cablelabs").splitlines()
    assert lines == ["020000000001\t", "\t0200000000010000"]

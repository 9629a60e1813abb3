"""Packets and reports of the usual forms: the loops for runs of them read what the scalar codec reads."""

from __future__ import annotations

import struct
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.records import Carrier, Hop, Link
from oracle.decode import decode_scalar
from oracle.insert import Form, insert_int
from support.packets.mutants import difference
from support.packets.packet_cases import Packet
from support.packets.wire_cases import frame_batch

pytestmark = pytest.mark.kernel

SPEC = replace(DEFAULT, packets=True)
HOPS = [Hop(node_id=1, hop_latency=7), Hop(node_id=2, hop_latency=0xFFFFFFFF), Hop(node_id=3)]
FORMS = (
    (17, Form(Carrier.UDP, 0)), (17, Form(Carrier.UDP, 1)), (17, Form(Carrier.UDP_INSERTED, 2)),
    (6, Form(Carrier.TCP, 0)), (6, Form(Carrier.UDP_INSERTED, 2)), (6, Form(Carrier.UDP_INSERTED, 0)),
)  # fmt: skip


OLD_FORMS = tuple(
    (protocol, Form(carrier, 0, version))
    for version in (4, 5, 10)
    for protocol, carrier in ((17, Carrier.UDP), (6, Carrier.TCP))
)
FULL = [
    Hop(
        node_id=node, ingress_port=3, egress_port=4, hop_latency=5, queue_id=6, queue_occupancy=7,
        ingress_time=8, egress_time=9, congestion_queue_id=10, queue_congestion=11, l2_ingress_port=12,
        l2_egress_port=13, tx_utilization=14,
    )
    for node in (1, 2, 3)
]  # fmt: skip
"""Hops with the first eight values of every version."""


def _frames(dialect: Dialect, forms: tuple[tuple[int, Form], ...]) -> tuple[list[bytes], list[bytes]]:
    """(frames with INT of these forms, the same without INT and frames of other forms)."""
    widest = 0xFFFF if dialect.name == "intcollector" else 0xFFFFFF
    without = replace(
        FULL[1], congestion_queue_id=0xFF, queue_congestion=widest, egress_time=0xFFFFFFFF
    )  # all ones: a switch has no such value
    full = [FULL[0], without, FULL[2]]
    usual, others = [], []
    for version in (4, 6):
        for protocol, form in forms:
            packet = Packet(version, protocol, b"some payload")
            for hops, instructions in ((HOPS, 0xB100), (full, 0xFF00)):
                usual.append(insert_int(packet.frame(), hops, instructions, form, dialect=dialect))
            others.append(packet.frame())
            odd = replace(packet, options=True, tags=1)
            others.append(insert_int(odd.frame(), HOPS[:1], 0xA000, form, dialect=dialect))
    return usual, others


def _taken(frames: list[bytes], dialect: Dialect, loop: str = "packet.usual_packets") -> int:
    """Frames from the first on that a loop takes."""
    module, name = loop.split(".")
    kernel = getattr(import_module(f"hopscope.wire.decode.usual_{module}_kernel"), name)
    batch = frame_batch(frames, Link.ETHERNET if module == "packet" else Link.UDP_PAYLOAD)
    decoder, zero = Decoder(dialect), np.uint64(0)
    reached, *_ = kernel(
        decoder._readonly(batch.arena), decoder._readonly(batch.frames), zero, *decoder._fixed,
        decoder._reports, zero, decoder._hops, zero,
    )  # fmt: skip
    return int(reached)


def _mutants(usual: list[bytes], others: list[bytes], seed: int) -> list[bytes]:
    """Usual frames cut at every byte; then runs of them with others among them, many damaged."""
    random = np.random.default_rng(seed)
    frames = [frame[:end] for frame in usual[::3] for end in range(len(frame))]
    for _ in range(1500):
        chosen = usual if random.random() < 0.8 else others
        raw = bytearray(chosen[random.integers(len(chosen))])
        if random.random() < 0.6:
            for at in random.integers(12, len(raw), random.integers(1, 4)).tolist():
                raw[at] = random.integers(256) if random.random() < 0.5 else raw[at] ^ 1 << random.integers(8)
        frames.append(bytes(raw))
    return frames


def test_the_loop_takes_the_usual_forms() -> None:
    """UDP and TCP with INT of NPT 0 to 2, and packets without INT, over IPv4 and IPv6; no options or tags."""
    usual, others = _frames(SPEC, FORMS)
    assert sum(_taken([frame], SPEC) for frame in usual) == len(usual) - 4  # not TCP that no shim names
    assert all(_taken([frame], SPEC) for frame in others[::2])
    assert not any(_taken([frame], SPEC) for frame in others[1::2])


@pytest.mark.parametrize(("name", "versions"), [("spec", (5, 10)), ("int-0.4", (4,))])
def test_the_loop_of_older_int_takes_its_forms(name: str, versions: tuple[int, ...]) -> None:
    """INT before 2.0, and packets without INT, in a loop of their own; neither loop takes the other's INT."""
    dialect = replace(DIALECTS[name], packets=True)
    usual, others = _frames(dialect, tuple(one for one in OLD_FORMS if one[1].version in versions))
    assert all(_taken([frame], dialect, "packet.usual_old_packets") for frame in usual + others[::2])
    assert not any(_taken([frame], dialect) for frame in usual)
    assert not any(_taken([frame], dialect, "packet.usual_old_packets") for frame in others[1::2])
    new, _ = _frames(dialect, FORMS)
    assert not any(_taken([frame], dialect, "packet.usual_old_packets") for frame in new)


def _older(packets: list[bytes]) -> list[bytes]:
    """A Report 1.0 and a Report 0.5 of each packet."""
    one = struct.pack(">IIII", 0x14000000 | 1 << 6 | 5, 77, 88, 99)
    half = struct.pack(">III", 1 << 21 | 5, 88, 99)
    return [header + packet for packet in packets for header in (one, half)]


def _newer(packets: list[bytes]) -> list[bytes]:
    """A Report 2.0 of each packet."""
    group = struct.pack(">II", 2 << 28 | 5 << 22 | 88, 77)
    padded = [packet + bytes(-len(packet) % 4) for packet in packets]
    tracked = 1 << 5
    return [
        group + struct.pack(">BBBBII", 0x13, (8 + len(packet)) // 4, 0, tracked, 0, 0) + packet
        for packet in padded
    ]


LOOPS = {
    "report.usual_reports": (_newer, 4),
    "report.usual_six_reports": (_newer, 6),
    "old_report.usual_old_reports": (_older, 4),
}
"""Loops, and the reports and version of IP that they take."""


@pytest.mark.parametrize("loop", LOOPS)
def test_the_loops_of_reports_take_their_forms(loop: str) -> None:
    """Reports without metadata of their own, around packets with INT of any version; no loop takes those of
    another.
    """
    usual, others = _frames(DEFAULT, (FORMS[0], *(one for one in OLD_FORMS if one[1].version != 4)))
    half = len(usual) // 2
    for reports, version in LOOPS.values():
        own = (reports, version) == LOOPS[loop]
        for frame in reports(usual[:half] if version == 4 else usual[half:]):
            assert bool(_taken([frame], DEFAULT, loop)) is own
        assert not any(_taken([frame], DEFAULT, loop) for frame in reports(others))
    with_metadata = struct.pack(">IIIII", 0x15000000 | 1 << 20, 1, 2, 3, 4)
    assert not _taken([with_metadata + usual[0]], DEFAULT, loop)


@pytest.mark.parametrize("name", ["spec", "intcollector", "int-0.4"])
@pytest.mark.parametrize("forms", [FORMS, OLD_FORMS], ids=["2.x", "older"])
def test_runs_and_mutants(name: str, forms: tuple[tuple[int, Form], ...]) -> None:
    """Runs of usual frames with others among them, cut at every byte, and mutants: as the scalar codec."""
    dialect = replace(DIALECTS[name], packets=True)
    frames = _mutants(*_frames(dialect, forms), 5)
    batch = frame_batch(frames, gap=3)
    assert difference(decode_scalar(batch, dialect), Decoder(dialect, 64).decode(batch)) == ""


@pytest.mark.parametrize("name", ["spec", "intcollector", "int-0.4"])
@pytest.mark.parametrize("reports", [_newer, _older], ids=["2.0", "older"])
def test_runs_and_mutants_of_reports(name: str, reports: Any) -> None:
    """The same of reports."""
    dialect = DIALECTS[name]
    usual, others = _frames(dialect, (FORMS[0], *OLD_FORMS))
    batch = frame_batch(_mutants(reports(usual), reports(others), 6), Link.UDP_PAYLOAD, gap=3)
    assert difference(decode_scalar(batch, dialect), Decoder(dialect, 64).decode(batch)) == ""

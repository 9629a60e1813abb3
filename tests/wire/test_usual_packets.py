"""Captured packets of the usual forms: the loop for runs of them reads what the scalar codec reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT, DIALECTS, Dialect
from hopscope.wire.records import Carrier, Hop
from oracle.decode import decode_scalar
from oracle.insert import Form, insert_int
from support.mutants import difference
from support.packet_cases import Packet
from support.wire_cases import frame_batch

pytestmark = pytest.mark.kernel

SPEC = replace(DEFAULT, packets=True)
HOPS = [Hop(node_id=1, hop_latency=7), Hop(node_id=2, hop_latency=0xFFFFFFFF), Hop(node_id=3)]
FORMS = (
    (17, Form(Carrier.UDP, 0)), (17, Form(Carrier.UDP, 1)), (17, Form(Carrier.UDP_INSERTED, 2)),
    (6, Form(Carrier.TCP, 0)), (6, Form(Carrier.UDP_INSERTED, 2)), (6, Form(Carrier.UDP_INSERTED, 0)),
)  # fmt: skip


def _frames(dialect: Dialect) -> tuple[list[bytes], list[bytes]]:
    """(frames with INT of every usual form, the same without INT and frames of other forms)."""
    usual, others = [], []
    for version in (4, 6):
        for protocol, form in FORMS:
            packet = Packet(version, protocol, b"some payload")
            usual.append(insert_int(packet.frame(), HOPS, 0xB100, form, dialect=dialect))
            others.append(packet.frame())
            odd = replace(packet, options=True, tags=1)
            others.append(insert_int(odd.frame(), HOPS[:1], 0xA000, form, dialect=dialect))
    return usual, others


def _taken(frames: list[bytes], dialect: Dialect) -> int:
    """Frames from the first on that the loop takes."""
    from hopscope.wire.decode.usual_packet_kernel import usual_packets

    batch, decoder = frame_batch(frames), Decoder(dialect)
    zero = np.uint64(0)
    reached, *_ = usual_packets(
        decoder._readonly(batch.arena), decoder._readonly(batch.frames), zero, *decoder._fixed,
        decoder._reports, zero, decoder._hops, zero,
    )  # fmt: skip
    return int(reached)


def test_the_loop_takes_the_usual_forms() -> None:
    """UDP and TCP with INT of NPT 0 to 2, and packets without INT, over IPv4 and IPv6; no options or tags."""
    usual, others = _frames(SPEC)
    assert sum(_taken([frame], SPEC) for frame in usual) == len(usual) - 2  # not TCP that no shim names
    assert all(_taken([frame], SPEC) for frame in others[::2])
    assert not any(_taken([frame], SPEC) for frame in others[1::2])


@pytest.mark.parametrize("name", ["spec", "intcollector", "int-0.4"])
def test_runs_and_mutants(name: str) -> None:
    """Runs of usual frames with others among them, cut at every byte, and mutants: as the scalar codec."""
    dialect = replace(DIALECTS[name], packets=True)
    usual, others = _frames(dialect)
    random = np.random.default_rng(5)
    frames = [frame[:end] for frame in usual[::3] for end in range(len(frame))]
    for _ in range(1500):
        chosen = usual if random.random() < 0.8 else others
        raw = bytearray(chosen[random.integers(len(chosen))])
        if random.random() < 0.6:
            for at in random.integers(12, len(raw), random.integers(1, 4)).tolist():
                raw[at] = random.integers(256) if random.random() < 0.5 else raw[at] ^ 1 << random.integers(8)
        frames.append(bytes(raw))
    batch = frame_batch(frames, gap=3)
    assert difference(decode_scalar(batch, dialect), Decoder(dialect, 64).decode(batch)) == ""

"""The batch decoder against the scalar codec: the same bytes, whatever comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.encode.encoder import encode_reports
from hopscope.wire.records import Link, ReportBatch
from support.packets.wire_cases import assert_same, frame_batch, frames_of, read_capture, report_batches

pytestmark = pytest.mark.kernel
SLOW = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
DIALECT = Dialect("test", int_ports=(666,))
LINKS = list(Link)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    """One decoder for all examples, so that what one leaves behind would disturb the next."""
    return Decoder(DIALECT, frames=8)


def _copy(batch: ReportBatch) -> ReportBatch:
    return ReportBatch(batch.reports.copy(), batch.hops.copy(), batch.first_packet, batch.other)


def test_captures_and_all_their_prefixes(shared: Path, decoder: Decoder) -> None:
    """Every packet of every capture, cut at every byte."""
    for path in sorted(shared.glob("*/*.pcap*")):
        frames = [frame[:cut] for frame in read_capture(path)[:4] for cut in range(len(frame) + 1)][:4000]
        batch = frame_batch(frames)
        assert_same(decode_plain(batch, DIALECT), decoder.decode(batch))


@SLOW
@given(st.lists(st.binary(max_size=200), max_size=8), st.sampled_from(LINKS))
def test_arbitrary_bytes(decoder: Decoder, frames: list[bytes], link: Link) -> None:
    """Random bytes as frames of every link type."""
    batch = frame_batch(frames, link)
    assert_same(decode_plain(batch, DIALECT), decoder.decode(batch))


@SLOW
@given(
    st.lists(st.binary(max_size=120), max_size=8),
    st.sampled_from([b"\x00", b"\x01", b"\x02", b"\x10", b"\x14", b"\x20"]),
)
def test_arbitrary_payloads(decoder: Decoder, payloads: list[bytes], first: bytes) -> None:
    """Random bytes behind a first byte that is a report version."""
    batch = frame_batch([first + payload for payload in payloads], Link.UDP_PAYLOAD)
    assert_same(decode_plain(batch, DIALECT), decoder.decode(batch))


@SLOW
@given(report_batches(), st.booleans(), st.booleans(), st.sampled_from([Link.ETHERNET, Link.UDP_PAYLOAD]))
def test_valid_reports(
    decoder: Decoder, reports: ReportBatch, inner_ip: bool, check: bool, link: Link
) -> None:
    """Every version and form that the encoder makes, none of them refused."""
    batch = encode_reports(reports, link=link, inner_ip=inner_ip, udp_checksum=check)
    expected = decode_plain(batch, DIALECT)
    assert not expected.reports["reason"].any()
    assert len(expected) == len(reports)
    assert_same(expected, decoder.decode(batch))


@SLOW
@given(report_batches(3), st.data())
def test_mutated_reports(decoder: Decoder, reports: ReportBatch, data: st.DataObject) -> None:
    """Valid reports with bytes changed, most of them in headers, and cut short: reasons and offsets are the
    same.
    """
    frames = [bytearray(frame) for frame in frames_of(encode_reports(reports))]
    out: list[bytes] = []
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    for frame in frames * 30:
        changed = bytearray(frame)
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(0, min(len(changed), 180)))
            flipped = changed[at] ^ (1 << int(rng.integers(0, 8)))
            changed[at] = (0, 1, 2, 0xFF, int(rng.integers(0, 256)), flipped)[int(rng.integers(0, 6))]
        out.append(bytes(changed[: rng.integers(0, len(changed) + 1)] if rng.random() < 0.3 else changed))
    batch = frame_batch(out)
    assert_same(decode_plain(batch, DIALECT), decoder.decode(batch))


@SLOW
@given(report_batches(), st.sampled_from([0, 0xFF, 0x17]))
def test_bytes_around_a_frame_do_not_matter(decoder: Decoder, reports: ReportBatch, filler: int) -> None:
    """A frame decodes alike whatever lies around it in the arena, also where it is cut or damaged."""
    frames = frames_of(encode_reports(reports))
    frames = [
        frame[:cut] for frame in frames for cut in (len(frame), len(frame) - 1, len(frame) // 2, 60, 43)
    ]
    plain = _copy(decoder.decode(frame_batch(frames)))
    assert_same(plain, decoder.decode(frame_batch(frames, gap=97, filler=filler)))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_dialect(name: str) -> None:
    """All first two bytes, in every dialect."""
    dialect = DIALECTS[name]
    payloads = [
        bytes([first, second]) + bytes(range(70)) for first in range(256) for second in (0, 0x20, 0x40, 0xFF)
    ]
    batch = frame_batch(payloads, Link.UDP_PAYLOAD)
    assert_same(decode_plain(batch, dialect), Decoder(dialect).decode(batch))


def test_blocks_grow(decoder: Decoder) -> None:
    """A batch with more reports and hops than the decoder had room for is decoded whole."""
    group = bytes.fromhex("2000000100000007") + bytes(4) * 8  # as many empty reports as are read
    batch = frame_batch([group] * 200, Link.UDP_PAYLOAD)
    small = Decoder(DIALECT, frames=1)
    assert len(small.decode(batch)) == 1600
    assert_same(decode_plain(batch, DIALECT), small.decode(batch))


def test_large_frames(decoder: Decoder) -> None:
    """Frames above 9 KB, up to the longest datagram."""
    for size in (9001, 65507):
        for head in ("200000010000000713ff0020", "0020000100000000", "1400004000000001"):
            batch = frame_batch([bytes.fromhex(head).ljust(size, b"\x00")], Link.UDP_PAYLOAD)
            assert_same(decode_plain(batch, DIALECT), decoder.decode(batch))


def test_no_frames(decoder: Decoder) -> None:
    """An empty batch gives an empty result."""
    assert len(decoder.decode(frame_batch([]))) == 0
    assert len(decode_plain(frame_batch([]))) == 0

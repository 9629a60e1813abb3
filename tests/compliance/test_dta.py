"""DTA: the published generators' packets, tshark, and both parsers on whatever may come."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hopscope.capture.pcap.reader import read
from hopscope.wire.dta.encode import encode_dta
from hopscope.wire.dta.forms import Form, Opcode
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.dta.records import DtaFlag
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FrameBatch, Link, Records
from oracle.dta import encode_dta_scalar, parse_scalar
from oracle.dta_codec import DtaAck, DtaReport, pull_dta, push_ack
from support.packets.by_hand import ethernet, ipv4, ipv6, udp
from support.packets.dta_cases import any_report, payload
from support.packets.tshark import Tshark, fields, value_of
from support.packets.wire_cases import frame_batch, frames_of, read_capture

NAMES = {
    "redundancy": "redundancy", "counter": "counter", "listID": "list", "seqnum": "sequence",
}  # fmt: skip
OPCODES = {"keywrite": 1, "append": 2, "keyincrement": 3}


def _published(path: Path) -> list[dict[str, Any]]:
    return json.loads((path / "dta/dta_generators.json").read_text())["packets"]


def _check(report: np.void, arena: np.ndarray[Any, np.dtype[np.uint8]], want: dict[str, Any]) -> None:
    assert report["reason"] == DtaReason.NONE
    assert report["opcode"] == OPCODES[want["op"]]
    for name, column in NAMES.items():
        if name in want:
            assert report[column] == want[name], name
    flags = want.get("immediate", 0) * DtaFlag.IMMEDIATE + want.get("retransmitable", 0) * DtaFlag.RETRANSMIT
    assert report["flags"] == flags
    for name in ("key", "data"):
        if name in want:
            at = int(report[f"{name}_at"])
            assert int.from_bytes(arena[at : at + 4].tobytes(), "big") == want[name]


@pytest.mark.shared
@pytest.mark.kernel
def test_packets_of_the_published_generators(shared: Path) -> None:
    """Every packet, as a payload and in its frame, says what the generator was told; what is no DTA is told
    apart by its port, and refused in a form that it does not have.
    """
    packets, parser = _published(shared), DtaParser(Form.THREE)
    (captured,) = read(shared / "dta/dta_generators.pcap")
    payloads = frame_batch([bytes.fromhex(one["udp_payload"]) for one in packets], Link.UDP_PAYLOAD)
    for batch in (captured, payloads):
        for reports in (parse_scalar(batch, Form.THREE), parser.parse(batch)):
            for report, one in zip(reports, packets, strict=True):
                if one["expect"]["op"] in OPCODES:
                    _check(report, batch.arena, one["expect"])
                else:
                    assert report["reason"] != DtaReason.NONE
    assert parse_scalar(captured, Form.THREE)["reason"][-1] == DtaReason.NOT_DTA
    two = parse_scalar(payloads, Form.TWO)["reason"][:-1]
    assert (two == DtaReason.BAD_LENGTH).all()


@pytest.mark.shared
@pytest.mark.kernel
def test_packets_of_the_published_generators_are_written(shared: Path) -> None:
    """From their records, the same payloads are made again, by both encoders."""
    raw = [bytes.fromhex(one["udp_payload"]) for one in _published(shared)][:-1]
    batch = frame_batch(raw, Link.UDP_PAYLOAD)
    reports = parse_scalar(batch, Form.THREE)
    for encode in (encode_dta, encode_dta_scalar):
        assert frames_of(encode(reports, batch.arena, Form.THREE)) == raw
    assert [frame[42:] for frame in read_capture(shared / "dta/dta_generators.pcap")][:-1] == raw


# ---------------------------------------------------------------------------------------- all that may come


def _bytes(form: Form) -> st.SearchStrategy[bytes]:
    """Reports of this form, some of them damaged; and anything."""

    def whole(seed: int) -> bytes:
        return payload(any_report(random.Random(seed), form), form)

    sound = st.integers(0, 1 << 32).map(whole)
    cut = st.tuples(sound, st.integers(0, 600)).map(lambda one: one[0][: one[1]])
    longer = st.tuples(sound, st.binary(max_size=9)).map(lambda one: one[0] + one[1])
    changed = st.tuples(sound, st.integers(0, 15), st.integers(0, 255)).map(
        lambda one: one[0][: one[1]] + bytes([one[2]]) + one[0][one[1] + 1 :]
    )
    return st.one_of(sound, cut, longer, changed, st.binary(max_size=40))


def _agree(batch_of: Callable[[int], FrameBatch], form: Form) -> Records:
    """Both parsers give the same for a batch and for the same frames with other bytes around them."""
    parser = DtaParser(form, frames=1)
    want = parse_scalar(batch_of(0), form)
    for filler in (0, 0xFF):
        assert np.array_equal(parser.parse(batch_of(filler)), want)
    return want


@pytest.mark.kernel
@pytest.mark.parametrize("form", Form)
def test_parsers_agree_on_anything(form: Form) -> None:
    """Sound, damaged and random datagrams: the same records by both parsers, whatever lies around them; what
    is accepted, both encoders write as it was, but for reserved bits.
    """

    @settings(max_examples=150)
    @given(st.lists(_bytes(form), min_size=1, max_size=8))
    @example([b""])
    @example([b"\x01" * 12, bytes(12)])
    def check(raw: list[bytes]) -> None:
        reports = _agree(lambda filler: frame_batch(raw, Link.UDP_PAYLOAD, 16, filler), form)
        batch = frame_batch(raw, Link.UDP_PAYLOAD, 16)
        good = reports[reports["reason"] == 0]
        written = encode_dta(good, batch.arena, form)
        assert frames_of(written) == frames_of(encode_dta_scalar(good, batch.arena, form))
        again = parse_scalar(written, form)
        same = [name for name in good.dtype.names or () if not name.endswith("_at")]
        assert np.array_equal(again[same], good[same])
        sound = [one for one, report in zip(raw, reports, strict=True) if report["reason"] == 0]
        for before, after in zip(sound, frames_of(written), strict=True):
            assert pull_dta(before, form) == pull_dta(after, form)

    check()


@pytest.mark.kernel
@pytest.mark.parametrize("form", Form)
def test_parsers_agree_on_whole_frames(form: Form) -> None:
    """The same in frames whose outer headers are damaged as well."""

    def frame(part: tuple[bytes, bool, int, int, int]) -> bytes:
        body, six, at, value, size = part
        datagram = udp(body, 40040, sport=40041)
        raw = ethernet(ipv6(datagram), 0x86DD) if six else ethernet(ipv4(datagram, outer=True))
        if value < 256:
            raw = raw[:at] + bytes([value]) + raw[at + 1 :]
        return raw[:size]

    parts = st.tuples(
        _bytes(form), st.booleans(), st.integers(12, 64), st.integers(0, 400), st.integers(0, 300)
    )

    @settings(max_examples=150)
    @given(st.lists(parts.map(frame), min_size=1, max_size=6))
    def check(raw: list[bytes]) -> None:
        _agree(lambda filler: frame_batch(raw, gap=64, filler=filler), form)

    check()


# ----------------------------------------------------------------------------------------------------- tshark


@pytest.fixture
def tshark(tool: Callable[..., str], tmp_path: Path) -> Tshark:
    return Tshark(tool("tshark"), tmp_path)


def _wanted(report: DtaReport, form: Form) -> dict[str, int | str]:
    """What the dissector shows of a report."""
    want: dict[str, int | str] = {
        "form": int(form), "opcode": report.opcode, "immediate": int(report.immediate),
    }  # fmt: skip
    if form is not Form.TWO:
        want |= {"sequence": report.sequence, "retransmit": int(report.retransmit)}
    if form is Form.SIZED:
        want |= {name: getattr(report, name) for name in ("redundancy", "hop", "path_length")}
        want |= {"key_bytes": len(report.key), "data_bytes": len(report.data)}
    elif report.opcode == Opcode.POSTCARDING:
        want["hop"] = report.hop
    elif report.opcode != Opcode.APPEND:
        want["redundancy"] = report.redundancy
    key = "list" if report.opcode == Opcode.APPEND else "key"
    data = "counter" if report.opcode == Opcode.KEY_INCREMENT else "data"
    for name, value, size in ((key, report.key, 4), (data, report.data, 8 if data == "counter" else 4)):
        if len(value) == size:
            want[name] = int.from_bytes(value, "big")
        elif value:
            want[f"{name}_octets"] = value.hex(":")
    return want


@pytest.mark.parametrize("form", Form)
def test_tshark_shows_every_form(tshark: Tshark, form: Form) -> None:
    """Every field of reports of each form, chosen by preference; and where the length tells the form."""
    rng = random.Random(9)
    reports = [any_report(rng, form) for _ in range(60)]
    reports = [
        one for one in reports if 1 not in (len(one.key), len(one.data))
    ]  # one octet reads as a number
    frames = [ethernet(ipv4(udp(payload(one, form), 40040, sport=40041), outer=True)) for one in reports]
    capture = tshark.write(f"{form.name}.pcap", frame_batch(frames))
    chosen = {Form.TWO: "2 bytes", Form.THREE: "3 bytes", Form.SIZED: "sized"}[form]
    want = [_wanted(one, form) for one in reports]
    for preferences in ({"dta_form": chosen}, {}):
        shown = tshark.frames(capture, **preferences)
        got = [fields(value_of(one, "hopscope.dta"), "hopscope.dta.") for one in shown]
        assert got == want


def test_tshark_shows_acknowledgments(tshark: Tshark) -> None:
    """Both of them, with count and reason where there are any; and what is cut is refused, without an error
    of Lua's.
    """
    acks = [
        (Form.THREE, DtaAck(200, nack=True)), (Form.THREE, DtaAck(7)),
        (Form.SIZED, DtaAck(0xFFFFFFFE, nack=True, count=3, reason=DtaReason.RATE_LIMITED)),
    ]  # fmt: skip
    frames, want = [], []
    for form, ack in acks:
        out = bytearray()
        push_ack(out, ack, form)
        frames.append(ethernet(ipv4(udp(bytes(out), 40044, sport=40040), outer=True)))
        want.append({"sequence": ack.sequence, "nack": int(ack.nack)})
        if form is Form.SIZED:
            want[-1] |= {"count": ack.count, "reason": ack.reason}
    shown = tshark.frames(tshark.write("acks.pcap", frame_batch(frames)))
    assert [fields(value_of(one, "hopscope.dta"), "hopscope.dta.") for one in shown] == want
    body = payload(DtaReport(1, b"five!", b"seven!!"), Form.SIZED)
    cut = [ethernet(ipv4(udp(body[:size], 40040, sport=9), outer=True)) for size in range(1, len(body))]
    bad = payload(DtaReport(16, b"fiv", b"four"), Form.SIZED)
    cut.append(ethernet(ipv4(udp(b"\x02" + bad[1:], 40040, sport=9), outer=True)))  # a list of 3 bytes
    text = tshark.run(
        tshark.write("cut.pcap", frame_batch(cut)), "-T", "fields", "-e", "hopscope.error.reason",
        dta_form="sized",
    )  # fmt: skip
    assert text.split() == ["truncated"] * (len(body) - 1) + ["bad_length"]

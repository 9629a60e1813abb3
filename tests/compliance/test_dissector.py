"""tshark with the generated dissector and our own decoder read the same, field by field, refusals too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import Phase, Verbosity, given, settings
from hypothesis import strategies as st
from tshark import Tshark, assert_agrees, assert_capture_agrees, decoded, reports
from wire_cases import frame_batch, frames_of, read_capture, report_batches

from hopscope.wire.dialect import DIALECTS
from hopscope.wire.encode import encode_reports

SPEC = DIALECTS["spec"]


@pytest.fixture(scope="module")
def tshark(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Tshark:
    """tshark with our dissector."""
    return Tshark(tool("tshark"), tmp_path_factory.mktemp("tshark"))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "dialect", "count"),
    [
        ("report_0_5/src__test__resources__int_report.pcap", "spec", 1),
        ("report_2_0/bmv2_19_reports.pcapng", "spec", 19),
        ("report_0_5/e2e_v0_5.pcap", "spec", 3),
        ("report_1_0/e2e_v1_0.pcap", "spec", 3),
        ("report_1_0/generator_v1_0.pcap", "spec", 6),
        ("traffic/tcpreplay_test.pcap", "spec", 0),
        ("traffic/dpkt_http.pcap", "spec", 0),
    ],
)
def test_captures(tshark: Tshark, shared: Path, name: str, dialect: str, count: int) -> None:
    """Captures of others: every report has the same fields in both."""
    assert assert_capture_agrees(tshark, shared / name, DIALECTS[dialect]) == count


@pytest.mark.shared
def test_every_prefix(tshark: Tshark, shared: Path) -> None:
    """Packets cut at every byte: never a Lua error, the same reason, place and byte in both."""
    frames = [
        frame[:cut]
        for name in ("report_0_5/src__test__resources__int_report.pcap", "report_2_0/bmv2_19_reports.pcapng")
        for frame in read_capture(shared / name)[:1]
        for cut in range(len(frame) + 1)
    ]
    capture = tshark.write("prefixes.pcap", frame_batch(frames))
    assert assert_capture_agrees(tshark, capture, SPEC) == len(decoded(capture, SPEC)) > 200


@given(st.data())
@settings(max_examples=3, phases=[Phase.generate], database=None, verbosity=Verbosity.quiet)
def test_reports_of_our_encoder(tshark: Tshark, data: st.DataObject) -> None:
    """Reports of every version, form and bitmap, several in a datagram, are shown as they are decoded."""
    frames = [frame for _ in range(30) for frame in frames_of(encode_reports(data.draw(report_batches())))]
    capture = tshark.write("ours.pcap", frame_batch(frames))
    shown = [one for layers in tshark.frames(capture) for one in reports(layers)]
    ours = decoded(capture, SPEC)
    assert len(ours) == len(shown)
    for one, said in zip(ours, shown, strict=True):
        assert_agrees(one, said)

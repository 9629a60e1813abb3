"""IOAM: the kernel against the scalar codec, and both against tshark where it dissects IOAM."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.kernels.jit import U64, readonly
from hopscope.capture.pcap import reader as pcap
from hopscope.wire.buffer import Buffer
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.errors import WireError
from hopscope.wire.records import HOP, REPORT, Records
from hopscope.wire.telemetry import ioam
from oracle.ioam import read_extensions, read_ioam
from oracle.row import Row
from support.packets.ioam_cases import OPTIONS, extension, hostile, ipv6, option_areas, packet
from support.packets.wire_cases import frame_batch

REPORT_NAMES, HOP_NAMES = REPORT.names or (), HOP.names or ()
ROOM = 70


def by_codec(raw: bytes, at: int, end: int, headers: bool = False) -> tuple[Records, Records]:
    """The REPORT row and the hops of one option in `raw`, or of the extension headers of an IPv6 header."""
    row = Row({})
    try:
        if headers:
            read_extensions(raw, at, end, row, DEFAULT)
        else:
            read_ioam(Buffer(raw, at, end), row, DEFAULT)
    except WireError as error:
        row.refuse(error)
    hops = [tuple(getattr(hop, name) for name in HOP_NAMES) for hop in row.hops]
    return np.array([tuple(row.fields.get(name, 0) for name in REPORT_NAMES)], REPORT), np.array(hops, HOP)


def by_kernel(raw: bytes, at: int, end: int, headers: bool = False) -> tuple[Records, Records]:
    """The same, from an arena where the frame does not begin at 0 and whose hops hold old values."""
    from hopscope.wire.telemetry import ioam_kernel

    arena = np.frombuffer(b"\x31" * 5 + raw + b"\xff" * 3, np.uint8)
    reports, hops = np.zeros(1, REPORT), np.frombuffer(b"\xa5" * ROOM * HOP.itemsize, HOP).copy()
    first = 3
    part = readonly(arena), U64(5), U64(5 + at), U64(5 + end), reports[0], hops, U64(first)
    if headers:
        code, count = ioam_kernel.read_extensions(*part)
    else:
        code, where, count = ioam_kernel.read_option(*part)
        ioam_kernel.finish(U64(code), U64(where), U64(count), reports[0], U64(5))
    assert code == int(reports["reason"][0]) << 8 | int(reports["place"][0])
    untouched = np.concatenate([hops[:first], hops[first + int(count) :]]).tobytes()
    assert untouched.count(0xA5) == len(untouched)
    return reports, hops[first : first + int(count)]


def assert_alike(raw: bytes, at: int = 0, end: int | None = None, headers: bool = False) -> None:
    """Fail with the first field in which codec and kernel differ."""
    stop = len(raw) if end is None else end
    both = zip(by_codec(raw, at, stop, headers), by_kernel(raw, at, stop, headers), strict=True)
    for one, other in both:
        assert len(one) == len(other)
        if one.tolist() == other.tolist():
            continue
        for row, (left, right) in enumerate(zip(one, other, strict=True)):
            for name in one.dtype.names or ():
                assert left[name] == right[name], f"row {row}, {name}: {left[name]} and {right[name]}"


@pytest.mark.kernel
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_and_all_its_prefixes(name: str) -> None:
    """Readable options: the same columns and hops; cut at each byte: the same refusals."""
    raw = OPTIONS[name]
    for cut in range(len(raw) + 1):
        assert_alike(b"\0" * 9 + raw[:cut] + b"\0" * 4, 9, 9 + cut)


@pytest.mark.kernel
@settings(max_examples=600)
@given(hostile(), st.integers(0, 5), st.integers(0, 9))
def test_hostile_options(raw: bytes, before: int, behind: int) -> None:
    """Options of any bytes, with other bytes around them."""
    assert_alike(b"\x31" * before + raw + b"\xff" * behind, before, before + len(raw))


@pytest.mark.kernel
@settings(max_examples=600)
@given(st.lists(st.tuples(st.sampled_from([0, 60, 60, 43, 44, 51]), option_areas()), max_size=4))
def test_hostile_extension_headers(headers: list[tuple[int, bytes]]) -> None:
    """Headers of any kind, with options of any bytes among padding and others."""
    raw = ipv6(headers)
    assert_alike(raw, 0, len(raw), headers=True)


@pytest.mark.kernel
def test_every_trace_type_of_one_or_two_bits() -> None:
    """Each field by itself and beside each other one, with values that differ, and all ones."""
    for first in range(23):
        for second in range(first, 23):
            type_ = 1 << (23 - first) | 1 << (23 - second)
            words = ioam.node_words(type_)
            opaque = b"\x01\0\0\x05\x01\x02\x03\x04" if type_ & 2 else b""
            for node in (bytes(range(1, 4 * words + 1)), b"\xff" * 4 * words, b"\x80" * 4 * words):
                out = bytearray()
                ioam.push_trace(out, ioam.Trace(node_words=words, trace_type=type_), [])
                out += 2 * (node + opaque)
                out[1] = len(out) - 2
                assert_alike(bytes(out))


OTHERWISE = ("incremental with a budget", "snapshots alone")
TRACES = [name for name in OPTIONS if not name.startswith("direct") and name not in OTHERWISE]
"""What tshark 4.0 reads as RFC 9197 does.

It knows no direct export, takes the budget of an incremental trace for free room in front of its nodes, and
wants no NodeLen of 0, which a trace of snapshots alone has.
"""
HEAD = ("ns", "nodelen", "flag.o", "remlen", "type")
COLUMNS = {
    "iif": "ingress_port", "eif": "egress_port", "qdepth": "queue_occupancy", "csum": "checksum_complement",
    "iif_wide": "l2_ingress_port", "eif_wide": "l2_egress_port", "bufoccup": "buffer_occupancy",
}  # fmt: skip
"""Column of HOP by tshark's field."""
VALUES = {
    "hlim": ("hop_limit", "wide_hop_limit"), "id": ("node_id",), "id_wide": ("wide_node_id",),
    "tss": ("seconds",), "tsf": ("fraction",), "nsdata": ("namespace_data",),
    "nsdata_wide": ("wide_namespace_data",), "undefined": ("bit_12",),
}  # fmt: skip
"""What `ioam.Node` calls the others."""


def dissected(tshark: str, path: Path) -> dict[str, list[str]]:
    """All values of each IOAM field of a capture of one packet, in the order of the wire."""
    names = [*HEAD, *(f"node.{one}" for one in (*COLUMNS, *VALUES, "oss.scid", "oss.data"))]
    command = [tshark, "-r", str(path), "-T", "fields", "-E", "separator=;", "-E", "occurrence=a"]
    for name in names:
        command += ["-e", f"ipv6.opt.ioam.trace.{name}"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout
    cells = [cell.split(",") if cell else [] for cell in said.rstrip("\n").split(";")]
    return dict(zip((name.removeprefix("node.") for name in names), cells, strict=True))


@pytest.mark.parametrize("name", TRACES)
def test_tshark_agrees(name: str, tool: Callable[..., str], tmp_path: Path) -> None:
    """Header fields, and the values of every node, as tshark dissects them."""
    path = tmp_path / "ioam.pcap"
    with pcap.PcapWriter(path) as writer:
        writer.write(frame_batch([packet(extension(OPTIONS[name]))]))
    said = dissected(tool("tshark"), path)
    row = Row({})
    read_ioam(Buffer(OPTIONS[name]), row, DEFAULT)
    found = ioam.reread(OPTIONS[name], 4)
    assert isinstance(found, tuple)
    trace, nodes = found
    ours = [trace.namespace, trace.node_words, trace.overflow, trace.remaining_words, trace.trace_type]
    assert [_numbers(said[one]) for one in HEAD] == [[one] for one in ours]
    newest_first = list(zip(row.hops[::-1], nodes[::-1], strict=True))
    for one, column in COLUMNS.items():
        has = [getattr(hop, column) for hop, node in newest_first if column in node.values]
        assert _numbers(said[one]) == has, column
    for one, keys in VALUES.items():
        values = [node.values[key] for _, node in newest_first for key in keys if key in node.values]
        assert _numbers(said[one]) == values, one
    opaque = [node for _, node in newest_first if node.schema is not None]
    assert _numbers(said["oss.scid"]) == [node.schema for node in opaque]
    assert said["oss.data"] == [node.snapshot.hex() for node in opaque if node.snapshot]


def _numbers(cells: list[str]) -> list[int]:
    """Numbers as tshark prints them; bytes are one in hexadecimal."""
    return [int(cell, 0) if cell.startswith("0x") or len(cell) < 8 else int(cell, 16) for cell in cells]

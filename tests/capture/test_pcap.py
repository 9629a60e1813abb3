"""Capture files in: what is read equals what scapy and tshark read, and damage has a name."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader, RawPcapReader

from hopscope.capture.errors import Damage, PcapError
from hopscope.capture.pcap.format import to_ns
from hopscope.capture.pcap.reader import PcapReader, read
from hopscope.wire.records import FrameBatch, Link

pytestmark = pytest.mark.kernel
BOTH = pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
Frame = tuple[bytes, int, int, int]


def frames_of(source: object, *, compiled: bool = False, batch: int = 4096) -> tuple[list[Frame], PcapReader]:
    """(bytes, time, wire length, link) of all frames, and the reader."""
    reader = PcapReader(source, compiled=compiled, frames_per_batch=batch)  # type: ignore[arg-type]
    found: list[Frame] = []
    for part in reader:
        assert part.first_packet == len(found)
        found.extend(content(part))
    return found, reader


def content(batch: FrameBatch) -> list[Frame]:
    return [
        (
            batch.arena[int(row["offset"]) : int(row["offset"]) + int(row["length"])].tobytes(),
            int(row["time_ns"]),
            int(row["wire_length"]),
            int(row["link"]),
        )
        for row in batch.frames
    ]


def pcap(
    packets: list[tuple[int, int, bytes]], order: str = "<", magic: int = 0xA1B2C3D4, link: int = 1
) -> bytes:
    out = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)
    for seconds, fraction, body in packets:
        out += struct.pack(f"{order}IIII", seconds, fraction, len(body), len(body) + 7) + body
    return out


def block(order: str, kind: int, body: bytes) -> bytes:
    body += bytes(-len(body) % 4)
    return struct.pack(f"{order}II", kind, len(body) + 12) + body + struct.pack(f"{order}I", len(body) + 12)


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link: int = 1, snap: int = 0, options: bytes = b"") -> bytes:
    return block(order, 1, struct.pack(f"{order}HHI", link, 0, snap) + options)


def option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def enhanced(order: str, number: int, ticks: int, body: bytes) -> bytes:
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(body), len(body) + 3)
    return block(order, 6, head + body)


PACKETS = [(1_700_000_000 + i, 123_456 + i, bytes([i]) * (i * 7)) for i in range(9)]


@BOTH
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("magic", "tick"), [(0xA1B2C3D4, 1000), (0xA1B23C4D, 1)])
def test_pcap_of_either_byte_order_and_resolution(order: str, magic: int, tick: int, compiled: bool) -> None:
    """Bytes, times and wire lengths of µs and ns files, in both byte orders, whole and through gzip."""
    raw = pcap(PACKETS, order, magic)
    expected = [(b, s * 10**9 + f * tick, len(b) + 7, Link.ETHERNET) for s, f, b in PACKETS]
    assert frames_of(io.BytesIO(raw), compiled=compiled)[0] == expected
    assert frames_of(io.BytesIO(gzip.compress(raw)), compiled=compiled, batch=2)[0] == expected


@BOTH
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D])
def test_pcaps_in_a_row(order: str, magic: int, compiled: bool) -> None:
    """`cat one two`: the header of each file is read as such, not as an empty frame of the year 2055."""
    raw = pcap(PACKETS[:2]) + pcap(PACKETS[2:4], order, magic, link=101) + pcap([]) + pcap(PACKETS[4:6], ">")
    found, reader = frames_of(io.BytesIO(raw), compiled=compiled)
    assert reader.damage is None
    assert [body for body, *_ in found] == [body for _, _, body in PACKETS[:6]]
    tick = 1000 if magic == 0xA1B2C3D4 else 1
    ticks = [1000, 1000, tick, tick, 1000, 1000]
    assert [time for _, time, *_ in found] == [
        s * 10**9 + f * t for (s, f, _), t in zip(PACKETS[:6], ticks, strict=True)
    ]
    assert [link for *_, link in found] == [Link.ETHERNET] * 2 + [Link.RAW_IP] * 2 + [Link.ETHERNET] * 2
    assert frames_of(io.BytesIO(raw), compiled=compiled, batch=1)[0] == found
    first = len(pcap(PACKETS[:2]))
    for cut in range(first + 1, first + 24):
        part, reader = frames_of(io.BytesIO(raw[:cut]), compiled=compiled)
        assert part == found[:2]
        assert reader.damage is not None
        assert reader.damage.damage is Damage.TRUNCATED


@BOTH
@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_interfaces_clocks_and_blocks(order: str, compiled: bool) -> None:
    """Each interface keeps its link type and clock; simple, obsolete and unknown blocks are understood."""
    raw = section(order)
    raw += interface(order)
    shifted = option(order, 9, b"\x09") + option(order, 14, struct.pack(f"{order}q", -5))
    raw += interface(order, 113, 0, shifted)
    raw += interface(order, 101, 0, option(order, 2, b"eth0") + option(order, 9, b"\x94"))  # 2^-20 s
    raw += interface(order, 147, 4, option(order, 9, b"\x0c"))  # 10^-12 s
    raw += enhanced(order, 0, 1_700_000_000_000_001, b"one")
    raw += block(order, 0x0BAD, b"????")
    raw += enhanced(order, 1, 1_700_000_000_000_000_002, b"two22")
    raw += enhanced(order, 2, (7 << 20) + (1 << 19), b"")
    raw += enhanced(order, 3, 5_000_001_999, b"pico")
    raw += block(order, 3, struct.pack(f"{order}I", 6) + b"simple")
    old = struct.pack(f"{order}HHIIII", 1, 3, 0, 9, 3, 3)
    raw += block(order, 2, old + b"old")
    expected = [
        (b"one", 1_700_000_000_000_001_000, 6, Link.ETHERNET),
        (b"two22", 1_700_000_000_000_000_002 - 5 * 10**9, 8, Link.LINUX_SLL),
        (b"", 7_500_000_000, 3, Link.RAW_IP),
        (b"pico", 5_000_001, 7, Link.OTHER),
        (b"simple", 0, 6, Link.ETHERNET),
        (b"old", 9 - 5 * 10**9, 3, Link.LINUX_SLL),
    ]
    assert frames_of(io.BytesIO(raw), compiled=compiled)[0] == expected
    assert frames_of(io.BytesIO(raw), compiled=compiled, batch=1)[0] == expected


@BOTH
def test_link_types_that_are_not_read_are_counted(compiled: bool) -> None:
    """How many frames, and the link types that the file describes."""
    raw = section("<") + interface("<") + interface("<", 105) + interface("<", 147)
    raw += enhanced("<", 0, 1, b"one") + enhanced("<", 1, 2, b"two") + enhanced("<", 1, 3, b"three")
    _, reader = frames_of(io.BytesIO(raw), compiled=compiled, batch=2)
    assert reader.unread == 2
    assert "2 frames of link type 105, 147, which is not read" in reader.unread_texts[0]
    _, reader = frames_of(io.BytesIO(pcap(PACKETS)), compiled=compiled)
    assert (reader.unread, reader.unread_texts) == (0, [])


@BOTH
def test_pcapng_sections_of_different_byte_order(compiled: bool) -> None:
    """A new section forgets the interfaces and may change the byte order (files joined with cat)."""
    raw = section("<") + interface("<") + enhanced("<", 0, 1, b"a")
    raw += section(">") + interface(">", 113) + enhanced(">", 0, 2, b"b")
    found, reader = frames_of(io.BytesIO(raw), compiled=compiled)
    assert [(f[0], f[1], f[3]) for f in found] == [(b"a", 1000, Link.ETHERNET), (b"b", 2000, Link.LINUX_SLL)]
    assert reader.damage is None


@given(st.integers(0, 2**64 - 1), st.integers(0, 255), st.integers(0, 2**64 - 1))
def test_clock_of_the_kernel_is_that_of_the_plain_reader(ticks: int, resolution: int, offset: int) -> None:
    """Every if_tsresol gives the same ns in both, and the exact value where it fits 64 bits."""
    from hopscope.capture.layout import Clock
    from hopscope.capture.pcap import format as pcap_format
    from hopscope.capture.pcap import pcap_kernel

    clock, scale = pcap_format._resolution(resolution)
    plain = to_ns(ticks, clock, scale, offset)
    args = (np.uint64(ticks), np.uint8(clock), np.uint64(scale), np.uint64(offset))
    assert int(pcap_kernel.to_ns(*args)) % 2**64 == plain
    if clock == Clock.BINARY:
        exact = ticks * 10**9 >> scale
        assert abs((plain - offset) % 2**64 - exact % 2**64) <= 1 or exact >= 2**64


@BOTH
@pytest.mark.parametrize("kind", ["pcap", "pcapng"])
def test_cut_at_every_byte(kind: str, compiled: bool) -> None:
    """Whatever byte a file is cut at: the whole frames before it come, then one named damage, or none."""
    if kind == "pcap":
        raw = pcap(PACKETS[:4])
    else:
        raw = section("<") + interface("<") + b"".join(enhanced("<", 0, i, bytes(i)) for i in range(4))
    whole, _ = frames_of(io.BytesIO(raw))
    assert len(whole) == 4
    for cut in range(len(raw)):
        try:
            found, reader = frames_of(io.BytesIO(raw[:cut]), compiled=compiled)
        except PcapError as error:
            magic = Damage.CUT_HEADER if cut >= 4 else Damage.NOT_A_CAPTURE
            assert error.damage is (magic if cut else Damage.EMPTY)  # noqa: PT017
            continue
        assert found == whole[: len(found)]
        if reader.damage is None:  # cut between two records
            assert frames_of(io.BytesIO(raw[:cut] + raw[cut:]))[0] == whole
        else:
            assert reader.damage.damage is Damage.TRUNCATED
            assert reader.damage.packets == len(found)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([pcap(PACKETS[:2]), section("<") + interface("<") + enhanced("<", 0, 1, b"abc"), b""]),
    st.binary(max_size=120),
    st.data(),
)
def test_arbitrary_bytes(start: bytes, rest: bytes, data: st.DataObject) -> None:
    """Bytes of any kind end in frames, or a PcapError, and both walks agree about them."""
    at = data.draw(st.integers(0, len(start)))
    raw = start[:at] + rest + start[at + len(rest) :] if data.draw(st.booleans()) else start[:at] + rest
    results = []
    for compiled in (False, True):
        try:
            found, reader = frames_of(io.BytesIO(raw), compiled=compiled)
            results.append((found, str(reader.damage)))
        except PcapError as error:
            results.append(([], str(error)))
    assert results[0] == results[1]


@BOTH
def test_impossible_lengths(compiled: bool) -> None:
    """Lengths that no record can have are named, and the frames before them are delivered."""
    good = pcap(PACKETS[:3])
    found, reader = frames_of(io.BytesIO(good + struct.pack("<IIII", 1, 1, 2**31, 5)), compiled=compiled)
    assert len(found) == 3
    assert reader.damage is not None
    assert reader.damage.damage is Damage.BAD_LENGTH
    assert str(reader.damage).endswith("has a record with an impossible length after packet 2, byte 93")
    begin = section("<") + interface("<") + enhanced("<", 0, 1, b"abc")
    for bad in (
        struct.pack("<II", 6, 33) + bytes(33),  # no multiple of four
        struct.pack("<II", 6, 8),  # shorter than its own header
        struct.pack("<III", 9, 16, 0) + struct.pack("<I", 20),  # the length behind is another
        block("<", 6, struct.pack("<IIIII", 0, 0, 0, 99, 99) + b"abc"),  # more captured than there is
        block("<", 6, b"short"),
        struct.pack("<II", 0x0A0D0D0A, 28) + b"????" * 5,  # no byte order
    ):
        found, reader = frames_of(io.BytesIO(begin + bad), compiled=compiled)
        assert len(found) == 1
        assert reader.damage is not None
        assert reader.damage.damage is Damage.BAD_LENGTH
    _, reader = frames_of(io.BytesIO(begin + enhanced("<", 1, 1, b"abc")), compiled=compiled)
    assert reader.damage is not None
    assert reader.damage.damage is Damage.BAD_INTERFACE


@BOTH
@pytest.mark.parametrize("order", ["<", ">"])
def test_long_blocks(order: str, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block of more than 16 MiB is skipped and counted if it has no packets, and earlier batches stay; else
    it is named as too long. A cut one, and one whose lengths differ, are damage at its beginning.
    """
    monkeypatch.setattr("hopscope.capture.pcap.reader.CHUNK", 3 * 1024 * 1024)
    begin = section(order) + interface(order) + enhanced(order, 0, 1, b"one")
    long = block(order, 10, bytes(16 * 1024 * 1024))
    whole = begin + long + enhanced(order, 0, 2, b"two") + long + enhanced(order, 0, 3, b"three")
    found, reader = frames_of(io.BytesIO(whole), compiled=compiled, batch=2)
    assert [frame[0] for frame in found] == [b"one", b"two", b"three"]
    assert (reader.damage, reader.skipped, reader.position) == (None, 2, len(whole))
    assert reader.unread_texts == ["capture: blocks of more than 16 MiB without packets skipped: 2"]
    for bad, damage in (
        (long[:-5], Damage.TRUNCATED),
        (long[:-1], Damage.TRUNCATED),
        (long[:-4] + bytes(4), Damage.BAD_LENGTH),
        *((block(order, kind, bytes(16 * 1024 * 1024)), Damage.TOO_LONG) for kind in (1, 2, 3, 6)),
        (block(order, 0x0A0D0D0A, section(order)[8:24] + bytes(16 * 1024 * 1024)), Damage.TOO_LONG),
    ):
        found, reader = frames_of(io.BytesIO(begin + bad), compiled=compiled)
        assert [frame[0] for frame in found] == [b"one"]
        assert reader.damage is not None
        assert (reader.damage.damage, reader.damage.offset) == (damage, len(begin))


@BOTH
def test_records_across_chunks(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that do not fit the rest of an arena, or any arena, move to a new one; earlier batches stay."""
    monkeypatch.setattr("hopscope.capture.pcap.reader.CHUNK", 70_000)
    packets = [(i, i, os.urandom(size)) for i, size in enumerate([10, 69_000, 0, 300_000, 1, 65_000, 65_536])]
    raw = pcap(packets * 3)
    batches = list(PcapReader(io.BytesIO(raw), compiled=compiled, frames_per_batch=2))
    found = [frame for batch in batches for frame in content(batch)]
    assert [frame[0] for frame in found] == [body for _, _, body in packets * 3]


def test_stdin_is_delivered_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` reads a pipe, and frames come before the pipe is closed."""
    reading, writing = os.pipe()
    raw = pcap(PACKETS)
    with os.fdopen(reading, "rb") as stdin, os.fdopen(writing, "wb", buffering=0) as out:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stdin))
        first = threading.Thread(target=out.write, args=(raw[:200],))
        first.start()
        first.join()
        reader = PcapReader("-")
        batches = iter(reader)
        early = len(next(batches))
        assert early > 0
        out.write(raw[200:])
        out.close()
        assert early + sum(len(batch) for batch in batches) == len(PACKETS)
        assert reader.damage is None
        assert reader.name == "standard input"


FORK = """
import os, sys
from hopscope.capture.pcap import reader
reader.CHUNK = 70_000
batches = reader.read(sys.argv[1], frames_per_batch=2)
total = sum(len(next(batches)) for _ in range(int(sys.argv[2])))
child = os.fork()
total += sum(map(len, batches))
if child:
    os.waitpid(child, 0)
print(total)
"""


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("batches", [0, 3])
def test_both_processes_read_on_after_a_fork(tmp_path: Path, batches: int, packed: bool) -> None:
    """Each finds all frames of a file that was opened before, and read in part."""
    raw = pcap([(i, i, os.urandom(9000)) for i in range(50)])
    path = tmp_path / "reports.pcap"
    path.write_bytes(gzip.compress(raw) if packed else raw)
    done = subprocess.run(
        [sys.executable, "-c", FORK, str(path), str(batches)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("50\n50\n", "")


def test_damaged_gzip(tmp_path: Path) -> None:
    """A gzipped file that is cut or overwritten gives what could be unpacked, then says so."""
    raw = pcap([(i, i, os.urandom(1000)) for i in range(300)])
    packed = gzip.compress(raw)
    for name, damaged in (("cut", packed[: len(packed) // 2]), ("crc", packed[:-8] + bytes(8))):
        path = tmp_path / name
        path.write_bytes(damaged)
        found, reader = frames_of(path)
        assert 0 < len(found) <= 300
        assert reader.damage is not None
        assert reader.damage.damage is Damage.BAD_COMPRESSION
    with pytest.raises(PcapError, match="damaged gzip"):
        frames_of(io.BytesIO(packed[:12]))
    two = gzip.compress(raw[:500]) + gzip.compress(raw[500:])
    assert len(frames_of(io.BytesIO(two))[0]) == 300


def test_files_that_are_none(tmp_path: Path) -> None:
    """Missing, empty, foreign and unreadable files are refused at once, in one line that names them."""
    foreign = tmp_path / "notes.txt"
    foreign.write_text("Dear diary, this is not a capture.")
    empty = tmp_path / "empty.pcap"
    empty.touch()
    packed = tmp_path / "reports.pcap.xz"
    packed.write_bytes(lzma.compress(pcap(PACKETS)))
    for path, line in (
        (tmp_path / "missing.pcap", "cannot be read (No such file or directory)"),
        (tmp_path, "cannot be read (Is a directory)"),
        (empty, "is empty"),
        (foreign, "is neither pcap nor pcapng"),
        (
            packed,
            "is neither pcap nor pcapng (it is compressed: unpack it, or pipe `xz -dc` into standard input)",
        ),
    ):
        with pytest.raises(PcapError) as caught:
            read(path)
        assert str(caught.value) == f"{path}: {line}"


def test_read_raises_after_the_last_good_frame() -> None:
    """`read` delivers the frames before the damage, then raises it."""
    batches = read(io.BytesIO(pcap(PACKETS)[:-1]))
    assert len(next(batches)) == len(PACKETS) - 1
    with pytest.raises(PcapError, match="is cut in the middle of a record after packet 7"):
        next(batches)


@BOTH
def test_every_capture_as_scapy_reads_it(shared: Path, compiled: bool) -> None:
    """All captures that this project did not make: the same bytes, times and lengths as scapy."""
    paths = sorted(shared.rglob("*.pcap*"))
    assert len(paths) >= 10
    for path in paths:
        found, reader = frames_of(path, compiled=compiled, batch=5)
        assert reader.damage is None
        if path.suffix == ".pcapng":
            with RawPcapNgReader(str(path)) as theirs:
                expected = [
                    (body, ((m.tshigh << 32 | m.tslow) * 10**9) // m.tsresol, m.wirelen)
                    for body, m in cast("Iterator[tuple[bytes, Any]]", theirs)
                ]
        else:
            with RawPcapReader(str(path)) as raw:
                tick = 1 if raw.nano else 1000
                expected = [(body, m.sec * 10**9 + m.usec * tick, m.wirelen) for body, m in raw]
        assert [frame[:3] for frame in found] == expected, path.name


def test_counts_and_times_as_tshark_reads_them(shared: Path, tool: Callable[..., str]) -> None:
    """Frame times and lengths of a pcapng and a pcap equal those of tshark."""
    tshark = tool("tshark")
    for path in (shared / "report_2_0/bmv2_19_reports.pcapng", shared / "traffic/tcpreplay_test.pcap"):
        fields = ["-e", "frame.time_epoch", "-e", "frame.cap_len"]
        out = subprocess.run(
            [tshark, "-r", str(path), "-T", "fields", *fields],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        theirs = [line.split("\t") for line in out.splitlines()]
        # whole seconds are written as an epoch or as a date, by version; the fraction is the same
        ours = [(f"{t % 10**9:09d}", str(len(body))) for body, t, _, _ in frames_of(path)[0]]
        assert [(moment.rstrip("Z").rpartition(".")[2], n) for moment, n in theirs] == ours


def test_closed_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed standard input is one line."""
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(PcapError, match="standard input: cannot be read \\(is closed\\)"):
        PcapReader("-")

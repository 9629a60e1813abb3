"""Frames of a sink on their way on: order, what is dropped and why, capture files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.pcap.reader import read
from hopscope.detect.counters import INDEX
from hopscope.runtime.sink.forward import Forwarder, ToInterface, to_file
from hopscope.settings.sink import SinkSettings
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import FRAME, HOP, REPORT, FrameBatch, Link, Records, ReportBatch
from hopscope.wire.rewrite import strip_kernel

SLOT = 2048
LONGEST = 1514


class Ring:
    """A sender with few slots, which keeps what it is given."""

    def __init__(self, slots: int, turns: int = 1000, waits: int = 0) -> None:
        self.arena: npt.NDArray[np.uint8] = np.zeros(slots * SLOT, np.uint8)
        self.room = LONGEST + 4
        self.sent = self.rejected = self.dropped = 0
        self.marked = np.zeros(8, np.int64)
        self.out: list[bytes] = []
        self.closed = False
        self._slots = slots
        self._turns = turns
        self._waits = self._waiting = waits

    @property
    def waiting(self) -> int:
        return self._waits

    def slots(self, n: int) -> npt.NDArray[np.uint64]:
        self._turns -= 1
        free = min(n, self._slots) if self._turns >= 0 else 0
        return np.arange(free, dtype=np.uint64) * np.uint64(SLOT)

    def send(self, lengths: npt.NDArray[np.uint32], marks: npt.NDArray[np.uint8]) -> int:
        for slot, (length, mark) in enumerate(zip(lengths.tolist(), marks.tolist(), strict=True)):
            assert length == 0 or 14 <= length <= self.room
            if length > LONGEST:
                self.rejected += 1
            elif length:
                self.out.append(self.arena[slot * SLOT : slot * SLOT + length].tobytes())
                self.marked[mark] += 1
        self.sent = len(self.out) - self._waits
        return self.sent

    def flush(self) -> int:
        self.sent, self._waits = len(self.out), 0
        return self._waiting

    def close(self) -> None:
        self.closed = True
        self.dropped += self._waits


class TakesFour:
    """Takes the last 4 bytes of every packet with a report, and leaves those with a reason."""

    def __init__(self) -> None:
        self.results: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    def _stripped(self, frames: FrameBatch, reports: ReportBatch, numbers: range) -> list[bytes]:
        reasons = {int(row["packet"]): int(row["reason"]) for row in reports.reports}
        here = [reasons.get(number) for number in numbers]
        kinds = {0: strip_kernel.STRIPPED, None: strip_kernel.PASSED}
        self.results = np.array([kinds.get(reason, strip_kernel.DAMAGED) for reason in here], np.uint8)
        whole = [frames.arena[f["offset"] : f["offset"] + f["length"]].tobytes() for f in frames.frames]
        return [whole[i][:-4] if reason == 0 else whole[i] for i, reason in zip(numbers, here, strict=True)]

    def strip(self, frames: FrameBatch, reports: ReportBatch) -> FrameBatch:
        return batch_of(self._stripped(frames, reports, range(len(frames))))

    def strip_into(
        self, frames: FrameBatch, reports: ReportBatch, arena: npt.NDArray[np.uint8],
        offsets: npt.NDArray[np.uint64], room: int, first: int,
    ) -> npt.NDArray[np.uint32]:  # fmt: skip
        lengths = np.zeros(len(offsets), np.uint32)
        numbers = range(first, first + len(offsets))
        for i, one in enumerate(self._stripped(frames, reports, numbers)):
            if len(one) <= room:
                arena[int(offsets[i]) : int(offsets[i]) + len(one)] = np.frombuffer(one, np.uint8)
                lengths[i] = len(one)
        return lengths


def batch_of(packets: list[bytes]) -> FrameBatch:
    """Frames of these bytes, one after the other."""
    frames: Records = np.zeros(len(packets), FRAME)
    frames["length"] = frames["wire_length"] = [len(one) for one in packets]
    frames["offset"] = np.cumsum(frames["length"]) - frames["length"]
    frames["link"] = Link.ETHERNET
    frames["time_ns"] = 1_000_000_000 + np.arange(len(packets))
    return FrameBatch(np.frombuffer(b"".join(packets), np.uint8), frames)


def reports_of(rows: dict[int, int]) -> ReportBatch:
    """Rows for these frames, with these reasons."""
    reports: Records = np.zeros(len(rows), REPORT)
    reports["packet"], reports["reason"] = list(rows), list(rows.values())
    return ReportBatch(reports, np.zeros(0, HOP))


def packet(number: int, length: int = 100) -> bytes:
    """A frame that is told by its bytes."""
    return bytes([number]) * length


def forwarder(ring: Ring, counted: Counter[str], **settings: Any) -> Forwarder:
    """What sends into the ring, with a stripper of the test's own."""

    def count(key: str, more: int) -> None:
        assert key in INDEX
        assert more >= 0
        counted[key] += more

    made = ToInterface(ring, SinkSettings(**settings), count)
    made._strippers[DEFAULT] = TakesFour()  # type: ignore[assignment]
    return made


def test_order_is_kept_over_several_rounds_of_a_small_ring() -> None:
    """More frames than slots go in rounds, each with its own reports; the order is that of the batch."""
    ring, counted = Ring(3), Counter[str]()
    packets = [packet(i) for i in range(10)]
    forwarder(ring, counted)(batch_of(packets), reports_of({1: 0, 4: 0, 5: 2, 9: 0}), DEFAULT)
    assert ring.out == [one[:-4] if i in (1, 4, 9) else one for i, one in enumerate(packets)]
    assert +counted == {
        "forwarded_frames_total": 10,
        "stripped_packets_total": 3,
        "unstripped_packets_total": 1,
    }


def test_a_full_ring_drops_the_rest_at_once() -> None:
    """Where no slot is free, frames are counted, and nothing waits."""
    ring, counted = Ring(4, turns=1), Counter[str]()
    forwarder(ring, counted)(batch_of([packet(i) for i in range(10)]), reports_of({}), DEFAULT)
    assert ring.out == [packet(i) for i in range(4)]
    assert counted["forwarded_frames_total"] == 4
    assert counted["forward_drops_total.no_slot"] == 6


def test_frames_that_cannot_go_have_a_reason() -> None:
    """Too long for the MTU or the slot, cut by the capture, shorter than a header: each is counted once, and
    the frames around it go on in order."""
    ring, counted = Ring(16), Counter[str]()
    sizes = (100, LONGEST + 1, LONGEST, LONGEST + 5, 100, 9, 100)
    packets = [packet(i, size) for i, size in enumerate(sizes)]
    batch = batch_of(packets)
    batch.frames["wire_length"][4] += 1
    forwarder(ring, counted)(batch, reports_of({}), DEFAULT)
    assert ring.out == [packets[i] for i in (0, 2, 6)]
    assert +counted == {
        "forwarded_frames_total": 3,
        "forward_drops_total.too_long": 2,
        "forward_drops_total.cut": 1,
        "forward_drops_total.too_short": 1,
    }


def test_what_does_not_go_on_is_not_stripped() -> None:
    """Frames that bypassed the sink, that are too long without their INT, or that find no slot are counted
    once each, and never as stripped or damaged: forwarded, bypassed and dropped frames are all frames.
    """
    ring, counted = Ring(6, turns=1), Counter[str]()
    packets = [
        packet(0),
        packet(1),
        packet(2),
        packet(3, LONGEST + 7),
        packet(4),
        packet(5),
        *map(packet, range(6, 9)),
    ]
    batch = batch_of(packets)

    class Heartbeat:
        def passed(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
            return np.isin(np.arange(len(times)), (1, 2, 7))

    made = forwarder(ring, counted)
    made._heartbeat = Heartbeat()  # type: ignore[attr-defined]
    made(batch, reports_of({0: 0, 1: 0, 2: 2, 3: 0, 4: 2, 6: 0, 7: 0, 8: 0}), DEFAULT)
    assert ring.out == [packet(0)[:-4], packet(4), packet(5)]
    assert +counted == {
        "forwarded_frames_total": 3,
        "stripped_packets_total": 1,
        "unstripped_packets_total": 1,
        "bypassed_frames_total": 3,
        "forward_drops_total.too_long": 1,
        "forward_drops_total.no_slot": 2,
    }


def test_what_waits_in_the_ring_is_counted_when_it_goes() -> None:
    """A frame counts as sent when the interface has taken it, and as dropped when it never did."""
    for goes, key in ((True, "forwarded_frames_total"), (False, "forward_drops_total.down")):
        ring, counted = Ring(8, waits=2), Counter[str]()
        with forwarder(ring, counted) as forward:
            forward(batch_of([packet(i) for i in range(5)]), reports_of({}), DEFAULT)
            assert +counted == {"forwarded_frames_total": 3}
            if goes:
                forward.flush()
        assert counted[key] - 3 * goes == 2


def test_a_packet_that_fits_without_its_int_goes() -> None:
    """The MTU is that of the packet as it leaves."""
    ring, counted = Ring(4), Counter[str]()
    forwarder(ring, counted)(batch_of([packet(1, LONGEST + 4)]), reports_of({0: 0}), DEFAULT)
    assert ring.out == [packet(1, LONGEST)]


def test_without_stripping_packets_go_as_they_came() -> None:
    """`sink.strip = false` keeps the INT and counts no packet as stripped."""
    ring, counted = Ring(4), Counter[str]()
    forwarder(ring, counted, strip=False)(batch_of([packet(1), packet(2)]), reports_of({0: 0}), DEFAULT)
    assert ring.out == [packet(1), packet(2)]
    assert +counted == {"forwarded_frames_total": 2}


def test_closing_closes_the_sender() -> None:
    """It is closed once the block ends."""
    ring = Ring(1)
    with forwarder(ring, Counter()):
        assert not ring.closed
    assert ring.closed


@pytest.mark.parametrize("name", ["out.pcap", "out.pcapng"])
@pytest.mark.parametrize("link", [Link.ETHERNET, Link.RAW_IP])
def test_a_file_has_the_frames_in_order_with_their_times(tmp_path: Path, name: str, link: Link) -> None:
    """The capture has every frame once, those with INT without it, of the link type of the input."""
    counted = Counter[str]()
    packets = [packet(i) for i in range(6)]
    batch = batch_of(packets)
    batch.frames["link"] = link
    with to_file(
        tmp_path / name, SinkSettings(strip=False), lambda key, n: counted.update({key: n})
    ) as forward:
        forward(batch, reports_of({2: 0}), DEFAULT)
        forward(batch, reports_of({}), DEFAULT)
    (found,) = read(tmp_path / name)
    assert [
        found.arena[f["offset"] : f["offset"] + f["length"]].tobytes() for f in found.frames
    ] == packets * 2
    assert (found.frames["time_ns"] == np.tile(batch.frames["time_ns"], 2)).all()
    assert (found.frames["link"] == link).all()
    assert counted["forwarded_frames_total"] == 12


def test_a_file_without_frames_is_one(tmp_path: Path) -> None:
    """Nothing to write is a capture of no packet."""
    to_file(tmp_path / "empty.pcap", SinkSettings(), lambda key, n: None).close()
    assert list(read(tmp_path / "empty.pcap")) == []


def test_a_file_that_cannot_be_written_is_told_at_the_start(tmp_path: Path) -> None:
    """A folder that is not there is one line, before any frame."""
    with pytest.raises(CaptureError, match=r"out\.pcap: cannot be written"):
        to_file(tmp_path / "no" / "out.pcap", SinkSettings(), lambda key, n: None)

"""Sequence numbers of reporters: what is lost, late and double, across the wrap of 8 and of 32 bits."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from hopscope.direct.translation.sequence import WINDOWS, SequenceTracker
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.records import DTA, DtaFlag
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FRAME, Records

pytestmark = pytest.mark.kernel
FORMS = [Form.THREE, Form.SIZED]


def batch(numbers: list[int], sources: list[int] | int = 1, flags: int = 0) -> tuple[Records, Records]:
    reports, frames = np.zeros(len(numbers), DTA), np.zeros(len(numbers), FRAME)
    reports["sequence"], reports["flags"] = numbers, flags
    frames["source_lo"], frames["source_port"] = sources, 5
    return reports, frames


class Plain:
    """The same rules for one reporter, with a set of all numbers that were had."""

    def __init__(self, form: Form) -> None:
        self.form, self.had, self.first, self.newest = form, set[int](), -1, -1
        self.lost = self.late = self.duplicate = 0

    def see(self, number: int) -> None:
        """`number` is not wrapped."""
        if self.first < 0:
            self.first = self.newest = number
        elif number in self.had:
            self.duplicate += 1
        elif number < self.newest:
            self.late += 1
            self.lost -= number > self.first
        else:
            self.lost += number - self.newest - 1
            self.newest = number
        self.had.add(number)


@pytest.mark.parametrize("form", FORMS)
def test_against_a_plain_twin(form: Form) -> None:
    """Numbers that are lost, doubled and reordered within the window are distinguished, over several
    wraps.
    """
    rng, bits = random.Random(5), form.sequence_bits
    start = (4 << bits) - 300  # so that both forms wrap
    numbers = []
    for number in range(start, start + 20_000):
        if rng.random() < 0.03:
            continue
        for _ in range(1 + (rng.random() < 0.03)):
            delay = rng.randrange(1, WINDOWS[Form.THREE] // 2) if rng.random() < 0.05 else 0
            numbers.append((number + delay, rng.random(), number))
    sent = [number for *_, number in sorted(numbers)]
    plain, tracker = Plain(form), SequenceTracker(form)
    duplicates = 0
    for at in range(0, len(sent), 500):
        part = sent[at : at + 500]
        for number in part:
            plain.see(number)
        reports, frames = batch([number % (1 << bits) for number in part])
        tracker.track(reports, frames)
        duplicates += int((reports["reason"] == DtaReason.DUPLICATE).sum())
    counts = tracker.counts
    assert plain.late > 100 < plain.duplicate
    assert (counts["lost"], counts["late"], counts["duplicate"]) == (plain.lost, plain.late, plain.duplicate)
    assert duplicates == plain.duplicate
    assert counts["stale"] == counts["restarts"] == 0
    assert {name: int(tracker.reporters[0][name]) for name in ("lost", "late", "duplicate")} == {
        name: counts[name] for name in ("lost", "late", "duplicate")
    }


def test_long_gaps_clear_what_was_had() -> None:
    """Behind a gap of any length up to the window and beyond, no number of it is taken for a double."""
    for gap in (1, 2, 63, 64, 65, 4000, 8190, 8191, 8192, 8193, 20_000):
        tracker = SequenceTracker(Form.SIZED)
        tracker.track(*batch(list(range(9000))))
        reports, frames = batch([9000 + gap, 9000 + gap - 1, 9000, 8999])
        gaps = tracker.track(reports, frames)
        assert gaps.tolist() == [gap, 0, 0, 0]
        known = gap < WINDOWS[Form.SIZED]
        late = 0 if known else DtaReason.STALE
        assert reports["reason"].tolist()[1:3] == [0, late if gap > 1 else DtaReason.DUPLICATE]
        assert reports["reason"][3] == (DtaReason.DUPLICATE if gap < 8191 else DtaReason.STALE)


def test_a_new_numbering() -> None:
    """A stray number changes nothing; two that follow each other are a restart, which loses nothing."""
    tracker = SequenceTracker(Form.SIZED)
    tracker.track(*batch([1 << 30, (1 << 30) + 1]))
    reports, frames = batch([5, (1 << 30) + 2, 5, 6, 7, 6])
    tracker.track(reports, frames)
    assert reports["reason"].tolist() == [
        DtaReason.STALE, 0, DtaReason.STALE, 0, 0, DtaReason.DUPLICATE,
    ]  # fmt: skip
    assert (tracker.counts["restarts"], tracker.counts["lost"]) == (1, 0)


def test_unknown_reporters_start_fresh() -> None:
    """The first number of a reporter is no loss, and reporters do not disturb each other."""
    tracker = SequenceTracker(Form.SIZED)
    reports, frames = batch([700, 12, 701, 14, 701], [1, 2, 1, 2, 1])
    gaps = tracker.track(reports, frames)
    assert gaps.tolist() == [0, 0, 0, 1, 0]
    assert reports["reason"].tolist() == [0, 0, 0, 0, DtaReason.DUPLICATE]
    assert sorted(tracker.reporters["lost"].tolist()) == [0, 1]


def test_a_host_with_many_ports_keeps_nobody_out() -> None:
    """It loses rows to reporters of other addresses, up to an equal share, and takes none of them."""
    tracker = SequenceTracker(Form.SIZED, reporters=64)

    def track(sources: list[int], ports: list[int], sequence: int) -> None:
        reports, frames = batch([sequence] * len(sources), sources)
        frames["source_port"] = ports
        tracker.track(reports, frames)

    def tracked() -> set[int]:
        return set(tracker.reporters["source_lo"].tolist()) - {7}

    many = range(1, 2001)
    track([7] * 2000, list(many), 3)
    assert len(tracker.reporters) == 64
    track([*range(100, 108)], [9] * 8, 3)
    assert tracked() == set(range(100, 108))
    assert tracker.counts["replaced"] == 8
    track([7] * 2000, list(many), 4)
    track([*range(100, 108)], [9] * 8, 5)
    assert tracked() == set(range(100, 108))
    lost = {int(row["source_lo"]): int(row["lost"]) for row in tracker.reporters}
    assert [lost[source] for source in range(100, 108)] == [1] * 8, "their numbers were kept"


def test_a_flood_of_addresses_is_bounded() -> None:
    """More addresses than rows pass untracked, until those that are known have been silent for long."""
    tracker = SequenceTracker(Form.SIZED, reporters=16, idle_s=10)
    reports, frames = batch([3] * 1000, list(range(1000)))
    tracker.track(reports, frames)
    assert not reports["reason"].any()
    assert len(tracker.reporters) == 16
    assert tracker.counts["untracked"] == 984
    frames["time_ns"] = 11_000_000_000
    frames["source_lo"] += 5000
    tracker.track(reports, frames)
    assert len(tracker.reporters) == 16
    assert (tracker.reporters["source_lo"] >= 5000).all()
    assert tracker.counts["replaced"] == 16


def test_damaged_reports_are_missing() -> None:
    """A report that the parser rejected is not counted as had, so the sender may send it again."""
    tracker = SequenceTracker(Form.THREE)
    reports, frames = batch([1, 2, 3])
    reports["reason"][1] = DtaReason.BAD_LENGTH
    assert tracker.track(reports, frames).tolist() == [0, 0, 1]
    assert tracker.counts["received"] == 2


@pytest.mark.parametrize("form", FORMS)
def test_rejected_reports_are_requested_again(form: Form) -> None:
    """NACKs name gaps, and what found no room, in runs, only where reports ask for it; sent again, these are
    no duplicates, and no longer lost.
    """
    tracker, most = SequenceTracker(form), (1 << form.sequence_bits) - 1
    numbers = [most - 1, 1, 2, 3, 6]
    reports, frames = batch(numbers, flags=DtaFlag.RETRANSMIT)
    reports["flags"][4] = 0
    tracker.track(reports, frames)
    reports["reason"][2:4] = DtaReason.RATE_LIMITED
    reports["reason"][4] = DtaReason.CONGESTED
    nacks = tracker.nacks(reports, frames)
    assert nacks[["sequence", "count", "reason", "nack", "source_lo", "source_port"]].tolist() == [
        (most, 2, 0, 1, 1, 5),  # over the wrap
        (2, 2, DtaReason.RATE_LIMITED, 1, 1, 5),
    ]
    assert tracker.counts["lost"] == 2 + 2 + 3
    again, frames = batch([most, 0, 2, 3, 6, 3], flags=DtaFlag.RETRANSMIT)
    assert not tracker.track(again, frames).any()
    assert again["reason"].tolist() == [0, 0, 0, 0, 0, DtaReason.DUPLICATE]
    assert tracker.counts["lost"] == 2  # 4 and 5


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("first", [0, 7])
def test_acknowledgments_after_a_loss_for_good(form: Form, first: int) -> None:
    """None while a missing report may still be kept by its reporter, half a window; then they go on."""
    tracker, kept = SequenceTracker(form), WINDOWS[form] // 2
    acknowledged = []
    for number in (first, *range(first + 2, first + 2 * kept + 2)):
        reports, frames = batch([number & ((1 << form.sequence_bits) - 1)], flags=DtaFlag.RETRANSMIT)
        tracker.track(reports, frames)
        acknowledged += tracker.acks(reports, frames)["sequence"].tolist()
    missing = first + 1
    assert acknowledged == [first, *range(missing + kept, first + 2 * kept + 2)]
    assert tracker.counts["lost"] == 1


def test_a_first_report_without_room_comes_again() -> None:
    """Number 0 is not taken for that of a reporter without numbers: sent again, nothing is missing."""
    tracker = SequenceTracker(Form.SIZED)
    for reason, missing in ((DtaReason.CONGESTED, 1), (DtaReason.NONE, 0)):
        reports, frames = batch([0], flags=DtaFlag.RETRANSMIT)
        tracker.track(reports, frames)
        reports["reason"] = reason
        tracker.nacks(reports, frames)
        assert tracker.counts["lost"] == missing
    assert len(tracker.acks(reports, frames)) == 1


def test_the_form_without_numbers() -> None:
    """It cannot be followed, and says so."""
    with pytest.raises(ValueError, match="no sequence numbers"):
        SequenceTracker(Form.TWO)


@pytest.mark.parametrize("form", FORMS)
def test_a_reporter_that_always_sends_0(form: Form) -> None:
    """It is accepted, alone and beside others; from its first other number on it is checked."""
    tracker = SequenceTracker(form)
    for number in (7, 8, 9):
        reports, frames = batch([0, number, 0, 0], [1, 2, 1, 1])
        tracker.track(reports, frames)
        assert not reports["reason"].any()
    reports, frames = batch([1, 1, 0], [1, 1, 1])
    tracker.track(reports, frames)
    assert reports["reason"].tolist() == [0, DtaReason.DUPLICATE, DtaReason.DUPLICATE]


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize(("sent", "silent_ns"), [(200, 0), (66, 0), (20, 10**9), (10_000, 0), (1 << 20, 0)])
def test_a_switch_that_starts_again(first: int, sent: int, silent_ns: int) -> None:
    """All of its reports are accepted, and none is counted as lost; it is one restart."""
    tracker = SequenceTracker(Form.SIZED)
    for at in range(first, sent, 8192):
        tracker.track(*batch(list(range(at, min(at + 8192, sent)))))
    reports, frames = batch(list(range(first, 300)))
    frames["time_ns"] = silent_ns
    tracker.track(reports, frames)
    assert not reports["reason"].any()
    assert (tracker.counts["restarts"], tracker.counts["lost"]) == (1, 0)


def test_a_double_of_the_first_report_is_no_restart() -> None:
    """Soon after it, or from a reporter that sends again on request: it is a duplicate."""
    tracker = SequenceTracker(Form.SIZED)
    reports, frames = batch([1, 2, 1, 3])
    tracker.track(reports, frames)
    assert reports["reason"].tolist() == [0, 0, DtaReason.DUPLICATE, 0]
    tracker.track(*batch(list(range(4, 200))))
    reports, frames = batch([1], flags=DtaFlag.RETRANSMIT)
    frames["time_ns"] = 10**10
    tracker.track(reports, frames)
    assert reports["reason"].tolist() == [DtaReason.DUPLICATE]
    assert tracker.counts["restarts"] == 0


def test_two_reporters_behind_one_address() -> None:
    """Their UDP ports tell them apart: equal numbers are no duplicates, and answers name each."""
    tracker = SequenceTracker(Form.SIZED)
    reports, frames = batch([5, 5, 6, 8], flags=DtaFlag.RETRANSMIT)
    frames["source_port"] = [1000, 2000, 1000, 2000]
    assert tracker.track(reports, frames).tolist() == [0, 0, 0, 2]
    assert not reports["reason"].any()
    nacks, acks = tracker.nacks(reports, frames), tracker.acks(reports, frames)
    assert nacks[["sequence", "count", "source_port"]].tolist() == [(6, 2, 2000)]
    assert acks[["sequence", "source_port"]].tolist() == [(6, 1000)]


def test_the_next_process_goes_on(tmp_path: Path) -> None:
    """With reporters that ask for retransmission: what they sent meanwhile is missing, and a report of before
    is a duplicate. Others, and those that have been silent for longer, are new.
    """
    path, sources = tmp_path / "reporters", np.arange(1, 5).tolist()
    flags = np.array([DtaFlag.RETRANSMIT, 0, DtaFlag.RETRANSMIT, DtaFlag.RETRANSMIT])
    tracker = SequenceTracker(Form.SIZED, path=path)
    for number, missing in ((5, 0), (8, 2)):
        reports, frames = batch([number] * 4, sources)
        reports["flags"], frames["time_ns"] = flags, time.time_ns()
        frames["time_ns"][3] -= 61 * 10**9
        assert tracker.track(reports, frames).tolist() == [missing] * 4
        tracker.acks(reports, frames)
    again = SequenceTracker(Form.SIZED, path=path)
    assert sorted(again.reporters["source_lo"].tolist()) == [1, 3]
    assert again.counts["lost"] == 4
    reports, frames = batch([12] * 4 + [8] * 4 + [6] * 4, sources * 3, DtaFlag.RETRANSMIT)
    assert again.track(reports, frames).tolist() == [3, 0, 3, 0] + [0] * 8
    assert reports["reason"][4:8].tolist() == [DtaReason.DUPLICATE, 0, DtaReason.DUPLICATE, 0]
    assert not reports["reason"][8:].any()
    assert again.counts["lost"] == 2 + 6
    path.write_bytes(b"")
    assert not len(SequenceTracker(Form.SIZED, path=path).reporters)

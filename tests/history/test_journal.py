"""The journal: what append promises, recovery, rejections."""

from __future__ import annotations

import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from hopscope.detect.records import EVENT
from hopscope.history.errors import HistoryError
from hopscope.history.files import journal_file
from hopscope.history.files.journal_file import EVENT_BYTES, HEADER_BYTES
from hopscope.history.files.names import damaged_files, list_journals, noted_path
from hopscope.history.query import History
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalFull, JournalWriter, read_journals
from hopscope.settings.history import HistorySettings


def some(n: int, start: int = 0) -> np.ndarray:
    events = np.zeros(n, EVENT)
    events["value"] = np.arange(start, start + n)
    return events


def test_events_come_back_in_order_with_their_sequence(tmp_path: Path) -> None:
    """Batches over several files are read as one gapless sequence, of the right shard."""
    with JournalWriter(tmp_path, 3, file_bytes=HEADER_BYTES + 10 * EVENT_BYTES) as writer:
        firsts = [
            writer.append(some(n, at)) for n, at in ((4, 0), (5, 4), (1, 9), (25, 10), (0, 35), (3, 35))
        ]
        assert firsts == [0, 4, 9, 10, 35, 35]
        events = read_journals(tmp_path)  # while the last file is open
    assert events["sequence"].tolist() == events["value"].tolist() == list(range(38))
    assert set(events["shard"].tolist()) == {3}
    assert len(list_journals(tmp_path)) == 3
    with JournalWriter(tmp_path, 3) as writer:
        assert writer.next_sequence == 38


def test_a_torn_record_is_cut_and_reported(tmp_path: Path) -> None:
    """A tail of any length that is no whole record goes at the next start; everything before it stays."""
    for torn in (1, 64, 127):
        folder = tmp_path / str(torn)
        with JournalWriter(folder, 0) as writer:
            writer.append(some(7))
        path = list_journals(folder)[0].path
        with path.open("ab") as file:
            file.write(b"\xff" * torn)
        assert len(read_journals(folder)) == 7
        told: list[str] = []
        with JournalWriter(folder, 0, notify=told.append) as writer:
            assert writer.append(some(2, 7)) == 7
        assert len(told) == 1
        assert re.search(rf": {torn} bytes? of", told[0])
        assert read_journals(folder)["value"].tolist() == list(range(9))


def test_events_after_a_damaged_one_are_kept_aside(tmp_path: Path) -> None:
    """A record that rots on the disk costs the journal what is after it, but nothing is deleted."""
    with JournalWriter(tmp_path, 0) as journal:
        journal.append(np.zeros(5, EVENT))
    (path,) = (tmp_path / "journal").glob("*.journal")
    raw = bytearray(path.read_bytes())
    raw[HEADER_BYTES + 2 * EVENT_BYTES] ^= 1  # the sequence of the third
    path.write_bytes(raw)
    lines: list[str] = []
    JournalWriter(tmp_path, 0, notify=lines.append).close()
    (cut,) = (tmp_path / "journal").glob("*.cut")
    assert cut.read_bytes() == raw[HEADER_BYTES + 2 * EVENT_BYTES :]
    assert len(lines) == 1
    assert lines[0].endswith(f"{3 * EVENT_BYTES} bytes of a torn write cut into {cut.name}, 2 events kept")


def test_zeros_after_the_last_record_are_cut(tmp_path: Path) -> None:
    """A file that a power loss filled up with zeros ends where the sequence does."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(some(5))
    path = list_journals(tmp_path)[0].path
    os.truncate(path, path.stat().st_size + 4096)
    told: list[str] = []
    with JournalWriter(tmp_path, 0, notify=told.append) as writer:
        assert writer.next_sequence == 5
    assert told
    assert path.stat().st_size == HEADER_BYTES + 5 * EVENT_BYTES


def test_a_journal_of_the_first_layout(tmp_path: Path) -> None:
    """Journals without `switch_ns`, of 128 bytes an event, are read, cut where torn, and continued."""
    events = some(5)
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(events)
    path = list_journals(tmp_path)[0].path
    head = bytearray(path.read_bytes()[:HEADER_BYTES])
    struct.pack_into("<II", head, 8, 1, 128)
    struct.pack_into("<I", head, 40, zlib.crc32(head[:40]))
    first = np.dtype([field for field in EVENT.descr if field[0] != "switch_ns"])
    older = np.zeros(5, first)
    for name in first.names or ():
        older[name] = events[name]
    path.write_bytes(bytes(head) + older.tobytes() + b"torn")
    told: list[str] = []
    with JournalWriter(tmp_path, 0, notify=told.append) as writer:
        assert writer.append(some(2)) == 5
    assert len(told) == 1
    found = read_journals(tmp_path)
    assert found["value"].tolist() == [*range(5), *range(2)]
    assert found["sequence"].tolist() == list(range(7))
    assert not found["switch_ns"].any()


def test_one_writer_per_shard(tmp_path: Path) -> None:
    """A second writer of a shard is rejected in one line; another shard, or after close, is fine."""
    with (
        JournalWriter(tmp_path, 0),
        JournalWriter(tmp_path, 1),
        pytest.raises(HistoryError, match="another process writes shard 0"),
    ):
        JournalWriter(tmp_path, 0)
    JournalWriter(tmp_path, 0).close()


@pytest.mark.parametrize("damage", [b"GARBAGE!" + bytes(200), b"HOPSJRNL", None])
def test_a_damaged_header_is_set_aside(tmp_path: Path, damage: bytes | None) -> None:
    """Readers leave the file out, the next writer renames it and uses none of its numbers again; None: one
    flipped bit.
    """
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(some(3))
        writer.rotate()
        writer.append(some(100))
    _, path = (journal.path for journal in list_journals(tmp_path))
    if damage is None:
        whole = path.read_bytes()
        damage = whole[:20] + bytes([whole[20] ^ 1]) + whole[21:]
    path.write_bytes(damage)
    assert len(read_journals(tmp_path)) == 3
    with History(tmp_path) as history:
        assert len(history.events(limit=None)) == 3
        assert [line for line in history.problems if f"{path} is damaged" in line]
    lines: list[str] = []
    with JournalWriter(tmp_path, 0, notify=lines.append) as writer:
        assert writer.next_sequence >= 3 + (len(damage) - HEADER_BYTES) // EVENT_BYTES
        writer.append(some(2))
    (aside,) = damaged_files(tmp_path)
    assert aside.read_bytes() == damage
    assert lines[-1].endswith(f"set aside as {path.name}.damaged")
    assert len(read_journals(tmp_path)) == 5


def test_the_archive_sets_a_damaged_journal_aside(tmp_path: Path) -> None:
    """Also one of a shard that nobody writes any more."""
    for shard in (0, 1):
        with JournalWriter(tmp_path, shard) as writer:
            writer.append(some(3))
    list_journals(tmp_path)[1].path.write_bytes(b"GARBAGE!" + bytes(200))
    lines: list[str] = []
    result = archive_once(tmp_path, HistorySettings(), lines.append)
    assert (result.segments, result.quarantined, result.failures) == (1, 1, 0)
    assert len(damaged_files(tmp_path)) == 1
    assert "set aside as" in lines[0]


@pytest.mark.parametrize("by", ["archive", "start"])
@pytest.mark.parametrize("part", ["header", "record"])
def test_numbers_of_damaged_events_are_not_used_again(tmp_path: Path, by: str, part: str) -> None:
    """A number that somebody may have seen stays that of its event, also after the next starts; what follows
    a damaged record is kept beside the journal, whoever finds it.
    """
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(some(100))
    (journal,) = list_journals(tmp_path)
    raw = bytearray(journal.path.read_bytes())
    raw[20 if part == "header" else HEADER_BYTES + 40 * EVENT_BYTES] ^= 1
    journal.path.write_bytes(raw)
    lines: list[str] = []
    if by == "archive":
        archive_once(tmp_path, HistorySettings(), lines.append)
    for _ in range(2):
        with JournalWriter(tmp_path, 0, notify=lines.append) as writer:
            assert writer.next_sequence == 100
    assert len(lines) == 1
    with History(tmp_path) as history:
        assert len(history.events(limit=None)) == (0 if part == "header" else 40)
    if part == "record":
        (cut,) = (tmp_path / "journal").glob("*.cut")
        assert cut.read_bytes() == raw[HEADER_BYTES + 40 * EVENT_BYTES :]


def test_a_damaged_note_of_the_next_number(tmp_path: Path) -> None:
    """It is set aside, and numbers go on far after any that it may have had."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(some(3))
    noted_path(tmp_path, 0).write_text("12x4")
    with JournalWriter(tmp_path, 0) as writer:
        assert writer.next_sequence == 3 + (1 << 32)
    assert len(damaged_files(tmp_path)) == 1


def test_foreign_and_other_files_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A foreign file or one of another version is named and left as it is, by writer and readers."""
    with monkeypatch.context() as patch:
        patch.setattr(journal_file, "EVENT_VERSION", 99)
        with JournalWriter(tmp_path, 0) as writer:
            writer.append(some(1))
    path = list_journals(tmp_path)[0].path
    content = path.read_bytes()
    for use in (lambda: JournalWriter(tmp_path, 0), lambda: read_journals(tmp_path)):
        with pytest.raises(HistoryError, match="event layout 99"):
            use()
    assert path.read_bytes() == content
    path.rename(path.with_name("notes.journal"))
    with pytest.raises(HistoryError, match="not named as a journal"):
        read_journals(tmp_path)


@pytest.mark.parametrize("size", [0, HEADER_BYTES])
def test_a_file_of_zeros_holds_no_events(tmp_path: Path, size: int) -> None:
    """A power loss may leave a named file without its header on disk: it is removed, and the log says so."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(some(1))
    path = list_journals(tmp_path)[0].path
    path.write_bytes(bytes(size))
    lines: list[str] = []
    JournalWriter(tmp_path, 0, notify=lines.append).close()
    assert not path.exists()
    assert lines == [f"{path} is empty, as after a power failure: removed"]


def test_a_partial_write_keeps_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes that stop anywhere: the torn record is cut, the rest follows, no one sees half a record."""
    writer = JournalWriter(tmp_path, 0)
    real, lengths = os.pwrite, iter([1, EVENT_BYTES + 2, EVENT_BYTES - 1, EVENT_BYTES * 2 + 5, 64, 100_000])

    def short(fd: int, block: memoryview, offset: int) -> int:
        if len(block) == HEADER_BYTES and bytes(block[:4]) == b"HOPS":
            return real(fd, block, offset)
        done = real(fd, block[: next(lengths)], offset)
        assert (os.fstat(fd).st_size - HEADER_BYTES - done) % EVENT_BYTES == 0  # cut back before
        return done

    monkeypatch.setattr(os, "pwrite", short)
    rest, failed = some(10), 0
    while len(rest):
        try:
            writer.append(rest)
            break
        except JournalFull as full:
            rest = rest[full.written :]
            failed += 1
    monkeypatch.undo()
    writer.close()
    assert read_journals(tmp_path)["value"].tolist() == list(range(10))
    assert failed == 3  # those that wrote no whole record


def test_a_full_disk_says_what_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JournalFull counts the events that stay; appending the rest later leaves no gap and nothing twice."""
    writer = JournalWriter(tmp_path, 0)
    writer.append(some(3))
    real, calls = os.pwrite, iter([300, None])

    def full(fd: int, block: memoryview, offset: int) -> int:
        length = next(calls)
        if length is None:
            raise OSError(28, "No space left on device")
        return real(fd, block[:length], offset)

    monkeypatch.setattr(os, "pwrite", full)
    rest = some(10, 3)
    with pytest.raises(JournalFull, match="No space left on device") as full_error:
        writer.append(rest)
    monkeypatch.undo()
    assert full_error.value.written == 2
    assert writer.next_sequence == 5
    writer.append(rest[full_error.value.written :])
    writer.close()
    assert read_journals(tmp_path)["value"].tolist() == list(range(13))


def test_lost_numbers_are_left_out(tmp_path: Path) -> None:
    """A gap begins a file, and is found by a writer that starts after it."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(some(3))
        writer.skip_to(2)  # it has that
        writer.skip_to(10)
        assert writer.append(some(2, 10)) == 10
    assert read_journals(tmp_path)["sequence"].tolist() == [0, 1, 2, 10, 11]
    with JournalWriter(tmp_path, 0) as writer:
        assert writer.next_sequence == 12


def test_it_stops_before_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of `keep_free` stays free; without it, the disk may be filled up."""
    size = [10_000]

    def free(at: int) -> int:
        return size[0] - sum(journal.path.stat().st_size for journal in list_journals(tmp_path / "a"))

    monkeypatch.setattr("hopscope.history.writing.journal.free_bytes", free)
    with JournalWriter(tmp_path / "a", 0, keep_free=18_000) as writer:
        writer.append(some(5))  # 128 + 680 of 1000 bytes
        with pytest.raises(JournalFull, match=r"less than half of history\.keep_free") as full:
            writer.append(some(4, 5))
        assert full.value.written == 1
        size[0] = 100_000
        writer.append(some(3, 6))
    assert read_journals(tmp_path / "a")["value"].tolist() == list(range(9))
    size[0] = 0
    with JournalWriter(tmp_path / "b", 0) as writer:
        writer.append(some(1))


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A data folder that is a file: one line, no traceback of another kind."""
    (tmp_path / "data").write_text("")
    with pytest.raises(HistoryError, match="cannot be written"):
        JournalWriter(tmp_path / "data", 0)


def test_age_closes_a_file(tmp_path: Path) -> None:
    """`tick` closes an old file, and the next event begins another."""
    with JournalWriter(tmp_path, 0, file_seconds=0.0) as writer:
        writer.append(some(1))
        writer.tick()
        writer.append(some(1, 1))
    assert [journal.first for journal in list_journals(tmp_path)] == [0, 1]

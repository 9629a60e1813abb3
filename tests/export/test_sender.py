"""Events to named destinations: from a position on, in blocks, once, whatever ends meanwhile."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.records import EVENT, NO_NODE, Kind, Metric
from hopscope.export import delivery, positions, sender
from hopscope.export.block import EventBlock, EventFilter
from hopscope.export.counters import DESTINATION, DestinationRow, health_of
from hopscope.export.destination import Context, DeliveryError, Destination
from hopscope.export.positions import Positions
from hopscope.export.sender import Sender
from hopscope.history.files.names import list_journals, list_segments, note_sequence
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.runtime.checks.environment import Verdict, findings
from hopscope.settings.collector import Settings
from hopscope.settings.destinations.common import ExportSettings
from hopscope.settings.history import HistorySettings
from support.events.event_make import Events, random_events
from support.waiting import HANG_SECONDS, eventually


class Kept(Destination):
    """Keeps what it gets; fails as told."""

    Settings = ExportSettings

    def __init__(self, settings: ExportSettings, context: Context) -> None:
        super().__init__(settings, context)
        self.blocks: list[EventBlock] = []
        self.failures: list[Exception] = []
        self.connects = 0
        self.idle: set[int] = set()
        self.away = False

    def connect(self) -> None:
        self.connects += 1

    def tick(self, idle: Collection[int], ending: bool) -> int:
        self.idle |= set(idle)
        return 0

    def send(self, block: EventBlock) -> None:
        if self.failures:
            raise self.failures.pop(0)
        if self.away:
            raise DeliveryError("away")
        self.blocks.append(block)

    @property
    def sequences(self) -> list[int]:
        return [int(number) for block in self.blocks for number in block.records["sequence"]]


@pytest.fixture(autouse=True)
def _frequent_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "POLL_SECONDS", 0.005)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What senders log."""
    lines: list[str] = []

    class Log:
        def warning(self, event: str, **about: Any) -> None:
            lines.append(f"{event} {about.get('reason', '')}".strip())

        info = error = warning

    monkeypatch.setattr(delivery, "logger", lambda component: Log())
    monkeypatch.setattr(positions, "logger", lambda component: Log())
    return lines


class Rig:
    """A data folder with shard 0, and one destination."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.row = np.zeros(1, DESTINATION)
        given = {"kind": "kept", "begin": "oldest", "batch_seconds": 0, **settings}
        about = DestinationRow(self.row)
        context = Context("here", "m1", Names(), about.count)
        self.destination = Kept(ExportSettings(**given), context)
        self.sender = Sender(self.destination, folder, about)

    def counts(self, *names: str) -> list[int]:
        return [int(self.row[f"{name}_total"][0]) for name in names]

    def state(self) -> str:
        """What a test that waits in vain says."""
        names = [str(path.relative_to(self.folder)) for path in self.folder.rglob("*")]
        return f"{self.row}, ended: {self.sender.ended(0)}, files: {sorted(names)}"

    @property
    def blocks(self) -> list[str]:
        """Ids of the blocks that were delivered, without their times."""
        return [block.id.rpartition("-")[0] for block in self.destination.blocks]

    def stop(self) -> None:
        self.sender.finish()
        assert self.sender.ended(HANG_SECONDS)


def begun(folder: Path) -> bool:
    """Whether the destination knows where it begins."""
    path = folder / "export" / "here.positions"
    return path.exists() and not Positions(folder, "here").is_new


def timed(events: Events, step: int = 1) -> Events:
    """Each `step` events have one time."""
    events["time_ns"] = 10**18 + np.arange(len(events)) // step
    return events


def test_a_destination_asks_for_a_pause_and_takes_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pause is as long as asked for, at most five minutes; of a block, what was rejected is counted."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(20, seed=1)))
        rig = Rig(tmp_path, batch_events=10)
        rig.destination.failures = [
            DeliveryError("busy", after_seconds=7.0),
            DeliveryError("full", after_seconds=1e9),
            DeliveryError("3 rejected", again=False, rejected=3),
        ]
        pauses: list[float] = []
        monkeypatch.setattr(rig.sender, "_wait", pauses.append)
        rig.sender.start()
        eventually(lambda: rig.counts("events") == [17])
        assert pauses[:2] == [7.0, 300.0]
        assert rig.counts("sent", "failed", "retried") == [1, 3, 2]
        rig.stop()


def test_blocks_are_consecutive_and_have_stable_names(tmp_path: Path) -> None:
    """Every event is sent once and in order, in blocks of the size asked for; a new start goes on."""
    with JournalWriter(tmp_path, 0) as writer:
        events = timed(random_events(25, seed=1))
        writer.append(events)
        rig = Rig(tmp_path, batch_events=10)
        rig.sender.start()
        rig.stop()
        first, second, third = events["time_ns"][::10]
        assert [block.id for block in rig.destination.blocks] == [
            *(f"m1-0-0-9-{first}", f"m1-0-10-19-{second}", f"m1-0-20-24-{third}"),
        ]
        assert rig.counts("sent", "events", "failed", "expired") == [3, 25, 0, 0]
        writer.append(timed(random_events(5, seed=2, start=25)))
        again = Rig(tmp_path, batch_events=10)
        again.sender.start()
        again.stop()
        assert again.destination.sequences == list(range(25, 30))


def test_events_of_one_time_stay_together(tmp_path: Path) -> None:
    """A block ends between two times, unless one time has more events than a block."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(30, seed=1), step=4))
        rig = Rig(tmp_path, batch_events=10)
        rig.sender.start()
        rig.stop()
        assert rig.blocks == [
            *("m1-0-0-7", "m1-0-8-15", "m1-0-16-23", "m1-0-24-29"),
        ]
        more = random_events(50, seed=1, start=30)
        more["time_ns"] = 2 * 10**18
        writer.append(more)
        rig = Rig(tmp_path, batch_events=10)
        rig.sender.start()
        rig.stop()
        assert rig.blocks == ["m1-0-30-79"]


def test_a_full_block_does_not_wait(tmp_path: Path) -> None:
    """Also one that ends early, since events of one time stay together; only the rest waits for more."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(30, seed=1), step=4))
        rig = Rig(tmp_path, batch_events=10, batch_seconds=3600)
        rig.sender.start()
        eventually(lambda: len(rig.blocks) == 3)
        assert rig.blocks == ["m1-0-0-7", "m1-0-8-15", "m1-0-16-23"]
        rig.stop()
        assert rig.blocks[3:] == ["m1-0-24-29"]


def test_a_destination_that_is_away_gets_everything_later(tmp_path: Path) -> None:
    """While it is away nothing is lost and health says why; a block that it will never take is counted."""
    with JournalWriter(tmp_path, 0) as writer:
        rig = Rig(tmp_path, batch_events=10)
        rig.destination.away = True
        rig.sender.start()
        writer.append(timed(random_events(20, seed=1)))
        eventually(lambda: rig.counts("retried")[0] > 2)
        assert health_of(rig.row[0]).problem == "away"
        rig.destination.failures = [DeliveryError("too long", again=False), ValueError("odd")]
        rig.destination.away = False
        writer.append(timed(random_events(10, seed=2, start=20)))
        eventually(lambda: rig.destination.sequences == list(range(20, 30)))
        assert rig.counts("failed", "events") == [20, 10]
        assert health_of(rig.row[0]).ok
        rig.stop()
    assert rig.destination.connects > 2


def test_what_retention_deleted_is_counted(tmp_path: Path) -> None:
    """Events that history lost while the destination was away are counted; what follows is sent."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        writer.rotate()
        writer.append(timed(random_events(10, seed=2, start=10)))
        positions = Positions(tmp_path, "here")
        positions.start(0, 4)
        positions.begin()
        list_journals(tmp_path)[0].path.unlink()
        rig = Rig(tmp_path)
        rig.sender.start()
        rig.stop()
        assert rig.destination.sequences == list(range(10, 20))
        assert rig.counts("expired") == [6]


def test_what_is_deleted_while_a_destination_is_away_is_counted_then(tmp_path: Path, said: list[str]) -> None:
    """Not only when it is back; the log says so once, and nothing is counted twice."""
    with JournalWriter(tmp_path, 0, fsync_seconds=0) as writer:
        rig = Rig(tmp_path, batch_events=10)
        rig.destination.away = True
        for start in (0, 10, 20):
            writer.append(timed(random_events(10, seed=1, start=start)))
            writer.rotate()
        writer.append(timed(random_events(5, seed=2, start=30)))
        rig.sender.start()
        eventually(lambda: rig.counts("retried")[0] > 1, rig.state)
        list_journals(tmp_path)[0].path.unlink()
        eventually(lambda: rig.counts("expired") == [10], rig.state)
        archive_once(tmp_path, HistorySettings())  # the rest is read from a segment, which is deleted then
        retried = rig.counts("retried")[0]
        eventually(lambda: rig.counts("retried")[0] > retried + 2, rig.state)
        list_segments(tmp_path)[0].path.unlink()
        eventually(lambda: rig.counts("expired") == [30], rig.state)
        rig.destination.away = False
        eventually(lambda: rig.destination.sequences == list(range(30, 35)), rig.state)
        rig.stop()
    assert rig.counts("expired") == [30]
    assert said == [
        "not delivered away",
        "events were gone from history before they were sent",
        "delivered again",
    ]


def test_a_former_destination_is_named_and_can_be_renamed(tmp_path: Path) -> None:
    """`hopscope check` names what is left of one, and how much waits; under its new name it goes on."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        rig = Rig(tmp_path)
        rig.sender.start()
        rig.stop()
        writer.append(timed(random_events(7, seed=2, start=10)))
    given: dict[str, Any] = {"data": tmp_path, "listen": (), "serve": {"enabled": False}}
    (found,) = (each for each in findings(Settings(**given)) if each.what == "export.here")
    assert (found.verdict, found.found) == (
        Verdict.ADVICE,
        "not in the settings; 7 events of history not sent to it",
    )
    given["export"] = {"here": {"kind": "webhook", "url": "http://127.0.0.1:9"}}
    there = Settings(**given)
    assert not [each for each in findings(there) if each.what == "export.here"]
    (tmp_path / "export/here.positions").rename(tmp_path / "export/there.positions")
    positions = Positions(tmp_path, "there")
    assert (positions.is_new, positions.next(0)) == (False, 10)


def test_a_shard_that_has_left_history_is_idle(tmp_path: Path) -> None:
    """Also for a destination that starts later: time goes on there, so that alarms expire, and those that a
    silence held back are sent.
    """
    with JournalWriter(tmp_path, 1) as writer:
        writer.append(timed(random_events(10, seed=1)))
        rig = Rig(tmp_path)
        rig.sender.start()
        rig.stop()
    assert len(rig.destination.sequences) == 10
    list_journals(tmp_path)[0].path.unlink()
    again = Rig(tmp_path)
    again.sender.start()
    again.stop()
    assert again.destination.idle == {1}


def test_a_position_that_history_never_had(tmp_path: Path, said: list[str]) -> None:
    """Of a folder that was copied back in part, or damaged: every event that comes is sent, and the log says
    why. The number after events that retention has deleted is one that history had.
    """
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        positions = Positions(tmp_path, "here")
        positions.begin()
        for shard in (0, 1):
            positions.start(shard, 30)
        note_sequence(tmp_path, 1, 30)
        rig = Rig(tmp_path)
        rig.sender.start()
        eventually(lambda: positions.next(0) == 10)
        writer.append(timed(random_events(30, seed=2, start=10)))
        rig.stop()
    assert rig.destination.sequences == list(range(10, 40))
    with JournalWriter(tmp_path, 1) as writer:
        assert writer.append(timed(random_events(5, seed=3))) == 30
        again = Rig(tmp_path)
        again.sender.start()
        again.stop()
    assert again.destination.sequences == list(range(30, 35))
    assert again.counts("expired") == [0]
    assert said == ["position after the end of history"]


@pytest.mark.parametrize("at", [0, 67, 90])
def test_damaged_positions_are_set_aside(tmp_path: Path, said: list[str], at: int) -> None:
    """In the magic number, the name of an array or the type of a field: the log says that the destination
    starts as a new one, and it does.
    """
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        rig = Rig(tmp_path)
        rig.sender.start()
        rig.stop()
        path = tmp_path / "export" / "here.positions"
        damaged = bytearray(path.read_bytes())
        damaged[at] ^= 16
        path.write_bytes(damaged)
        again = Rig(tmp_path)
        again.sender.start()
        again.stop()
    assert again.destination.sequences == list(range(10))
    assert path.with_name("here.positions.damaged").read_bytes() == damaged
    assert len([line for line in said if "set aside as here.positions.damaged" in line]) == 1


def test_an_unexpected_error_ends_no_destination(tmp_path: Path, said: list[str]) -> None:
    """An error of no known kind, here of threads that the machine refuses, is retried like any other."""
    with JournalWriter(tmp_path, 0) as writer:
        rig = Rig(tmp_path)
        errors = [RuntimeError("can't start new thread")] * 3

        def tick(idle: Collection[int], ending: bool) -> int:
            if errors:
                raise errors.pop()
            return 0

        rig.destination.tick = tick  # type: ignore[method-assign]
        writer.append(timed(random_events(10, seed=1)))
        rig.sender.start()
        eventually(lambda: rig.destination.sequences == list(range(10)))
        rig.stop()
    assert rig.counts("retried", "failed") == [3, 0]
    failed, delivered = said
    assert re.fullmatch(r"not delivered RuntimeError: can't start new thread \(test_sender\.py:\d+\)", failed)
    assert delivered == "delivered again"


def test_a_disk_without_room_for_positions_ends_nothing(tmp_path: Path) -> None:
    """The destination says so, and begins once there is room; others go on, since only its thread waits."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        folder = tmp_path / "export"
        folder.touch()
        rig = Rig(tmp_path)
        rig.sender.start()
        eventually(lambda: rig.counts("retried")[0] > 1)
        assert health_of(rig.row[0]).problem == f"{folder}: File exists"
        folder.unlink()
        eventually(lambda: rig.destination.sequences == list(range(10)))
        rig.stop()


@pytest.mark.parametrize(("begin", "sequences"), [("oldest", [*range(10, 23)]), ("now", [20, 21, 22])])
def test_a_new_destination_has_lost_nothing(tmp_path: Path, begin: str, sequences: list[int]) -> None:
    """What retention deleted before there was the destination is not counted as lost, or all of a shard."""
    (tmp_path / "journal").mkdir()
    note_sequence(tmp_path, 1, 50)
    with JournalWriter(tmp_path, 0) as writer, JournalWriter(tmp_path, 1) as other:
        writer.append(timed(random_events(10, seed=1)))
        writer.rotate()
        writer.append(timed(random_events(10, seed=2, start=10)))
        list_journals(tmp_path)[0].path.unlink()
        rig = Rig(tmp_path, begin=begin)
        rig.sender.start()
        eventually(lambda: begun(tmp_path))
        writer.append(timed(random_events(3, seed=3, start=20)))
        other.append(timed(random_events(2, seed=4, start=50)))
        rig.stop()
    assert sorted(rig.destination.sequences) == [*sequences, 50, 51]
    assert rig.counts("expired") == [0]


def test_what_comes_while_a_destination_begins_is_sent(tmp_path: Path) -> None:
    """Events that come between any two looks at history, which knows the shard before its first event."""
    events = timed(random_events(60, seed=1))
    parts = [events[at : at + 10] for at in range(0, 60, 10)]
    with JournalWriter(tmp_path, 0) as writer:
        rig = Rig(tmp_path)
        follower: Any = rig.sender._follower

        def then_more(look: Callable[..., Any]) -> Callable[..., Any]:
            def looked(*given: Any) -> Any:
                found = look(*given)
                if parts:
                    writer.append(parts.pop(0))
                return found

            return looked

        follower.shards = lambda: [0]
        follower.read, follower.following = then_more(follower.read), then_more(follower.following)
        rig.sender.start()
        eventually(lambda: rig.destination.sequences == list(range(60)), lambda: rig.destination.sequences)
        rig.stop()


def test_a_new_destination_begins_now(tmp_path: Path) -> None:
    """With `begin = "now"` what was there before is not sent, and what comes later is."""
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        rig = Rig(tmp_path, begin="now")
        rig.sender.start()
        eventually(lambda: begun(tmp_path))
        writer.append(timed(random_events(3, seed=2, start=10)))
        rig.stop()
        assert rig.destination.sequences == [10, 11, 12]


def test_a_shard_that_appears_later_is_sent_whole(tmp_path: Path) -> None:
    """With `begin = "now"` a destination that began before there was any event misses none."""
    rig = Rig(tmp_path, begin="now")
    rig.sender.start()
    eventually(lambda: begun(tmp_path))
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(5, seed=1)))
        eventually(lambda: rig.destination.sequences == [0, 1, 2, 3, 4])
        rig.stop()


def test_a_killed_process_sends_the_same_block_again(tmp_path: Path) -> None:
    """Killed while a block is under way, again and again: the next process sends that block with the same
    id, although more events have come meanwhile; every event is delivered.
    """
    program = """
import sys
from pathlib import Path
sys.path[:0] = {path!r}
from export_kept import hang
hang(Path(sys.argv[1]))
"""
    hang = """
import os, sys, time
import numpy as np
from hopscope.base.names import Names
from hopscope.export.counters import DESTINATION, DestinationRow
from hopscope.export.destination import Context, DeliveryError, Destination
from hopscope.export.sender import Sender
from hopscope.runtime.checks.environment import Verdict, findings
from hopscope.settings.collector import Settings
from hopscope.settings.destinations.common import ExportSettings
from hopscope.settings.history import HistorySettings
class Hangs(Destination):
    def send(self, block):
        print(block.id, flush=True)
        time.sleep(1e6)
def hang(folder):
    row = DestinationRow(np.zeros(1, DESTINATION))
    settings = ExportSettings(kind="x", begin="oldest", batch_seconds=0, batch_events=10)
    sender = Sender(Hangs(settings, Context("here", "m1", Names(), row.count)), folder, row)
    sender.start()
    sender.ended(1e6)
"""
    (tmp_path / "export_kept.py").write_text(hang)
    folder = tmp_path / "data"
    with JournalWriter(folder, 0) as writer:
        writer.append(timed(random_events(4, seed=1)))
        ids = []
        for more in range(3):
            code = program.format(path=[str(tmp_path)])
            with subprocess.Popen(
                [sys.executable, "-c", code, str(folder)], stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout is not None
                ids.append(process.stdout.readline().strip())
                os.kill(process.pid, signal.SIGKILL)
            writer.append(timed(random_events(4, seed=2, start=4 + 4 * more)))
        assert len(set(ids)) == 1
        assert ids[0].startswith("m1-0-0-3-")
        rig = Rig(folder, batch_events=10)
        rig.sender.start()
        rig.stop()
        assert rig.blocks == ["m1-0-0-3", "m1-0-4-13", "m1-0-14-15"]


@pytest.mark.parametrize(
    ("settings", "mask"),
    [
        ({"kinds": ["raised"]}, lambda e: e["kind"] == Kind.RAISED),
        ({"nodes": [3]}, lambda e: (e["node_id"] == 3) | (e["path"] == 3).any(axis=1)),
        (
            {"prefixes": ["10.0.0.7", "2001:db8::/32"]},
            lambda e: (
                (e["ip_version"] != 0) & ((e["src_lo"] == 0xFFFF0A000007) | (e["dst_hi"] >> 32 == 0x20010DB8))
            ),
        ),
        ({"prefixes": ["::/0"]}, lambda e: e["ip_version"] == 6),
        ({"prefixes": ["0.0.0.0/0"]}, lambda e: (e["ip_version"] == 4) & (e["src_lo"] != 0)),
    ],
)
def test_filters(settings: dict[str, Any], mask: Callable[[Events], Any]) -> None:
    """Each filter keeps what a mask over the records keeps."""
    events = np.zeros(6, EVENT)
    events["kind"] = [Kind.RAISED, Kind.CLEARED, *[Kind.CHANGE] * 4]
    events["node_id"], events["path"][2, 5] = [1, 3, 1, 1, 1, 1], 3
    events["metric"][2], events["hop_count"][2] = Metric.FLOW_PATH, 6
    events["ip_version"] = [4, 4, 4, 4, 6, 0]
    events["src_lo"][3] = events["src_lo"][5] = 0xFFFF0A000007
    events["dst_hi"][4] = 0x20010DB8 << 32
    kept = EventFilter(ExportSettings(kind="x", **settings)).of(events)
    assert np.array_equal(kept, events[mask(events)])
    assert 0 < len(kept) < 6


def test_nodes_are_those_of_whole_paths() -> None:
    """A node in the second record of a long path counts; what lies after the end of a path, or is in an event
    without one, is no node 0.
    """
    events = np.zeros(4, EVENT)
    events["kind"] = [Kind.NEW_KEY, Kind.NEW_KEY, Kind.PATH_CHANGE, Kind.RAISED]
    events["metric"] = [*[Metric.FLOW_PATH] * 3, Metric.QUEUE_OCCUPANCY]
    events["hop"], events["hop_count"] = [0, 8, 0, 0], [10, 10, 3, 3]
    events["node_id"] = [NO_NODE, NO_NODE, NO_NODE, 7]
    events["path"][0], events["path"][1, :2], events["path"][2, :4] = np.arange(1, 9), (9, 10), (1, 2, 3, 11)
    for node, rows in ((10, [0, 1]), (3, [0, 1, 2]), (7, [0, 1, 3]), (11, []), (0, [])):
        kept = EventFilter(ExportSettings(kind="x", nodes=(node,))).of(events)
        assert np.array_equal(kept, events[rows]), node


def test_a_sample_keeps_whole_flows() -> None:
    """About one flow in N is kept, with all its events, and always the same ones."""
    events = np.zeros(40_000, EVENT)
    events["flow_id"] = np.random.default_rng(1).integers(1, 2**63, 20_000).repeat(2)
    kept = EventFilter(ExportSettings(kind="x", sample=10)).of(events)["flow_id"]
    found, times = np.unique(kept, return_counts=True)
    assert (times == 2).all()
    assert 1700 < len(found) < 2300


def test_one_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    """A destination that hangs keeps its events in history; another one gets them at once."""
    go = threading.Event()
    with JournalWriter(tmp_path, 0) as writer:
        writer.append(timed(random_events(10, seed=1)))
        slow = Rig(tmp_path)
        slow.destination.send = lambda block: go.wait(HANG_SECONDS)  # type: ignore[assignment,method-assign]
        slow.sender.start()
        about = DestinationRow(np.zeros(1, DESTINATION))
        settings = ExportSettings(kind="kept", begin="oldest", batch_seconds=0)
        fast = Kept(settings, Context("other", "m1", Names(), about.count))
        sender = Sender(fast, tmp_path, about)
        sender.start()
        eventually(lambda: len(fast.sequences) == 10)
        go.set()
        slow.stop()
        sender.finish()
        assert sender.ended(HANG_SECONDS)

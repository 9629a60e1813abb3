"""What every destination has in common: nothing waits for it, and what it does not get is counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.cli.top.view import TopView
from hopscope.detect.records import EVENT, EVENT_VERSION
from hopscope.detect.sink.records import EVICTED
from hopscope.export import exporter as module
from hopscope.export.batch import ExportBatch, RingRead
from hopscope.export.counters import DESTINATION, Place, health_of, open_counters
from hopscope.export.delivery import stop_all
from hopscope.export.destination import DeliveryError
from hopscope.export.exporter import Exporter
from hopscope.export.run import RingSource
from hopscope.history.files import list_journals
from hopscope.history.journal import JournalWriter
from hopscope.memory.ring import RingWriter, create_ring
from hopscope.present.collector_state import CollectorState
from hopscope.serve import prometheus
from hopscope.serve.readiness import exports
from support.waiting import HANG_SECONDS, eventually


class Made(Exporter[ExportBatch]):
    """A destination for tests: fails so often, or waits until `go`."""

    reads = frozenset({"events", "evicted"})
    max_pause = 0.02

    def __init__(self, room: int = 10, failures: tuple[Exception, ...] = (), waits: bool = False) -> None:
        row = np.zeros(1, DESTINATION)
        row["kind"], row["place"] = b"made", b"here"
        super().__init__(row, room)
        self.failures, self.got = list(failures), list[int]()
        self.go, self.closed = threading.Event(), False
        if not waits:
            self.go.set()

    def items(self, batch: ExportBatch) -> Iterator[ExportBatch]:
        if batch.count:
            yield batch

    def size(self, item: ExportBatch) -> int:
        return item.count

    def events(self, item: ExportBatch) -> int:
        return item.count

    def deliver(self, item: ExportBatch) -> None:
        self.go.wait(HANG_SECONDS)
        if self.failures:
            raise self.failures.pop(0)
        self.got.append(item.count)

    def close(self) -> None:
        self.closed = True

    def counts(self, *names: str) -> list[int]:
        return [int(self.row[f"{name}_total"][0]) for name in names]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_PAUSE", 0.005)


def batch(events: int, lost: int = 0) -> ExportBatch:
    """So many events, and one block of unused sink events."""
    return ExportBatch(RingRead([np.zeros(events, EVENT)], lost), RingRead([np.zeros(99, EVENT)], 1000))


def test_a_slow_destination_holds_up_nothing() -> None:
    """While it waits, what fits its queue is kept in order and the rest counted; losses of rings that it
    does not read are not its own; at the end all that was kept is delivered.
    """
    one = Made(waits=True)
    one.start()
    one.export(batch(1))
    eventually(lambda: not one._queue)  # it is being delivered
    for events in (4, 6, 5, 1):
        one.export(batch(events, lost=2))
    assert one.counts("queue_full", "ring_lost") == [6, 8]
    one.go.set()
    one.stop(5)
    assert one.got == [1, 4, 6]
    assert one.counts("sent", "stopped") == [3, 0]
    assert one.closed


def test_failures_pass_or_end() -> None:
    """A failure that may pass is retried until it has; one that may not, and an unexpected one, costs
    its own batch; health says what was wrong, and is good again.
    """
    passing = DeliveryError("busy")
    one = Made(failures=(passing, passing, DeliveryError("no such thing", again=False), ValueError("odd")))
    assert one.health().ok
    one.start()
    for events in (1, 2, 3):
        one.export(batch(events))
    one.stop(5)
    assert one.got == [3]
    assert one.counts("retried", "failed", "sent") == [2, 1 + 2, 1]
    assert one.health().ok


def test_what_waits_at_the_end_is_counted() -> None:
    """A destination that is gone ends in time with what it could not deliver counted, also where several
    are; none is waited for after another.
    """
    gone = [Made(failures=(DeliveryError("gone"),) * 10_000) for _ in range(5)]
    for one in gone:
        one.start()
        one.export(batch(2))
        one.export(batch(3))
    eventually(lambda: all(one.counts("retried")[0] for one in gone))
    assert [health_of(one.row[0]).problem for one in gone] == ["gone"] * 5
    begin = time.monotonic()
    stop_all(gone, 0.2)
    assert time.monotonic() - begin < 4
    assert [one.counts("stopped") for one in gone] == [[5]] * 5


def test_parts_of_a_long_path_stay_together(regions: Path) -> None:
    """Evictions are given with all parts of a flow: those at the end of a block wait for the rest."""
    counters = open_counters(regions.parent, [])
    source = RingSource(regions, counters, frozenset({"evicted"}))
    parts = np.zeros(6, EVICTED)
    parts["flow_id"], parts["first_hop"], parts["hop_count"] = [1, 2, 2, 2, 3, 3], [0, 0, 8, 16, 0, 8], 20
    parts["hop_count"][0], parts["sequence"] = 3, np.arange(6)
    given = [source._whole(block)["flow_id"].tolist() for block in np.split(parts, [3, 5])]
    assert given == [[1], [2, 2, 2], []]


def test_parts_of_different_flows_are_not_joined(regions: Path) -> None:
    """Where the rest of a flow that waits for it was lost, the flow is given with the hops that it has."""
    source = RingSource(regions, open_counters(regions.parent, []), frozenset({"evicted"}))
    parts = np.zeros(4, EVICTED)
    parts["flow_id"], parts["first_hop"], parts["hop_count"] = [1, 2, 2, 3], [0, 8, 16, 0], [20, 20, 20, 3]
    parts["sequence"] = [0, 70_000, 70_001, 70_002]
    given = [source._whole(block)["flow_id"].tolist() for block in np.split(parts, [1])]
    assert given == [[], [1, 3]]


def test_a_reader_that_the_ring_has_lapped_reads_on_from_the_journal(regions: Path) -> None:
    """Events are exported in order, each once; those that neither ring nor journal has count as lost."""
    folder = regions.parent
    ring = RingWriter(create_ring(regions / "worker-0.events", EVENT, 1024, EVENT_VERSION))
    source = RingSource(regions, open_counters(folder, []), frozenset({"events"}), folder)

    def write(count: int) -> None:
        events = np.zeros(count, EVENT)
        journal.append(events)
        ring.write(events)

    def exported() -> tuple[list[int], int]:
        batch = source.read().events
        return [number for block in batch.blocks for number in block["sequence"].tolist()], batch.lost

    with JournalWriter(folder, 0, file_bytes=100_000) as journal:
        write(10)
        assert exported() == (list(range(10)), 0)
        write(3000)
        assert exported() == (list(range(10, 3010)), 0)
        for _ in range(20):
            write(100)
        for archived in list_journals(folder):
            if archived.first < 3500:
                archived.path.unlink()
        numbers, lost = exported()
        assert numbers == list(range(3010 + lost, 5010))
        assert lost > 0
        write(1)
        assert exported() == ([5010], 0)


def test_health_is_shown_everywhere(regions: Path) -> None:
    """Counters and health of every destination are in /metrics, /readyz and `hopscope top`."""
    folder = regions.parent
    places = [
        Place("webhook", "http://a/b", "pager"),
        Place("redis", "redis://***@c:1/0"),
        Place("redis", "redis://d:1/0"),
    ]
    rows = open_counters(folder, places)["destinations"]
    rows["ok"], rows["since_ns"] = [1, 1, 0], 10**18
    rows["problem"][2], rows["forgotten_total"][2], rows["sent_total"] = b"refused", 1234, 5
    text = prometheus.render(CollectorState(folder), Names(), folder, folder / "direct").decode()
    for line in (
        'hopscope_export_sent_total{destination="pager"} 5.0',
        'hopscope_export_up{destination="redis[1]"} 0.0',
        'hopscope_export_sent_total{destination="redis[0]"} 5.0',
        'hopscope_export_lost_total{destination="redis[1]",reason="forgotten"} 1234.0',
    ):
        assert line in text.splitlines()
    hook, first, second = exports(folder)
    assert (hook.name, hook.ready, hook.detail) == ("pager", True, "http://a/b, 0 lost")
    assert (first.name, first.detail) == ("redis[0]", "redis://***@c:1/0, 0 lost")
    assert (second.ready, second.detail) == (
        False,
        "redis://d:1/0, 1,234 lost, failing since 2001-09-09T01:46:40.000000000Z: refused",
    )
    table = TopView(folder, Names(), SimpleNamespace())._counts()  # type: ignore[arg-type]
    cells = list(zip(*(list(column.cells) for column in table.columns), strict=True))
    assert ("redis[1]", "1,234 lost", "5 sent, failing") in cells

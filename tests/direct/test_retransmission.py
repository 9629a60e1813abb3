"""Reporter and translator together: what found no room or was lost comes again, and nothing counts twice."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.direct.primitives.append import AppendLayout, ListReader
from hopscope.direct.primitives.key_increment import KeyIncrementLayout, query
from hopscope.direct.reporter import Reporter
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.acknowledge import Acknowledger
from hopscope.direct.translation.rate import TokenBucket
from hopscope.direct.translation.sequence import SequenceTracker
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.rdma.records import VerbBlock
from hopscope.wire.address import network, number_of
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.dta.records import DTA
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FRAME, FrameBatch
from support.direct.direct_make import as_bytes

pytestmark = pytest.mark.kernel


class Busy(MemoryTransport):
    """Memory with room for so many verbs a turn."""

    free = 1 << 30

    def room(self) -> int:
        return self.free

    def submit(self, block: VerbBlock) -> None:
        assert len(block) <= self.free
        self.free -= len(block)
        super().submit(block)


class Network:
    """Reporters, a translator and what happens between them, seeded."""

    def __init__(self, reporters: int, *, limit: TokenBucket | None = None, form: Form = Form.SIZED) -> None:
        layouts = KeyIncrementLayout(slots=1 << 14), AppendLayout(lists=4, batches=1 << 10, batch=4)
        self.counters, self.lists = (Store.create(None, layout) for layout in layouts)
        self.transport = Busy([self.counters, self.lists])
        self.translator = Translator(layouts, self.transport, limit=limit)
        self.acknowledger = Acknowledger(SequenceTracker(form))
        self.reporters = [Reporter(form, first=1, source=f"192.0.2.{1 + n}") for n in range(reporters)]
        self.parser = DtaParser(form)
        self.rng = np.random.default_rng(9)
        self.loss = self.double = 0.0
        self.now = 0

    def once(self, number: int, batch: FrameBatch) -> FrameBatch | None:
        """Frames to the translator, its answers back; what the reporter then sends again."""
        self.now += 10_000_000
        rows = np.flatnonzero(self.rng.random(len(batch)) >= self.loss)
        rows = np.repeat(rows, 1 + (self.rng.random(len(rows)) < self.double))
        frames = batch.frames[rows]
        frames["time_ns"] = self.now
        reports = self.parser.parse(FrameBatch(batch.arena, frames))
        self.acknowledger.track(reports, self.parser.frames)
        self.translator.translate(reports, batch.arena, self.parser.frames, self.now)
        answers = self.acknowledger.answers(reports, self.parser.frames)
        if answers is None:
            return None
        assert (answers.frames["source_lo"] & 0xFF == 1 + number).all(), "an answer to another reporter"
        return self.reporters[number].receive(answers)

    def send(self, number: int, batch: FrameBatch | None) -> None:
        """Until nothing is asked for any more."""
        while batch is not None:
            batch = self.once(number, batch)

    def added(self) -> int:
        """All counters together."""
        return int(self.counters.memory.view("<u8").sum())

    def entries(self) -> list[bytes]:
        """All entries of all lists."""
        self.transport.free = 1 << 30
        self.translator.flush()
        return [
            bytes(e) for n in range(4) for e in ListReader(self.lists, n, start="oldest").read(1 << 16)[0]
        ]


def increments(
    network: Network, batches: int, each: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint8]]:
    """Every reporter adds 1 to `each` keys of its own and appends their numbers, `batches` times."""
    for batch in range(batches):
        network.transport.free = max(network.transport.free, each)
        for number, reporter in enumerate(network.reporters):
            keys = as_bytes(np.arange(each, dtype=np.uint64) + np.uint64(1000 * number), 8)
            ones = np.ones(each, np.uint64)
            network.send(number, reporter.key_increment(keys, ones, redundancy=1, retransmit=True))
            values = as_bytes(np.uint64(100_000 * number + each * batch) + np.arange(each, dtype=np.uint64))
            lists = np.arange(each, dtype=np.uint32) % 4
            network.send(number, reporter.append(lists, values, retransmit=True))
    for number, reporter in enumerate(network.reporters):
        network.loss = 0
        network.transport.free = 1 << 30
        network.send(number, reporter.retransmit_all())
    keys = np.concatenate(
        [
            as_bytes(np.arange(each, dtype=np.uint64) + np.uint64(1000 * n), 8)
            for n in range(len(network.reporters))
        ]
    )
    return query(network.counters, keys, copies=1).counter, keys


@pytest.mark.parametrize("form", [Form.SIZED])
def test_what_the_rate_limit_holds_back_comes_again(form: Form) -> None:
    """A tenth of what is offered passes at once: NACKs bring the rest, each exactly once."""
    network = Network(2, limit=TokenBucket(10_000, 100), form=form)
    counters, keys = increments(network, 3, 200)
    assert network.translator.rejected[DtaReason.RATE_LIMITED] > 500
    assert network.acknowledger.nacks > 0
    assert (counters >= 3).all()
    assert network.added() == 3 * len(keys)
    entries = network.entries()
    assert len(entries) == len(set(entries)) == 3 * len(keys)


def test_a_busy_collector_loses_no_report() -> None:
    """The transport takes 150 reports of two copies a turn: what is congested is named, and comes again."""
    network = Network(1)
    network.transport.free = 300
    keys = as_bytes(np.arange(400, dtype=np.uint64), 8)
    batch = network.reporters[0].key_increment(keys, np.ones(400, np.uint64), redundancy=1, retransmit=True)
    turns = 0
    again: FrameBatch | None = batch
    while again is not None:
        network.transport.free = 300
        again = network.once(0, again)
        turns += 1
    assert turns == 3
    assert network.translator.rejected[DtaReason.CONGESTED] == 250 + 100
    assert network.added() == 400
    assert (query(network.counters, keys, copies=1).counter >= 1).all()


def test_a_collector_that_is_away_loses_no_report() -> None:
    """Reports of a collector that is not connected are named, not acknowledged, and count once it is back."""
    network = Network(1)
    network.translator.fanout.connect(0, None)
    reporter = network.reporters[0]
    keys = as_bytes(np.arange(50, dtype=np.uint64), 8)
    batch = reporter.key_increment(keys, np.ones(50, np.uint64), redundancy=1, retransmit=True)
    again = network.once(0, batch)
    assert network.translator.rejected[DtaReason.NO_COLLECTOR] == 50
    assert reporter.kept == 50
    network.translator.fanout.connect(0, network.transport)
    network.send(0, again)
    assert network.added() == 50
    assert reporter.kept == 0


def test_a_killed_translator_loses_no_report(tmp_path: Path) -> None:
    """What a reporter sends while it is away is requested by the next one, and counts once; without the file
    of the one before, the first acknowledgment covers it.
    """
    for path, lost in ((tmp_path / "reporters", 0), (None, 30)):
        network = Network(1)
        network.now = time.time_ns()
        network.acknowledger = Acknowledger(SequenceTracker(Form.SIZED, path=path))
        reporter, added = network.reporters[0], 0
        for began, size in ((True, 100), (False, 30), (True, 20)):
            keys = as_bytes(np.arange(added, added + size, dtype=np.uint64), 8)
            reports = reporter.key_increment(keys, np.ones(size, np.uint64), redundancy=1, retransmit=True)
            added += size
            if began:
                network.send(0, reports)
            else:
                network.acknowledger = Acknowledger(SequenceTracker(Form.SIZED, path=path))
        assert network.added() == added - lost
        assert reporter.kept == 0


def test_a_translator_that_is_replaced_within_a_batch_counts_it() -> None:
    """What the old one is about to count is in the counters of the one that takes its place."""
    network = Network(1)
    old = network.translator
    new = Translator([route.layout for route in old.routes], network.transport)
    new.continue_counters(old)
    keys = as_bytes(np.arange(50, dtype=np.uint64), 8)
    network.once(0, network.reporters[0].key_increment(keys, np.ones(50, np.uint64), redundancy=1))
    assert new.rejected[DtaReason.NONE] == new.translated.sum() == 50


def test_networks_without_numbers() -> None:
    """The same number again and again, or any, is accepted from a network that is not checked; its rejected
    reports keep their reason, and others are checked.
    """
    acknowledger = Acknowledger(
        SequenceTracker(Form.SIZED), [network("192.0.2.0/24"), network("2001:db8::/32")]
    )
    reports, frames = np.zeros(4, DTA), np.zeros(4, FRAME)
    for row, text in zip(frames, ("192.0.2.0", "192.0.2.255", "2001:db8::1", "192.0.3.0"), strict=True):
        row["source_hi"], row["source_lo"] = number_of(text) >> 64, number_of(text) & (1 << 64) - 1
    for _ in range(3):
        reports["sequence"], reports["reason"] = 9, 0
        reports["reason"][1] = DtaReason.BAD_LENGTH
        acknowledger.track(reports, frames)
    assert reports["reason"].tolist() == [0, DtaReason.BAD_LENGTH, 0, DtaReason.DUPLICATE]
    assert len(acknowledger.tracker.reporters) == 1

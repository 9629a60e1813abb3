"""Postcards of one packet reach several members, and become the paths that one collector would have found."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.cluster.counters import CLUSTER_COUNTERS
from hopscope.cluster.names import ClusterNames, token
from hopscope.cluster.postcards import exchange
from hopscope.cluster.postcards.blocks import (
    HEADER,
    MOST,
    Arrivals,
    BadBlockError,
    BlockWriter,
    read_block,
)
from hopscope.cluster.postcards.exchange import Exchange
from hopscope.cluster.postcards.slots import Slots, SlotTable, slot_owners
from hopscope.cluster.process import Context
from hopscope.detect.counters import DETECTOR, counters_of
from hopscope.detect.flows.flow_id_hash import FlowIdHash
from hopscope.detect.merge import Merge
from hopscope.detect.postcards.join_kernel import CLOCK_BACK_NS
from hopscope.detect.postcards.share import SEED, SLOTS, Share, create_slots, taken_path
from hopscope.detect.records import Kind, Metric
from hopscope.detect.report_queue import QueueReader, QueueWriter, attach_queue, create_queue
from hopscope.detect.thresholds import CONTROL_FILE, create_control
from hopscope.history.files.journal_file import read_journals
from hopscope.memory.private_file import HASH_SECRET
from hopscope.runtime.pipeline.mode import mode_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.pipeline.steps import HandOver
from hopscope.runtime.processes.detector import Detector
from hopscope.settings.collector import Settings
from hopscope.wire.dialect import Clock
from hopscope.wire.records import HOP, REPORT, Flag, Records, ReportBatch
from support.events.detect_make import Hop, Report, batch, flow_key

pytestmark = pytest.mark.kernel
MEMBERS = ("c.1", "c2", "c3")
CLOCK = Clock()
PATHS = [(1, 5, 9), (1, 6, 9), (2, 5, 8, 9), (2, 9), (3, 7, 5, 6, 9)]
FLOWS, PACKETS = 60, 400


def settings_for(data: Path, member: str, **cluster: Any) -> Settings:
    access = {"name": "x", "nats": ["nats://127.0.0.1:1"], "postcards": "exchange", **cluster}
    detect = {"flow_rows": 16, "ports": 256, "sources": 64, "queue_reports": 2048, "silent_seconds": 0}
    return Settings.model_validate(
        {"data": data, "member": member, "cluster": access, "detect": detect, "listen": [{"port": 0}]}
    )


def path_of(flow: int) -> tuple[int, ...]:
    return PATHS[flow % len(PATHS)]


def postcards(seed: int) -> Iterator[tuple[int, int, ReportBatch]]:
    """(time, member, one postcard) of each hop of packets that cross a network; each reaches any member.
    Every switch numbers its reports to each member.
    """
    dice = random.Random(seed)
    sequences: Counter[tuple[int, int]] = Counter()
    found = []
    for packet in range(PACKETS):
        flow, begin = dice.randrange(FLOWS), packet * 1_000_000
        for hop, node in enumerate(path_of(flow)):
            at, member = begin + hop * 40_000 + dice.randrange(30_000), dice.randrange(len(MEMBERS))
            found.append((at, member, flow, node, packet, 64 - hop))
    for at, member, flow, node, packet, ttl in sorted(found):
        sequences[member, node] += 1
        report = Report(
            [],
            flow,
            0,
            sequences[member, node],
            node=node,
            source=100 + node,
            own=Hop(node, 10 * node),
            int_version=0,
        )
        made = batch([report])
        made.reports["packet_id"], made.reports["ttl"] = 1 + packet, ttl
        made.postcards = True
        yield at, member, made


class Wire:
    """NATS between the members of a test: what one publishes, another takes at once."""

    connected, closed = True, False
    names = ClusterNames("x")

    def __init__(self, exchanges: dict[str, Exchange]) -> None:
        self._exchanges, self.client, self.lost = exchanges, self, 0
        self.losing = False

    def run(self, work: Coroutine[Any, Any, Any], seconds: float) -> Any:
        return asyncio.run(work)

    async def publish(self, subject: str, body: bytes) -> None:
        self.lost += self.losing
        for name, taker in self._exchanges.items():
            if subject == self.names.subject("postcards", token(name)) and not self.losing:
                await taker._arrived(type("Message", (), {"data": body}))

    def close(self) -> None:
        """It stays."""


class OneMember:
    """Worker, detector and exchange of one member, whose processes are objects here."""

    def __init__(self, folder: Path, member: str, **cluster: Any) -> None:
        self.folder, self.settings = folder, settings_for(folder, member, **cluster)
        regions = folder / "regions"
        regions.mkdir(parents=True)
        secret = folder / HASH_SECRET
        secret.touch(mode=0o600)
        secret.write_text("0" * 64)
        create_control(regions / CONTROL_FILE, self.settings.limits)
        mode = mode_of(self.settings)
        mode.make_queues(regions)
        self.counted = counters_of("worker-0").open(regions)
        self.context = Context(self.settings, folder, regions, CLUSTER_COUNTERS.open(None), "i")
        shard = Shard(self.settings.history, process=DETECTOR, data=folder, regions=regions)
        if mode.has_detector:
            self.worker: HandOver = mode.hand_over(0, regions)
            self.detector = Detector(mode.pipeline(shard), Merge(mode.queues(regions)))
            self.slots = Slots(self.context)
            self.exchange = Exchange(self.context, self.slots)
            self.exchange.start()
        else:
            self.pipeline = mode.pipeline(shard)

    def events(self) -> Records:
        """What its history has."""
        return read_journals(self.folder)


def cluster_of(folder: Path) -> list[OneMember]:
    """Members that agree on a table."""
    made = [OneMember(folder / name, name) for name in MEMBERS]
    wire = Wire({name: member.exchange for name, member in zip(MEMBERS, made, strict=True)})
    for member in made:
        member.exchange._link = wire  # type: ignore[assignment]
        member.slots.table = SlotTable(1, MEMBERS, slot_owners(MEMBERS))
        member.exchange.turn()
        member.worker.tick(0)
    return made


def of_paths(events: Records) -> Counter[Any]:
    """Events of paths and their latencies, without times, which have the ways between members in them."""
    wanted = events[np.isin(events["metric"], [Metric.FLOW_PATH, Metric.FLOW_LATENCY])]
    wanted["previous"][wanted["kind"] == Kind.FLOW_RECORD] = 0  # a time
    names = ("kind", "metric", "flow_id", "sport", "value", "previous", "hop_count", "ident")
    return Counter((*(int(row[name]) for name in names), tuple(row["path"].tolist())) for row in wanted)


def test_three_members_find_what_one_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same events of paths as one collector that gets every postcard; each flow has the path that its
    packets took, at one member only; no number of a source is lost or doubled.
    """
    monkeypatch.setattr(exchange, "OLDEST_NS", 3600 * 10**9)  # this test may be slow
    base = time.time_ns() - 500_000_000
    one = OneMember(tmp_path / "one", "one", postcards="own")
    three = cluster_of(tmp_path)
    for at, member, made in postcards(1):
        made.reports["time_ns"] = base + at
        one.pipeline.take(ReportBatch(made.reports.copy(), made.hops.copy(), postcards=True), CLOCK)
        three[member].worker.take(made, CLOCK)
    for each in three:
        each.exchange.turn()
    for each in three:
        each.worker.close()
        each.exchange._taken.close()
        each.detector.drain()
        each.detector.close()
    one.pipeline.tick(base + 10**9)
    one.pipeline.close()
    found = [each.events() for each in three]
    expected = of_paths(one.events())
    assert expected
    assert sum(map(of_paths, found), Counter()) == expected
    owner_of: dict[int, int] = {}
    for member, events in enumerate(found):
        new = events[(events["kind"] == Kind.NEW_KEY) & (events["metric"] == Metric.FLOW_PATH)]
        for row in new:
            flow = next(flow for flow in range(FLOWS) if key_of(row) == flow_key(flow))
            assert tuple(row["path"][: row["hop_count"]].tolist()) == path_of(flow)
            assert owner_of.setdefault(flow, member) == member
    assert len(owner_of) == FLOWS
    assert set(owner_of.values()) == {0, 1, 2}
    given = 0
    for each in three:
        counted = counters_of(DETECTOR).read(each.context.regions)
        assert (
            counted["lost_reports"],
            counted["duplicate_reports_total"],
            counted["late_postcards_total"],
        ) == (0, 0, 0)
        given += counters_of("worker-0").read(each.context.regions)["given_postcards_total"]
        counts = each.context.counts
        wrong = {"postcards_unsent", "postcards_missing", "postcards_unqueued", "postcard_blocks_rejected"}
        assert not any(counts[name] for name in wrong)
    assert given == sum(each.context.counts["postcards_received"] for each in three) > 100


def key_of(row: np.void) -> tuple[int, ...]:
    names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
    return tuple(int(row[name]) for name in names)


def taken_by(member: OneMember) -> QueueReader:
    """The queue of postcards of other members."""
    return QueueReader(attach_queue(taken_path(member.context.regions)))


def test_a_member_alone_gives_nothing_away(tmp_path: Path) -> None:
    """Without a table, while NATS is away, and when the process of the cluster hangs or has ended: all flows
    are its own, and the detector waits for no other member.
    """
    (member, *_) = cluster_of(tmp_path)
    region = member.exchange._region
    assert 0 < region["mine"].sum() < SLOTS
    assert taken_by(member).horizon < time.time_ns()
    made = [made for _, _, made in postcards(2)][:50]

    def given() -> int:
        before = member.worker.counted["given_postcards_total"]
        for each in made:
            member.worker.take(ReportBatch(each.reports.copy(), each.hops, postcards=True), CLOCK)
        return member.worker.counted["given_postcards_total"] - before

    assert given() > 0
    region["alive"][0] -= 3_000_000_000
    member.worker.tick(0)
    assert given() == 0
    member.exchange.turn()
    member.worker.tick(0)
    assert given() > 0
    member.exchange._link.connected = False  # type: ignore[misc]
    member.exchange.turn()
    assert region["mine"].all()
    assert given() == 0
    assert taken_by(member).horizon > time.time_ns() + 10**18


def test_what_nats_drops_is_counted(tmp_path: Path) -> None:
    """Blocks that do not arrive are counted by the receiver with the next one that does; a full queue by the
    sender.
    """
    three = cluster_of(tmp_path)
    wire: Any = three[0].exchange._link
    made = [made for _, _, made in postcards(3)]

    def send(some: list[ReportBatch]) -> None:
        for each in some:
            each.reports["time_ns"] = time.time_ns()
            three[0].worker.take(each, CLOCK)
        three[0].exchange.turn()

    send(made[:100])
    before = three[0].context.counts["postcards_sent"]
    wire.losing = True
    send(made[100:300])
    lost = three[0].context.counts["postcards_sent"] - before
    wire.losing = False
    send(made[300:400])
    missing = sum(each.context.counts["postcards_missing"] for each in three)
    assert missing == lost > 50
    assert sum(each.context.counts["postcard_blocks_missing"] for each in three) == wire.lost == 2
    for each in made[400:] * 8:
        each.reports["flags"] &= ~np.uint8(Flag.HELD)
        three[0].worker.take(each, CLOCK)
    worker = three[0].worker.counted
    three[0].exchange.turn()
    assert worker["given_postcards_lost_total"] > 0
    sent = three[0].context.counts["postcards_sent"]
    assert worker["given_postcards_total"] == worker["given_postcards_lost_total"] + sent


def test_the_kernel_gives_away_what_the_rule_says() -> None:
    """Against the rule in plain Python: postcards of slots that are another's, with their hops; all other
    reports stay as they are.
    """
    dice = random.Random(5)
    slots = create_slots(None)
    slots["mine"][:] = np.array([dice.random() < 0.5 for _ in range(SLOTS)], np.uint8)
    slots["alive"][0] = time.monotonic_ns()
    queue = create_queue(None, 4096)
    share = Share(slots, QueueWriter(queue))
    share.look(time.monotonic_ns())
    reports, ids = [], []
    for number in range(500):
        report = Report(
            [], dice.choice([None, *range(200)]), 0, number, own=Hop(1 + number % 7), int_version=0
        )
        if dice.random() < 0.3:
            report.hops, report.int_version = [Hop(1), Hop(2)], 20
        if dice.random() < 0.1:
            report.reason = 3
        if dice.random() < 0.1:
            report.flags = int(Flag.CONGESTED)
        reports.append(report)
        ids.append(dice.choice([0, 1, 2**32 - 1]))
    made = batch(reports)
    made.reports["packet_id"] = ids
    hash_of = FlowIdHash(SEED)
    expected = []
    for number, report in enumerate(reports):
        if (
            report.flow is None
            or report.hops
            or report.reason
            or report.flags == Flag.CONGESTED
            or not ids[number]
        ):
            continue
        key = flow_key(report.flow)
        slot = hash_of.of(key[:2], key[2:4], *key[4:]) % SLOTS
        if not slots["mine"][slot]:
            expected.append((number, slot))
    before = made.reports.copy()
    assert share.give(made, CLOCK, 5) == (len(expected), 0)
    numbers = [number for number, _ in expected]
    assert 50 < len(numbers) < 300
    held = before["flags"].copy()
    held[numbers] |= np.uint8(Flag.HELD)
    assert np.array_equal(made.reports["flags"], held)
    reader = QueueReader(queue)
    block = reader.block()
    given = reader.batch(block, 0, block.reports)
    assert given.reports["sequence"].tolist() == numbers
    assert given.reports["packet"].tolist() == [slot for _, slot in expected]
    assert set(given.reports["spare"].tolist()) == {1}
    assert given.hops["node_id"][: len(numbers)].tolist() == [1 + number % 7 for number in numbers]
    assert np.array_equal(given.reports["first_hop"], np.arange(len(numbers)))


def test_few_slots_move() -> None:
    """A member that joins takes only slots for itself, and about as many as all others have; all members have
    about as many, also 100.
    """
    names = [f"m{number}" for number in range(10)]
    before, after = slot_owners(names[:9]), slot_owners(names)
    moved = before != after
    assert set(after[moved].tolist()) == {9}
    assert 0.8 < moved.sum() / (SLOTS / 10) < 1.2
    counts = np.bincount(slot_owners([f"c{number}" for number in range(100)]), minlength=100)
    assert counts.max() < 1.25 * SLOTS / 100
    assert counts.min() > 0.75 * SLOTS / 100
    assert not slot_owners([]).any()  # all have left: the next one joins such a table


HOUR = 3600 * 10**9


def test_clocks_may_differ() -> None:
    """A clock that is one hour off, ways of 1 to 50 ms, a clock that is set, and a pause of NATS: times are
    those of the receiver's clock, as by the shortest way; none is later than its arrival.
    """
    dice = random.Random(1)
    for offset in (HOUR, -HOUR, 0):
        arrivals, worst = Arrivals(), 0
        for number in range(2000):
            now = 10**18 + number * 20_000_000
            way = dice.randrange(1_000_000, 50_000_000) if number % 10 else 1_000_000
            ahead = arrivals.ahead_ns(now - way + offset, now)
            arrived = now - way + offset + ahead
            assert arrived <= now
            if number > 20:
                worst = max(worst, abs(now - way - arrived))
        assert worst <= 1_000_000
    arrivals = Arrivals()
    assert arrivals.ahead_ns(1000, 5000) == 4000
    assert arrivals.ahead_ns(1000 + HOUR, 6000) == 5000 - HOUR
    assert arrivals.ahead_ns(2000, 7000 + 0) == 5000


def _message(count: int = 3) -> bytearray:
    reports, hops = np.zeros(count, REPORT), np.zeros(count, HOP)
    ((body, _),) = BlockWriter(7).blocks(reports, hops, CLOCK, 1)
    return bytearray(body)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"HPC2"),
        (4, b"\x01\x00"),
        (60, bytes(4)),
        (60, b"\xff\xff\x00\x00"),
        (40, bytes(8)),
        (32, b"\xff" * 8),
        (56, b"\x50\0\0\0"),
    ],
)
def test_damaged_blocks_are_rejected(at: int, value: bytes) -> None:
    """Format, sizes, counts and clocks are checked before anything is taken; and no length is trusted."""
    good = _message()
    assert len(read_block(bytes(good)).batch) == 3
    bad = good[:at] + value + good[at + len(value) :]
    with pytest.raises(BadBlockError):
        read_block(bytes(bad))
    for length in (0, HEADER.itemsize - 1, HEADER.itemsize, len(good) - 1):
        with pytest.raises(BadBlockError):
            read_block(bytes(good[:length]))


def test_numbers_of_a_block_are_not_believed() -> None:
    """Numbers near 2^64, that go back, or leap: what counts as missing fits a counter, and is never less
    than nothing.
    """
    header = np.frombuffer(_message(), HEADER, 1)[0].copy()
    arrivals, top = Arrivals(), 2**64 - 1
    for number, sent, lost in (
        (0, 0, (0, 0)),
        (1, 3, (0, 0)),
        (3, 9, (1, 3)),
        (5, top, (1, MOST)),
        (7, 0, (1, 0)),
        (top - 1, top, (0, 0)),
        (top, 0, (0, 0)),
    ):
        header["number"], header["postcards"] = number, sent
        assert arrivals.missing(header) == lost
    header["number"] = 5
    assert arrivals.missing(header) is None


def test_rows_of_a_block_are_postcards_of_another_member() -> None:
    """Whatever the bytes of a sender say: no index points outside, no flag of this program is set."""
    dice = np.random.default_rng(3)
    body = bytearray(_message(50))
    body[HEADER.itemsize :] = dice.integers(0, 256, len(body) - HEADER.itemsize, np.uint8).tobytes()
    rows = read_block(bytes(body)).batch.reports
    assert rows["first_hop"].tolist() == list(range(50))
    assert not rows["hop_count"].any()
    assert not rows["reason"].any()
    assert (rows["spare"] == 1).all()
    assert not (rows["flags"] & (Flag.HELD | Flag.JOINED | Flag.INCOMPLETE | Flag.NUMBERED)).any()


def test_a_late_postcard_is_no_clock_that_was_set_back() -> None:
    """However late a member's postcards are, the detector does not emit the paths that wait; half a second is
    left until it reads them.
    """
    assert int(CLOCK_BACK_NS) >= exchange.OLDEST_NS + exchange.WAIT_NS + 400_000_000

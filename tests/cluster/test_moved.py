"""Flows and sources that another member had, and the losses that were none."""

from __future__ import annotations

import random
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.cluster.moved.flows import FLOW_KEY, FlowTables, packed, unpacked
from hopscope.cluster.moved.messages import HEADER, INBOX_BYTES, Inbox, MovedMessage, decode
from hopscope.cluster.moved.part import Moved
from hopscope.cluster.moved.sources import GAPS, MEMBERS, SUMMARY, Key, MovedSource, Spaces, accounted
from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.moved import (
    CORRECTION,
    ROWS,
    SPACE,
    CorrectionReader,
    CorrectionWriter,
    open_corrections,
)
from hopscope.detect.records import EVENT, Kind
from hopscope.settings.detect import DetectSettings
from hopscope.wire.records import Records
from support.cluster.members import Member, make, running, settings_of
from support.events.detect_make import T0, Report, batch, flow_key, path
from support.servers.server_process import NatsServer
from support.waiting import eventually

SECOND = 10**9
IDLE = 60 * SECOND
KEY: Key = (0, 0xFFFF0A000001, 7, 3, 32)


class Witness:
    """A plain member: it has every number that it received, and each of its gaps."""

    def __init__(self, bits: int) -> None:
        self.received: list[int] = []
        self.gaps: list[tuple[int, int]] = []
        self.bits = bits

    def take(self, number: int) -> None:
        if self.received and number != self.received[-1] + 1:
            self.gaps.append((self.received[-1] + 1, number - self.received[-1] - 1))
        self.received.append(number)

    def summary(self) -> np.void:
        row = np.zeros(1, SUMMARY)
        top = 1 << self.bits
        gaps = self.gaps[-GAPS:]
        known = sum(self.gaps[-GAPS - 1]) if len(self.gaps) > GAPS else self.received[0]
        row["known"], row["highest"], row["gap_count"] = known % top, self.received[-1] % top, len(gaps)
        for at, (first, count) in enumerate(gaps):
            row["gaps"][0, at] = first % top, count
        return row[0]


@pytest.mark.parametrize("bits", [22, 32])
def test_every_lost_number_counts_once(bits: int) -> None:
    """Random moves of a source between three members, with random losses, also where it moves, and numbers
    that wrap: what the members count in all, less what is no loss, is what nobody received. Brute force is
    the witness.
    """
    dice = random.Random(bits)
    for _ in range(300):
        members = [Witness(bits) for _ in range(3)]
        number, lost, received = (1 << bits) - dice.randrange(1, 300), 0, set[int]()
        first_of_all = None
        for _ in range(dice.randrange(2, 7)):
            member = dice.choice(members)
            for _ in range(dice.randrange(1, 40)):
                if dice.random() < 0.1:
                    number += dice.randrange(1, 6)
                member.take(number)
                received.add(number)
                first_of_all = number if first_of_all is None else first_of_all
                number += 1
        there = [member for member in members if member.received]
        assert first_of_all is not None
        lost = sum(each not in received for each in range(first_of_all, number))
        counted = 0
        for member in there:
            others = [other.summary() for other in there if other is not member]
            for first, count in member.gaps:
                counted += count - accounted(first % (1 << bits), count, others, bits)
        last = max(member.received[-1] for member in there)
        after = [member for member in there if member.received[-1] == last]
        # a number lost between two stays counts where the source comes back, if it does
        hidden = [
            each
            for each in range(first_of_all, number)
            if each not in received
            and not any(first <= each < first + count for member in there for first, count in member.gaps)
        ]
        assert after
        assert counted == lost - len(hidden)


def rows_of(*spaces: dict[str, int]) -> Any:
    from hopscope.detect.records import SOURCE

    rows = np.zeros(len(spaces), SOURCE)
    for row, given in zip(rows, spaces, strict=True):
        for name, value in zip(("source_hi", "source_lo", "node_id", "hw_id", "bits"), KEY, strict=True):
            row[name] = value
        for name, value in given.items():
            row[name] = value
    return rows


def test_a_source_goes_and_comes_back() -> None:
    """Numbers 1-100 here, 101-200 there, 201-300 here, ten of them lost there and five where it came back:
    two events, one at each move; here 95 of 100 missing numbers are no loss, and there all are one. Clocks
    differ by an hour.
    """
    here, there, hour = Spaces(IDLE), Spaces(IDLE), 3600 * SECOND
    now = 10**18
    moved: list[tuple[str, MovedSource]] = []
    corrected = {"here": 0, "there": 0}

    def second(own: dict[str, int] | None, other: dict[str, int] | None) -> None:
        nonlocal now
        now += SECOND
        here.look(rows_of(*([own] if own else [])), now)
        there.look(rows_of(*([other] if other else [])), now + hour)
        told = here.summaries(now)
        moved.extend(("here", each) for each in here.take("t", there.summaries(now + hour), now))
        moved.extend(("there", each) for each in there.take("h", told, now + hour))
        for name, spaces, time in (("here", here, now), ("there", there, now + hour)):
            corrected[name] += sum(each["moved"] for each in spaces.corrections(time))

    a = {"first": 1, "highest": 50, "received": 50, "last_ns": now}
    second(a, None)
    a |= {"highest": 100, "received": 100, "last_ns": now}
    second(a, None)
    assert not len(here.summaries(now))
    b = {"first": 101, "highest": 150, "received": 40, "lost": 10, "last_ns": now + hour}
    second(a, b)
    there.gap(KEY[:2], KEY[2], KEY[3], 120, 10, now + hour)
    b |= {"highest": 195, "received": 85, "last_ns": now + hour}
    second(a, b)
    a |= {"highest": 300, "received": 200, "lost": 100, "last_ns": now}
    here.gap(KEY[:2], KEY[2], KEY[3], 101, 100, now)
    for _ in range(4):
        second(a, b)
    assert [(where, each.member) for where, each in moved] == [("there", "h"), ("here", "t")]
    assert all(0 <= each.age_ns <= 3 * SECOND for _, each in moved)
    assert corrected == {"here": 95, "there": 0}


def test_what_is_known_is_limited() -> None:
    """More gaps than are told, and more numbers than can be told apart: what is not known any more is no
    excuse.
    """
    witness = Witness(22)
    for number in range(0, 100, 2):
        witness.take(number)
    summary = witness.summary()
    assert accounted(0, 60, [summary], 22) == 0
    assert accounted(70, 20, [summary], 22) == 20
    spaces = Spaces(IDLE)
    now = 10**18
    spaces.look(rows_of({"bits": 22, "first": 5, "highest": 6, "received": 2, "last_ns": now}), now)
    far = {"bits": 22, "first": 5, "highest": 3 << 20, "received": 3 << 20, "last_ns": now}
    spaces.look(rows_of(far), now + SECOND)
    spaces.gap(KEY[:2], KEY[2], KEY[3], 3 << 20, 1, now)
    (told,) = spaces.summaries(now + SECOND)
    assert (3 << 20) - int(told["known"]) < 1 << 20


def test_corrections_reach_the_table(tmp_path: Path) -> None:
    """The detector's row and counters fall by what was moved, once; a full region takes the rest later."""
    regions = tmp_path
    detector = Detector(DetectSettings(flow_rows=1, ports=16, sources=16, hop_pool=0), None)
    rows = [
        Report(path(1), 1, number, number, node=7, hw=3, source=0xFFFF0A000001) for number in [1, 2, 50, 51]
    ]
    events = np.concatenate([block.copy() for block in detector.update(batch(rows))])
    gap = events[events["kind"] == Kind.GAP]
    assert [(int(row["value"]), int(row["previous"])) for row in gap] == [(47, 3)]
    sources = detector.tables["sources"]["sources"]
    row = sources[sources["bits"] != 0]
    assert (row["first"].tolist(), row["lost"].tolist(), row["bits"].tolist()) == ([1], [47], [22])
    writer = CorrectionWriter(open_corrections(regions))
    reader = CorrectionReader(open_corrections(regions), sources)
    correction = np.zeros(1, CORRECTION)
    for name, value in zip(
        ("source_hi", "source_lo", "node_id", "hw_id", "bits"), (*KEY[:4], 22), strict=True
    ):
        correction[name] = value
    correction["moved"] = 40
    assert writer.put(correction) == 1
    assert reader.take() == 40
    assert reader.take() == 0
    assert sources[sources["bits"] != 0][["lost", "moved"]].tolist() == [(7, 40)]
    assert not (sources["version"] & 1).any()
    many = np.repeat(correction, ROWS + 10)
    assert writer.put(many) == ROWS
    assert writer.put(many) == 0
    assert reader.take() == 7
    assert sources[sources["bits"] != 0][["lost", "moved"]].tolist() == [(0, 47)]
    assert detector.counters[INDEX["lost_reports"]] == 47  # its owner corrects it
    for late in (30, 31):  # one that comes here after all, late
        report = Report(path(1), 1, 52, late, node=7, hw=3, source=0xFFFF0A000001)
        assert not [block for block in detector.update(batch([report])) if len(block)]
    assert sources[sources["bits"] != 0][["lost", "moved", "received"]].tolist() == [(0, 45, 6)]
    assert detector.counters[INDEX["lost_reports"]] == 47


def keys_of(flows: list[int]) -> Any:
    keys = np.zeros(len(flows), FLOW_KEY)
    for row, flow in zip(keys, flows, strict=True):
        names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
        for name, value in zip(names, flow_key(flow), strict=True):
            row[name] = value
    return keys


def test_flows_are_found_by_their_addresses(tmp_path: Path) -> None:
    """Of IPv4 and IPv6, in the table that the detector writes, with its secret; and packed without a loss."""
    secret = b"s" * 32
    detector = Detector(
        DetectSettings(flow_rows=64, ports=16, sources=16, hop_pool=0), tmp_path, secret=secret
    )
    for block in detector.update(batch([Report(path(1), flow, flow * 1000) for flow in range(40)])):
        assert len(block)
    live = FlowTables(tmp_path, secret)
    live.attach()
    asked = keys_of(list(range(60)))
    four, other = packed(asked)
    assert (len(four), len(other)) == (40, 20)
    back = unpacked(four, other)
    assert sorted(map(bytes, back)) == sorted(map(bytes, asked))
    ages = live.ages(asked, T0 + 100_000)
    assert ages.tolist() == [100_000 - flow * 1000 for flow in range(40)] + [-1] * 20
    assert ip_address(int(four[0]["src"])) == ip_address("10.0.0.0")


def test_bad_messages_are_rejected() -> None:
    """Too short, too long, of another format, of no member, with counts that the body has not."""
    good = MovedMessage("c1", *packed(keys_of([1, 2, 3])), np.zeros(2, SUMMARY), np.zeros(0, EVENT)).encode()
    assert [len(each) for each in (decode(good).four, decode(good).other, decode(good).summaries)] == [
        2,
        1,
        2,
    ]
    for bad in (b"", good[:-1], good + b"x", b"HPM2" + good[4:], good[: HEADER.itemsize - 1]):
        with pytest.raises(ValueError, match=r"too|format"):
            decode(bad)
    for at, value in ((4, b"\xff\xff\xff\xff"), (20, b"c 1"), (20, b"\0\0")):
        with pytest.raises(ValueError, match=r"too|format"):
            decode(good[:at] + value + good[at + len(value) :])


def test_what_waits_and_what_is_kept_of_others_is_bounded() -> None:
    """Large messages fill the inbox by their size; a peer that invents members fills no memory, and a summary
    that is kept does not keep its message.
    """
    inbox, body = Inbox(), bytes(INBOX_BYTES // 4)
    assert [inbox.put(body) for _ in range(5)] == [True] * 4 + [False]
    assert len(inbox.take()) == 4
    assert inbox.put(body)
    spaces, now = Spaces(IDLE), 10**18
    spaces.look(rows_of({"bits": 32, "first": 5, "highest": 6, "received": 2, "last_ns": now}), now)
    summaries = np.zeros(1000, SUMMARY)
    for name, value in zip(SPACE, KEY, strict=True):
        summaries[name] = value
    for number in range(MEMBERS + 10):
        list(spaces.take(f"c{number}", summaries[:1], now))
    kept = spaces._others[KEY]
    assert len(kept) == MEMBERS
    assert all(not np.shares_memory(row, summaries) for _, row in kept.values())


class NoEvents:
    """Where no events go."""

    waiting = lost = 0

    def write(self, events: Records) -> None:
        raise AssertionError(events)

    def tick(self) -> None: ...

    def close(self) -> None: ...


def test_a_member_starts_before_its_detector(nats: NatsServer, cluster: str, tmp_path: Path) -> None:
    """Without a table of sources there are no spaces, and no turn fails."""
    settings = settings_of(nats.url, cluster, "c1")
    make(settings)
    member = Member(settings, tmp_path, lambda context: [Moved(context, NoEvents)])
    with running(member):
        eventually(lambda: member.status().get("moved") or member.context.failures["moved"])
        assert member.context.failures["moved"] == 0
        assert member.status()["moved"]["spaces"] == 0

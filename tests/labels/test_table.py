"""The INT database against a dictionary (Algorithm 4), and coverage against sets of ports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hopscope.labels import table as label_table
from hopscope.labels.coverage import GRACE_NS
from hopscope.labels.state import NEVER, LabelReader, LabelRule
from hopscope.labels.table import IDLE_NS, JUMP_NS, LabelTable
from hopscope.wire.label.records import LABEL
from hopscope.wire.records import Records

MS = 1_000_000
ABOUT = LabelRule(100 * MS, 50 * MS, 50 * MS, "shift")
Key = tuple[int, int]


def labels_of(keys: list[Key], times: list[int], latencies: list[int] | None = None) -> Records:
    """LABEL records, each of a packet of its own."""
    made = np.zeros(len(keys), LABEL)
    made["node_id"], made["egress_port"] = zip(*keys, strict=True)
    made["time_ns"] = times
    made["latency_ns"] = range(len(keys)) if latencies is None else latencies
    return made


def told(ports: Records) -> dict[Key, dict[str, int]]:
    """LABEL_ROW records by key."""
    names = ("time_ns", "received_ns", "labels", "late", "latency_ns")
    return {(int(p["node_id"]), int(p["port"])): {n: int(p[n]) for n in names} for p in ports}


def test_table_keeps_the_newest_label_of_every_port(tmp_path: Path) -> None:
    """Labels in any order, twice, with clocks that are set back, and beyond what there is room for, where
    ports that are silent for long make room: time, arrival, latency, labels and discarded ones are those of
    a dictionary filled batch by batch; and a writer that is started again goes on with them.
    """
    rng = np.random.default_rng(11)
    path = tmp_path / "labels.table"
    table = LabelTable(path, ABOUT, ports=40)
    plain: dict[Key, dict[str, int]] = {}
    row_of: dict[Key, int] = {}
    behind: dict[Key, int] = {}
    now, base, refused, back, reused = 10**18, 0, 0, 0, 0
    for step in range(400):
        now += int(rng.integers(1, 30 * MS))
        if step in (150, 300):  # silence; then clocks that restarted
            now += IDLE_NS + 1
            base -= 10**15
        keys = [(int(rng.integers(0, 9)), int(rng.integers(0, 6))) for _ in range(int(rng.integers(1, 25)))]
        keys = keys if step else keys[:1] * 9
        times = [base + now - int(rng.integers(0, 40)) * MS for _ in keys]
        latencies = rng.integers(0, 2**32, len(keys)).tolist()
        new = [key for key in sorted(set(keys)) if key not in plain]
        idle = [key for key, one in plain.items() if key not in keys]
        idle = [key for key in idle if plain[key]["received_ns"] < now - IDLE_NS]
        idle.sort(key=lambda key: (plain[key]["received_ns"], row_of[key]))
        for key in new[: 40 - len(plain) + len(idle)]:
            row_of[key] = len(plain)
            if len(plain) == 40:
                gone = idle.pop(0)
                row_of[key], reused = row_of.pop(gone), reused + 1
                del plain[gone]
            plain[key] = {"time_ns": NEVER, "received_ns": NEVER, "labels": 0, "late": 0, "latency_ns": 0}
            behind.pop(key, None)
        set_back = set()
        for key in set(keys) & set(plain):
            newest = max(time for each, time in zip(keys, times, strict=True) if each == key)
            offset = behind.pop(key, None)
            if newest < plain[key]["time_ns"] - JUMP_NS:
                if offset is not None and abs(now - newest - offset) < JUMP_NS:
                    set_back.add(key)
                else:
                    behind[key] = now - newest
        for key, time, latency in zip(keys, times, latencies, strict=True):
            if (one := plain.get(key)) is None:
                refused += 1
                continue
            one["labels"] += 1
            if time > one["time_ns"] or key in set_back:
                back += time <= one["time_ns"]
                set_back.discard(key)
                one |= {"time_ns": time, "received_ns": now, "latency_ns": latency}
            elif time < one["time_ns"]:
                one["late"] += 1
        table.update(labels_of(keys, times, latencies), now)
        if step == 200:
            table = LabelTable(path, ABOUT, ports=40)
            behind.clear()
            assert told(LabelReader.attach(path).ports()) == plain
            before, counted = table, (refused, back, reused)
    assert told(LabelReader.attach(path).ports()) == plain
    assert len(plain) == 40
    assert refused > 100
    assert back >= 30
    assert before is table
    assert (table.rejected, table.clock_resets) == (refused - counted[0], back - counted[1])
    assert table.evicted == reused - counted[2] > 0
    assert table.rows_of([0, 99], [0, 0]).tolist()[1] == -1
    assert table.rows_of([77], [7], add=True, idle_since_ns=now - IDLE_NS).tolist() == [-1]


def test_one_sender_does_not_take_the_table() -> None:
    """Ports that one sender invents make room for those of another, not for more of its own."""
    table = LabelTable(None, ABOUT, ports=64)

    def send(owner: int, keys: list[Key], now: int) -> None:
        labels = labels_of(keys, [now] * len(keys))
        labels["owner"] = owner
        table.update(labels, now)

    for step in range(20):
        send(9, [(100 + n, 1) for n in range(200)], 10**18 + step * MS)
    assert (table.used, table.evicted) == (64, 0)
    ports = [(n, 2) for n in range(1, 7)]
    for step in range(20, 40):
        send(9, [(1000 * step + n, 1) for n in range(50)], 10**18 + step * MS)
        send(3, ports, 10**18 + step * MS)
    assert (table.rows_of(*zip(*ports, strict=True)) >= 0).all()
    assert table.evicted == len(ports)
    assert len(told(table.known)) == 64


def test_labels_of_equal_time_are_not_late() -> None:
    """A port that labels every packet (one-bit form) gives those of a burst one time: none was overtaken."""
    table, now = LabelTable(None, ABOUT, ports=8), 10**18
    table.update(labels_of([(1, 1)] * 4, [now] * 4), now)
    table.update(labels_of([(1, 1)] * 3, [now, now - 1, now]), now + 1)
    assert (table.taken, table.late) == (7, 1)
    assert told(table.known)[1, 1]["latency_ns"] == 0


def test_labels_of_ports_that_are_not_there_take_no_room() -> None:
    """A full table of forged ports gives the rows of a fabric's ports to them; from then on labels of others
    are rejected and counted, and those that stay in the table have no recorded time.
    """
    table, now = LabelTable(None, ABOUT, ports=8), 10**18
    forged = [(99, port) for port in range(8)]
    table.update(labels_of(forged, [now] * 8), now)
    told: list[int] = []
    table.on_evict = lambda rows: told.extend(rows.tolist())
    ours = table.rows_of([1, 1, 99], [1, 2, 0], add=True)
    assert told == [1, 2]
    assert sorted(ours.tolist()) == [0, 1, 2]
    table.confine(ours)
    table.update(labels_of([(1, 1), (99, 5), (98, 1)], [now + 1] * 3), now + 1)
    assert (table.taken, table.unknown, table.evicted) == (9, 2, 2)
    assert set(np.flatnonzero(table.recorded != NEVER).tolist()) == set(
        table.rows_of([1, 99], [1, 0]).tolist()
    )
    table.confine(None)
    table.update(labels_of([(99, 5)], [now + 2]), now + 2)
    assert table.taken == 10
    assert np.count_nonzero(table.recorded != NEVER) == 7


def test_a_time_far_ahead_does_not_blind_a_port() -> None:
    """After a label from the end of time the next that agrees with our clock is taken; a switch whose clock
    is ahead keeps its order.
    """
    table, now = LabelTable(None, ABOUT, ports=8), 10**18
    ahead = now + 3600 * 10**9
    table.update(labels_of([(1, 1), (1, 2)], [2**63 - 1, ahead]), now)
    now += 5 * MS
    table.update(labels_of([(1, 1), (1, 2)], [now - MS, ahead - MS], [77, 78]), now)
    rows = table._rows[table.rows_of([1, 1], [1, 2])]
    assert rows["time_ns"].tolist() == [now - MS, ahead]
    assert rows["latency_ns"].tolist() == [77, 1]
    assert (table.future_times, table.clock_resets, table.late) == (1, 0, 1)


@pytest.mark.parametrize(
    ("newest", "first"),
    [
        (10**18, 7),  # the switch starts again, and its clock at 0
        (10**18, 10**18 - 5 * 10**9),  # set back by 5 s
        (2**62, 90 * 10**9),  # a damaged time; the clock counts from the switch's start
        ((2**48 - 1) * 1000, 0),  # the published code's 48 bits of us wrap
        (2**63 - 1, -(2**63)),  # 64 bits wrap
    ],
)
def test_a_clock_that_is_set_back_costs_one_batch(newest: int, first: int) -> None:
    """Labels that agree with each other by a new clock are taken from the second batch on."""
    table, now = LabelTable(None, ABOUT, ports=8), 10**18
    table.update(labels_of([(1, 1)], [newest]), now)
    times = []
    for step in range(1, 4):
        time = first + (step - 1) * 50 * MS
        table.update(labels_of([(1, 1)] * 2, [time - MS if step > 1 else time, time]), now + step * 50 * MS)
        times.append(int(table.known["time_ns"][0]))
    assert times == [newest, first + 50 * MS, first + 100 * MS]
    assert (table.late, table.clock_resets) == (2, 1)
    assert table.recorded.tolist() == [now + 150 * MS]


def test_labels_that_were_long_on_their_way_set_no_clock_back() -> None:
    """One last hop is 3 s behind the other: its labels are late as long as newer ones come between."""
    table, now = LabelTable(None, ABOUT, ports=8), 10**18
    for step in range(40):
        now += 50 * MS
        table.update(labels_of([(1, 1)], [now - (3 * 10**9 if step % 2 else 0)]), now)
    assert (table.taken, table.late, table.clock_resets) == (40, 20, 0)
    table.update(labels_of([(1, 1)] * 2, [now - 3 * 10**9, now - MS]), now + MS)
    table.update(labels_of([(1, 1)], [now - 9 * 10**9]), now + 2 * MS)
    table.update(labels_of([(1, 1)], [now - 5 * 10**9]), now + 3 * MS)
    assert table.clock_resets == 0


def test_coverage_is_the_share_of_active_ports_with_a_label() -> None:
    """Labels count in the interval in which they were written, whenever the process looks; those of a clock
    that is off, and those that were long on their way, in that in which they arrived. Intervals at whose ends
    there was no tick are left out.
    """
    rng = np.random.default_rng(12)
    table = LabelTable(None, ABOUT, ports=64)
    start = 5_000 * 100 * MS
    table.tick(start - 50 * MS)
    intervals = 60
    keys = [(1, port) for port in range(20)]
    rows = table.rows_of(*zip(*keys, strict=True), add=True)
    heard: list[set[Key]] = [set() for _ in range(intervals)]
    active: list[set[Key]] = [set() for _ in range(intervals)]
    labels = [0] * intervals
    waiting: list[tuple[int, Key, int]] = []  # arrival, key, time
    for slot in range(intervals):
        begin = start + slot * 100 * MS
        active[slot] = {key for key in keys if rng.random() < 0.7}
        for key in active[slot]:
            if rng.random() < 0.8:
                time = begin + int(rng.integers(0, 100)) * MS
                waiting.append((time + int(rng.integers(0, 60)) * MS, key, time))
                heard[slot].add(key)
                labels[slot] += 1
    looks = sorted(
        {start + 100 * MS * slot + 1 for slot in range(intervals + 3)}
        | {start + int(rng.integers(0, intervals * 100)) * MS for _ in range(60)}
    )
    looks = [look for look in looks if not 30 < (look - start) // (100 * MS) < 40]  # held up for a second
    state = {"slot": -1}

    def sample() -> np.ndarray:
        last = (look - start) // (100 * MS) - 1
        mask = np.zeros(64, np.bool_)
        for slot in range(state["slot"] + 1, min(last, intervals - 1) + 1):
            mask[rows[[keys.index(key) for key in active[slot]]]] = True
        state["slot"] = max(state["slot"], last)
        return mask

    for look in looks:
        come = [one for one in waiting if one[0] <= look]
        waiting = [one for one in waiting if one[0] > look]
        if come:
            table.update(labels_of([key for _, key, _ in come], [time for *_, time in come]), look)
        table.tick(look, sample)
    told = LabelReader(table.region).coverage(1000)
    by_slot = {int(row["begin_ns"] - start) // (100 * MS): row for row in told}
    whole = [slot for slot in range(intervals - 1) if not 30 <= slot <= 39]  # without a tick there
    assert [slot for slot in by_slot if slot < intervals - 1] == whole
    assert table.coverage.skipped == 10
    for slot in whole:
        assert int(by_slot[slot]["reported"]) == len(heard[slot]), slot
        assert int(by_slot[slot]["labels"]) == labels[slot]
        assert int(by_slot[slot]["active"]) == len(active[slot]), slot
    now, closed = looks[-1], len(told)
    odd = [now - GRACE_NS - 200 * MS, now - 10**12, now + 2 * GRACE_NS]
    table.update(labels_of(keys[:3], odd), now)
    for step in range(1, 5):
        table.tick(now + step * 100 * MS, sample)
    assert LabelReader(table.region).coverage(1000)["reported"][closed:].max() == 3


def test_coverage_without_counters_takes_ports_with_recent_labels_as_active() -> None:
    """A port that falls silent lowers coverage for ten seconds, and is forgotten then."""
    table = LabelTable(None, ABOUT, ports=8)
    start = 7_000 * 100 * MS
    for step in range(300):
        now = start + step * 50 * MS
        table.update(
            labels_of([(1, 1), (1, 2)][: 2 if step < 40 else 1], [now] * (2 if step < 40 else 1)), now
        )
        table.tick(now)
    told = LabelReader(table.region).coverage(1000)
    share = told["reported"] / told["active"]
    assert share[:15].tolist() == [1.0] * 15
    assert share[25:100].tolist() == [0.5] * 75
    assert share[125:].tolist() == [1.0] * (len(told) - 125)
    assert told["labels"][:15].tolist() == [4] * 15
    assert told["packets"][:15].tolist() == [4] * 15


def test_long_stop_leaves_intervals_out() -> None:
    """A process that stood still for minutes goes on with whole intervals, and reports none in between."""
    table = LabelTable(None, ABOUT, ports=8)
    for begin in (10**12, 10**12 + 600 * 10**9):
        for step in range(20):
            now = begin + step * 50 * MS
            table.update(labels_of([(1, 1)], [now]), now)
            table.tick(now)
    told = LabelReader(table.region).coverage(label_table.INTERVALS)
    assert told["reported"].tolist() == [1] * len(told)
    assert np.diff(told["begin_ns"]).max() > 500 * 10**9
    assert len(told) < 20

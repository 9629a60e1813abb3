"""Tracked flows: the table against a plain account of all packets, and what hostile ones do to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from hopscope.labels.table import IDLE_NS
from hopscope.labels.tracked import RATE_NS, TrackedTable
from hopscope.labels.tracked_state import FILE_NAME, HOPS, TrackedReader
from hopscope.memory.region import RegionError
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from hopscope.wire.records import Records

MS = 1_000_000
START = 1_700_000_000 * 10**9
Port = tuple[int, int, int]
A: list[Port] = [(1, 1, 3), (3, 1, 2), (2, 3, 1)]
B: list[Port] = [(1, 1, 4), (4, 1, 2), (2, 4, 1)]


def packets(told: Sequence[tuple[int | None, int, Sequence[Port]]]) -> tuple[Records, Records]:
    """LABEL and LABEL_FLOW of tracked packets: (flow number, or None: not said; time; way). Latencies are
    1,000 by hop and the flow's number, queues the last digits of the time.
    """
    labels, flows = [], []
    for number, (flow, time, way) in enumerate(told):
        for at, (node, ingress, egress) in enumerate(way):
            latency = 1000 * at + (flow or 0)
            labels.append((time + at, node, latency, time % 97, number, ingress, egress, at, len(way), 1, 0))
        if flow is not None:
            flows.append((0, 0xFFFF0A000000 | flow, 0, 0xFFFF0A000001, number, 5000 + flow, 53, 17, (0,) * 7))
    return np.array(labels, LABEL), np.array(flows, LABEL_FLOW)


@dataclass
class Account:
    """What a plain reader of the packets of one flow would say."""

    counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # packets, late, partial, changes
    way: dict[Port, tuple[int, int, int]] = field(default_factory=dict)  # time, queue, highest queue
    previous: list[Port] = field(default_factory=list)

    def take(self, time: int, way: Sequence[Port]) -> None:
        """One packet; no switch is on a path twice here."""
        self.counts[0] += 1
        known, new = list(self.way), list(way)
        if known and known[0][0] == new[0][0] and time < self.way[known[0]][0]:
            self.counts[1] += 1
            return
        if set(new) <= set(known):
            self.counts[2] += len(new) < len(known)
        else:
            if known and not set(known) <= set(new):
                self.counts[3] += 1
                self.previous = known
            self.way = dict.fromkeys(new, (0, 0, 0))
        for at, port in enumerate(new):
            self.way[port] = (time + at, time % 97, max(time % 97, self.way[port][2]))


def test_as_a_plain_account(tmp_path: Path) -> None:
    """Of every flow the newest path with its times and queues, the path before, and how many packets were
    late, lacked switches or changed the path; whatever comes together in one batch.
    """
    rng = np.random.default_rng(33)
    table = TrackedTable(tmp_path / FILE_NAME, START)
    ways = [A, B, A[:2], A[:1] + A[2:], B[:2], [*A[:2], (9, 9, 9), A[2]], A + B[1:2]]
    accounts = [Account() for _ in range(7)]
    now = START
    for _ in range(300):
        now += int(rng.integers(0, 50 * MS))
        told: list[tuple[int | None, int, Sequence[Port]]] = []
        for _ in range(int(rng.integers(1, 6))):
            flow, way = int(rng.integers(7)), ways[int(rng.integers(len(ways))) * int(rng.integers(2))]
            told.append((flow, now - int(rng.integers(0, 60 * MS)), way))
            accounts[flow].take(told[-1][1], way)
        table.update(*packets(told), now)
        table.tick(now)
    rows = {int(row["sport"]) - 5000: row for row in TrackedReader.attach(tmp_path / FILE_NAME).flows()}
    assert sorted(rows) == list(range(7))
    for flow, account in enumerate(accounts):
        row = rows[flow]
        assert [row[name] for name in ("packets", "late", "partial", "changes")] == account.counts
        assert min(account.counts) > 0
        way = row["path"][: int(row["hops"])]
        assert [tuple(way[at : at + 1][list(_PORT)].tolist()[0]) for at in range(len(way))] == list(
            account.way
        )
        figures = [tuple(one) for one in way[["time_ns", "occupancy", "highest_occupancy"]].tolist()]
        assert figures == list(account.way.values())
        previous = row["previous"][: int(row["previous_hops"])][list(_PORT)].tolist()
        assert [tuple(one) for one in previous] == account.previous
        assert START < row["begin_ns"] < row["changed_ns"] <= row["received_ns"] <= now
        assert row["rate"] > 0
    sums = np.array([account.counts for account in accounts]).sum(axis=0).tolist()
    assert [table.taken, table.late, table.partial, table.changes] == sums


_PORT = ("node_id", "ingress_port", "egress_port")


def test_latency_by_hop_and_its_highest() -> None:
    """A newer packet's latency stands next to the highest since the path was first seen."""
    table = TrackedTable(None, START)
    for step, latency in enumerate((900, 5000, 700)):
        labels, flows = packets([(1, START + step, A)])
        labels["latency_ns"][1] = latency
        table.update(labels, flows, START + step)
    table.tick(START + RATE_NS)
    row = table.rows[np.flatnonzero(table.rows["packets"])[0]]
    assert row["path"]["latency_ns"][:3].tolist() == [1, 700, 2001]
    assert row["path"]["highest_latency_ns"][:3].tolist() == [1, 5000, 2001]


def test_a_clock_that_is_set_back_costs_one_packet() -> None:
    """The first switch starts again: of its flow's packets, the second is the newest, on its new path; late
    packets between those of the right time set nothing back.
    """
    table = TrackedTable(None, START)
    times = [START, 5, 50 * MS, 100 * MS, 2**62, 150 * MS, 200 * MS, 2**62, 210 * MS, 2**62 + 1, 220 * MS]
    seen = []
    for step, time in enumerate(times):
        table.update(*packets([(1, time, B if 5 <= time < 2**61 else A)]), START + step * 50 * MS)
        (flow,) = table._flows.values()
        seen.append(flow.path[0].time_ns)
    assert seen == [START, START, 50 * MS, 100 * MS, 2**62, 2**62, 200 * MS, *[2**62] * 2, *[2**62 + 1] * 2]
    assert table.late == 4


def test_a_full_table() -> None:
    """A flow that is silent for ten seconds gives way; while none is, new ones are rejected and counted."""
    table = TrackedTable(None, START, flows=4)
    table.update(*packets([(number, START, A) for number in range(4)]), START)
    table.update(*packets([(9, START, A)]), START + IDLE_NS - 1)
    assert (table.rejected, table.evicted, table.used) == (1, 0, 4)
    table.update(*packets([(number, START + 1, A) for number in (0, 2, 3)]), START + IDLE_NS - 1)
    table.update(*packets([(9, START, A), (10, START, A)]), START + IDLE_NS)
    assert (table.rejected, table.evicted, table.used) == (2, 1, 4)
    table.tick(START + IDLE_NS)
    assert sorted(table.rows["sport"].tolist()) == [5000, 5002, 5003, 5009]


def test_packets_that_are_not_on_a_flows_path() -> None:
    """Packets that are not tracked are none of ours; those whose flow is not said, or with ports that are
    not taken, are counted.
    """
    table = TrackedTable(None, START)
    labels, flows = packets([(None, START, A), (1, START, B), (2, START, A)])
    plain = labels.copy()
    plain["tracked"] = 0
    table.update(plain, flows, START)
    table.update(labels, flows, START, labels["node_id"] != 4)
    assert (table.taken, table.without_flow, table.unknown, table.used) == (1, 1, 1, 1)


def test_hostile_packets() -> None:
    """255 labels of one switch, times at the ends of 64 bits: a path keeps so many hops, and a wrong time
    gives way to the next packet whose clock agrees with ours.
    """
    table = TrackedTable(None, START)
    rng = np.random.default_rng(5)
    for _ in range(200):
        way = [tuple(row) for row in rng.integers(0, 3, (int(rng.integers(1, 256)), 3)).tolist()]
        time = int(rng.choice([-(2**63), 0, START, 2**63 - 256]))
        table.update(*packets([(1, time, way)]), START)
    table.update(*packets([(1, 2**63 - 256, [(8, 8, 8)] * 250)]), START)
    table.tick(START)
    (at,) = np.flatnonzero(table.rows["packets"]).tolist()
    assert table.rows[at]["hops"] == 250
    assert table.rows[at]["path"]["node_id"].tolist() == [8] * HOPS
    before = table.late
    table.update(*packets([(1, START, [(8, 8, 8)])]), START + MS)
    assert table.late == before
    table.tick(START + MS)
    assert table.rows[at]["path"]["time_ns"][0] == START


def test_the_next_process_goes_on(tmp_path: Path) -> None:
    """What is known survives the process; a row that it left half written, or that says nothing, is free."""
    path = tmp_path / FILE_NAME
    table = TrackedTable(path, START, flows=4)
    table.update(*packets([(1, START, A), (2, START, A), (3, START, A)]), START)
    table.update(*packets([(1, START + 9, B)]), START + 9)
    table.tick(START + 9)
    torn = int(np.flatnonzero(table.rows["sport"] == 5003)[0])
    table._versions[torn] += 1
    again = TrackedTable(path, START + 5, flows=4)
    assert again.used == 2
    again.update(*packets([(1, START + 20, A), (4, START, A), (5, START, A)]), START + 20)
    again.tick(START + 20)
    assert again.rejected == 0
    rows = {int(row["sport"]): row for row in TrackedReader.attach(path).flows()}
    assert sorted(rows) == [5001, 5002, 5004, 5005]
    one = rows[5001]
    assert (one["packets"], one["changes"], one["previous_hops"], one["begin_ns"]) == (3, 2, 3, START)
    assert one["previous"]["node_id"][:3].tolist() == [1, 4, 2]
    assert again.region.path is not None
    with pytest.raises(RegionError):
        TrackedReader.attach(tmp_path / "labels.table")

"""Flows as arrays, against loops over their fields: pages, groups, sets of ids, sums of history."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hopscope.detect.flows.flow_id_set import FlowIdSet
from hopscope.detect.flows.reading.hop_sums import HopSums
from hopscope.detect.records import EVENT, FLOW, NO_PORT, FlowState, Kind, Metric
from hopscope.history.query import History
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.collector_state import CollectorState
from hopscope.present.flows.groups import By, Groups, group
from hopscope.present.flows.rows import FlowRows, flow_rows, live_sums, past_flows
from hopscope.present.flows.search import FlowSearch
from hopscope.present.select import order_of, smallest
from hopscope.settings.history import HistorySettings
from hopscope.wire.address import MAPPED

RANDOM = np.random.default_rng(20)


def random_flows(count: int) -> Any:
    """FLOW records of few networks, some of IPv6, with many equal values."""
    rows = np.zeros(count, FLOW)
    for side in ("src", "dst"):
        is_v6 = RANDOM.random(count) < 0.3
        rows[f"{side}_hi"] = np.where(is_v6, 0x2001_0DB8 << 32 | RANDOM.integers(0, 3, count), 0)
        v4 = MAPPED | 0x0A00_0000 | RANDOM.integers(0, 4, count) << 8 | RANDOM.integers(0, 9, count)
        rows[f"{side}_lo"] = np.where(is_v6, RANDOM.integers(0, 5, count), v4)
    rows["flow_id"] = RANDOM.permutation(count).astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    rows["proto"] = RANDOM.choice([6, 17], count)
    rows["hop_count"] = RANDOM.integers(0, 6, count)
    rows["state"] = RANDOM.integers(0, 4, count)
    rows["packets"] = RANDOM.integers(1, 2**60, count)
    rows["latency_latest"] = RANDOM.integers(0, 8, count)
    rows["latency_samples"] = np.where(rows["state"] & 2, RANDOM.integers(1, 50, count), 0)
    rows["latency_sum"] = rows["latency_samples"] * RANDOM.integers(1, 5, count)
    rows["first_ns"], rows["last_ns"] = RANDOM.integers(0, 50, count), RANDOM.integers(50, 99, count)
    rows["path_hash"] = RANDOM.integers(1, 6, count)
    return rows


class Hops:
    """The part of a CollectorState that groups by switch and port need."""

    def __init__(self, flows: Any) -> None:
        self.owner = np.repeat(np.arange(len(flows)), 3)
        words = [RANDOM.integers(0, high, len(self.owner)).astype(np.uint64) for high in (7, 9, 900, 40)]
        node, port, latest, samples = words
        node[node == 6] = 0xFFFF_FFF0  # no small number
        port[port == 8] = NO_PORT
        of = flows[self.owner]
        self.sums = HopSums(of["flow_id"], of["packets"], node, port, latest, latest * samples, samples)

    def hop_sums(self) -> HopSums:
        """All hops."""
        return self.sums


@pytest.mark.parametrize(("by", "flows"), [("switch", [2, 1]), ("port", [2, 1, 1])])
def test_a_flow_with_a_loop_is_one_flow_of_its_switches(by: By, flows: list[int]) -> None:
    """By hand: 7:1 → 8:1 → 7:1 → 8:2 and 7:1. Its packets pass switch 7 twice."""
    records = np.zeros(2, FLOW)
    records["flow_id"], records["state"] = (11, 12), (FlowState.HAS_LOOP, 0)
    words = [(11, 11, 11, 11, 12), (5, 5, 5, 5, 3), (7, 8, 7, 8, 7), (1, 1, 1, 2, 1)]
    columns = [np.array(each, np.uint64) for each in (*words, (9,) * 5, (9,) * 5, (1,) * 5)]
    state = cast(CollectorState, SimpleNamespace(hop_sums=lambda: HopSums(*columns)))
    groups = group(FlowRows(records, 2), by, state)
    assert groups.flows.tolist() == flows
    assert groups.packets[0] == 13


@pytest.mark.parametrize("by", ["latency", "mean_latency", "packets", "last_seen", "first_seen", "hops"])
def test_pages_are_parts_of_one_order(by: str) -> None:
    """Every page at every offset is that part of the whole order, by value, then id; unknown latencies are
    last in both directions.
    """
    flows = random_flows(300)

    def key(row: Any, sign: int) -> Any:
        samples = int(row["latency_samples"])
        values = {
            "latency": int(row["latency_latest"]),
            "mean_latency": int(row["latency_sum"]) / max(samples, 1),
            "packets": float(row["packets"]),
            "last_seen": int(row["last_ns"]),
            "first_seen": int(row["first_ns"]),
            "hops": int(row["hop_count"]),
        }
        unknown = by.endswith("latency") and not row["state"] & FlowState.HAS_LATENCY
        return unknown, 0 if unknown else sign * values[by], int(row["flow_id"])

    for descending in (True, False):
        whole = sorted(range(300), key=lambda at: key(flows[at], -1 if descending else 1))
        for offset, limit in ((0, 10), (0, 300), (7, 1), (123, 40), (290, 50), (300, 5), (1000, 5)):
            page = order_of(flows, by, descending, offset, limit).tolist()
            assert page == whole[offset : offset + limit], (by, descending, offset, limit)


def test_smallest_of_few_values() -> None:
    """Places among many equal values, and infinite ones."""
    for _ in range(300):
        count = int(RANDOM.integers(0, 40))
        values = RANDOM.choice([-1.0, 0.0, 2.5, np.inf], count)
        ids = RANDOM.permutation(count)
        first = int(RANDOM.integers(0, count + 5))
        end = first + int(RANDOM.integers(0, 20))
        whole = sorted(range(count), key=lambda at: (values[at], ids[at]))
        assert smallest((values, ids), first, end).tolist() == whole[first:end]


@pytest.mark.parametrize("by", ["src", "dst", "src_prefix", "dst_prefix", "proto", "path", "switch", "port"])
def test_groups_are_sums_by_key(by: By) -> None:
    """Flows, packets (exact beyond 2^53), highest and sum of latencies of each key, over a part of the flows;
    the example of a group is one of it.
    """
    every = random_flows(400)
    hops = Hops(every)
    flows = every[RANDOM.random(400) < 0.6]
    chosen = set(flows["flow_id"].tolist())
    expected: dict[tuple[int, ...], list[tuple[int, int, int, int]]] = defaultdict(list)
    for row in flows:
        if by == "path" and not row["state"] & FlowState.HAS_PATH:
            continue
        side, _, prefix = by.partition("_")
        if by in ("proto", "path"):
            key: tuple[int, ...] = (int(row["proto" if by == "proto" else "path_hash"]),)
        elif by not in ("switch", "port"):
            high, low = int(row[f"{side}_hi"]), int(row[f"{side}_lo"])
            if prefix:
                low = low & ~0xFF if high == 0 else 0
            key = high, low
        else:
            continue
        latest = int(row["latency_latest"]) if row["state"] & FlowState.HAS_LATENCY else 0
        values = int(row["packets"]), latest, int(row["latency_sum"]), int(row["latency_samples"])
        expected[key].append(values)
    if by in ("switch", "port"):
        sums = hops.sums
        columns = (sums.flow_id, sums.node, sums.port, sums.packets, sums.latest, sums.latency_sum)
        for flow, node, port, *rest in zip(*(c.tolist() for c in (*columns, sums.samples)), strict=True):
            if flow in chosen and (by == "switch" or port != NO_PORT):
                expected[(node,) if by == "switch" else (node, port)].append(tuple(rest))
    groups = group(FlowRows(flows, len(flows)), by, cast(CollectorState, hops))
    places = {tuple(key): at for at, key in enumerate(groups.keys.tolist())}
    assert places.keys() == expected.keys()
    for key, members in expected.items():
        packets, highest, total, samples = zip(*members, strict=True)
        assert _sums(groups, places[key]) == (
            len(members), sum(packets) % 2**64, max(highest), sum(total), sum(samples),
        )  # fmt: skip
    if by == "path":
        of_examples = flows[groups.example]
        assert of_examples["path_hash"].tolist() == groups.keys[:, 0].tolist()
        assert (of_examples["state"] & FlowState.HAS_PATH > 0).all()


def _sums(groups: Groups, at: int) -> tuple[Any, ...]:
    columns = (groups.flows, groups.packets, groups.highest, groups.sum, groups.samples)
    return tuple(column[at].item() for column in columns)


def test_sets_of_ids_know_their_members() -> None:
    """Ids that share a slot, those of the first and last slot, 0, and an empty set."""
    for count in (0, 1, 5, 3000):
        ids = RANDOM.integers(0, 2**64, count, dtype=np.uint64)
        ids[count // 2 :] &= np.uint64(0xFFFF_0000_0000_03FF)  # many share their low bits
        edges = np.array([0, 2**64 - 1, 1023, 1 << 63], np.uint64)
        others = np.concatenate([ids[::2], RANDOM.integers(0, 2**64, 500, dtype=np.uint64), edges])
        for members in (ids, np.append(ids, np.array([0, 2**64 - 1, 2**63 + 1023], np.uint64))):
            known = set(members.tolist())
            assert FlowIdSet(members).has(others).tolist() == [each in known for each in others.tolist()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Events of 300 flows, half of them in a segment, the others in a journal; some of IPv6."""
    folder = tmp_path_factory.mktemp("past")
    flows = random_flows(300)
    events = np.zeros(6000, EVENT)
    of = flows[RANDOM.integers(0, 300, 6000)]
    for name in ("flow_id", "src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto"):
        events[name] = of[name]
    events["ip_version"] = np.where(of["src_hi"] > 0, 6, 4)
    events["time_ns"], events["sequence"] = np.arange(6000) * 1000, np.arange(6000)
    events["kind"] = RANDOM.choice(
        [Kind.CHANGE, Kind.PATH_CHANGE, Kind.DROP, Kind.FLOW_RECORD, Kind.CLEARED], 6000
    )
    latency = (events["kind"] == Kind.CHANGE) | (events["kind"] == Kind.CLEARED)
    events["metric"] = np.where(latency, Metric.FLOW_LATENCY, Metric.NONE)
    events["metric"][events["kind"] == Kind.FLOW_RECORD] = Metric.FLOW_PATH
    events["value"], events["node_id"], events["port"] = RANDOM.integers(1, 500, 6000), 7, 3
    events["flow_id"][::50] = 0  # of no flow
    for part in (events[:3000], events[3000:]):
        with JournalWriter(folder, 0) as writer:
            writer.append(part)
        if part["sequence"][0] == 0:
            archive_once(folder, HistorySettings())
    return folder


def test_sums_of_chosen_flows_are_rows_of_all(folder: Path) -> None:
    """Of some flows and of all others, from segments and journals: the same as in `flows`, with a filter,
    too; addresses as numbers.
    """
    with History(folder) as history:
        for filters in ({}, {"start": 1_000_000, "end": 5_000_000}, {"prefix": "10.0.1.0/24"}):
            rows = {row["flow_id"]: row for row in history.flows(limit=None, **filters).rows()}  # type: ignore[arg-type]
            ids = FlowIdSet(np.array(sorted(rows)[::3], np.uint64))
            assert len(ids) > 20
            for inside in (True, False):
                table = history.sums_of(ids, inside, limit=None, **filters)  # type: ignore[arg-type]
                found = {row["flow_id"]: row for row in table.rows()}
                known = {flow for flow in rows if (flow in ids.ids.tolist()) == inside}
                assert found.keys() == known
                for flow, row in found.items():
                    shared = rows[flow].keys() & row.keys()
                    assert {"first", "last", "packets", "highest_latency", "mean_latency"} <= shared
                    assert {name: row[name] for name in shared} == {name: rows[flow][name] for name in shared}


def test_past_flows_have_the_values_of_their_events(folder: Path) -> None:
    """By loops over events: times, packets of records, the highest latency; what is beside a live flow."""
    state = CollectorState(folder)
    with History(folder) as history:
        past = past_flows(history, state, FlowSearch(), None, None)
        rows = flow_rows(state, FlowSearch(), "all", past)
        assert (len(rows.records), rows.live) == (299, 0)  # one has the id 0, which is that of no flow
        events: dict[int, list[Any]] = defaultdict(list)
        for event in history.events(limit=None).rows():
            events[event["flow_id"]].append(event)
        for at, row in enumerate(rows.records):
            mine = events[int(row["flow_id"])]
            latencies = [e["value"] for e in mine if e["kind"] == "change"]
            latencies += [
                e["previous"] for e in mine if e["kind"] == "flow_record" and e["metric"] == "flow_latency"
            ]
            packets = [e["value"] for e in mine if e["kind"] == "flow_record"]
            sums = rows.sums(at)
            assert sums == {
                "events": len(mine),
                "path_changes": sum(e["kind"] == "path_change" for e in mine),
                "drops": sum(e["kind"] == "drop" for e in mine),
                "highest_latency": max(latencies, default=None),
                "packets": sum(packets) if packets else None,
            }
            assert int(row["latency_latest"]) == max(latencies, default=0)
            assert int(row["packets"]) == sum(packets)
            assert int(row["last_ns"]) == max(1000 * e["sequence"] for e in mine)
        some = rows.records[:5]
        assert live_sums(history, some, FlowSearch(), None, None) == {
            int(row["flow_id"]): rows.sums(at) for at, row in enumerate(some)
        }

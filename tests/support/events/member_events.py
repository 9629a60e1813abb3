"""Events of several members, made up: flows that they share, paths of more than 8 nodes, IPv6, three days."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hopscope.detect.records import Kind, Metric
from hopscope.history.columns import register
from hopscope.history.writing.archive import archive_once
from hopscope.history.writing.journal import JournalWriter
from hopscope.lake.catalog import EVENT_COLUMNS, Lake
from hopscope.settings.history import HistorySettings
from support.events.event_make import START_NS, Events, random_events

DAY_NS = 86_400 * 10**9
FLOWS = 60
_TUPLE = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")


def member_events(count: int, number: int, shard: int) -> Events:
    """EVENT [count] of a shard of the member `number`. Flows are those of all members, with ids of its own;
    events of a flow record share its time; one in twenty begins a path of 19 nodes, in three records.
    """
    rng = np.random.default_rng([number, shard])
    events = random_events(count, seed=100 * number + shard)
    events["time_ns"] += rng.integers(0, 10**6) + np.sort(rng.integers(0, 3, count)) * DAY_NS
    flows = random_events(4 * FLOWS, seed=7)
    flows = flows[flows["ip_version"] != 0][:FLOWS]
    which = np.minimum(rng.pareto(1.0, count) * 5, FLOWS - 1).astype(int)
    of_flow = events["ip_version"] != 0
    for name in _TUPLE:
        events[name] = np.where(of_flow, flows[name][which], events[name])
    ids = which.astype(np.uint64) + np.uint64(1 + 1_000_003 * (number + 1)) * np.uint64(2**40)
    events["flow_id"] = np.where(of_flow, ids, 0)
    events["value"] = rng.integers(0, 2**40, count)
    for at in range(0, count - 3, 20):
        events[at : at + 3] = events[at]
        events["kind"][at : at + 3] = rng.choice([Kind.NEW_KEY, Kind.PATH_CHANGE])
        events["metric"][at : at + 3] = Metric.FLOW_PATH
        events["hop"][at : at + 3], events["hop_count"][at : at + 3] = (0, 8, 16), 19
        events["path"][at : at + 3] = rng.integers(1, 40, (3, 8))
    for at in range(5, count - 3, 20):  # a flow record: packets, latency, and of a hop
        events[at : at + 3] = events[at]
        events["kind"][at : at + 3] = Kind.FLOW_RECORD
        events["metric"][at : at + 3] = (Metric.FLOW_PATH, Metric.FLOW_LATENCY, Metric.HOP_LATENCY)
        events["hop"][at : at + 3], events["hop_count"][at : at + 3] = 0, 5
        events["value"][at : at + 3] = rng.integers(1, 1000, 3)
    events["shard"], events["sequence"] = shard, np.arange(count)
    return events


def commit(lake: Lake, member: str, incarnation: str, events: Events) -> None:
    """Consecutive events of a shard, and the mark after them, in one transaction."""
    who, last = f"'{member}', '{incarnation}'", events[-1]
    source = register(lake.connection, "fresh", events)
    mark = f"{who}, {last['shard']}, {last['sequence'] + 1}, make_timestamp_ns({START_NS})"
    lake.connection.execute("BEGIN")
    lake.connection.execute(f"INSERT INTO {lake.events} ({EVENT_COLUMNS}) SELECT *, {who} FROM ({source})")
    lake.connection.execute(f"INSERT INTO {lake.marks} VALUES ({mark})")
    lake.connection.execute("COMMIT")


@dataclass
class Member:
    """A member: its data folder and its events by shard."""

    name: str
    incarnation: str
    folder: Path
    shards: dict[int, Events]

    def write(self) -> None:
        """Its history: segments, and newer events in journals."""
        for shard, events in self.shards.items():
            with JournalWriter(self.folder, shard, fsync_seconds=0) as writer:
                for part, events_of_part in enumerate(np.array_split(events, 3)):
                    writer.append(events_of_part)
                    writer.rotate()
                    if not part:
                        archive_once(self.folder, HistorySettings())

    def rows(self) -> list[dict[str, Any]]:
        """All its events as plain values, of long paths the first record with the whole path."""
        found = []
        for events in self.shards.values():
            for at, event in enumerate(events):
                if event["metric"] == Metric.FLOW_PATH and event["hop"]:
                    continue
                row = {name: event[name].item() for name in event.dtype.names if name != "path"}
                row |= {"member": self.name, "incarnation": self.incarnation, "path": None}
                if event["metric"] == Metric.FLOW_PATH or event["kind"] == Kind.LOOP:
                    path = event["path"][: max(0, int(event["hop_count"]) - int(event["hop"]))].tolist()
                    for number, further in enumerate(events[at + 1 : at + 3], 1):
                        if further["metric"] != Metric.FLOW_PATH or further["hop"] != 8 * number:
                            break
                        path += further["path"][: int(further["hop_count"]) - int(further["hop"])].tolist()
                    row["path"] = path
                found.append(row)
        return found

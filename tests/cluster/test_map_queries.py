"""Queries of the map to members without a lake: how their tables become one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hopscope.cluster.queries.history_query import HistoryQuery
from hopscope.cluster.queries.members_history import MembersHistory
from hopscope.cluster.queries.parts import Answer
from hopscope.cluster.queries.tables import Rows, encode
from hopscope.detect.places import places_of
from hopscope.detect.records import EVENT, Kind, Metric
from hopscope.history.query import History
from hopscope.history.writing.journal import JournalWriter
from hopscope.present.fabric.past import past_snapshot
from hopscope.present.fabric.places import METRICS

T0 = 1_700_000_000_000_000_000
QUEUE = METRICS.index("queue_occupancy")


class Members(MembersHistory):
    """Members that have answered with one row each."""

    def __init__(self, **rows: dict[str, Any]) -> None:
        self._answers = rows

    def _rows(self, query: Any) -> dict[str, Rows]:
        return {
            member: Rows([{**row, "member": member}], tuple(row), False, ())
            for member, row in self._answers.items()
        }


def test_the_newest_value_and_the_highest_of_all_count() -> None:
    """Of one place at two members: the newest last value, the highest of both; drops are added."""
    one = {
        "metric": "hop_latency",
        "node_id": 1,
        "port": 2,
        "value": 5,
        "highest": 9,
        "alarms": 1,
        "time": "1",
    }
    other = {**one, "value": 7, "highest": 8, "alarms": 0, "time": "2"}
    (row,) = Members(a=one, b=other).moment(highest_from=1).rows()
    assert (row["value"], row["highest"], row["alarms"]) == (7, 9, 1)
    (row,) = (
        Members(a={**one, "metric": "drops"}, b={**other, "metric": "drops"}).moment(highest_from=1).rows()
    )
    assert (row["value"], row["highest"]) == (12, 12)


class Folders(MembersHistory):
    """Members whose histories are folders."""

    def __init__(self, **folders: Path) -> None:
        self._folders = folders

    def _ask(self, query: HistoryQuery, read: Any) -> Any:
        found = {}
        for member, folder in self._folders.items():
            with History(folder, member=member) as history:
                found[member] = read(Answer(200, encode(query.ask(history, member), history.problems)))
        return found


def of_queue(seconds: int, port: int, queue: int, kind: Kind, value: int, limit: int = 0) -> dict[str, Any]:
    """An event of a queue of switch 7."""
    return {
        "time_ns": T0 + seconds * 10**9, "node_id": 7, "port": port, "ident": queue, "kind": kind,
        "metric": Metric.QUEUE_OCCUPANCY, "value": value, "previous": limit,
    }  # fmt: skip


def test_an_alarm_whose_sources_moved_is_not_open(tmp_path: Path) -> None:
    """It ends with the first value of another member that is not above its limit, of the same queue; a
    value of another queue of the port says nothing, nor does one above the limit.
    """
    known = {
        "a": [of_queue(10, port, 3, Kind.RAISED, 900, 500) for port in (1, 2, 3, 4)],
        "b": [
            of_queue(20, 1, 3, Kind.NEW_KEY, 30),
            of_queue(20, 2, 4, Kind.NEW_KEY, 30),
            of_queue(20, 3, 3, Kind.NEW_KEY, 700),
        ],
    }
    for member, rows in known.items():
        events = np.zeros(len(rows), EVENT)
        for event, row in zip(events, rows, strict=True):
            for name, value in row.items():
                event[name] = value
        with JournalWriter(tmp_path / member, 0) as writer:
            writer.append(events)
    history: Any = Folders(**{member: tmp_path / member for member in known})

    def alarms(seconds: int) -> list[int | None]:
        found = past_snapshot(history, T0 + seconds * 10**9, 10**9, None).rows
        return [port for _, port, _ in places_of(found["place"][found["alarm"][:, QUEUE]])]

    assert alarms(15) == [1, 2, 3, 4]
    assert alarms(25) == [2, 3, 4]


def test_steps_and_events_are_added() -> None:
    """Flows by step, and events by bucket, with the place of the highest value."""
    step = {"node_id": 1, "port": 2, "next_node_id": 3, "flows": 4, "ends": 1, "time": "1"}
    (row,) = Members(a=step, b=step).steps().rows()
    assert (row["flows"], row["ends"]) == (8, 2)
    bucket = {"bucket": "1", "events": 1, "drops": 2, "path_changes": 0, "alarms": 1, "highest": 4}
    bucket |= {"worst_node_id": 1, "worst_port": 2}
    higher = {**bucket, "highest": 6, "worst_node_id": 9}
    (row,) = Members(a=bucket, b=higher).activity("hop_latency", bucket_seconds=1.0).rows()
    assert (row["events"], row["drops"], row["highest"], row["worst_node_id"]) == (2, 4, 6, 9)

"""Questions of the map to members without a lake: how their tables become one."""

from __future__ import annotations

from typing import Any

from hopscope.cluster.questions.members_history import MembersHistory
from hopscope.cluster.questions.tables import Rows


class Members(MembersHistory):
    """Members that have answered with one row each."""

    def __init__(self, **rows: dict[str, Any]) -> None:
        self._answers = rows

    def _rows(self, question: Any) -> dict[str, Rows]:
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

"""Who answered a query to a cluster, and where its pages of events continue."""

from __future__ import annotations

import json
from itertools import product
from typing import Any, Literal

import pytest
from fastapi import Request

from hopscope.cluster.membership.members import MemberRecord
from hopscope.cluster.merge.rules import rule_of
from hopscope.cluster.queries.client import Gathered
from hopscope.cluster.queries.cluster_answer import ClusterAnswer
from hopscope.cluster.queries.parts import Answer
from hopscope.history.errors import HistoryError
from hopscope.lake.cursor import ClusterCursor
from hopscope.present.text import parse_when
from hopscope.serve.scope import ClusterQuery


def test_an_answer_is_complete_only_if_all_known_members_are_in_it() -> None:
    """Missing members and a cluster that was not asked make it incomplete, and its line says which, why."""
    whole = ClusterAnswer(("c1", "c2"))
    assert (whole.complete, whole.line) == (True, "")
    part = ClusterAnswer(("c1",), {"c2": "no answer within 2 s"})
    assert not part.complete
    assert part.line == "answered by 1 of 2 members; missing: c2 (no answer within 2 s)"
    alone = ClusterAnswer(("c1",), {}, "NATS does not answer")
    assert (alone.complete, alone.line) == (False, "local only: NATS does not answer")
    assert alone.as_json() == {
        "answered": ["c1"], "missing": {}, "complete": False,
        "local_only": "NATS does not answer", "without_lake": None,
    }  # fmt: skip


def test_answers_of_two_queries_lack_what_either_lacks() -> None:
    """A member that answered only one of two queries has not answered."""
    both = ClusterAnswer(("c1", "c2")).joined(ClusterAnswer(("c1",), {"c2": "late"}))
    assert (both.answered, both.missing, both.complete) == (("c1",), {"c2": "late"}, False)


EMPTY = {"total": 0, "offset": 0, "items": [], "truncated": False}
FLOW = "/api/v0/flows/00000000000000aa"
FOUND = {"last_seen": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("path", "query", "found", "lacks"),
    [
        ("/api/v0/flows", "", EMPTY, False),
        ("/api/v0/flows", "state=live", EMPTY, False),
        ("/api/v0/flows", "state=past", EMPTY, True),
        ("/api/v0/flows", "state=all", EMPTY, True),
        ("/api/v0/flows/groups", "by=src&state=all", {**EMPTY, "flows": 0, "packets": 0}, True),
        (f"{FLOW}/paths", "", FOUND, False),
        (f"{FLOW}/paths", "", None, True),
        (f"{FLOW}/hops", "", None, True),
        (f"{FLOW}/series", "", None, True),
        (f"{FLOW}/bottleneck", "", {"source": "events"}, False),
        (f"{FLOW}/bottleneck", "", {"source": "none"}, True),
        (FLOW, "", None, False),
        ("/api/v0/switches/5", "", None, False),
        ("/api/v0/events/0-5", "", None, True),
        ("/api/v0/events/0-5", "", {"before": [], "after": [], "alarm": None}, False),
        ("/api/v0/events/0-5/evidence", "", None, True),
    ],
)
def test_a_member_that_left_lacks_where_its_history_counts(
    path: str, query: str, found: dict[str, Any] | None, lacks: bool
) -> None:
    """c2 was drained, and its collector has ended. Of what is live there is nothing to come, so the answer is
    complete; past flows, and what no other member has found, may be in its history.
    """
    rule = rule_of(path)
    assert rule is not None
    request = Request({"type": "http", "path": path, "query_string": query.encode(), "headers": []})
    one = Answer(404, b"nothing") if found is None else [found]
    left = {"c2": MemberRecord("c2", "x" * 32, state="drained")}
    answer = ClusterQuery(request, rule, [dict]).answered(Gathered({"c1": one}, ClusterAnswer(("c1",)), left))
    assert answer.status_code == (404 if found is None else 200)
    cluster = json.loads(bytes(answer.body))["cluster"]
    assert cluster["complete"] == (not lacks)
    assert [*cluster["missing"]] == ["c2"] * lacks
    assert all(why.startswith("drained, last seen") for why in cluster["missing"].values())


def test_relative_times_are_those_of_the_member_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """All members get one moment, in steps of 5 s; what cannot be read is sent as it is."""
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_007_999_999_999)
    rule = rule_of("/api/v0/flows")
    assert rule is not None
    sent = "since=10m&until=2023-11-14T22:13:20Z&at=soon&q=5m"
    request = Request({"type": "http", "path": "/", "query_string": sent.encode(), "headers": []})
    (get,) = ClusterQuery(request, rule, [dict]).gets
    assert dict(get["query"]) == {
        "since": str((1_700_000_005 - 600) * 10**9), "until": str(1_700_000_000 * 10**9), "at": "soon",
        "q": "5m",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-05T00:00:00Z", 10**15), ("19670d", 10**15), ("1969-01-01", 0), ("0", 0),
        ("1970-02-01T00:00:00Z", 31 * 86400 * 10**9),
    ],
)  # fmt: skip
def test_members_read_the_times_that_they_are_sent(
    time: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times near 1970, which a member reads as text, but not as a number of ns below 10^15."""
    monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000 * 10**9)
    rule = rule_of("/api/v0/flows")
    assert rule is not None
    query = f"since={time}".encode()
    request = Request({"type": "http", "path": "/", "query_string": query, "headers": []})
    (get,) = ClusterQuery(request, rule, [dict]).gets
    ((_, sent),) = get["query"]
    assert parse_when(sent, 0) == expected


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_each_member_continues_at_its_first_event_after_the_cursor(
    order: Literal["newest", "oldest"],
) -> None:
    """Brute force: for every event as the last of a page, what members send is what follows in the order."""
    events = [
        (time, member, shard, sequence)
        for time, member, shard, sequence in product((5, 6), ("a", "b-1", "c"), (0, 3), (0, 9))
    ]
    events.sort(reverse=order == "newest")
    for at, last in enumerate(events):
        cursor = ClusterCursor.parse(str(ClusterCursor(*last)))
        sent = []
        for time, member, shard, sequence in events:
            place = tuple(map(int, cursor.of(member, order).rsplit("-", 2)))
            here = (time, shard, sequence)
            if here < place if order == "newest" else here > place:
                sent.append((time, member, shard, sequence))
        assert sent == events[at + 1 :], last


@pytest.mark.parametrize("text", ["", "5-0-1", "x-0-1-c1", "5-0-1-", "5-0-1-c 1", "9" * 30 + "-0-1-c1"])
def test_a_cursor_of_another_kind_is_refused(text: str) -> None:
    """One line names it; a member's own cursor, which has no member, is another kind."""
    with pytest.raises(HistoryError, match="expected the `after` of a page of the cluster"):
        ClusterCursor.parse(text)

"""Who answered a question to a cluster, and where its pages of events continue."""

from __future__ import annotations

from itertools import product
from typing import Literal

import pytest

from hopscope.cluster.questions.answers import ClusterAnswer
from hopscope.history.errors import HistoryError
from hopscope.lake.cursor import ClusterCursor


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


def test_answers_of_two_questions_lack_what_either_lacks() -> None:
    """A member that answered only one of two questions has not answered."""
    both = ClusterAnswer(("c1", "c2")).joined(ClusterAnswer(("c1",), {"c2": "late"}))
    assert (both.answered, both.missing, both.complete) == (("c1",), {"c2": "late"}, False)


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

"""Slack: what is posted to an incoming webhook, escaped by the rules of Slack and Mattermost."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import Kind
from hopscope.export.alerts.slack import BLOCK, Slack
from hopscope.export.block import EventBlock
from hopscope.export.destination import Context
from hopscope.settings.destinations.alerts import SlackSettings
from support.events.alert_events import event, joined
from support.servers.http_receiver import receiving


def posted(url: str, names: Names, count: int = 1, **more: Any) -> None:
    """Post alarms of `count` queues."""
    given = SlackSettings.model_validate({"kind": "slack", "url": url, "group_seconds": 0, **more})
    destination = Slack(given, Context("channel", "m1", names, lambda name, more: None))
    destination.connect()
    events = joined(*(event(Kind.RAISED, 0, ident=ident) for ident in range(count)))
    destination.send(EventBlock("m1", 0, 0, count - 1, events))
    assert destination.tick((), True) == 1
    destination.close()


def test_a_message() -> None:
    """The title, a line for each alert, and their pages; the block and the text are the same."""
    page = "https://h.example/?q=$queue"
    with receiving() as server:
        posted(server.url, Names(nodes={7: "leaf-7"}), 3, listed=2, page=page)
    (body,) = server.posts
    time = "2023-11-14T22:13:20.000000000Z"
    about = "queue_occupancy 3000 above 2500 at leaf-7 port 2 queue"
    assert body["text"].splitlines() == [
        f":warning: [warning] raised: {about} 0 and 2 more",
        f"• {time} warning raised: {about} 0 <https://h.example/?q=0|page>",
        f"• {time} warning raised: {about} 1 <https://h.example/?q=1|page>",
        "… 1 more",
    ]
    assert body["blocks"] == [{"type": "section", "text": {"type": "mrkdwn", "text": body["text"]}}]


TEXT = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(
    [
        "<!channel>",
        "@channel @here @all",
        "<@U024BE7LH>",
        "[x](http://evil.example)",
        "&lt;!here&gt;",
        "x" * 4096,
    ]
)


@settings(max_examples=30, deadline=None)
@given(node=TEXT, port=TEXT)
def test_hostile_names_are_text(node: str, port: str) -> None:
    """No name mentions anybody, is a link, or makes a message too long for Slack."""
    given = SlackSettings(kind="slack", url="http://127.0.0.1:9/x", listed=500)
    names = Names(nodes={7: node}, ports={(7, 2): port})
    destination = Slack(given, Context("channel", "m1", names, lambda name, more: None))
    events = joined(*(event(Kind.RAISED, 0, ident=ident) for ident in range(60)))
    destination.send(EventBlock("m1", 0, 0, 59, events))
    message = destination.outbox.next(2**62, ending=True)
    assert message is not None
    text = destination._body(message)["text"]
    assert not re.search(r"[<>]|&(?!amp;|lt;|gt;)|@(?!\u200b)|\]\(", text)
    assert len(text) <= BLOCK + 100 <= 3000
    listed = text.count("\n•")
    assert (f"… {60 - listed} more" in text) == (listed < 60)

"""Alerts: what is posted, how often, and failures of delivery."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.detect.records import EVENT, EVENT_VERSION, NO_NODE, Kind, Metric
from hopscope.export import exporter as module
from hopscope.export.alerts.webhook import EVENTS, QUEUE, Webhook
from hopscope.export.batch import ExportBatch, RingRead
from hopscope.export.counters import DESTINATION, Place, open_counters, read_counters
from hopscope.export.run import run
from hopscope.memory.ring import RingWriter, create_ring
from hopscope.settings.collector import Settings
from hopscope.settings.destinations.webhook import AlertSettings
from support.waiting import HANG_SECONDS, eventually


class Receiver(ThreadingHTTPServer):
    """A webhook with configured answers: a status for each request, then 204; `delay` seconds late."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)  # type: ignore[arg-type]
        self.statuses: list[int] = []
        self.delay = 0.0
        self.posts: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}/alerts"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(self.path)
        time.sleep(self.server.delay)
        status = self.server.statuses.pop(0) if self.server.statuses else 204
        if status < 300:
            self.server.posts.append(body)
        self.send_response(status)
        if 300 <= status < 400:
            self.send_header("location", f"{self.server.url}/elsewhere")
        self.send_header("content-length", "0")
        self.end_headers()

    do_GET = do_POST  # noqa: N815 - the name that http.server calls

    def log_message(self, format: str, *_: object) -> None:
        pass


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A webhook on this machine; pauses between tries are short."""
    monkeypatch.setattr(module, "MIN_PAUSE", 0.01)
    with Receiver() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def events(count: int, kind: Kind = Kind.RAISED, first: int = 0) -> np.ndarray:
    """EVENT records of one kind."""
    made = np.zeros(count, EVENT)
    made["kind"], made["metric"], made["node_id"] = kind, Metric.HOP_LATENCY, 7
    made["sequence"] = np.arange(first, first + count)
    made["value"] = made["sequence"]
    return made


def describe(event: np.void, *, paths: object) -> dict[str, Any]:
    """A short form of an event."""
    return {"value": int(event["value"])}


def make(url: str, **more: Any) -> tuple[Webhook, np.ndarray]:
    """A webhook that has been started, and its counters."""
    row = np.zeros(1, DESTINATION)
    hook = Webhook(AlertSettings(url=url, **more), describe, row)
    hook.start()
    return hook, row


def offer(hook: Webhook, found: np.ndarray) -> None:
    """Export one block of events."""
    hook.export(ExportBatch(events=RingRead([found])))


def test_chosen_kinds_are_posted(receiver: Receiver) -> None:
    """One post for the events of one kind; other kinds are not posted."""
    hook, counted = make(receiver.url, kinds=("raised", "loop"))
    offer(hook, np.concatenate([events(2), events(3, Kind.PUSH), events(1, Kind.LOOP)]))
    eventually(lambda: len(receiver.posts) == 2)
    hook.stop(2)
    by_kind = {post["kind"]: post for post in receiver.posts}
    assert [event["value"] for event in by_kind["raised"]["events"]] == [0, 1]
    assert len(by_kind["loop"]["events"]) == 1
    assert [int(counted[n][0]) for n in ("sent_total", "events_total", "failed_total")] == [2, 3, 0]


def test_the_next_post_counts_events_above_the_rate_limit(receiver: Receiver) -> None:
    """Above the limit of a kind events are counted; the next post of this kind says how many."""
    hook, counted = make(receiver.url, kinds=("raised", "silent"), per_minute=1)
    offer(hook, events(1))
    for _ in range(5):
        offer(hook, events(3))
    offer(hook, events(1, Kind.SILENT))
    hook._allowed[Kind.RAISED].left = 1.0  # a minute later
    offer(hook, events(1))
    eventually(lambda: len(receiver.posts) == 3)
    hook.stop(2)
    assert [(p["kind"], p["throttled"]) for p in receiver.posts] == [
        ("raised", 0),
        ("silent", 0),
        ("raised", 15),
    ]
    assert counted["throttled_total"] == 15


def test_a_flood_is_one_post_of_bounded_size(receiver: Receiver) -> None:
    """A thousand events found together are one post with the first ones, and say how many more there are."""
    hook, _ = make(receiver.url)
    offer(hook, events(1000))
    eventually(lambda: len(receiver.posts) == 1)
    hook.stop(2)
    assert len(receiver.posts[0]["events"]) == EVENTS
    assert receiver.posts[0]["throttled"] == 1000 - EVENTS


def test_failures_are_tried_again(receiver: Receiver) -> None:
    """A server that is busy or broken for a moment gets the post in the end, once."""
    receiver.statuses = [500, 429, 503]
    hook, counted = make(receiver.url)
    offer(hook, events(1))
    eventually(lambda: len(receiver.posts) == 1)
    hook.stop(2)
    assert [int(counted[n][0]) for n in ("retried_total", "sent_total", "failed_total")] == [3, 1, 0]


@pytest.mark.parametrize(("status", "tries"), [(500, 3), (404, 1), (302, 1)])
def test_undeliverable_events_are_counted(receiver: Receiver, status: int, tries: int) -> None:
    """Retries end; a rejection is not repeated; a redirect is not followed."""
    receiver.statuses = [status] * 10
    hook, counted = make(receiver.url, retries=2)
    offer(hook, events(1))
    eventually(lambda: counted["failed_total"] == 1)
    hook.stop(2)
    assert receiver.requests == ["/alerts"] * tries
    assert counted["sent_total"] == 0


def test_a_slow_webhook_holds_up_nothing(receiver: Receiver) -> None:
    """Offers return at once whatever the webhook does; the queue is bounded, what does not fit is counted."""
    receiver.delay = 0.3
    hook, counted = make(receiver.url, per_minute=100_000, timeout_seconds=0.2, retries=0)
    for _ in range(QUEUE + 50):
        offer(hook, events(1))
    assert counted["queue_full_total"] >= 48
    assert not receiver.posts
    hook.stop(0)
    assert counted["failed_total"] + counted["queue_full_total"] >= QUEUE + 50


def test_no_listener() -> None:
    """A rejected connection is a failure, not an exception."""
    hook, counted = make("http://127.0.0.1:9/x", retries=0)
    offer(hook, events(1))
    eventually(lambda: counted["failed_total"] == 1)
    hook.stop(2)


def test_the_process_posts_what_happens_and_stops(receiver: Receiver, tmp_path: Path) -> None:
    """From a ring to the webhook with the API's keys and names; counters are where /metrics reads them."""
    regions = tmp_path / "regions"
    regions.mkdir()
    names = tmp_path / "names.toml"
    names.write_text('[nodes]\n7 = "leaf-7"\n')
    writer = RingWriter(create_ring(regions / "worker-0.events", EVENT, 64, EVENT_VERSION))
    settings = Settings(data=tmp_path, names=names, alerts=(AlertSettings(url=receiver.url),))
    stop = threading.Event()
    process = threading.Thread(target=run, args=(settings, tmp_path, stop))
    process.start()
    silent = events(1, Kind.SILENT, 1)
    silent["node_id"] = NO_NODE
    writer.write(np.concatenate([events(1), silent]))
    eventually(lambda: len(receiver.posts) == 2)
    stop.set()
    process.join(HANG_SECONDS)
    assert not process.is_alive()
    told = {post["kind"]: post["events"][0] for post in receiver.posts}
    assert told["raised"]["node"] == {"id": 7, "name": "leaf-7"}
    assert told["raised"]["id"] == "0-0"
    assert told["silent"]["source"]["node"] is None
    assert read_counters(tmp_path)["sent_total"].tolist() == [2]


def test_counters_are_continued(tmp_path: Path) -> None:
    """The region of a process that died is taken up, unless the number of webhooks has changed."""
    (tmp_path / "regions").mkdir()
    two = [Place("webhook", "http://a"), Place("webhook", "http://b")]
    open_counters(tmp_path, two)["destinations"]["sent_total"][1] = 5
    assert open_counters(tmp_path, two)["destinations"]["sent_total"].tolist() == [0, 5]
    assert open_counters(tmp_path, two[:1])["destinations"]["sent_total"].tolist() == [0]

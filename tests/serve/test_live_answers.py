"""Live values: one answer for all viewers, the newest for slow ones, and limits for all."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hopscope.serve.api import create_app
from hopscope.serve.live import hub as hubs
from hopscope.serve.live.answers import Answer, ask, can_be_watched
from hopscope.serve.live.hub import BUDGET, SHARE, VIEWER_BYTES, Hub, Viewer, period_of
from hopscope.settings.serve import ServeSettings

WATCHED = ("/api/v0/summary", "/api/v0/nothing", "/api/v0/flows?x=1")


class Asked:
    """Answers with a count, and remembers what was asked."""

    def __init__(self, size: int = 0) -> None:
        self.paths: list[str] = []
        self.size = size

    async def __call__(self, path: str) -> Answer:
        self.paths.append(path)
        return Answer(200, json.dumps([len(self.paths), "x" * self.size]).encode())


async def value_of(viewer: Viewer) -> Any:
    """The count in its next message."""
    return json.loads(await viewer.next())["data"][0]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without waits: what is tested is order, not time."""
    monkeypatch.setattr(hubs, "PERIOD_SECONDS", 0.02)


def test_an_answer_is_made_once_for_all_viewers() -> None:
    """Two viewers get the same message; one that comes later gets the newest at once; nobody, no query."""

    async def work() -> None:
        asked = Asked()
        hub = Hub(asked)
        first, second, third = (Viewer("a") for _ in range(3))
        for viewer in (first, second, third):
            hub.enter(viewer)
        hub.watch(first, ["/x"])
        hub.watch(second, ["/x"])
        assert await value_of(first) == await value_of(second) == 1
        hub.watch(third, ["/x"])
        assert await value_of(third) >= 1
        for viewer in (first, second, third):
            hub.leave(viewer)
        before = len(asked.paths)
        await asyncio.sleep(0.1)
        assert len(asked.paths) == before
        assert not hub.clients

    asyncio.run(work())


def test_a_slow_viewer_gets_the_newest() -> None:
    """What waits for a viewer is replaced, never queued."""

    async def work() -> None:
        viewer = Viewer("a")
        for number in range(1000):
            viewer.offer("/x", b'{"data": [%d]}' % number)
        assert await value_of(viewer) == 999
        viewer.offer("/x", b"{}")
        viewer.keep(frozenset())
        viewer.offer("/y", b'{"data": ["y"]}')
        assert await value_of(viewer) == "y"

    asyncio.run(work())


def test_large_answers_come_less_often() -> None:
    """The pause after an answer is its size over the viewer's bytes per second."""
    pauses: list[float] = []

    async def work() -> None:
        done = asyncio.Event()

        async def note(seconds: float) -> None:
            pauses.append(seconds)
            done.set()
            await asyncio.Event().wait()

        hub, viewer = Hub(Asked(3 * VIEWER_BYTES)), Viewer("a")
        hub.enter(viewer)
        real, hubs.asyncio.sleep = asyncio.sleep, note  # type: ignore[attr-defined, assignment]
        try:
            hub.watch(viewer, ["/x"])
            await done.wait()
        finally:
            hubs.asyncio.sleep = real  # type: ignore[attr-defined]
            hub.close()

    asyncio.run(work())
    assert 2.5 < pauses[0] < 3.5


def test_what_fails_is_said_and_tried_again() -> None:
    """An exception becomes a status; the next answer may be good."""

    async def work() -> None:
        async def ask(path: str) -> Answer:
            if not asked.paths:
                asked.paths.append(path)
                raise RuntimeError("broken")
            return await asked(path)

        asked = Asked()
        hub, viewer = Hub(ask), Viewer("a")
        hub.enter(viewer)
        hub.watch(viewer, ["/x"])
        assert json.loads(await viewer.next())["status"] == 500
        assert json.loads(await viewer.next())["status"] == 200
        hub.close()

    asyncio.run(work())


def test_a_failing_answer_is_logged_by_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it is asked for: one line of a period; all are counted; the viewer sees the failure."""
    app = create_app(ServeSettings(), tmp_path)
    context = app.state.context
    lines: list[dict[str, Any]] = []
    log = SimpleNamespace(error=lambda event, **more: lines.append({"event": event, **more}))
    monkeypatch.setattr("hopscope.serve.api.log", log)

    async def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    async def work() -> None:
        monkeypatch.setattr(context, "run", broken)
        hub, viewer = Hub(partial(ask, app)), Viewer("a")
        hub.enter(viewer)
        hub.watch(viewer, ["/api/v0/queries"])
        message = json.loads(await viewer.next())
        assert (message["status"], set(message["data"])) == (500, {"error"})
        while context.access._counts["serve_failures_total"] < 3:
            await asyncio.sleep(0.01)
        hub.close()

    asyncio.run(work())
    context.close()
    assert len(lines) == 3
    assert {(line["event"], line["path"], line["at_most"]) for line in lines} == {
        ("request failed", "/api/v0/queries", 1)
    }
    (cause,) = {line["repeats"] for line in lines}
    assert cause.startswith("RuntimeError test_live_answers.py:")


@pytest.mark.parametrize(
    ("path", "possible"),
    [("/api/v0/overview", True), ("/api/v0/flows?limit=2", True), ("/readyz", True), ("/", False),
     ("/api/v0/sql", False), ("/api/v0/events/live", False), ("/api/v0/nothing", False), ("/metrics", False),
     ("http://evil.example/api/v0/flows", True), ("/api/v0/flows\n", False),
     ("/api/v0/" + "x" * 3000, False), ("/api/v0/events/%6Cive", False)],
)  # fmt: skip
def test_only_gets_of_the_api_can_be_watched(tmp_path: Path, path: str, possible: bool) -> None:
    """Streams, queries by POST, pages and unknown paths cannot; a host in the path changes nothing."""
    app = create_app(ServeSettings(), tmp_path)
    assert can_be_watched(app, path) == possible
    app.state.context.close()


def test_names_in_a_path_are_decoded_once(tmp_path: Path) -> None:
    """As by the server: a name with a space and a percent sign reaches the route as it is."""
    app = create_app(ServeSettings(), tmp_path)
    answer = asyncio.run(ask(app, "/api/v0/queries/a%20b%2525"))
    assert (answer.status, json.loads(answer.body)) == (404, {"error": "no query 'a b%25' is saved"})
    app.state.context.close()


@pytest.mark.kernel
def test_a_page_gets_what_it_watches(server: str) -> None:
    """Over a real socket: answers, an error for what is unknown, and an end for what is no list."""

    async def work() -> None:
        address = server.replace("http", "ws") + "api/v0/live"
        async with connect(address, origin=server.rstrip("/")) as socket:  # type: ignore[arg-type]
            await socket.send(json.dumps({"watch": [*WATCHED]}))
            found: dict[str, Any] = {}
            while len(found) < 3:
                message = json.loads(await socket.recv())
                found[message["path"]] = message
            assert found["/api/v0/summary"]["data"]["flows"] == 3
            assert found["/api/v0/nothing"]["status"] == 404
            assert found["/api/v0/flows?x=1"]["status"] == 400
            assert "unknown parameter" in found["/api/v0/flows?x=1"]["data"]["error"]
            await socket.send('{"watch": 1}')
            with suppress(ConnectionClosed):
                while True:
                    await socket.recv()
            assert socket.close_code == 4400
        with pytest.raises(InvalidStatus):
            await connect(address, origin="http://evil.example")  # type: ignore[arg-type]

    asyncio.run(work())


@pytest.mark.parametrize("costs", [[0.01], [0.3], [0.05] * 24, [0.01, 0.02, 0.5, 2.0, 2.0, 2.0], [5.0] * 100])
def test_all_answers_together_stay_within_the_budget(costs: list[float]) -> None:
    """What each takes, by its period: BUDGET in sum, SHARE each, and no less than asked."""
    shares = [min(SHARE, cost / 0.5) for cost in costs]
    spent = [cost / period_of(cost, 0.5, shares) for cost in costs]
    assert sum(spent) <= BUDGET + 1e-9
    assert max(spent) <= SHARE + 1e-9
    assert sum(spent) == pytest.approx(min(BUDGET, sum(shares)))

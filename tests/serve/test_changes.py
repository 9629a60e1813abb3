"""Changes by operators: each is in the audit and counted once, whatever the collector does meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from hopscope.base.process import control_client
from hopscope.operators.audit import Audit, Author
from hopscope.operators.counters import ACCESS_COUNTERS
from hopscope.operators.database import Database
from hopscope.operators.users import Users
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
LIMIT = {"general": {"hop_latency": {"change": 5}}}


def counted(folder: Path) -> int:
    """Changes, by the counter."""
    return ACCESS_COUNTERS.read(folder / "regions")["access_changes_total"]


def kinds(folder: Path) -> list[str]:
    """Kinds of the changes in the audit, the oldest first."""
    return [entry.kind for entry in reversed(Audit(Database(folder)).page())]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run one conversation."""
    asyncio.run(work)


def test_every_change_is_counted_once(api: Any, collector: Any) -> None:
    """Limits, acknowledgements, silences and saved queries over HTTP, and users by the command, which is
    another process: as many as in the audit. What is refused is in neither.
    """
    collector.report(occupancy=800)
    key = {"key": "queue_occupancy/13/3/2"}

    async def use() -> None:
        async with api(collector.folder) as client:
            path = "/api/v0/silences"
            answers = [
                await client.patch("/api/v0/limits", json=LIMIT),
                await client.delete("/api/v0/limits"),
                await client.post("/api/v0/acknowledgements", json=key),
                await client.delete("/api/v0/acknowledgements", params=key),
                await client.post(path, json={"node": "leaf-2", "until": "2h"}),
                await client.delete(f"{path}/1"),
                await client.put("/api/v0/queries/mine", json={"sql": "SELECT 1"}),
                await client.delete("/api/v0/queries/mine"),
            ]
            assert [answer.status_code for answer in answers] == [200] * 8
            refused = [
                await client.patch(
                    "/api/v0/limits", json={"general": {"hop_latency": {"raise_above": 1, "clear_below": 5}}}
                ),
                await client.delete(f"{path}/1"),
                await client.delete("/api/v0/queries/mine"),
            ]
            assert [answer.status_code for answer in refused] == [400, 404, 404]

    run(use())
    users = Users(Database(collector.folder))
    users.add("ada", "viewer", "a long password", Author("root"))
    users.set_role("ada", "operator", Author("root"))
    users.remove("ada", Author("root"))
    assert len(kinds(collector.folder)) == counted(collector.folder) == 11


@pytest.fixture
def silent(collector: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A supervisor that takes requests and does not answer, and the collector."""
    collector.server.close()
    patient = partial(control_client.request, timeout=HANG_SECONDS)
    monkeypatch.setattr("hopscope.serve.context.control.request", patient)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(collector.folder / control_client.SOCKET_NAME))
        listener.listen()
        yield collector, listener


def test_a_collector_that_hangs_keeps_no_other_change_waiting(api: Any, silent: Any) -> None:
    """While two changes wait for its answer, another one is made, and state is read. The changes may be made
    although no answer came: both are in the audit, and counted.
    """
    collector, listener = silent

    async def use() -> None:
        async with api(collector.folder) as client:
            waiting = [asyncio.create_task(client.delete("/api/v0/limits")) for _ in range(2)]
            taken = [await asyncio.to_thread(listener.accept) for _ in waiting]
            saved = await client.put("/api/v0/queries/mine", json={"sql": "SELECT 1"})
            assert saved.status_code == 200
            assert (await client.get("/api/v0/limits")).status_code == 200
            assert not any(task.done() for task in waiting)
            for connection, _ in taken:
                connection.close()
            answers: list[httpx.Response] = await asyncio.gather(*waiting)
            assert {answer.status_code for answer in answers} == {503}
            assert "may still carry out the request" in answers[0].json()["error"]

    run(use())
    assert kinds(collector.folder) == ["limits.reset", "limits.reset", "queries.save"]
    assert counted(collector.folder) == 3


def test_a_change_without_a_collector_is_not_in_the_audit(api: Any, collector: Any) -> None:
    """Nobody was asked: the entry is taken back."""
    collector.server.close()

    async def use() -> None:
        async with api(collector.folder) as client:
            assert (await client.delete("/api/v0/limits")).status_code == 503

    run(use())
    assert (kinds(collector.folder), counted(collector.folder)) == ([], 0)

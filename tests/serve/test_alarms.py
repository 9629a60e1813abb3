"""Open alarms by the API: values by hand, and beginnings that outlive the server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from hopscope.present.collector_state import FRESH_SECONDS
from hopscope.present.events import when

pytestmark = pytest.mark.kernel
Use = Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]


def alarms(api: Any, collector: Any, query: str = "") -> list[dict[str, Any]]:
    """What a server that has just started says is open."""

    async def ask() -> list[dict[str, Any]]:
        async with api(collector.folder) as client:
            answer = (await client.get(f"/api/v0/alarms{query}")).json()
            assert answer["total"] == len(answer["items"]), answer
            return answer["items"]

    return asyncio.run(ask())


def test_an_alarm_has_its_place_beginning_values_and_flows(api: Any, collector: Any) -> None:
    """Three flows through one queue: 700 raises it (above 500), 900 is the peak, 600 is new, 20 ends it."""
    assert alarms(api, collector) == []
    before = when(time.time_ns())
    collector.report(occupancy=700, latency=5000)
    after = when(time.time_ns())
    collector.report(occupancy=900)
    collector.report(occupancy=600, latency=2000)
    (one,) = alarms(api, collector)
    assert (one["key"], one["kind"], one["severity"]) == ("queue_occupancy/13/3/2", "raised", "warning")
    assert (one["node"], one["queue"]) == ({"id": 13, "name": "leaf-2"}, 2)
    assert (one["limit"], one["value"], one["peak"], one["alarms"]) == (500, 600, 900, 1)
    assert before <= one["since"] <= after
    assert one["flows"] == 3
    assert {(flow["flow"]["dst"], flow["latency_ns"]) for flow in one["worst"]} == {
        (f"10.1.0.{number}", 2000) for number in range(3)
    }
    assert alarms(api, collector, "?node=leaf-1") == alarms(api, collector, "?metric=hop_latency") == []
    assert alarms(api, collector, "?node=leaf-2&severity=warning")[0]["id"] == one["id"]
    collector.report(occupancy=20)
    assert alarms(api, collector) == []


def test_a_beginning_that_the_ring_has_no_more_is_in_history(api: Any, collector: Any) -> None:
    """A server that starts after 1,024 further events still says since when, and up to which value."""
    collector.report(occupancy=800)
    collector.report(occupancy=950)
    (begun,) = alarms(api, collector)
    for turn in range(10):
        collector.report(flows=40, occupancy=800, latency=10**6 * (1 + turn % 2))
    found = {one["key"]: one for one in alarms(api, collector)}
    one = found["queue_occupancy/13/3/2"]
    assert (one["id"], one["since"], one["peak"], one["value"]) == (begun["id"], begun["since"], 950, 800)


def test_a_running_server_follows(api: Any, collector: Any) -> None:
    """The same server sees an alarm begin, end and begin again, also by a copy of the live state that still
    has it when it has ended.
    """

    async def use() -> None:
        async with api(collector.folder) as client:

            async def open_now() -> list[Any]:
                items = (await client.get("/api/v0/alarms")).json()["items"]
                return [(one["since"], one["peak"]) for one in items]

            assert await open_now() == []
            await asyncio.sleep(2 * FRESH_SECONDS)
            collector.report(occupancy=700)
            ((first, peak),) = await open_now()
            collector.report(occupancy=20)
            assert await open_now() == []
            collector.report(occupancy=600)
            ((second, lower),) = await open_now()
            assert (peak, lower, second > first) == (700, 600, True)

    asyncio.run(use())


def test_wrong_parameters_are_named(api: Any, collector: Any) -> None:
    """An unknown metric, node, order and severity are answered with 400 and one line."""

    async def use() -> None:
        async with api(collector.folder) as client:
            for wrong in ("metric=delay", "node=nowhere", "sort=peak", "severity=high", "offset=-1"):
                answer = await client.get(f"/api/v0/alarms?{wrong}")
                assert (answer.status_code, "\n" in answer.json()["error"]) == (400, False), wrong

    asyncio.run(use())


def test_events_are_counted_over_time(api: Any, collector: Any) -> None:
    """The chart's numbers are those of the list, by kind, with the same filters; buckets are round."""
    for occupancy in (800, 10, 900):
        collector.report(occupancy=occupancy)

    async def use() -> None:
        async with api(collector.folder) as client:

            async def numbers(query: str) -> dict[str, int]:
                found = (await client.get(f"/api/v0/events/histogram?{query}")).json()
                assert found["bucket_seconds"] == 30
                assert all(item["time"][17:19] in ("00", "30") for item in found["items"])
                total: dict[str, int] = {}
                for item in found["items"]:
                    total[item["kind"]] = total.get(item["kind"], 0) + item["count"]
                return total

            assert await numbers("since=5m&buckets=10&kind=raised,cleared") == {"raised": 2, "cleared": 1}
            listed = (await client.get("/api/v0/events?node=leaf-2&limit=1000")).json()["items"]
            counted = await numbers("since=5m&buckets=10&node=leaf-2")
            assert counted == {kind: sum(each["kind"] == kind for each in listed) for kind in counted}
            assert await numbers("since=5m&buckets=10&port=77") == {}
            wrong = await client.get("/api/v0/events/histogram?since=5m&until=10m")
            assert wrong.status_code == 400

    asyncio.run(use())

"""Values over time through the API, of a real collector's events and state; expectations by hand."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest

from hopscope.detect.places import keys_of_places
from hopscope.present.collector_state import CollectorState
from hopscope.present.series.places import Buckets, Place
from hopscope.present.series.samples import Samples

pytestmark = pytest.mark.kernel
QUEUE = "node=leaf-2&port=3&queue=2"


def ask(api: Any, folder: Any, *paths: str) -> list[Any]:
    """Answers to some queries, one after the other."""

    async def talk() -> list[Any]:
        async with api(folder) as client:
            return [answer(await client.get(f"/api/v0/{path}")) for path in paths]

    def answer(found: httpx.Response) -> Any:
        return found.json() if found.status_code == 200 else (found.status_code, found.json()["error"])

    return asyncio.run(talk())


def known(values: list[Any]) -> list[Any]:
    """Without the empty buckets."""
    return [value for value in values if value is not None]


def burst(collector: Any) -> None:
    """After 7: 600 (a change, and the alarm), 605 (within T = 10), and 20, which is below `clear`."""
    collector.report(occupancy=600, latency=100_000)
    collector.report(occupancy=605, latency=100_000)
    collector.report(occupancy=20, latency=1000)


def test_a_series_has_values_alarms_and_bounds(api: Any, collector: Any) -> None:
    """Every stored value is in it, the one within T is not; the alarm has its peak and its limit."""
    burst(collector)
    (found,) = ask(api, collector.folder, f"series?metric=queue_occupancy&{QUEUE}&since=5m&buckets=30")
    assert len(found["highest"]) == len(found["lowest"]) == len(found["latest"]) == len(found["events"])
    assert max(known(found["highest"])) == 600
    assert min(known(found["lowest"])) == 7
    assert known(found["latest"])[-1] == 20
    assert sum(found["events"]) == 5  # new, change, raised, change, cleared
    assert (found["change"], found["raise_above"], found["clear_below"]) == (10, 500, 50)
    assert [(each["peak"], each["limit"], each["reason"]) for each in found["alarms"]] == [
        (600, 500, "value")
    ]
    assert (found["node"], found["queue"]) == ({"id": 13, "name": "leaf-2"}, 2)
    assert found["port"] == {"id": 3, "name": "to host-9"}


def test_a_value_within_t_is_sampled(api: Any, collector: Any) -> None:
    """16 is within T of the stored 7: no event has it, live state does."""
    collector.report(occupancy=16)
    until = time.time_ns() + 60 * 10**9  # the sample is taken after the request, perhaps in the next minute
    path = f"series?metric=queue_occupancy&{QUEUE}&since=1m&until={until}&buckets=1"
    (found,) = ask(api, collector.folder, path)
    assert found["sampled_since"] is not None
    assert known(found["latest"])[-1] == 16
    assert sum(found["events"]) == 1


def test_a_value_that_came_and_went_between_samples_is_its_peak(collector: Any) -> None:
    """The port table keeps the highest value, so a peak between two samples is in the second."""
    samples = Samples(CollectorState(collector.folder, fresh_seconds=0))
    samples.take()
    collector.report(occupancy=16)
    collector.report(occupancy=8)
    samples.take()
    now = time.time_ns()
    key = keys_of_places([Place(13, 3, 2)])
    found = samples.over("queue_occupancy", Buckets(now - 60 * 10**9, 60 * 10**9, 2))
    samples.close()
    assert [sample.of(key)[1].tolist() for _, sample in found] == [[7], [16], [8]]  # `over` takes one, too


def test_what_was_stored_before_and_an_alarm_that_goes_on(api: Any, collector: Any) -> None:
    """Of a range after the alarm was raised, is there with its start, and the stored value."""
    collector.report(occupancy=600)
    since = (time.time_ns() // 2_000_000 + 1) * 2_000_000  # buckets have 2 ms
    path = f"series?metric=queue_occupancy&{QUEUE}&since={since}&until={since + 10**9}&buckets=500"
    (found,) = ask(api, collector.folder, path)
    assert sum(found["events"]) == 0
    assert found["before"] == 600
    assert [(each["peak"], each["end"]) for each in found["alarms"]] == [(600, None)]
    assert found["alarms"][0]["start"] < found["since"]


def test_the_heat_map_begins_with_the_highest_peak(api: Any, collector: Any) -> None:
    """Queues by their peaks, each with the bucket of its peak; the first rows; by place; of one switch."""
    burst(collector)
    found, first, placed, one, large = ask(
        api,
        collector.folder,
        "heatmap?metric=queue_occupancy&since=5m&buckets=30",
        "heatmap?metric=queue_occupancy&since=5m&buckets=30&rows=1",
        "heatmap?metric=hop_latency&since=5m&sort=place",
        "heatmap?metric=hop_latency&since=5m&node=12",
        "heatmap?rows=200&buckets=500",
    )
    rows = [(row["node"]["name"], row["port"]["id"], row["queue"], row["peak"]) for row in found["items"]]
    assert rows == [("leaf-2", 3, 2, 600), ("spine-1", 3, 2, 1)]  # leaf-1 has 0 only
    assert found["total"] == 3
    assert all(max(known(row["values"])) == row["peak"] for row in found["items"])
    assert [row["peak"] for row in first["items"]] == [600]
    assert [row["node"]["id"] for row in placed["items"]] == [11, 12, 13]
    assert [(row["node"]["id"], row["peak"], row["queue"]) for row in one["items"]] == [(12, 100_000, None)]
    assert large[0] == 400


def test_bursts_name_their_flows(api: Any, collector: Any) -> None:
    """One burst of the queue, with its peak; all three flows had hop latencies there meanwhile."""
    burst(collector)
    (found, fast, other, above) = ask(
        api,
        collector.folder,
        "bursts?metric=queue_occupancy&since=5m",
        "bursts?metric=queue_occupancy&since=5m&max_duration=1ns",
        "bursts?since=5m&node=12",
        "bursts?metric=hop_latency&above=90000&since=5m&node=12",
    )
    assert found["total"] == 1
    item = found["items"][0]
    assert (item["peak"], item["limit"], item["reason"], item["queue"]) == (600, 500, "value", 2)
    assert item["duration_ns"] > 0
    assert item["flows"] == 3
    assert {each["flow"]["dst"] for each in item["contributors"]} == {"10.1.0.0", "10.1.0.1", "10.1.0.2"}
    assert {each["highest_latency_ns"] for each in item["contributors"]} == {100_000}
    assert fast["total"] == other["total"] == 0
    assert [(each["peak"], each["limit"], each["flows"]) for each in above["items"]] == [(100_000, 90_000, 3)]


def test_distributions_by_time(api: Any, collector: Any) -> None:
    """All values of a queue are in the buckets, and in the whole, whose bins are there."""
    burst(collector)
    path = f"distributions/history?measure=queue_occupancy&{QUEUE}&since=5m&buckets=5"
    found, without = ask(api, collector.folder, path, "distributions/history?port=3")
    assert found["whole"]["count"] == sum(each["count"] for each in found["items"]) == 12
    assert found["whole"]["highest"] == 605
    assert [each["q"] for each in found["items"][0]["quantiles"]] == [0.5, 0.9, 0.99, 0.999]
    assert sum(each["count"] for each in found["whole"]["bins"]) == 12
    assert without[0] == 400


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("series?metric=queue_occupancy", "node: not given"),
        ("series?metric=flow_latency&node=12", "flow: not given"),
        ("heatmap?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z", "before `until`"),
        ("bursts?above=3", "metric: not given"),
        ("bursts?metric=drop", "no limit"),
        ("bursts?min_duration=fast", "min_duration: expected a time"),
        ("series?metric=delay&node=12", "metric"),
    ],
)
def test_a_wrong_parameter_is_named(api: Any, collector: Any, path: str, words: str) -> None:
    """400 with one line that says what was expected."""
    ((status, line),) = ask(api, collector.folder, path)
    assert status == 400
    assert words in line


def test_a_preview_of_limits_needs_no_token(api: Any, collector: Any) -> None:
    """A viewer may ask what T = 1000 would have made of the burst, and how sure that is."""
    burst(collector)

    async def talk() -> list[httpx.Response]:
        async with api(collector.folder) as client:
            del client.headers["authorization"]
            body = {"metric": "queue_occupancy", "node": "leaf-2"}
            return [
                await client.post("/api/v0/limits/preview", json=body | more)
                for more in (
                    {"change": 1000},
                    {},
                    {"change": 5},
                    {"raise_above": 10, "clear_below": 20},
                    {"change": "general", "node": None},
                    {"metric": "delay"},
                )
            ]

    found, same, lower, *wrong = asyncio.run(talk())
    answer = found.json()
    assert answer["had"] == {"change": 2, "raised": 1, "cleared": 1, "threshold": 0, "other": 1, "total": 5}
    assert answer["would"] == {"change": 0, "raised": 1, "cleared": 1, "threshold": 0, "other": 1, "total": 3}
    assert (answer["in_force"]["change"], answer["proposed"]["change"], answer["at_least"]) == (10, 1000, 3)
    assert (answer["exact"], answer["lower_bound"], answer["limits_changed"]) == (False, False, None)
    assert [
        (item["node"]["name"], item["queue"], item["had"], item["would"]) for item in answer["items"]
    ] == [("leaf-2", 2, 5, 3)]
    assert same.json()["exact"]
    assert same.json()["had"] == same.json()["would"]
    assert lower.json()["lower_bound"]
    assert [answer.status_code for answer in wrong] == [400, 400, 400]
    assert "clear_below" in wrong[0].json()["error"]


def test_a_port_may_have_a_large_if_index(api: Any, collector: Any) -> None:
    """The heat map lists ports of up to 30 bits, as of sFlow: the page of one asks for its values."""
    found, other = ask(
        api,
        collector.folder,
        "series?metric=link_utilization&node=13&port=1073741823&since=5m",
        "bursts?node=13&port=70000",
    )
    assert (found["port"]["id"], known(found["highest"]), other["total"]) == (1073741823, [], 0)

"""Flows over the API: found by text among live and past ones, grouped, their paths and hops over time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from typing import Any

import pytest

pytestmark = pytest.mark.kernel


def ask(collector: Any, api: Any, *urls: str) -> list[Any]:
    """The answers, all of which are good."""

    async def talk() -> list[Any]:
        async with api(collector.folder) as client:
            answers = [await client.get(f"/api/v0/{url}") for url in urls]
        for answer in answers:
            assert answer.status_code == 200, answer.text
        return [answer.json() for answer in answers]

    return asyncio.run(talk())


def refusals(collector: Any, api: Any, *urls: str) -> list[tuple[int, str]]:
    """(Status, error) of each."""

    async def talk() -> list[Any]:
        async with api(collector.folder) as client:
            return [await client.get(f"/api/v0/{url}") for url in urls]

    return [(answer.status_code, answer.json()["error"]) for answer in asyncio.run(talk())]


def test_a_hop_says_that_its_alarm_is_raised(collector: Any, api: Any) -> None:
    """The latency of one flow's hops is above their limit: they name the alarm, those of others none."""
    limits = {"general": {"hop_latency": {"raise_above": 5000, "clear_below": 4000}}}
    collector.limits.answer({"set_limits": limits}, "")
    collector.report(flows=1, latency=6000)
    (pages,) = ask(collector, api, "flows")
    ids = {item["flow"]["sport"]: item["flow"]["id"] for item in pages["items"]}
    high, other = ask(collector, api, f"flows/{ids[4000]}", f"flows/{ids[4001]}")
    assert [hop["alarms"] for hop in high["path"]] == [["hop_latency"]] * 3
    assert [hop["alarms"] for hop in other["path"]] == [[]] * 3


def test_live_and_past_flows_in_one_answer(collector: Any, api: Any) -> None:
    """More flows than the table has room for: those evicted are past ones, each flow is there once; pages of
    a mixed order join; what both have in history is beside them.
    """
    collector.report(flows=1500)
    live, past, every = ask(
        collector, api, *(f"flows?state={state}&limit=1000" for state in ("live", "past", "all"))
    )
    assert live["total"] + past["total"] == every["total"] == 1500
    assert 0 < past["total"] < 1500
    assert {item["state"] for item in past["items"]} == {"past"}
    for item in past["items"]:
        packets = 2 if item["flow"]["sport"] < 4003 else 1  # the fixture has reported three flows
        assert (item["packets"], item["latency_mean_ns"], item["latency_ns"]) == (packets, 3000.0, None)
        assert (item["history"]["highest_latency_ns"], item["hop_count"]) == (3000, None)
    urls = [f"flows?state=all&sort=last_seen&offset={at}&limit=1000" for at in (0, 1000)]
    pages = [item for page in ask(collector, api, *urls) for item in page["items"]]
    assert len({item["flow"]["id"] for item in pages}) == 1500
    assert Counter(item["state"] for item in pages) == {"live": live["total"], "past": past["total"]}
    assert [item["last_seen"] for item in pages] == sorted((i["last_seen"] for i in pages), reverse=True)
    some = past["items"][0]["flow"]
    words = (f"q={some['sport']}+tcp", f"q=10.0.0.1+%3E+{some['dst']}", f"q=id:{some['id']}", "q=leaf-1+80")
    found = ask(collector, api, *(f"flows?state=past&limit=1000&{word}" for word in words))
    assert [page["items"][0]["flow"] for page in found[:3]] == [some] * 3
    assert [page["total"] for page in found] == [1, 1, 1, past["total"]]


def test_words_narrow_live_flows(collector: Any, api: Any) -> None:
    """By part of the 5-tuple, prefix, switch and its port; together with the other parameters."""
    cases = {"10.1.0.0/31": 2, "> 10.1.0.2": 1, "4001": 1, "udp": 0, "spine-1": 3, "node:11 egress:3": 3,
             "node:11 egress:4": 0, "spine-1 4002": 1}  # fmt: skip
    found = ask(collector, api, *(f"flows?q={text.replace(' ', '+').replace('>', '%3E')}" for text in cases))
    assert dict(zip(cases, (page["total"] for page in found), strict=True)) == cases
    (both,) = ask(collector, api, "flows?q=tcp&port=4001&node=leaf-1")
    assert both["total"] == 1
    (status, error), (_, second) = refusals(collector, api, "flows?q=leaf-9", "flows/groups?by=src&q=dscp:46")
    assert (status, error.rpartition("; ")[2]) == (400, "did you mean leaf-2?")
    assert second == "q: dscp: flows are known by their 5-tuple, dscp is not stored"


def test_groups_are_sums_of_their_flows(collector: Any, api: Any) -> None:
    """By every key against sums over the rows of the flow table; the words of a group choose its flows."""
    collector.report(flows=40, latency=2500)
    collector.report(flows=5, latency=7000, nodes=(11, 14, 13))
    rows = ask(collector, api, "flows?limit=1000")[0]["items"]
    details = ask(collector, api, *(f"flows/{row['flow']['id']}" for row in rows))
    keys = {
        "src": lambda row: [row["flow"]["src"]],
        "dst": lambda row: [row["flow"]["dst"]],
        "dst_prefix": lambda row: [row["flow"]["dst"].rpartition(".")[0] + ".0/24"],
        "proto": lambda row: ["tcp"],
        "path": lambda row: [
            " → ".join(hop["node"]["name"] or str(hop["node"]["id"]) for hop in row["path"])
        ],
        "switch": lambda row: [hop["node"]["name"] or str(hop["node"]["id"]) for hop in row["path"]],
        "port": lambda row: [
            f"{hop['node']['name'] or hop['node']['id']} · {hop['egress_port']['name'] or 3}"
            for hop in row["path"]
        ],
    }
    for by, key in keys.items():
        expected: dict[str, list[Any]] = defaultdict(list)
        for row in details:
            for each in key(row):
                expected[each].append(row)
        (found,) = ask(collector, api, f"flows/groups?by={by}&limit=1000")
        assert {item["key"]: item["flows"] for item in found["items"]} == {
            k: len(v) for k, v in expected.items()
        }
        assert {item["key"]: item["packets"] for item in found["items"]} == {
            k: sum(row["packets"] for row in v) for k, v in expected.items()
        }
        packets = [item["packets"] for item in found["items"]]
        assert packets == sorted(packets, reverse=True)
        assert (found["total"], found["flows"]) == (len(expected), 40)
        counts = ask(
            collector, api, *(f"flows?q={item['search'].replace(' ', '+')}" for item in found["items"])
        )
        assert [page["total"] for page in counts] == [item["flows"] for item in found["items"]]
    (total,) = ask(collector, api, "flows/groups?by=src&sort=latency")
    (one,) = total["items"]
    assert one["latency_highest_ns"] == 21_000
    # 3 flows 3 µs, 40 flows 7.5 µs, 5 flows 21 µs
    assert one["latency_mean_ns"] == pytest.approx((3 * 3000 + 40 * 7500 + 5 * 21_000) / 48)
    switches = {item["key"]: item for item in ask(collector, api, "flows/groups?by=switch")[0]["items"]}
    assert switches["14"]["latency_mean_ns"] == 7000.0
    assert switches["14"]["flows"] == 5


def test_every_path_of_a_flow_with_its_time(collector: Any, api: Any) -> None:
    """Three paths of one flow, one of them of eleven switches: the present one, and when each began and
    ended; of a flow that left, the last one ends.
    """
    long = tuple(range(20, 31))
    times = []
    for nodes in ((11, 12, 13), long, long, (11, 12, 13)):
        times.append(time.time_ns())
        collector.report(flows=1, nodes=nodes)
    (flow,) = [row["flow"] for row in ask(collector, api, "flows?q=4000")[0]["items"]]
    found, cut = ask(
        collector, api, f"flows/{flow['id']}/paths", f"flows/{flow['id']}/paths?since={times[3]}"
    )
    assert (found["flow"], found["state"]) == (flow, "live")
    assert [node["id"] for node in found["path"]] == [11, 12, 13]
    assert [[node["id"] for node in item["path"]] for item in found["items"]] == [
        [11, 12, 13], [*long], [11, 12, 13],
    ]  # fmt: skip
    assert [item["kind"] for item in found["items"]] == ["new_key", "path_change", "path_change"]
    assert [item["until"] for item in found["items"]] == [*(i["since"] for i in found["items"][1:]), None]
    assert [item["since"] for item in cut["items"]] == [found["items"][2]["since"]]
    collector.report(flows=1500)
    gone = ask(collector, api, "flows?state=past&q=10.0.0.1&limit=1000")[0]["items"][0]["flow"]["id"]
    (left,) = ask(collector, api, f"flows/{gone}/paths")
    assert (left["state"], left["path"], left["items"][-1]["left"]) == ("past", None, True)
    assert left["items"][-1]["until"] == left["last_seen"]
    assert refusals(collector, api, f"flows/{'0' * 15}9/paths")[0][0] == 404


def test_hops_with_what_is_stored_and_how_far_it_may_be_off(collector: Any, api: Any) -> None:
    """Latency 1 µs is stored, 15 µs within T = 20 µs of it, 30 µs is stored again: now and at each moment,
    with T, age, lowest and highest, the queue and the link beside.
    """
    moments = []
    for latency, occupancy in ((15_000, 7), (30_000, 400)):
        moments.append(time.time_ns())
        collector.report(flows=1, latency=latency, occupancy=occupancy)
    (flow,) = [row["flow"]["id"] for row in ask(collector, api, "flows?q=4000")[0]["items"]]
    now, before, first, series = ask(
        collector, api, f"flows/{flow}/hops", f"flows/{flow}/hops?at={moments[1]}",
        f"flows/{flow}/hops?at={moments[0]}", f"flows/{flow}/series",
    )  # fmt: skip
    assert (now["state"], now["latency"]["latest_ns"], now["latency"]["stored_ns"]) == (
        "live",
        90_000,
        90_000,
    )
    assert now["latency"]["change_limit_ns"] == 50_000
    last = now["hops"][2]
    assert (last["node"]["name"], last["port"], last["hop"]) == ("leaf-2", {"id": 3, "name": "to host-9"}, 2)
    assert (last["latest_ns"], last["stored_ns"], last["change_limit_ns"]) == (30_000, 30_000, 20_000)
    assert (last["lowest_ns"], last["highest_ns"], last["samples"]) == (1000, 30_000, 3)
    assert last["mean_ns"] == pytest.approx(46_000 / 3)
    assert 0 <= last["age_ns"] <= time.time_ns() - moments[1]
    assert last["queue_occupancy"] == {"value": 400, "stored_at": None, "change_limit": 10}
    assert last["link_utilization"]["value"] == 40
    for then in (before, first):  # 15 µs was within T of 1 µs: no event, and the stored value stayed
        assert (then["state"], [hop["node"]["id"] for hop in then["hops"]]) == ("past", [11, 12, 13])
        assert [hop["stored_ns"] for hop in then["hops"]] == [1000] * 3
        assert [hop["latest_ns"] for hop in then["hops"]] == [None] * 3
        assert then["hops"][2]["queue_occupancy"]["value"] == 7
        assert then["hops"][2]["link_utilization"]["value"] == 40
        assert then["latency"]["stored_ns"] == 3000
    assert before["latency"]["age_ns"] > first["latency"]["age_ns"] >= 0
    assert [(each["metric"], each["hop"]) for each in series["items"]] == [
        ("flow_latency", None), ("hop_latency", 0), ("hop_latency", 1), ("hop_latency", 2),
    ]  # fmt: skip
    assert [[point["value"] for point in each["points"]] for each in series["items"]] == [
        [3000, 90_000], *[[1000, 30_000]] * 3,
    ]  # fmt: skip
    assert refusals(collector, api, f"flows/{flow}/hops?at=1970-01-02T00:00:00Z")[0] == (
        404, "history has nothing of this flow before `at`",
    )  # fmt: skip

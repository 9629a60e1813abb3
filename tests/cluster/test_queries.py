"""Three real collectors, each with other reports: what all answer is what each one's own API answers."""

from __future__ import annotations

import json
import os
import signal
import time
import zlib
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import httpx
import pytest

from hopscope.cluster.connection import MEMBER
from hopscope.cluster.queries.parts import NAME, PART, STATUS
from hopscope.serve.routes.history.sql import CLUSTER
from support.cluster.members import with_nats
from support.cluster.three_members import ANSWER_SECONDS, NAMES, Three, by, text
from support.processes.command import hopscope
from support.servers.server_process import NO_TLS
from support.waiting import eventually

pytestmark = pytest.mark.e2e
MARGIN_SECONDS = 8.0
"""Beyond the deadline: other tests have the processors, too."""


def test_flows_are_those_of_every_member(three: Three) -> None:
    """30 rows of 20 flows, each with its member, sorted over all; pages join; a filter filters."""
    each = three.of_each("/flows", limit=1000)
    expected = [{**item, "member": name} for name, body in each.items() for item in body["items"]]
    assert {name: body["total"] for name, body in each.items()} == {"c1": 10, "c2": 10, "c3": 10}
    for sort, key in (("latency", "latency_ns"), ("packets", "packets"), ("last_seen", "last_seen")):
        for order in ("asc", "desc"):
            found = three.of_all("/flows", sort=sort, order=order, limit=1000)
            values = [item[key] for item in found["items"]]
            assert values == sorted(values, reverse=order == "desc")
            assert sorted(map(text, found["items"])) == sorted(map(text, expected))
            assert (found["total"], found["offset"]) == (30, 0)
    pages = [three.of_all("/flows", sort="last_seen", offset=at, limit=7)["items"] for at in range(0, 35, 7)]
    every = three.of_all("/flows", sort="last_seen", limit=1000)["items"]
    assert [item for page in pages for item in page] == every
    assert [item["member"] for item in three.of_all("/flows", src="10.0.0.12")["items"]] in (
        ["c2", "c3"], ["c3", "c2"],
    )  # fmt: skip


def test_one_flow_is_that_of_the_member_with_its_id(three: Three) -> None:
    """Its path as that member has it; an id that no member gave is not found, by all of them."""
    flow = three.get("c2", "/flows")["items"][0]["flow"]["id"]
    assert three.of_all(f"/flows/{flow}") == {**three.get("c2", f"/flows/{flow}"), "member": "c2"}
    assert three.of_all(f"/flows/{flow}/bottleneck")["member"] == "c2"
    nothing = three.ask("c1", "/flows/00000000000000aa", scope="cluster")
    assert nothing.status_code == 404
    assert nothing.json()["cluster"]["answered"] == list(NAMES)


def test_a_switch_that_several_members_hear_of_is_one(three: Three) -> None:
    """Ports and queues are the union, the latest value is that of the newest report, samples are added."""
    for path, key in (("/ports", ("port", "id")), ("/queues", ("id",))):
        each = three.of_each(path, limit=1000)
        found = three.of_all(path, limit=1000)["items"]
        places: dict[Any, dict[str, Any]] = {}
        for name, body in each.items():
            for item in body["items"]:
                at = item["node"]["id"], item.get("kind"), item[key[0]]["id"] if len(key) > 1 else item["id"]
                places.setdefault(at, {})[name] = item
        assert len(found) == len(places)
        shared = 0
        for item in found:
            at = item["node"]["id"], item.get("kind"), item[key[0]]["id"] if len(key) > 1 else item["id"]
            parts = places[at]
            newest = max(parts.values(), key=lambda part: part["last_seen"])
            assert item["members"] == sorted(parts)
            assert item["last_seen"] == newest["last_seen"]
            latest = "link_utilization" if path == "/ports" else "occupancy"
            assert item[latest] == newest[latest]
            assert item["samples"] == sum(part["samples"] for part in parts.values())
            assert set(item["alarms"]) == {alarm for part in parts.values() for alarm in part["alarms"]}
            shared += len(parts) > 1
        assert shared >= 4  # the switch 20
    switches = by(three.of_all("/switches")["items"], "node", "id")
    assert list(switches) == sorted({10, 11, 12, 20})
    ports = three.of_all("/ports", node="20", limit=1000)["items"]
    queues = three.of_all("/queues", node="20", limit=1000)["items"]
    assert switches[20]["members"] == list(NAMES)
    assert (switches[20]["ports"], switches[20]["queues"]) == (len(ports), len(queues)) == (4, 5)
    assert switches[20]["highest_occupancy"] == max(queue["occupancy"] for queue in queues)
    detail = three.of_all("/switches/20")
    assert {name: detail[name] for name in switches[20]} == switches[20]
    assert sorted(map(text, detail["port_states"])) == sorted(map(text, ports))
    assert sorted(map(text, detail["queue_states"])) == sorted(map(text, queues))
    assert three.ask("c1", "/switches/99", scope="cluster").status_code == 404


def test_a_source_that_moved_has_lost_what_no_member_received(three: Three) -> None:
    """Numbers 0 to 61 went to three members in turn, two to none: two are lost; no member misses any."""
    each = three.of_each("/sources")
    assert [item["lost"] for body in each.values() for item in body["items"]] == [0, 0, 0]
    (found,) = three.of_all("/sources")["items"]
    assert (found["received"], found["lost"], found["highest_sequence"]) == (60, 2, 61)
    assert found["members"] == list(NAMES)
    assert ip_address(found["address"]).is_loopback or found["address"] == "127.0.0.1"


def test_a_summary_is_a_sum(three: Three) -> None:
    """Counters are added; switches and sources that several members know count once."""
    each = three.of_each("/summary")
    found = three.of_all("/summary")
    assert (found["reports"], found["switches"], found["sources"], found["workers"]) == (60, 4, 1, 3)
    assert found["flows"] == 30
    reports_of = {name: by(body["counters"], "name")["hopscope_reports_total"] for name, body in each.items()}
    counters = by(found["counters"], "name")
    assert (
        counters["hopscope_reports_total"]["value"] == 60 == sum(one["value"] for one in reports_of.values())
    )


def test_events_of_all_members_page_by_page(three: Three) -> None:
    """By time, each once, with its member: pages of 37 are what the members' own histories have."""

    def pages() -> list[Any]:
        found: list[Any] = []
        query: dict[str, Any] = {}
        while True:
            page = three.of_all("/events", limit=37, **query)
            found += page["items"]
            if page["next"] is None:
                return found
            query = {"after": page["next"]}

    each, found = three.of_one_moment(pages)
    expected = [{**item, "member": name} for name, items in each.items() for item in items]
    assert sorted(map(text, found)) == sorted(map(text, expected))
    assert [item["time"] for item in found] == sorted((item["time"] for item in expected), reverse=True)
    raised = three.of_all("/events", kind="raised", limit=1000)["items"]
    assert {item["member"] for item in raised} == {"c1"}


def test_history_of_flows_joins_members_and_live_packets(three: Three) -> None:
    """A flow that two members had is one row, with the packets of both flow tables."""
    each = {name: three.get(name, "/history/flows", limit=1000)["items"] for name in NAMES}
    packets: dict[Any, int] = {}
    for items in each.values():
        for item in items:
            key = item["flow"]["src"], item["flow"]["sport"]
            packets[key] = packets.get(key, 0) + item["packets"]
    for limit in (1000, 4):
        found = three.of_all("/history/flows", limit=limit)["items"]
        assert len(found) == min(limit, 20)
        assert all(item["packets"] == packets[item["flow"]["src"], item["flow"]["sport"]] for item in found)
    joined = by(three.of_all("/history/flows", limit=1000)["items"], "flow", "sport")
    assert joined[1007]["members"] == ["c1", "c3"]
    assert joined[1002]["members"] == ["c1"]


def test_distributions_are_added(three: Three) -> None:
    """Counts and bins of the network are the sums of the members'."""
    found = three.of_all("/distributions", by="network")["items"]
    for item in found:
        parts = [
            part
            for body in three.of_each("/distributions", by="network").values()
            for part in body["items"]
            if part["measure"] == item["measure"]
        ]
        assert item["count"] == sum(part["count"] for part in parts)
        bins: dict[Any, int] = {}
        for one in (one for part in parts for one in part["bins"]):
            bins[one["lower"]] = bins.get(one["lower"], 0) + one["count"]
        assert {one["lower"]: one["count"] for one in item["bins"]} == bins
    assert {item["measure"] for item in found} >= {"hop_latency", "queue_occupancy", "end_to_end"}
    network = three.of_all("/bottleneck")
    assert network["source"] == "distributions"
    assert network["end_to_end"]["packets"] == 60


def values(three: Three, metric: str) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """(Time, value) of all members' events of a metric, oldest first, by switch and port."""
    found: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for event in (each for name in NAMES for each in three.events(name, metric=metric)):
        found.setdefault((event["node"]["id"], event["port"]["id"]), []).append(
            (event["time"], event["value"])
        )
    return {place: sorted(each) for place, each in found.items()}


def test_the_map_is_of_all_members_now_and_past(three: Three) -> None:
    """Every port has the newest and the highest value of all events; flows of a link are counted by 5-tuple.
    Before the first event there is nothing; the timeline has the 14 alarms.
    """
    latencies, queues = values(three, "hop_latency"), values(three, "queue_occupancy")
    nodes = ["10", "11", "12", "20"]
    items = three.of_all("/fabric/ports", node=nodes, at=f"{time.time_ns()}", window=3600)["items"]
    assert {(item["node"]["id"], item["port"]["id"]) for item in items} == set(latencies)
    for item in items:
        place = item["node"]["id"], item["port"]["id"]
        for metric, known in (("hop_latency", latencies), ("queue_occupancy", queues)):
            value = item["values"][metric]
            assert value["latest"] in [each for at, each in known[place] if at == known[place][-1][0]]
            assert value["highest"] == max(each for _, each in known[place])
    for at in (None, f"{time.time_ns()}"):
        shown = three.of_all("/fabric", **({"at": at} if at else {}))
        assert (shown["live"], shown["switches"], shown["ports"]) == (False, 4, len(latencies))
    assert three.of_all("/fabric", at="2020-01-01T00:00:00Z")["switches"] == 0
    timeline = three.of_all("/fabric/timeline", since="2h", buckets=4)["items"]
    assert sum(bucket["alarms"] for bucket in timeline) == 14
    assert max(bucket["highest"] for bucket in timeline) == max(
        value for each in latencies.values() for _, value in each
    )


def test_values_over_time_are_those_of_all_members(three: Three) -> None:
    """Series, heat map, bursts, distributions and numbers of events, by each member's own events."""
    queues = values(three, "queue_occupancy")
    series = three.of_all("/series", metric="queue_occupancy", node="20", port=1, since="2h", buckets=4)
    known = [value for _, value in queues[20, 1]]
    assert sum(series["events"]) == len(known) == 5  # first values of three members, and c1's 900, raised
    assert [value for value in series["highest"] if value is not None][-1] == max(known) == 900
    assert min(value for value in series["lowest"] if value is not None) == min(known) == 5
    assert [(alarm["peak"], alarm["end"]) for alarm in series["alarms"]] == [(900, None)]
    heat = three.of_all("/heatmap", metric="queue_occupancy", since="2h", buckets=4, rows=100)
    assert {
        (row["node"]["id"], row["port"]["id"]): (row["peak"], row["events"]) for row in heat["items"]
    } == {place: (max(value for _, value in each), len(each)) for place, each in queues.items()}
    bursts = three.of_all("/bursts", since="2h", limit=500)
    places = {(item["node"]["id"], item["port"]["id"]) for item in three.get("c1", "/alarms")["items"]}
    assert bursts["total"] == 14
    assert {(item["node"]["id"], item["port"]["id"]) for item in bursts["items"]} == places
    over = three.of_all("/distributions/history", measure="hop_latency", since="2h", buckets=4)
    assert over["whole"]["count"] == sum(part["count"] for part in over["items"]) == 2 * 60
    counted: dict[str, int] = {}
    for event in (each for name in NAMES for each in three.events(name)):
        counted[event["kind"]] = counted.get(event["kind"], 0) + 1
    of_all: dict[str, int] = {}
    for item in three.of_all("/events/histogram", since="2h", buckets=2)["items"]:
        of_all[item["kind"]] = of_all.get(item["kind"], 0) + item["count"]
    assert of_all == counted


def test_a_preview_of_limits_counts_events_of_all_members(three: Three) -> None:
    """With raise_above = 6, queues of three members would have raised: 14 of c1, c2 and c3 each."""

    def preview(scope: str) -> httpx.Response:
        body = {"metric": "queue_occupancy", "raise_above": 6, "clear_below": 2}
        return three.change("c1", "POST", f"/limits/preview?since=2h&scope={scope}", body)

    own, every = preview("member").json(), three.complete(lambda: preview("cluster"))
    assert (own["had"]["raised"], every["had"]["raised"]) == (14, 14)
    assert (own["would"]["raised"], every["would"]["raised"]) == (14, 42)


def test_groups_of_flows_are_added(three: Three) -> None:
    """By destination all 60 reports are one group; by switch those that its hops were in. The highest latency
    is that of all, the mean that of all reports.
    """
    (whole,) = three.of_all("/flows/groups", by="dst")["items"]
    assert (whole["flows"], whole["packets"], whole["members"]) == (30, 60, list(NAMES))
    each = three.of_each("/flows/groups", by="switch")
    found = three.of_all("/flows/groups", by="switch")
    assert (found["total"], found["packets"]) == (4, 60)
    for item in found["items"]:
        parts = [by(body["items"], "key")[item["key"]] for body in each.values()]
        assert item["packets"] == sum(part["packets"] for part in parts)
        assert item["latency_highest_ns"] == max(part["latency_highest_ns"] for part in parts)
        sums = sum(part["latency_mean_ns"] * part["samples"] for part in parts)
        assert item["latency_mean_ns"] == pytest.approx(sums / item["samples"])
    assert by(found["items"], "key")["20"]["packets"] == 60


def test_a_flow_over_time_is_that_of_its_member(three: Three) -> None:
    """Paths, hops and series; an id of no member is found by none."""
    flow = three.get("c2", "/flows", sort="first_seen")["items"][0]["flow"]["id"]
    for part in ("paths", "hops", "series"):
        own, found = three.get("c2", f"/flows/{flow}/{part}"), three.of_all(f"/flows/{flow}/{part}")
        assert found.pop("member") == "c2"
        for body in (own, found):  # ages pass
            body.pop("time", None)
        assert {name: found[name] for name in ("flow", "last_seen")} == {
            name: own[name] for name in ("flow", "last_seen")
        }
        if part != "hops":
            assert found == own
        else:
            stored = [[hop["stored_ns"] for hop in body["hops"]] for body in (own, found)]
            assert stored[0] == stored[1]
    assert three.ask("c1", "/flows/00000000000000aa/paths", scope="cluster").status_code == 404


def test_alarms_are_each_member_s_with_what_its_operators_noted(three: Three) -> None:
    """The 14 of c1, named; acknowledgements and silences are made at the member, and seen by all."""
    own = three.get("c1", "/alarms")
    found = three.of_all("/alarms")
    assert found["total"] == own["total"] == 14
    assert {item["member"] for item in found["items"]} == {"c1"}
    key = own["items"][0]["key"]
    note = {"key": key, "note": "mine"}
    assert three.change("c2", "POST", "/acknowledgements", note).status_code == 404
    assert three.change("c1", "POST", "/acknowledgements", note).status_code == 200
    silence = three.change("c1", "POST", "/silences", {"node": "20", "until": "1h"}).json()["id"]
    try:
        seen = three.complete(lambda: three.ask("c2", "/alarms", scope="cluster"))
        assert by(seen["items"], "key")[key]["acknowledged"]["note"] == "mine"
        at_20 = sum(item["node"]["id"] == 20 for item in own["items"])
        assert seen["silenced"] == at_20 > 0
        hidden = three.complete(lambda: three.ask("c2", "/alarms", scope="cluster", silenced="hide"))
        assert (hidden["total"], hidden["silenced"]) == (14 - at_20, at_20)
    finally:
        three.change("c1", "DELETE", f"/silences/{silence}")


def test_an_event_of_another_member_with_those_around_it_and_its_report(three: Three) -> None:
    """Three members have an event of the same number: the one that is named is shown, and what is around it
    is that member's, too. The report is the one that this member received.
    """

    def ask(path: str, member: str) -> Any:
        found = three.complete(lambda: three.ask("c3", path, scope="cluster", member=member))
        assert found.pop("cluster")["answered"] == [member]  # no other one was asked
        return found

    for name in NAMES:
        path = f"/events/{three.events(name, kind='new_key', metric='hop_latency')[-1]['id']}"
        own = three.get(name, path)
        for side in ("before", "after"):
            own[side] = [{**each, "member": name} for each in own[side]]
        assert ask(path, name) == {**own, "member": name}
    raised = three.events("c1", kind="raised")[0]
    assert ask(f"/events/{raised['id']}", "c1")["alarm"]["member"] == "c1"
    evidence = ask(f"/events/{raised['id']}/evidence", "c1")
    assert evidence == {**three.get("c1", f"/events/{raised['id']}/evidence"), "member": "c1"}
    assert evidence["datagrams"][0]["bytes"]
    unknown = three.ask("c1", f"/events/{raised['id']}", scope="cluster", member="c9")
    assert (unknown.status_code, unknown.json()["error"]) == (404, "the cluster has no member 'c9'")


def test_what_is_not_asked_of_a_cluster_says_so(three: Three) -> None:
    """What is one member's is refused; so is a wrong parameter, as by one member."""
    for path in (
        *("/limits", "/events/live", "/control/watch", "/system", "/system/counters", "/sink"),
        *("/acknowledgements", "/silences", "/queries", "/audit", "/sessions", "/direct/stores"),
    ):
        refused = three.ask("c1", path, scope="cluster")
        assert refused.status_code == 400
        assert "can ask one member only" in refused.json()["error"]
    assert three.ask("c1", "/flows", scope="all").status_code == 400
    assert three.ask("c1", "/flows", scope="cluster", sort="nothing").json()["error"].startswith("sort:")
    wrong = three.ask("c1", "/ports", scope="cluster", node="no such switch")
    assert (wrong.status_code, wrong.json()["error"][:5]) == (400, "node:")
    far = three.ask("c1", "/flows", scope="cluster", offset=1_000_000)
    assert far.status_code == 400


def query(three: Three, *words: object) -> tuple[int, list[Any], str]:
    """`hopscope query … --scope cluster` with the settings of c1: status, rows, and what it says of them."""
    done = hopscope(
        "query", *words, "--scope", "cluster", "--config", three.config["c1"],
        "--data", three.collectors["c1"].data, "--format", "json", "--limit", 10_000,
    )  # fmt: skip
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_commands_print_what_the_api_answers(three: Three) -> None:
    """Flows, distributions and SQL of all members, as the API has them; SQL has a row of each member."""
    status, flows, said = query(three, "flows")
    assert (status, said) == (0, "")
    assert [text(row) for row in flows] == [
        text(row) for row in three.of_all("/history/flows", limit=1000)["items"]
    ]
    status, found, _ = query(three, "distributions", "--by", "network")
    assert status == 0
    assert {row["measure"]: row["count"] for row in found} == {
        row["measure"]: row["count"] for row in three.of_all("/distributions", by="network")["items"]
    }
    count = "SELECT count(*) AS n FROM events WHERE kind = 'raised'"
    eventually(lambda: query(three, "sql", count)[0] != 3)
    status, rows, _ = query(three, "sql", count)
    raised = [len(body["items"]) for body in three.of_each("/events", kind="raised", limit=1000).values()]
    expected = [{"member": name, "n": n} for name, n in zip(NAMES, raised, strict=True)]
    assert (status, rows) == (0, expected)
    url = f"{three.collectors['c1'].owner['api']}api/v0/sql?scope=cluster"
    table = three.complete(lambda: httpx.post(url, json={"sql": count}, timeout=60, verify=NO_TLS))
    assert (table["columns"], table["rows"]) == (["member", "n"], [list(row.values()) for row in expected])
    assert table["cluster"]["complete"]


def test_a_member_that_stops_is_named_within_the_deadline(three: Three) -> None:
    """SIGSTOP: the answer comes after `answer_seconds`, without c3, and says so; the command's status is 3.
    CSV says so in a header. As soon as it goes on, answers are whole.
    """
    status, everything, said = query(three, "events")
    assert (status, said) == (0, "")
    process = three.collectors["c3"].process
    assert process is not None
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        found = three.ask("c1", "/flows", scope="cluster", limit=1000).json()
        assert ANSWER_SECONDS <= time.monotonic() - begin < ANSWER_SECONDS + MARGIN_SECONDS
        assert (found["total"], {item["member"] for item in found["items"]}) == (20, {"c1", "c2"})
        assert found["cluster"]["answered"] == ["c1", "c2"]
        assert found["cluster"]["missing"] == {"c3": "no answer within 3 s"}
        assert not found["cluster"]["complete"]
        url = f"{three.collectors['c1'].owner['api']}api/v0/sql?scope=cluster"
        asked = {"sql": "SELECT count(*) AS n FROM events", "format": "csv"}
        rows = httpx.post(url, json=asked, timeout=60, verify=NO_TLS)
        assert [line.partition(",")[0] for line in rows.text.splitlines()] == ["member", "c1", "c2"]
        assert json.loads(rows.headers[CLUSTER]) == found["cluster"]
        event = three.ask("c1", "/events/0-0", scope="cluster", member="c3")
        assert event.status_code == 503
        assert "c3: no answer within 3 s" in event.json()["error"]
        assert three.ask("c1", "/events/0-0", scope="cluster", member="c2").status_code == 200
        status, some, said = query(three, "events")
        assert status == 3
        assert "answered by 2 of 3 members; missing: c3 (no answer within 3 s)" in said
        before = {text(row) for row in everything if row["member"] != "c3"}
        assert before <= set(map(text, some))
        assert {row["member"] for row in some} == {"c1", "c2"}
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    eventually(lambda: three.ask("c1", "/flows", scope="cluster").json()["cluster"]["complete"])


def flood(three: Three, answers: Callable[[Any], Any], query: Callable[[], Any]) -> Any:
    """What a query finds while `answers` gets each one that is asked, as whoever has NATS' credentials."""

    async def run(client: Any, _: Any) -> Any:
        import asyncio

        async def take(message: Any) -> None:
            for headers, body in answers(message):
                await client.publish(message.reply, body, headers=headers)

        await client.subscribe(f"hopscope.{three.cluster}.ask", cb=take)
        await client.flush()
        return await asyncio.to_thread(query)

    return with_nats(three.nats.url, run)


def junk(name: str) -> list[tuple[dict[str, str], bytes]]:
    """Messages in the name of a member that are no answer."""
    huge = json.dumps([{"total": 10**400, "offset": 0, "items": [{"flow": {"id": 3}}]}]).encode()
    bodies = [b"", b"junk", *map(zlib.compress, (b"not json", b"[" * 100_000, huge, b'[{"total": true}]'))]
    bodies.append(zlib.compress(b"0" * 40_000_000))
    return [
        ({MEMBER: name, NAME: str(at), PART: part, STATUS: status}, body)
        for at, body in enumerate(bodies)
        for part, status in (("0", "200"), ("7", "200"), ("0", "a"), ("0", "599"))
    ]


def test_hostile_answers_leave_the_others_as_they_are(three: Three) -> None:
    """Junk in the name of a stopped member is a reason for that name; in other names it is nothing."""

    def found(messages: list[Any]) -> Any:
        return flood(
            three,
            lambda _: messages,
            lambda: three.ask("c1", "/flows", scope="cluster", limit=1000).json(),
        )

    process = three.collectors["c3"].process
    assert process is not None
    others = [each for name in ("stranger", "c2\x7f", "x" * 5000) for each in junk(name)]
    os.killpg(process.pid, signal.SIGSTOP)
    try:
        for messages in (others, *([message] * 3 for message in junk("c3"))):
            body = found(messages)
            assert body["cluster"]["answered"] == ["c1", "c2"], (messages[0], body["cluster"])
            assert body["cluster"]["missing"].keys() == {"c3"}
            assert body["total"] == 20
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    eventually(lambda: three.ask("c1", "/flows", scope="cluster").json()["cluster"]["complete"])


def test_hostile_queries_are_counted_or_refused(three: Three) -> None:
    """Bad JSON, wrong types, paths that change something or are none: no member fails, all still answer."""
    bad = [b"", b"{", b"[]", b"null", b"[" * 100_000, b'{"kind": 3}', b'{"kind": "api"}', b"\xff" * 100]
    bad += [b'{"kind": "api", "seconds": 1e999}', b'{"kind": "api", "seconds": -1}', b"0" * 300_000]

    def api(*gets: Any) -> bytes:
        return json.dumps({"kind": "api", "seconds": 60, "gets": list(gets)}).encode()

    def past(ask: Any) -> bytes:
        return json.dumps({"kind": "history", "seconds": 60, "ask": ask}).encode()

    refused = [
        api({"path": "/api/v0/limits"}), api({"path": "/api/v0/../../etc/passwd"}), api({"path": 3}),
        api({"path": "/metrics"}), api({"path": "/api/v0/flows", "query": [["scope", "cluster"]]}),
        api({"path": "/api/v0/flows", "rows": 10**9}), api(), api("x"), api(*[{"path": "/api/v0/flows"}] * 9),
        json.dumps({"kind": "nothing", "seconds": 2}).encode(),
        past({"method": "close"}), past({"method": "peaks", "metric": "x"}), past(None),
        past({"method": "sql", "text": "DROP TABLE x"}), past({"method": "events", "limit": 10**30}),
    ]  # fmt: skip

    async def send(client: Any, _: Any) -> list[Any]:
        subject = f"hopscope.{three.cluster}.ask"
        inbox = client.new_inbox()
        answers = await client.subscribe(inbox)
        for body in bad:
            await client.publish(subject, body, reply=inbox)
        found = []
        for body in refused:
            await client.publish(subject, body, reply=inbox)
            found += [(await answers.next_msg(30)).headers[STATUS] for _ in NAMES]
        return found

    statuses = with_nats(three.nats.url, send)
    assert set(statuses) <= {"400", "503"}
    assert len(statuses) == len(NAMES) * len(refused)
    assert three.of_all("/flows")["total"] == 30
    metrics = f"{three.collectors['c2'].owner['api']}metrics"
    counted = f"hopscope_cluster_queries_bad_total {len(bad)}"  # written once a second
    eventually(lambda: counted in httpx.get(metrics, timeout=60, verify=NO_TLS).text, counted, every=0.2)


def test_without_nats_answers_are_local_and_say_so(three: Three) -> None:
    """NATS is killed: API and command answer for this member, and say so; when it is back, for all."""
    own = three.get("c1", "/flows", limit=1000)
    three.nats.kill()
    try:
        begin = time.monotonic()
        found = three.ask("c1", "/flows", scope="cluster", limit=1000).json()
        assert time.monotonic() - begin < ANSWER_SECONDS + MARGIN_SECONDS
        cluster = found.pop("cluster")
        assert found == {**own, "items": [{**item, "member": "c1"} for item in own["items"]]}
        assert (cluster["answered"], cluster["missing"], cluster["complete"]) == (["c1"], {}, False)
        assert "NATS" in cluster["local_only"]
        assert three.ask("c1", "/events/0-0", scope="cluster", member="c1").json()["member"] == "c1"
        event = three.ask("c1", "/events/0-0", scope="cluster", member="c2")
        assert event.status_code == 503
        assert event.json()["error"].startswith("c2 cannot be asked: NATS")
        switch = three.ask("c1", "/switches/20", scope="cluster").json()
        for row in (switch, *switch["port_states"], *switch["queue_states"]):
            assert row["members"] == ["c1"]
        status, rows, said = query(three, "events")
        assert (status, {row["member"] for row in rows}) == (3, {"c1"})
        assert "local only: NATS at" in said
        page = three.ask("c1", "/events", scope="cluster").json()
        assert (page["cluster"]["answered"], {item["member"] for item in page["items"]}) == (["c1"], {"c1"})
    finally:
        three.nats.start()
    eventually(lambda: three.ask("c1", "/flows", scope="cluster").json()["cluster"]["complete"], every=0.2)
    assert three.of_all("/flows")["total"] == 30
    assert query(three, "events")[0] == 0

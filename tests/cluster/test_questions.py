"""Three real collectors, each with other reports: what all answer is what each one's own API answers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import pytest

from hopscope.capture.udp.listener import UdpSender
from hopscope.cluster.connection import MEMBER
from hopscope.cluster.questions.answers import ClusterAnswer
from hopscope.cluster.questions.parts import NAME, PART, STATUS
from hopscope.cluster.status import read_status
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, Link, ReportBatch
from support.cluster import make, settings_of, with_nats
from support.collector_process import Collector
from support.command import hopscope
from support.server_process import NatsServer
from support.waiting import eventually

T = TypeVar("T")
pytestmark = pytest.mark.e2e
NAMES = ("c1", "c2", "c3")
CLUSTER = "asked"
ANSWER_SECONDS = 3.0
MARGIN_SECONDS = 8.0
"""Beyond the deadline: other tests have the processors, too."""
INSTRUCTIONS = 0b1111_0001_1000_0000  # node, ports, latency, queue, link and buffer
SENT = {
    "c1": [(range(10), range(10), 5), (range(10, 30), range(10), 900)],
    "c2": [(range(30, 50), range(10, 20), 7)],
    "c3": [(range(52, 62), range(5, 15), 40)],
}
"""Of each member: numbers of the reports of one source, their flows in turn, the occupancy of queues. 50 and
51 are sent to none.
"""
EVENTS = {
    "new_key": dict.fromkeys(NAMES, 72),
    "raised": {"c1": 14},
    "change": {"c1": 14},
    "moved": {"c3": 10},
}
"""By kind. Each member has 10 flows with a path and a latency each (20), 20 hops of them, 14 queues and their
links (28), and 4 buffers, one of each switch. The second part raises the queues of c1. All flows of c3 were
elsewhere before. If another member asks about its own flows so late that c3 has them, it has `moved`, too.
"""


class Three:
    """The collectors and their settings."""

    def __init__(self, nats: NatsServer, folder: Path) -> None:
        self.nats = nats
        self.collectors: dict[str, Collector] = {}
        self.config: dict[str, Path] = {}
        for name in NAMES:
            config = self.config[name] = folder / f"{name}.toml"
            config.write_text(
                f'member = "{name}"\n[[listen]]\nhost = "127.0.0.1"\nport = 0\n'
                "[serve]\nport = 0\n[distributions]\nenabled = true\n"
                "[detect]\npush_seconds = 0\nidle_seconds = 3600\nsilent_seconds = 0\n"  # none by time alone
                "[detect.thresholds.queue_occupancy]\nraise_above = 500\nclear_below = 50\n"
                f'[cluster]\nname = "{CLUSTER}"\nnats = ["{nats.url}"]\nreplicas = 1\n'
                f"heartbeat_seconds = 0.5\nmember_seconds = 60\nanswer_seconds = {ANSWER_SECONDS}\n"
            )
            self.collectors[name] = Collector(folder / name, "--config", str(config))

    def get(self, name: str, path: str, **query: Any) -> Any:
        """A GET of one member's API."""
        return self.ask(name, path, **query).json()

    def ask(self, name: str, path: str, **query: Any) -> httpx.Response:
        """The same with its status."""
        return httpx.get(f"{self.collectors[name].owner['api']}api/v0{path}", params=query, timeout=60)

    def of_all(self, path: str, **query: Any) -> Any:
        """A question to all, which all answer; the answer without `cluster`."""
        response = self.ask("c1", path, scope="cluster", **query)
        assert response.status_code == 200, response.text
        found = response.json()
        whole = ClusterAnswer(NAMES).as_json()
        assert found.pop("cluster") == whole
        return found

    def of_each(self, path: str, **query: Any) -> dict[str, Any]:
        """The answers of each one's own API."""
        return {name: self.get(name, path, **query) for name in NAMES}

    def events(self, name: str, **query: Any) -> list[Any]:
        """Events that a member has."""
        found: list[Any] = self.get(name, "/events", limit=10_000, **query)["items"]
        return found

    def of_one_moment(self, question: Callable[[], T]) -> tuple[dict[str, list[Any]], T]:
        """Events of each member, and what a question finds while none is added."""
        while True:
            before = {name: self.events(name) for name in NAMES}
            found = question()
            if {name: self.events(name) for name in NAMES} == before:
                return before, found


def reports(numbers: Sequence[int], flows: Sequence[int], occupancy: int) -> ReportBatch:
    """Reports over two switches, the second of which every member hears of."""
    count = len(numbers)
    made, hops = new_reports(count), new_hops(2 * count, INSTRUCTIONS)
    flow = np.resize(np.array(flows), count)
    made["source_lo"] = mapped_v4(np.full(count, 0x7F000001, np.uint32))
    made["src_lo"] = mapped_v4(0x0A000000 + flow.astype(np.uint32))
    made["dst_lo"] = mapped_v4(np.full(count, 0x0A000100, np.uint32))
    made["sport"], made["dport"], made["proto"], made["ip_version"] = 1000 + flow, 53, 17, 4
    made["int_version"], made["instructions"] = 20, INSTRUCTIONS
    made["carried"], made["node_id"] = Carried.FLOW | Carried.PORTS | Carried.NODE_ID, 8
    made["first_hop"], made["hop_count"] = np.arange(count) * 2, 2
    made["sequence"] = np.array(numbers)
    hops["node_id"] = np.stack([10 + np.array(flow) % 3, np.full(count, 20)], 1).reshape(-1)
    hops["egress_port"], hops["ingress_port"] = np.repeat(flow % 4, 2), 1
    hops["hop_latency"] = 1000 + np.arange(2 * count) * 10 + np.repeat(flow, 2)
    hops["queue_id"], hops["queue_occupancy"] = np.repeat(flow % 4, 2), occupancy
    hops["tx_utilization"], hops["buffer_id"], hops["buffer_occupancy"] = 40 + occupancy % 7, 1, 5
    return ReportBatch(made, hops)


@pytest.fixture(scope="module")
def three(nats: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Three]:
    """Three members that have received their reports, one after the other."""
    found = Three(nats, tmp_path_factory.mktemp("three"))
    make(settings_of(nats.url, CLUSTER, "c1", member_seconds=60))
    try:
        for collector in found.collectors.values():
            collector.launch()
        for collector in found.collectors.values():
            collector.wait_for('"collecting"')
        for name, collector in found.collectors.items():  # from now on it asks about flows that are new to it
            eventually(lambda c=collector: read_status(c.data / "regions").get("moved"), name)
        for name, parts in SENT.items():
            sender = UdpSender("127.0.0.1", found.collectors[name].port)
            for numbers, flows, occupancy in parts:
                sender.send(encode_reports(reports(numbers, flows, occupancy), link=Link.UDP_PAYLOAD))
            sender.close()
            sent = sum(len(numbers) for numbers, _, _ in parts)
            eventually(lambda name=name, sent=sent: found.get(name, "/summary")["reports"] == sent)
        for kind, of_member in EVENTS.items():
            for name, count in of_member.items():
                eventually(lambda k=kind, n=name, c=count: len(found.events(n, kind=k)) == c)
        eventually(lambda: found.ask("c1", "/summary", scope="cluster").json()["cluster"]["complete"])
        yield found
    finally:
        for collector in found.collectors.values():
            if collector.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    collector.kill_all()


def text(row: Any) -> str:
    """To compare rows whatever the order of their keys."""
    return json.dumps(row, sort_keys=True)


def by(items: Sequence[dict[str, Any]], *path: str) -> dict[Any, dict[str, Any]]:
    """Items by a key in them."""
    found = {}
    for item in items:
        value: Any = item
        for part in path:
            value = value[part]
        found[value] = item
    return found


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


def test_what_is_not_asked_of_a_cluster_says_so(three: Three) -> None:
    """Limits and the live feed are one member's; a wrong parameter is refused as by one member."""
    for path in ("/limits", "/events/live", "/control/watch"):
        refused = three.ask("c1", path, scope="cluster")
        assert refused.status_code == 400
        assert "asked of one member" in refused.json()["error"]
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
    status, rows, _ = query(three, "sql", count)
    raised = [len(body["items"]) for body in three.of_each("/events", kind="raised", limit=1000).values()]
    expected = [{"member": name, "n": n} for name, n in zip(NAMES, raised, strict=True)]
    assert (status, rows) == (0, expected)
    url = f"{three.collectors['c1'].owner['api']}api/v0/sql?scope=cluster"
    table = httpx.post(url, json={"sql": count}, timeout=60).json()
    assert (table["columns"], table["rows"]) == (["member", "n"], [list(row.values()) for row in expected])
    assert table["cluster"]["complete"]


def test_a_member_that_stops_is_named_within_the_deadline(three: Three) -> None:
    """SIGSTOP: the answer comes after `answer_seconds`, without c3, and says so; the command's status is 3.
    As soon as it goes on, answers are whole.
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
        status, some, said = query(three, "events")
        assert status == 3
        assert "answered by 2 of 3 members; missing: c3 (no answer within 3 s)" in said
        before = {text(row) for row in everything if row["member"] != "c3"}
        assert before <= set(map(text, some))
        assert {row["member"] for row in some} == {"c1", "c2"}
    finally:
        os.killpg(process.pid, signal.SIGCONT)
    eventually(lambda: three.ask("c1", "/flows", scope="cluster").json()["cluster"]["complete"])


def flood(three: Three, answers: Callable[[Any], Any], question: Callable[[], Any]) -> Any:
    """What a question finds while `answers` gets each one that is asked, as whoever has NATS' credentials."""

    async def run(client: Any, _: Any) -> Any:
        import asyncio

        async def take(message: Any) -> None:
            for headers, body in answers(message):
                await client.publish(message.reply, body, headers=headers)

        await client.subscribe(f"hopscope.{CLUSTER}.ask", cb=take)
        await client.flush()
        return await asyncio.to_thread(question)

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


def test_hostile_questions_are_counted_or_refused(three: Three) -> None:
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
        subject = f"hopscope.{CLUSTER}.ask"
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
    counted = f"hopscope_cluster_questions_bad_total {len(bad)}"  # written once a second
    eventually(lambda: counted in httpx.get(metrics, timeout=60).text, counted, every=0.2)


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

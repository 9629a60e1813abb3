"""Three real collectors of one cluster, each with other reports, and queries to them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np

from hopscope.cluster.queries.cluster_answer import ClusterAnswer
from hopscope.wire.encode.encoder import mapped_v4, new_hops, new_reports
from hopscope.wire.records import Carried, ReportBatch

from ..processes.collector_process import Collector
from ..servers.server_process import NO_TLS, NatsServer
from ..waiting import eventually

T = TypeVar("T")
_NUMBERS = itertools.count(1)
NAMES = ("c1", "c2", "c3")
ANSWER_SECONDS = 3.0
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
        self.cluster = f"asked{next(_NUMBERS)}"
        """Of its own: a member with the name of one that was killed is let in after `member_seconds`."""
        self.collectors: dict[str, Collector] = {}
        self.config: dict[str, Path] = {}
        for name in NAMES:
            config = self.config[name] = folder / f"{name}.toml"
            config.write_text(
                f'member = "{name}"\n[[listen]]\nhost = "127.0.0.1"\nport = 0\n'
                "[serve]\nport = 0\n[distributions]\nenabled = true\n"
                "[detect]\npush_seconds = 0\nidle_seconds = 3600\nsilent_seconds = 0\n"  # none by time alone
                "[detect.thresholds.queue_occupancy]\nraise_above = 500\nclear_below = 50\n"
                f'[cluster]\nname = "{self.cluster}"\nnats = ["{nats.url}"]\nreplicas = 1\n'
                f"heartbeat_seconds = 0.5\nmember_seconds = 60\nanswer_seconds = {ANSWER_SECONDS}\n"
            )
            self.collectors[name] = Collector(folder / name, "--config", str(config))

    def get(self, name: str, path: str, **query: Any) -> Any:
        """A GET of one member's API."""
        return self.ask(name, path, **query).json()

    def ask(self, name: str, path: str, **query: Any) -> httpx.Response:
        """The same with its status."""
        address = f"{self.collectors[name].owner['api']}api/v0{path}"
        return httpx.get(address, params=query, timeout=60, verify=NO_TLS)

    def of_all(self, path: str, **query: Any) -> Any:
        """A query to all, which all answer, however busy they are; the answer without `cluster`."""
        found = self.complete(lambda: self.ask("c1", path, scope="cluster", **query))
        assert found.pop("cluster") == ClusterAnswer(NAMES).as_json()
        return found

    def complete(self, query: Callable[[], httpx.Response]) -> Any:
        """The first answer to a query to several that lacks none of them."""

        def ask() -> Any:
            response = query()
            assert response.status_code == 200, response.text
            return response.json() if response.json()["cluster"]["complete"] else None

        return eventually(ask)

    def change(self, name: str, method: str, path: str, body: Any = None) -> httpx.Response:
        """A change by one member's API, with its token."""
        token = (self.collectors[name].data / "token").read_text().strip()
        return httpx.request(
            method,
            f"{self.collectors[name].owner['api']}api/v0{path}",
            json=body,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            verify=NO_TLS,
        )

    def of_each(self, path: str, **query: Any) -> dict[str, Any]:
        """The answers of each one's own API."""
        return {name: self.get(name, path, **query) for name in NAMES}

    def events(self, name: str, **query: Any) -> list[Any]:
        """Events that a member has."""
        return self.get(name, "/events", limit=10_000, **query)["items"]

    def of_one_moment(self, query: Callable[[], T]) -> tuple[dict[str, list[Any]], T]:
        """Events of each member, and what a query finds while none is added."""
        while True:
            before = {name: self.events(name) for name in NAMES}
            found = query()
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

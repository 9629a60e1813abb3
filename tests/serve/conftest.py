"""A data folder as a collector leaves it: real regions, ring, journal and control socket, in this process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.detect.thresholds import CONTROL_FILE, create_control
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.pipeline.shard import Shard
from hopscope.runtime.supervisor.control import ControlServer
from hopscope.runtime.supervisor.live_limits import LiveLimits
from hopscope.serve.api import create_app
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.history import HistorySettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.settings.serve import ServeSettings
from hopscope.settings.sink import DistributionSettings
from hopscope.wire.encode.encoder import encode_reports, new_hops, new_reports
from hopscope.wire.records import Carried, FrameBatch, Link, ReportBatch
from support.waiting import HANG_SECONDS

INSTRUCTIONS = 0b1111_0001_1000_0000  # node, ports, latency, queue, link and buffer
MAPPED = 0xFFFF << 32
NODES = (11, 12, 13)
NAMES = Names({11: "leaf-1", 12: "spine-1", 13: "leaf-2"}, {(13, 3): "to host-9"})


class Collector:
    """One worker's pipeline over a folder, and what the supervisor would do for it."""

    def __init__(self, folder: Path, regions: Path) -> None:
        self.folder = folder
        self.settings = Settings(
            data=folder,
            detect=DetectSettings(
                flow_rows=64,
                hop_pool=8,
                ports=1024,
                sources=64,
                thresholds=ThresholdSettings(
                    queue_occupancy=MetricLimits(change=10, raise_above=500, clear_below=50),
                ),
            ),
            distributions=DistributionSettings(enabled=True, queues=64),
            history=HistorySettings(ring_events=1024, fsync_seconds=0),
        )
        regions.mkdir()
        (folder / "journal").mkdir()
        (folder / "segments").mkdir()
        (folder / "regions").symlink_to(regions)
        (folder / "owner.json").write_text('{"schema": 1, "pid": 1}')
        self.control = create_control(regions / CONTROL_FILE, self.settings.limits)
        self.limits = LiveLimits(self.control, self.settings)
        self.pipeline = pipeline_of(self.settings, Shard(self.settings.history, data=folder, regions=regions))
        self.server = ControlServer(folder, self._answer)
        self.server.start()
        self.sequence = 0

    def _answer(self, request: dict[str, Any], author: str) -> dict[str, Any]:
        if self.limits.answer(request, author):
            return {}
        return {
            "processes": [{"name": "worker-0", "pid": 1, "alive": True, "restarts": 0, "last_error": None}],
            "watch": [],
            "tracked": [],
        }

    def report(
        self, flows: int = 3, occupancy: int = 7, latency: int = 1000, skip: int = 0,
        nodes: tuple[int, ...] = NODES,
    ) -> None:  # fmt: skip
        """A report of each flow now, over three switches; `skip` sequence numbers are left out before."""
        self.sequence += skip
        reports = new_reports(flows)
        reports["time_ns"] = time.time_ns()
        reports["source_lo"] = MAPPED | 0xC0000201
        reports["src_lo"] = MAPPED | 0x0A000001
        reports["dst_lo"] = (MAPPED | 0x0A010000) + np.arange(flows, dtype=np.uint64)
        reports["sport"], reports["dport"], reports["proto"] = 4000 + np.arange(flows), 80, 6
        reports["ip_version"], reports["int_version"] = 4, 20
        reports["carried"] = Carried.FLOW | Carried.PORTS | Carried.NODE_ID
        reports["node_id"] = NODES[-1]
        reports["sequence"] = self.sequence + np.arange(flows)
        reports["instructions"], reports["hop_count"] = INSTRUCTIONS, len(nodes)
        reports["first_hop"] = len(nodes) * np.arange(flows)
        hops = new_hops(len(nodes) * flows, INSTRUCTIONS)
        hops["node_id"] = np.tile(nodes, flows)
        hops["ingress_port"], hops["egress_port"] = 1, 3
        hops["hop_latency"] = latency
        hops["queue_id"], hops["queue_occupancy"] = 2, np.tile([*range(len(nodes) - 1), occupancy], flows)
        hops["tx_utilization"], hops["buffer_id"], hops["buffer_occupancy"] = 40, 1, 5
        self.sequence += flows
        frames: FrameBatch = encode_reports(ReportBatch(reports, hops), link=Link.UDP_PAYLOAD)
        assert self.pipeline.step(frames) == flows

    def become_sink(self) -> None:
        """Have the limits of a sink from now on."""
        sink = self.settings.sink.model_copy(update={"enabled": True})
        self.settings = self.settings.model_copy(update={"sink": sink})
        self.control["sink"][0] = 1
        self.limits = LiveLimits(self.control, self.settings)

    def close(self) -> None:
        """Let go of everything."""
        self.server.close()
        self.pipeline.close()


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    """A collector that has received three flows' reports."""
    with idle_collector(tmp_path) as made:
        made.report()
        yield made


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Collector]:
    """A collector that has received nothing."""
    with idle_collector(tmp_path) as made:
        yield made


@contextmanager
def idle_collector(tmp_path: Path) -> Iterator[Collector]:
    """Makes one."""
    folder = tmp_path / "data"
    folder.mkdir()
    made = Collector(folder, tmp_path / "regions")
    yield made
    made.close()


Client = Callable[..., Any]


@asynccontextmanager
async def client_of(
    folder: Path, settings: ServeSettings | None = None, host: str = "127.0.0.1:8080", names: Names = NAMES
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the API of a folder; an exception that a route lets through is answered with 500."""
    app = create_app(settings or ServeSettings(), folder, names)
    transport = httpx.ASGITransport(app.state.guarded, raise_app_exceptions=False)
    token = (folder / "token").read_text().strip() if (folder / "token").exists() else ""
    headers = {} if settings and settings.token else {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        transport=transport, base_url=f"http://{host}", headers=headers, timeout=300
    ) as client:
        yield client
    app.state.context.close()


@pytest.fixture
def api() -> Client:
    """Makes a client: `async with api(folder) as client`."""
    return client_of


SERVE = """
import sys, threading
from pathlib import Path
from hopscope.settings.collector import Settings
from hopscope.serve.server import bind, run, url_of

settings = Settings.model_validate_json(sys.argv[1])
listener, stop = bind(settings.serve, settings.data), threading.Event()
print(url_of(listener), flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
run(settings, Path(settings.data), stop, listener)
"""


@pytest.fixture
def server(collector: Collector, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a real serve process over the collector's folder; it must end when it is told to.

    Its parameter, where it has one, is the token, or settings of the API."""
    given = getattr(request, "param", None)
    serving = given if isinstance(given, dict) else {"token": given}
    names = tmp_path / "names.toml"
    names.write_text(
        '[nodes]\n11 = "leaf-1"\n12 = "spine-1"\n13 = "<b>leaf-2"\n[ports.13]\n3 = "to host-9"\n'
    )
    settings = collector.settings.model_copy(
        update={"names": names, "serve": ServeSettings(port=0, **serving)}
    )
    command = [sys.executable, "-c", SERVE, settings.model_dump_json()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
            process.stdin.close()
            assert process.wait(HANG_SECONDS) == 0
        finally:
            process.kill()

"""A real collector as processes, and something that sends it reports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from hopscope.base.process.control_client import request
from hopscope.capture.udp.listener import UdpSender
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import Link, ReportBatch

from ..servers.service_manager import ServiceManager
from ..waiting import HANG_SECONDS

START_SECONDS = 400.0
"""The first start compiles, perhaps beside other tests."""


class Collector:
    """`hopscope collect` on a data folder, in a process group of its own."""

    def __init__(
        self,
        data: Path,
        *flags: str,
        environment: dict[str, str] | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        """`manager`: it is a service of this one, which keeps its files."""
        self.data = data
        self.log = data.with_name(f"{data.name}.log")
        self._flags = flags
        self._environment = environment or {}
        self._manager = manager
        self.process: subprocess.Popen[str] | None = None

    def launch(self) -> None:
        """Start it, without waiting."""
        command = [sys.executable, "-m", "hopscope", "collect", "--data", str(self.data), *self._flags]
        files, environment = list[int](), self._environment
        if self._manager is not None:
            command, files, environment = self._manager.passing(command)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, **environment},
                pass_fds=files,
            )

    def start(self) -> None:
        """Start it, and wait until it receives."""
        self.launch()
        self.wait_for('"collecting"')

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        """Wait until the log has this text."""
        assert self.process is not None
        until = time.monotonic() + seconds
        while text not in self.said():
            assert self.process.poll() is None, f"ended with {self.process.returncode}: {self.said()}"
            assert time.monotonic() < until, f"no {text} in {seconds} s: {self.said()}"
            time.sleep(0.02)

    def said(self) -> str:
        """All that it has printed."""
        return self.log.read_text()

    def status(self) -> dict[str, dict[str, Any]]:
        """Its processes by name."""
        return {one["name"]: one for one in request(self.data, {"status": {}}, HANG_SECONDS)["processes"]}

    @property
    def owner(self) -> dict[str, Any]:
        """Its owner.json."""
        return json.loads((self.data / "owner.json").read_text())

    @property
    def port(self) -> int:
        """The port of its first listener."""
        return int(self.owner["listen"][0].rpartition(":")[2])

    def stop(self, number: int = signal.SIGTERM) -> int:
        """End it gracefully; its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(HANG_SECONDS)

    def kill_all(self) -> None:
        """SIGKILL to the whole group."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(HANG_SECONDS)


class Load:
    """Reports with random latencies, sent until it is closed: with low limits, each one causes events."""

    def __init__(self, rate: int, seed: int = 1) -> None:
        self.port = 0
        """Where to send; 0: nowhere."""
        self.sent = 0
        self._rate = rate
        self._random = np.random.default_rng(seed)
        self._stop = threading.Event()
        self._sequence = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def batch(self, count: int) -> ReportBatch:
        """Reports of 16 flows over 3 hops."""
        reports, hops = new_reports(count), new_hops(3 * count, 0x9000 | 0x2000)
        flows = np.arange(count) % 16
        reports["source_lo"] = mapped_v4(np.full(count, 0x7F000001, np.uint32))
        reports["src_lo"] = mapped_v4(0x0A000000 + flows.astype(np.uint32))
        reports["dst_lo"] = mapped_v4(np.full(count, 0x0A000100, np.uint32))
        reports["sport"], reports["dport"] = 1000 + flows, 53
        reports["int_version"], reports["instructions"] = 20, 0xB000
        reports["first_hop"], reports["hop_count"] = np.arange(count) * 3, 3
        reports["sequence"] = (self._sequence + np.arange(count)) & 0x3FFFFF
        self._sequence += count
        hops["node_id"] = 1 + np.arange(3 * count) % 3
        hops["hop_latency"] = self._random.integers(1000, 1_000_000, 3 * count)
        return ReportBatch(reports, hops)

    def _run(self) -> None:
        senders: dict[int, UdpSender] = {}
        while not self._stop.wait(0.02):
            if port := self.port:
                sender = senders.get(port) or senders.setdefault(port, UdpSender("127.0.0.1", port))
                self.sent += sender.send(encode_reports(self.batch(self._rate // 50), link=Link.UDP_PAYLOAD))
        for sender in senders.values():
            sender.close()

    def close(self) -> None:
        """Send no more."""
        self._stop.set()
        self._thread.join()

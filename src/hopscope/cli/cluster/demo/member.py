"""A collector of the demo, and the process that announces its route."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ....present.collector_state import CollectorState
from ...demo.processes import DemoError, Progress, last_line
from .place import Place

CONFIG = """\
data = {data}
member = "{name}"

[[listen]]
host = "{host}"
port = {port}
receive_buffer_bytes = 8388608

[serve]
port = {page}

# Low limits: every report that differs from the one before it is an event.
[detect.thresholds]
hop_latency = {{ change = 10000 }}
queue_occupancy = {{ change = 20 }}
flow_latency = {{ change = 20000 }}

{servers}"""
TIMES = {
    "cluster": "heartbeat_seconds = 0.5\nmember_seconds = 2\nanswer_seconds = 2",
    "lake": "every_seconds = 1",
}
"""Settings with shorter times than usual, so that the demo does not take minutes."""
ANNOUNCE_SECONDS = 0.2
STOP_SECONDS = 30.0


class Member:
    """`hopscope collect` of one member, and `hopscope cluster announce` beside it."""

    def __init__(self, name: str, place: Place, folder: Path, servers: str) -> None:
        """`servers`: settings with placeholders for those of TIMES."""
        self.name, self._place = name, place
        self.data = folder / name
        self.log = folder / f"{name}.log"
        self.config = folder / f"{name}.toml"
        host, port = place.listen(name)
        (self.page,) = place.free_ports(1, name)
        text = CONFIG.format(
            data=json.dumps(str(self.data)), name=name, host=host, port=port, page=self.page,
            servers=servers.format(**TIMES),
        )  # fmt: skip
        self.config.touch(0o600)  # it has passwords
        self.config.write_text(text)
        self.url = place.page(name, self.page)
        self._state = CollectorState(self.data, fresh_seconds=0)
        self.process: subprocess.Popen[str] | None = None
        self._announcer: subprocess.Popen[str] | None = None
        self.announced = False
        """Whether the route is announced, by the last message of the announcing process."""
        self.killed_at = 0.0

    def start(self) -> None:
        """Start the collector, without waiting."""
        words = ["collect", "--config", str(self.config), "--log-level", "info", "--log-format", "json"]
        self.log.unlink(missing_ok=True)
        self.process = self._place.start([sys.executable, "-m", "hopscope", *words], self.log, self.name)
        self._progress = Progress(self.process.pid, self.log)

    def announce(self) -> None:
        """Start the process that announces the route; it keeps running when the collector ends."""
        words = [
            sys.executable, "-m", "hopscope", "cluster", "announce", "--prefix", "192.0.2.1/32",
            "--url", f"http://127.0.0.1:{self.page}/readyz", "--every", str(ANNOUNCE_SECONDS),
        ]  # fmt: skip
        log = self.log.with_suffix(".announce.log")
        self._announcer = self._place.start(words, log, self.name, stdout=subprocess.PIPE)
        threading.Thread(target=self._follow, args=(self._announcer,), daemon=True).start()

    def _follow(self, announcer: subprocess.Popen[str]) -> None:
        assert announcer.stdout is not None
        with announcer.stdout as lines:
            for line in lines:
                self.announced = line.startswith("announce ")
        self.announced = False

    @property
    def runs(self) -> bool:
        """Whether its process is running."""
        return self.process is not None and self.process.poll() is None

    def receives(self) -> bool:
        """Whether it has started. Raises DemoError if it has failed to."""
        assert self.process is not None
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        if '"collecting"' in text:
            return True
        if not self.runs:
            raise DemoError(f"{self.name} ended with {self.process.returncode}: {last_line(self.log)}")
        if self._progress.stalled():
            raise DemoError(f"{self.name} does not start; its log ends with: {last_line(self.log)}")
        return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send a signal to all its processes at once."""
        assert self.process is not None
        self.killed_at = time.monotonic()
        os.killpg(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(10)

    def get(self, path: str, seconds: float = 5.0) -> Any:
        """JSON of its API, with any status. Raises OSError if there is no answer."""
        return self._place.get(self.name, self.page, path, seconds)[1]

    def status(self) -> dict[str, Any]:
        """The cluster as this member sees it; empty: unknown."""
        from ....cluster.status import read_status

        return read_status(self.data / "regions")

    def sources(self) -> dict[str, int]:
        """Reports of each switch, by address, since it started."""
        from ....wire.address import address

        found: dict[str, int] = {}
        for row in self._state.sources():
            text = address(int(row["source_hi"]), int(row["source_lo"]))
            found[text] = found.get(text, 0) + int(row["received"])
        return found

    def senders(self) -> int:
        """Number of switches whose reports arrived in the last two seconds."""
        rows = self._state.sources()
        recent = rows[rows["last_ns"] >= time.time_ns() - 2 * 10**9]
        return len(set(zip(recent["source_hi"].tolist(), recent["source_lo"].tolist(), strict=True)))

    def reports(self) -> int:
        """Reports received since it started."""
        return int(self._state.counters()["reports_total"])

    def answered(self, limit: int) -> set[tuple[int, ...]]:
        """The newest events in its history, as `proof.identities`."""
        from ....history.query import History
        from .proof import identities

        with History(self.data) as history:
            return identities(history.events(limit=limit).columns)

    def stop(self) -> None:
        """End both processes."""
        for process in (self._announcer, self.process):
            if process is not None and process.poll() is None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
        for process in (self._announcer, self.process):
            if process is None:
                continue
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait(10)

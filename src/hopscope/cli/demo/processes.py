"""The two programs of the demo, as a user would start them: `hopscope collect` and `hopscope simulate`."""

from __future__ import annotations

import ctypes
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...detect.counters import COUNTERS, INDEX, attach_counters
from ...memory.data_folder import read_owner
from ...memory.region import RegionError
from ...serve.feed import Cursor, Feed
from ...wire.records import Records

HOST = "127.0.0.1"
SILENT_SECONDS = 120.0
"""How long a collector that starts may log nothing; while it compiles, it logs its progress every second."""
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class DemoError(HopscopeError):
    """The demo could not be shown: which of its processes failed, and how."""


def _follow_us() -> None:
    """In a child: end when the demo is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def start(arguments: Sequence[str], log: Path, **pipes: Any) -> subprocess.Popen[str]:
    """Start `hopscope ARGUMENTS`, with stderr in a file; Ctrl-C on the terminal does not reach it."""
    with log.open("w", encoding="utf-8") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "hopscope", *arguments],
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=_follow_us,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **pipes},
        )


def free_udp_port() -> int:
    """A UDP port on loopback that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def free_http_port(first: int = 8080) -> int:
    """`first`, or the next port that is free; 0 stays 0 (any)."""
    for port in range(first, min(first + 100, 1 << 16) if first else 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                continue
    return 0


class Collector:
    """A real collector on a data folder, its counters and its events."""

    def __init__(self, data: Path, config: Path, log: Path) -> None:
        self.data, self.log = data, log
        self.owner: dict[str, Any] = {}
        self._process = start(["collect", "--config", str(config)], log)
        self._counters: list[npt.NDArray[np.uint64]] = []
        self._feed: Feed | None = None
        self._cursor: Cursor = {}
        self.missed = 0
        """Events that came too fast to be read here; they are in the history all the same."""

    def wait(self, turn: Any) -> None:
        """Wait until it receives, calling `turn` now and then. Raises DemoError."""
        until, seen = time.monotonic() + SILENT_SECONDS, 0
        while True:
            self.check()
            text = self.log.read_text(encoding="utf-8", errors="replace")
            if '"collecting"' in text:
                break
            if len(text) > seen:
                until, seen = time.monotonic() + SILENT_SECONDS, len(text)
            if time.monotonic() > until:
                raise DemoError(f"the collector made no progress for {SILENT_SECONDS:.0f} s: {self._tail()}")
            turn()
            time.sleep(0.1)
        self.owner = read_owner(self.data)
        regions = Path(self.owner["regions"])
        self._counters = [attach_counters(path) for path in sorted(regions.glob("worker-*.counters"))]
        self._feed = Feed(regions, keep=1 << 18)

    @property
    def url(self) -> str:
        """Address of the live page."""
        return str(self.owner.get("api") or "")

    def counters(self) -> dict[str, int]:
        """All counters, by key."""
        total = np.zeros(len(COUNTERS), np.uint64)
        for counters in self._counters:
            total += counters
        return {key: int(total[slot]) for key, slot in INDEX.items()}

    def events(self) -> Records:
        """What the rings have that was not given out yet, EVENT records by time."""
        assert self._feed is not None
        try:
            self._feed.poll()
        except RegionError as error:
            raise DemoError(f"the collector's rings are gone: {error}") from error
        events, lost = self._feed.read(self._cursor, 1 << 18)
        self.missed += lost
        return events

    def check(self) -> None:
        """Raise DemoError where it has ended."""
        if self._process.poll() is not None:
            raise DemoError(f"the collector ended with {self._process.returncode}: {self._tail()}")

    def _tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        if not lines:
            return "it said nothing"
        try:
            return str(json.loads(lines[-1])["event"])
        except (ValueError, KeyError, TypeError):
            return lines[-1]

    def stop(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()


class FabricProcess:
    """A simulated fabric that sends in real time, and what it says of itself."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        self.said: queue.Queue[dict[str, Any]] = queue.Queue()
        """What it said, in order; see `simulate --json`."""
        self._process = start(
            ["simulate", "--json", "--hold", *arguments], log, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.put(json.loads(line))
        self.said.put({"kind": "gone"})

    def hear(self) -> list[dict[str, Any]]:
        """What was said since the last call. Raises DemoError where it ended without a summary."""
        heard: list[dict[str, Any]] = []
        while not self.said.empty():
            heard.append(self.said.get())
        return heard

    def wait(self, turn: Any) -> None:
        """Wait until it could begin. Raises DemoError."""
        until = time.monotonic() + SILENT_SECONDS
        while not any(one["kind"] == "ready" for one in self.hear()):
            if self._process.poll() is not None or time.monotonic() > until:
                lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
                raise DemoError(
                    f"the simulated fabric did not start: {lines[-1] if lines else 'it said nothing'}"
                )
            turn()
            time.sleep(0.05)

    def begin(self) -> None:
        """Let it send."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Ask it to end; it says `end`, then `gone`."""
        if self._process.poll() is None:
            self._process.terminate()

    def close(self) -> None:
        """End it for good."""
        self.stop()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

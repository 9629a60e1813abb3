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
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...detect.counters import COUNTERS, attach_counters, by_key, counter_files
from ...memory.data_folder import read_owner
from ...memory.region import RegionError
from ...present.feed import Cursor, Feed
from ...wire.records import Records

HOST = "127.0.0.1"
STALL_SECONDS = 120.0
"""Longest time, s, that a starting process may neither log nor use the CPU; the first start compiles."""
_LOG_FIELDS = ("timestamp", "level", "event", "component", "room")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class DemoError(HopscopeError):
    """The demo failed; the message says which process failed, and how."""


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """In a child: get this signal when the thread that started it ends, as when the demo is killed."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, number)


def start(arguments: Sequence[str], log: Path, **pipes: Any) -> subprocess.Popen[str]:
    """Start `hopscope ARGUMENTS`, with stderr in a file; Ctrl-C on the terminal does not reach it."""
    with log.open("w", encoding="utf-8") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "hopscope", *arguments],
            stderr=stderr,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_parent,
            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, **pipes},
        )


def free_http_port(first: int) -> int:
    """`first`, or the next free port; 0 stays 0 (any)."""
    for port in range(first, min(first + 100, 1 << 16) if first else 0):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
                return port
            except OSError:
                continue
    return 0


def last_line(log: Path) -> str:
    """The last line of a program's log, human-readable: JSON lines as their event and fields."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    if not lines:
        return "its log is empty"
    try:
        fields = dict(json.loads(lines[-1]))
    except ValueError:
        return lines[-1]
    more = ", ".join(f"{key} {value}" for key, value in fields.items() if key not in _LOG_FIELDS)
    return f"{fields.get('event', '')}{f' ({more})' if more else ''}"


class Progress:
    """Whether a starting program makes progress: it logs, or it uses the CPU."""

    def __init__(self, pid: int, log: Path) -> None:
        self._pid, self._log = pid, log
        self._seen: tuple[int, int] = (-1, -1)
        self._moved = time.monotonic()

    def stalled(self) -> bool:
        """Whether there was no progress for STALL_SECONDS."""
        seen = self._log.stat().st_size, session_ticks(self._pid)
        if seen != self._seen:
            self._seen, self._moved = seen, time.monotonic()
        return time.monotonic() - self._moved > STALL_SECONDS


def session_ticks(session: int) -> int:
    """CPU time of all processes of a session, clock ticks (proc(5))."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, ValueError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                total += int(fields[11]) + int(fields[12])
    return total


class Collector:
    """A real collector on a data folder, its counters and its events."""

    def __init__(self, data: Path, config: Path, log: Path) -> None:
        self.data, self.log = data, log
        self.owner: dict[str, Any] = {}
        form = ["--log-level", "info", "--log-format", "json"]  # the format that `wait` reads
        self._process = start(["collect", "--config", str(config), *form], log)
        self._counters: list[npt.NDArray[np.uint64]] = []
        self._feed: Feed | None = None
        self._cursor: Cursor = {}
        self.missed = 0
        """Number of events that came too fast to be read here; history still has them."""

    def wait(self, turn: Any) -> None:
        """Wait until it receives; `turn(text)` is called with its latest log line. Raises DemoError."""
        progress = Progress(self._process.pid, self.log)
        while True:
            self.check()
            text = self.log.read_text(encoding="utf-8", errors="replace")
            if '"collecting"' in text:
                break
            if progress.stalled():
                raise DemoError(f"the collector does not start; its log ends with: {last_line(self.log)}")
            turn(last_line(self.log) if text else "")
            time.sleep(0.1)
        self.owner = read_owner(self.data)
        regions = Path(self.owner["regions"])
        self._counters = [attach_counters(path) for path in counter_files(regions).values()]
        self._feed = Feed(regions, keep=1 << 18)

    @property
    def url(self) -> str:
        """Address of the console."""
        return str(self.owner.get("api") or "")

    def counters(self) -> dict[str, int]:
        """All counters, by key."""
        total = np.zeros(len(COUNTERS), np.uint64)
        for counters in self._counters:
            total += counters
        return by_key(total)

    def events(self) -> Records:
        """New events of the rings, EVENT records by time."""
        assert self._feed is not None
        try:
            self._feed.poll()
        except RegionError as error:
            raise DemoError(f"the collector has removed its rings: {error}") from error
        events, lost = self._feed.read(self._cursor, 1 << 18)
        self.missed += lost
        return events

    def check(self) -> None:
        """Raise DemoError if it has ended."""
        if self._process.poll() is not None:
            raise DemoError(f"the collector ended with {self._process.returncode}: {last_line(self.log)}")

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
    """A simulated fabric that sends in real time, and its messages."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self.log = log
        self.messages: queue.Queue[dict[str, Any]] = queue.Queue()
        """Its messages in order; see `simulate --format json`."""
        self._process = start(
            ["simulate", "--format", "json", "--hold", *arguments],
            log,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.messages.put(json.loads(line))
        self.messages.put({"kind": "gone"})

    def receive(self) -> list[dict[str, Any]]:
        """Messages since the last call."""
        found: list[dict[str, Any]] = []
        while not self.messages.empty():
            found.append(self.messages.get())
        return found

    def wait(self, turn: Any) -> None:
        """Wait until it is ready to send. Raises DemoError."""
        progress = Progress(self._process.pid, self.log)
        while not any(message["kind"] == "ready" for message in self.receive()):
            if self._process.poll() is not None or progress.stalled():
                raise DemoError(f"the simulated fabric did not start: {last_line(self.log)}")
            turn("")
            time.sleep(0.05)

    def begin(self) -> None:
        """Let it send."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """Ask it to end; its last messages are `end` and `gone`."""
        if self._process.poll() is None:
            self._process.terminate()

    def close(self) -> None:
        """End it, by a kill if need be, and close its pipes."""
        self.stop()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

"""The state of one process of a collector across its restarts."""

from __future__ import annotations

import signal
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any

from ...detect.counters import DETECTOR

if TYPE_CHECKING:
    from ..processes.fork_server import Process

MAX_EXITS = 5
"""Exits within EXITS_SECONDS after which a process is left stopped."""
EXITS_SECONDS = 60.0
STOPPED_SECONDS = 90.0
"""How long it is left stopped before the next attempt."""
RECEIVING = ("worker", DETECTOR, "labels")
"""Roles that receive frames; they report when they are ready to."""
MAX_PAUSE_SECONDS = 5.0
"""Maximum pause before a restart. The first pause is a tenth of a second; each next one is twice as long."""
VMSTAT = Path("/proc/vmstat")


def memory_kills() -> int:
    """How many processes of the machine Linux has killed for want of memory, its own or that of a cgroup; 0
    where that cannot be read.
    """
    words = VMSTAT.read_text().split() if VMSTAT.exists() else []
    return int(words[words.index("oom_kill") + 1]) if "oom_kill" in words else 0


@dataclass
class ManagedProcess:
    """A process that the supervisor keeps running."""

    name: str
    role: str
    index: int = 0
    sockets: list[socket.socket] = field(default_factory=list)
    """Sockets on which it receives, which outlive it. Those of workers are in `Listeners`."""
    process: Process | Popen[bytes] | None = None
    channel: Any = None
    ready: bool = False
    ticks: int = 0
    """How many signs of life, one per second, its loop has sent since its last start."""
    ticked: float = 0.0
    """Time of the last sign of life (monotonic); 0: none yet."""
    warm: bool = False
    error: str | None = None
    """The error that it reported since its last start."""
    restarts: int = 0
    last_error: str | None = None
    due: float = 0.0
    """When to start it again (monotonic); 0: no restart is due."""
    stopped: bool = False
    """It ended MAX_EXITS times in EXITS_SECONDS, and is left stopped until `due`."""
    renewed: float = 0.0
    """If it was asked to end for a restart with new settings: when it is killed if it has not (monotonic)."""
    exits: deque[float] = field(default_factory=deque)
    memory_kills: int = 0
    """What `memory_kills` was when it started."""

    def started(self, process: Process | Popen[bytes], channel: Any) -> None:
        """Note that the process runs, and reports over `channel`."""
        self.process, self.channel = process, channel
        self.due, self.ready, self.warm, self.error, self.stopped = 0.0, False, False, None, False
        self.ticks, self.ticked, self.renewed = 0, 0.0, 0.0
        self.memory_kills = memory_kills()

    def tick(self) -> None:
        """Note a sign of life of its loop."""
        self.ticks += 1
        self.ticked = time.monotonic()

    def exited(self, now: float) -> float:
        """Note that it has ended; returns the pause before its restart, a long one if it ended too often."""
        assert self.process is not None
        status = self.process.returncode
        assert status is not None
        ended = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        if status == -signal.SIGKILL and memory_kills() > self.memory_kills:
            ended += ", as memory ran out: Linux killed a process"
        self.last_error = self.error or ended
        self.process, self.ready, self.warm = None, False, False
        self.exits.append(now)
        while now - self.exits[0] > EXITS_SECONDS:
            self.exits.popleft()
        self.stopped = len(self.exits) >= MAX_EXITS
        pause = STOPPED_SECONDS if self.stopped else min(MAX_PAUSE_SECONDS, 0.1 * 2 ** (len(self.exits) - 1))
        self.due = now + pause
        return pause

    @property
    def has_lost_alarms(self) -> bool:
        """Whether it received frames and ended without ending its alarms, and no successor is ready yet."""
        return self.role in RECEIVING and bool(self.exits) and not self.ready

    @property
    def exits_text(self) -> str:
        """Why it ended last, and how often."""
        return f"{self.reason} ({MAX_EXITS} times in a minute)"

    @property
    def reason(self) -> str:
        """Why it ended last, with its name unless the reason is a wrong setting."""
        text = self.last_error or "it ended"
        return text if text.startswith(("data folder", "serve.", "listen")) else f"{self.name}: {text}"

    def status(self) -> dict[str, Any]:
        """Its status for the control socket, whose thread calls this."""
        process = self.process
        return {
            "name": self.name,
            "pid": process.pid if process else None,
            "alive": process is not None and process.poll() is None,
            "starting": self.role in RECEIVING and process is not None and not self.ready,
            "warm": self.warm,
            "stopped": self.stopped,
            "restarts": self.restarts,
            "last_error": self.last_error,
            "tick_seconds": round(time.monotonic() - self.ticked, 1) if self.ticked else None,
        }

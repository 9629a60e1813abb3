"""One process of a collector over all its lives: what it listens on, how it died, when it starts again."""

from __future__ import annotations

import signal
import socket
from collections import deque
from dataclasses import dataclass, field
from subprocess import Popen
from typing import Any

DEATHS = 5
"""Deaths within DEATHS_SECONDS that end the program."""
DEATHS_SECONDS = 60.0
LONGEST_PAUSE = 5.0
"""Longest pause before a restart, seconds; the first is a tenth of a second, each one doubles."""


@dataclass
class Member:
    """A process that the supervisor keeps running."""

    name: str
    role: str
    index: int = 0
    sockets: list[socket.socket] = field(default_factory=list)
    """What it listens on; they outlive it, so what arrives while it is restarted is not lost."""
    process: Popen[bytes] | None = None
    channel: Any = None
    ready: bool = False
    warm: bool = False
    said: str | None = None
    """The error that it told in this life."""
    restarts: int = 0
    last_error: str | None = None
    due: float = 0.0
    """When it is started again (monotonic); 0: it is not."""
    deaths: deque[float] = field(default_factory=deque)

    def born(self, process: Popen[bytes], channel: Any) -> None:
        """It runs, and we hear it over `channel`."""
        self.process, self.channel = process, channel
        self.due, self.ready, self.warm, self.said = 0.0, False, False, None

    def died(self, now: float) -> float | None:
        """It has ended: the pause before it is started again, or None where it died too often."""
        assert self.process is not None
        status = self.process.returncode
        ended = f"ended by {signal.Signals(-status).name}" if status < 0 else f"ended with {status}"
        self.last_error = self.said or ended
        self.process = None
        self.deaths.append(now)
        while now - self.deaths[0] > DEATHS_SECONDS:
            self.deaths.popleft()
        if len(self.deaths) >= DEATHS:
            return None
        pause = min(LONGEST_PAUSE, 0.1 * 2 ** (len(self.deaths) - 1))
        self.due = now + pause
        return float(pause)

    @property
    def reason(self) -> str:
        """Why it died last; settings that are wrong speak for themselves."""
        text = self.last_error or "it ended"
        return text if text.startswith(("data folder", "serve.", "listen")) else f"{self.name}: {text}"

    def status(self) -> dict[str, Any]:
        """As the control socket tells it."""
        return {
            "name": self.name,
            "pid": self.process.pid if self.process else None,
            "alive": self.process is not None and self.process.poll() is None,
            "restarts": self.restarts,
            "last_error": self.last_error,
        }

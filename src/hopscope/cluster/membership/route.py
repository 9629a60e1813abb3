"""The route of a member: commands of the settings that announce and withdraw it, and a probe of readiness."""

from __future__ import annotations

import http.client
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import IO
from urllib.parse import urlsplit

from ...base.errors import HopscopeError

COMMAND_SECONDS = 10.0
"""A command that runs longer than this is killed."""
RETRY_SECONDS = 5.0
"""Pause after a failed command."""
OUTPUT_BYTES = 300


def run_error(words: Sequence[str], status: int | None, output: str) -> str:
    """One line about a failed command; `status` None: it ran too long."""
    what = f"ran longer than {COMMAND_SECONDS:g} s" if status is None else f"ended with {status}"
    text = " ".join(output.split())
    return f"{words[0]}: {what}" + (f": {text}" if text else "")


@dataclass
class _Running:
    announces: bool
    words: Sequence[str]
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    until: float


@dataclass
class Route:
    """Runs `announce` and `withdraw` (program, arguments; no shell), one at a time; `turn` does not wait."""

    announce: Sequence[str]
    withdraw: Sequence[str]
    say: Callable[[str], object]
    """Called with a line for the log: what was done, or why it failed."""
    announced: bool | None = None
    """The effect of the last successful command; None: there was none yet."""
    problem: str = ""
    """Why the last command failed; empty: it did not."""
    _running: _Running | None = field(default=None, init=False)
    _retry_at: float = field(default=0.0, init=False)

    @property
    def state(self) -> str:
        """`announced`, `withdrawn`, or `unknown`."""
        return {None: "unknown", True: "announced", False: "withdrawn"}[self.announced]

    def turn(self, wanted: bool) -> None:
        """Take the next step towards the wanted state; call it regularly."""
        if self._running is not None:
            self._look(self._running)
        elif wanted is not self.announced and time.monotonic() >= self._retry_at:
            self._start(wanted)

    def close(self) -> None:
        """Withdraw the route, and wait for that, at most for as long as two commands may run."""
        while self._running is not None:
            self._look(self._running)
            time.sleep(0.01)
        self._retry_at = 0.0
        self.turn(False)
        while self._running is not None:
            self._look(self._running)
            time.sleep(0.01)

    def _start(self, announces: bool) -> None:
        words = self.announce if announces else self.withdraw
        if not words:
            self.announced = announces
            return
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the command has ended)
        try:
            process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        except OSError as error:
            output.close()
            self._failed(f"{words[0]}: {error.strerror or error}")
            return
        self._running = _Running(announces, words, process, output, time.monotonic() + COMMAND_SECONDS)

    def _look(self, running: _Running) -> None:
        status = running.process.poll()
        if status is None and time.monotonic() < running.until:
            return
        if status is None:
            running.process.kill()
            running.process.wait()
        with running.output as output:
            output.seek(0)
            text = output.read(OUTPUT_BYTES).decode("utf-8", "replace")
        self._running = None
        if status == 0:
            self.announced, self.problem = running.announces, ""
            self.say(f"route {self.state}")
        else:
            self._failed(run_error(running.words, status, text))

    def _failed(self, problem: str) -> None:
        self.problem, self._retry_at = problem, time.monotonic() + RETRY_SECONDS
        self.say(f"route: {problem}; tried again in {RETRY_SECONDS:g} s")


class Probe:
    """Asks a URL whether a collector is ready. The first answer counts; later, an answer counts after it came
    `rises` or `falls` times in a row.
    """

    def __init__(self, url: str, *, seconds: float = 1.0, rises: int = 1, falls: int = 2) -> None:
        """`seconds`: timeout of an answer. Raises HopscopeError if the URL is not valid."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise HopscopeError(f"found {url!r}, expected a URL such as http://127.0.0.1:8080/readyz")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._make = lambda: kind(str(parts.hostname), parts.port, timeout=seconds)
        self._path = parts.path or "/readyz"
        self._rises, self._falls, self._against = rises, falls, 0
        self.ready: bool | None = None
        self.reason = ""
        """Why the collector was not ready at the last answer."""

    def look(self) -> bool:
        """Ask once; returns whether the collector counts as ready."""
        good = self._ask()
        self._against = 0 if good is self.ready else self._against + 1
        if self.ready is None or self._against >= (self._rises if good else self._falls):
            self.ready, self._against = good, 0
        return self.ready

    def _ask(self) -> bool:
        connection = self._make()
        try:
            connection.request("GET", self._path)
            status = connection.getresponse().status
        except (OSError, http.client.HTTPException) as error:
            self.reason = str(getattr(error, "strerror", None) or error or type(error).__name__)
            return False
        finally:
            connection.close()
        self.reason = "" if status == 200 else f"status {status}"
        return status == 200

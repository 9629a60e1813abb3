"""A real Redis server on loopback, for one test."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from ..waiting import HANG_SECONDS
from .server_process import free_port


class RedisServer:
    """A Redis server on a free port, which can be killed and started again."""

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self.program, self.folder, self.options = program, folder, options
        self.port = free_port()
        self.listen: tuple[str, ...] = ("--port",)
        self.process: subprocess.Popen[bytes] | None = None
        self._clients: list[Any] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self, **more: Any) -> Any:
        """A client that reads texts; closed when the server is killed."""
        import redis

        self._clients.append(redis.Redis("127.0.0.1", self.port, decode_responses=True, protocol=2, **more))
        return self._clients[-1]

    def start(self, **more: Any) -> Any:
        """Start it, and give a client once it answers."""
        import redis

        given = [*self.listen, str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        self.process = subprocess.Popen([self.program, *given, *self.options], stdout=subprocess.DEVNULL)
        client, until = self.client(**more), time.monotonic() + HANG_SECONDS
        while True:
            with contextlib.suppress(redis.ConnectionError):
                client.ping()
                return client
            assert time.monotonic() < until, "redis-server does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a crash would, and close its clients."""
        for client in self._clients:
            client.close()
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

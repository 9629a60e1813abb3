"""Stands in for systemd: takes what a service says about itself (sd_notify(3)), and keeps its files."""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
from pathlib import Path

from hopscope.base.process.service import Service

from ..waiting import HANG_SECONDS

PASS = """
import fcntl, os, sys
count = int(sys.argv[1])
high = [fcntl.fcntl(int(file), fcntl.F_DUPFD, 200) for file in sys.argv[2 : 2 + count]]
for number, file in enumerate(high):
    os.dup2(file, 3 + number)
os.closerange(3 + count, 400)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[2 + count], sys.argv[2 + count :])
"""
"""Runs a command as systemd does: with files from 3 on."""


class ServiceManager:
    """A socket that services send their state to; `environment` tells them where it is."""

    def __init__(self, folder: Path, watchdog_seconds: float = 600) -> None:
        path = folder / "notify"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._states = queue.Queue[str]()
        self._files: list[tuple[str, int]] = []
        self.environment = {
            "NOTIFY_SOCKET": str(path),
            "WATCHDOG_USEC": str(int(watchdog_seconds * 1e6)),
        }
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def next(self) -> str:
        """The name of the next state that is sent, as READY."""
        return self._states.get(timeout=HANG_SECONDS)

    @property
    def kept(self) -> dict[str, int]:
        """Descriptors of the files that a service had it keep, by name."""
        Service(self.environment).wait()
        assert len(dict(self._files)) == len(self._files), "two files have one name"
        return dict(self._files)

    def passing(self, command: list[str]) -> tuple[list[str], list[int], dict[str, str]]:
        """The command that starts a service with the files that are kept, those, and its environment."""
        kept = self.kept
        files = list(kept.values())
        words = [sys.executable, "-S", "-E", "-c", PASS, str(len(files)), *map(str, files), *command]
        listen = {"LISTEN_FDS": str(len(files)), "LISTEN_FDNAMES": ":".join(kept)} if files else {}
        return words, files, self.environment | listen

    def close(self) -> None:
        """Close the socket, and what is kept."""
        if self._socket.fileno() < 0:
            return
        Service(self.environment)._send("END=1")
        self._thread.join(HANG_SECONDS)
        self._socket.close()
        for _, descriptor in self._files:
            os.close(descriptor)

    def _run(self) -> None:
        while True:
            message, files, _, _ = socket.recv_fds(self._socket, 4096, 16)
            fields = dict(line.split("=", 1) for line in message.decode().splitlines())
            if "END" in fields:
                return
            self._take(fields, files)

    def _take(self, fields: dict[str, str], files: list[int]) -> None:
        """Take one message."""
        if "FDSTORE" in fields:
            self._files += [(fields["FDNAME"], file) for file in files]
            return
        for file in files:
            os.close(file)
        if "FDSTOREREMOVE" in fields:
            for name, descriptor in self._files:
                if name == fields["FDNAME"]:
                    os.close(descriptor)
            self._files = [each for each in self._files if each[0] != fields["FDNAME"]]
        elif "BARRIER" not in fields:
            self._states.put(next(iter(fields)))

"""A process that works for this one, separately because it may crash, hang, or be restricted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping


class Child:
    """An interpreter that runs `serve()` of a module, and receives a socket over its stdin for each
    `connect`.

    It starts when it is needed, and again if it has ended. It must end when its stdin is closed. Threads may
    share it. `begin` is called with the other end of stdin whenever it has started.
    """

    def __init__(
        self,
        module: str,
        environment: Mapping[str, str] | None = None,
        begin: Callable[[socket.socket], None] = lambda control: None,
    ) -> None:
        self._module, self._environment, self._begin = module, environment, begin
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    @property
    def pid(self) -> int:
        """Pid of the process; 0 if it is not running."""
        with self._lock:
            process = self._process
            return process.pid if process is not None and process.poll() is None else 0

    def connect(self) -> socket.socket:
        """A socket connected to the process. OSError: it cannot be started."""
        ours, theirs = socket.socketpair()
        with self._lock, theirs:
            for last in (False, True):  # if the process has ended, the second attempt starts another
                try:
                    socket.send_fds(self._started(), [b"\0"], [theirs.fileno()])
                    break
                except OSError:
                    self._end()
                    if last:
                        ours.close()
                        raise
        return ours

    def end(self, *, kill: bool = False, pid: int | None = None) -> None:
        """End or kill the process, and wait until it has ended; not if its pid is no longer `pid`."""
        with self._lock:
            if self._process is None or pid in (None, self._process.pid):
                self._end(kill=kill)

    def _started(self) -> socket.socket:
        if self._control is None:
            self._control, theirs = socket.socketpair()
            environment = os.environ if self._environment is None else self._environment
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", f"from {self._module} import serve; serve()"],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for this process
                    env={
                        **environment,
                        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                        "OPENBLAS_NUM_THREADS": "1",
                    },
                )
            self._begin(self._control)
        return self._control

    def _end(self, *, kill: bool = False) -> None:
        if self._control is not None:
            self._control.close()
        if self._process is not None:
            if kill:
                self._process.kill()
            self._process.wait()
        self._process = self._control = None

"""The fork server: a process that imports the modules of all roles, loads their kernels, and forks the roles.

A forked role starts in about ten milliseconds and shares the server's memory. The supervisor forks the server
before it has threads; if the server ends, a new interpreter replaces it. The server has one thread, and no
socket but its channel. The processes that it forks become children of the supervisor, which is the subreaper
of its descendants (prctl(2)): roles outlive the server, and the supervisor sees how they end.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from ...base.errors import HopscopeError
from ...base.process.arenas import share_arenas
from ...base.process.title import show_name
from . import roles
from .child import receive, send

FORK_SECONDS = 15.0
"""How long a fork may take before the server counts as hung."""
_POLL_SECONDS = 0.005
_PASSING_SECONDS = 0.0005
_PR_SET_CHILD_SUBREAPER = 36
_SIGNALS = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM}


class ForkServerError(HopscopeError):
    """The fork server is gone, or does not answer."""


class Process:
    """A child of this process that `subprocess` did not start; its methods are those of `Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        """Exit status, or minus the number of the signal that ended the process; None: it runs."""
        self._polling = threading.Lock()
        """A process can be waited for only once, and the control socket's thread polls, too."""

    def poll(self) -> int | None:
        """Update and return `returncode`."""
        with self._polling:
            if self.returncode is None:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
            return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; returns `returncode`. Raises TimeoutExpired after `timeout` seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if until is not None and time.monotonic() >= until:
                raise subprocess.TimeoutExpired([], timeout or 0.0)
            time.sleep(_POLL_SECONDS)
        return status

    def kill(self) -> None:
        """Send SIGKILL, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def start(keep: Sequence[int]) -> tuple[Process, socket.socket]:
    """Start a server; returns it and our end of its channel. `keep`: descriptors that all roles inherit.

    Until `disown` is called, this process is the parent of orphaned descendants.
    """
    _set_subreaper(True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs, _without_signals():
        if threading.active_count() > 1:
            words = [sys.executable, "-m", "hopscope.runtime.processes.fork_server", str(theirs.fileno())]
            server = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno(), *keep])
            server.returncode = 0  # `Process` waits for it, not `subprocess`
            return Process(server.pid), ours
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            _become_server(theirs, keep)
        return Process(pid), ours


def disown() -> None:
    """Stop being the parent of orphaned descendants."""
    _set_subreaper(False)


def fork(server: socket.socket, role: str, channel: socket.socket) -> Process:
    """Fork a role, which gets `channel`. `server`: our end of its channel. Raises ForkServerError."""
    server.settimeout(FORK_SECONDS)
    try:
        send(server, {"fork": role}, [channel.fileno()])
        answer, _ = receive(server)
    except OSError as error:
        raise ForkServerError(f"it does not fork: {error.strerror or 'no answer'}") from error
    finally:
        server.settimeout(None)
    if answer is None or "pid" not in answer:
        raise ForkServerError(f"it does not fork: {answer['error'] if answer else 'it has ended'}")
    return Process(answer["pid"])


def reap_orphans(known: set[int]) -> None:
    """Reap ended descendants that no code waits for, such as those of a killed role.

    The process's own children must all be in `known`.
    """
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in known:
                return
            os.waitpid(ended.si_pid, 0)


def _set_subreaper(on: bool) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on))


@contextmanager
def _without_signals() -> Iterator[None]:
    """Block SIGINT, SIGHUP and SIGTERM in children, from their first thread on. The supervisor handles Ctrl-C
    and the end of a terminal; a SIGTERM that reached a library's thread (OpenBLAS) would kill the process
    instead of ending it in order.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# ------------------------------------------------------------------------------------------ in the server


def main() -> None:
    """Entry point of a new interpreter: `python -m hopscope.runtime.processes.fork_server DESCRIPTOR`."""
    _serve(socket.socket(fileno=int(sys.argv[1])))


def _become_server(channel: socket.socket, keep: Sequence[int]) -> NoReturn:
    """Run the server in the forked process; drop the supervisor's files, signal handlers, exit functions."""
    status = 1
    try:
        atexit._clear()
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        opened = {int(file.name) for file in Path("/proc/self/fd").iterdir()}
        for descriptor in opened - {0, 1, 2, channel.fileno(), *keep}:
            with suppress(OSError):
                os.close(descriptor)
        _serve(channel)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve(channel: socket.socket) -> None:
    """Load kernels and fork as asked, until the supervisor is gone."""
    show_name("fork-server")
    share_arenas()  # before a role has threads
    gc.freeze()  # a collection in a role would write to all shared pages
    while True:
        request, files = receive(channel)
        if request is None:
            return
        if "load" in request:
            _load(channel, request["load"])
        elif "fork" in request:  # other messages to all processes, such as log settings, are for roles
            with socket.socket(fileno=files[0]) as theirs:
                _fork(channel, request["fork"], theirs)


def _load(channel: socket.socket, steps: list[str]) -> None:
    """Compile and load kernels for all roles forked later. If that fails, the server ends."""
    from .. import warmup
    from ..labels import process  # noqa: F401  # for the roles
    from . import detector, worker  # noqa: F401  # for the roles

    try:
        warmup.load_steps(steps, lambda line: send(channel, {"message": line}))
    except BrokenPipeError:
        os._exit(0)
    except (HopscopeError, OSError) as error:
        send(channel, {"error": str(error)})
        os._exit(2)
    gc.collect()
    gc.freeze()
    send(channel, {"warm": True, "ready": True})


def _fork(channel: socket.socket, role: str, theirs: socket.socket) -> None:
    """Fork a role through a process that ends at once, so that the supervisor adopts the role."""
    read, write = os.pipe()
    try:
        between = os.fork()
        if between == 0:
            passing = os.getpid()
            if pid := _fork_or_exit():
                os.write(write, str(pid).encode())
                os._exit(0)
            os.close(read)
            os.close(write)
            channel.close()
            while os.getppid() == passing:  # roles end when their parent changes
                time.sleep(_PASSING_SECONDS)
            _run(role, theirs)
        os.close(write)
        write = -1
        os.waitpid(between, 0)
        pid = int(os.read(read, 16) or 0)
        send(channel, {"pid": pid} if pid else {"error": "no more processes"})
    except OSError as error:
        send(channel, {"error": error.strerror})
    finally:
        os.close(read)
        if write >= 0:
            os.close(write)


def _fork_or_exit() -> int:
    try:
        return os.fork()
    except OSError:
        os._exit(1)


def _run(role: str, channel: socket.socket) -> NoReturn:
    """Run a role in this process and exit as an interpreter does, without unwinding the server's stack."""
    status = 1
    try:
        status = roles.run(role, channel)
        if roles.ROLES[role].waits:
            threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


if __name__ == "__main__":
    main()

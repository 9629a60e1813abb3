"""Network namespaces: creating, entering, finding processes, deleting (ip-netns(8), setns(2))."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from ..base.errors import HopscopeError

T = TypeVar("T")

FOLDER = Path("/run/netns")
"""Folder of iproute2's named namespaces."""
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_COMMAND_SECONDS = 60.0
_END_SECONDS = 3.0
_MAX_OUTPUT = 500


class NamespaceError(HopscopeError):
    """A namespace, an interface in it or a command on them failed."""


def run(*words: str, given: str | None = None, seconds: float = _COMMAND_SECONDS) -> str:
    """Run a command and return its output; `given` is its standard input. Raises NamespaceError."""
    called = " ".join(words[:6])
    pipe = subprocess.PIPE
    try:
        with subprocess.Popen(
            words, stdin=None if given is None else pipe, stdout=pipe, stderr=pipe, text=True
        ) as process:
            try:
                output, errors = process.communicate(given, timeout=seconds)
            except BaseException:  # also on Ctrl-C: no process may be left behind
                process.kill()
                process.wait()
                raise
    except FileNotFoundError:
        raise NamespaceError(f"{words[0]}: not found; install it") from None
    except subprocess.TimeoutExpired:
        raise NamespaceError(f"{called}: timed out after {seconds:g} s") from None
    if process.returncode:
        lines = (errors.strip() or output.strip()).splitlines()
        text = "; ".join(line for line in lines if line)[:_MAX_OUTPUT]
        raise NamespaceError(f"{called}: {text or f'ended with {process.returncode}'}")
    return output


def require_root() -> None:
    """Raise NamespaceError if namespaces and interfaces cannot be created."""
    if os.geteuid():
        raise NamespaceError("network namespaces need root: found another user, expected sudo")
    if not shutil.which("ip"):
        raise NamespaceError("ip: not found on this machine, expected iproute2 to be installed")


def ip(lines: Iterable[str], namespace: str | None = None) -> None:
    """Run ip(8) with a batch of lines in a namespace. Raises NamespaceError."""
    inside = ("-n", namespace) if namespace else ()
    run("ip", *inside, "-batch", "-", given="\n".join(lines) + "\n")


def found(prefix: str) -> list[str]:
    """Names of the namespaces with this prefix, sorted."""
    try:
        return sorted(path.name for path in FOLDER.iterdir() if path.name.startswith(prefix))
    except OSError:
        return []


def delete(name: str) -> None:
    """Delete a namespace with its interfaces, and end its processes. Raises NamespaceError."""
    end(processes_in(name))
    try:
        run("ip", "netns", "del", name)
    except NamespaceError:
        # an interrupted creation left a file without a namespace
        with suppress(OSError):
            (FOLDER / name).unlink()
        if (FOLDER / name).exists():
            raise


def processes_in(name: str) -> list[int]:
    """Processes in a namespace."""
    with suppress(OSError):
        namespace = (FOLDER / name).stat()
        return [process for process in _processes() if _same(f"/proc/{process}/ns/net", namespace)]
    return []


def _same(path: str, namespace: os.stat_result) -> bool:
    with suppress(OSError):
        return os.path.samestat(Path(path).stat(), namespace)
    return False


def marked(mark: str) -> list[int]:
    """Processes with this `NAME=value` in their environment, which children inherit."""
    entry, others = mark.encode(), []
    for process in _processes():
        with suppress(OSError):
            if entry in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                others.append(process)
    return others


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if int(path.name) != os.getpid()]


def end(processes: Iterable[int], seconds: float = _END_SECONDS) -> int:
    """Terminate processes, kill those left after `seconds` (0: at once), and wait for all; returns their
    number.
    """
    left = {process for process in processes if is_running(process)}
    count = len(left)
    asked = [(signal.SIGTERM, seconds)] if seconds else []
    for number, patience in (*asked, (signal.SIGKILL, _END_SECONDS)):
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        until = time.monotonic() + patience
        while left and time.monotonic() < until:
            left = {process for process in left if is_running(process)}
            time.sleep(0.01)
    return count


def is_running(process: int, started: int | None = None) -> bool:
    """Whether a process runs and is not a zombie; `started`: also compare its start time."""
    return bool(now := started_at(process)) and started in (None, now)


def started_at(process: int) -> int:
    """Start time of a process, clock ticks since the machine started; 0: gone, or a zombie."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()  # a name may have spaces and brackets
    return 0 if fields[0] in "ZX" else int(fields[19])


def enter(name: str) -> None:
    """Move the calling thread into a namespace; its open sockets stay in the old one.

    Python before 3.12 has no os.setns. Raises NamespaceError.
    """
    try:
        with (FOLDER / name).open("rb") as file:
            if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEW_NETWORK):
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
    except OSError as error:
        raise NamespaceError(f"namespace {name}: cannot be entered ({error.strerror})") from error


def inside(name: str, work: Callable[[], T]) -> T:
    """Run `work` in a thread inside a namespace; its exceptions are raised here."""
    done: list[T] = []
    failed: list[Exception] = []

    def enter_and_work() -> None:
        try:
            enter(name)
            done.append(work())
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=enter_and_work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]

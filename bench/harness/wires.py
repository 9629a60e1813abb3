"""What forwards frames from `near` to `out`: a bare forwarder in C, a bridge, a bare XDP redirect, a sink."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path

from hopscope.bpf.wire_program import WireProgram

SOURCE = Path(__file__).with_name("forward.c")
_READY_SECONDS = 300
_SETTLE_SECONDS, _REST = 60, 0.08
"""A sink has started when its processes take less than this share of a processor, at the latest after this
time: the console imports modules meanwhile."""
_TICKS = os.sysconf("SC_CLK_TCK")
_LARGE_MTU = 9000


class Wire(ABC):
    """Frames from `near` go to `out` from its making until `remove`."""

    @abstractmethod
    def processes(self) -> list[int]:
        """Those that forward; none if the kernel does."""

    @abstractmethod
    def remove(self) -> None:
        """Leave the interfaces as they were."""

    def spent_ns(self) -> int:
        """Time of processors that its processes took so far."""
        total = 0
        for pid in self.processes():
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(words[11]) + int(words[12])
        return total * 10**9 // _TICKS


class InC(Wire):
    """A forwarder in C by the rings that a sink uses, which looks at nothing in the frames."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        program = Path(self._folder.name, "forward")
        compiler = shutil.which("cc") or "cc"
        subprocess.run([compiler, "-O2", "-o", str(program), str(SOURCE)], check=True)
        self._process = subprocess.Popen([str(program), "near", "out"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def processes(self) -> list[int]:
        """One."""
        return [self._process.pid]

    def remove(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.communicate()
        self._folder.cleanup()


class InKernel(Wire):
    """What needs no process."""

    def processes(self) -> list[int]:
        """None."""
        return []


class Bridge(InKernel):
    """The bridge of the kernel."""

    def __init__(self) -> None:
        for words in (
            "link add wire type bridge stp_state 0 mcast_snooping 0",
            "link set wire up",
            "link set near master wire",
            "link set out master wire",
        ):
            subprocess.run(["ip", *words.split()], check=True)
        time.sleep(0.2)

    def remove(self) -> None:
        """With the bridge."""
        subprocess.run(["ip", "link", "del", "wire"], check=True)


class BareRedirect(InKernel):
    """An XDP program that redirects every frame, in the same mode as a sink's; `path`: its object."""

    def __init__(self, path: Path) -> None:
        self._program = WireProgram(path=path, name="bare")
        self._program.aim("out")
        self._program.attach("near")

    def remove(self) -> None:
        """Detach it."""
        self._program.close()


class HopscopeSink(Wire):
    """`hopscope sink near --output out`, as it is installed."""

    def __init__(self, forwarding: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        log = Path(self._folder.name, "log")
        words = [
            "sink", "near", "--output", "out", "--forwarding", forwarding, "--http-port", "0",
            "--data", f"{self._folder.name}/data", "--set", "sink.bypass=false",
        ]  # fmt: skip
        with log.open("w") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "hopscope", *words], stdout=file, stderr=file
            )
        until = time.monotonic() + _READY_SECONDS
        while "collecting" not in log.read_text():
            if self._process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the sink did not start: {log.read_text()}")
            time.sleep(0.05)
        self._settle()

    def _settle(self) -> None:
        until, quiet = time.monotonic() + _SETTLE_SECONDS, 0
        while quiet < 2 and time.monotonic() < until:
            before = self.spent_ns()
            time.sleep(1)
            quiet = quiet + 1 if self.spent_ns() - before < _REST * 1e9 else 0

    def processes(self) -> list[int]:
        """All of the sink: workers, and those that show and archive."""
        found, queue = list[int](), [self._process.pid]
        while queue:
            pid = queue.pop()
            found.append(pid)
            for task in Path(f"/proc/{pid}/task").iterdir():
                queue += [int(child) for child in (task / "children").read_text().split()]
        return found

    def remove(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGINT)
        self._process.wait()
        self._folder.cleanup()


def widen() -> None:
    """Room for INT at all interfaces."""
    for name in ("near", "far", "out", "beyond"):
        subprocess.run(["ip", "link", "set", name, "mtu", str(_LARGE_MTU)], check=True)

"""One demo for all tests of the console: a real collector, a simulated fabric, faults every minute."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hopscope.fabric.topology import parse_topology
from support.waiting import HANG_SECONDS, eventually

_FOUND = re.compile(r"found (?P<kind>\S+(?: \S+)?) after .* at (?P<node>\S+)(?: port (?P<port>\d+))?")


class Demo:
    """`hopscope demo` without an end."""

    def __init__(self, data: Path, *flags: str) -> None:
        command = [
            sys.executable,
            "-m",
            "hopscope",
            "demo",
            "--seed",
            "3",
            "--rate",
            "3000",
            "--load",
            "0.15",
        ]
        self._process = subprocess.Popen(
            [*command, "--http-port", "0", "--data", str(data), *flags],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()
        eventually(lambda: self.url or self._process.poll() is not None, "the demo did not start")
        assert self._process.poll() is None, self.lines

    def _listen(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line.strip())

    @property
    def url(self) -> str:
        """Address of the console; empty before it is known."""
        return next((line.split()[-1] for line in self.lines if line.startswith("console ")), "")

    def found(self, kind: str) -> tuple[str, int]:
        """Wait until the demo has found a fault of this kind itself; its switch and port."""

        def look() -> tuple[str, int] | None:
            for line in self.lines:
                match = _FOUND.search(line)
                if match and match["kind"].replace(" ", "-") == kind:
                    return match["node"], int(match["port"] or 0)
            return None

        place = eventually(look, f"the demo found no {kind}", 0.2)
        assert place is not None
        return place

    @staticmethod
    def port_name(node: str, port: int) -> str:
        """Name of a port in the demo's network."""
        topology = parse_topology("fat-tree:4")
        return str(topology.port_name(topology.port_row(node, port)))

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(HANG_SECONDS)
        self._thread.join(10)
        assert self._process.stderr is not None
        self._process.stderr.close()


@pytest.fixture(scope="package")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo, which ends with the tests of the console: it takes half a processor."""
    made = Demo(tmp_path_factory.mktemp("demo") / "data")
    yield made
    made.close()

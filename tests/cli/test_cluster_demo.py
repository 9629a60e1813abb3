"""`hopscope cluster demo`: its proof, and that nothing of it is left, however it ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hopscope.cli.cluster.demo import place as demo_place
from support.waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
DEMO = [sys.executable, "-m", "hopscope", "cluster", "demo", "--nodes", "2", "--rate", "500"]


class Place:
    """The folder that demos are in, and what of them is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a demo there."""
        process = subprocess.Popen(
            [*DEMO, *words],
            env={**os.environ, "TMPDIR": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """End the demos that a failed test left."""
        for process in self._started:
            with process:  # closes its pipes
                process.kill()

    def processes(self) -> list[str]:
        """Processes that have a file there open: all of a demo do, as their log is in its folder."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                opened = [entry.readlink() for entry in (process / "fd").iterdir()]
                if any(each.is_relative_to(self.folder) for each in opened):
                    found.append((process / "cmdline").read_text().replace("\0", " "))
        return found


@pytest.fixture
def place(tool: Callable[..., str]) -> Iterator[Place]:
    for name in ("nats-server", "postgres"):
        tool(name)
    with tempfile.TemporaryDirectory() as name:  # those of pytest are closed to the user of the servers
        Path(name).chmod(0o711)
        there = Place(Path(name))
        yield there
        there.end()


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read what a demo prints, up to a line with `text`."""
    assert process.stderr is not None
    read = []
    for line in process.stderr:
        read.append(line)
        if text in line:
            return
    raise AssertionError("".join(read))


def namespaces(pid: int) -> list[Path]:
    """Network namespaces of the demo that is, or was, this process."""
    return list(Path("/run/netns").glob(f"hopscope-cluster-{pid}-*"))


def sockets(processes: list[str]) -> list[Path]:
    """Sockets that SeaweedFS has outside the demo's folder: they are named by its ports."""
    (server,) = (line for line in processes if "weed server" in line)
    ports = {word.partition("=")[2] for word in server.split() if ".port" in word}
    return [
        path for path in Path("/tmp").glob("seaweedfs-*-grpc-*.sock") if path.stem.split("-")[-1] in ports
    ]


def test_servers_get_ports_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are chosen before any server listens: what one gets, no other gets."""
    monkeypatch.setattr(demo_place, "_PORTS", range(20_000, 20_200))
    there = demo_place.Loopback()
    given = [*there.free_ports(50), *there.free_ports(50), *there.free_ports(20, udp=True)]
    assert len(set(given)) == 120


def test_servers_of_a_closed_folder_run_as_root(tmp_path: Path) -> None:
    """As root, servers run as another user, unless that user cannot reach the program, as in root's home."""
    if os.geteuid():
        pytest.skip("only root can become another user")
    there = demo_place.Loopback()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy("/usr/bin/id", folder / "server")
        found = []
        for mode in (0o755, 0o700):
            folder.chmod(mode)
            log = tmp_path / f"{mode:o}"
            assert there.start([str(folder / "server"), "-un"], log, server=True).wait(HANG_SECONDS) == 0
            found.append(log.read_text())
    assert found == ["nobody\n", "root\n"]


def test_it_proves_that_no_event_is_missing(place: Place) -> None:
    """The shortest demo on loopback: one member killed and started again, every event in the lake once, no
    switch of another member moved; then neither a process nor a file is left.
    """
    process = place.start("--loopback", "--load-seconds", "2", "--down-seconds", "4", "--format", "json")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err + out
    found = json.loads(out)
    assert found["holds"]
    assert found["place"] == "loopback"
    shards = found["proof"]["shards"]
    assert {each["member"] for each in shards} == {"c1", "c2"}
    assert all(each["lake"] == each["distinct"] == each["mark"] for each in shards)
    # a member has events of moved flows only if the one that had them was there to say so
    assert all(each["mark"] for each in shards if each["shard"] == 0)
    assert found["seen"]["events"] == found["seen"]["in_lake"] > 0
    assert found["killed"]["others_moved"] == found["started_again"]["others_moved"] == 0
    assert found["killed"]["named"] > 0
    assert found["reports"]["received"] <= found["reports"]["sent"]
    eventually(lambda: not place.processes(), place.processes)
    assert not list(place.folder.iterdir())


def test_what_a_killed_demo_leaves_goes_with_the_next(place: Place) -> None:
    """SIGKILL: its processes end by themselves. Folder, namespaces and sockets go with the next demo, and
    Ctrl-C ends that one with all that it made.
    """
    killed = place.start()
    read_until(killed, "NATS")
    eventually(lambda: [each for each in place.processes() if "collect" in each], place.processes)
    left_sockets = sockets(place.processes())
    assert left_sockets
    killed.kill()
    killed.communicate(timeout=HANG_SECONDS)
    eventually(lambda: not place.processes(), place.processes)
    (left,) = place.folder.iterdir()
    for path in (left, *left_sockets):
        os.utime(path, (0, 0))  # a young one stays: a demo may be making it just now
    if os.geteuid() == 0:
        assert namespaces(killed.pid)
    process = place.start()
    read_until(process, "NATS")
    eventually(lambda: [each for each in place.processes() if "collect" in each], place.processes)
    assert not any(path.exists() for path in (left, *left_sockets))
    assert not namespaces(killed.pid)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130, err
    eventually(lambda: not place.processes(), place.processes)
    assert not list(place.folder.iterdir())
    assert not namespaces(process.pid)

"""What is wrong with the machine or the settings is one clear line and exit status 2, or a counter."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hopscope.capture.pcap.reader import PcapWriter
from hopscope.history.query import History
from hopscope.present.collector_state import CollectorState
from support.processes.command import hopscope
from support.waiting import eventually

VALUES = 8
"""Values in each of the sender's reports: path, latency, and latency and queue of three hops."""
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def refusal(*arguments: str | Path, process: bool = False) -> str:
    """Run a command that must fail with status 2 and one line; that line.

    `process`: one that may get as far as starting others.
    """
    if process:
        command = [sys.executable, "-m", "hopscope", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    else:
        done = hopscope(*arguments)
    said = [line for line in done.stderr.splitlines() if not line.startswith("{")]  # without log lines
    assert done.returncode == 2, f"status {done.returncode}: {done.stderr}"
    assert len(said) == 1, done.stderr
    assert said[0].startswith("hopscope: ")
    return said[0].removeprefix("hopscope: ")


def collect(data: Path, *flags: str | Path) -> list[str | Path]:
    return ["collect", "--data", data, "--http-port", "0", "--listen", "udp://127.0.0.1:0", *flags]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """The line names the folder and the reason."""
    said = refusal(*collect(Path("/proc/hopscope")))
    assert "data folder /proc/hopscope: " in said
    assert "--data" in said
    file = tmp_path / "file"
    file.touch()
    assert "is not a folder" in refusal(*collect(file))
    if os.geteuid():
        locked = tmp_path / "locked"
        locked.mkdir(mode=0o500)
        assert "Permission denied" in refusal(*collect(locked))


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """A folder with other files is refused and left as it is."""
    (tmp_path / "thesis.tex").write_text("precious")
    said = refusal(*collect(tmp_path))
    assert "holds files that are not Hopscope's (thesis.tex)" in said
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_of_a_later_version(tmp_path: Path) -> None:
    """A schema that is not known is refused before anything is changed."""
    (tmp_path / "owner.lock").touch()
    (tmp_path / "owner.json").write_text(json.dumps({"schema": 99}))
    assert "has schema 99, and this version" in refusal(*collect(tmp_path))


def test_a_folder_that_another_collector_holds(collector: Callable[..., Any]) -> None:
    """The second one is refused with the first one's pid, and does not disturb it."""
    one = collector("--no-serve")
    one.start()
    said = refusal(*collect(one.data), process=True)
    assert f"is used by another collector (pid {one.process.pid})" in said
    capture = one.data.with_name("empty.pcap")
    PcapWriter(capture).close()
    assert f"(pid {one.process.pid})" in refusal("replay", capture, "--data", one.data, process=True)
    assert all(process["alive"] for process in one.status().values())
    assert one.stop() == 0


def test_ports_that_are_in_use(tmp_path: Path) -> None:
    """A UDP port and the page's port: the line names the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"udp://127.0.0.1:{taken.getsockname()[1]}"
        for workers in ("", "?workers=2"):
            said = refusal(*collect(tmp_path / "a", "--listen", address + workers), process=True)
            assert f"{address}: the port is in use" in said
    with socket.create_server(("127.0.0.1", 0)) as page:
        port = str(page.getsockname()[1])
        said = refusal(*collect(tmp_path / "b", "--http-port", port), process=True)
        assert f"serve.port: cannot listen on 127.0.0.1:{port}" in said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            ("--set", "serve.prot=1"),
            "--set serve.prot: serve.prot: no such setting; did you mean serve.port?",
        ),
        (("--set", "serve.port"), "expected KEY=VALUE"),
        (("--config", "missing.toml"), "missing.toml: No such file"),
        (("--names", "missing.toml"), "missing.toml (names of switches): No such file"),
        (("--http-host", "0.0.0.0"), "which needs a login"),
        (("--listen", "tcp://127.0.0.1:1"), "expected udp://HOST:PORT"),
        (("--listen", "udp://127.0.0.1:0?dialect=klingon"), "unknown dialect 'klingon'; known are spec, "),
    ],
)
def test_settings_that_are_wrong(tmp_path: Path, flags: tuple[str, ...], said: str) -> None:
    """A wrong flag is reported in a line, before anything is opened."""
    assert said in refusal(*collect(tmp_path / "data", *flags))


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--listen", "udp://192.0.2.77:1", "the address is none of this machine"),
        ("--regions", "/proc/x", "/proc/x"),
    ],
)
def test_settings_that_do_not_fit_the_machine(tmp_path: Path, flag: str, value: str, said: str) -> None:
    """An address or folder that cannot be opened is reported in a line, too."""
    assert said in refusal(*collect(tmp_path / "data", flag, value), process=True)


def test_nothing_to_collect(tmp_path: Path) -> None:
    """A collector without listeners may take labels; one that takes neither is told so."""
    said = refusal("collect", "--data", tmp_path, "--http-port", "0", "--set", "listen=")
    assert said == "nothing to collect: set listen or label.listen"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "listen=mirror://lo?output=eth2",
            "listen: found an output in a collector, expected it in `hopscope sink`",
        ),
        ("sink.enabled=true", "listen: found none with kind mirror, expected an interface for the sink"),
    ],
)
def test_a_collector_is_no_sink(tmp_path: Path, setting: str, said: str) -> None:
    """A collector forwards no frames, and a sink finds no events in reports: neither starts."""
    assert refusal("collect", "--data", tmp_path, "--http-port", "0", "--set", setting) == said


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid():
        pytest.skip("mounting a small file system needs root")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine does not let root mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.kernel
def test_too_little_shared_memory(small_disk: Path, tmp_path: Path) -> None:
    """State that does not fit is refused at the start, with the bytes that it needs: no bus error later."""
    said = refusal(*collect(tmp_path / "data", "--regions", small_disk), process=True)
    assert "cannot create a region of" in said
    assert "No space left on device" in said


@pytest.mark.kernel
def test_a_full_disk(small_disk: Path, collector: Callable[..., Any], load: Callable[..., Any]) -> None:
    """Workers wait and count; when there is room again they go on, and nothing that was accepted is lost."""
    filler = small_disk / "filler"
    one = collector("--no-serve", "--set", "detect.enabled=false", data=small_disk / "data")
    one.start()
    filler.write_bytes(bytes(3 * 1024 * 1024))
    sender = load(500)
    sender.port = one.port
    state = CollectorState(one.data, fresh_seconds=0)
    eventually(lambda: state.counters()["journal_retries_total"] > 3)
    assert one.status()["worker-0"]["alive"]
    sender.close()
    filler.unlink()
    eventually(lambda: state.counters()["reports_total"] == sender.sent)
    assert one.stop() == 0
    assert "history: events are written again; 0 were lost" in one.said()
    with History(one.data) as history:
        assert not history.problems
        events = history.events(limit=None, order="sequence", kinds=["value"])
        assert len(events) == sender.sent * VALUES
        assert events["sequence"].tolist() == sorted(set(events["sequence"].tolist()))
    assert "Traceback" not in one.said()

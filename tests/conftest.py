"""Fixtures that every room's tests share."""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import settings

from hopscope.base.kernel_cache import cache_folder
from support import uncompiled
from support.clean_install import install
from support.redis_server import RedisServer
from support.unchanged import Unchanged
from support.waiting import HANG_SECONDS

settings.register_profile("hopscope", deadline=None)  # no test is decided by timing
settings.load_profile("hopscope")

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # or gRPC opens files in every process that a test forks later
gc.set_threshold(50_000)  # at 700, a tenth of the time of tests is spent on looking for cycles

if "--uncompiled" in sys.argv:  # before any kernel is imported
    uncompiled.install()

SHARED = Path(__file__).resolve().parents[2] / "shared"
STRICT = os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1"
"""Set where everything is installed: a skip for a missing tool is then a failure."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """See support/unchanged.py and support/uncompiled.py."""
    parser.addoption("--unchanged", action="store_true", help="skip tests that passed here")
    parser.addoption("--uncompiled", action="store_true", help="run kernels as plain Python")


def pytest_configure(config: pytest.Config) -> None:
    """Switch `--unchanged` on."""
    if config.getoption("--unchanged"):
        config.pluginmanager.register(Unchanged(config.rootpath, cache_folder().parent / "passed"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the processor time of these tests, with processes that have ended; durations_page.py reads it."""
    terminalreporter.write_line(f"{sum(os.times()[:4]):.0f} s of a processor")


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the captures that this project did not make."""
    if not (SHARED / "captures").is_dir():
        pytest.skip("../shared/captures is missing")
    return SHARED / "captures"


@pytest.fixture(scope="session")
def tool() -> Callable[..., str]:
    """Find the first of some programs on the PATH; skip or, where nothing may be missing, fail without."""

    def find(*names: str) -> str:
        for name in names:
            if path := shutil.which(name):
                return path
        if STRICT:
            pytest.fail(f"{names[0]} is missing, and HOPSCOPE_REQUIRE_TOOLS=1")
        pytest.skip(f"{names[0]} is missing")

    return find


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment `clean`, in which Hopscope is installed from a wheel with kernels."""
    folder = tmp_path_factory.mktemp("wheel")
    install(folder)
    return folder


@pytest.fixture
def namespace() -> Iterator[Any]:
    """A network namespace of the test's own."""
    if os.geteuid() != 0:
        pytest.skip("a packet socket and a network namespace need root")
    from support.veth import Namespace  # scapy takes a second

    try:
        made = Namespace(f"hopscope-test-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespace with a veth pair here: {error}")
    yield made
    made.remove()


class Browser:
    """One page of a headless Chromium, driven over its debugging protocol."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.problems: list[str] = []
        for domain in ("Runtime", "Log", "Page"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """One command and its result; what the page complains of meanwhile is kept in `problems`."""
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=300))
            if message.get("id") == number:
                return message.get("result", message)
            if message.get("method") == "Runtime.exceptionThrown":
                self.problems.append(json.dumps(message["params"])[:300])
            entry = message.get("params", {}).get("entry", {})
            if message.get("method") == "Log.entryAdded" and entry.get("level") == "error":
                self.problems.append(f"{entry.get('text')} {entry.get('url')}")

    def run(self, script: str) -> Any:
        """Value of a JavaScript expression in the page."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait(self, script: str, seconds: float = HANG_SECONDS) -> Any:
        """The expression's first true value; fails with the page's text where it does not come."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if value := self.run(script):
                return value
            time.sleep(0.1)
        pytest.fail(
            f"{script} never was true; the page: {self.run('document.body.innerText')}; {self.problems}"
        )


@pytest.fixture
def browser(tool: Callable[..., str], tmp_path: Path) -> Iterator[Browser]:
    """A browser without a network beyond this machine."""
    from websockets.sync.client import connect

    profile = tmp_path / "chromium"
    options = (
        "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
        "--disable-dev-shm-usage --disable-component-update --disable-sync --window-size=1440,900 "
        "--remote-debugging-port=0 about:blank"
    )
    command = [
        tool("chromium", "chromium-browser", "google-chrome"),
        f"--user-data-dir={profile}",
        *options.split(),
    ]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            said, until = profile / "DevToolsActivePort", time.monotonic() + HANG_SECONDS
            while not (said.exists() and "\n" in said.read_text()) and time.monotonic() < until:
                time.sleep(0.1)
            port = said.read_text().split()[0]
            pages = httpx.get(f"http://127.0.0.1:{port}/json", trust_env=False).json()
            address = next(page["webSocketDebuggerUrl"] for page in pages if page["type"] == "page")
            with connect(address, max_size=None) as socket:
                yield Browser(socket)
        finally:
            process.terminate()
            process.wait(HANG_SECONDS)


@pytest.fixture
def redis_server(tool: Callable[..., str], tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Makes servers, which are killed at the end."""
    made: list[RedisServer] = []

    def make(*options: str) -> RedisServer:
        folder = tmp_path / f"redis-{len(made)}"
        folder.mkdir()
        made.append(RedisServer(tool("redis-server"), folder, *options))
        return made[-1]

    yield make
    for server in made:
        server.kill()

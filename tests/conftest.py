"""Fixtures that every room's tests share."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from hopscope.base.kernels.kernel_cache import cache_folder
from support import uncompiled
from support.processes.browser import PROGRAMS, Browser, Chromium
from support.processes.clean_install import install
from support.servers.redis_server import RedisServer
from support.unchanged import Unchanged

settings.register_profile("hopscope", deadline=None)  # no test is decided by timing
settings.load_profile("hopscope")

os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"  # or gRPC opens files in every process that a test forks later
os.environ["XDG_CONFIG_HOME"] = str(
    Path(__file__).parent / "no-settings"
)  # not those of the user who runs the tests
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
    terminalreporter.write_line(f"{sum(os.times()[:4]):.0f} CPU seconds")


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
def namespace(tool: Callable[..., str]) -> Iterator[Any]:
    """A network namespace of the test's own, with the veth pair `near` and `far`."""
    tool("ip")
    if os.geteuid() != 0:
        pytest.skip("a packet socket and a network namespace need root")
    from support.network.veth import Namespace  # scapy takes a second

    try:
        made = Namespace(f"hopscope-test-{os.getpid()}")
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("HOPSCOPE_REQUIRE_TOOLS") == "1":
            raise
        pytest.skip(f"no network namespace with a veth pair here: {error}")
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def chromium(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    """A browser without a network beyond this machine, for all tests."""
    program = tool(*PROGRAMS)
    with Chromium(program, tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[Browser]:
    """A page of its own, without cookies and storage of others."""
    with chromium.page() as page:
        yield page


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

"""A NATS server for all tests of clusters: each has a cluster of its own name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from support.forgotten import collect_forgotten
from support.server_process import NatsServer

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def nats(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[NatsServer]:
    """The server: Debian's."""
    made = NatsServer(tool("nats-server"), tmp_path_factory.mktemp("nats"))
    made.start()
    yield made
    made.kill()


@pytest.fixture
def cluster() -> str:
    """A name that no other test has."""
    return f"test{next(_NUMBERS)}"


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    yield
    collect_forgotten()

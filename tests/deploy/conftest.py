"""Servers with the rights of deploy/cluster, one each for all tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.lake_servers import LakeServers
from deploy.nats_servers import NAMES, ClusterServers, certificates
from support.forgotten import collect_forgotten


@pytest.fixture(scope="session")
def servers(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterServers]:
    """Three of NATS; no bucket is made."""
    folder = tmp_path_factory.mktemp("nats")
    names = (*(f"{name},127.0.0.1" for name in NAMES), "c1", "reader", "admin", "other", "nobody")
    made = ClusterServers(tool("nats-server"), folder, certificates(folder / "certs", *names))
    try:
        made.start()
        yield made
    finally:
        made.kill()


@pytest.fixture(scope="session")
def lake_servers(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[LakeServers]:
    """PostgreSQL and S3; no lake is made."""
    with tempfile.TemporaryDirectory() as certs:  # which the database's user can reach
        made = LakeServers(tool, tmp_path_factory.mktemp("lake"), Path(certs))
        try:
            made.start(tool("psql"))
            yield made
        finally:
            made.database.kill()
            made.store.kill()


@pytest.fixture(autouse=True, scope="module")
def _forgotten() -> Iterator[None]:
    yield
    collect_forgotten()

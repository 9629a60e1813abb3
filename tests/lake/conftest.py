"""The servers of a lake: PostgreSQL and S3, one each for all tests, and lakes of one's own in them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hopscope.history import follow
from hopscope.settings.lake import LakeSettings
from support.cluster.lake_make import lake_settings
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server


@pytest.fixture(scope="session")
def database(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    folder = tmp_path_factory.mktemp("database")
    for parent in (folder, *folder.parents[:2]):  # the server runs as another user
        parent.chmod(parent.stat().st_mode | 0o755)  # /tmp may be one of them
    server = PostgresServer(tool, folder)
    server.start()
    server.run("CREATE DATABASE hopscope", "postgres")
    yield server
    server.kill()


@pytest.fixture(scope="session")
def store(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tool(str(Path(sys.executable).with_name("weed"))), tmp_path_factory.mktemp("store"))
    server.start()
    server.make_bucket("lake")
    yield server
    server.kill()


@pytest.fixture
def local(database: PostgresServer, tmp_path: Path) -> LakeSettings:
    """Settings of a lake that nobody has made yet, whose files are in a folder."""
    return lake_settings(database, data=str(tmp_path / "lake"))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shard is seen as soon as it has events."""
    monkeypatch.setattr(follow, "SCAN_SECONDS", 0)

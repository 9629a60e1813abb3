"""The servers of a cluster and its lake on loopback: NATS, PostgreSQL, S3; killed and started again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hopscope.cluster.connection import Connection
from hopscope.cluster.setup import init
from hopscope.lake.catalog import create
from hopscope.settings.cluster import ClusterSettings
from hopscope.settings.configuration.file import load

from .postgres_server import PostgresServer
from .s3_server import S3Server
from .server_process import NatsServer


class ClusterServers:
    """All three, with the data in `folder`; the buckets and the lake of `settings` are in them.

    `tool` finds a program; `weed` is that of SeaweedFS.
    """

    def __init__(self, tool: Callable[..., str], folder: Path, weed: str) -> None:
        for name in ("nats", "database", "store"):
            (folder / name).mkdir()
        self.nats = NatsServer(tool("nats-server"), folder / "nats")
        self.database = PostgresServer(tool, folder / "database")
        self.store = S3Server(weed, folder / "store")

    def make(self) -> None:
        """Start all, and make what the collectors need."""
        self.start()
        self.database.run("CREATE DATABASE hopscope", "postgres")
        self.store.make_bucket("lake")
        settings = load(None, [("", key, value) for key, value in self.settings("c1").items()], {}).settings
        with Connection(settings.cluster, "tests") as connection:
            init(connection)
        create(settings.lake)

    def start(self) -> None:
        """Start those that do not run."""
        for server in (self.nats, self.database, self.store):
            if not server.running:
                server.start()

    def kill(self) -> None:
        """End all as a crash would."""
        for server in (self.nats, self.database, self.store):
            server.kill()

    def cluster(self) -> ClusterSettings:
        """Settings of a client of NATS."""
        return ClusterSettings.model_validate({"name": "test", "nats": [self.nats.url], "replicas": 1})

    def settings(self, member: str) -> dict[str, object]:
        """Settings of a collector by key, as for `--set`."""
        return {
            "member": member,
            "cluster.name": "test",
            "cluster.nats": self.nats.url,
            "cluster.replicas": 1,
            "lake.catalog": f"postgresql://hopscope@127.0.0.1:{self.database.port}/hopscope",
            "lake.data": "s3://lake",
            "lake.endpoint": self.store.url,
            "lake.access_key": self.store.KEY,
            "lake.secret": self.store.SECRET,
            "lake.every_seconds": 1,
        }

    def flags(self, member: str, **more: object) -> list[str]:
        """The same as flags of `hopscope collect`."""
        given = {**self.settings(member), **more}
        return [word for key, value in given.items() for word in ("--set", f"{key}={value}")]

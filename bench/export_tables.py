"""Events into ClickHouse, PostgreSQL and Parquet files: rates, and what the sender costs."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from harness import exports
from harness.common import Bench
from support.events.event_make import Events, random_events
from support.events.event_rows import table_sender
from support.servers.clickhouse_server import ClickHouseServer, ClickHouseToday
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

Destination = tuple[str, dict[str, Any]]
"""A kind, and its settings."""
NO_ROLL_UPS = "ClickHouse 18.16, no roll-ups"
WEED = str(Path(sys.executable).with_name("weed"))


@contextmanager
def running(case: str, folder: Path) -> Iterator[Destination | None]:
    """The destination of a case, with its server, if it has one and that is installed."""
    server: Any = None
    if case.startswith("ClickHouse 18.16") and shutil.which("clickhouse-server"):
        server = ClickHouseServer("clickhouse-server", folder)
    elif case == "ClickHouse 26.9 (chdb)" and importlib.util.find_spec("chdb"):
        server = ClickHouseToday(folder)
    elif case == "PostgreSQL 15" and shutil.which("initdb"):
        server = PostgresServer(lambda *names: shutil.which(names[0]) or names[0], folder)
    elif case == "Parquet, SeaweedFS" and shutil.which(WEED):
        server = S3Server(WEED, folder)
    if server is None:
        yield ("parquet", {"folder": str(folder)}) if case == "Parquet, folder" else None
        return
    server.start()
    try:
        if isinstance(server, PostgresServer):
            server.run("CREATE DATABASE hopscope", "postgres")
            yield "postgres", {"port": server.port}
        elif isinstance(server, S3Server):
            server.make_bucket("lake")
            key = {"access_key": server.KEY, "secret": server.SECRET}
            yield "parquet", {"folder": "s3://lake", "endpoint": server.url, **key}
        else:
            yield "clickhouse", {"url": server.url}
    finally:
        server.kill()


def measure(kind: str, settings: dict[str, Any], events: Events) -> tuple[float, float, float]:
    """Events/s into a destination; seconds of processors that an event takes in the sender; its bytes."""
    return exports.measure(lambda folder: table_sender(folder, kind, timeout_seconds=120, **settings), events)


def main() -> None:
    """Every destination whose server is installed."""
    bench, _ = Bench.start(
        "export_tables",
        "events from a journal into a database on this machine, or into files, by one sender "
        "with its defaults: rate, and CPU time of the sender. A third of the flows are IPv6; "
        "hashes and ids are random.",
        "a network, a server with cores of its own, and slower disks than this machine's.",
    )
    events = random_events(50_000 if bench.quick else 500_000, seed=9)
    events["time_ns"] = events["time_ns"][0] + np.arange(len(events)) * 1000
    cases = ("ClickHouse 18.16", NO_ROLL_UPS, "ClickHouse 26.9 (chdb)", "PostgreSQL 15", "Parquet, folder")
    for case in (*cases, "Parquet, SeaweedFS"):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            Path(folder).chmod(0o755)
            with running(case, Path(folder)) as destination:
                if destination is None:
                    bench.say(f"{case}: not installed")
                    continue
                kind, settings = destination
                warm = events[:5000].copy()
                warm["time_ns"] -= 10**9
                measure(kind, settings, warm)
                if case == NO_ROLL_UPS:
                    drop = "DROP TABLE hopscope.int_event_to_minute"
                    httpx.post(settings["url"], content=drop, trust_env=False).raise_for_status()
                rate, spent, size = measure(kind, settings, events)
        bench.row({"into": case}, rate, "events/s", f"{size:.0f} bytes an event")
        bench.row({"into": case, "part": "sender"}, spent * 1e9, "CPU ns per event")


if __name__ == "__main__":
    main()

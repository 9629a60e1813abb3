"""Events into a lake: rates, commits of many writers, lag, size, and what the process takes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.common import Bench
from hopscope.history.writing.journal import JournalWriter
from hopscope.lake.catalog import Lake, create
from hopscope.lake.check import check
from hopscope.lake.maintenance import maintain
from hopscope.lake.status import read_status
from hopscope.lake.writer import LakeWriter
from hopscope.settings.lake import LakeSettings
from support.cluster.lake_make import in_bucket, lake_settings
from support.cluster.lake_member import LakeMember
from support.events.event_make import Events, random_events
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

WRITER = """
import sys
from pathlib import Path
from hopscope.lake.writer import LakeWriter
from hopscope.settings.lake import LakeSettings
settings, folder, name = sys.argv[1:]
writer = LakeWriter(LakeSettings.model_validate_json(settings), Path(folder), name, name)
writer.connect()
print("ready", flush=True)
sys.stdin.readline()
while writer.commit():
    pass
print("done", flush=True)
"""
"""A writer of one member, which begins at a line."""
STEADY = 10_000
"""Events per second of the steady case."""


def recent(count: int) -> Events:
    """Random events of the last second."""
    events = random_events(count, seed=3)
    events["time_ns"] = time.time_ns() - 10**9 + np.arange(count)
    return events


def at_once(settings: LakeSettings, folder: Path, members: int, count: int) -> float:
    """Events/s of several members that each have `count` events in a journal."""
    events = recent(count)
    for at in range(members):
        with JournalWriter(folder / f"m{at}", 0, fsync_seconds=0) as journal:
            journal.append(events.copy())
    writers = []
    for at in range(members):
        words = [sys.executable, "-c", WRITER, settings.model_dump_json(), str(folder / f"m{at}"), f"m{at}"]
        writers.append(subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    begin = time.monotonic()
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write(b"\n")
        writer.stdin.flush()
    for writer in writers:
        assert writer.stdout is not None
        writer.stdout.readline()
    seconds = time.monotonic() - begin
    for writer in writers:
        writer.communicate()
    return members * count / seconds


def commits(settings: LakeSettings, folder: Path, writers: int, seconds: float) -> tuple[float, float]:
    """Commits/s of writers that commit small blocks as fast as they can; seconds of the longest."""
    took: list[float] = []
    ready, go = threading.Barrier(writers + 1), threading.Event()
    events = recent(200)

    def work(at: int) -> None:
        journal = JournalWriter(folder / f"w{at}", 0, fsync_seconds=0)
        journal.append(events.copy())
        writer = LakeWriter(settings, folder / f"w{at}", f"w{at}", f"w{at}")
        writer.connect()
        writer.commit()
        ready.wait()
        go.wait()
        while time.monotonic() < until:
            journal.append(events.copy())
            begin = time.monotonic()
            writer.commit()
            took.append(time.monotonic() - begin)
        writer.close()
        journal.close()

    threads = [threading.Thread(target=work, args=[at]) for at in range(writers)]
    for thread in threads:
        thread.start()
    ready.wait()
    begin = time.monotonic()
    until = begin + seconds
    go.set()
    for thread in threads:
        thread.join()
    return len(took) / (time.monotonic() - begin), max(took)


def steady(settings: LakeSettings, folder: Path, seconds: float) -> tuple[float, float]:
    """Share of a core that the process takes at STEADY events/s, and the 99th percentile of its lag in s."""
    member = LakeMember(settings, folder, "steady")
    lags, events = [], recent(STEADY // 10)
    with JournalWriter(folder, 0) as journal:
        journal.append(events[:10].copy())
        member.start()
        while not read_status(member.folder / "regions").get("committed_ns"):
            time.sleep(0.1)
        begin, before = time.monotonic(), member.processor_seconds()
        for step in range(int(seconds * 10)):
            block = events.copy()
            block["time_ns"] = time.time_ns()
            journal.append(block)
            if step % 10 == 0:
                lags.append(read_status(member.folder / "regions")["lag_seconds"])
            time.sleep(max(0.0, begin + (step + 1) / 10 - time.monotonic()))
        spent = (member.processor_seconds() - before) / (time.monotonic() - begin)
        member.stop()
    return spent, float(np.percentile(lags, 99))


def measure(bench: Bench, made: Callable[..., LakeSettings], folder: Path) -> None:
    """All cases, each in a lake of its own."""
    count = 200_000 if bench.quick else 1_000_000
    at_once(made(), folder / "first", 1, 1000)  # the store makes its volumes
    for members in (1, 3):
        settings = made()
        rate = at_once(settings, folder / f"at-once-{members}", members, count)
        bench.row({"case": "events of journals", "writers": members}, rate, "events/s", "all together")
    with Lake(settings, read_only=True) as lake:
        found = check(lake)
    assert found.whole
    size = found.bytes / (3 * count)
    bench.row({"case": "size of an event", "writers": 3}, size, "bytes", "random values; zstd")
    for each in range(9):
        small = LakeWriter(settings, folder / "small", "small", "small")
        with JournalWriter(folder / "small", 0) as journal:
            journal.append(recent(1000 + each))
            small.connect()
            small.commit()
        small.close()
    begin = time.monotonic()
    merged = maintain(settings, steps=("prune", "merge", "forget"), least=2)
    assert merged is not None
    seconds = time.monotonic() - begin
    case = {"case": "merge", "files": merged.merged_files}
    bench.row(case, 3 * count / seconds, "events/s", f"{seconds:.1f} s")
    for writers in (3, 10) if bench.quick else (3, 10, 30):
        rate, worst = commits(made(), folder / f"commits-{writers}", writers, 4 if bench.quick else 10)
        note = f"blocks of 200 events; the longest took {worst:.2f} s"
        bench.row({"case": "commits", "writers": writers}, rate, "commits/s", note)
        bench.row({"case": "longest commit", "writers": writers}, worst, "s")
    every = 5.0
    settings = made(every_seconds=every)
    spent, lag = steady(settings, folder / "steady", 15 if bench.quick else 40)
    at_steady = {"case": f"steady {STEADY:,} events/s", "every_seconds": every}
    bench.row(at_steady, spent, "of a core", "the lake process")
    bench.row({**at_steady, "case": "lag, 99 %"}, lag, "s", "age of the oldest event that is not in the lake")


def tool(*names: str) -> str:
    """A program, which must be there."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    assert found is not None, names
    return found


def main() -> None:
    """A database and a store of its own, on this machine."""
    bench, _ = Bench.start(
        "lake_writer",
        "events of journals into a lake (DuckLake) by the writers of members; PostgreSQL and an S3 server"
        " (SeaweedFS) share the same two cores.",
        "a network, servers with cores and disks of their own; events are random, so they compress badly.",
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for part in ("database", "store"):
            (folder / part).mkdir()
        database = PostgresServer(tool, folder / "database")
        store = S3Server(str(Path(sys.executable).with_name("weed")), folder / "store")
        try:
            database.start()
            database.run("CREATE DATABASE hopscope", "postgres")
            store.start()
            store.make_bucket("lake")

            def made(**more: object) -> LakeSettings:
                settings = lake_settings(database, **in_bucket(store), **more)
                create(settings)
                return settings

            measure(bench, made, folder)
        finally:
            database.kill()
            store.kill()


if __name__ == "__main__":
    main()

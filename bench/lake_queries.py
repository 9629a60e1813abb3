"""Ten queries over a lake of many events, before and after its files are merged, beside local history."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.common import Bench
from history_queries import SEGMENT, segments
from hopscope.history.columns import NAMES, register
from hopscope.history.files.segments import write_segment
from hopscope.history.query import Flow, History, Table
from hopscope.lake.catalog import EVENT_COLUMNS, Lake, create
from hopscope.lake.queries import LakeQueries
from hopscope.lake.reader import LakeReader
from hopscope.lake.sql import LakeSql
from hopscope.settings.lake import LakeSettings
from hopscope.wire.address import address
from support.events.event_make import Events
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

MEMBERS = 3
COMMIT = 100_000
"""Events of a commit, so of a file until files are merged."""
COPIED = 500_000
"""The same of events that are copies of the first ten million, on later days."""
DAY_NS = 86_400 * 10**9
ROUNDS = 3


def commit(lake: Lake, select: str, member: int) -> None:
    """One commit of a member."""
    columns = f"{NAMES}, 'c{member}', 'bench-{member}'"
    lake.connection.execute(f"INSERT INTO {lake.events} ({EVENT_COLUMNS}) SELECT {columns} FROM ({select})")


def fill(lake: Lake, count: int) -> float:
    """Commit `count` segments of one million events each; events/s."""
    taken = 0.0
    for number, events in enumerate(segments(count)):
        made = time.perf_counter()
        for at in range(0, SEGMENT, COMMIT):
            commit(lake, register(lake.connection, "fresh", events[at : at + COMMIT]), number % MEMBERS)
        taken += time.perf_counter() - made
    return count * SEGMENT / taken


def copy(lake: Lake, first_day: int, days: int) -> float:
    """Copy the first ten million events to later days; events/s."""
    ((first_ns,),) = lake.connection.execute(f"SELECT epoch_ns(min(time)) FROM {lake.events}").fetchall()
    began, copied = time.perf_counter(), 0
    for day in range(first_day, first_day + days):
        columns = NAMES.replace("time", f"make_timestamp_ns(epoch_ns(time) + {day * DAY_NS}) AS time", 1)
        columns = columns.replace("sequence", f"sequence + {day * 100 * SEGMENT} AS sequence")
        for at in range(0, 10 * SEGMENT, COPIED):
            which = f"sequence >= {at} AND sequence < {at + COPIED}"
            which += f" AND time < make_timestamp_ns({first_ns + DAY_NS})"
            commit(lake, f"SELECT {columns} FROM {lake.events} WHERE {which}", at // SEGMENT % MEMBERS)
            copied += COPIED
    return copied / (time.perf_counter() - began)


def merge(lake: Lake) -> float:
    """Merge files; seconds."""
    began = time.perf_counter()
    lake.connection.execute(f"CALL ducklake_merge_adjacent_files('{lake.name}')")
    lake.connection.execute(f"CALL ducklake_cleanup_old_files('{lake.name}', cleanup_all => true)")
    return time.perf_counter() - began


def queries(history: Any, sql: Callable[[str], Table], newest: Events) -> dict[str, Callable[[], Table]]:
    """The ten; `newest`: events of the last minute."""
    ids, counts = np.unique(newest["flow_id"][newest["flow_id"] != 0], return_counts=True)
    one = newest[newest["flow_id"] == ids[np.abs(counts - 20).argmin()]][0]
    src, dst = (address(int(one[f"{side}_hi"]), int(one[f"{side}_lo"])) for side in ("src", "dst"))
    flow = Flow(src, dst, int(one["sport"]), int(one["dport"]), int(one["proto"]))
    end = int(newest["time_ns"].max()) + 1
    minutes = {"start": end - 120 * 10**9, "end": end}
    return {
        "newest 100 events": partial(history.events, limit=100),
        "newest 100 of a flow": partial(history.events, limit=100, flow=flow),
        "newest 100 of a switch": partial(history.events, limit=100, nodes=[7]),
        "newest 100 of a kind": partial(history.events, limit=100, kinds=["path_change"]),
        "paths of a flow": partial(history.paths, flow=flow),
        "flows of two minutes": partial(history.flows, limit=100, **minutes),
        "events by second, two minutes": partial(history.summary, bucket_seconds=1.0, **minutes),
        "hops of highest latency, two minutes": partial(history.hops, **minutes),
        "events by kind and metric, all": history.summary,
        "SQL: count by kind, all": partial(sql, "SELECT kind, count(*) FROM events GROUP BY kind"),
    }


def ask(bench: Bench, of: str, asked: dict[str, Callable[[], Table]]) -> None:
    """Rows of all queries."""
    for query, find in asked.items():
        best = float("inf")
        for _ in range(ROUNDS):
            began = time.perf_counter()
            table = find()
            best = min(best, time.perf_counter() - began)
        bench.row({"of": of, "query": query}, best * 1e3, "ms", f"{len(table)} rows")


def ask_lake(bench: Bench, of: str, settings: LakeSettings, newest: Events) -> None:
    """The ten queries to the lake, without members."""
    reader = LakeReader(settings, memory_bytes=3 * 1024**3)
    sql = LakeSql(reader)
    run = partial(sql.run, tails=lambda *_: [], limit=100, seconds=60.0, memory_bytes=1024**3)
    try:
        ask(bench, of, queries(LakeQueries(reader, lambda *_: []), run, newest))
    finally:
        sql.close()
        reader.close()


def ask_local(bench: Bench, of: str, folder: Path, count: int) -> None:
    """The ten queries to one data folder with the same events."""
    (folder / "journal").mkdir(parents=True)
    (folder / "segments").mkdir()
    newest = None
    for newest in segments(count):
        write_segment(folder, newest)
    assert newest is not None
    with History(folder, memory_bytes=3 * 1024**3, threads=2) as history:
        ask(bench, of, queries(history, partial(history.sql, limit=100, seconds=60.0), newest))


def shifted(newest: Events, days: int) -> Events:
    """The last minute, on a later day."""
    found = newest.copy()
    found["time_ns"] += days * DAY_NS
    return found


def options(parser: argparse.ArgumentParser) -> None:
    """To run it in pieces."""
    parser.add_argument("--catalog", help="database to use; default: one of its own")
    parser.add_argument("--folder", type=Path, help="where the files are; default: a temporary one")
    parser.add_argument("--store", action="store_true", help="files are in an S3 server of its own")
    parser.add_argument(
        "--steps",
        default="fill,ask,copy:1:11,ask,merge,ask,local",
        help="what to do, in order: fill, copy:DAY:DAYS, ask, merge, local",
    )
    parser.add_argument("--millions", type=int, default=10, help="events that fill makes")


def main() -> None:
    """All steps; with --quick one million events."""
    bench, given = Bench.start(
        "lake_queries",
        "the best of three times of each query to an open lake: 10 million events of three "
        "members in commits of 100,000, on one day, and 110 million copies of them on eleven "
        "later days in commits of 500,000; the same after files were merged; and the same "
        "queries to a data folder with the first 10 million events. Two threads; files on a "
        "local disk, or in an S3 server (SeaweedFS) on the same machine.",
        "a network; members' tails; files that are not in the page cache; concurrent writers.",
        options,
    )
    millions = 1 if bench.quick else given.millions
    steps = "fill,ask,merge,ask,local" if bench.quick else given.steps
    folder = given.folder or Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    server = None
    if given.catalog is None:
        (folder / "database").mkdir()
        server = PostgresServer(lambda *names: shutil.which(names[0]) or "", folder / "database")
        server.start()
        server.run("CREATE DATABASE hopscope", "postgres")
    catalog = given.catalog or f"postgresql://hopscope@127.0.0.1:{server.port if server else 0}/hopscope"
    settings, store = LakeSettings(catalog=catalog, data=str(folder / "lake")), None
    if given.store:
        (folder / "store").mkdir()
        store = S3Server(str(Path(sys.executable).with_name("weed")), folder / "store")
        store.start()
        store.make_bucket("lake")
        settings = LakeSettings(
            catalog=catalog,
            data="s3://lake",
            endpoint=store.url,
            access_key=store.KEY,
            secret=store.SECRET,
        )
    create(settings)
    try:
        for step in steps.split(","):
            take(bench, settings, step, folder, millions)
    finally:
        for each in (server, store):
            if each is not None:
                each.kill()
        if server is not None:
            shutil.rmtree(folder)


def take(bench: Bench, settings: LakeSettings, step: str, folder: Path, millions: int) -> None:
    """One step."""
    if step == "local":
        ask_local(bench, f"{millions} M, local history", folder / "local", millions)
        return
    with Lake(settings, memory_bytes=3 * 1024**3) as lake:
        name, *numbers = step.split(":")
        where = " in S3" if settings.endpoint else ""
        if name == "fill":
            bench.row({"step": f"fill{where}"}, fill(lake, millions), "events/s")
        if name == "copy":
            bench.row({"step": f"copy{where}"}, copy(lake, *map(int, numbers)), "events/s")
        if name == "merge":
            bench.row({"step": f"merge{where}"}, merge(lake), "s")
        if name == "ask":
            listed = f"ducklake_list_files('{lake.name}', 'events', schema => 'hopscope')"
            ((files, size),) = lake.connection.execute(
                f"SELECT count(*), sum(data_file_size_bytes)::BIGINT FROM {listed}"
            ).fetchall()
            ((events, newest_ns),) = lake.connection.execute(
                f"SELECT count(*), epoch_ns(max(time)) FROM {lake.events}"
            ).fetchall()
            newest = list(segments(millions))[-1]
            days = (newest_ns - int(newest["time_ns"].max())) // DAY_NS
            of = f"{events / 1e6:.0f} M, {files} files{where}"
            bench.row({"of": of}, size / events, "bytes an event")
            ask_lake(bench, of, settings, shifted(newest, days))


if __name__ == "__main__":
    main()

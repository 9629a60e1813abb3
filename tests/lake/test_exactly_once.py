"""Each event comes into the lake once, whatever is killed; PyArrow and psql count."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from hopscope.history.writing.journal import JournalWriter
from hopscope.lake.status import read_status
from support.cluster.lake_make import in_bucket, lake_settings
from support.cluster.lake_member import LakeMember
from support.cluster.lake_witness import download, events_of, marks_of, sequences
from support.events.event_make import random_events
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server
from support.waiting import eventually

MEMBERS, SHARDS, BLOCK, BLOCKS = 3, 2, 400, 60


@pytest.mark.e2e
@pytest.mark.timeout(180)
def test_each_event_once_whatever_is_killed(
    database: PostgresServer, store: S3Server, tmp_path: Path
) -> None:
    """Three members write two shards each and maintain the lake while they, the database and the store are
    killed at random; then the lake has each event once, and the marks say so.
    """
    chance = random.Random(18)
    settings = lake_settings(database, every_seconds=0.5, maintain_seconds=3, **in_bucket(store))
    members = [LakeMember(settings, tmp_path / f"c{at}", f"c{at}") for at in range(MEMBERS)]
    journals = {(m, s): JournalWriter(members[m].folder, s) for m in range(MEMBERS) for s in range(SHARDS)}
    events = random_events(BLOCK * BLOCKS)
    events["time_ns"] = time.time_ns() - 3600 * 10**9 + np.arange(len(events)) * 10**8  # of some days
    kills = set(chance.sample(range(10, BLOCKS), 8))
    for member in members:
        member.start()
    for block in range(BLOCKS):
        for journal in journals.values():
            journal.append(events[block * BLOCK : (block + 1) * BLOCK].copy())
        if block in kills:
            victim = chance.choice(members)
            victim.kill()
            victim.start()
        if block == BLOCKS // 3:
            database.kill()
            time.sleep(0.3)
            database.start()
        if block == BLOCKS // 2:
            store.kill()
            store.start()
        time.sleep(chance.uniform(0, 0.2))
    for member in members:
        eventually(
            lambda at=member: read_status(at.folder / "regions").get("lag_events") == 0,
            lambda at=member: read_status(at.folder / "regions"),
        )
        member.stop()
    for journal in journals.values():
        journal.close()

    found = events_of(database, settings, download(store, settings, tmp_path / "copy"))
    total = BLOCK * BLOCKS
    expected = {(f"c{m}", s): list(range(total)) for m in range(MEMBERS) for s in range(SHARDS)}
    assert sequences(found) == expected
    assert marks_of(database, settings) == dict.fromkeys(expected, total)
    assert (found["value"].to_numpy() == found["sequence"].to_numpy()).all()
    times = events["time_ns"][found["sequence"].to_numpy()]
    assert (found["time"].to_numpy().astype(np.int64) == times).all()

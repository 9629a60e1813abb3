"""PostgreSQL dies in the middle of a transaction: an error, as any other, and no end of the process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hopscope.lake.catalog import create
from hopscope.settings.lake import LakeSettings
from support.servers.postgres_server import PostgresServer

pytestmark = pytest.mark.e2e

BEGIN = """
import json, sys
from hopscope.lake.catalog import Lake
from hopscope.settings.lake import LakeSettings

settings = LakeSettings.model_validate(json.loads(sys.argv[1]))

def database_dies():
    print("ready", flush=True)
    sys.stdin.readline()
"""
WRITES = """
lake = Lake(settings)
lake.connection.execute("BEGIN")
lake.connection.execute(f"INSERT INTO {lake.marks} VALUES ('m', 'i', 0, 1, NULL)")
database_dies()
lake.close()
print("closed")
"""
READS = """
from hopscope.lake.catalog import end
from hopscope.lake.snapshot import take

lake = Lake(settings, read_only=True)
cursor = lake.connection.cursor()
cursor.execute("BEGIN TRANSACTION READ ONLY")
snapshot = take(lake, cursor)
database_dies()
end(cursor)
print("closed")
"""


@pytest.mark.parametrize("script", [WRITES, READS], ids=["writes", "reads"])
def test_a_process_outlives_its_database(database: PostgresServer, local: LakeSettings, script: str) -> None:
    """A transaction that closing has to roll back, of a writer and of a reader."""
    create(local)
    words = [sys.executable, "-c", BEGIN + script, json.dumps(local.model_dump(mode="json"))]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        database.kill()
        try:
            printed, _ = child.communicate("\n")
        finally:
            database.start()
    assert (child.returncode, printed.split()) == (0, ["closed"])

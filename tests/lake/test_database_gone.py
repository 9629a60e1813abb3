"""PostgreSQL dies in the middle of a transaction: an error, as any other, and no end of the process."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from hopscope.lake.catalog import create
from hopscope.settings.lake import LakeSettings
from support.postgres_server import PostgresServer

pytestmark = pytest.mark.e2e

BEGIN = """
import json, sys
from hopscope.lake.catalog import Lake
from hopscope.lake.database import LakeError
from hopscope.lake.reader import LakeReader
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
reader = LakeReader(settings)
def ask(connection, snapshot):
    database_dies()
    return "answered"
print(reader.ask(ask))
reader.close()
print("closed")
"""
FAILS = """
reader = LakeReader(settings)
def ask(connection, snapshot):
    database_dies()
    connection.execute("SELECT * FROM lake.hopscope.gaps AT (VERSION => 1)")
try:
    reader.ask(ask)
except LakeError as error:
    print("refused" in str(error))
reader.close()
print("closed")
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [(WRITES, ["closed"]), (READS, ["answered", "closed"]), (FAILS, ["True", "closed"])],
    ids=["writes", "reads", "fails"],
)
def test_a_process_outlives_its_database(
    database: PostgresServer, local: LakeSettings, script: str, said: list[str]
) -> None:
    """A transaction that closing has to roll back, of a writer and of a reader, and of one whose next
    statement fails.
    """
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
    assert (child.returncode, printed.split()) == (0, said)

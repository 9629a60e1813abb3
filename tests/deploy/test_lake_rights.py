"""deploy/cluster on a real PostgreSQL and a real S3 server, both over TLS: who may do what with the lake."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.nats_servers import DEPLOY, certificates
from hopscope.lake.catalog import Lake, LakeError, create
from hopscope.settings.file import load
from hopscope.settings.lake import LakeSettings
from support.postgres_server import PostgresServer
from support.s3_server import S3Server

pytestmark = pytest.mark.e2e
PASSWORDS = {"HOPSCOPE_OWNER": "owner's", "HOPSCOPE_MEMBER": "member's"}
STRANGER = '{"Version": "2012-10-17", "Statement": []}'
Settings = Callable[..., LakeSettings]


class Site:
    """Both servers, and settings as in deploy/cluster/hopscope.toml."""

    def __init__(self, tool: Callable[..., str], folder: Path, certs: Path) -> None:
        self._certs = certificates(certs, "db,127.0.0.1")
        if os.geteuid() == 0:
            self._certs.chmod(0o755)
            for name in ("db.pem", "db.key"):
                shutil.chown(self._certs / name, "nobody")
        files = tuple(self._certs / name for name in ("db.pem", "db.key"))
        text = (DEPLOY / "postgresql.conf").read_text()
        for name, path in zip(("/etc/postgresql/db.pem", "/etc/postgresql/db.key"), files, strict=True):
            text = text.replace(name, str(path))
        more = [
            line.replace(" = ", "=").replace("'", "")
            for line in text.splitlines()
            if not line.startswith("#")
        ]
        more.remove("listen_addresses=*")
        self.database = PostgresServer(tool, folder, "postgres", more)
        (folder / "store").mkdir()
        policies = {"hopscope": (DEPLOY / "s3-policy.json").read_text(), "stranger": STRANGER}
        program = tool(str(Path(sys.executable).with_name("weed")))
        self.store = S3Server(program, folder / "store", policies, (files[0], files[1]))

    def start(self, psql: str) -> None:
        """Start both, make what the guide says, and let nobody else in."""
        self.database.start()
        where = ["-h", "127.0.0.1", "-p", str(self.database.port), "-U", "postgres", "-d", "postgres"]
        words = [psql, "-Xq", *where, "-f", str(DEPLOY / "postgresql.sql")]
        subprocess.run(words, check=True, env={**os.environ, **PASSWORDS})
        rules = (DEPLOY / "pg_hba.conf").read_text().replace("192.0.2.0/24", "127.0.0.1/32")
        witness = "host all postgres 127.0.0.1/32 trust\n"  # psql, as this server has no socket of its own
        (self.database.data / "pg_hba.conf").write_text(witness + rules)
        self.database.run("SELECT pg_reload_conf()")
        self.store.start()
        self.store.make_bucket("telemetry")

    def settings(self, **more: object) -> LakeSettings:
        """Settings of a member; `more` are others."""
        given = {
            "catalog": f"postgresql://hopscope@127.0.0.1:{self.database.port}/lake",
            "password": PASSWORDS["HOPSCOPE_MEMBER"],
            "endpoint": self.store.url,
            "secret": self.store.SECRET,
            "ca_file": str(self._certs / "ca.pem"),
            **more,
        }
        flags = [("--set", f"lake.{name}", value) for name, value in given.items()]
        return load(DEPLOY / "hopscope.toml", flags, environment={}).settings.lake

    def owner(self) -> LakeSettings:
        """Settings of the role that makes the lake."""
        place = f"postgresql://hopscope_owner@127.0.0.1:{self.database.port}/lake"
        return self.settings(catalog=place, password=PASSWORDS["HOPSCOPE_OWNER"])


@pytest.fixture(scope="module")
def site(tool: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as certs:  # which the database's user can reach
        made = Site(tool, tmp_path_factory.mktemp("lake"), Path(certs))
        try:
            made.start(tool("psql"))
            assert create(made.owner())
            yield made
        finally:
            made.database.kill()
            made.store.kill()


def test_a_member_writes_reads_and_maintains(site: Site) -> None:
    """All that a collector does: events and marks in one transaction, merging, expiring, deleting files."""
    with Lake(site.settings()) as lake:
        run = lake.connection.execute
        for first in (0, 1000):
            run("BEGIN")
            run(
                f"INSERT INTO {lake.events} BY NAME SELECT range AS sequence, now()::TIMESTAMP_NS AS time,"
                f" 'c1' AS member, 'i' AS incarnation, 0 AS shard FROM range({first}, {first + 1000})"
            )
            run(f"INSERT INTO {lake.marks} VALUES ('c1', 'i', 0, {first + 1000}, now()::TIMESTAMP_NS)")
            run("COMMIT")
        assert run(f"SELECT count(*), max(sequence) FROM {lake.events}").fetchall() == [(2000, 1999)]
        run(f"CALL ducklake_merge_adjacent_files('{lake.name}')")
        run(f"DELETE FROM {lake.marks} WHERE next = 1000")
        run(
            f"SELECT count(*) FROM ducklake_expire_snapshots('{lake.name}', older_than => now()::TIMESTAMPTZ)"
        )
        run(f"CALL ducklake_cleanup_old_files('{lake.name}', cleanup_all => true)")
        run(f"CALL ducklake_delete_orphaned_files('{lake.name}', cleanup_all => true)")
        assert run(f"SELECT count(*) FROM {lake.events}").fetchall() == [(2000,)]
    assert site.database.run("SELECT count(*) FROM hopscope.ducklake_data_file", "lake") == "1\n"
    assert not create(site.settings())


def test_a_member_makes_no_tables(site: Site) -> None:
    """Nor another lake: both are the owner's."""
    with Lake(site.settings()) as lake, pytest.raises(Exception, match="permission denied"):
        lake.connection.execute("CREATE TABLE lake.hopscope.mine (a INTEGER)")
    with pytest.raises(LakeError, match="permission denied"):
        create(site.settings(schema_name="another"))


def test_strangers_do_not_get_into_the_catalog(site: Site, tmp_path: Path) -> None:
    """Without TLS, with a wrong password, as another role, or by an unknown server; no password is shown."""
    for wrong, reason in (
        ({"tls": False}, "no encryption|rejects"),
        ({"password": "guessed"}, "password authentication failed"),
        ({"catalog": f"postgresql://mallory@127.0.0.1:{site.database.port}/lake"}, "mallory"),
        ({"ca_file": str(certificates(tmp_path / "others") / "ca.pem")}, "certificate verify failed"),
        ({"ca_file": str(tmp_path / "none.pem")}, "none.pem"),
    ):
        with pytest.raises(LakeError, match=reason) as caught:
            create(site.settings(**wrong))
        with pytest.raises(LakeError, match=reason) as attached:
            Lake(site.settings(**wrong))
        for error in (caught, attached):
            assert not {"guessed", "member's"} & set(str(error.value).replace("'", " ").split())
            assert "\n" not in str(error.value)
    site.database.run("CREATE ROLE mallory LOGIN PASSWORD 'm'")
    with pytest.raises(LakeError, match="pg_hba"):
        Lake(site.settings(catalog=f"postgresql://mallory@127.0.0.1:{site.database.port}/lake", password="m"))


def test_a_members_key_reaches_the_lakes_files_alone(site: Site) -> None:
    """Another folder of the bucket can neither be written nor read, and another key reads no file."""
    read = "SELECT count(*) FROM read_csv('s3://telemetry/{}')"
    with Lake(site.settings()) as lake:
        run = lake.connection.execute
        run("COPY (SELECT 1) TO 's3://telemetry/hopscope/mine.csv'")
        run(read.format("hopscope/*.csv"))
        for statement in ("COPY (SELECT 1) TO 's3://telemetry/other/mine.csv'", read.format("other/*.csv")):
            with pytest.raises(Exception, match="403"):
                run(statement)
    with Lake(site.settings(access_key="stranger")) as lake:
        for statement in (read.format("hopscope/*.csv"), f"SELECT count(kind) FROM {lake.events}"):
            with pytest.raises(Exception, match="403"):
                lake.connection.execute(statement)

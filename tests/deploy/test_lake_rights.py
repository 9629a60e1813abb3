"""deploy/cluster on a real PostgreSQL and a real S3 server, both over TLS: who may do what with the lake."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.lake_servers import LakeServers
from deploy.nats_servers import certificates
from hopscope.lake.catalog import Lake, LakeError, create

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def site(lake_servers: LakeServers) -> LakeServers:
    """The servers, with a lake that its owner has made."""
    create(lake_servers.owner())
    return lake_servers


def test_a_member_writes_reads_and_maintains(site: LakeServers) -> None:
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
        mine = f"FROM {lake.events} WHERE incarnation = 'i'"  # another test may have written, too
        assert run(f"SELECT count(*), max(sequence) {mine}").fetchall() == [(2000, 1999)]
        run(f"CALL ducklake_merge_adjacent_files('{lake.name}')")
        run(f"DELETE FROM {lake.marks} WHERE next = 1000")
        run(
            f"SELECT count(*) FROM ducklake_expire_snapshots('{lake.name}', older_than => now()::TIMESTAMPTZ)"
        )
        run(f"CALL ducklake_cleanup_old_files('{lake.name}', cleanup_all => true)")
        run(f"CALL ducklake_delete_orphaned_files('{lake.name}', cleanup_all => true)")
        assert run(f"SELECT count(*) {mine}").fetchall() == [(2000,)]
    assert site.database.run("SELECT count(*) FROM hopscope.ducklake_data_file", "lake") == "1\n"
    assert not create(site.settings())


def test_a_member_makes_no_tables(site: LakeServers) -> None:
    """Nor another lake: both are the owner's."""
    with Lake(site.settings()) as lake, pytest.raises(Exception, match="permission denied"):
        lake.connection.execute("CREATE TABLE lake.hopscope.mine (a INTEGER)")
    with pytest.raises(LakeError, match="permission denied"):
        create(site.settings(schema_name="another"))


def test_strangers_do_not_get_into_the_catalog(site: LakeServers, tmp_path: Path) -> None:
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


def test_a_members_key_reaches_the_lakes_files_alone(site: LakeServers) -> None:
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

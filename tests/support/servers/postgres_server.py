"""PostgreSQL on loopback, as an unprivileged user."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from support.servers.server_process import ServerProcess, free_port


class PostgresServer(ServerProcess):
    """A server that everybody can reach; its superuser, and the database that is asked, have the name `user`.

    It runs as another user than root, and pytest takes the rights to its folders from others whenever it
    starts: so the data are not in `folder`, which has the log.

    `tool` finds a program, or skips the test; `more` are settings, as `ssl=on`.
    """

    def __init__(
        self, tool: Callable[..., str], folder: Path, user: str = "hopscope", more: Sequence[str] = ()
    ) -> None:
        self.port, self.user = free_port(), user
        programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        os.environ["PATH"] = os.pathsep.join([os.environ["PATH"], *map(str, programs)])
        self._psql = tool("psql")
        self.data = data = Path(tempfile.mkdtemp(prefix="hopscope-postgres-"))
        atexit.register(shutil.rmtree, data, ignore_errors=True)
        run: list[str] = []
        if os.geteuid() == 0:  # the server refuses root
            shutil.chown(data, "nobody", "nogroup")
            run = [tool("setpriv"), "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        options = ["-A", "trust", "-U", user, "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [*run, tool("initdb"), "-D", str(data), *options], check=True, cwd="/", stdout=subprocess.PIPE
        )
        words = [*run, tool("postgres"), "-D", str(data), "-p", str(self.port), "-h", "127.0.0.1"]
        words += ["-c", "unix_socket_directories=", "-c", "fsync=off"]  # a killed process loses no page
        words += ["-c", "dynamic_shared_memory_type=mmap"]  # files of `data`: a kill leaves those of /dev/shm
        words += [word for each in more for word in ("-c", each)]
        super().__init__(words, folder, self._answers)

    def kill(self) -> None:
        """End it as a crash would; its children end with it."""
        super().kill()
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _answers(self) -> bool:
        return self._run("postgres", "SELECT 1").returncode == 0

    def _run(self, database: str, statement: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", self.user, "-d", database]
        words = [self._psql, "-XAtq", *where, "-c", statement]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def run(self, statement: str, database: str = "") -> str:
        """What psql prints of one statement."""
        done = self._run(database or self.user, statement)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def query(self, select: str, database: str = "") -> list[dict[str, Any]]:
        """Rows of a SELECT, by psql."""
        rows = self.run(f"SELECT row_to_json(r) FROM ({select}) r", database)
        return [json.loads(row) for row in rows.split("\n")[:-1]]

"""Users' SQL over the events of all members, which runs in the sandbox of `history.sandbox.query`."""

from __future__ import annotations

import threading
from typing import Any

import duckdb
import numpy as np

from ..base.deadline import Deadline
from ..history.columns import quoted
from ..history.reading.table import Table
from ..history.sandbox.processes import Sandbox, SqlError
from ..history.sandbox.query import FilesError
from .catalog import store_statements
from .database import LakeError
from .extensions import extension_files
from .queries import Tail, TailRequest, Tails
from .reader import LakeReader
from .snapshot import LakeSnapshot


class LakeSql:
    """Runs SQL queries. Its process starts with the first query. Threads may share it."""

    def __init__(self, reader: LakeReader) -> None:
        self._reader = reader
        self._sandbox = Sandbox()

    def close(self) -> None:
        """End its processes, and with them all queries."""
        self._sandbox.close()

    def run(
        self,
        text: str,
        tails: Tails,
        *,
        limit: int,
        seconds: float,
        memory_bytes: int,
        stop: threading.Event | None = None,
        deadline: Deadline | None = None,
    ) -> Table:
        """Run one SELECT over the view `events`: a snapshot of the lake and the result of `tails`, which must
        both be there before `deadline`. The SELECT may then take `seconds`.

        SqlError: the SELECT is invalid, failed, or was stopped. LakeError: the lake or its files cannot be
        reached.
        """
        source, body = self.source(tails, deadline)
        try:
            return self._sandbox.run(
                text, source, body, limit=limit, seconds=seconds, memory_bytes=memory_bytes, stop=stop
            )
        except FilesError as error:
            raise LakeError(f"{self._reader.settings.place}: {error}") from None

    def source(self, tails: Tails, deadline: Deadline | None = None) -> tuple[dict[str, Any], bytes]:
        """The data for a query: the arguments `source` and `body` of `Sandbox.run`."""

        found: list[Tail] = []

        def ask(snapshot: LakeSnapshot) -> None:
            found[:] = [tail for tail in tails(snapshot, TailRequest({})) if len(tail.events)]

        source = {
            "files": self._reader.ask(ask, files, deadline),
            "before": self._before(),
            "tails": [(tail.member, tail.incarnation, len(tail.events)) for tail in found],
        }
        return source, b"".join(np.ascontiguousarray(tail.events).tobytes() for tail in found)

    def _before(self) -> list[str]:
        """SQL statements that make the files readable."""
        settings = self._reader.settings
        if not settings.data.startswith("s3://"):
            return []
        (httpfs,) = extension_files(["httpfs"])
        return [f"LOAD {quoted(httpfs)}", *store_statements(settings)]


def files(cursor: duckdb.DuckDBPyConnection, snapshot: LakeSnapshot, _: None) -> list[str]:
    """The Parquet files of a snapshot. SqlError: rows were deleted from a file, which the file itself does
    not show.
    """
    rows = cursor.execute(snapshot.files).fetchall()
    if any(deleted is not None for _, deleted in rows):
        raise SqlError(
            "rows were deleted from files of the lake: SQL is possible after `hopscope lake compact`"
        )
    return [str(path) for path, _ in rows]

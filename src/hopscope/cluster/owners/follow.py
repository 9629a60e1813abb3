"""Follows the table of owners, for a process that is no member: a translator."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ...settings.cluster import ClusterSettings
from ..connection import ClusterError, Connection
from .file import OwnersFile
from .table import OwnerTable

SECONDS = 1.0
"""Time between two readings of the table, and between attempts to connect."""


class OwnersFollower:
    """The newest table from NATS, read by a thread; at first, the table of the file in `folder`.

    `notify` gets a line when NATS becomes unreachable, and when it is back.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        folder: Path,
        notify: Callable[[str], object],
        seconds: float = SECONDS,
    ) -> None:
        self._connection = Connection(settings, "translator", keep=True)
        self._file, self._notify, self._seconds = OwnersFile(folder), notify, seconds
        self._problem = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="owners", daemon=True)
        self._table: OwnerTable | None = None
        with suppress(ClusterError):  # a damaged file is replaced
            self._table = self._file.table

    def newest(self) -> OwnerTable | None:
        """The table; None: none is known."""
        return self._table

    def __enter__(self) -> OwnersFollower:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if self._connection.closed:
                    self._connection.open()
                self._table = self._file.renew(self._connection)
                self._note("")
            except (ClusterError, OSError) as error:
                self._note(str(error))
            self._stop.wait(self._seconds)

    def _note(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            known = "no table of owners is known" if self._table is None else "the last table of owners holds"
            self._notify(f"{problem}; {known}" if problem else "the table of owners is read from NATS")

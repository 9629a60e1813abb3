"""The table of owners in a file of the data folder, for restarts and while NATS is unreachable."""

from __future__ import annotations

from pathlib import Path

from ...direct.collectors.collector import ApiAccess, CollectorError
from ...direct.collectors.group import CollectorGroup
from ...memory.text_file import write_text
from ..connection import ClusterError, Connection
from ..process import Part
from .table import OwnerTable, decode, read_owners

FILE_NAME = "owners.json"
NONE = "null"
"""Content of the file if the cluster has no table."""


class OwnersFile:
    """The file of a folder; one process writes it, others read it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._seen: tuple[int, int] | None = None
        self._table: OwnerTable | None = None

    @property
    def table(self) -> OwnerTable | None:
        """The table; None: there is none. Raises ClusterError if it is unknown, or the file is damaged."""
        try:
            status = self._path.stat()
            if self._seen != (status.st_mtime_ns, status.st_ino):
                text = self._path.read_text(encoding="utf-8")
                self._table = None if text == NONE else decode(text.encode())
                self._seen = status.st_mtime_ns, status.st_ino
        except (OSError, UnicodeDecodeError) as error:
            self._seen = None
            raise ClusterError("the owners of keys are not known: NATS has not answered yet") from error
        except ClusterError as error:
            raise ClusterError(f"{self._path}: {error}") from None
        return self._table

    def renew(self, connection: Connection) -> OwnerTable | None:
        """The table in NATS; it is written to the file if it has changed. Raises ClusterError."""
        table, _ = read_owners(connection)
        try:
            same = self.table == table
        except ClusterError:
            same = False
        if not same:
            write_text(self._path, NONE if table is None else table.encode().decode())
        return table


class OwnersGroup:
    """The collectors that a member's queries ask: the owners, or itself if there is no table."""

    def __init__(self, folder: Path, member: str, own: CollectorGroup, access: ApiAccess) -> None:
        """`folder`: contains the file; `own`: the stores of `member`; `access`: to the members' APIs."""
        self._file, self._member, self._own = OwnersFile(folder), member, own
        self._access = access
        self._of: OwnerTable | None = None
        self._group: CollectorGroup = own

    def __call__(self) -> CollectorGroup:
        """The collectors to ask now. Raises CollectorError if they are not known."""
        try:
            table = self._file.table
        except ClusterError as error:
            raise CollectorError(str(error)) from error
        if table is not self._of:
            self._of, self._group = table, self._own
            if table is not None:
                (own,) = self._own.collectors
                self._group = table.collectors(self._access, known={self._member: own})
        return self._group


class OwnersPart(Part):
    """Keeps the file in this member's data folder up to date with the table in NATS."""

    name = "owners"

    def turn(self) -> None:
        """Read the table."""
        OwnersFile(self.context.data).renew(self.context.connection)

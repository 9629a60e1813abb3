"""Parquet files partitioned by hour, in a folder or an S3 bucket.

    FOLDER/date=2026-11-23/hour=06/MEMBER-SHARD-FIRST-LAST-TIME.parquet

A block becomes one file for each hour of its events. Files are named by the block's id, and appear
atomically: a repeated block replaces its files, so no event is duplicated.
"""

from __future__ import annotations

import importlib.util
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import duckdb
import numpy as np

from ...base.errors import HopscopeError
from ...base.extras import install_command
from ...detect.records import EVENT_VERSION
from ...history.columns import connect, quoted, register
from ...history.files.names import sync_folder
from ...history.files.segments import VERSION_KEY, ZSTD, first_line
from ...settings.destinations.databases import ParquetSettings
from ...wire.records import Records
from ..block import EventBlock
from ..credentials import secret
from ..destination import Context, DeliveryError, Destination

if TYPE_CHECKING:
    from obstore.store import ClientConfig

_S3_ERROR = re.compile(r"<Code>(.*?)</Code><Message>(.*?)</Message>")
_S3_CERTIFICATE = re.compile(r"InvalidCertificate\(\s*(\w+)")
_S3_CAUSE = re.compile(r"(?:message|error): \"([^\"]{1,200})\"")
_HOUR = 3600 * 10**9
_MEMORY_BYTES = 2 * 1024**3
_THREADS = 2


class Parquet(Destination):
    """One folder or bucket."""

    Settings = ParquetSettings

    def __init__(self, settings: ParquetSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._store: Store | None = None
        self._database: duckdb.DuckDBPyConnection | None = None

    @classmethod
    def check(cls, settings: ParquetSettings) -> None:
        """Raises HopscopeError if the S3 client is missing."""
        if _in_bucket(settings) and importlib.util.find_spec("obstore") is None:
            raise HopscopeError(f"S3: the client is missing; install it with: {install_command('s3')}")

    def connect(self) -> None:
        """Make the folder, or check whether the bucket answers."""
        self.close()
        self._store = Bucket(self.settings) if _in_bucket(self.settings) else Folder(self.settings.folder)
        self._database = connect(_MEMORY_BYTES, _THREADS)

    def send(self, block: EventBlock) -> None:
        """Write a file for each hour of a block."""
        assert self._store is not None
        assert self._database is not None
        for hour, events in _hours(block.records):
            name = f"{hour}/{block.id}.parquet"
            try:
                written = self._store.put(name, partial(self._write, events))
            except OSError as error:
                raise DeliveryError(f"{name} cannot be written: {error.strerror or error}") from error
            except duckdb.Error as error:
                raise DeliveryError(f"{name} cannot be written: {first_line(error)}") from error
            self.context.count("bytes_total", written)

    def _write(self, events: Records, path: Path) -> None:
        """Write events to a Parquet file with the columns of history, and the collector."""
        assert self._database is not None
        columns = f"SELECT *, {quoted(self.context.member)} AS collector"
        version = f"{{{VERSION_KEY}: '{EVENT_VERSION}'}}"
        compression = ZSTD if self.settings.compression == "zstd" else "COMPRESSION snappy"
        self._database.execute(
            f"COPY ({columns} FROM ({register(self._database, 'fresh', events)})) TO {quoted(path)}"
            f" (FORMAT parquet, {compression}, KV_METADATA {version})"
        )
        self._database.unregister("fresh")

    def close(self) -> None:
        """Close the database that writes."""
        if self._database is not None:
            self._database.close()
            self._database = None


Writer = Callable[[Path], None]
"""Writes a file."""


class Store(Protocol):
    """A place in which files appear atomically."""

    def put(self, name: str, write: Writer) -> int:
        """Store the file that `write` makes, replacing any of this name. Returns its size in bytes."""
        ...


class Folder:
    """A folder. DeliveryError: it cannot be made."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder).expanduser()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DeliveryError(f"{folder}: {error.strerror}") from error

    def put(self, name: str, write: Writer) -> int:
        """The file gets its name once it is on disk."""
        path = self._folder / name
        part = path.with_name(f".{path.name}.part")
        path.parent.mkdir(parents=True, exist_ok=True)
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
            size = os.fstat(file.fileno()).st_size
        part.rename(path)
        sync_folder(path.parent)
        return size


class Bucket:
    """A bucket, or a part of it. DeliveryError: it does not answer, or refuses."""

    def __init__(self, settings: ParquetSettings) -> None:
        from obstore.store import S3Store

        bucket, _, self._prefix = settings.folder.removeprefix("s3://").partition("/")
        keys: dict[str, Any] = {"access_key_id": settings.access_key} if settings.access_key else {}
        if settings.secret:
            keys["secret_access_key"] = secret(settings.secret)
        if settings.endpoint:
            keys |= {"endpoint": settings.endpoint}
        seconds = timedelta(seconds=settings.timeout_seconds)
        options: ClientConfig = {"allow_http": settings.endpoint.startswith("http:"), "timeout": seconds}
        if settings.ca_file is not None:
            options["root_certificate"] = _certificates(settings.ca_file)
        self._store = S3Store(
            bucket,
            prefix=self._prefix.strip("/") or None,
            region=settings.region,
            client_options=options,
            retry_config={"max_retries": 0, "retry_timeout": seconds},
            **keys,
        )
        self._ask(lambda: next(iter(self._store.list(chunk_size=1)), None))

    def put(self, name: str, write: Writer) -> int:
        """The object appears once its last part has arrived."""
        with tempfile.TemporaryDirectory(prefix="hopscope-") as folder:
            path = Path(folder) / "block.parquet"
            write(path)
            self._ask(lambda: self._store.put(name, path))
            return path.stat().st_size

    @staticmethod
    def _ask(request: Callable[[], object]) -> None:
        """Run a request. Any failure is a DeliveryError with retry, since it may be fixed at the server."""
        from obstore.exceptions import BaseError

        try:
            request()
        except (BaseError, OSError) as error:
            raise DeliveryError(_reason(str(error))) from None


def _reason(text: str) -> str:
    """The reason in an error of the client, whose first line only names the request."""
    if answer := _S3_ERROR.search(text):
        return f"{answer[1]}: {answer[2]}"
    if certificate := _S3_CERTIFICATE.search(text):
        return f"the server's certificate is not accepted: {certificate[1]}"
    cause = _S3_CAUSE.search(text)
    return cause[1] if cause else " ".join(text.split())[:200]


def _certificates(file: Path) -> bytes:
    """The certificates of a file (PEM). DeliveryError names an invalid file."""
    try:
        ssl.create_default_context(cafile=file)
        return file.read_bytes()
    except OSError as error:
        raise DeliveryError(f"{file}: {error.strerror or error}") from None


def _in_bucket(settings: ParquetSettings) -> bool:
    return settings.folder.startswith("s3://")


def _hours(events: Records) -> Iterator[tuple[str, Records]]:
    """Yield (folder of the hour, events), by UTC hour of the events."""
    hours = events["time_ns"] // _HOUR
    for hour in np.unique(hours).tolist():
        date, _, number = str(np.datetime64(hour, "h")).partition("T")
        yield f"date={date}/hour={number}", events[hours == hour]

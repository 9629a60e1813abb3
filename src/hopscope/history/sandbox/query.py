"""A user's SQL query in a process of its own, which can only read history and answer.

First, DuckDB is restricted: it may open only the folders of segments and distributions, or the files of a
lake (`allowed_directories` or `allowed_paths`, before external access is disabled), its configuration is
locked, and it gets only one statement, a SELECT. These restrictions are not enough: DuckDB neither counts
nor interrupts every allocation (measured: `repeat('x', 3000000000)` took 6 GB and 20 s under a limit of 256
MB and an interrupt after 2 s), and `COPY` and `EXPLAIN ANALYZE COPY` write into allowed folders. So the
process also has limits on address space, CPU time and file sizes (0: it cannot write), and is killed when its
time is over. A Parquet answer goes through a pipe, the only file outside history that DuckDB may open.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from ..columns import connect, quoted
from ..errors import HistoryError
from ..files.period_files import FOLDER
from ..reading.source import HistorySource
from ..reading.table import Table, fetch, plain
from .files import open_files

MAX_ANSWER_BYTES = 64 * 1024**2
"""Size of the largest answer."""
_OVERHEAD_BYTES = 256 * 1024**2
"""Address space in addition to the memory limit: stacks, and memory that DuckDB does not count."""

_NOW = {"now": "transaction_timestamp", "transaction_timestamp": "now", "get_current_timestamp": "now"}
"""Functions that return the current time (the last is `current_timestamp`), each with the built-in function
that the macro which replaces it calls."""


class SqlError(HistoryError):
    """A query was rejected, failed, or exceeded its limits. `line` and `column` say where, counted from 1."""

    def __init__(self, text: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(text)
        self.line, self.column = line, column


class FilesError(HistoryError):
    """Files cannot be read at the moment, which is not the fault of the query."""


def folder_source(
    folder: Path, damaged: Mapping[Path, str], checked: Collection[Path] = (), member: str = ""
) -> dict[str, Any]:
    """The `source` that describes a data folder without its `damaged` files. `checked` files are known to be
    undamaged; `member` is as in `History`.
    """
    return {
        "folder": str(folder),
        "damaged": {str(path): text for path, text in damaged.items()},
        "checked": list(map(str, checked)),
        "member": member,
    }


def answer(request: dict[str, Any], body: bytes) -> bytes:
    """Answer a request of `Sandbox`, in the form that `pull` reads. This restricts the process for good, so
    it must end afterwards.
    """
    _limit_process(request["seconds"])
    try:
        found = _of_files(request, body) if "files" in request else _of_folder(request)
        return found if isinstance(found, bytes) else _push(found)
    except HistoryError as error:
        place = {"line": error.line, "column": error.column} if isinstance(error, SqlError) else {}
        of_files = isinstance(error, FilesError)
        return json.dumps({"error": str(error), "of_files": of_files, **place}).encode() + b"\n"
    except OSError as error:
        return (
            json.dumps({"error": f"{error.filename}: {error.strerror}", "of_files": False}).encode() + b"\n"
        )


def _of_files(request: dict[str, Any], body: bytes) -> Table | bytes:
    """Run a query over the files of a lake and the events that it does not have yet, see `files`."""
    connection = connect(request["memory"], threads=min(4, os.cpu_count() or 1))
    try:
        open_files(connection, request, body)
        _lock(connection, "allowed_paths", request["files"])
        return _select(connection, request, "the view events")
    except (duckdb.IOException, duckdb.InvalidInputException, duckdb.HTTPException) as error:
        kind = SqlError if isinstance(error, duckdb.InvalidInputException) else FilesError
        raise kind(f"{rejection(error)}; if files were merged meanwhile, it helps to try again") from error


def _of_folder(request: dict[str, Any]) -> Table | bytes:
    damaged = {Path(path): text for path, text in request["damaged"].items()}
    source = HistorySource(Path(request["folder"]), damaged, {Path(path) for path in request["checked"]})
    for _ in range(20):
        snapshot = source.undamaged(source.snapshot())
        connection = connect(request["memory"], threads=min(4, os.cpu_count() or 1))
        periods = source.periods()
        member = f"{quoted(request['member'])} AS member, " if request["member"] else ""
        connection.execute(f"CREATE VIEW events AS SELECT {member}* FROM ({snapshot.select_all(connection)})")
        connection.execute(f"CREATE VIEW distributions AS {periods.select(connection)}")
        folder = Path(request["folder"]).absolute()
        pipe = Pipe() if request.get("parquet") else None
        if pipe is not None:
            connection.execute(f"SET allowed_paths = [{quoted(pipe.path)}]")
        _lock(connection, "allowed_directories", [str(folder / part) for part in ("segments", FOLDER)])
        try:
            return _select(connection, request, "the views events and distributions", pipe)
        except (duckdb.IOException, duckdb.InvalidInputException) as error:
            source.blame(snapshot.paths + periods.paths, error)
    raise SqlError("the segments change faster than they can be read: try again")


def _lock(connection: duckdb.DuckDBPyConnection, setting: str, allowed: Sequence[str]) -> None:
    """Restrict DuckDB to these files or folders. They are allowed first: it is
    impossible once access is off.
    """
    connection.execute(f"SET {setting} = [{', '.join(map(quoted, allowed))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET enable_progress_bar = false")  # the bar would be written into the answer
    connection.execute("SET lock_configuration = true")


def _select(
    connection: duckdb.DuckDBPyConnection, request: dict[str, Any], views: str, pipe: Pipe | None = None
) -> Table | bytes:
    """Run the query; with `pipe`, the answer is a Parquet file, written through the pipe."""
    text = request["text"].strip().rstrip(";")
    try:
        statements = connection.extract_statements(text)
    except duckdb.Error as error:
        raise rejection(error) from error
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise SqlError(f"expected one SELECT (or FROM, WITH, VALUES, DESCRIBE, SUMMARIZE), over {views}")
    for name, builtin in _NOW.items():  # DuckDB cannot compare events' TIMESTAMP_NS with a TIMESTAMPTZ
        connection.execute(f"CREATE MACRO {name}() AS system.main.{builtin}()::TIMESTAMP")
    _limit_memory(request["memory"])
    late = threading.Event()

    def interrupt() -> None:
        late.set()
        connection.interrupt()

    timer = threading.Timer(request["seconds"], interrupt)
    timer.daemon = True
    timer.start()
    try:
        if pipe is not None:
            return _parquet(connection, text, request["limit"], pipe)
        return fetch(connection, text, request["limit"])
    except (MemoryError, duckdb.OutOfMemoryException) as error:
        raise SqlError(f"the query needs more memory than {request['memory'] >> 20} MiB") from error
    except (duckdb.IOException, duckdb.InvalidInputException):
        raise
    except (duckdb.Error, RuntimeError) as error:
        if late.is_set():
            raise SqlError(f"the query took longer than {request['seconds']:g} s") from error
        raise rejection(error, lines_before=1) from error
    finally:
        timer.cancel()


def rejection(error: BaseException, lines_before: int = 0) -> SqlError:
    """DuckDB's message and hint in one line, with line and column in place of its excerpt of the query.

    `lines_before`: number of lines that were put before the user's query.
    """
    text, _, excerpt = str(error).strip().partition("\nLINE ")
    said = " ".join(text.split()).replace(" - file system operations are disabled by configuration", "")
    said = re.sub(
        r'(Table .*) does not exist! Did you mean "(pg|duckdb|sqlite)_\w+"\?', r"\1 does not exist!", said
    )
    if "TIMESTAMP_NS" in said and "TIMESTAMP WITH TIME ZONE" in said:
        said += "; times here are in UTC without a zone: put ::TIMESTAMP after one with a zone"
    place = re.match(r"(?P<line>\d+): (?P<query>[^\n]*)\n(?P<before> *)\^", excerpt)
    if place is None:
        return SqlError(said or type(error).__name__)
    line = int(place["line"]) - lines_before
    if place["query"].startswith("..."):  # the line is long, and its beginning was left out
        return SqlError(said, line)
    column = len(place["before"]) - len(f"LINE {place['line']}: ") + 1
    return SqlError(f"{said} (line {line}, column {column})", line, column)


def _parquet(connection: duckdb.DuckDBPyConnection, text: str, limit: int, pipe: Pipe) -> bytes:
    """A header line of JSON and a Parquet file of at most `limit` rows. The rows are first put into a table,
    so that an error occurs before the first byte is sent, and it is known whether there are more rows.
    """
    connection.execute(f"CREATE TEMP TABLE answer AS SELECT * FROM (\n{text}\n) LIMIT {limit + 1}")
    ((rows,),) = connection.execute("SELECT count(*) FROM answer").fetchall()
    with pipe:
        connection.execute(
            f"COPY (FROM answer LIMIT {limit}) TO {quoted(pipe.path)} (FORMAT parquet, COMPRESSION zstd)"
        )
    header = {"parquet": True, "rows": min(rows, limit), "truncated": rows > limit}
    return json.dumps(header).encode() + b"\n" + pipe.taken()


class Pipe:
    """A pipe that DuckDB can write like a file, although the process may write no files. The content is kept
    in memory.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.path = f"/proc/self/fd/{self._writing}"
        self._parts: list[bytes] = []
        self._bytes = 0
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        while part := os.read(self._reading, 1 << 16):
            self._bytes += len(part)
            if self._bytes <= MAX_ANSWER_BYTES:
                self._parts.append(part)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        os.close(self._writing)
        self._thread.join()

    def taken(self) -> bytes:
        """Everything that was written. SqlError: it is too large."""
        if self._bytes > MAX_ANSWER_BYTES:
            raise _too_large()
        return b"".join(self._parts)


def _limit_process(seconds: float) -> None:
    import resource

    os.nice(5)
    cpu = int((seconds + 1) * min(4, os.cpu_count() or 1)) + 5
    for limit, limit_bytes in (
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu),
    ):
        resource.setrlimit(limit, (limit_bytes, limit_bytes))


def _limit_memory(memory_bytes: int) -> None:
    """Limit the address space to `memory_bytes` in addition to its present size,
    which includes the journals.
    """
    if not sys.platform.startswith("linux"):
        return
    import resource

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit_bytes = pages * resource.getpagesize() + memory_bytes + _OVERHEAD_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def _push(table: Table) -> bytes:
    """A header line of JSON, which contains the columns that NumPy has no type for; then the other columns as
    bytes.
    """
    columns: list[dict[str, Any]] = []
    blocks: list[bytes] = []
    for name, column in table.columns.items():
        described: dict[str, Any] = {"name": name}
        if column.dtype == object:
            described["values"] = plain(column)
        else:
            mask = np.ma.getmaskarray(column)
            described |= {"dtype": column.dtype.str, "masked": bool(mask.any())}
            blocks.append(np.ascontiguousarray(np.ma.getdata(column)).tobytes())
            if described["masked"]:
                blocks.append(mask.tobytes())
        columns.append(described)
    header = (
        json.dumps(
            {"columns": columns, "types": table.types, "rows": len(table), "truncated": table.truncated}
        ).encode()
        + b"\n"
    )
    size = len(header) + sum(map(len, blocks))
    if size > MAX_ANSWER_BYTES:
        raise _too_large()
    return b"".join([header, *blocks])


def _too_large() -> SqlError:
    return SqlError(f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB: ask for less")


@dataclass(frozen=True, slots=True)
class ParquetFile:
    """The answer to a query as a file."""

    content: bytes
    rows: int
    truncated: bool
    """Whether there are more rows than the limit."""


def pull(answer: bytes) -> Table | ParquetFile:
    """The table or file in an answer. SqlError, FilesError: the answer is this error."""
    end = answer.index(b"\n") + 1
    header = json.loads(answer[:end])
    if header.get("of_files"):
        raise FilesError(header["error"])
    if "error" in header:
        raise SqlError(header["error"], header.get("line"), header.get("column"))
    rows = header["rows"]
    if "parquet" in header:
        return ParquetFile(answer[end:], rows, header["truncated"])
    columns: dict[str, Any] = {}
    for described in header["columns"]:
        if "values" in described:
            column = np.empty(rows, dtype=object)
            column[:] = described["values"]
        else:
            dtype = np.dtype(described["dtype"])
            column = np.frombuffer(answer, dtype, rows, end)
            end += column.nbytes
            if described["masked"]:
                column = np.ma.masked_array(column, mask=np.frombuffer(answer, np.bool_, rows, end))
                end += rows
        columns[described["name"]] = column
    return Table(columns, header["truncated"], types=tuple(header["types"]))

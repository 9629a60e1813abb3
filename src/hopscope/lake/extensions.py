"""DuckDB's extensions, from wheels. They are loaded by path, so that nothing is ever downloaded.

DuckDB checks their signatures, which takes 0.4 CPU seconds. Only the first process that loads them does so;
later ones load the same files unchecked, as long as their size, inode and times have not changed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.extras import install_command
from ..base.kernels import kernel_cache
from ..history.columns import connect, quoted
from .database import LakeError

if TYPE_CHECKING:
    import duckdb

NAMES = ("httpfs", "ducklake", "postgres_scanner")


def extension_files(names: Sequence[str] = NAMES) -> list[Path]:
    """The extensions' files, in the order to load them. LakeError: one is missing,
    or is for another DuckDB.
    """
    found, version = [], importlib.metadata.version("duckdb")
    for name in names:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        if spec is None or not spec.submodule_search_locations:
            raise LakeError(f"lake: DuckDB's extension {name} is missing; {_help()}")
        folder = Path(spec.submodule_search_locations[0]) / "extensions"
        path = folder / f"v{version}" / f"{name}.duckdb_extension"
        if not path.exists():
            versions = ", ".join(sorted(entry.name for entry in folder.glob("v*"))) or "none"
            raise LakeError(f"lake: DuckDB is {version}, its extension {name} for {versions}; {_help()}")
        found.append(path)
    return found


def check_lake() -> None:
    """Check that everything that a lake needs is installed. LakeError: something is not."""
    extension_files()
    if importlib.util.find_spec("pg8000") is None:
        raise LakeError(f"lake: pg8000 is missing; {_help()}")


def _help() -> str:
    return f"install what fits together with: {install_command('lake')}"


def connect_with_extensions(memory_bytes: int, threads: int) -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB with all extensions, which loads nothing unsigned later. LakeError: an extension is
    missing or damaged.
    """
    import duckdb

    files = extension_files()
    checked = _checked(files)
    known = kernel_cache.find(checked) is not None
    connection = connect(memory_bytes, threads, unsigned=known)
    try:
        for path in files:
            try:
                connection.execute(f"LOAD {quoted(path)}")
            except duckdb.Error as error:
                raise LakeError(f"lake: {path.name} cannot be loaded ({error}); {_help()}") from error
        connection.execute("SET GLOBAL allow_unsigned_extensions = false")
        connection.execute("SET enable_external_file_cache = true")  # a lake's files may be remote
    except BaseException:
        connection.close()
        raise
    if not known:
        kernel_cache.write(checked, b"")
    return connection


def _checked(files: Sequence[Path]) -> str:
    """Name of the file in the cache whose existence says that these files have valid signatures."""
    states = [(path, path.stat()) for path in files]
    text = [(str(path), s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in states]
    return f"extensions/signatures/{hashlib.blake2b(repr(text).encode(), digest_size=16).hexdigest()}/checked"

"""DuckDB's extensions, from wheels: they are loaded by path, so that nothing is ever fetched."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..history.columns import quoted
from .database import LakeError

if TYPE_CHECKING:
    import duckdb

NAMES = ("httpfs", "ducklake", "postgres_scanner")
_HELP = "install what fits together with: pip install 'hopscope[lake]'"


def extension_files(names: Sequence[str] = NAMES) -> list[Path]:
    """Their files, in the order in which they load. LakeError: one is missing, or is for another DuckDB."""
    found, version = [], importlib.metadata.version("duckdb")
    for name in names:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        if spec is None or not spec.submodule_search_locations:
            raise LakeError(f"lake: DuckDB's extension {name} is missing; {_HELP}")
        folder = Path(spec.submodule_search_locations[0]) / "extensions"
        path = folder / f"v{version}" / f"{name}.duckdb_extension"
        if not path.exists():
            versions = ", ".join(sorted(entry.name for entry in folder.glob("v*"))) or "none"
            raise LakeError(f"lake: DuckDB is {version}, its extension {name} for {versions}; {_HELP}")
        found.append(path)
    return found


def check_lake() -> None:
    """LakeError: what the lake needs is not installed."""
    extension_files()
    if importlib.util.find_spec("pg8000") is None:
        raise LakeError(f"lake: pg8000 is missing; {_HELP}")


def load_extensions(connection: duckdb.DuckDBPyConnection) -> None:
    """Load all, which takes 0.2 s. LakeError: one is missing or damaged."""
    import duckdb

    for path in extension_files():
        try:
            connection.execute(f"LOAD {quoted(path)}")
        except duckdb.Error as error:
            raise LakeError(f"lake: {path.name} cannot be loaded ({error}); {_HELP}") from error

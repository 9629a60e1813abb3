"""One collector, as queries see it: its stores in a folder, or over its HTTP API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from ...base.errors import HopscopeError
from ..stores.answers import QueryOptions
from ..stores.folder import store_names
from ..stores.query import describe_all, query_store, read_list

Epoch = int | Literal["all"] | None
"""A past epoch; `all`: all epochs, newest first, until a key is found; None: the current epoch."""


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """How the APIs of collectors are asked."""

    token: str | None = None
    ca_file: Path | None = None
    """CA certificates to verify servers with; None: those of the system."""
    timeout_seconds: float = 5.0


NO_TOKEN = ApiAccess()
"""For an API that anyone may read, as on loopback."""


class CollectorError(HopscopeError):
    """A collector cannot be reached; the message says which, and why."""


class Collector(Protocol):
    """Queries to one collector. Methods raise CollectorError if it cannot be reached, and StoreError for a
    query that it cannot answer.
    """

    @property
    def name(self) -> str:
        """Its name in messages and answers."""

    def stores(self) -> list[dict[str, Any]]:
        """Descriptions of its stores, as from `stores.query.describe_all`."""

    def query(
        self, store: str, keys: Sequence[str], options: QueryOptions, epoch: Epoch
    ) -> list[dict[str, Any]]:
        """One object per key, as from `stores.query.query_store`."""

    def read_list(self, store: str, number: int, after: str | None, limit: int) -> tuple[list[str], int, str]:
        """(Entries of a list in hexadecimal, number of lost entries, place to continue at)."""


@dataclass(frozen=True, slots=True)
class LocalCollector:
    """The stores in a folder of this machine."""

    folder: Path

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.folder)

    def stores(self) -> list[dict[str, Any]]:
        """See `Collector`."""
        return describe_all(self.folder)

    def has(self, store: str) -> bool:
        """Whether there is a store of this name."""
        return store in store_names(self.folder)

    def query(
        self, store: str, keys: Sequence[str], options: QueryOptions, epoch: Epoch
    ) -> list[dict[str, Any]]:
        """See `Collector`."""
        return query_store(self.folder, store, keys, options, epoch)

    def read_list(self, store: str, number: int, after: str | None, limit: int) -> tuple[list[str], int, str]:
        """See `Collector`."""
        return read_list(self.folder, store, number, after=after, limit=limit)

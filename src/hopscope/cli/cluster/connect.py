"""Options of commands that connect to NATS, and their connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...base.errors import HopscopeError
from ..options.declare import option
from ..options.settings import NamedOptions

if TYPE_CHECKING:
    from ...cluster.connection import Connection
    from ...settings.collector import Settings


@dataclass(frozen=True)
class ClusterOptions(NamedOptions):
    """The cluster: that of the settings, or of a server."""

    nats: str | None = option(
        "--nats URL", "NATS servers, as nats://127.0.0.1:4222 (cluster.nats).", sets="cluster.nats"
    )
    cluster: str | None = option("--cluster NAME", "Name of the cluster (cluster.name).", sets="cluster.name")


@contextmanager
def connected(settings: Settings) -> Iterator[Connection]:
    """A connection to the cluster of the settings. Raises HopscopeError."""
    from ...cluster.connection import Connection

    if not settings.cluster.enabled:
        raise HopscopeError("no cluster: set cluster.nats in the settings, or --nats nats://HOST:4222")
    with Connection(settings.cluster, "cluster") as connection:
        yield connection

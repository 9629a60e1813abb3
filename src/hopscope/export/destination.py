"""The interface of destinations of events, for all kinds, including those of other packages.

A kind is a class with a model of its settings. Packages provide kinds as entry points of the group
`hopscope.destinations`; the name of the entry point is the `kind` in the settings.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ..base.errors import HopscopeError
from ..base.names import Names
from ..settings.destinations.common import ExportSettings
from .block import EventBlock


def one_line(problem: str | Exception) -> str:
    """The text of an error, or its type if it has none."""
    return " ".join(str(problem).split()) or type(problem).__name__


class DeliveryError(HopscopeError):
    """A destination did not accept a delivery; the reason, in one line, contains no password."""

    def __init__(
        self,
        problem: str | Exception,
        again: bool = True,
        *,
        rejected: int | None = None,
        after_seconds: float = 0.0,
    ) -> None:
        super().__init__(one_line(problem))
        self.again = again
        """Whether a retry may succeed."""
        self.rejected = rejected
        """If a retry is useless: number of events or samples rejected, the rest was accepted; None: all."""
        self.after_seconds = after_seconds
        """How long the destination asks to wait before the next attempt."""
        self.delivered = 0
        """Deliveries in the same `tick` that succeeded before this error."""


@dataclass(frozen=True, slots=True)
class Context:
    """The environment of a destination."""

    name: str
    """Its name in the settings."""
    member: str
    """Name of this collector."""
    names: Names
    """Names of nodes and ports."""
    count: Callable[[str, int], None]
    """Adds to a counter of `counters.EXPORTS`, as in `count("bytes_total", 512)`."""
    state: Path | None = None
    """File for the destination's own state; None: it keeps none."""
    queue_by_port: bool = True
    """Whether queue ids are per port (`detect.queue_key`)."""
    data: Path | None = None
    """The data folder, which contains silences; None: there are none."""
    regions: Path = Path()
    """Folder of the live state."""
    idle_seconds: float = 60.0
    """Time without reports after which a flow is no longer live (`detect.idle_seconds`)."""


class AnyDestination:
    """A destination of events or metrics. Its methods run in its own thread, and may block.

    They raise DeliveryError if the destination is unreachable, or does not accept a delivery.
    """

    _client: Any = None
    """The connection that `connect` makes, with a method `close`; None: there is none."""

    def __init__(self, settings: Any, context: Context) -> None:
        self.settings = settings
        self.context = context

    def connect(self) -> None:
        """Connect, and prepare databases, tables or streams; called at the start and after a failure."""
        return

    def close(self) -> None:
        """Close the connection, and all other resources."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


class Destination(AnyDestination, ABC):
    """A destination of events."""

    Settings: ClassVar[type[ExportSettings]]
    """Model of its settings."""
    buffers: ClassVar[bool] = False
    """Whether `send` only keeps a block, and `tick` delivers."""

    remembers: ClassVar[int] = 0
    """How many events before the first block of a shard `recall` shows to it."""

    @classmethod
    def check(cls, settings: Any) -> None:
        """Raises HopscopeError if the settings cannot work; called before the collector starts."""
        return

    @abstractmethod
    def send(self, block: EventBlock) -> None:
        """Deliver a block, and return when the destination has it.

        After a failure it is called again with the same block, perhaps in a new process. Destinations can
        recognise copies by `block.id`.
        """

    def recall(self, block: EventBlock) -> None:
        """Note the events before the next block, before filtering; called before `send`."""
        return

    def tick(self, idle: Collection[int], ending: bool) -> int:
        """Do what is due, and return how many deliveries succeeded; called before blocks are read.

        `idle`: shards whose events have all been sent; `ending`: this may be the last call.
        """
        return 0

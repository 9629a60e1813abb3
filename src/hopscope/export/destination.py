"""What a destination of events is: the contract that every kind follows, also those of other packages.

A kind is a class with a model of its settings.  Packages announce theirs as an entry point of the group
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
    """A destination did not accept what it was given; the reason, in one line, has no password."""

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
        """Without a retry: events or samples that the destination rejected, having the others; None: all."""
        self.after_seconds = after_seconds
        """How long the destination asks to be left alone."""
        self.delivered = 0
        """Deliveries of the same `tick` that succeeded before."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a destination may use."""

    name: str
    """Its name in the settings."""
    member: str
    """Name of this collector."""
    names: Names
    """Names of nodes and ports."""
    count: Callable[[str, int], None]
    """Adds to a counter of `counters.EXPORTS`, as `count("bytes_total", 512)`."""
    state: Path | None = None
    """File for a state of its own; None: it keeps none."""
    queue_by_port: bool = True
    """Whether a queue is one of its port (`detect.queue_key`)."""
    data: Path | None = None
    """The data folder, which has the silences; None: there are none."""
    regions: Path = Path()
    """Folder of the live state."""
    idle_seconds: float = 60.0
    """Time without reports after which a flow is no longer live (`detect.idle_seconds`)."""


class AnyDestination:
    """One place that events or metrics go to. Its methods run in its own thread, and may wait.

    They raise DeliveryError if the destination is away, or does not accept what it was given.
    """

    def __init__(self, settings: Any, context: Context) -> None:
        self.settings = settings
        self.context = context

    def connect(self) -> None:
        """Prepare databases, tables, streams; called at the start, and after a failure."""
        return

    def close(self) -> None:
        """Close what was opened."""
        return


class Destination(AnyDestination, ABC):
    """One place that events go to."""

    Settings: ClassVar[type[ExportSettings]]
    """Model of its settings."""
    buffers: ClassVar[bool] = False
    """Whether `send` only keeps a block, and `tick` delivers."""

    remembers: ClassVar[int] = 0
    """How many events before the first block of a shard it is shown by `recall`."""

    @classmethod
    def check(cls, settings: Any) -> None:
        """Raises HopscopeError if it cannot work with these settings; called before the collector starts."""
        return

    @abstractmethod
    def send(self, block: EventBlock) -> None:
        """Deliver a block, and return when the destination has it.

        It is called again with the same block after a failure, perhaps by another process: a destination that
        can tell copies apart does it by `block.id`.
        """

    def recall(self, block: EventBlock) -> None:
        """See events before those of the next block, wanted or not; called before `send`."""
        return

    def tick(self, idle: Collection[int], ending: bool) -> int:
        """Do what is due, and return how many deliveries succeeded; called before blocks are read.

        `idle` are the shards of which every event was sent; `ending`: this may be the last call.
        """
        return 0

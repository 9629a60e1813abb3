"""The queries that history answers, for one data folder (`query.History`) or all members of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, Unpack

if TYPE_CHECKING:
    import numpy.typing as npt

    from ..detect.distributions.quantiles import By, Distribution
    from ..detect.places import Place
    from .reading.filters import Filters, QueueFilters
    from .reading.highest import By as HighestBy
    from .reading.highest import Highest
    from .reading.page import Order
    from .reading.table import Table


class HistoryLike(Protocol):
    """Answers queries of history; `query.History` describes the results. Every
    method may raise HistoryError.
    """

    folder: Path
    """The data folder of this collector."""

    @property
    def problems(self) -> list[str]:
        """A line for each file that is skipped because it is damaged."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def close(self) -> None:
        """Release files and processes."""
        ...

    def events(
        self, *, limit: int | None = 1000, order: Order = "newest", after: str | None = None,
        **filters: Unpack[Filters],
    ) -> Table:  # fmt: skip
        """Events."""
        ...

    def flows(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Flows with events, newest first."""
        ...

    def paths(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Paths of flows, oldest first."""
        ...

    def summary(self, *, bucket_seconds: float | None = None, **filters: Unpack[Filters]) -> Table:
        """Events by kind and metric."""
        ...

    def hops(self, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Table:
        """Hops by their highest latency."""
        ...

    def peaks(
        self, metric: str, *, bucket_ns: int | None = None, limit: int | None = 100,
        places: Collection[Place] = (), **filters: Unpack[Filters],
    ) -> Table:  # fmt: skip
        """Places, ordered by the highest value of a metric; or their values over time."""
        ...

    def highest(
        self, metric: str, *, by: HighestBy = "highest", limit: int = 100,
        more: Mapping[str, npt.NDArray[Any]] | None = None, **filters: Unpack[Filters],
    ) -> Highest:  # fmt: skip
        """The places with the highest values of a metric, or with the most events, and the number of all
        places. `more` (values that are not from events) is supported only for a single data folder.
        """
        ...

    def sums(self, metric: str, *, limit: int | None = 100, **filters: Unpack[Filters]) -> Highest:
        """The places with the highest sums of hop latencies, or with the most drop reports."""
        ...

    def labels(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Labels by port and period, newest first."""
        ...

    def coverage(self, *, limit: int | None = 1000, **filters: Unpack[Filters]) -> Table:
        """Coverage of labels by period, newest first."""
        ...

    def moment(self, *, highest_from: int, **filters: Unpack[Filters]) -> Table:
        """Values of places at a past moment."""
        ...

    def steps(self, **filters: Unpack[Filters]) -> Table:
        """The next node behind each port, according to the paths of flows."""
        ...

    def activity(self, metric: str, *, bucket_seconds: float, **filters: Unpack[Filters]) -> Table:
        """Notable events and the highest value of a metric over time."""
        ...

    def distributions(
        self, *, by: By = "queue", bucket_ns: int | None = None, **filters: Unpack[QueueFilters]
    ) -> list[Distribution]:
        """Histograms of values by measure and place, or also over time."""
        ...

    def sql(
        self, text: str, *, limit: int = 10_000, seconds: float = 10.0,
        memory_bytes: int = 512 * 1024**2, stop: threading.Event | None = None,
    ) -> Table:  # fmt: skip
        """Run one SELECT."""
        ...

"""The interface of destinations of metrics, and one round of metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric

from ..destination import AnyDestination


@dataclass(frozen=True, slots=True)
class Round:
    """All metrics at one moment."""

    time_ms: int
    """When they were taken, ms since the epoch."""
    families: Sequence[Metric]

    def __len__(self) -> int:
        return sum(len(family.samples) for family in self.families)


class MetricsDestination(AnyDestination, ABC):
    """A destination of metrics."""

    @abstractmethod
    def send(self, taken: Round) -> None:
        """Deliver a round, and return when the destination has it; it may be called again with the same
        round.
        """

"""What a destination of metrics is, and one round of metrics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import Metric

from ..destination import Context


@dataclass(frozen=True, slots=True)
class Round:
    """All metrics of a moment."""

    time_ms: int
    """When they were taken, ms since the epoch."""
    families: Sequence[Metric]

    def __len__(self) -> int:
        return sum(len(family.samples) for family in self.families)


class MetricsDestination(ABC):
    """One place that metrics go to. All methods run in its own thread, may wait, and raise DeliveryError."""

    def __init__(self, settings: Any, context: Context) -> None:
        self.settings = settings
        self.context = context

    @abstractmethod
    def send(self, taken: Round) -> None:
        """Deliver a round, and return when the destination has it; it may be called again with the same."""

    def connect(self) -> None:
        """Prepare what is needed; called before the first round, and after a failure."""
        return

    def close(self) -> None:
        """Close what was opened."""
        return

"""Places that have values, and the buckets of time into which values are put."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...detect.records import Kind, Metric
from ...settings.limits import LimitSettings, MetricLimits, ThresholdSettings
from ..events import unit

if TYPE_CHECKING:
    from ...history.reading.table import Table

DROP = Kind.DROP.label
"""As a metric: the number of drop reports."""
OF_FLOWS = ("hop_latency", "flow_latency")
"""Metrics of which each flow has its own stored value."""
_WIDTHS = (
    *(n * 10**6 * scale for scale in (1, 10, 100) for n in (1, 2, 5)),
    *(n * 10**9 for n in (1, 2, 5, 10, 15, 30)),
    *(n * 60 * 10**9 for n in (1, 2, 5, 10, 15, 30)),
    *(n * 3600 * 10**9 for n in (1, 2, 3, 6, 12)),
    *(n * 86_400 * 10**9 for n in (1, 2, 7, 30)),
)


class Place(NamedTuple):
    """The place where values were measured."""

    node: int
    port: int | None
    """None: unknown, or a buffer."""
    ident: int | None
    """Queue or buffer; None: the whole port."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal parts of a time range; each starts at a multiple of the width since the epoch."""

    start_ns: int
    width_ns: int
    count: int

    @classmethod
    def of(cls, since_ns: int, until_ns: int, most: int) -> Buckets:
        """At most `most` + 1 buckets that cover a time range, with a round width."""
        span = max(1, until_ns - since_ns)
        width = next((width for width in _WIDTHS if width * most >= span), -(-span // most))
        start = since_ns // width * width
        return cls(start, width, -(-(max(until_ns, since_ns + 1) - start) // width))

    @property
    def end_ns(self) -> int:
        """End of the last bucket."""
        return self.start_ns + self.width_ns * self.count

    def at(self, time_ns: int) -> int | None:
        """Index of the bucket of a time, or None if it is in no bucket."""
        index = (time_ns - self.start_ns) // self.width_ns
        return index if 0 <= index < self.count else None


def times_ns(column: npt.NDArray[Any]) -> list[int]:
    """A column of times as ns since the epoch. The column consists of texts if it
    came from another member.
    """
    if column.dtype.kind != "M":
        column = np.array([text.removesuffix("Z") for text in column.tolist()], "datetime64[ns]")
    return column.astype("datetime64[ns]").astype(np.int64).tolist()


def integers(column: npt.NDArray[Any], missing: int = -1) -> npt.NDArray[np.int64]:
    """A column of whole numbers below 2^63 as int64, with `missing` for NULL; also from another member's
    table.
    """
    if column.dtype == object:
        return np.array([missing if value is None else value for value in column.tolist()], np.int64)
    return np.asarray(np.ma.filled(column.astype(np.int64), missing))


def place_rows(table: Table) -> list[Place]:
    """The place of each row."""
    columns = (table[name].tolist() for name in ("node_id", "port", "ident"))
    return [Place(*row) for row in zip(*columns, strict=True)]


def unit_of(metric: str) -> str | None:
    """Unit of a metric's values; None: the unit that the source uses."""
    return None if metric == DROP else unit(Metric[metric.upper()])


def limits_at(limits: LimitSettings, metric: str, node: int | None) -> MetricLimits | None:
    """Limits of a metric at a switch (`node` None: the general limits); None if the metric has no limits."""
    if metric not in ThresholdSettings.model_fields:
        return None
    general: MetricLimits = getattr(limits.general, metric)
    for switch in limits.switches:
        if switch.node == node and metric in type(switch).model_fields:
            return switch.resolved(limits.general, metric)
    return general

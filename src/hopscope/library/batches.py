"""Batches of reports, hops and events: NumPy columns, and tables of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..detect.records import ClearReason, Kind, Metric
from ..wire import timing
from ..wire.dialect import DEFAULT, Clock, Dialect
from ..wire.records import Flag, FrameBatch, Records, ReportBatch
from ..wire.records import Kind as ReportKind
from . import tables

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


class _Table:
    """Records that can be converted to tables of other libraries."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,}>"

    def _readable(self) -> tables.Readable:
        raise NotImplementedError

    def to_arrow(self) -> pyarrow.Table:
        """As a pyarrow.Table, addresses as text (needs `hopscope[arrow]`)."""
        return tables.to_arrow(self._readable())

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas.DataFrame, addresses as text (needs `hopscope[pandas]`)."""
        return tables.to_pandas(self._readable())

    def to_polars(self) -> polars.DataFrame:
        """As a polars.DataFrame, addresses as text (needs `hopscope[polars]`)."""
        return tables.to_polars(self._readable())


class Hops(_Table):
    """The hops of a batch of reports, HOP [hops]; `report` is the row of each hop's report."""

    def __init__(self, hops: Records, report: Any, layout: Any = 20, clock: Clock = DEFAULT.clock) -> None:
        self.records = hops
        self.report = report
        self._layout = np.broadcast_to(layout, len(hops))
        self._clock = clock

    def __len__(self) -> int:
        return len(self.records)

    def columns(self) -> tables.Columns:
        """Columns [hops], in path order; a value is valid only if its `present` bit is set."""
        return {"report": self.report, **tables.columns(self.records)}

    @property
    def link_latency_ns(self) -> np.ma.MaskedArray[Any, Any]:
        """From each hop's egress to the next one's ingress, int64 [hops], ns.

        Masked if it cannot be computed: at the end of a path, if a time is missing, and for all hops of
        dialects whose clocks are not comparable. Negative if the clocks differ by more than the latency of
        the link.
        """
        return timing.link_latency_ns(self.records, self.report, self._layout, self._clock)

    def _readable(self) -> tables.Readable:
        return {"report": self.report, **tables.readable(self.records)}


class Reports(_Table):
    """A batch of decoded reports, and the frames that contained them. A damaged report is a row with a
    `reason`.
    """

    def __init__(self, batch: ReportBatch, frames: FrameBatch, dialect: Dialect = DEFAULT) -> None:
        self.batch = batch
        self.frames = frames
        self.dialect = dialect
        """The dialect with which they were decoded."""

    def __len__(self) -> int:
        return len(self.batch)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Reports as `hopscope decode --format json` prints them."""
        from ..wire.decode.as_json import report_objects

        return iter(report_objects(self.batch, self.frames, self.dialect))

    def columns(self) -> tables.Columns:
        """Columns [reports], the fields of REPORT: views of the records, with raw numbers."""
        return tables.columns(self.batch.reports)

    @property
    def hops(self) -> Hops:
        """The hops of all reports, one path after another."""
        reports = self.batch.reports
        counts = reports["hop_count"].astype(np.int64)
        report = np.repeat(np.arange(len(reports)), counts)
        starts = np.repeat(reports["first_hop"].astype(np.int64), counts)
        within = np.arange(len(report)) - np.repeat(np.cumsum(counts) - counts, counts)
        versions = np.where(reports["flags"] & Flag.JOINED, reports["version"], reports["int_version"])
        return Hops(self.batch.hops[starts + within], report, versions[report], self.dialect.clock)

    def _readable(self) -> tables.Readable:
        return tables.readable(self.batch.reports, {"kind": ReportKind})


class Events(_Table):
    """Events, EVENT [records], in the order in which they were found.

    A path of more than eight nodes takes one record for every eight; `len` and columns count records.
    """

    def __init__(self, records: Records) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)

    def columns(self) -> tables.Columns:
        """Columns [events]: views of the records, with raw numbers; `kind` and `metric` are codes of `Kind`
        and `Metric`.
        """
        return tables.columns(self.records)

    def of(self, kind: Kind, metric: Metric | None = None) -> Events:
        """Only the events of a kind (and a metric). Raises ValueError for an unknown kind or metric."""
        mask = self.records["kind"] == Kind(kind)
        if metric is not None:
            mask &= self.records["metric"] == Metric(metric)
        return Events(self.records[mask])

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {kind}" for kind, count in self.by_kind().items())
        return f"<Events: {len(self):,}{f' ({counts})' if counts else ''}>"

    def by_kind(self) -> dict[str, int]:
        """Number of events of each kind; a path is one event, even if it takes several records."""
        from ..present.events import continues

        codes, counts = np.unique(self.records["kind"][~continues(self.records)], return_counts=True)
        return {Kind(code).label: int(count) for code, count in zip(codes.tolist(), counts, strict=True)}

    def _readable(self) -> tables.Readable:
        texts = tables.readable(self.records, {"kind": Kind, "metric": Metric, "reason": ClearReason})
        pairs = zip(texts["kind"], texts["reason"], strict=True)
        texts["reason"] = [str(reason) if kind == Kind.CLEARED.label else None for kind, reason in pairs]
        return texts

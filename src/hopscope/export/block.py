"""Blocks of events for destinations, and filters of events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.errors import HopscopeError
from ..detect.flows.reading.flow_walk import FlowBlock
from ..detect.records import Kind, Metric
from ..present.events import continues
from ..present.select import FlowFilter, on_path
from ..settings.destinations.common import ExportSettings
from ..wire.records import Records

Mask = npt.NDArray[np.bool_]
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class EventBlock:
    """Consecutive events of one shard, without those that the destination's filter excludes."""

    member: str
    """Name of the collector."""
    shard: int
    first: int
    """Sequence of the first event before filtering."""
    last: int
    """Sequence of the last event before filtering."""
    records: Records
    """EVENT, by sequence."""
    unfiltered: Records | None = None
    """EVENT records before filtering; None: nothing was filtered out."""

    @property
    def every(self) -> Records:
        """EVENT records before filtering."""
        return self.records if self.unfiltered is None else self.unfiltered

    @property
    def id(self) -> str:
        """`MEMBER-SHARD-FIRST-LAST-TIME`, the same for every attempt, so that destinations recognise copies.

        The time is that of the first event, in ns, since numbers restart in a new data folder.
        """
        return f"{self.member}-{self.shard}-{self.first}-{self.last}-{self.records['time_ns'][0]}"

    def __len__(self) -> int:
        return len(self.records)


class EventFilter:
    """The events that a destination wants: kinds, metrics, nodes, prefixes, and a sample of the flows.

    Raises HopscopeError for an unknown kind or metric.
    """

    def __init__(self, settings: ExportSettings) -> None:
        kinds = {kind.label: kind.value for kind in Kind}
        self._kinds = _codes("kinds", settings.read_kinds, kinds)
        self._endings = np.array([kinds[name] for name in settings.endings], np.uint8)
        self._metrics = _codes("metrics", settings.metrics, {metric.label: metric.value for metric in Metric})
        self._nodes = np.array(settings.nodes, np.uint32) if settings.nodes else None
        self._prefixes = FlowFilter(prefixes=settings.prefixes)
        self._sample = np.uint64(settings.sample)

    def of(self, events: Records) -> Records:
        """The matching EVENT records [n]; a long path matches with all of its records or none."""
        wanted = np.ones(len(events), bool)
        if self._kinds is not None:
            wanted &= self._kinds[events["kind"]]
        endings = wanted & np.isin(events["kind"], self._endings)
        if self._metrics is not None:
            wanted &= self._metrics[events["metric"]]
        if self._nodes is not None:
            wanted &= np.isin(events["node_id"], self._nodes) | on_path(events, self._nodes)
        if self._prefixes.prefixes:
            wanted &= self._inside(events)
        if self._sample > 1:
            wanted &= (events["flow_id"] == 0) | self._sampled(events)
        wanted |= endings
        if wanted.all():
            return events
        heads = np.maximum.accumulate(np.where(continues(events), 0, np.arange(len(events))))
        return events[wanted[heads]]

    def flows(self, block: FlowBlock) -> FlowBlock:
        """The matching live flows, by node, prefix and sample."""
        wanted = np.ones(len(block), bool)
        counts = np.diff(block.ends, prepend=0)
        of = np.repeat(np.arange(len(block)), counts)
        if self._nodes is not None:
            there = np.isin(block.hops["node_id"], self._nodes)
            wanted &= np.bincount(of[there], minlength=len(block)) > 0
        if self._prefixes.prefixes:
            wanted &= self._inside(block.flows)
        if self._sample > 1:
            wanted &= self._sampled(block.flows)
        if wanted.all():
            return block
        return FlowBlock(block.flows[wanted], block.hops[wanted[of]], np.cumsum(counts[wanted]))

    def _sampled(self, records: Records) -> Mask:
        """Records whose flow is in the sample."""
        mixed = (records["flow_id"] * _GOLDEN) >> np.uint64(33)
        return mixed % self._sample == 0

    def _inside(self, records: Records) -> Mask:
        """Records with a flow from or to one of the prefixes."""
        return self._prefixes.mask(records) & (records["ip_version"] != 0)


def _codes(key: str, names: Sequence[str], known: dict[str, int]) -> Mask | None:
    """A mask by code, bool [256]; None: all codes."""
    if not names:
        return None
    for name in names:
        if name not in known:
            raise HopscopeError(f"{key}: found {name!r}, expected one of {', '.join(known)}")
    found = np.zeros(256, bool)
    found[[known[name] for name in names]] = True
    return found

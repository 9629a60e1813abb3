"""One delivery to a destination: new records of the rings, or a part of the state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..detect.distributions.quantiles import Distribution
from ..detect.flows.flow_walk import FlowBlock
from ..wire.records import Records


@dataclass(frozen=True, slots=True)
class RingRead:
    """New records of one kind of ring, by shard, and the number lost before them."""

    blocks: Sequence[Records] = ()
    lost: int = 0

    def __len__(self) -> int:
        return sum(map(len, self.blocks))


@dataclass(frozen=True, slots=True)
class ExportBatch:
    """One delivery: new records of the rings, or a part of the state. Blocks are copies."""

    events: RingRead = RingRead()
    """EVENT: changes and alarms, as in history."""
    sink_events: RingRead = RingRead()
    """SINK_EVENT."""
    evicted: RingRead = RingRead()
    """EVICTED; all parts of a long path are in one block."""
    flows: FlowBlock | None = None
    """Live flows that have changed since they were last delivered."""
    distributions: Sequence[Distribution] | None = None
    """All distributions since the start of the workers, by switch."""
    begins: bool = False
    """From this batch on all flows are delivered again, since the destination's may be stale."""
    ends: bool = False
    """With this batch every flow that was live at `begins`, and still is, has been delivered."""

    def only(self, reads: frozenset[str]) -> ExportBatch:
        """The part of it from these kinds of rings."""
        return ExportBatch(**{name: getattr(self, name) for name in reads})

    @property
    def count(self) -> int:
        """Events and evictions."""
        return len(self.events) + len(self.sink_events) + len(self.evicted)

    @property
    def nbytes(self) -> int:
        """Their size in bytes."""
        reads = (self.events, self.sink_events, self.evicted)
        return sum(block.nbytes for read in reads for block in read.blocks)

    @property
    def lost(self) -> int:
        """Events and evictions lost before them."""
        return self.events.lost + self.sink_events.lost + self.evicted.lost

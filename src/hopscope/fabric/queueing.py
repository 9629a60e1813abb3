"""Exact FIFO queueing of a fabric, in time windows whose state carries over.

A port serves packets in order of arrival at its link's rate, after a pipeline of constant delay, with a
finite buffer and tail drop. Switches store and forward: a packet arrives with its last bit. Results do not
depend on the windows' limits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..wire.records import Records
from .records import FLOW, PACKET, PORT_STATE, PS, PS_NS, REPORT_STAGE, TRACE
from .topology import FabricError, Topology

MAX_WINDOW = 1 << 40
"""Longest window, ps: a sort key has 40 bits for the time in it."""
MAX_PACKETS = 1 << 24
"""Maximum packets in the network."""


@dataclass(frozen=True, slots=True)
class LinkModel:
    """Parameters of all ports of a fabric."""

    buffer_bytes: int = 1_500_000
    """Capacity of a port's queue, bytes on the wire; further packets are dropped."""
    pipeline_ns: int = 800
    """From a packet's arrival in a switch to its queue."""
    propagation_ns: int = 500
    """Delay of every cable."""


@dataclass(slots=True)
class Departures:
    """Packets of a window to report, in order of time: those with INT that reached the sink, and drops."""

    packets: Records
    """PACKET [reports]: copies."""
    paths: npt.NDArray[np.int32]
    """Port rows of the packets' paths, int32 [reports, stages]; -1: stage not used."""
    traces: Records
    """TRACE [reports, stages], written by the hops; meaningless if `packets.trace` is -1."""
    delivered: int = 0
    """Packets that left the network in this window, with or without INT."""
    dropped: int = 0


class Network:
    """All ports of a topology and the packets between them."""

    def __init__(self, topology: Topology, link: LinkModel = LinkModel()) -> None:
        from . import queueing_kernel

        self._kernel = queueing_kernel
        self._serve = queueing_kernel.serve if topology.feed_forward else queueing_kernel.serve_in_time
        self.topology = topology
        self.ports = port_states(topology, link)
        """PORT_STATE [ports]; faults change it, and readers take counters from it."""
        self._members, self._group_at = groups(topology, self.ports)
        self._packets = np.zeros(8192, PACKET)
        self._count = 0
        self._sorting = sorting(8192)
        self._traces = np.zeros((1024, topology.stages), TRACE)
        self._free = np.arange(1024, dtype=np.int64)
        self._free_count = 1024
        self.now = 0
        """End of the last window, ps."""
        self.emitted = 0
        """Packets sent by hosts."""
        self.delivered = 0
        self.dropped = 0
        self.hops = 0
        """Packets served by ports, including hosts' interfaces: the unit of simulation speed."""

    @property
    def in_flight(self) -> int:
        """Packets in the network."""
        return self._count

    def step(
        self, flows: Records, paths: npt.NDArray[np.int32], until: int, sample: float = 1.0
    ) -> Departures:
        """Advance to `until` (ps): hosts send packets, ports serve them; returns the reported packets.

        `paths` has the port rows of each flow's path, int32 [flows, stages]. `sample` is the share of a
        tracked flow's packets that carry INT.
        ValueError: longer than MAX_WINDOW. MemoryError: more than MAX_PACKETS packets are in the network.
        """
        if not 0 < until - self.now <= MAX_WINDOW:
            raise ValueError(f"a window is from 1 to {MAX_WINDOW} ps long, not {until - self.now}")
        self._emit(flows, until, sample)
        self.hops += self._serve(
            self._packets, self._count, self.now, until, *self._sorting,
            self.ports, self._members, self._group_at, self._traces, paths,
        )  # fmt: skip
        return self._report(flows, paths, until)

    def _emit(self, flows: Records, until: int, sample: float) -> None:
        before = self._count
        while True:
            self._count, self._free_count, full = self._kernel.emit(
                flows, until, sample, self._packets, self._count, self._free, self._free_count
            )
            if full < 0:
                break
            if not self._free_count:
                self._grow_traces()
                continue
            if self._count >= MAX_PACKETS:
                raise MemoryError(
                    f"more than {MAX_PACKETS:,} packets in the network: lower the load or the window"
                )
            self._packets = np.concatenate([self._packets, np.zeros(len(self._packets), PACKET)])
            self._sorting = sorting(len(self._packets))
        self.emitted += self._count - before

    def _grow_traces(self) -> None:
        """Double the trace block; the rows in use keep their numbers."""
        slots = len(self._free)
        free = np.zeros(2 * slots, np.int64)
        free[: self._free_count] = self._free[: self._free_count]
        free[self._free_count : self._free_count + slots] = np.arange(slots, 2 * slots)
        self._free, self._free_count = free, self._free_count + slots
        self._traces = np.concatenate([self._traces, np.zeros_like(self._traces)])

    def _report(self, flows: Records, paths: npt.NDArray[np.int32], until: int) -> Departures:
        count = self._kernel.arrivals(
            self._packets, self._count, REPORT_STAGE, self.now, until, *self._sorting
        )
        keys = self._sorting[-1][:count]
        rows = np.zeros(count, np.int64)
        rows = rows[: self._kernel.reportable(self._packets, keys, rows)]
        packets = self._packets.take(rows)
        taken, traces = paths.take(packets["route"], axis=0), self._traces.take(packets["trace"], axis=0)
        self._count, self._free_count, delivered, dropped = self._kernel.retire(
            self._packets, self._count, until, flows, self._free, self._free_count
        )
        self.delivered += delivered
        self.dropped += dropped
        self.now = until
        return Departures(packets, taken, traces, delivered, dropped)


def sorting(rows: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.uint64]]:
    """The arrays in which the kernel sorts up to `rows` packets by time: its work space, then the sorted
    keys.
    """
    return np.zeros(rows, np.uint64), np.zeros(rows + 1, np.int64), np.zeros(rows, np.uint64)


def port_states(topology: Topology, link: LinkModel) -> Records:
    """PORT_STATE [ports] of an idle fabric; hosts' interfaces have unlimited buffers and no pipeline."""
    ports = topology.ports
    state = np.zeros(len(ports), PORT_STATE)
    if np.any(8 * PS % ports["rate"]):
        raise FabricError("a link rate must divide 8·10^12 bit/s: a byte must take a whole number of ps")
    state["ps_per_byte"] = 8 * PS // ports["rate"]
    state["pipeline"] = link.pipeline_ns * PS_NS
    state["propagation"] = np.where(ports["delay_ns"] < 0, link.propagation_ns, ports["delay_ns"]) * PS_NS
    state["buffer"] = link.buffer_bytes
    state["stage"] = ports["stage"]
    state["group"] = ports["switch"] * 2 + ports["buffer_id"]
    cards = ports["switch"] < 0
    state["pipeline"][cards] = 0
    state["buffer"][cards] = 1 << 62
    state["group"][cards] = -1
    return state


def groups(topology: Topology, state: Records) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Ports that share a buffer: port rows by group, and the start of each group [groups + 1]."""
    group = state["group"]
    rows = np.nonzero(group >= 0)[0]
    members = rows[np.argsort(group[rows], kind="stable")].astype(np.int32)
    begins = np.searchsorted(group[members], np.arange(2 * len(topology.switches) + 1)).astype(np.int32)
    return members, begins


def flow_table(rows: int) -> Records:
    """An empty flow table."""
    return np.zeros(rows, FLOW)

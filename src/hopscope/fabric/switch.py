"""INT in switches: metadata in packets, and reports of sinks and of switches that drop packets.

In mode md every switch of a packet's path is an INT-MD hop; the last one is the sink, which sends a Telemetry
Report when the packet's first bit leaves it. In modes mx (INT-MX: the packet carries only instructions) and
xd (INT-XD: it carries nothing) every switch of the path sends a postcard, a report with its own metadata. A
switch that drops a packet sends a drop report with port, queue and reason.

Units: times in ns (hop latency: from arrival in the switch to the first bit on the egress link), queue and
buffer occupancy in cells of 80 bytes, queue congestion (INT 0.5) in percent of the queue's buffer, tx
utilisation per mille of the link's rate over the last complete 10 ms. A queue's id is its egress port's
number, so it is unique in its switch; buffer 0 serves the ports towards the spine, buffer 1 those towards the
hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..wire.encode.encoder import mapped_v4
from ..wire.records import HOP, MAX_HOPS, REPORT, Carried, Flag, Have, Kind, Mode, Records, ReportBatch
from ..wire.versions import REPORT_VERSIONS
from .instructions import INSTRUCTIONS, clear_absent, fields_of, most_hops
from .queueing import Departures
from .records import PORT_STATE, PS, PS_NS
from .topology import FabricError, Topology

CELL_BYTES = 80
"""Unit of queue and buffer occupancy."""
MODES = ("md", "mx", "xd")
"""INT modes: embed data, embed instructions, export data."""
MAX_INT_HOPS = 8
"""Remaining hop count that INT sources write; in an own topology with longer paths, their hops."""
HOST_TTL = 64
"""TTL of packets as hosts send them; each switch decrements it."""
_LOW_32 = np.uint64(0xFFFFFFFF)
_IDENTITY = np.dtype(
    [(name, REPORT[name]) for name in ("node_id", "hw_id", "source_lo", "index", "sequence", "packet")]
)


@dataclass(frozen=True)
class ReportModel:
    """Parameters of INT and its reports."""

    version: str = "2.0"
    mode: str = "md"
    """md, mx or xd; postcards are Reports 2.0."""
    instructions: int | None = None
    """Instruction bitmap of INT; none: every field of the version."""
    group: int = 1
    """Maximum reports per datagram (Report 2.0)."""
    pipes: int = 2
    """Hardware units of a switch: port p has hw id (p - 1) mod `pipes`; each counts sequence numbers."""
    reports_per_switch: int = 0
    """Maximum INT reports per second of a sink; 0: no limit."""
    drops_per_switch: int = 2000
    """Maximum drop reports per second of a switch; 0: no limit."""
    source_address: int = (127 << 24) | 1
    """IPv4 source address of the first switch's reports; each further switch has the next."""
    epoch_ns: int = 1_700_000_000_000_000_000
    """Start time of the switches' clock and of reports."""


class Switches:
    """The INT function of all switches: packets to reports."""

    def __init__(self, topology: Topology, ports: Records, model: ReportModel) -> None:
        if model.version not in REPORT_VERSIONS:
            raise FabricError(f"report version {model.version!r}: expected {', '.join(REPORT_VERSIONS)}")
        if model.group > 1 and model.version != "2.0":
            raise FabricError("only Report 2.0 puts several reports into one datagram")
        if model.mode not in MODES:
            raise FabricError(f"mode {model.mode!r}: expected {', '.join(MODES)}")
        if model.mode != "md" and model.version != "2.0":
            raise FabricError(f"mode {model.mode} takes Report 2.0")
        if ports.dtype != PORT_STATE:
            raise TypeError("ports are PORT_STATE records")
        self.topology, self.model, self.ports = topology, model, ports
        self.version = REPORT_VERSIONS[model.version]
        self.instructions = INSTRUCTIONS[self.version] if model.instructions is None else model.instructions
        self.present, self.hop_words = fields_of(self.version, self.instructions)
        self._hops_sent = max(MAX_INT_HOPS, topology.stages - 1)
        self._sequence = np.zeros(len(topology.switches) * model.pipes, np.int64)
        self._tokens = np.zeros((2, len(topology.switches)))
        self._datagrams = 0
        self._begin = 0  # start of the next window, ps
        self.suppressed = 0
        """Reports suppressed by a limit."""

    @property
    def max_hops(self) -> int:
        """Maximum switches of a path whose metadata fits into INT."""
        return most_hops(self.version, self.hop_words) if self.model.mode == "md" else MAX_HOPS

    def report(self, departures: Departures, flows: Records, window_ps: int) -> ReportBatch:
        """Reports of one window, in order of time: REPORT rows (`packet` counts datagrams) and HOP rows.

        `flows` is the flow table. Grouped reports follow each other: they share `packet` and `sequence`, and
        `index` counts in the group.
        """
        packets, paths, traces, stage = self._reporting(departures)
        self._begin += window_ps
        port = paths[np.arange(len(packets)), stage]
        rows = np.nonzero(self._within_limits(port, packets["drop_reason"] > 0, window_ps))[0]
        identity = self._identify(port[rows])
        order = np.lexsort((identity["index"], identity["packet"]))
        identity, rows = identity.take(order), rows[order]
        packets, paths, traces = packets.take(rows), paths.take(rows, axis=0), traces.take(rows, axis=0)
        port, stage = port[rows], stage[rows]
        dropped = packets["drop_reason"] > 0
        reports = np.zeros(len(packets), REPORT)
        for name in _IDENTITY.names or ():
            reports[name] = identity[name]
        if self.model.mode == "md":
            hops, reports["first_hop"], reports["hop_count"] = self._hops(packets, paths, traces, dropped)
        else:
            hops = self._postcards(paths, traces, stage, dropped)
            reports["first_hop"] = np.arange(len(packets))
            reports["ingress_time"] = hops["ingress_time"]
            reports["packet_id"] = packets["number"] % 0xFFFF + 1
            used = (paths >= 0).cumsum(axis=1)[np.arange(len(packets)), stage]
            reports["ttl"] = HOST_TTL + 2 - used  # the host and the reporting switch do not count
        reports["time_ns"] = self.model.epoch_ns + packets["time"] // PS_NS
        reports["version"] = self.version
        reports["kind"] = np.where(dropped, Kind.DROP, Kind.INT)
        reports["flags"] = np.where(dropped, Flag.DROPPED, Flag.TRACKED)
        if self.version != 20:
            reports["ingress_time"] = self._clock(
                np.where(dropped, packets["time"], traces["ingress"][:, -1])
            )
        reports["carried"] = np.where(dropped, *self._carried())
        reports["drop_reason"] = packets["drop_reason"]
        named = dropped | bool(self._carried()[1] & Carried.QUEUE_ID)
        reports["queue_id"] = np.where(named, self.topology.ports["number"][port], 0)
        if self.version == 5:
            reports["node_id"][~dropped] = 0  # Report 0.5 names the switch in drop and queue headers only
        self._fill_flow(reports, packets, flows.take(packets["flow"]))
        self._fill_int(reports, ~dropped)
        return ReportBatch(reports, hops, int(reports["packet"][0]) if len(reports) else self._datagrams)

    def _reporting(
        self, departures: Departures
    ) -> tuple[Records, npt.NDArray[np.int32], Records, npt.NDArray[np.int64]]:
        """Packets to report with the time of the report, their paths and traces, and the stage of the
        reporting switch; in order of time.
        """
        packets, paths, traces = departures.packets, departures.paths, departures.traces
        dropped = packets["drop_reason"] > 0
        at_end = np.where(dropped, packets["drop_stage"], paths.shape[1] - 1).astype(np.int64)
        if self.model.mode == "md":
            return packets, paths, traces, at_end
        stages = np.arange(paths.shape[1])
        passed = (paths >= 0) & (stages > 0) & ~dropped[:, None]
        passed |= dropped[:, None] & (stages == at_end[:, None])
        which, stage = np.nonzero(passed)
        packets, paths = packets.take(which), paths.take(which, axis=0)
        traces = traces.take(which, axis=0)
        left = traces["egress"][np.arange(len(which)), stage]
        # a departure in the previous window is known when the packet has arrived: late, but in order
        packets["time"] = np.where(dropped[which], packets["time"], np.maximum(left, self._begin))
        order = np.lexsort((stage, packets["number"], packets["time"]))
        return packets.take(order), paths.take(order, axis=0), traces.take(order, axis=0), stage[order]

    def _postcards(
        self,
        paths: npt.NDArray[np.int32],
        traces: Records,
        stage: npt.NDArray[np.int64],
        dropped: npt.NDArray[np.bool_],
    ) -> Records:
        """HOP [reports]: each switch's own metadata."""
        rows = np.arange(len(paths))
        egress, previous = paths[rows, stage], _previous(paths)[rows, stage - 1]
        hops = self._written(egress, previous, traces.take(rows * paths.shape[1] + stage))
        hops["present"] |= np.uint16(Have.NODE_ID)
        hops["node_id"] = self.topology.ports["node_id"][egress]
        hops[dropped] = self._own(egress[dropped], previous[dropped])
        return hops

    def _fill_flow(self, reports: Records, packets: Records, flows: Records) -> None:
        for side in ("src", "dst"):
            reports[f"{side}_lo"] = mapped_v4(flows[f"{side}_address"])
        for name in ("sport", "dport", "proto"):
            reports[name] = flows[name]
        reports["ip_version"] = 4
        reports["inner_length"] = packets["size"]

    def _fill_int(self, reports: Records, carrying: npt.NDArray[np.bool_]) -> None:
        """Fill in the INT headers of reports that carry INT, which lengthen their packets."""
        if self.model.mode == "xd":
            return
        hops = reports["hop_count"].astype(np.int64)
        size = 4 * self.hop_words * hops + (12 if self.version == 10 else 16)
        path = self.model.mode == "md"
        reports["inner_length"] += np.where(carrying, size, 0).astype(np.uint32)
        for name, value in (
            ("int_version", self.version),
            ("int_mode", Mode.MD if path else Mode.MX),
            ("instructions", self.instructions),
            ("hop_words", self.hop_words * path),
            ("remaining_hops", (self._hops_sent - hops) * path),
        ):
            reports[name] = np.where(carrying, value, 0)

    def _carried(self) -> tuple[int, int]:
        """`carried` bits of a drop report and of an INT report."""
        both = Carried.FLOW | Carried.PORTS
        time = Carried.INGRESS_TIME if self.version != 20 else 0
        own = Carried.NODE_ID | Carried.OWN_HOP | Carried.QUEUE_ID | Carried.DROP_REASON
        if self.model.mode != "md":
            queue = Carried.QUEUE_ID if self.present & Have.QUEUE_OCCUPANCY else 0
            clock = Carried.INGRESS_TIME if self.present & Have.INGRESS_TIME else 0
            return both | own, both | Carried.NODE_ID | Carried.OWN_HOP | queue | clock
        return both | time | own, both | time | (Carried.NODE_ID if self.version != 5 else 0)

    def _within_limits(
        self, port: npt.NDArray[np.int32], dropped: npt.NDArray[np.bool_], window_ps: int
    ) -> npt.NDArray[np.bool_]:
        """Reports within the switches' limits, bool [reports]."""
        switch = self.topology.ports["switch"][port]
        kept = np.ones(len(port), bool)
        limits = (self.model.reports_per_switch, self.model.drops_per_switch)
        for kind, limit in enumerate(limits):
            if not limit:
                continue
            tokens = self._tokens[kind]
            np.minimum(tokens + limit * window_ps / PS, max(1.0, limit / 10), out=tokens)
            rows = np.nonzero(dropped == bool(kind))[0]
            kept[rows] = _rank(switch[rows]) < np.floor(tokens)[switch[rows]]
            tokens -= np.bincount(switch[rows][kept[rows]], minlength=len(tokens))
        self.suppressed += int((~kept).sum())
        return kept

    def _identify(self, port: npt.NDArray[np.int32]) -> Records:
        """Source, datagram and sequence number of each report: _IDENTITY [reports]."""
        ports, pipes, group = self.topology.ports, self.model.pipes, self.model.group
        identity = np.zeros(len(port), _IDENTITY)
        switch = ports["switch"][port].astype(np.int64)
        unit = (ports["number"][port].astype(np.int64) - 1) % pipes
        space = switch * pipes + unit
        rank = _rank(space)
        identity["node_id"] = ports["node_id"][port]
        identity["hw_id"] = unit
        identity["source_lo"] = mapped_v4((self.model.source_address + switch).astype(np.uint32))
        identity["index"] = rank % group
        sequence = self._sequence[space] + rank // group
        identity["sequence"] = sequence & (0x3FFFFF if self.version == 20 else 0xFFFFFFFF)
        np.maximum.at(self._sequence, space, sequence + 1)
        # a datagram's number is the time order of its first report
        at = np.arange(len(port))
        order = np.lexsort((rank, space))
        first = order[np.maximum.accumulate(np.where(rank[order] % group == 0, at, 0))]
        number = np.cumsum(rank % group == 0) - 1
        identity["packet"][order] = number[first] + self._datagrams
        self._datagrams += int((rank % group == 0).sum())
        return identity

    def _hops(
        self,
        packets: Records,
        paths: npt.NDArray[np.int32],
        traces: Records,
        dropped: npt.NDArray[np.bool_],
    ) -> tuple[Records, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """HOP rows in path order, and each report's first row and count; a drop report's own row is not
        counted.
        """
        path, previous = paths[:, 1:], _previous(paths)
        used = (path >= 0) & ~dropped[:, None]
        counts = used.sum(axis=1)
        used[dropped, packets["drop_stage"][dropped] - 1] = True
        report, column = np.nonzero(used)  # row by row, so in path order
        egress, before = path[report, column], previous[report, column]
        hops = self._written(egress, before, traces.take(report * paths.shape[1] + column + 1))
        own = dropped[report]
        hops[own] = self._own(egress[own], before[own])
        rows = used.sum(axis=1)
        return hops, np.cumsum(rows) - rows, counts

    def _ports(self, hops: Records, egress: npt.NDArray[np.int32], previous: npt.NDArray[np.int32]) -> None:
        ports = self.topology.ports
        hops["node_id"] = ports["node_id"][egress]
        hops["ingress_port"] = ports["peer_number"][previous]
        hops["egress_port"] = ports["number"][egress]

    def _written(
        self, egress: npt.NDArray[np.int32], previous: npt.NDArray[np.int32], trace: Records
    ) -> Records:
        """HOP rows for hops with these `egress` ports, coming from `previous` ports."""
        hops = np.zeros(len(egress), HOP)
        self._ports(hops, egress, previous)
        ingress, leave = trace["ingress"] // PS_NS, trace["egress"] // PS_NS
        hops["hop_latency"] = leave - ingress
        hops["ingress_time"] = self._clock(trace["ingress"])
        hops["egress_time"] = self._clock(trace["egress"])
        hops["queue_occupancy"] = -(-trace["occupancy"].astype(np.int64) // CELL_BYTES)
        hops["buffer_occupancy"] = -(-trace["buffer"].astype(np.int64) // CELL_BYTES)
        hops["tx_utilization"] = trace["utilization"]
        hops["queue_congestion"] = trace["occupancy"].astype(np.int64) * 100 // self.ports["buffer"][egress]
        hops["queue_id"] = hops["congestion_queue_id"] = hops["egress_port"]
        hops["buffer_id"] = self.topology.ports["buffer_id"][egress]
        hops["l2_ingress_port"] = hops["node_id"] << 8 | hops["ingress_port"]
        hops["l2_egress_port"] = hops["node_id"] << 8 | hops["egress_port"]
        hops["present"] = self.present
        clear_absent(hops, self.present)
        return hops

    def _own(self, egress: npt.NDArray[np.int32], previous: npt.NDArray[np.int32]) -> Records:
        """HOP rows of drop reports, with node and ports."""
        hops = np.zeros(len(egress), HOP)
        self._ports(hops, egress, previous)
        hops["present"] = Have.NODE_ID | Have.PORTS
        return hops

    def _clock(self, ps: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Switch time, ns, in the width of the version's timestamps."""
        ns = (self.model.epoch_ns + ps // PS_NS).astype(np.uint64)
        return ns if self.version == 20 else ns & _LOW_32


def _rank(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Number of equal keys before each, int64 [keys]."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(keys) else np.zeros(0, bool)
    at = np.arange(len(keys))
    rank = np.zeros(len(keys), np.int64)
    rank[order] = at - np.maximum.accumulate(np.where(begins, at, 0)) if len(keys) else at
    return rank


def _previous(path: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Previous port on the path, by stage after the first, int32 [packets, stages - 1]."""
    stages = np.where(path >= 0, np.arange(path.shape[1]), 0)
    last = np.maximum.accumulate(stages, axis=1)[:, :-1]
    return np.asarray(np.take_along_axis(path, last, axis=1))

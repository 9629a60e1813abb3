"""TCP over a fabric: a workload for monitors of losses, timeouts and flowlets.

The fabric's own traffic is open loop and moves in windows. Here, senders react to the network, so every
packet is a separate event, and is kept; the simulation is meant for some hundred thousand packets. Ports,
queues and faults are those of the fabric.

Senders follow RFC 5681 (slow start, congestion avoidance, fast retransmit), 6582 (NewReno) and 6298 (timer)
in whole segments; no selective or delayed acknowledgments. An application writes bursts, and pauses when a
burst is acknowledged. SYN and FIN are separate segments; only one side sends.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..wire.observation import OBSERVATION, TCP, flow_bytes
from ..wire.records import Records
from . import faults as faults_module
from .faults import Fault, FaultKind
from .observe import in_order, spread
from .queueing import LinkModel, groups, port_states
from .records import CONNECTION, PACKET, PS, PS_NS, SEGMENT, TIMEOUT, TRACE
from .topology import FabricError, Topology, flow_hash
from .traffic import TCP_PAYLOAD, TCP_PORTS, WEB_SEARCH, SizeDistribution

END_OF_TIME = 1 << 62
"""A time after all events, ps."""
DEFAULT_LINK = LinkModel()


@dataclass(frozen=True)
class TcpModel:
    """Parameters of connections and senders."""

    connections: int = 100
    within_s: float = 0.02
    """Connections start at random within this time, s."""
    sizes: SizeDistribution = WEB_SEARCH
    max_bytes: int = 1_000_000
    """Maximum size, since every packet is kept."""
    burst_bytes: int = 0
    """Bytes per write of an application; 0: all."""
    pause_s: float = 0.002
    """Mean of the application's exponential pauses, s."""
    window: int = 128
    """Receivers' window, segments."""
    initial_window: int = 10
    """Segments (RFC 6928)."""
    min_rto_s: float = 0.01
    """RFC 6298 requires 1 s; data centres use a few ms."""
    initial_rto_s: float = 0.03
    max_rto_s: float = 2.0
    """Upper limit of the doubled timer."""
    epoch_ns: int = 1_700_000_000_000_000_000
    """Switches' clock at the start."""


@dataclass(slots=True)
class _Blocks:
    """Arrays filled by the loop; it stops when one is full, and is called again with larger ones."""

    traces: Records
    packets: Records = field(default_factory=lambda: np.zeros(8192, PACKET))
    log: Records = field(default_factory=lambda: np.zeros(8192, SEGMENT))
    timeouts: Records = field(default_factory=lambda: np.zeros(1024, TIMEOUT))
    heap: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros((16384, 2), np.int64))
    fill: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(3, np.int64))

    def grow(self) -> None:
        """Double the arrays."""
        for name in ("packets", "log", "traces", "timeouts", "heap"):
            block = getattr(self, name)
            setattr(self, name, np.concatenate([block, np.zeros_like(block)]))


class TcpSimulation:
    """Connections between hosts of a topology, moved forward by `run`; the same seed gives the same bytes.

    Supported faults are lossy ports and slow hops. Raises FabricError for others.
    """

    def __init__(
        self,
        topology: Topology,
        model: TcpModel = TcpModel(),
        link: LinkModel = DEFAULT_LINK,
        faults: tuple[Fault, ...] = (),
        seed: int = 1,
    ) -> None:
        if model.connections < 1 or topology.hosts < 2:
            raise FabricError("TCP needs at least one connection and two hosts")
        if not 1 <= model.window <= 4096 or not 1 <= model.initial_window <= model.window:
            raise FabricError(f"a window of {model.window} segments, {model.initial_window} at first")
        for fault in faults:
            if fault.kind not in (FaultKind.LOSSY_PORT, FaultKind.SLOW_HOP):
                raise FabricError(f"{fault}: with TCP a port is lossy or slow")
        self.topology, self.model = topology, model
        self.ports = port_states(topology, link)
        """PORT_STATE [ports]."""
        self._members, self._group_at = groups(topology, self.ports)
        self.paths = np.zeros((2 * model.connections, topology.stages), np.int32)
        """Port rows of the paths, int32 [2 · connections, stages]: of each connection, there and back."""
        self.connections = self._draw(np.random.default_rng(seed))
        """CONNECTION [connections], with the ground truth of each."""
        segments = self.connections["segments"].astype(np.int64) + 2
        self.connections["first"] = np.cumsum(segments) - segments
        self._got = np.zeros(int(segments.sum()), np.uint8)
        self._blocks = _Blocks(np.zeros((8192, topology.stages), TRACE))
        self._limits = np.array([model.min_rto_s * PS, model.max_rto_s * PS, model.window], np.int64)
        self._changes = sorted(
            [(round(f.start * PS), True, f) for f in faults]
            + [(round(f.end * PS), False, f) for f in faults],
            key=lambda change: (change[0], change[1], change[2].port),
        )
        self._begin()

    def run(self, seconds: float | None = None) -> None:
        """Advance to `seconds`, or until no event is left."""
        end = END_OF_TIME if seconds is None else round(seconds * PS)
        while self._changes and self._changes[0][0] < end:
            at, begins, fault = self._changes.pop(0)
            self._until(at)
            faults_module.apply(fault, self.ports, begins)
        self._until(end)

    @property
    def packets(self) -> Records:
        """PACKET [packets]: every packet sent; dropped ones have a reason."""
        return self._blocks.packets[: int(self._blocks.fill[0])]

    @property
    def segments(self) -> Records:
        """SEGMENT [packets]: their TCP fields."""
        return self._blocks.log[: int(self._blocks.fill[0])]

    @property
    def timeouts(self) -> Records:
        """TIMEOUT, in order of time."""
        return self._blocks.timeouts[: int(self._blocks.fill[2])]

    @property
    def idle(self) -> bool:
        """Whether no event is left."""
        return not self._blocks.fill[1]

    def observations(self) -> Records:
        """OBSERVATION of all delivered or dropped packets, in order of time."""
        done = np.flatnonzero((self.packets["drop_reason"] > 0) | (self.segments["arrived"] > 0))
        packets, segments = self.packets[done], self.segments[done]
        connections = self.connections[segments["connection"]]
        observations = np.zeros(len(done), OBSERVATION)
        observations["packet"] = packets["number"]
        is_ack = segments["is_ack"][:, None] == 1
        observations["flow"] = np.where(is_ack, connections["back_flow"], connections["flow"])
        observations["size"] = packets["size"]
        for name in ("payload", "sequence", "acknowledgment", "flags"):
            observations[name] = segments[name]
        observations["ip_version"] = 4
        paths, traces = self.paths[packets["route"]], self._blocks.traces[done]
        return in_order(
            [spread(self.topology, self.ports, packets, paths, traces, observations, self.model.epoch_ns)]
        )

    def flowlets(self, gap_ns: int) -> dict[bytes, list[int]]:
        """Packets per flowlet at the sender, by flow (both directions); a gap of more than `gap_ns` ends a
        flowlet.
        """
        found: dict[bytes, list[int]] = {}
        last: dict[bytes, int] = {}
        for segment in self.segments[np.argsort(self.segments["sent"], kind="stable")]:
            connection = self.connections[segment["connection"]]
            flow = connection["back_flow" if segment["is_ack"] else "flow"].tobytes()
            sizes, sent = found.setdefault(flow, []), int(segment["sent"])
            if not sizes or sent - last[flow] > gap_ns * PS_NS:
                sizes.append(0)
            sizes[-1] += 1
            last[flow] = sent
        return found

    def _until(self, end: int) -> None:
        from .tcp_kernel import run

        blocks = self._blocks
        while not run(
            end, self._limits, self.connections, self.paths, self._got, self.ports, self._members,
            self._group_at, blocks.traces, blocks.packets, blocks.log, blocks.timeouts, blocks.heap,
            blocks.fill,
        ):  # fmt: skip
            blocks.grow()

    def _begin(self) -> None:
        from .tcp_kernel import KINDS, WRITES, push

        blocks = self._blocks
        while len(blocks.heap) < 2 * len(self.connections):
            blocks.grow()
        for row, start in enumerate(self.connections["start"].tolist()):
            push(blocks.heap, blocks.fill, start, row * KINDS + WRITES)

    def _draw(self, rng: np.random.Generator) -> Records:
        model, topology, count = self.model, self.topology, self.model.connections
        made = np.zeros(count, CONNECTION)
        source = rng.integers(0, topology.hosts, count)
        target = (source + rng.integers(1, topology.hosts, count)) % topology.hosts
        sport, dport = 1024 + rng.choice(60_000, count, replace=count > 60_000), rng.choice(TCP_PORTS, count)
        for way, flow, ends in (
            (0, "flow", (source, target, sport, dport)),
            (1, "back_flow", (target, source, dport, sport)),
        ):
            src, dst = topology.host_address[ends[0]], topology.host_address[ends[1]]
            made[flow] = flow_bytes(src, dst, TCP, *ends[2:])
            hashes = flow_hash(src, dst, np.full(count, TCP), *ends[2:])
            self.paths[way::2] = topology.paths(ends[0], ends[1], hashes)
        made["start"] = rng.integers(0, round(model.within_s * PS) + 1, count)
        made["bytes"] = np.minimum(model.sizes.draw(rng.random(count)), model.max_bytes)
        made["mss"], made["pause"] = TCP_PAYLOAD, round(model.pause_s * PS)
        made["segments"] = -(-made["bytes"] // TCP_PAYLOAD)
        burst = model.burst_bytes or model.max_bytes
        made["burst"] = -(-burst // TCP_PAYLOAD)
        made["cwnd"], made["ssthresh"] = model.initial_window, model.window
        made["rto"], made["timed"] = round(model.initial_rto_s * PS), -1
        made["sequence"], made["peer_sequence"] = rng.integers(0, 1 << 32, (2, count))
        return made

"""Scheduled faults with their time and port.

| kind | effect at the port |
|---|---|
| microburst | many hosts repeatedly send through it at once: incast |
| path-change | its link fails in both directions, and ECMP moves the flows that used it |
| lossy-port | packets are lost at random |
| slow-hop | the switch's pipeline adds a delay |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from ..wire.records import Records
from .records import FLOW, PS, PS_NS, WIRE_OVERHEAD
from .topology import FabricError, Topology, flow_hash
from .traffic import TCP_PAYLOAD, endpoints


class FaultKind(StrEnum):
    """Kind of a fault."""

    MICROBURST = "microburst"
    PATH_CHANGE = "path-change"
    LOSSY_PORT = "lossy-port"
    SLOW_HOP = "slow-hop"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: its kind, time (s, simulated), and the port of a switch."""

    kind: FaultKind
    start: float
    duration: float
    port: int
    """Row in the topology's ports."""
    node_id: int
    number: int
    """Port number on the wire."""
    node_name: str
    port_name: str
    loss: float = 0.01
    """Lossy port: share of packets lost."""
    delay_ns: int = 2_000_000
    """Slow hop: delay that is added to every packet, ns."""
    fill: float = 0.4
    """Microburst: approximate share of the port's buffer that a burst fills; above 1, packets are dropped."""

    @property
    def end(self) -> float:
        """End time, s."""
        return self.start + self.duration

    def __str__(self) -> str:
        return f"{self.kind} at {self.node_name} port {self.number} ({self.port_name})"


def make_fault(
    topology: Topology,
    kind: FaultKind | str,
    start: float,
    node: int | str,
    port: int,
    duration: float = 1.0,
    **strength: float,
) -> Fault:
    """A fault at a port of a switch (node id or name). Raises FabricError."""
    kind = FaultKind(kind)
    row = topology.port_row(node, port)
    if start < 0 or duration <= 0:
        raise FabricError(f"{kind}: a fault starts at 0 or later and lasts longer than 0 s")
    if kind is FaultKind.PATH_CHANGE and topology.ports["peer_switch"][row] < 0:
        raise FabricError(f"{kind}: port {port} of {node} leads to a host, which has no other path")
    if not 0 < strength.get("loss", 0.5) <= 1 or not 0 < strength.get("fill", 0.5) <= 4:
        raise FabricError(f"{kind}: loss is a share above 0 and up to 1, fill above 0 and up to 4")
    return Fault(
        kind,
        start,
        duration,
        row,
        int(topology.ports["node_id"][row]),
        port,
        topology.switches[int(topology.ports["switch"][row])].name,
        topology.port_name(row),
        loss=strength.get("loss", 0.01),
        delay_ns=int(strength.get("delay_ns", 2_000_000)),
        fill=strength.get("fill", 0.4),
    )


_OPTIONS = ("duration", "loss", "delay", "fill")


def parse_fault(topology: Topology, text: str) -> Fault:
    """Read ``KIND@START,node=NODE,port=PORT[,duration=S][,loss=P][,delay=MS][,fill=SHARE]``."""
    head, *options = text.split(",")
    kind, _, start = head.partition("@")
    try:
        given = dict(option.split("=", 1) for option in options)
        numbers: dict[str, float] = {key: float(given.pop(key)) for key in _OPTIONS if key in given}
        node, port = given.pop("node"), int(given.pop("port"))
        if given:
            raise FabricError(f"fault {text!r}: unknown option {next(iter(given))!r}")
        if "delay" in numbers:
            numbers["delay_ns"] = numbers.pop("delay") * 1e6
        return make_fault(topology, FaultKind(kind), float(start), node, port, **numbers)
    except FabricError:
        raise
    except (ValueError, KeyError) as error:
        kinds = "|".join(FaultKind)
        raise FabricError(
            f"fault {text!r}: expected {kinds}@SECONDS,node=NODE,port=NUMBER"
            " and possibly duration=SECONDS, loss=SHARE, delay=MILLISECONDS, fill=SHARE"
        ) from error


def set_link(topology: Topology, down: npt.NDArray[np.bool_], port: int, failed: bool) -> None:
    """Mark a link, in both directions, as failed or working in `down`, bool [ports]."""
    down[[port, int(topology.ports["reverse"][port])]] = failed


def apply(fault: Fault, ports: Records, active: bool) -> None:
    """Start or end the effect of a fault on its port's PORT_STATE (lossy port, slow hop)."""
    state = ports[fault.port]
    if fault.kind is FaultKind.LOSSY_PORT:
        state["loss"] = min(0xFFFFFFFF, int(fault.loss * (1 << 32))) if active else 0
    elif fault.kind is FaultKind.SLOW_HOP:
        state["slow"] = fault.delay_ns * PS_NS if active else 0


_SHARE = 0.1
"""Rate of one sender of a burst, as a share of the port's rate."""
_OVERLOAD = 1.6
"""Total rate of all senders, as a share of the port's rate."""
_UPSTREAM = 0.6
"""Maximum load of a burst on links before the port, so that the port is the only bottleneck."""


def incast(
    topology: Topology, fault: Fault, ports: Records, load: float, rng: np.random.Generator
) -> Records:
    """Flows (FLOW) of a microburst: TCP senders that burst together in each period until the fault ends.

    Their source ports are chosen so that ECMP spreads them before the port, the only bottleneck. Raises
    FabricError if too little can be sent through this port at once.
    """
    chosen = _senders(topology, fault, rng)
    rate = float(topology.ports["rate"][fault.port])
    total = _SHARE * len(chosen)
    surplus = total + load - 1
    if surplus < 0.1:
        raise FabricError(f"{fault}: its hosts can only send {total:.0%} of its rate at once")
    buffer = float(ports["buffer"][fault.port])
    burst_s = fault.fill * buffer * 8 / rate / surplus
    period_s = max(burst_s * total / max(0.05, 0.85 - load), 2 * burst_s)
    on_wire = (TCP_PAYLOAD + 40 + WIRE_OVERHEAD) / TCP_PAYLOAD
    goodput = _SHARE * rate / 8 / on_wire
    chosen["payload"], chosen["tracked"] = TCP_PAYLOAD, 1
    chosen["ps_per_byte"] = PS / goodput
    segments = max(1, int(goodput * burst_s) // TCP_PAYLOAD)
    chosen["burst"] = segments * TCP_PAYLOAD
    chosen["period"] = int(period_s * PS)
    chosen["burst_start"] = int(fault.start * PS)
    chosen["next"] = int(fault.start * PS) + rng.integers(
        0, int(chosen["ps_per_byte"][0] * TCP_PAYLOAD), len(chosen)
    )
    chosen["remaining"] = chosen["burst"] * max(1, int(fault.duration / period_s))
    return chosen


def _senders(topology: Topology, fault: Fault, rng: np.random.Generator) -> Records:
    """Flows through the port whose paths share the links before it evenly, FLOW [senders]."""
    port = topology.ports[fault.port]
    sources, targets = topology.hosts_through(fault.port)
    if not sources:
        raise FabricError(f"{fault}: no shortest path between two hosts uses this port")
    count = 8192
    src, dst = rng.choice(sources, count), rng.choice(targets, count)
    apart = src != dst
    flows = endpoints(topology, src[apart], dst[apart], np.zeros(int(apart.sum()), bool))
    flows["sport"] = rng.integers(32768, 61000, len(flows))
    flows["dport"] = 80
    hashes = flow_hash(*(flows[f] for f in ("src_address", "dst_address", "proto", "sport", "dport")))
    paths = topology.paths(flows["src_host"], flows["dst_host"], hashes)
    through = np.nonzero((paths == fault.port).any(axis=1))[0]
    used = np.zeros(len(topology.ports))
    share = _SHARE * float(port["rate"]) / topology.ports["rate"]
    taken: list[int] = []
    for row in through:
        path = paths[row][paths[row] >= 0]
        place = int((path == fault.port).argmax())
        before, after = path[:place], path[place + 1 :]
        if (used[before] + share[before] > _UPSTREAM).any() or (used[after] + share[after] > 0.8).any():
            continue
        used[before] += share[before]
        used[after] += share[after]
        taken.append(int(row))
        if len(taken) * _SHARE >= _OVERLOAD - 1e-9:
            break
    assert flows.dtype == FLOW
    return flows[taken]

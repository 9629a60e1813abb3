"""The network of INT-label in plain Python, event by event from a heap: what the engine must agree with."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

from hopscope.fabric.labelling.simulation.network import NetworkModel
from hopscope.fabric.labelling.simulation.records import SourceFlag
from hopscope.fabric.labelling.simulation.sources import Sources
from hopscope.fabric.topology import Topology
from hopscope.settings.label import LabellingSettings

MASK = (1 << 64) - 1
PS = 10**12


def mix(x: int) -> int:
    """MurmurHash3's finaliser."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & MASK
    return x ^ x >> 33


@dataclass
class Label:
    """One item."""

    time: int
    port: int
    latency: int
    occupancy: int
    ingress: int


@dataclass
class Packet:
    """One packet."""

    number: int
    node: int
    size: int
    flags: int
    labels: list[Label] = field(default_factory=list)


@dataclass
class Port:
    """Queue and registers."""

    free: int = 0
    ready: int = 0
    last: int = -(1 << 61)
    shift: int = 0
    loss: float = 0.0
    down: bool = False


class Twin:
    """All of it; `run` serves the arrivals before a time in ps."""

    def __init__(
        self,
        topology: Topology,
        sources: Sources,
        labelling: LabellingSettings,
        network: NetworkModel,
        seed: int,
    ) -> None:
        self.links, self.sources = topology.ports, sources
        self.labelling, self.network = labelling, network
        self.seed = mix(mix((seed * 0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019) & MASK))
        inner = (self.links["switch"] >= 0) & (self.links["peer_switch"] >= 0)
        self.ports = [Port(loss=network.loss if inner[row] else 0.0) for row in range(len(self.links))]
        self.counts: Counter[str] = Counter()
        self.log: list[tuple[int, ...]] = []
        self.sent: set[tuple[int, int]] = set()
        self.heap: list[Any] = []
        self.order = 0
        for row, source in enumerate(sources.records):
            if source["remaining"]:
                self.push(int(source["next"]), -1, row)

    def push(self, time: int, number: int, what: Any) -> None:
        """Sources before packets of the same time: they make packets of this time."""
        self.order += 1
        node = what.node if isinstance(what, Packet) else 0
        heapq.heappush(self.heap, (time, number, node, self.order, what))

    def drawn(self, packet: Packet, port: int, salt: int) -> int:
        """64 random bits."""
        part = (packet.flags & SourceFlag.FRAGMENT) << 40
        return mix((mix(packet.number ^ self.seed ^ salt) + port + part) & MASK)

    def run(self, until: int) -> None:
        """Serve what comes before `until`."""
        while self.heap and self.heap[0][0] < until:
            time, _, _, _, what = heapq.heappop(self.heap)
            if isinstance(what, Packet):
                self.serve(time, what)
            else:
                self.emit(time, what)

    def emit(self, time: int, row: int) -> None:
        """A source's next packet."""
        source = self.sources.records[row]
        sent = self.counts[f"sent {row}"]
        self.counts[f"sent {row}"] += 1
        number = int(source["serial"]) << 32 | sent
        choice = 0
        if source["routes_count"] > 1:
            choice = (mix(number ^ self.seed ^ 0x2545F4914F6CDD1D) >> 32) * int(source["routes_count"]) >> 32
        node = int(self.sources.starts[int(source["routes_first"]) + choice])
        flags = int(source["flags"]) & ~int(SourceFlag.RANDOM)
        if source["tracked"] and sent % int(source["tracked"]) == 0:
            flags |= SourceFlag.TRACKED
        self.push(time, number, Packet(number, node, int(source["size"]), flags))
        self.counts["emitted"] += 1
        gap = int(source["gap"])
        if source["flags"] & SourceFlag.RANDOM:
            bits = mix(number ^ self.seed ^ 0x5851F42D4C957F2D) >> 11
            gap = int(-math.log((bits + 1.0) / 2.0**53) * gap)
        if sent + 1 < source["remaining"]:
            self.push(time + max(1, gap), -1, row)

    def wants(self, packet: Packet, port: Port, row: int, start: int) -> bool:
        """Section 3, as it is written there."""
        settings = self.labelling
        if packet.flags & SourceFlag.LABEL_ALWAYS:
            return True
        if len(packet.labels) >= settings.max_hop:
            return False
        count = len(packet.labels) + (settings.max_hop if packet.flags & SourceFlag.TRACKED else 0)
        if count >= settings.max_hop:
            return True
        interval = round(settings.interval * PS) >> port.shift
        elapsed = start - port.last
        if elapsed > interval or interval == 0:
            return True
        if settings.algorithm == "base-a" or elapsed < round(round(settings.interval * PS) * settings.rest):
            return False
        share = count / (settings.max_hop - 1)
        chance = {
            "f1": float(count > 0), "f2": share, "f2-listing": count / settings.max_hop,
            "f3": share * (elapsed / interval),
        }[settings.chance]  # fmt: skip
        return (self.drawn(packet, row, 0x9E3779B97F4A7C15) >> 11) / 2.0**53 < chance

    def length(self, packet: Packet) -> int:
        """IP bytes on a link."""
        extra = self.network.option_bytes + self.network.item_bytes * len(packet.labels)
        return packet.size + (extra if packet.labels else 0)

    def serve(self, time: int, packet: Packet) -> None:
        """One packet at one port."""
        network = self.network
        node = self.sources.routes[packet.node]
        row = int(node["port"])
        link, port = self.links[row], self.ports[row]
        switch, last = link["switch"] >= 0, link["switch"] >= 0 and link["peer_switch"] < 0
        byte = 8 * PS // int(link["rate"])
        if port.down:
            self.lose(packet, "down")
            return
        jitter = network.jitter_ns * 1000
        delay = network.pipeline_ns * 1000
        delay += self.drawn(packet, row, 0x8CB92BA72F3D8DD7) % (jitter + 1) if jitter else 0
        port.ready = max(port.ready, time + delay)
        start = max(port.ready, port.free)
        if start - port.ready + (self.length(packet) + 38) * byte > network.buffer_bytes * byte:
            self.lose(packet, "tail")
            return
        rest = None
        if switch and not packet.flags & SourceFlag.LABEL_NEVER and self.wants(packet, port, row, start):
            queued = -(-(start - port.ready) // byte)
            label = Label(start, row, (start - time) // 1000, queued, int(node["ingress"]))
            longer = self.length(replace(packet, labels=[*packet.labels, label]))
            write = True
            if longer > network.mtu and not last and not packet.flags & SourceFlag.LABEL_ALWAYS:
                room = network.mtu - 20 - network.option_bytes - network.item_bytes * self.labelling.max_hop
                kept = 20 + room // 8 * 8
                cut = self.labelling.too_long == "fragment" and 28 <= kept < packet.size
                write = cut and not packet.labels
                if write:
                    flags = (packet.flags | SourceFlag.FRAGMENT) & ~SourceFlag.TRACKED
                    rest = replace(packet, size=packet.size - kept + 20, labels=[], flags=flags)
                    packet.size = kept
                    self.counts["fragments"] += 1
                else:
                    self.counts["skipped"] += 1
                    if not packet.labels:
                        packet.flags &= ~SourceFlag.TRACKED
            if write:
                packet.labels.append(label)
                port.last = start
                self.counts["labels"] += 1
        if last:
            self.export(packet, start)
        self.send(packet, port, link, row, start, byte)
        if rest:
            self.send(rest, port, link, row, port.free, byte)

    def send(self, packet: Packet, port: Port, link: Any, row: int, start: int, byte: int) -> None:
        """Over the link."""
        port.free = start + (self.length(packet) + 38) * byte
        self.counts["hops"] += 1
        self.counts["bytes"] += packet.size
        self.counts["label bytes"] += self.length(packet) - packet.size
        if link["switch"] >= 0 and not packet.flags & SourceFlag.PROBE:
            self.sent.add((start, row))
        chance = min(round(port.loss * 2**32), 2**32 - 1)
        bits = self.drawn(packet, row, 0xD1B54A32D192ED03) >> 32
        if port.loss and (port.loss == 1 or bits < chance):
            self.lose(packet, "lost")
            return
        arrival = port.free + self.network.propagation_ns * 1000
        node = self.sources.routes[packet.node]
        if node["next"] < 0:
            self.counts["delivered"] += 1
            self.export(packet, arrival)
            return
        for copy in range(int(node["copies"])):
            self.counts["copies"] += copy > 0
            following = replace(packet, node=int(node["next"]) + copy, labels=list(packet.labels))
            self.push(arrival, packet.number, following)

    def lose(self, packet: Packet, why: str) -> None:
        """It is no more."""
        self.counts[why] += 1
        self.counts["labels lost"] += len(packet.labels)

    def export(self, packet: Packet, time: int) -> None:
        """Its labels go to the controller."""
        count = len(packet.labels)
        self.counts["labelled"] += count > 0
        received = time + self.network.export_ns * 1000
        for position, label in enumerate(packet.labels):
            self.log.append(
                (
                    label.time, time, received, label.port, label.latency, label.occupancy,
                    packet.number >> 32, packet.number, label.ingress, position, count, packet.flags,
                )
            )  # fmt: skip
        packet.labels = []

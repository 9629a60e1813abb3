"""What the sink does, in plain Python with dictionaries: the truth that its kernels are held against."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from hopscope.base.hash_keys import hash_keys
from hopscope.base.kernels.jit import U64
from hopscope.detect.flows.event_kernel import hash_flow, pack_l4
from hopscope.detect.flows.path_kernel import hash_path
from hopscope.wire.records import Carried, Flag, Have, Mode

NOBODY = 0xFFFFFFFF
NO_PORT = 0xFFFF
WAYS = 12
KEYS = hash_keys(b"", 10)
MEASURES = ("hop_latency", "queue_occupancy", "link_utilization")
FIELDS = ("hop_latency", "queue_occupancy", "tx_utilization")
BITS = (Have.HOP_LATENCY, Have.QUEUE_OCCUPANCY, Have.TX_UTILIZATION)
METRICS = ("hop_latency", "queue_occupancy", "link_utilization", "flow_latency")
PATH_CHANGE = 1 << 8


def _hash_of(key: tuple[int, ...]) -> int:
    src_hi, src_lo, dst_hi, dst_lo, *l4 = (U64(part) for part in key)
    return int(hash_flow(src_hi, src_lo, dst_hi, dst_lo, pack_l4(*l4), KEYS))


@dataclass
class Hop:
    """What is kept of one hop of a flow."""

    node: int
    latest: dict[str, int] = field(default_factory=dict)
    sums: dict[str, int] = field(default_factory=dict)
    samples: int = 0
    port: int = NO_PORT
    queue: int = 0
    alarm: bool = False
    latency: int = 0
    """The last one, though later packets may have none."""

    def record(self) -> tuple[Any, ...]:
        """(node, port, queue, samples, {measure: (latest, sum)})."""
        values = {name: (self.latest[name], self.sums[name]) for name in self.sums}
        return self.node, self.port, self.queue, self.samples if values else 0, values


@dataclass
class Flow:
    """One flow; `hops` are those that there is room for."""

    key: tuple[int, ...]
    first: int
    last: int = 0
    packets: int = 0
    nodes: list[int] = field(default_factory=list)
    hops: list[Hop] = field(default_factory=list)
    known: bool = False
    pooled: bool = False
    latency: int | None = None
    latency_sum: int = 0
    latency_samples: int = 0
    alarm: bool = False

    def record(self) -> tuple[Any, ...]:
        """All that a table or an eviction says of it; behind the eighth hop, nameless ones tell nothing."""
        hops = [hop.record() for k, hop in enumerate(self.hops) if k < 8 or hop.node != NOBODY]
        latency = (self.latency or 0, self.latency_sum, self.latency_samples)
        return self.key, self.packets, self.first, self.last, len(self.nodes), latency, hops


class Reference:
    """Same events and evictions, in the same order, as `SinkDetector.update`."""

    def __init__(self, settings: Any) -> None:
        self.settings = settings
        self.sink = settings.sink
        self.own = {switch.node: switch for switch in settings.detect.switches}
        self.rows: list[list[Flow]] = [[] for _ in range(settings.detect.flow_rows)]  # least recent first
        self.blocks = settings.detect.hop_pool
        self.events: list[tuple[Any, ...]] = []
        self.journal: list[tuple[Any, ...]] = []
        self.gone: list[tuple[Any, ...]] = []
        self.marked: list[int] = []
        self.values: Counter[tuple[Any, ...]] = Counter()
        self.journal_left = self.sink.journal_events
        self.left = dict.fromkeys(range(9), self.sink.quota)
        self.counted: Counter[str] = Counter()
        self.alarms: set[tuple[Any, ...]] = set()  # of queues and links

    def update(self, batch: Any) -> None:
        """Take a batch in; `events`, `journal`, `gone` and `marked` are then those of the batch."""
        self.events, self.journal, self.gone, self.marked = [], [], [], []
        for i, row in enumerate(batch.reports):
            packet = {name: row[name].item() for name in row.dtype.names}
            flags, mode = packet["flags"], packet["int_mode"]
            if packet["reason"] or packet["version"] or flags & (Flag.HELD | Flag.JOINED):
                continue
            if not packet["carried"] & Carried.FLOW or not packet["int_version"] or mode == Mode.MX:
                continue
            first = packet["first_hop"]
            before = len(self.events)
            self._packet(packet, [self._hop(hop) for hop in batch.hops[first : first + packet["hop_count"]]])
            self.counted["packets"] += 1
            if len(self.events) > before:
                self.marked.append(i)

    def expire(self, now: int, idle: int | None) -> list[tuple[Any, ...]]:
        """Flows without a packet for `idle` leave (None: all); what is said of each."""
        gone = []
        for row in self.rows:
            for flow in list(row):
                if idle is None or now - flow.last >= idle:
                    row.remove(flow)
                    self._give_back(flow)
                    gone.append(flow.record())
        return gone

    def live(self) -> list[tuple[Any, ...]]:
        """What is said of each flow in the table."""
        return [flow.record() for row in self.rows for flow in row]

    @staticmethod
    def _hop(hop: Any) -> dict[str, Any]:
        have = int(hop["present"]) & ~int(hop["null"])
        node = int(hop["node_id"]) if have & Have.NODE_ID else NOBODY
        return {
            "node": node,
            "port": int(hop["egress_port"]) if have & Have.PORTS else NO_PORT,
            "queue": int(hop["queue_id"]) if have & Have.QUEUE_OCCUPANCY else 0,
            "values": {
                name: int(hop[source])
                for name, source, bit in zip(MEASURES, FIELDS, BITS, strict=True)
                if have & bit
            },
        }

    # ------------------------------------------------------------------------------------------------ events

    def _limits(self, node: int, measure: str) -> Any:
        """Limits of a measure at a switch: each its own, or that of all."""
        limits = getattr(self.settings.detect.thresholds, measure).model_dump()
        own = getattr(self.own.get(node), measure, None)
        for name in limits:
            value = getattr(own, name, None)
            if value is not None:
                limits[name] = None if value == "never" else value
        return SimpleNamespace(**limits)

    def _settle_alarm(
        self, limits: Any, metric: str, value: int, raised: bool, node: int = NOBODY, ident: int = 0
    ) -> bool:
        """Whether an alarm is raised after this value; it changes only with an event in the journal."""
        above, below = limits.raise_above, limits.clear_below
        if raised:
            kind, limit = "cleared", below
            due = below is None or value < below
        else:
            kind, limit = "raised", above
            due = below is not None and value > above
        if not due or not self.journal_left:
            return raised
        self._keep(kind, metric, value, limit, node, ident)
        return not raised

    def _settle_hop(self, hop: dict[str, Any], state: Hop | None) -> None:
        node, port, queue = hop["node"], hop["port"], hop["queue"]
        places = {"queue_occupancy": (node, port, queue), "link_utilization": (node, port)}
        for name, value in hop["values"].items():
            limits = self._limits(node, name)
            if name == "hop_latency":
                if state is not None:
                    state.alarm = self._settle_alarm(limits, name, value, state.alarm, node)
            elif name == "queue_occupancy" or port != NO_PORT:
                key = (name, *places[name])
                if self._settle_alarm(limits, name, value, key in self.alarms, node, key[-1]):
                    self.alarms.add(key)
                else:
                    self.alarms.discard(key)

    def _clear(self, flow: Flow) -> None:
        """The alarms of a flow that leaves."""
        if flow.alarm:
            self.journal.append(("cleared", "flow_latency", flow.latency, 0, NOBODY, 0))
        self._clear_hops(flow.hops)

    def _clear_hops(self, hops: list[Hop]) -> None:
        for hop in hops:
            if hop.alarm:
                self.journal.append(("cleared", "hop_latency", hop.latency, 0, hop.node, 0))

    def _judge(self, k: int, limits: Any, value: int, before: int | None) -> int:
        changed = limits.change is not None and before is not None and abs(value - before) > limits.change
        above = limits.raise_above is not None and value > limits.raise_above
        return (changed | above << 1) << 2 * k

    def _allowed(self, types: int) -> int:
        for k in range(9):
            if types >> k & 1:
                if self.sink.quota and not self.left[k]:
                    types ^= 1 << k
                    self.counted[f"held.{k}"] += 1
                else:
                    self.left[k] -= 1
                    self.counted[f"type.{k}"] += 1
        return types

    def _keep(self, kind: str, metric: str, *rest: Any, records: int = 1) -> None:
        if self.journal_left < records:
            self.counted["journal"] += records
            return
        self.journal_left -= records
        self.journal.append((kind, metric, *rest))

    def _keep_bits(self, types: int, bits: range, limits: Any, value: int, before: int, *where: int) -> None:
        """Journal events of the bits of one value."""
        for k in bits:
            if types >> k & 1 and not (k & 1 and limits.clear_below is not None):
                kind, compared = ("threshold", limits.raise_above) if k & 1 else ("change", before)
                self._keep(kind, METRICS[k // 2], value, compared, *where)

    # ---------------------------------------------------------------------------------------------- a packet

    def _packet(self, packet: dict[str, int], hops: list[dict[str, Any]]) -> None:
        names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
        key = tuple(packet[name] for name in names)
        hashed = _hash_of(key)
        row = self.rows[hashed & (len(self.rows) - 1)]
        now = packet["time_ns"]
        flow = next((flow for flow in row if flow.key == key), None)
        if flow is None:
            if len(row) == WAYS:
                self._clear(row[0])
                self._give_back(row[0])
                self.gone.append(row.pop(0).record())
            flow = Flow(key, now)
        else:
            row.remove(flow)
        row.append(flow)
        cut = bool(packet["int_flags"] & 3 or packet["flags"] & (8 | 1 | 32))
        nodes = [hop["node"] for hop in hops]
        before_hash = self._hash(flow.nodes)
        types, states = self._settle(flow, nodes, cut)
        for h, (hop, state) in enumerate(zip(hops, states, strict=True)):
            self._take_hop(flow, hop, state, h, len(hops), now)
        latency, before = 0, None
        end_to_end = self.settings.detect.thresholds.flow_latency
        latencies = [hop["values"].get("hop_latency") for hop in hops]
        if hops and not cut and None not in latencies:
            latency, before = sum(latencies), flow.latency
            types |= self._judge(3, end_to_end, latency, before)
            flow.alarm = self._settle_alarm(end_to_end, "flow_latency", latency, flow.alarm)
            flow.latency = latency
            flow.latency_sum += latency
            flow.latency_samples += 1
            self.values["end_to_end", latency] += 1
        else:
            before = None
        types = self._allowed(types)
        if types:
            part = tuple(nodes[:8] + [0] * (8 - len(nodes)))
            self.events.append((key, now, types, NOBODY, 0, len(hops), latency, before or 0, part))
            self._keep_bits(types, range(6, 8), end_to_end, latency, before or 0, NOBODY, 0)
            if types & PATH_CHANGE:
                parts = (len(nodes) + 7) // 8
                new = self._hash(flow.nodes)
                self._keep("path_change", "flow_path", new, before_hash, NOBODY, 0, records=parts)
        flow.packets += 1
        flow.last = now

    def _take_hop(
        self, flow: Flow, hop: dict[str, Any], state: Hop | None, h: int, count: int, now: int
    ) -> None:
        values = hop["values"]
        before: dict[str, int] = {}
        if state is not None:
            before = {name: state.latest[name] for name in values if name in state.sums}
            state.port, state.queue = hop["port"], hop["queue"]
            if state.sums.keys() != values.keys():
                state.sums, state.samples = dict.fromkeys(values, 0), 0
            state.latest = dict(values)
            for name, value in values.items():
                state.sums[name] += value
            state.samples += 1
            state.latency = values.get("hop_latency", state.latency)
        node = hop["node"]
        if node == NOBODY:
            self.counted["nameless"] += 1
            return
        types = 0
        for k, name in enumerate(MEASURES):
            if name in values:
                self.values[node, hop["port"], hop["queue"], name, values[name]] += 1
                types |= self._judge(k, self._limits(node, name), values[name], before.get(name))
        self._settle_hop(hop, state)
        types = self._allowed(types)
        if types:
            pairs = [(values.get(name, 0), before.get(name, 0)) for name in MEASURES]
            self.events.append((flow.key, now, types, node, h, count, *pairs, hop["port"], hop["queue"]))
            idents = (0, hop["queue"], hop["port"])
            for k, name in enumerate(MEASURES):
                self._keep_bits(
                    types, range(2 * k, 2 * k + 2), self._limits(node, name), *pairs[k], node, idents[k]
                )

    # ------------------------------------------------------------------------------------------------- paths

    @staticmethod
    def _hash(nodes: list[int]) -> int:
        return int(hash_path(np.array(nodes, np.uint32), U64(len(nodes)))) if nodes else 0

    def _give_back(self, flow: Flow) -> None:
        self.blocks += flow.pooled
        flow.pooled = False

    def _settle(self, flow: Flow, nodes: list[int], cut: bool) -> tuple[int, list[Hop | None]]:
        """(PATH_CHANGE or 0, the state of each hop of the packet)."""
        whole = bool(nodes) and not cut and NOBODY not in nodes
        if not whole:
            found = self._thread(flow, nodes)
            if flow.known or None not in found:
                return 0, found
        elif flow.known and nodes == flow.nodes:
            return 0, self._padded(flow)
        had, before = flow.known, self._hash(flow.nodes)
        self._lay(flow, nodes)
        flow.known = had or whole
        parts = (len(nodes) + 7) // 8
        if not had and not whole and (flow.packets or NOBODY in nodes):
            return 0, self._padded(flow)
        if not had:
            self._keep("new_key", "flow_path", self._hash(nodes), 0, NOBODY, 0, records=parts)
        again = next((k for k, node in enumerate(nodes) if node in nodes[:k]), None)
        if again is not None:
            self._keep("loop", "flow_path", self._hash(nodes), before, nodes[again], again, records=parts)
        return PATH_CHANGE if had else 0, self._padded(flow)

    @staticmethod
    def _padded(flow: Flow) -> list[Hop | None]:
        return [*flow.hops, *[None] * (len(flow.nodes) - len(flow.hops))]

    @staticmethod
    def _thread(flow: Flow, nodes: list[int]) -> list[Hop | None]:
        at = 0
        found: list[Hop | None] = []
        for node in nodes:
            place = next((k for k in range(at, len(flow.hops)) if flow.hops[k].node == node), None)
            found.append(None if place is None else flow.hops[place])
            at = at if place is None else place + 1
        return found

    def _lay(self, flow: Flow, nodes: list[int]) -> None:
        old = list(flow.hops)
        if len(nodes) > 8 and not flow.pooled:
            flow.pooled = self.blocks > 0
            self.blocks -= flow.pooled
            self.counted["pool"] += not flow.pooled
        elif len(nodes) <= 8:
            self._give_back(flow)
        flow.nodes = nodes
        flow.hops = []
        for node in nodes if flow.pooled else nodes[:8]:
            kept = next((hop for hop in old if hop.node == node != NOBODY), None)
            if kept is not None:
                old.remove(kept)
            flow.hops.append(kept or Hop(node))
        self._clear_hops(old)

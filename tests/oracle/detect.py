"""What detection does, in plain Python with dictionaries: the truth that the kernels are held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hopscope.base.hash_keys import hash_keys
from hopscope.base.kernels.jit import U64
from hopscope.detect.flows.event_kernel import hash_flow, pack_l4
from hopscope.detect.flows.path_kernel import hash_path
from hopscope.settings.limits import SWITCH_METRICS
from hopscope.wire.records import Carried, Flag, Have, Mode

NOBODY = 0xFFFFFFFF
UNKNOWN = 0xFFFF
NOTHING = (0,) * 8
KEYS = hash_keys(b"", 10)


@dataclass
class Value:
    """A measurement: what was stored, and whether its alarm is raised."""

    stored: int | None = None
    latest: int = 0
    alarm: bool = False
    sum: int = 0
    samples: int = 0
    pushed: int = 0


@dataclass
class Hop:
    """One hop of a flow's path."""

    node: int
    port: int = UNKNOWN
    latency: Value = field(default_factory=Value)


@dataclass
class Flow:
    """One flow."""

    key: tuple[int, ...]
    row: int
    first: int
    last: int
    hops: list[Hop] = field(default_factory=list)
    known: bool = False
    packets: int = 0
    latency: Value = field(default_factory=Value)


@dataclass
class Source:
    """One sequence space; every number ever taken is remembered."""

    highest: int
    seen: set[int]
    first: int
    position: int = 0
    suspect: int | None = None


_FIELDS = [
    ("node", "node_id", int(Have.NODE_ID)),
    ("port", "egress_port", int(Have.PORTS)),
    ("latency", "hop_latency", int(Have.HOP_LATENCY)),
    ("queue", "queue_id", int(Have.QUEUE_OCCUPANCY)),
    ("occupancy", "queue_occupancy", int(Have.QUEUE_OCCUPANCY)),
    ("congestion_queue", "congestion_queue_id", int(Have.QUEUE_CONGESTION)),
    ("congestion", "queue_congestion", int(Have.QUEUE_CONGESTION)),
    ("utilization", "tx_utilization", int(Have.TX_UTILIZATION)),
    ("buffer", "buffer_id", int(Have.BUFFER_OCCUPANCY)),
    ("buffer_occupancy", "buffer_occupancy", int(Have.BUFFER_OCCUPANCY)),
    ("l2_port", "l2_egress_port", int(Have.L2_PORTS)),
    ("ingress", "ingress_time", int(Have.INGRESS_TIME)),
    ("egress", "egress_time", int(Have.EGRESS_TIME)),
]
"""Name, column, and bit of what a hop carries."""


class Reference:
    """Same events, same order, as `Detector.update`; sequence numbers only within 64 of the highest."""

    def __init__(self, settings: Any, event: Any) -> None:
        self.settings = settings
        self.event = event
        self.flows: dict[tuple[int, ...], Flow] = {}
        self.ports: dict[tuple[str, int, int | None, int], Value] = {}
        self.sources: dict[tuple[int, int, int, int], Source] = {}
        self.events: list[Any] = []
        self.evictions = self.nameless = self.values = self.lost = self.duplicate = self.reordered = 0

    def update(self, batch: Any) -> list[Any]:
        """Events of a batch."""
        self.events = []
        all_hops = [dict(zip(batch.hops.dtype.names, hop, strict=True)) for hop in batch.hops.tolist()]
        for row in batch.reports.tolist():
            report = dict(zip(batch.reports.dtype.names, row, strict=True))
            own = bool(report["carried"] & Carried.OWN_HOP)
            last = report["first_hop"] + report["hop_count"]
            hops = [self._hop(hop) for hop in all_hops[report["first_hop"] : last]]
            self._report(report, hops, self._hop(all_hops[last]) if own else None)
        return self.events

    @staticmethod
    def _hop(hop: dict[str, int]) -> dict[str, int | None]:
        """Fields that a hop carries and that are not null."""
        have = hop["present"] & ~hop["null"]
        found = {name: hop[source] if have & bit else None for name, source, bit in _FIELDS}
        if found["node"] == NOBODY:
            found["node"] = None
        return found

    # --------------------------------------------------------------------------------------------- events

    def _emit(self, kind: str, metric: str, value: int, previous: int, **more: Any) -> None:
        fields = {
            "time": self.now, "flow": NOTHING, "node": NOBODY, "ident": 0, "port": UNKNOWN,
            "hop": 0, "hop_count": 0, "path": NOTHING, "reason": 0, "switch": self.switch, **more,
        }  # fmt: skip
        self.events.append(self.event(kind=kind, metric=metric, value=value, previous=previous, **fields))

    def _emit_path(self, kind: str, nodes: list[int], value: int, previous: int, **more: Any) -> None:
        for first in range(0, max(len(nodes), 1), 8):
            part = nodes[first : first + 8]
            self._emit(
                kind, "flow_path", value, previous, hop=first, hop_count=len(nodes),
                path=tuple(part + [0] * (8 - len(part))), **more,
            )  # fmt: skip

    def _limits(self, node: int, metric: str) -> Any:
        """Limits of a metric at a switch: each its own, or that of all."""
        for switch in self.settings.switches:
            if switch.node == node and metric in SWITCH_METRICS:
                return switch.resolved(self.settings.thresholds, metric)
        return getattr(self.settings.thresholds, metric)

    def _judge(self, state: Value, metric: str, value: int, **where: Any) -> None:
        limits = self._limits(where.get("node", NOBODY), metric)
        self.values += 1
        state.latest = value
        state.sum += value
        state.samples += 1
        if not self.settings.enabled:
            self._emit("value", metric, value, state.stored or 0, **where)
            state.stored = value
            return
        if state.stored is None:
            self._emit("new_key", metric, value, 0, **where)
            state.stored = value
        elif limits.change is not None and abs(value - state.stored) > limits.change:
            self._emit("change", metric, value, state.stored, **where)
            state.stored = value
        if state.alarm and limits.clear_below is None:  # since the limits changed
            self._emit("cleared", metric, value, 0, reason=5, **where)
            state.alarm = False
        if limits.raise_above is None:
            return
        if limits.clear_below is None:
            if value > limits.raise_above:
                self._emit("threshold", metric, value, limits.raise_above, **where)
        elif not state.alarm and value > limits.raise_above:
            self._emit("raised", metric, value, limits.raise_above, **where)
            state.alarm = True
        elif state.alarm and value < limits.clear_below:
            self._emit("cleared", metric, value, limits.clear_below, **where)
            state.alarm = False

    # ---------------------------------------------------------------------------------------------- report

    def _report(self, r: dict[str, int], hops: list[dict[str, Any]], own: dict[str, Any] | None) -> None:
        self.now = r["time_ns"] - 1_700_000_000_000_000_000
        joined = bool(r["flags"] & Flag.JOINED)
        came = not r["flags"] & (Flag.JOINED | Flag.INCOMPLETE)
        if r["index"] == 0 and r["version"] and came and (r["reason"] == 0 or r["place"] > 4):
            self.switch = 0 if r["reason"] else self._sent(r)
            self._sequence(r)
        if r["reason"]:
            return
        node = r["node_id"] if r["carried"] & Carried.NODE_ID else None
        if own is not None and own["node"] is None:
            own["node"] = node
        elif own is not None:
            node = own["node"]
        self.where = {"flow": key} if (key := self._key(r)) else {}
        of_flags = self.switch = self._sent(r) or self._left([*hops, own] if own else hops)
        if r["flags"] & Flag.HELD:
            self._flags(r, node, own, 0)
            return
        dropped, stacked = bool(r["flags"] & 1), bool(joined and hops)
        stacked = stacked or bool(r["int_version"] and r["int_mode"] != Mode.MX and hops)
        if stacked:
            if (
                own is not None
                and own["node"] is not None
                and own["node"] != hops[-1]["node"]
                and len(hops) < 64
            ):
                hops = [*hops, own]
        elif hops:
            hops = hops[:1]
        else:
            hops = [own] if own is not None else []
        flow = self._flow(key, r, stacked and not dropped) if key else None
        self.switch = self._sent(r) or self._left(hops)
        whole = stacked and not r["int_flags"] & 3 and not r["flags"] & (9 | Flag.INCOMPLETE)
        states: list[Hop | None] = [None] * len(hops)
        if flow and stacked:
            states = self._path(flow, [hop["node"] for hop in hops], whole)
        elif flow and hops and hops[0]["node"] is not None:
            states = [next((hop for hop in self._kept(flow) if hop.node == hops[0]["node"]), None)]
        for h, (hop, state) in enumerate(zip(hops, states, strict=True)):
            self._take(hop, state, h, len(hops))
        if flow:
            flow.packets += 1
            flow.last = self.now
            if whole and all(hop["latency"] is not None for hop in hops):
                total = sum(hop["latency"] for hop in hops)
                self._judge(flow.latency, "flow_latency", total, hop_count=len(hops), **self.where)
        self.switch = of_flags
        self._flags(r, node, own, len(hops) if not stacked else r["hop_count"])

    @staticmethod
    def _sent(r: dict[str, int]) -> int:
        """Time in the report's header."""
        return r["ingress_time"] if r["carried"] & Carried.INGRESS_TIME else 0

    @staticmethod
    def _left(hops: list[dict[str, Any]]) -> int:
        """When a packet left the last of some hops; without that, when it came."""
        if not hops:
            return 0
        return hops[-1]["ingress"] or 0 if hops[-1]["egress"] is None else hops[-1]["egress"]

    @staticmethod
    def _key(r: dict[str, int]) -> tuple[int, ...] | None:
        names = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
        return tuple(r[n] for n in names) if r["carried"] & Carried.FLOW else None

    def _flags(self, r: dict[str, int], node: int | None, own: dict[str, Any] | None, _: int) -> None:
        more: dict[str, Any] = {
            "node": NOBODY if node is None else node,
            "ident": 0,
            "port": UNKNOWN,
            "hop_count": r["hop_count"],
            **self.where,
        }
        occupancy, metric = 0, "none"
        if own is not None:
            if own["port"] is not None:
                more["port"] = own["port"]
            if own["occupancy"] is not None:
                more["ident"], occupancy, metric = own["queue"], own["occupancy"], "queue_occupancy"
        stated = r["queue_id"] if r["carried"] & Carried.QUEUE_ID else more["ident"]
        if r["flags"] & 1:
            self._emit("drop", "none", r["drop_reason"], 0, **{**more, "ident": stated})
        if metric == "none":
            more["ident"] = stated
        if r["flags"] & 2:
            self._emit("queue_report", metric, occupancy, 0, **more)

    def _take(self, hop: dict[str, Any], state: Hop | None, h: int, count: int) -> None:
        port = UNKNOWN if hop["port"] is None else hop["port"]
        node = NOBODY if hop["node"] is None else hop["node"]
        where = {
            "node": node, "port": port, "hop": h, "hop_count": count, **self.where,
            "switch": self._left([hop]),
        }  # fmt: skip
        if hop["node"] is None:
            self.nameless += 1
        else:
            self._ports(hop, port, where)
        if state is not None:
            state.port = port
            if hop["latency"] is not None:
                self._judge(state.latency, "hop_latency", hop["latency"], **where)

    def _ports(self, hop: dict[str, Any], port: int, where: dict[str, Any]) -> None:
        wide = self.settings.queue_key == "switch-port-queue"
        link = hop["port"] if hop["port"] is not None else hop["l2_port"]
        for metric, ident, value in (
            ("queue_occupancy", hop["queue"], hop["occupancy"]),
            ("queue_congestion", hop["congestion_queue"], hop["congestion"]),
            ("link_utilization", link, hop["utilization"]),
            ("buffer_occupancy", hop["buffer"], hop["buffer_occupancy"]),
        ):
            if value is None or ident is None:
                continue
            of_port = port if metric.startswith("queue") and wide else None
            state = self.ports.setdefault((metric, hop["node"], of_port, ident), Value())
            self._judge(state, metric, value, ident=ident, **where)

    # ------------------------------------------------------------------------------------------------ flows

    def _flow(self, key: tuple[int, ...], r: dict[str, int], create: bool) -> Flow | None:
        if key in self.flows:
            self.flows[key] = self.flows.pop(key)  # the last one is the most recently used
            return self.flows[key]
        if not create:
            return None
        a, b, c, d, *l4 = (np.uint64(word) for word in key)
        hashed = hash_flow(a, b, c, d, pack_l4(*l4), KEYS)
        row = int(hashed) & (self.settings.flow_rows - 1)
        others = [flow for flow in self.flows.values() if flow.row == row]
        if len(others) == 12:
            self.evictions += 1
            self.leave(others[0])
        self.flows[key] = Flow(key, row, self.now, self.now)
        return self.flows[key]

    def leave(self, flow: Flow) -> None:
        """FLOW_RECORD of a flow, which is then forgotten."""
        del self.flows[flow.key]
        kept = self._kept(flow)
        nodes = [hop.node for hop in kept] + [NOBODY] * (len(flow.hops) - len(kept))
        first = flow.first + 1_700_000_000_000_000_000
        more: dict[str, Any] = {"time": flow.last, "flow": flow.key, "switch": 0}
        if flow.latency.alarm:
            self._emit(
                "cleared", "flow_latency", flow.latency.latest, 0,
                flow=flow.key, hop_count=len(flow.hops), reason=2, switch=0,
            )  # fmt: skip
        for h, hop in enumerate(kept):
            self._clear(hop, h, len(flow.hops), flow.key, 2)
        self._emit_path("flow_record", nodes, flow.packets, first, **more)
        more["hop_count"] = len(nodes)
        if flow.latency.stored is not None:
            mean = flow.latency.sum // flow.latency.samples
            self._emit("flow_record", "flow_latency", mean, flow.latency.latest, **more)
        for h, hop in enumerate(kept):
            if hop.latency.stored is not None:
                mean = hop.latency.sum // hop.latency.samples
                self._emit(
                    "flow_record", "hop_latency", mean, hop.latency.latest,
                    node=hop.node, port=hop.port, hop=h, **more,
                )  # fmt: skip

    def _clear(self, hop: Hop, h: int, count: int, flow: tuple[int, ...], reason: int) -> None:
        """CLEARED of a hop's alarm, whose state goes."""
        if hop.latency.alarm:
            self._emit(
                "cleared", "hop_latency", hop.latency.latest, 0,
                flow=flow, node=hop.node, port=hop.port, hop=h, hop_count=count, reason=reason,
                switch=0,
            )  # fmt: skip

    def _kept(self, flow: Flow) -> list[Hop]:
        """Hops that there is room for: 8, or all with a block of the pool."""
        if len(flow.hops) <= 8 or self._pooled(flow):
            return flow.hops
        return flow.hops[:8]

    def _pooled(self, flow: Flow) -> bool:
        return getattr(flow, "pooled", False)

    def _lay(self, flow: Flow, nodes: list[int]) -> None:
        old = list(self._kept(flow))
        before, count = list(old), len(flow.hops)
        if len(nodes) > 8 and not self._pooled(flow):
            used = sum(self._pooled(other) for other in self.flows.values())
            flow.pooled = used < self.settings.hop_pool  # type: ignore[attr-defined]
        elif len(nodes) <= 8:
            flow.pooled = False  # type: ignore[attr-defined]
        flow.hops = []
        for node in nodes[: 64 if len(nodes) <= 8 or self._pooled(flow) else 8]:
            match = next((hop for hop in old if hop.node == node and node != NOBODY), None)
            if match:
                old.remove(match)
            flow.hops.append(match or Hop(node))
        flow.hops += [Hop(node) for node in nodes[len(flow.hops) :]]
        for h, hop in enumerate(before):
            if any(hop is left for left in old):
                self._clear(hop, h, count, flow.key, 3)

    def _path(self, flow: Flow, found: list[int | None], whole: bool) -> list[Hop | None]:
        nodes = [NOBODY if node is None else node for node in found]
        before = [hop.node for hop in flow.hops]
        if whole and None not in found:
            if not flow.known or nodes != before:
                self._lay(flow, nodes)
                self._tell_path(
                    "path_change" if flow.known else "new_key", nodes, before if flow.known else None, before
                )
                flow.known = True
            self.values += 1
            if not self.settings.enabled:
                value = self._hash(nodes)
                self._emit_path("value", nodes, value, value, **self.where)
            return [*self._kept(flow), *[None] * (len(nodes) - len(self._kept(flow)))]
        threaded: list[Hop | None] = []
        at = 0
        kept = self._kept(flow)
        for node in nodes:
            match = next((k for k in range(at, len(kept)) if kept[k].node == node), None)
            threaded.append(None if match is None else kept[match])
            at = at if match is None else match + 1
        if None in threaded and not flow.known:
            self._lay(flow, nodes)
            if flow.packets == 0 and None not in found:
                self._tell_path("new_key", nodes, None, before)
            return [*self._kept(flow), *[None] * (len(nodes) - len(self._kept(flow)))]
        return threaded

    def _tell_path(self, kind: str, nodes: list[int], previous: list[int] | None, before: list[int]) -> None:
        if not self.settings.enabled:
            return
        value = self._hash(nodes)
        self._emit_path(kind, nodes, value, self._hash(previous) if previous else 0, **self.where)
        for k, node in enumerate(nodes):
            if node in nodes[:k]:
                self._emit_path(
                    "loop",
                    nodes,
                    value,
                    self._hash(before) if before else 0,
                    node=node,
                    ident=k,
                    **self.where,
                )
                break

    @staticmethod
    def _hash(nodes: list[int]) -> int:
        return int(hash_path(np.array(nodes, np.uint32), U64(len(nodes))))

    # ---------------------------------------------------------------------------------------------- sources

    def _sequence(self, r: dict[str, int]) -> None:
        named = r["carried"] & Carried.NODE_ID and r["version"] != 5
        node = r["node_id"] if named else 0
        bits = 22 if r["version"] == 20 else 32
        key = (r["source_lo"], node, r["hw_id"], bits)
        number = r["sequence"] % (1 << bits)
        source = self.sources.get(key)
        if source is None:
            self.sources[key] = Source(number, {0}, number)
            return
        step = (number - source.highest + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        position = source.position + step
        if position in source.seen:
            self.duplicate += 1
        elif step < 0:
            self.reordered += 1
            self.lost -= position > 0
        elif step > 1:
            self.lost += step - 1
            flow = (0, r["source_lo"], 0, 0, 0, 0, 0, 0)
            first = (source.highest + 1) % (1 << bits)
            self._emit("gap", "none", step - 1, first, flow=flow, node=r["node_id"], ident=r["hw_id"])
        if step > 0:
            source.highest, source.position = number, position
        source.seen.add(position)

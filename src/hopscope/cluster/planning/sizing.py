"""How large a cluster has to be: members, NATS, PostgreSQL, S3, network, disk and memory.

All results are computed from costs measured on one core (`COSTS`), and from assumptions that the plan lists.
With R reports/s, E events/s, n members that are up, and the share h of a core that stays free:

    processors         P = R (path + several) + E (journal + archive + lake + stream)       [cores]
    members            n = max(P / (cores (1 - h)),             processors
                               R detector / (1 - h),            the one detector of a collector
                               R bits / (line (1 - h)),         its network card
                               E lake / (1 - h)),               its one lake process
                       rounded up; the cluster has n + down of them
    PostgreSQL         commits/s = n shards max(1 / every, E / n / shards / batch)
    S3                 bytes a day = E 86,400 event
    NATS               bytes/s = members record / heartbeat, and E block if events are streamed
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, isfinite
from typing import Literal

from ...base.errors import HopscopeError

ReportPath = Literal["udp", "trains", "ring", "xdp"]
DAY = 86_400
FRAME_BYTES = 20 + 18 + 20 + 8
"""Overhead of a datagram on the wire: preamble and gap, Ethernet with its checksum, IPv4, UDP."""
COMMITS = 4.0
"""Commits per second of the catalog with ten writers, the lowest measured value: beyond it, writers wait for
each other.
"""
NATS_SERVERS = 3
MTU_PAYLOAD = 1472
MANY_FLOWS = 100_000
"""With more flows at a member, a report costs more (`many_flows`)."""


class SizingError(HopscopeError):
    """The demand cannot be met, or makes no sense; the message names the value."""


@dataclass(frozen=True, slots=True)
class Cost:
    """A measured cost and its source."""

    value: float
    unit: str
    source: str


def _ns(value: float, source: str) -> Cost:
    return Cost(value, "ns", source)


def _bytes(value: float, source: str) -> Cost:
    return Cost(value, "B", source)


_PATHS = "docs/measurements/collector.md, every path: worker, 8 fields, 100 flows"
COSTS: Mapping[str, Cost] = {
    "udp_1": _ns(1073, _PATHS),
    "udp_3": _ns(1088, _PATHS),
    "udp_6": _ns(1298, _PATHS),
    "udp_12": _ns(1935, _PATHS),
    "trains_1": _ns(135.5, _PATHS),
    "trains_3": _ns(222.3, _PATHS),
    "trains_6": _ns(382.8, _PATHS),
    "trains_12": _ns(829.8, _PATHS),
    "ring_1": _ns(458.8, _PATHS),
    "ring_3": _ns(609.2, _PATHS),
    "ring_6": _ns(704.5, _PATHS),
    "ring_12": _ns(1331, _PATHS),
    "xdp_1": _ns(99 + 59.6, _PATHS + "; and its program, a report"),
    "xdp_3": _ns(133 + 87.4, _PATHS + "; and its program, a report"),
    "xdp_6": _ns(185 + 52.1, _PATHS + "; and its program, a report"),
    "xdp_12": _ns(330 + 380.3, _PATHS + "; and its program, a report"),
    "interrupt": _ns(600, "assumed: what the kernel does for a datagram before the worker; not measured"),
    "many_flows": Cost(
        1.5, "times", "docs/measurements/collector.md, every path: udp, 100,000 flows for 100"
    ),
    "several": _ns(158, "docs/measurements/collector.md, several workers: 115 + 249 - 206, 3 hops"),
    "detector": _ns(249, "docs/measurements/collector.md, several workers: the detector, 3 hops"),
    "xdp_event": _ns(1235, "docs/measurements/collector.md, every path: xdp, 1,474 - 239"),
    "journal": _ns(400, "docs/measurements/events.md: an event in the journal"),
    "archive": _ns(3201, "docs/measurements/tables.md: Parquet, folder"),
    "lake": _ns(3771, "docs/measurements/tables.md: Parquet, SeaweedFS"),
    "stream": _ns(1080, "docs/measurements/buses.md: binary blocks to NATS"),
    "event": _bytes(136, "docs/measurements/collector.md: an event in memory and journal"),
    "segment": _bytes(
        24.1, "an event in files: more than docs/measurements/lake.md (21.7) and history.md (13.4)"
    ),
    "block": _bytes(136, "docs/measurements/buses.md: binary blocks, an event"),
    "flow": _bytes(645.3, "docs/measurements/collector.md: a flow in the table"),
    "process": _bytes(285 * 2**20, "ARCHITECTURE.md, decisions: all processes of a collector (PSS), at most"),
    "record": _bytes(700, "the record of a member and its headers, written by hand"),
    "answer": _bytes(4096, "assumed: what a member answers to a query"),
    "server": Cost(268_000, "events/s", "docs/measurements/buses.md: NATS with 3 replicas on 2 cores"),
}
"""Costs on which the plan is based; the demand may override each."""
HOPS = (1, 3, 6, 12)
"""Hops for which the cost of a report was measured."""


@dataclass(frozen=True, slots=True)
class ClusterDemand:
    """The load of a cluster, and its machines."""

    reports: float
    """Reports per second, all members."""
    events: float
    """Events per second, all members."""
    retention_days: float = 90.0
    """Days in the lake; 0: no lake."""
    local_days: float = 7.0
    """Days in each member's own history (`history.keep_days`)."""
    hops: float = 3.0
    """Hops of a report, with eight fields each."""
    flows: float = 1e6
    """Flows that are active at a time, all members."""
    path: ReportPath = "udp"
    """How reports arrive: as single datagrams, as trains, or through `ring://` or `xdp://`."""
    cores: int = 16
    """Cores of a member."""
    headroom: float = 0.5
    """Share of processors, card and detector that stays free for bursts."""
    down: int = 1
    """How many members may be down while the others still have this headroom."""
    line_rate: float = 25e9
    """Rate of a member's network card, bit/s."""
    members: int | None = None
    """Members of the cluster; None: as many as needed."""
    shards: int = 1
    """Shards of a member's events: one, that of its detector."""
    replicas: int = 3
    """Number of servers that store each bucket and stream."""
    stream: bool = False
    """Whether events also go to the cluster's stream."""
    heartbeat_seconds: float = 3.0
    every_seconds: float = 30.0
    batch_events: float = 1e6
    queries: float = 1.0
    """Queries to all members, per second."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Costs that replace those in `COSTS`."""

    def cost(self, name: str) -> float:
        """A cost, in its unit."""
        return self.costs.get(name, COSTS[name].value)

    @property
    def report_bytes(self) -> float:
        """Bytes of a report on the wire."""
        return FRAME_BYTES + 80 + 44 * self.hops

    def checked(self) -> ClusterDemand:
        """This object, if its values are valid. Raises SizingError."""
        for name, low in (
            ("reports", 1), ("events", 0), ("retention_days", 0), ("local_days", 0), ("hops", 1),
            ("flows", 1), ("cores", 1), ("line_rate", 1e6), ("down", 0), ("shards", 1), ("queries", 0),
            ("heartbeat_seconds", 0.1), ("every_seconds", 0.5), ("batch_events", 1000),
        ):  # fmt: skip
            value = getattr(self, name)
            if not (isfinite(value) and value >= low):
                raise SizingError(f"{name.replace('_', ' ')}: found {value:g}, expected at least {low:g}")
        if not 0 <= self.headroom < 1:
            raise SizingError(f"headroom: found {self.headroom:g}, expected 0 to less than 1")
        if self.replicas not in (1, 3, 5):
            raise SizingError(f"replicas: found {self.replicas}, expected 1, 3 or 5")
        if self.members is not None and self.members <= self.down:
            raise SizingError(
                f"members: found {self.members}, expected more than the {self.down} that may be down"
            )
        if unknown := sorted(self.costs.keys() - COSTS.keys()):
            raise SizingError(f"cost {unknown[0]}: unknown; known: {', '.join(COSTS)}")
        if self.hops > 64:
            raise SizingError(f"hops: found {self.hops:g}, expected at most 64")
        return self


@dataclass(frozen=True, slots=True)
class Part:
    """Processor time of one part of the work."""

    what: str
    cores: float
    """Sum over all members."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How many members one resource requires, regardless of all others."""

    what: str
    members: float


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster for a demand. A member's rates are those while `down` members are down."""

    demand: ClusterDemand
    report_ns: float
    """Processor time of a report."""
    report_bytes: float
    """Bytes of a report on the wire."""
    parts: tuple[Part, ...]
    bounds: tuple[Bound, ...]
    """Bounds by resource; the largest decides."""
    members: int
    """Members of the cluster, including those that may be down."""
    up: int
    """Members that carry the load while the others are down."""
    load: float
    """Share of a member's processors in use at that time."""
    load_all: float
    """The same while all members are up."""
    member_reports: float
    member_events: float
    member_in: float
    """bit/s of reports."""
    member_out: float
    """bit/s to S3 and NATS."""
    member_memory: float
    """Bytes: processes, flow tables, journals in memory."""
    member_disk: float
    """Bytes: local history."""
    commits: float
    """Commits of the catalog per second."""
    commit_load: float
    """The same, relative to COMMITS."""
    s3_day: float
    """Bytes per day."""
    s3_total: float
    """Total bytes."""
    s3_rate: float
    """Bytes per second."""
    nats_servers: int
    nats_bytes: float
    """Bytes per second that the servers receive."""
    nats_traffic: float
    """Bytes per second between the servers, for replicas."""
    nats_disk_hour: float
    """Bytes of the stream of events per hour, in each replica."""
    moved_share: float
    """Share of the sources that move when one member joins."""
    notes: tuple[str, ...]
    """Assumptions and warnings."""


def plan_cluster(demand: ClusterDemand) -> ClusterPlan:
    """The smallest cluster for a demand, or the one with its `members`. Raises SizingError."""
    demand = demand.checked()
    cost = demand.cost
    few, many = (_needed(bounds_of(demand, report_cost(demand, flows))) for flows in (0.0, inf))
    needed = min(many, max(few, ceil(demand.flows / MANY_FLOWS)))  # by the flows that each then has
    members = needed + demand.down if demand.members is None else demand.members
    up = members - demand.down
    report_ns = report_cost(demand, demand.flows / up)
    parts = parts_of(demand, report_ns)
    processors = sum(part.cores for part in parts)
    reports, events = demand.reports / up, demand.events / up
    commits = (
        members
        * demand.shards
        * max(1 / demand.every_seconds, demand.events / members / demand.shards / demand.batch_events)
        if demand.retention_days
        else 0.0
    )
    s3_rate = demand.events * cost("segment") if demand.retention_days else 0.0
    heartbeats = members * cost("record") / demand.heartbeat_seconds
    streamed = demand.events * cost("block") if demand.stream else 0.0
    asked = demand.queries * members * cost("answer")
    servers = NATS_SERVERS * max(1, ceil(demand.events / cost("server"))) if demand.stream else NATS_SERVERS
    plan = ClusterPlan(
        demand=demand,
        report_ns=report_ns,
        report_bytes=demand.report_bytes,
        parts=parts,
        bounds=bounds_of(demand, report_ns),
        members=members,
        up=up,
        load=processors / (up * demand.cores),
        load_all=processors / (members * demand.cores),
        member_reports=reports,
        member_events=events,
        member_in=reports * demand.report_bytes * 8,
        member_out=8 * (s3_rate + streamed + asked) / up,
        member_memory=cost("process") + 2 * demand.flows / up * cost("flow"),
        member_disk=demand.events / up * demand.local_days * DAY * cost("segment")
        + 3600 * events * cost("event"),
        commits=commits,
        commit_load=commits / COMMITS,
        s3_day=s3_rate * DAY,
        s3_total=s3_rate * DAY * demand.retention_days,
        s3_rate=s3_rate,
        nats_servers=servers,
        nats_bytes=heartbeats + streamed + 2 * asked,
        nats_traffic=(demand.replicas - 1) * (heartbeats + streamed),
        nats_disk_hour=streamed * 3600,
        moved_share=1 / (members + 1),
        notes=(),
    )
    return replace(plan, notes=tuple(_notes(plan, needed)))


def parts_of(demand: ClusterDemand, report_ns: float) -> tuple[Part, ...]:
    """CPU time of all members by part of the work; `report_ns`: CPU time of one report."""
    event_ns = {name: demand.cost(name) for name in ("journal", "archive")}
    if demand.retention_days:
        event_ns["lake"] = demand.cost("lake")
    if demand.stream:
        event_ns["stream"] = demand.cost("stream")
    if demand.path == "xdp":
        event_ns["reports that the XDP program passes up"] = demand.cost("xdp_event")
    return (
        Part("reports", demand.reports * report_ns * 1e-9),
        *(Part(name, demand.events * ns * 1e-9) for name, ns in event_ns.items()),
    )


def bounds_of(demand: ClusterDemand, report_ns: float) -> tuple[Bound, ...]:
    """The bound of each resource; `report_ns`: CPU time of one report."""
    free = 1 - demand.headroom
    processors = sum(part.cores for part in parts_of(demand, report_ns))
    detected = demand.events if demand.path == "xdp" else demand.reports
    lake_ns = demand.cost("lake") if demand.retention_days else 0.0
    return (
        Bound("processors", processors / (demand.cores * free)),
        Bound("detector", detected * demand.cost("detector") * 1e-9 / free),
        Bound("network card", demand.reports * demand.report_bytes * 8 / (demand.line_rate * free)),
        Bound("lake process", demand.events * lake_ns * 1e-9 / free),
    )


def _needed(bounds: Sequence[Bound]) -> int:
    return max(1, *(ceil(round(bound.members, 9)) for bound in bounds))


def report_cost(demand: ClusterDemand, flows: float) -> float:
    """CPU time of a report at a member with `flows` flows, ns: on its path, between workers, and in the
    kernel before them.
    """
    points = [(hops, demand.cost(f"{demand.path}_{hops}")) for hops in HOPS]
    upper = next((at for at in range(1, len(points)) if demand.hops <= points[at][0]), len(points) - 1)
    (left, low), (right, high) = points[upper - 1], points[upper]
    spent = low + (high - low) * (demand.hops - left) / (right - left)
    if flows > MANY_FLOWS:
        spent *= demand.cost("many_flows")
    if demand.path == "xdp":
        return spent  # its program runs where the interrupt does
    datagrams = 1.0
    if demand.path == "trains":
        datagrams = (80 + 44 * demand.hops) / MTU_PAYLOAD  # merged by the card
    return spent + demand.cost("several") + datagrams * demand.cost("interrupt")


def _notes(plan: ClusterPlan, needed: int) -> list[str]:
    demand = plan.demand
    decisive = max(plan.bounds, key=lambda bound: bound.members)
    notes = [f"{decisive.what} decides how many members are needed"]
    if demand.members is not None and demand.members < needed + demand.down:
        notes.append(
            f"too few: {needed + demand.down} members are needed for this headroom with {demand.down} down"
        )
    if plan.commit_load > 1:
        every = plan.members * demand.shards / COMMITS
        notes.append(
            f"{plan.commits:.3g} commits/s, but only {COMMITS:g} were measured for the catalog: set "
            f"lake.every_seconds to {ceil(every)} or more"
        )
    if decisive.what == "detector":
        notes.append(
            "a collector has one detector: with several collectors on a machine, fewer machines are needed"
        )
    notes += [
        f"a report has {demand.hops:g} hops of eight fields, {plan.report_bytes:.0f} B on the wire, and "
        f"takes {plan.report_ns:.0f} ns of a core of about 2.5 GHz (path {demand.path})",
        f"{100 * demand.headroom:.0f} % of each processor stays free, even with {demand.down} of the members "
        "down; sources are assumed to be spread evenly, as by a hash of many sources",
        "memory: tables have two rows for each flow; disk: local history, and an hour in journals; S3: "
        "without the copies that the store itself makes",
        "costs were measured on two shared cores; how they grow with many cores was not measured: measure "
        "yours with `hopscope bench`, and give them as --cost",
    ]
    return notes

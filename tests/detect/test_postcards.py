"""Postcards of one packet become one path: the kernel does what a plain twin does; each rule by example."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise, permutations
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.links import LinksError, read_links
from hopscope.detect.postcards.joiner import Joiner
from hopscope.detect.records import Kind, Metric
from hopscope.fabric.simulation import Simulation, SimulationModel
from hopscope.fabric.switch import ReportModel
from hopscope.fabric.topology import parse_topology
from hopscope.settings.detect import DetectSettings
from hopscope.settings.postcards import PostcardSettings
from hopscope.wire.dialect import Clock
from hopscope.wire.records import HOP, REPORT, Carried, Flag, Have, Mode, ReportBatch

pytestmark = pytest.mark.kernel

T0 = 1_700_000_000_000_000_000
WINDOW = 20_000_000
MS = 1_000_000
COUNTERS = {
    "cards": "postcards_total",
    "joined": "joined_postcards_total",
    "complete": "postcard_paths_total.complete",
    "incomplete": "postcard_paths_total.incomplete",
    "evicted": "postcard_evictions_total",
    "late": "late_postcards_total",
    "duplicates": "duplicate_postcards_total",
}


@dataclass
class Card:
    """A postcard, or another report where `stack` is not 0."""

    node: int | None = 1
    time: int = 0
    ttl: int = 64
    flow: int = 0
    packet: int = 1
    ports: tuple[int, int] | None = None
    ingress: int | None = None
    flags: int = int(Flag.TRACKED)
    stack: int = 0
    latency: int = 10
    reason: int = 0


def batch(cards: list[Card], first_packet: int = 0) -> ReportBatch:
    """Cards as a decoder would hand them over."""
    rows, hops = np.zeros(len(cards), REPORT), np.zeros(sum(card.stack + 1 for card in cards), HOP)
    at = 0
    for i, (row, card) in enumerate(zip(rows, cards, strict=True)):
        row["time_ns"], row["ttl"], row["packet_id"] = T0 + card.time, card.ttl, card.packet
        row["src_lo"], row["dst_lo"], row["proto"], row["ip_version"] = card.flow, 99, 6, 4
        row["carried"] = Carried.FLOW | Carried.OWN_HOP | Carried.PORTS
        row["version"], row["packet"], row["flags"], row["reason"] = 20, i, card.flags, card.reason
        row["first_hop"], row["hop_count"], row["int_version"] = at, card.stack, 20 if card.stack else 0
        row["sequence"] = i
        hops["present"][at : at + card.stack] = Have.NODE_ID
        at += card.stack
        hop = hops[at]
        hop["hop_latency"], hop["present"] = card.latency, Have.HOP_LATENCY
        if card.node is not None:
            hop["node_id"] = card.node
            hop["present"] |= Have.NODE_ID
        if card.ports is not None:
            hop["ingress_port"], hop["egress_port"] = card.ports
            hop["present"] |= Have.PORTS
        if card.ingress is not None:
            hop["ingress_time"] = card.ingress
            hop["present"] |= Have.INGRESS_TIME
        at += 1
    return ReportBatch(rows, hops, first_packet)


@dataclass(frozen=True)
class Given:
    """A row that came out, as tests compare it."""

    flow: int
    packet: int
    nodes: tuple[int | None, ...]
    whole: bool
    joined: bool
    number: int


def paths(parts: Any) -> list[Given]:
    """Rows of batches that are paths: joined ones, and postcards that remained alone."""
    found = []
    for part in parts:
        for row in part.reports:
            flags = int(row["flags"])
            if not flags & (Flag.JOINED | Flag.INCOMPLETE):
                continue
            joined = bool(flags & Flag.JOINED)
            assert joined == (row["hop_count"] > 0)
            assert joined != bool(row["carried"] & Carried.OWN_HOP)
            count = max(int(row["hop_count"]), 1)
            first = int(row["first_hop"])
            hops = part.hops[first : first + count]
            nodes = tuple(int(hop["node_id"]) if hop["present"] & Have.NODE_ID else None for hop in hops)
            number = part.first_packet + int(row["packet"])
            found.append(
                Given(int(row["src_lo"]), int(row["packet_id"]), nodes, not flags & Flag.INCOMPLETE,
                      joined, number)
            )  # fmt: skip
    return found


def joiner(held: bool = False, **more: Any) -> Joiner:
    return Joiner(PostcardSettings(**{"packets": 64, **more}), held=held)


def run(one: Joiner, cards: list[Card], clock: Clock | None = None) -> list[Given]:
    """All paths of some cards, to the end."""
    return paths([*one.update(batch(cards), clock), *one.flush()])


def counts(one: Joiner) -> dict[str, int]:
    return {name: int(one.counters[INDEX[key]]) for name, key in COUNTERS.items()}


def hops_of(*nodes: int, packet: int = 1, time: int = 0, **more: Any) -> list[Card]:
    """Postcards of a packet along a path, in order."""
    return [Card(node, time + k, ttl=64 - k, packet=packet, **more) for k, node in enumerate(nodes)]


# ------------------------------------------------------------------------------------------------- by example


def test_postcards_become_a_path() -> None:
    """Three postcards in any order: one row, hops by falling TTL, the last one's packet."""
    first, second, third = hops_of(7, 8, 9)
    one = joiner()
    found = run(one, [third, first, second])
    assert found == [Given(0, 1, (7, 8, 9), True, True, 2)]
    assert counts(one) == {"cards": 3, "joined": 3, "complete": 1, "incomplete": 0, "evicted": 0,
                           "late": 0, "duplicates": 0}  # fmt: skip


def test_row_of_a_joined_path() -> None:
    """The row keeps the packet's flow and id, says nothing of one node, and has the time of the last one."""
    one = joiner()
    cards = hops_of(7, 8)
    cards[0].flags |= Flag.CONGESTED
    (part,) = [part for part in [*one.update(batch(cards)), *one.flush()] if len(part)]
    (row,) = part.reports
    assert row["flags"] == Flag.JOINED | Flag.TRACKED | Flag.CONGESTED
    assert row["carried"] == Carried.FLOW | Carried.PORTS
    assert (row["time_ns"], row["ttl"], row["hop_count"]) == (T0 + 1, 64, 2)
    assert part.hops["hop_latency"].tolist() == [10, 10]


def test_other_reports_pass_at_once() -> None:
    """A stack, a rejected report, one without packet id, a queue's report: unchanged, in order."""
    cards = [
        Card(1, stack=2), Card(2, reason=3), Card(3, packet=0), Card(4, flags=int(Flag.CONGESTED)),
        Card(5, flags=int(Flag.TRACKED | Flag.DROPPED)),
    ]  # fmt: skip
    given_in = batch([*cards, Card(6)])
    before = given_in.reports.copy()
    one = joiner()
    (out,) = one.update(given_in)
    assert out.reports.tobytes() == before[:5].tobytes()
    assert out.hops is given_in.hops
    (alone,) = paths(one.flush())
    assert (alone.nodes, alone.whole, alone.joined) == ((6,), False, False)


def test_no_postcards_no_work() -> None:
    """Batches without postcards are handed on as they are, and nothing is made for them."""
    one = joiner()
    given_in = batch([Card(1, stack=2)] * 3)
    (out,) = one.update(given_in)
    assert out is given_in
    assert one._table is None
    assert list(one.tick(T0)) == []


def test_records_after_mx_headers_are_postcards() -> None:
    """Where a node's metadata lie after the MX header of its report, they are the hop."""
    given_in = batch(hops_of(7, 8))
    given_in.reports["hop_count"], given_in.reports["int_mode"] = 1, Mode.MX
    given_in.reports["carried"] = Carried.FLOW
    one = joiner()
    assert paths([*one.update(given_in), *one.flush()]) == [Given(0, 1, (7, 8), True, True, 1)]
    packets = batch(hops_of(7, 8))
    packets.reports["version"] = 0
    assert next(iter(joiner().update(packets))) is packets, "packets on the wire are no postcards"


def test_held_postcards_stay_in_their_batch() -> None:
    """For detection a waiting postcard stays where it was, marked."""
    one = joiner(held=True)
    (out,) = one.update(batch([Card(1), Card(2, packet=0)]))
    assert out.reports["flags"].tolist() == [Flag.TRACKED | Flag.HELD, Flag.TRACKED]


def test_missing_hop() -> None:
    """A gap of TTLs says that a postcard is missing in between."""
    one = joiner()
    first, _, third = hops_of(7, 8, 9)
    assert run(one, [first, third]) == [Given(0, 1, (7, 9), False, True, 1)]
    assert counts(one)["incomplete"] == 1


def test_missing_end() -> None:
    """A flow had a longer path: the same without its last or first hop is incomplete, for ten seconds."""
    one = joiner()
    cards = hops_of(7, 8, 9)
    cards += hops_of(7, 8, packet=2, time=100 * MS)
    cards += hops_of(8, 9, packet=3, time=200 * MS)
    cards += hops_of(7, 9, packet=4, time=300 * MS)  # from end to end: it goes another way
    cards += hops_of(1, 2, 3, packet=5, time=400 * MS)
    cards += hops_of(1, 2, packet=6, time=12_000 * MS)
    assert [path.whole for path in run(one, cards)] == [True, False, False, True, True, True]


def test_missing_ends_of_many_flows() -> None:
    """A path without its last hop is complete for none of them, whatever the hashes of the flows."""
    one = joiner(packets=1024)
    whole = [card for flow in range(256) for card in hops_of(1, 2, 3, flow=flow)]
    cut = [card for flow in range(256) for card in hops_of(1, 2, flow=flow, packet=2)]
    assert [path.whole for path in run(one, whole)] == [True] * 256
    assert [path.whole for path in run(one, cut)] == [False] * 256


def test_switches_that_do_not_count_ttl() -> None:
    """Where TTLs do not tell hops apart, arrival orders them, and any shorter path is incomplete."""
    one = joiner()
    cards = [Card(node, time, packet=packet) for packet, time, node in
             [(1, 0, 5), (1, 1, 6), (1, 2, 7), (2, 100 * MS, 5), (2, 101 * MS, 7)]]  # fmt: skip
    assert [(path.nodes, path.whole) for path in run(one, cards)] == [((5, 6, 7), True), ((5, 7), False)]


@pytest.mark.parametrize("start", [1000, (1 << 32) - 5])
def test_ingress_times_order_hops(start: int) -> None:
    """Clocks that are comparable order hops of one TTL, over a wrap of theirs, too."""
    cards = [Card(node, node, ingress=(start + at) % (1 << 32)) for node, at in [(1, 20), (2, 0), (3, 10)]]
    assert run(joiner(), cards, Clock(comparable=True, bits=32))[0].nodes == (2, 3, 1)
    assert run(joiner(), cards, Clock(bits=32))[0].nodes == (1, 2, 3)


def test_window() -> None:
    """What comes when the window has passed is late, and passes through; later ones are a packet again."""
    one = joiner()
    first, second, third = hops_of(1, 2, 3)
    second.time, third.time = WINDOW - 1, WINDOW
    again = Card(4, time=2 * WINDOW + 1)
    out = list(one.update(batch([first, second, third, again])))
    assert [path.nodes for path in paths(out)] == [(1, 2)]
    assert [int(row["flags"]) for row in out[0].reports] == [Flag.TRACKED]
    assert counts(one)["late"] == 1
    assert [path.nodes for path in paths(one.tick(T0 + 3 * WINDOW + 1))] == [(4,)]
    assert list(one.tick(T0 + 90 * WINDOW)) == []


def test_a_late_postcard_is_no_second_packet() -> None:
    """What came after its packet's path was emitted is of that packet, no other one of the flow."""
    detector, one = Detector(DetectSettings(flow_rows=1, ports=64, sources=16)), joiner(held=True)
    late = batch([Card(3, 2 * WINDOW - 1, ttl=62, latency=77)])
    for part in [*one.update(batch(hops_of(1, 2))), *one.tick(T0 + WINDOW), *one.update(late)]:
        list(detector.update(part))
    assert counts(one)["late"] == 1
    assert int(detector.tables["flows"]["flows"]["packets"].sum()) == 1
    assert int(detector.tables["sources"]["sources"]["received"].sum()) == 3


def test_duplicates_and_loops() -> None:
    """A node's second postcard of a packet is a duplicate; with another TTL, the packet came by again."""
    one = joiner()
    cards = [Card(1, ttl=64), Card(2, ttl=63), Card(1, ttl=64), Card(1, ttl=62)]
    assert [path.nodes for path in run(one, cards)] == [(1, 2, 1)]
    assert counts(one)["duplicates"] == 1


def test_drop_cuts_the_path() -> None:
    """A drop passes at once; the path of its packet is incomplete, also of postcards that come later."""
    one = joiner()
    first, second, _ = hops_of(1, 2, 3)
    drop = Card(3, flags=int(Flag.TRACKED | Flag.DROPPED), time=5)
    out = list(one.update(batch([first, drop, second])))
    assert out[0].reports["flags"].tolist() == [Flag.TRACKED | Flag.DROPPED]
    assert [(path.nodes, path.whole) for path in paths(one.flush())] == [((1, 2), False)]
    assert run(joiner(), [drop]) == []


def test_full_pool_evicts_the_oldest() -> None:
    """Fixed memory: more packets than there is room for leave as incomplete, the oldest first, counted."""
    one = joiner(packets=16)
    cards = [card for packet in range(1, 101) for card in hops_of(1, 2, packet=packet)]
    found = run(one, cards)
    assert sorted(path.packet for path in found if path.joined) == [
        path.packet for path in sorted(found, key=lambda path: path.packet) if path.joined
    ]
    assert sum(len(path.nodes) for path in found) + counts(one)["late"] == 200
    assert counts(one)["evicted"] >= 80
    assert not any(path.whole for path in found[:50])


def test_packet_of_more_than_64_hops() -> None:
    """A path has 64 hops at most: the others are late."""
    one = joiner()
    found = run(one, [Card(node, ttl=255 - node) for node in range(70)])
    assert [len(path.nodes) for path in found] == [64]
    assert counts(one)["late"] == 6


def test_clock_put_back() -> None:
    """A clock that falls by more than a second gives out what waits, and goes on from there."""
    one = joiner()
    cards = [Card(1, time=10_000 * MS), Card(2, packet=2), Card(3, packet=2, ttl=63, time=1)]
    assert [path.nodes for path in run(one, cards)] == [(1,), (2, 3)]


def test_switched_off() -> None:
    """Without joining every postcard passes as it came."""
    one = Joiner(PostcardSettings(enabled=False))
    given_in = batch(hops_of(1, 2))
    assert next(iter(one.update(given_in))) is given_in


def test_paths_across_batches() -> None:
    """Batches in, batches out, to the end; numbers of packets are those of the whole file."""
    joiner = Joiner(PostcardSettings(window_ms=WINDOW / 1e6))
    parts = [
        part
        for some in (batch(hops_of(1, 2)), batch([Card(3, ttl=62, time=2)], first_packet=2))
        for part in joiner.update(some)
        if len(part)
    ]
    parts += joiner.flush()
    assert paths(parts) == [Given(0, 1, (1, 2, 3), True, True, 2)]


# --------------------------------------------------------------------------------------------------- topology

LINKS = """[links.1]
9 = 2
[links.2]
1 = 1
3 = 3
[links.3]
2 = 2
"""


@pytest.fixture
def links(tmp_path: Path) -> Path:
    file = tmp_path / "links.toml"
    file.write_text(LINKS)
    return file


def test_topology_orders_and_completes(links: Path) -> None:
    """Links order hops whatever TTL and time say; from host to host the path is given out at once."""
    cards = [Card(3, 0, ports=(2, 7)), Card(1, 1, ports=(0, 9)), Card(2, 2, ports=(1, 3))]
    one = joiner(links=links)
    found = paths(one.update(batch(cards)))
    assert [(path.nodes, path.whole) for path in found] == [((1, 2, 3), True)]
    assert run(joiner(links=links), [Card(1, ports=(0, 4))])[0].joined, "a path of one hop is whole"


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_topology_knows_what_is_missing(links: Path, missing: int) -> None:
    """A port that leads to a switch whose postcard did not come, or that a packet came from."""
    cards = [Card(1, 0, ports=(0, 9)), Card(2, 1, ports=(1, 3)), Card(3, 2, ports=(2, 7))]
    nodes = [card.node for card in cards if card is not cards[missing]]
    del cards[missing]
    found = run(joiner(links=links), cards)
    assert [(list(path.nodes), path.whole) for path in found] == [(nodes, False)]


@pytest.mark.parametrize("ttls", [(64, 63, 62, 61), (64, 64, 64, 64)])
def test_topology_of_a_loop(links: Path, ttls: tuple[int, ...]) -> None:
    """The port at which a packet came in says whose link it took: a switch's second time is not its first, in
    whatever order the postcards arrive, also where nobody decrements the TTL.
    """
    way = [(1, (0, 9)), (2, (1, 3)), (3, (2, 2)), (2, (3, 8))]
    loop = [Card(node, ttl=ttl, ports=ports) for ttl, (node, ports) in zip(ttls, way, strict=True)]
    for order in permutations(loop):
        found = run(joiner(links=links), [replace(card, time=time) for time, card in enumerate(order)])
        assert [(path.nodes, path.whole) for path in found] == [((1, 2, 3, 2), True)]


def test_topology_without_ingress_ports(links: Path) -> None:
    """A switch whose ingress port leads nowhere that is known, as one that always says 0, is on the path."""
    cards = [Card(node, ports=ports) for node, ports in ((1, (0, 9)), (2, (0, 3)), (3, (0, 7)))]
    assert [(path.nodes, path.whole) for path in run(joiner(links=links), cards)] == [((1, 2, 3), True)]


def test_topology_without_ports(links: Path) -> None:
    """Where hops carry no ports, links order nodes, and the window decides."""
    cards = [Card(3, 0), Card(2, 1), Card(1, 2)]
    assert [(p.nodes, p.whole) for p in run(joiner(links=links), cards)] == [((3, 2, 1), True)]
    assert [(p.nodes, p.whole) for p in run(joiner(links=links), [Card(3), Card(1, 1)])] == [((3, 1), False)]
    assert not run(joiner(links=links), [Card(3)])[0].whole


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "node,port\n", "line 1: found 'node,port', expected 'node_id,egress_port,next_node_id'"),
        ("a.csv", "node_id,egress_port,next_node_id\n1,2\n", "line 2: found 2 columns, expected 3"),
        ("a.csv", "node_id,egress_port,next_node_id\n1,x,2\n", "line 2: found egress_port 'x', expected"),
        ("a.csv", "node_id,egress_port,next_node_id\n1,1,2\n1,1,3\n", "port 1 of node 1 leads to two nodes"),
        ("a.toml", "[links.1]\n1 = true\n", "links.1.1: found next_node_id True, expected a number"),
        ("a.toml", "[links]\n1 = \n", "a.toml:2: Invalid value at column 5"),
        ("a.toml", "[nodes]\n", "found 'nodes', expected tables `links.NODE`"),
        ("a.toml", "links = 3\n", "found 'links', expected tables"),
        ("a.toml", "[links]\n1 = 3\n", "links.1: found 3, expected PORT = NEXT"),
        ("a.toml", "[", "a.toml:1: "),
    ],
)
def test_wrong_links(tmp_path: Path, name: str, text: str, message: str) -> None:
    """A file of links that is wrong says where."""
    (tmp_path / name).write_text(text)
    with pytest.raises(LinksError) as error:
        read_links(tmp_path / name)
    assert message in str(error.value)


def test_links_of_csv(tmp_path: Path) -> None:
    """CSV says the same as TOML; a missing file is one line."""
    (tmp_path / "a.csv").write_text("node_id,egress_port,next_node_id\n1,9,2\n\n2,1,1\n2,3,3\n3,2,2\n")
    (tmp_path / "a.toml").write_text("\ufeff" + LINKS)
    assert read_links(tmp_path / "a.csv") == read_links(tmp_path / "a.toml") != {}
    with pytest.raises(LinksError, match=r"none\.csv \(links between switches\): No such file"):
        read_links(tmp_path / "none.csv")
    (tmp_path / "binary.toml").write_bytes(b"\xb2\x00")
    with pytest.raises(LinksError, match=r"binary\.toml: found bytes that are not text"):
        read_links(tmp_path / "binary.toml")


# -------------------------------------------------------------------------------------------------- detection


def test_detection_of_joined_paths() -> None:
    """Paths of postcards: a new one and its latency, no change by losses, and a change when it is one."""
    one, detector = joiner(held=True), Detector(DetectSettings(flow_rows=8, ports=64, sources=16))
    cards = [
        *hops_of(7, 8, 9),
        *hops_of(7, 8, packet=2, time=50 * MS),
        *hops_of(9, packet=3, time=90 * MS, flags=int(Flag.TRACKED | Flag.CONGESTED)),
        *hops_of(7, 5, 9, packet=4, time=200 * MS),
    ]
    told = []
    for part in [*one.update(batch(cards)), *one.flush()]:
        for block in detector.update(part):
            told += [(Kind(row["kind"]), Metric(row["metric"]), int(row["value"])) for row in block]
    changes = [kind for kind, metric, _ in told if metric == Metric.FLOW_PATH]
    assert changes == [Kind.NEW_KEY, Kind.PATH_CHANGE]
    assert [value for _, metric, value in told if metric == Metric.FLOW_LATENCY] == [30]
    assert [kind for kind, _, _ in told].count(Kind.QUEUE_REPORT) == 1
    assert detector.counters[INDEX["lost_reports"]] == 0
    assert detector.counters[INDEX["duplicate_reports_total"]] == 0
    assert int(detector.tables["sources"]["sources"]["received"].sum()) == len(cards)


# ------------------------------------------------------------------------------------------------------- twin


@dataclass
class Twin:
    """Joining in plain Python, with all the room there is."""

    links: dict[tuple[int, int], int] = field(default_factory=dict)
    now: int = 0
    waiting: dict[tuple[int, int], Any] = field(default_factory=dict)
    done: dict[tuple[int, int], int] = field(default_factory=dict)
    longest: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)
    out: list[Given] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))

    def take(self, number: int, card: Card, clock: Clock) -> None:
        """One report."""
        queue_only = card.flags & Flag.CONGESTED and not card.flags & Flag.TRACKED
        if card.stack or card.reason or not card.packet or queue_only:
            return
        time = T0 + card.time
        back = self.now - time > 1_000_000_000
        if time > self.now or back:
            self.now = time
        for key in list(self.waiting):
            if back or self.now - self.waiting[key]["opened"] >= WINDOW:
                self.give(key)
        if back:
            self.done.clear()
        self.counts["cards"] += 1
        key = (card.flow, card.packet)
        if key in self.done and self.now - self.done[key] >= 2 * WINDOW:
            del self.done[key]
        if key not in self.done:
            self.waiting.setdefault(key, {"opened": self.now, "cards": [], "cut": False})
        if card.flags & Flag.DROPPED:
            if key in self.waiting:
                self.waiting[key]["cut"] = True
            return
        if key in self.done:
            self.counts["late"] += 1
            return
        cards = self.waiting[key]["cards"]
        same = [c for _, c, _ in cards if c.node == card.node is not None and c.ttl == card.ttl]
        if any(not c.ports or not card.ports or c.ports[0] == card.ports[0] for c in same):
            self.counts["duplicates"] += 1
            return
        cards.append((number, card, clock.comparable and card.ingress is not None))
        if self.links and not self.waiting[key]["cut"] and self.order(cards)[2] == 2:
            self.give(key)

    def order(self, cards: list[Any]) -> tuple[list[Card], int, int]:
        """Cards in path order; 0 TTLs say nothing, 1 no gap, 2 gap; 2 from host to host, 1 perhaps, 0 no."""
        ordered = [card for _, card, _ in cards]
        if all(timed for _, _, timed in cards):
            start = ordered[0].ingress or 0

            def step(card: Card) -> int:
                ahead: int = ((card.ingress or 0) - start) % (1 << 32)
                return ahead if ahead <= 1 << 31 else ahead - (1 << 32)

            ordered.sort(key=step)
        by_ttl = all(card.ttl for card in ordered)
        if by_ttl:
            ordered.sort(key=lambda card: -card.ttl)
        ttls = [card.ttl for card in ordered]
        gaps = 0 if not by_ttl or len(set(ttls)) == 1 else 1
        if gaps and any(a - b > 1 for a, b in pairwise(ttls)):
            gaps = 2
        return (*self.chain(ordered, gaps),) if self.links else (ordered, gaps, 0)

    def chain(self, cards: list[Card], gaps: int) -> tuple[list[Card], int, int]:
        """Cards in the order of the links."""
        n = len(cards)
        pairs = {(node, after) for (node, _), after in self.links.items()}
        after: dict[int, int] = {}
        for unlinked in (False, True):
            for k, card in enumerate(cards):
                for j in range(1, n):
                    b = (k + j) % n
                    there = cards[b]
                    if k in after or b in after.values() or card.node is None or there.node is None:
                        continue
                    if card.ports is None:
                        leads = (card.node, there.node) in pairs
                    else:
                        leads = self.links.get((card.node, card.ports[1])) == there.node
                    if there.ports is not None:
                        back = self.links.get((there.node, there.ports[0]))
                        leads &= unlinked if back is None else back == card.node
                    if leads:
                        after[k] = b
        chains: list[list[int]] = []
        seen: set[int] = set()
        for begins in ([k for k in range(n) if k not in after.values()], range(n)):
            for begin in begins:
                if begin in seen:
                    continue
                one: list[int] = []
                at: int | None = begin
                while at is not None and at not in seen:
                    seen.add(at)
                    one.append(at)
                    at = after.get(at)
                chains.append(one)
        ordered = [cards[k] for one in chains for k in one]
        first, last = ordered[0], ordered[-1]
        ends_at_host = last.ports is not None and (last.node, last.ports[1]) not in self.links
        if len(chains) > 1 or first.node is None or (last.ports is not None and not ends_at_host):
            return ordered, gaps, 0
        if first.ports is None:
            return ordered, gaps, 1
        if (first.node, first.ports[0]) in self.links:
            return ordered, gaps, 0
        return ordered, gaps, 2 if ends_at_host else 1

    def give(self, key: tuple[int, int]) -> None:
        """Give a packet out."""
        packet = self.waiting.pop(key)
        self.done[key] = packet["opened"]
        if not packet["cards"]:
            return
        cards, gaps, chained = self.order(packet["cards"])
        nodes = tuple(card.node for card in cards)
        whole = not packet["cut"]
        if whole and chained != 2:
            seems = chained == 1 if self.links else gaps != 2
            whole = len(cards) > 1 and seems and self.is_longest(key[0], nodes, gaps == 0, packet["opened"])
        joined = whole or len(cards) > 1
        self.counts["complete" if whole else "incomplete"] += 1
        self.counts["joined"] += len(cards) * joined
        self.out.append(Given(*key, nodes, whole, joined, packet["cards"][-1][0]))

    def is_longest(self, flow: int, nodes: tuple[int | None, ...], flat: bool, now: int) -> bool:
        """Whether this is no part of a longer path."""
        count, first, last, then = self.longest.get(flow, (0, 0, 0, 0))
        begin, end = (0xFFFFFFFF if node is None else node for node in (nodes[0], nodes[-1]))
        recent = now - then < 10_000_000_000
        if len(nodes) < count and recent and (flat or (first, last) != (begin, end)):
            return False
        self.longest[flow] = (len(nodes), begin, end, now)
        return True


def any_cards(chance: Random, count: int, links: bool) -> list[Card]:
    """Packets over paths of a few nodes, with losses, duplicates, drops, other orders and late ones."""
    cards: list[Card] = []
    time = 0
    for packet in range(count):
        time += chance.choice([0, MS, 5 * MS, 30 * MS])
        flow = chance.randrange(3)
        nodes: list[int | None] = [
            *chance.choice([(1, 2, 3), (3, 2, 1), (1, 2), (1, 4, 3), (2,), (1, 2, 1, 2)])
        ]
        flat = chance.random() < 0.2
        timed = chance.random() < 0.6
        clock = chance.choice([1000, (1 << 32) - 30])
        for k, node in enumerate(nodes):
            if chance.random() < 0.15:
                continue
            spread = chance.choice([MS, 10 * MS, 25 * MS, 70 * MS]) if chance.random() < 0.2 else MS
            card = Card(
                None if chance.random() < 0.05 else node,
                time + chance.randrange(spread),
                ttl=0 if chance.random() < 0.03 else 64 - (0 if flat else k),
                flow=flow,
                packet=1 + packet % 7 if chance.random() < 0.95 else 0,
                ingress=(clock + 10 * k) % (1 << 32) if timed else None,
                flags=int(Flag.TRACKED | (Flag.DROPPED if chance.random() < 0.05 else 0)),
                stack=int(chance.random() < 0.05),
            )
            if links and chance.random() < 0.9 and node is not None:
                ways = {(1, 2): 9, (2, 1): 1, (2, 3): 3, (3, 2): 2}
                before, after = nodes[k - 1] if k else None, nodes[k + 1] if k + 1 < len(nodes) else None
                card.ports = (ways.get((node, before or 0), 50), ways.get((node, after or 0), 60))
            cards += [card] * (2 if chance.random() < 0.1 else 1)
    cards.sort(key=lambda card: card.time)
    for _ in range(len(cards) // 4):
        k = chance.randrange(len(cards))
        cards[k - 1], cards[k] = cards[k], cards[k - 1]
    if chance.random() < 0.05:
        cards[len(cards) // 2].time -= 5_000 * MS
    return cards


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@example(seed=3811424, count=29, size=1, with_links=False, comparable=False)  # a clock put back
@given(
    seed=st.integers(0, 1 << 32), count=st.integers(2, 60), size=st.integers(1, 100),
    with_links=st.booleans(), comparable=st.booleans(),
)  # fmt: skip
def test_kernel_equals_twin(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    count: int,
    size: int,
    with_links: bool,
    comparable: bool,
) -> None:
    """Any postcards: the same paths in the same order, the same counters, whatever the batches."""
    cards = any_cards(Random(seed), count, with_links)
    clock = Clock(comparable=comparable, bits=32)
    file = tmp_path_factory.getbasetemp() / "links.toml"
    file.write_text(LINKS)
    one = joiner(packets=256, links=file if with_links else None)
    twin = Twin(read_links(file) if with_links else {})
    found: list[Given] = []
    for at in range(0, len(cards), size):
        part = batch(cards[at : at + size], first_packet=at)
        found += paths(one.update(part, clock))
    for number, card in enumerate(cards):
        twin.take(number, card, clock)
    found += paths(one.flush())
    for key in list(twin.waiting):
        twin.give(key)
    assert found == twin.out
    assert counts(one) == twin.counts


# --------------------------------------------------------------------------------------------- whole networks


@pytest.mark.parametrize("mode", ["mx", "xd"])
def test_postcards_tell_what_a_stack_would(tmp_path: Path, mode: str) -> None:
    """The same traffic reported by sinks and by postcards: the same paths of flows, and latencies."""
    topology = parse_topology("leaf-spine:4x2x4")
    file = tmp_path / "links.csv"
    links = topology.ports[(topology.ports["peer_switch"] >= 0) & (topology.ports["switch"] >= 0)]
    rows = [f"{p['node_id']},{p['number']},{topology.switches[p['peer_switch']].node_id}\n" for p in links]
    file.write_text("node_id,egress_port,next_node_id\n" + "".join(rows))

    def found(mode: str) -> dict[str, set[Any]]:
        simulation = Simulation(topology, SimulationModel(report=ReportModel(mode=mode), seed=3))
        detector = Detector(DetectSettings(flow_rows=1024, ports=1024, sources=64))
        one = Joiner(PostcardSettings(links=file), detector.counters, held=True)
        parts = [part for reports in simulation.run(0.1) for part in one.update(reports)]
        events = [block.copy() for part in [*parts, *one.flush()] for block in detector.update(part)]
        assert detector.counters[INDEX["lost_reports"]] == 0
        assert detector.counters[INDEX["postcard_paths_total.incomplete"]] == 0
        new = np.concatenate(events)
        new = new[new["kind"] == Kind.NEW_KEY]
        return {
            metric.label: {(int(row["flow_id"]), *row["path"].tolist(), int(row["value"])) for row in rows}
            for metric in (Metric.FLOW_PATH, Metric.FLOW_LATENCY)
            for rows in [new[new["metric"] == metric]]
        }

    by_sinks = found("md")
    assert len(by_sinks["flow_path"]) > 100
    assert found(mode) == by_sinks

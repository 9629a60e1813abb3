"""The sink: its kernels do what the plain-Python twin does, on anything; nothing is counted twice or lost."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hopscope.detect.counters import INDEX
from hopscope.detect.flows.reading.state import StateReader
from hopscope.detect.records import NO_VALUE, ClearReason, Kind, Metric
from hopscope.detect.sink.detector import SinkDetector
from hopscope.detect.sink.records import EVICTED, EVICTED_VERSION, EvictionReason, Measure, Type
from hopscope.detect.thresholds import CONTROL_FILE, create_control, set_limits
from hopscope.memory.ring import RingReader, attach_ring
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import (
    SINK_METRICS,
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)
from hopscope.settings.sink import AdaptSettings, DistributionSettings, SinkSettings
from hopscope.wire.records import Flag, Have, Mode

pytestmark = pytest.mark.kernel

KEY = ("src_hi", "src_lo", "dst_hi", "dst_lo", "sport", "dport", "proto", "ip_version")
MEASURED = Have.NODE_ID | Have.PORTS | Have.HOP_LATENCY | Have.QUEUE_OCCUPANCY | Have.TX_UTILIZATION
BITS = [bit for bit in Have if bit & MEASURED]
SMALL = DetectSettings(flow_rows=2, hop_pool=2, ports=64, sources=16)
LIMITS = ThresholdSettings(
    hop_latency=MetricLimits(change=12, raise_above=25),
    queue_occupancy=MetricLimits(change=6),
    link_utilization=MetricLimits(raise_above=11),
    flow_latency=MetricLimits(change=30, raise_above=70),
)
ALARMS = ThresholdSettings(
    hop_latency=MetricLimits(change=12, raise_above=25, clear_below=9),
    queue_occupancy=MetricLimits(change=6, raise_above=9, clear_below=4),
    link_utilization=MetricLimits(raise_above=10, clear_below=10),
    flow_latency=MetricLimits(change=30, raise_above=70, clear_below=40),
)
MEASURED_METRICS = (*SINK_METRICS[1:], SINK_METRICS[0])  # in the order of Measure
NONE = ThresholdSettings.model_validate({name: {} for name in ThresholdSettings.model_fields})
SWITCHES = (
    SwitchLimits(node=3, hop_latency=SwitchMetricLimits(raise_above=10)),
    SwitchLimits(node=70000, queue_occupancy=SwitchMetricLimits(change=0, clear_below="never")),
)


def config(limits: ThresholdSettings = LIMITS, sink: SinkSettings | None = None, **detect: Any) -> Settings:
    """Settings; without those of a sink, two switches have limits of their own."""
    switches = SWITCHES if sink is None else ()
    return Settings(
        detect=SMALL.model_copy(update={"thresholds": limits, "switches": switches, **detect}),
        sink=sink or SinkSettings(),
        distributions=DistributionSettings(queues=1024),
    )


def any_hop(make: Any, chance: Random, node: int, odd: bool) -> Any:
    have, null = int(MEASURED), 0
    if odd:
        have &= ~sum(bit for bit in BITS if chance.random() < 0.15)
        null = sum(bit for bit in BITS if chance.random() < 0.1)
    draw = chance.random
    return make.Hop(
        node=node, latency=int(31 * draw()), queue=int(3 * draw()) // 2, occupancy=int(13 * draw()),
        utilization=int(13 * draw()), port=1 + int(2 * draw()), have=have, null=null,
    )  # fmt: skip


def any_packets(make: Any, seed: int, count: int, flows: int, longest: int) -> list[Any]:
    """Packets of a few flows that mostly repeat their paths, with everything odd now and then."""
    chance = Random(seed)
    paths: dict[int, list[int]] = {}
    shape = int(MEASURED)
    found = []
    for i in range(count):
        flow = int(flows * chance.random() ** 2)
        if flow not in paths or chance.random() < 0.1:
            nodes = [1, 2, 3, 4, 70000] if chance.random() < 0.3 else range(1, 40)
            paths[flow] = [chance.choice(nodes) for _ in range(chance.randrange(longest + 1))]
        odd = chance.random() < 0.25
        if chance.random() < 0.05:
            shape = int(MEASURED) & ~chance.choice([0, Have.PORTS, Have.QUEUE_OCCUPANCY])
        hops = [any_hop(make, chance, node, odd and chance.random() < 0.5) for node in paths[flow]]
        for hop in hops:
            hop.have &= shape
        if odd and chance.random() < 0.4:
            del hops[chance.randrange(len(hops) + 1) :]
        found.append(
            make.Report(
                hops=hops,
                flow=None if odd and chance.random() < 0.05 else flow,
                time=3 * i,
                version=20 if odd and chance.random() < 0.1 else 0,
                flags=chance.choice([8, Flag.JOINED, Flag.HELD, 32]) if chance.random() < 0.05 else 0,
                int_flags=chance.randrange(4) if odd else 0,
                int_version=0 if odd and chance.random() < 0.1 else 20,
                reason=int(odd and chance.random() < 0.1),
            )
        )
    return found


def batch_of(make: Any, packets: list[Any], chance: Random) -> Any:
    batch = make.batch(packets)
    batch.reports["int_mode"] = [chance.choice([Mode.MD] * 30 + [Mode.MX]) for _ in packets]
    return batch


def plain(record: np.void, names: Iterable[str] = KEY) -> tuple[int, ...]:
    return tuple(int(record[name]) for name in names)


def told(records: Any) -> list[tuple[Any, ...]]:
    """SINK_EVENT records as the twin has them."""
    found: list[tuple[Any, ...]] = []
    for e in records:
        head = (plain(e), int(e["time_ns"]), int(e["types"]), int(e["node_id"]), int(e["hop"]))
        hop_count = int(e["hop_count"])
        pairs = [
            (int(e[name]), int(e[f"{name}_previous"])) for name in ("latency", "occupancy", "utilization")
        ]
        if e["node_id"] == 0xFFFFFFFF:
            found.append((*head, hop_count, *pairs[0], tuple(int(node) for node in e["path"])))
            assert pairs[1:] == [(0, 0), (0, 0)]
        else:
            found.append((*head, hop_count, *pairs, int(e["port"]), int(e["queue_id"])))
            assert not e["path"].any()
    return found


def kept(blocks: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Events for the journal as the twin has them; of a path in several parts the first."""
    return [
        (
            Kind(e["kind"]).label,
            Metric(e["metric"]).label,
            *plain(e, ("value", "previous", "node_id", "ident")),
        )
        for block in blocks
        for e in block.copy()
        if e["kind"] != Kind.FLOW_RECORD and not (e["metric"] == Metric.FLOW_PATH and e["hop"])
    ]


def recorded(blocks: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Flow records as `record_of` has them; the parts of a path joined."""
    found: list[tuple[Any, ...]] = []
    for e in (e for block in blocks for e in block if e["kind"] == Kind.FLOW_RECORD):
        metric = Metric(e["metric"])
        line = (metric.label, plain(e), *plain(e, ("time_ns", "value", "previous")))
        if metric is Metric.FLOW_PATH and e["hop"]:
            assert found[-1][:-1] == (*line, int(e["hop_count"]))
            assert found[-1][-1] == e["hop"]
            found[-1] = (*line, int(e["hop_count"]), min(int(e["hop"]) + 8, int(e["hop_count"])))
        elif metric is Metric.FLOW_PATH:
            found.append((*line, int(e["hop_count"]), min(8, int(e["hop_count"]))))
        elif metric is Metric.FLOW_LATENCY:
            found.append(line)
        elif e["hop"] < 8 or e["node_id"] != 0xFFFFFFFF:
            found.append((*line, *plain(e, ("node_id", "port", "ident"))))
    return found


def record_of(flow: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """What history should have of a flow that the twin let go: path and packets, means, latest values."""
    key, packets, first, last, nodes, (latest, total, samples), hops = flow
    found: list[tuple[Any, ...]] = [("flow_path", key, last, packets, first, nodes, nodes)]
    if samples:
        found.append(("flow_latency", key, last, total // samples, latest))
    for node, port, queue, count, values in hops:
        idents = {"hop_latency": 0, "queue_occupancy": queue, "link_utilization": port}
        for name, ident in idents.items():
            if count and name in values:
                newest, sum_ = values[name]
                found.append((name, key, last, sum_ // count, newest, node, port, ident))
    return found


def hop_record(
    node: Any, port: Any, queue: Any, samples: Any, have: Any, values: list[Any]
) -> tuple[Any, ...]:
    names = ("hop_latency", "queue_occupancy", "link_utilization")
    found = {
        name: (int(values[2 * k]), int(values[2 * k + 1]))
        for k, name in enumerate(names)
        if int(have) >> k & 1
    }
    return int(node), int(port), int(queue), int(samples) if found else 0, found


def left(records: Any) -> list[tuple[Any, ...]]:
    """EVICTED records as the twin has them; parts joined, hops that are not known left out."""
    found: list[tuple[Any, ...]] = []
    for e in records:
        hops = [
            hop_record(
                hop["node_id"], hop["port"], hop["queue_id"], hop["samples"], hop["have"],
                [hop[f"{name}_{what}"] for name in ("latency", "occupancy", "utilization")
                 for what in ("latest", "sum")],
            )
            for hop in e["hops"][: max(int(e["hop_count"]) - int(e["first_hop"]), 0)]
            if not e["first_hop"] or hop["node_id"] != 0xFFFFFFFF
        ]  # fmt: skip
        if e["first_hop"]:
            found[-1][-1].extend(hops)
            assert e["packets"] == 0
            continue
        latency = plain(e, ("latency_latest", "latency_sum", "latency_samples"))
        found.append(
            (plain(e), int(e["packets"]), *plain(e, ("first_ns", "last_ns", "hop_count")), latency, hops)
        )
    return found


def alive(folder: Path) -> list[tuple[Any, ...]]:
    """Flows of a folder as the twin has them, through the reader that serves the API."""
    reader = StateReader.attach(folder)
    found = []
    for flow in reader.flows():
        hops = [
            hop_record(
                hop["node_id"], hop["egress_port"], hop["buffer_slot"], hop["samples"], hop["state"],
                [hop[name] for name in ("latency_latest", "latency_sum", "queue_latest", "queue_sum",
                                        "utilization_latest", "utilization_sum")],
            )
            for k, hop in enumerate(reader.hops_of(flow))
            if k < 8 or hop["node_id"] != 0xFFFFFFFF
        ]  # fmt: skip
        latency = plain(flow, ("latency_latest", "latency_sum", "latency_samples"))
        found.append(
            (
                plain(flow),
                int(flow["packets"]),
                *plain(flow, ("first_ns", "last_ns", "hop_count")),
                latency,
                hops,
            )
        )
    return found


def new_events(detector: SinkDetector, before: int) -> Any:
    """SINK_EVENT records since the ring's head was `before`."""
    ring = detector.event_ring
    return ring.records[np.arange(before, ring.head) % ring.capacity]


def evictions_of(detector: SinkDetector) -> list[np.ndarray]:
    """What the detector will evict, in blocks."""
    blocks: list[np.ndarray] = []
    detector.on_eviction = lambda records: blocks.append(records.copy())
    return blocks


def joined(blocks: list[np.ndarray]) -> np.ndarray:
    """Blocks of EVICTED records as one; the list is empty then."""
    records: np.ndarray = np.concatenate([np.zeros(0, EVICTED), *blocks])
    blocks.clear()
    return records


def evicted_ring(folder: Path) -> np.ndarray:
    """Records of the eviction ring, which must be numbered without gaps."""
    records, lost = RingReader(attach_ring(folder / "worker-0.evictions", EVICTED_VERSION), "oldest").read(
        1 << 20
    )
    assert lost == 0
    assert records["sequence"].tolist() == list(range(len(records)))
    return records


def compare(make: Any, twin: Any, detector: SinkDetector, packets: list[Any], parts: int, seed: int) -> None:
    chance = Random(seed)
    gone = evictions_of(detector)
    for at in range(0, len(packets), parts):
        batch = batch_of(make, packets[at : at + parts], chance)
        head = detector.event_ring.head
        blocks = [block.copy() for block in detector.update(batch)]
        journal = kept(blocks)
        twin.update(batch)
        events = new_events(detector, head)
        assert told(events) == twin.events
        assert events["sequence"].tolist() == list(range(head, head + len(events)))
        assert journal == twin.journal
        assert detector.event_rows.tolist() == twin.marked
        evicted = joined(gone)
        assert left(evicted) == twin.gone
        assert recorded(blocks) == [line for flow in twin.gone for line in record_of(flow)]
        assert np.all(evicted["reason"] == EvictionReason.EVICTED)
    expected = {f"sink_events_total.{kind.label}": twin.counted[f"type.{k}"] for k, kind in enumerate(Type)}
    expected |= {
        f"sink_throttled_events_total.{kind.label}": twin.counted[f"held.{k}"] for k, kind in enumerate(Type)
    }
    expected |= {
        "sink_packets_total": twin.counted["packets"],
        "sink_journal_throttled_events_total": twin.counted["journal"],
        "hop_pool_full_total": twin.counted["pool"],
        "hops_without_node_id_total": twin.counted["nameless"],
        "distribution_table_full_total": 0,
    }
    assert {key: int(detector.counters[INDEX[key]]) for key in expected} == expected


def counts(detector: SinkDetector) -> dict[tuple[Any, ...], int]:
    """Values in the distributions by (node, port, queue, measure, value): all are in bins of one value."""
    found: dict[tuple[Any, ...], int] = {}
    bins = detector.distributions.bins.reshape(-1, 3, 128)
    for row, values in zip(detector.distributions.rows, bins, strict=True):
        if row["key"] > 1:
            for measure, at in zip(*np.nonzero(values), strict=True):
                key = (int(row["node_id"]), int(row["port"]), int(row["queue_id"]), Measure(measure).label)
                found[*key, int(at)] = int(values[measure, at])
    return found


quick = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


@quick
@given(
    seed=st.integers(0, 1 << 32), count=st.integers(1, 160), parts=st.integers(1, 161),
    flows=st.sampled_from([3, 60]), longest=st.sampled_from([4, 20]),
    quota=st.sampled_from([0, 9]), journal=st.sampled_from([10_000, 40]),
    limits=st.sampled_from([LIMITS, ALARMS]),
)  # fmt: skip
def test_kernel_equals_twin(
    make: Any, sink_reference: Any, seed: int, count: int, parts: int, flows: int, longest: int,
    quota: int, journal: int, limits: ThresholdSettings,
) -> None:  # fmt: skip
    """Any packets: same events, journal, evictions and counters as the twin, whatever the batches.

    Tables are small, so that flows are evicted and the pool is short; paths change, are long, cut and
    nameless; measures are missing or null; quotas run out; alarms are raised and cleared.
    """
    chosen = config(limits, SinkSettings(quota=quota, journal_events=journal), switches=SWITCHES, ports=1024)
    twin = sink_reference.Reference(chosen)
    detector = SinkDetector(chosen)
    compare(make, twin, detector, any_packets(make, seed, count, flows, longest), parts, seed)


def test_state_and_distributions_equal_twin(make: Any, sink_reference: Any, tmp_path: Path) -> None:
    """A long run: flows through the API's reader, means, distributions; live and gone make all packets."""
    chosen = config()
    twin = sink_reference.Reference(chosen)
    edges = tuple(range(1, 100))
    one_each = DistributionSettings(
        queues=1024, hop_latency=edges, queue_occupancy=edges, link_utilization=edges, end_to_end=edges
    )
    detector = SinkDetector(chosen.model_copy(update={"distributions": one_each}), tmp_path)
    compare(make, twin, detector, any_packets(make, 7, 1500, 40, 12), 200, 7)
    assert sorted(alive(tmp_path)) == sorted(twin.live())
    gone = twin.counted["packets"] - sum(record[1] for record in twin.live())
    assert int(evicted_ring(tmp_path)["packets"].sum()) == gone
    expected = {key: n for key, n in twin.values.items() if key[0] != "end_to_end"}
    found = {(*key, max(value, 1)): 0 for *key, value in expected}
    for *key, value in expected:
        found[*key, max(value, 1)] += expected[*key, value]
    # the edges 1, 2, 3 … have 0 and 1 in bin 0, and v in bin v - 1
    assert {(*key, value + 1): n for (*key, value), n in counts(detector).items()} == found
    path = detector.distributions.bins[:128]
    assert int(path.sum()) == sum(n for key, n in twin.values.items() if key[0] == "end_to_end")

    now = make.T0 + 1500 * 3
    for _ in detector.tick(now):
        pass
    ended = evictions_of(detector)
    for _ in detector.close(now):
        pass
    everything = joined(ended)
    assert sorted(left(everything)) == sorted(twin.expire(now, None))
    assert np.all(everything["reason"] == EvictionReason.ENDED)
    assert int(evicted_ring(tmp_path)["packets"].sum()) == twin.counted["packets"]
    assert alive(tmp_path) == []


def test_idle_flows_expire(make: Any, sink_reference: Any) -> None:
    """A flow idle for `idle_seconds` leaves within an eighth of them, and is reported once; others stay."""
    chosen = config(idle_seconds=8.0)
    twin, detector = sink_reference.Reference(chosen), SinkDetector(chosen)
    stream = any_packets(make, 3, 20, 20, 5)
    compare(make, twin, detector, stream, 20, 3)
    late = make.batch([make.Report(hops=make.path(1), flow=500, version=0, time=5 * 10**9)])
    for _ in detector.update(late):
        pass
    twin.update(late)
    evicted = evictions_of(detector)
    for second in range(5, 11):
        for _ in detector.tick(make.T0 + second * 10**9):
            pass
    gone = joined(evicted)
    assert np.all(gone["reason"] == EvictionReason.EXPIRED)
    assert sorted(left(gone)) == sorted(twin.expire(make.T0 + 9 * 10**9, 8 * 10**9))
    assert int(detector.counters[INDEX["flow_expiries_total"]]) == len(twin.gone) + len(left(gone))
    assert [record[0] for record in twin.live()] == [make.flow_key(500)]


def written_packets(blocks: Iterable[Any]) -> int:
    """Packets of the flow records in some blocks."""
    total = 0
    for block in blocks:
        paths = block[(block["kind"] == Kind.FLOW_RECORD) & (block["metric"] == Metric.FLOW_PATH)]
        total += int(paths["value"][paths["hop"] == 0].sum())
    return total


@pytest.mark.parametrize("quota", [1 << 20, 3, 0])
def test_every_packet_is_in_a_record_or_live(make: Any, tmp_path: Path, quota: int) -> None:
    """Packets of flow records, of live flows and of flows above the quota are all packets that came: after
    evictions, after expiry and at the end.
    """
    detector = SinkDetector(
        config(sink=SinkSettings(journal_flows=quota), switches=SWITCHES, idle_seconds=8.0), tmp_path
    )
    came = written = 0
    for turn in range(7):
        now = turn << 32
        packets = [
            make.Report(hops=make.path(1, 2), flow=7 * turn + k % 50, version=0, time=now + k)
            for k in range(200)
        ]
        came += len(packets)
        written += written_packets(detector.update(make.batch(packets)))
        written += written_packets(detector.tick(make.T0 + now + 300))
        if turn == 6:
            written += written_packets(detector.end(make.T0 + now + 300))
        unrecorded = int(detector.counters[INDEX["unrecorded_flow_packets_total"]])
        live = sum(record[1] for record in alive(tmp_path))
        assert written + live + unrecorded == came
    assert live == 0
    assert written > 0  # at the end there is no quota
    assert (detector.counters[INDEX["unrecorded_flows_total"]] == 0) == (quota > 100)


def test_records_that_do_not_fit_one_call(make: Any, sink_reference: Any) -> None:
    """More events than a call's block: the rest come with the next call, and nothing is missing."""
    everything = ThresholdSettings(**{name: MetricLimits(raise_above=0) for name in SINK_METRICS})
    chosen = config(everything, SinkSettings(journal_flows=10**6), flow_rows=1)
    packets = [
        make.Report(hops=make.path(*range(1, 6), occupancy=1, utilization=1), flow=k % 40, version=0, time=k)
        for k in range(1800)
    ]
    twin, detector = sink_reference.Reference(chosen), SinkDetector(chosen)
    compare(make, twin, detector, packets, 1800, 1)
    assert len(twin.events) > 8192
    assert len(twin.gone) > 1024


def test_thresholds_adapt(make: Any) -> None:
    """With more events than are taken the limits rise, which is an event and a counter."""
    adapt = AdaptSettings(enabled=True, events_per_second=10, factor=2.0, max_factor=4.0, step_seconds=1.0)
    limits = NONE.model_copy(update={"hop_latency": MetricLimits(raise_above=8)})
    detector = SinkDetector(config(limits, SinkSettings(adapt=adapt)))
    steps = []
    for second in range(4):
        now = second * 10**9
        packets = [
            make.Report(hops=make.path(1, latency=10 + k % 10), version=0, time=now + k) for k in range(100)
        ]
        for _ in detector.update(make.batch(packets)):
            pass
        for block in detector.tick(make.T0 + now):
            steps += [(int(e["value"]), int(e["previous"])) for e in block if e["kind"] == Kind.ADAPTED]
    # above 8: all; above 16: three of ten; above 32: none
    assert steps == [(2000, 1000), (4000, 2000)]
    assert int(detector.counters[INDEX["sink_events_total.latency_above"]]) == 100 + 100 + 30
    assert int(detector.counters[INDEX["sink_threshold_increase_permille"]]) == 3000
    assert int(detector.counters[INDEX["events_total.adapted"]]) == 2


def test_limits_change_while_it_runs(make: Any) -> None:
    """Limits that the supervisor changes, of all and of one switch, are in force with the next batch."""
    detector = SinkDetector(config(ThresholdSettings(hop_latency=MetricLimits()), SinkSettings()))
    found = []
    for change in (None, 5, None):
        limits = ThresholdSettings(hop_latency=MetricLimits(raise_above=change))
        own = (
            () if change is None else (SwitchLimits(node=2, hop_latency=SwitchMetricLimits(raise_above=50)),)
        )
        set_limits(detector.control, LimitSettings(general=limits, switches=own), "a test")
        head = detector.event_ring.head
        packets = [make.Report(hops=make.path(1, 2), version=0, time=k) for k in range(3)]
        for _ in detector.update(make.batch(packets)):
            pass
        found.append(new_events(detector, head)["node_id"].tolist())
    assert found == [[], [1, 1, 1], []]


def test_queues_and_ports_are_shown(make: Any) -> None:
    """The port table has the newest and the highest value of each queue and link, and how many there were."""
    detector = SinkDetector(config())
    hops = [(5, 1), (9, 2), (7, 1)]
    for k, (value, port) in enumerate(hops):
        hop = make.Hop(node=1, queue=2, occupancy=value, utilization=value + 1, port=port)
        for _ in detector.update(make.batch([make.Report(hops=[hop], version=0, time=k)])):
            pass
        for _ in detector.tick(make.T0 + k):
            pass
    rows = detector.tables["ports"]["ports"]
    shown = {
        plain(row, ("kind", "ident", "port")): (
            *plain(row, ("node_id", "samples")),
            int(row["latest"][0]),
            int(row["highest"][0]),
        )
        for row in rows[rows["key"] > 1]
    }
    assert shown == {
        (2, 2, 1): (1, 2, 7, 7),
        (2, 2, 2): (1, 1, 9, 9),
        (1, 1, 1): (1, 2, 8, 8),
        (1, 2, 2): (1, 1, 10, 10),
    }


def test_a_hop_that_carries_no_queue_any_more_has_no_value_of_it(make: Any, tmp_path: Path) -> None:
    """Latest values are those of the newest packet; what it does not carry is unavailable, not 0."""
    detector = SinkDetector(config(), tmp_path)
    latency = int(Have.NODE_ID | Have.HOP_LATENCY)
    shown = []
    for have in (latency, int(MEASURED), latency):
        hop = make.Hop(occupancy=3, utilization=4, have=have)
        list(detector.update(make.batch([make.Report(hops=[hop], version=0)])))
        reader = StateReader.attach(tmp_path)
        (state,) = reader.hops_of(reader.flows()[0])
        shown.append((int(state["queue_latest"]), int(state["utilization_latest"])))
    assert shown == [(NO_VALUE, NO_VALUE), (3, 4), (NO_VALUE, NO_VALUE)]


def test_queues_are_shown_after_the_clock_was_set_back(make: Any) -> None:
    """A queue is shown, too, whose packets are an hour older than those that were shown before."""
    detector = SinkDetector(config())
    for value, at in ((5, 3600 * 10**9), (9, 0)):
        hop = make.Hop(node=1, queue=2, occupancy=value, port=1)
        for _ in detector.update(make.batch([make.Report(hops=[hop], version=0, time=at)])):
            pass
        for _ in detector.tick(make.T0 + at):
            pass
    rows = detector.tables["ports"]["ports"]
    assert [int(row["samples"]) for row in rows[rows["key"] > 1] if row["kind"] == 2] == [2]


def shown_samples(detector: SinkDetector) -> list[int]:
    """Samples of each row of the table of queues and ports."""
    rows = detector.tables["ports"]["ports"]
    return [int(row["samples"]) for row in rows[rows["key"] > 1]]


def test_a_restart_counts_no_value_twice(make: Any, tmp_path: Path) -> None:
    """Queues and links of a sink that goes on have the samples that they had, and those after it."""
    for expected in (1, 2, 3):
        detector = SinkDetector(config(), tmp_path)
        list(detector.update(make.batch([make.Report(hops=[make.Hop()], version=0, time=expected)])))
        list(detector.tick(make.T0 + expected))
        assert shown_samples(detector) == [expected, expected]


def test_queues_without_packets_leave(make: Any) -> None:
    """Those of the last packet, too, and they stay away."""
    detector = SinkDetector(config(idle_seconds=1.0))
    list(detector.update(make.batch([make.Report(hops=[make.Hop()], version=0)])))
    left = []
    for step in range(30):
        list(detector.tick(make.T0 + step * 10**8))
        left.append(len(shown_samples(detector)))
    assert (left[0], left[12:]) == (2, [0] * 18)


def test_a_full_table_of_distributions_makes_room(make: Any) -> None:
    """In a sink, too: queues that were silent for a minute go, packets are counted at the right ones, and
    queues and ports show each value once.
    """
    detector = SinkDetector(config().model_copy(update={"distributions": DistributionSettings(queues=16)}))

    def take(nodes: range, at: int, flow: int) -> None:
        hops = [make.Hop(node=node, queue=2, occupancy=node, port=1) for node in nodes]
        for _ in detector.update(make.batch([make.Report(hops=hops, version=0, time=at, flow=flow)])):
            pass
        for _ in detector.tick(make.T0 + at):
            pass

    for flow, first in enumerate((1, 6, 11)):  # 15 queues fill the table
        take(range(first, first + 5), 0, flow)
    take(range(1, 6), 59 * 10**9, 0)
    take(range(20, 25), 61 * 10**9, 3)
    take(range(20, 25), 62 * 10**9, 3)
    rows, bins = detector.distributions.rows, detector.distributions.bins.reshape(-1, 3, 128)
    used = np.flatnonzero(rows["key"] > 1)
    counted = {int(rows["node_id"][at]): int(bins[at, 1].sum()) for at in used}
    assert len(counted) == 15
    assert {node: counted.get(node) for node in (1, 5, 20, 24)} == {1: 2, 5: 2, 20: 2, 24: 2}
    assert detector.counters[INDEX["distribution_evictions_total"]] == 5
    ports = detector.tables["ports"]["ports"]
    shown = {int(row["node_id"]): int(row["samples"]) for row in ports if row["key"] > 1 and row["kind"] == 2}
    assert [shown[node] for node in range(20, 25)] == [2] * 5


def alarms(blocks: Iterable[Any]) -> list[tuple[Any, ...]]:
    """RAISED, CLEARED and LOOP events: (kind, metric, node, value, previous, reason)."""
    return [
        (
            Kind(e["kind"]).label,
            Metric(e["metric"]).label,
            *plain(e, ("node_id", "value", "previous", "reason")),
        )
        for block in blocks
        for e in block.copy()
        if e["kind"] in (Kind.RAISED, Kind.CLEARED, Kind.LOOP)
    ]


def test_alarms_of_a_queue_link_hop_and_flow(make: Any) -> None:
    """Hysteresis as in the collector: raised once above one limit, cleared once below the other, counted."""
    limits = MetricLimits(raise_above=10, clear_below=5)
    four = MEASURED_METRICS
    chosen = NONE.model_copy(update=dict.fromkeys(four, limits))
    detector = SinkDetector(config(chosen, SinkSettings()))
    found, gauges = [], []
    for k, value in enumerate((10, 11, 12, 5, 4, 4)):
        hop = make.Hop(node=7, latency=value, queue=1, occupancy=value, utilization=value, port=2)
        found.append(alarms(detector.update(make.batch([make.Report(hops=[hop], version=0, time=k)]))))
        gauges.append([int(detector.counters[INDEX[f"alarms.{name}"]]) for name in four])
    raised = [("raised", name, 7, 11, 10, 0) for name in four[:3]] + [
        ("raised", four[3], 0xFFFFFFFF, 11, 10, 0)
    ]
    cleared = [("cleared", name, 7, 4, 5, 0) for name in four[:3]] + [
        ("cleared", four[3], 0xFFFFFFFF, 4, 5, 0)
    ]
    assert found == [[], raised, [], [], cleared, []]
    assert gauges == [[0] * 4, [1] * 4, [1] * 4, [1] * 4, [0] * 4, [0] * 4]
    assert int(detector.counters[INDEX["sink_events_total.latency_above"]]) == 2  # the ring has every packet
    assert int(detector.counters[INDEX["events_total.threshold"]]) == 0


def test_an_alarm_of_a_queue_is_one_for_all_flows(make: Any) -> None:
    """Two flows meet a long queue: one alarm, cleared by a third flow."""
    limits = NONE.model_copy(update={"queue_occupancy": MetricLimits(raise_above=10, clear_below=5)})
    detector = SinkDetector(config(limits, SinkSettings()))
    packets = [
        make.Report(
            hops=[make.Hop(node=7, queue=1, occupancy=occupancy, port=2)], flow=flow, version=0, time=flow
        )
        for flow, occupancy in enumerate((20, 30, 1))
    ]
    assert alarms(detector.update(make.batch(packets))) == [
        ("raised", "queue_occupancy", 7, 20, 10, 0), ("cleared", "queue_occupancy", 7, 1, 5, 0)
    ]  # fmt: skip


def test_alarms_end_with_their_keys(make: Any) -> None:
    """Alarms of a flow, hop, queue or link that expires, and of a hop that left, are cleared."""
    names = MEASURED_METRICS
    chosen = NONE.model_copy(update=dict.fromkeys(names, MetricLimits(raise_above=10, clear_below=5)))
    detector = SinkDetector(config(chosen, SinkSettings(), idle_seconds=8.0))

    def hop(node: int) -> Any:
        return make.Hop(node=node, latency=11, queue=1, occupancy=11, utilization=11, port=2)

    for at, nodes in enumerate(((1, 2), (1, 3))):
        packet = make.Report(hops=[hop(node) for node in nodes], version=0, time=at)
        found = alarms(detector.update(make.batch([packet])))
    assert found[0] == ("cleared", "hop_latency", 2, 11, 0, ClearReason.PATH_CHANGE)
    blocks = [block.copy() for second in range(1, 20) for block in detector.tick(make.T0 + second * 10**9)]
    expired = alarms(blocks)
    places = [("flow_latency", 0xFFFFFFFF), *(("hop_latency", node) for node in (1, 3))]
    places += [(name, node) for name in names[1:3] for node in (1, 2, 3)]
    assert sorted((name, node) for _, name, node, *_ in expired) == sorted(places)
    assert {(kind, reason) for kind, *_, reason in expired} == {("cleared", ClearReason.EXPIRED)}
    assert [int(detector.counters[INDEX[f"alarms.{name}"]]) for name in names] == [0] * 4


def test_an_alarm_survives_its_worker(make: Any, tmp_path: Path) -> None:
    """A worker that starts again on the same tables clears what the one before raised."""
    limits = NONE.model_copy(update={"hop_latency": MetricLimits(raise_above=10, clear_below=5)})
    found = []
    for at, latency in enumerate((11, 4)):
        detector = SinkDetector(config(limits, SinkSettings()), tmp_path)
        packet = make.Report(hops=[make.Hop(node=7, latency=latency)], version=0, time=at)
        found += alarms(detector.update(make.batch([packet])))
    assert [kind for kind, *_ in found] == ["raised", "cleared"]


def test_a_worker_that_starts_again_has_the_limits_in_force(make: Any, tmp_path: Path) -> None:
    """Changes outlive the worker: the next one compares with them, and not with the settings."""
    chosen = config(NONE, SinkSettings())
    owner = create_control(tmp_path / CONTROL_FILE, chosen.limits, sink=True)
    limits = NONE.model_copy(update={"hop_latency": MetricLimits(raise_above=10, clear_below=5)})
    set_limits(owner, LimitSettings(general=limits), "a test")
    for _ in range(2):
        detector = SinkDetector(chosen, tmp_path)
    packet = make.Report(hops=[make.Hop(node=7, latency=11)], version=0)
    assert [kind for kind, *_ in alarms(detector.update(make.batch([packet])))] == ["raised"]


def test_loops_are_events(make: Any) -> None:
    """A path with a node twice is a loop, once per path, with the node; also in history."""
    detector = SinkDetector(config(NONE, SinkSettings()))
    packets = [
        make.Report(hops=make.path(*nodes), version=0, time=at)
        for at, nodes in enumerate(((1, 2, 3), (1, 2, 1), (1, 2, 1), (1, 2, 3)))
    ]
    found = alarms(detector.update(make.batch(packets)))
    assert [(kind, metric, node) for kind, metric, node, *_ in found] == [("loop", "flow_path", 1)]

"""Detection: the kernels do what the plain-Python twin does, on anything; and each rule by an example."""

from __future__ import annotations

from copy import copy
from itertools import zip_longest
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.thresholds import set_limits
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import (
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
    ThresholdSettings,
)
from hopscope.wire.records import Flag, Have

pytestmark = pytest.mark.kernel

SMALL: dict[str, Any] = {"ports": 1024, "sources": 64, "flow_rows": 2, "hop_pool": 1}
LIMITS = ThresholdSettings(
    flow_latency=MetricLimits(change=20, raise_above=60, clear_below=30),
    hop_latency=MetricLimits(change=5, raise_above=25, clear_below=12),
    queue_occupancy=MetricLimits(change=3, raise_above=8, clear_below=4),
    queue_congestion=MetricLimits(change=0),
    link_utilization=MetricLimits(raise_above=10),
    buffer_occupancy=MetricLimits(change=2, raise_above=9, clear_below=9),
)
SWITCHES = (
    SwitchLimits(
        node=2,
        hop_latency=SwitchMetricLimits(raise_above="never", clear_below="never"),
        queue_congestion=SwitchMetricLimits(change="never", raise_above=9),
    ),
    SwitchLimits(
        node=3,
        hop_latency=SwitchMetricLimits(change=15),
        queue_occupancy=SwitchMetricLimits(change=0, clear_below="never"),
        link_utilization=SwitchMetricLimits(clear_below=5),
        buffer_occupancy=SwitchMetricLimits(change="never"),
    ),
)
MEASURED = (
    Have.NODE_ID
    | Have.PORTS
    | Have.HOP_LATENCY
    | Have.QUEUE_OCCUPANCY
    | Have.TX_UTILIZATION
    | Have.BUFFER_OCCUPANCY
    | Have.QUEUE_CONGESTION
    | Have.L2_PORTS
    | Have.INGRESS_TIME
    | Have.EGRESS_TIME
)
BITS = [bit for bit in Have if bit & MEASURED]


def any_hop(make: Any, chance: Random, damaged: bool) -> Any:
    have, null = int(MEASURED), 0
    if damaged:
        have &= ~sum(bit for bit in BITS if chance.random() < 0.12)
        null = sum(bit for bit in BITS if chance.random() < 0.08)
    draw = chance.random
    return make.Hop(
        node=1 + int(4 * draw()),
        latency=int(31 * draw()),
        queue=int(2 * draw()),
        occupancy=int(13 * draw()),
        congestion_queue=int(2 * draw()),
        congestion=int(13 * draw()),
        utilization=int(13 * draw()),
        buffer=int(2 * draw()),
        buffer_occupancy=int(13 * draw()),
        port=1 + int(2 * draw()),
        l2_port=1 + int(2 * draw()),
        ingress_time=int(1000 * draw()),
        egress_time=int(1000 * draw()),
        have=have,
        null=null,
    )


def any_reports(make: Any, seed: int, count: int, flows: int, longest: int) -> list[Any]:
    """Reports of a few flows that mostly repeat their paths, with everything odd now and then."""
    chance = Random(seed)
    paths: dict[int, list[int]] = {}
    found = []
    time = 0
    begin = chance.choice([0, (1 << 22) - 30, (1 << 32) - 30])
    for i in range(count):
        time += chance.randrange(1, 10)
        sequence = begin + i + (chance.randrange(-20, 20) if chance.random() < 0.3 else 0)
        odd = chance.random() < 0.25
        flow = chance.randrange(flows)
        if flow not in paths or chance.random() < 0.2:
            paths[flow] = [
                chance.randrange(1, 5 if odd else 30) for _ in range(chance.randrange(longest + 1))
            ]
        hops = [any_hop(make, chance, odd and chance.random() < 0.5) for _ in paths[flow]]
        for hop, node in zip(hops, paths[flow], strict=True):
            hop.node = node
        if odd and chance.random() < 0.5:
            del hops[chance.randrange(len(hops) + 1) :]
        found.append(
            make.Report(
                hops=hops,
                flow=None if odd and chance.random() < 0.2 else flow,
                time=time,
                sequence=sequence % (1 << 32),
                version=chance.choice([20, 20, 10, 0] if odd else [20, 20, 10]),
                node=None if odd and chance.random() < 0.3 else chance.randrange(1, 3),
                flags=chance.randrange(128) if odd else chance.choice([4, 4, 4, Flag.JOINED]),
                int_flags=chance.randrange(4) if odd else 0,
                int_version=0 if odd and chance.random() < 0.2 else 20,
                own=any_hop(make, chance, odd) if chance.random() < 0.3 else None,
                drop_reason=chance.randrange(256),
                queue_id=chance.choice([None, 0, 3]),
                switch_time=chance.choice([None, chance.randrange(1000)]),
                reason=int(odd and chance.random() < 0.2),
                place=chance.randrange(13) if odd else 0,
                index=int(odd and chance.random() < 0.2),
            )
        )
    return found


def compare(make: Any, reference: Any, config: DetectSettings, stream: list[Any], parts: int) -> None:
    detector, twin = Detector(config), reference.Reference(config, make.Event)
    for at in range(0, len(stream), parts):
        batch = make.batch(stream[at : at + parts])
        for found, expected in zip_longest(make.events_of(detector.update(batch)), twin.update(batch)):
            assert found == expected
    counted = {
        "values_total": twin.values,
        "flow_evictions_total": twin.evictions,
        "hops_without_node_id_total": twin.nameless,
        "lost_reports": twin.lost,
        "duplicate_reports_total": twin.duplicate,
        "reordered_reports_total": twin.reordered,
    }
    assert {key: int(detector.counters[INDEX[key]]) for key in counted} == counted


OWN_CHANGE = SwitchLimits(
    node=3,
    **dict.fromkeys(
        ("queue_occupancy", "link_utilization", "buffer_occupancy"),
        SwitchMetricLimits(change=4, raise_above="never", clear_below="never"),
    ),
)
LARGEST = (1 << 32) - 1
ANY_LIMIT = st.one_of(st.none(), st.integers(0, 12), st.integers(LARGEST - 6, LARGEST))
ANY_VALUE = st.one_of(st.integers(0, 12), st.integers(LARGEST - 6, LARGEST))

quick = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


seeds = given(seed=st.integers(0, 1 << 32), count=st.integers(1, 120), parts=st.integers(1, 121))


@quick
@seeds
@pytest.mark.parametrize(
    ("queue_key", "switches"),
    [("switch-queue", SWITCHES), ("switch-port-queue", ()), ("switch-port-queue", SWITCHES)],
)
def test_kernel_equals_twin(
    make: Any, reference: Any, seed: int, count: int, parts: int, queue_key: Any, switches: Any
) -> None:
    """Any reports of a few flows: same events in the same order, same counters, whatever the batches; with
    and without limits by switch.
    """
    config = DetectSettings(thresholds=LIMITS, switches=switches, queue_key=queue_key, **SMALL)
    compare(make, reference, config, any_reports(make, seed, count, 4, 5), parts)


@quick
@seeds
def test_kernel_equals_twin_long_paths(make: Any, reference: Any, seed: int, count: int, parts: int) -> None:
    """Paths of more than 8 hops, with one block in the pool: what it has no room for is cut alike."""
    config = DetectSettings(thresholds=LIMITS, **SMALL)
    compare(make, reference, config, any_reports(make, seed, count, 4, 20), parts)


@quick
@seeds
def test_kernel_equals_twin_on_long_steady_paths(
    make: Any, reference: Any, seed: int, count: int, parts: int
) -> None:
    """Paths of 9 to 20 hops that mostly stay as they are; the pool has room for two of three. Now and then a
    node, a latency or an occupancy of any hop changes, by more or by less than its threshold.
    """
    chance = Random(seed)
    limits = LIMITS.model_copy(update={"flow_latency": MetricLimits(change=20)})
    small: dict[str, Any] = SMALL | {"hop_pool": 2}
    config = DetectSettings(thresholds=limits, **small)
    flows = [make.path(*range(1, length + 1)) for length in (9, chance.randrange(10, 20), 20)]
    stream = []
    for i in range(count):
        flow = chance.randrange(len(flows))
        if chance.random() < 0.2:
            setattr(
                chance.choice(flows[flow]),
                chance.choice(["node", "latency", "occupancy", "buffer_occupancy"]),
                chance.randrange(1, 11),
            )
        stream.append(make.Report([copy(hop) for hop in flows[flow]], flow, i, i))
    compare(make, reference, config, stream, parts)


@quick
@seeds
def test_kernel_equals_twin_on_bare_paths(
    make: Any, reference: Any, seed: int, count: int, parts: int
) -> None:
    """Most reports carry node ids alone, so that there is nothing to compare or write: what the others
    change, and the events of evicted flows, are the same.
    """
    chance = Random(seed)
    config = DetectSettings(thresholds=LIMITS, **SMALL)
    bare = [int(Have.NODE_ID), int(Have.NODE_ID | Have.INGRESS_TIME), int(Have.NODE_ID | Have.PORTS)]
    stream = []
    for i in range(count):
        flow = chance.randrange(40)
        hops = make.path(*range(1, 2 + flow % 10), latency=7)
        for hop in hops:
            hop.have = chance.choice(bare[: 3 if i % 8 else 1])
        if chance.random() < 0.5:
            odd = chance.choice(hops)
            odd.have, odd.null, odd.node = chance.choice(
                [(int(MEASURED), 0, odd.node), (bare[0], 0, odd.node + 1), (bare[0], bare[0], odd.node)]
            )
        stream.append(make.Report(hops, flow, i, i))
    compare(make, reference, config, stream, parts)


@quick
@seeds
def test_kernel_equals_twin_with_evictions(
    make: Any, reference: Any, seed: int, count: int, parts: int
) -> None:
    """More flows than there is room for, of any shape."""
    config = DetectSettings(thresholds=LIMITS, **SMALL)
    compare(make, reference, config, any_reports(make, seed, count, 60, 10), parts)


@quick
@seeds
def test_kernel_equals_twin_without_detection(
    make: Any, reference: Any, seed: int, count: int, parts: int
) -> None:
    """With detection off every value of every report is an event."""
    config = DetectSettings(thresholds=LIMITS, enabled=False, **SMALL)
    compare(make, reference, config, any_reports(make, seed, count, 4, 10), parts)


@quick
@given(
    st.lists(st.tuples(ANY_LIMIT, ANY_LIMIT, ANY_LIMIT, st.lists(ANY_VALUE, max_size=30)), max_size=4),
    st.sampled_from([(), (OWN_CHANGE,)]),
)
@example([(None, None, None, [5, 5, 9]), (0, None, None, [9, 8])], ())
@example([(LARGEST, None, None, [5, LARGEST]), (12, 7, 3, [5, 7, 8, 2, 7])], (OWN_CHANGE,))
def test_kernel_equals_twin_while_limits_change(
    make: Any, reference: Any, phases: list[Any], switches: Any
) -> None:
    """Limits that change while a collector runs count from its next report on, from the smallest to the
    largest values: same events as the twin, whatever the rows of queues and ports had kept of the old limits.
    """
    config = DetectSettings(thresholds=LIMITS, switches=switches, **SMALL)
    detector, twin = Detector(config), reference.Reference(config, make.Event)
    time = 0
    for change, above, below, values in phases:
        every = MetricLimits(change=change, raise_above=above, clear_below=above and min(below or 0, above))
        general = ThresholdSettings(**dict.fromkeys(ThresholdSettings.model_fields, every))
        set_limits(detector.control, LimitSettings(general=general, switches=switches), "a test")
        twin.settings = config.model_copy(update={"thresholds": general})
        for value in values:
            time += 1
            hops = [
                make.Hop(node, 5, occupancy=value, utilization=value, buffer_occupancy=value)
                for node in (2, 3, 4)
            ]
            batch = make.batch([make.Report(hops, time=time, sequence=time)])
            for found, expected in zip_longest(make.events_of(detector.update(batch)), twin.update(batch)):
                assert found == expected


@quick
@given(st.lists(st.integers(0, 60), min_size=20, max_size=200), st.integers(1, 50))
def test_evictions_are_least_recently_used(make: Any, reference: Any, flows: list[int], parts: int) -> None:
    """Many flows in two rows of 12: the same ones are evicted, in the same order, with the same record."""
    config = DetectSettings(thresholds=LIMITS, **SMALL)
    stream = [make.Report(make.path(1, 2, latency=flow), flow, i, i) for i, flow in enumerate(flows)]
    compare(make, reference, config, stream, parts)


@quick
@given(st.lists(st.integers(0, 3000), min_size=1, max_size=100), st.integers(0, 500))
def test_stored_series_stays_within_t(make: Any, values: list[int], limit: int) -> None:
    """The last stored value is never further than T from the truth, for every measurement."""
    names = ("hop_latency", "flow_latency", "queue_occupancy", "link_utilization", "buffer_occupancy")
    config = DetectSettings(
        thresholds=ThresholdSettings(**{name: MetricLimits(change=limit) for name in names}), **SMALL
    )
    detector = Detector(config)
    stored: dict[str, int] = {}
    for i, value in enumerate(values):
        one = make.Hop(3, value, occupancy=value, utilization=value, buffer_occupancy=value)
        for event in make.run(detector, [make.Report([one], time=i, sequence=i)]):
            if event.metric != "flow_path":
                stored[event.metric] = event.value
        assert set(stored) == set(names)
        assert all(abs(value - kept) <= limit for kept in stored.values())

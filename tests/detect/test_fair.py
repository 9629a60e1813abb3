"""Tables that all sources share: none blinds them for the others, and nobody can choose keys that collide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.hash_keys import hash_keys
from hopscope.base.kernels.jit import U64
from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.detect.records import KEYS, OWNERS, ClearReason, Kind
from hopscope.settings.detect import DetectSettings
from hopscope.settings.limits import MetricLimits, ThresholdSettings
from hopscope.wire.records import Have

pytestmark = pytest.mark.kernel

SETTINGS: dict[str, Any] = {"ports": 128, "sources": 64, "flow_rows": 16, "hop_pool": 0}
QUEUE = int(Have.NODE_ID | Have.QUEUE_OCCUPANCY)
STRANGER, OTHER = 0x0A000001, 0x0A000002


def queues(make: Any, source: int, nodes: range, occupancy: int = 1, **more: Any) -> list[Any]:
    """A report of each node's queue, from a source of its own or the same for all."""
    return [
        make.Report(
            [make.Hop(node, occupancy=occupancy, have=QUEUE)], flow=node, source=source, node=node, **more
        )
        for node in nodes
    ]


def known(detector: Detector) -> set[int]:
    """Nodes with a row in the port table."""
    rows = detector.tables["ports"]["ports"]
    return set(rows["node_id"][rows["key"] > 1].tolist())


def shares_agree(detector: Detector) -> bool:
    """Whether the shares count the rows of each owner."""
    found = True
    for kind in ("ports", "sources"):
        region = detector.tables[kind]
        rows = region[kind]
        used = rows["key"] > 1 if kind == "ports" else rows["bits"] != 0
        counts = np.bincount(rows["owner"][used], minlength=OWNERS)
        found &= region["shares"][:OWNERS].tolist() == counts.tolist()
        found &= int(region["shares"][OWNERS]) == int(used.sum())
    return found


def test_one_source_does_not_take_the_port_table(make: Any) -> None:
    """A source that has filled the table makes room for the queues of others, not for more of its own."""
    one = Detector(DetectSettings(**SETTINGS))
    make.run(one, queues(make, STRANGER, range(1000, 1300)))
    assert len(known(one)) == 128
    assert one.counters[INDEX["port_evictions_total"]] == 0
    full = int(one.counters[INDEX["port_table_full_total"]])
    assert full == 300 - 128
    make.run(one, queues(make, OTHER, range(1, 21)))
    assert set(range(1, 21)) <= known(one)
    assert one.counters[INDEX["port_evictions_total"]] == 20
    make.run(one, queues(make, STRANGER, range(2000, 2300)))
    assert set(range(1, 21)) <= known(one)
    assert shares_agree(one)


def test_one_source_does_not_take_the_source_table(make: Any) -> None:
    """Nor does it take all sequence spaces by inventing node ids."""
    one = Detector(DetectSettings(**SETTINGS))
    make.run(one, queues(make, STRANGER, range(1000, 1300)))
    make.run(one, queues(make, OTHER, range(1, 11)))
    rows = one.tables["sources"]["sources"]
    assert set(range(1, 11)) <= set(rows["node_id"][rows["source_lo"] == OTHER].tolist())
    assert one.counters[INDEX["source_evictions_total"]] == 10
    assert shares_agree(one)


def test_many_sources_do_not_displace_one_that_reports_steadily(make: Any) -> None:
    """Rows with few samples go first: spoofed addresses take each other's, not those of a real switch."""
    one = Detector(DetectSettings(**SETTINGS))
    for _ in range(10):
        make.run(one, queues(make, OTHER, range(1, 7)))
    for source in range(2000):
        make.run(one, queues(make, 0x0B000000 + source, range(10_000 + source, 10_001 + source)))
    assert set(range(1, 7)) <= known(one)
    assert shares_agree(one)


def test_an_ipv6_source_is_its_network(make: Any) -> None:
    """A host that uses many addresses of its /64 is one source."""
    one = Detector(DetectSettings(**SETTINGS))
    network = 0x20010DB8_00000001 << 64
    for host in range(300):
        make.run(one, queues(make, network | host, range(1000 + host, 1001 + host)))
    make.run(one, queues(make, OTHER, range(1, 21)))
    assert set(range(1, 21)) <= known(one)
    assert len(set(one.tables["ports"]["ports"]["owner"].tolist())) == 2


def test_the_alarm_of_a_row_that_makes_room_ends(make: Any) -> None:
    """It is cleared, with that reason, and no longer counted."""
    limits = ThresholdSettings(queue_occupancy=MetricLimits(change=None, raise_above=5, clear_below=2))
    one = Detector(DetectSettings(thresholds=limits, **SETTINGS))
    make.run(one, queues(make, STRANGER, range(1000, 1300), occupancy=9))
    assert one.counters[INDEX["alarms.queue_occupancy"]] == 128
    events = make.run(one, queues(make, OTHER, range(1, 21)))
    ended = [event for event in events if event.kind == Kind.CLEARED.label]
    assert len(ended) == 20
    assert {event.reason for event in ended} == {int(ClearReason.EVICTED)}
    assert one.counters[INDEX["alarms.queue_occupancy"]] == 108


def test_a_key_is_found_again_after_others_made_room(make: Any) -> None:
    """However rows come and go, no key has two, and each that is shown is found."""
    one = Detector(DetectSettings(**{**SETTINGS, "idle_seconds": 1.0, "push_seconds": 0.0}))
    rng, now = np.random.default_rng(5), 0
    for step in range(60):
        source = STRANGER if step % 3 else int(rng.integers(0x0C000000, 0x0C000040))
        nodes = rng.integers(1, 400, 30).tolist()
        make.run(one, [r for node in nodes for r in queues(make, source, range(node, node + 1), time=now)])
        now += 200_000_000
        list(one.tick(make.T0 + now))
        rows = one.tables["ports"]["ports"]
        keys = rows["key"][rows["key"] > 1]
        assert len(keys) == len(set(keys.tolist()))
        assert shares_agree(one)


def test_shares_are_counted_again_by_the_next_process(make: Any, tmp_path: Path) -> None:
    """They are as the rows are, whatever a killed process has left."""
    settings = DetectSettings(**SETTINGS)
    one = Detector(settings, tmp_path)
    make.run(one, queues(make, STRANGER, range(1, 40)))
    one.tables["ports"]["shares"][:] = 7
    assert shares_agree(Detector(settings, tmp_path))


def test_collisions_depend_on_the_secret(make: Any) -> None:
    """Flows that were chosen to share a row under one secret do not under another."""
    from hopscope.detect.flows.event_kernel import hash_flow

    def rows(secret: bytes, flows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        keys = hash_keys(secret, KEYS)
        ids = [hash_flow(U64(a), U64(0), U64(b), U64(0), U64(c), keys) for a, b, c in flows.tolist()]
        return np.array([int(number) & 1023 for number in ids], np.int64)

    flows = np.random.default_rng(3).integers(0, 2**32, (50_000, 3))
    chosen = flows[rows(b"one", flows) == 17]
    assert len(chosen) > 30
    assert np.bincount(rows(b"another", chosen), minlength=1024).max() <= 4


def test_bits_of_the_hash_are_even(make: Any) -> None:
    """Addresses and ports in sequence fill the rows of a table evenly."""
    from hopscope.detect.flows.event_kernel import hash_flow

    keys = hash_keys(b"", KEYS)
    ids = [
        int(hash_flow(U64(0x0A000000 + a), U64(0), U64(0x0A010000 + b), U64(0), U64(c), keys))
        for a in range(16)
        for b in range(16)
        for c in range(64)
    ]
    counts = np.bincount(np.array([number & 1023 for number in ids]), minlength=1024)
    assert counts.max() < 40  # 16 on average, standard deviation 4
    assert len({number >> 32 for number in ids}) > len(ids) - 8


def test_keys_are_those_of_the_secret() -> None:
    """The same for the same secret, odd, and all different."""
    keys = hash_keys(b"secret", KEYS)
    assert keys.tolist() == hash_keys(b"secret", KEYS).tolist() != hash_keys(b"Secret", KEYS).tolist()
    assert len(set(keys.tolist())) == KEYS
    assert (keys & np.uint64(1)).all()

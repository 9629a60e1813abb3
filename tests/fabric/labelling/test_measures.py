"""What is measured of labelling, against loops that read like the definitions."""

import math

import numpy as np
import pytest

from hopscope.fabric.labelling.simulation import measures

MS = 10**9
TELEMETRY = 0.1
FORM = np.dtype(
    [("labelled", "<i8"), ("received", "<i8"), ("port", "<i4"), ("packet", "<u8"), ("position", "u1"),
     ("count", "u1")]
)  # fmt: skip
"""The columns of RECEIVED_LABEL that measures reads."""


def drawn(seed: int, labels: int = 400, ports: int = 7, intervals: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Labels in order of arrival, many of them overtaken, some of the same time; and who was active."""
    rng = np.random.default_rng(seed)
    found = np.zeros(labels, FORM)
    found["labelled"] = rng.integers(0, 110, labels) * 5 * MS
    found["received"] = found["labelled"] + rng.integers(0, 60 * MS, labels)
    found["port"] = rng.integers(0, ports, labels)
    found["count"] = rng.integers(1, 6, labels)
    found["position"] = rng.integers(0, found["count"])
    return found[np.argsort(found["received"], kind="stable")], rng.random((intervals, ports)) < 0.7


@pytest.mark.parametrize("seed", range(4))
def test_an_update_is_newer_than_all_before(seed: int) -> None:
    """A label that a newer one of its port has overtaken, or that is as old, updates nothing (3.4)."""
    labels, _ = drawn(seed)
    newest: dict[int, int] = {}
    expected = []
    for one in labels:
        expected.append(int(one["labelled"]) > newest.get(int(one["port"]), -1))
        newest[int(one["port"])] = max(newest.get(int(one["port"]), -1), int(one["labelled"]))
    assert 0 < sum(expected) < len(expected)
    np.testing.assert_array_equal(measures.updates(labels), expected)


@pytest.mark.parametrize("at", ["controller", "switch"])
def test_coverage_counts_active_ports(at: str) -> None:
    """Coverage is what a loop over intervals and ports counts, by either definition of the paper."""
    labels, active = drawn(8)
    labels = labels[::8]
    expected = []
    new = measures.updates(labels)
    for interval, row in enumerate(active):
        covered = set()
        for one, fresh in zip(labels, new, strict=True):
            time = int(one["received"] if at == "controller" else one["labelled"])
            if time // (100 * MS) == interval and (fresh or at == "switch"):
                covered.add(int(one["port"]))
        expected.append(sum(row[port] for port in covered) / row.sum())
    found = measures.coverage(labels, active, TELEMETRY, at=at)  # type: ignore[arg-type]
    assert 0 < np.mean(expected) < 1
    np.testing.assert_allclose(found, expected)


def test_labels_that_arrive_late_count_where_they_arrive() -> None:
    """A label written before the end of an interval and received after it covers the next one, at the
    controller; at the switch it covers its own. Labels after the last interval count nowhere.
    """
    labels = np.zeros(2, FORM)
    labels["labelled"], labels["received"] = (90 * MS, 210 * MS), (101 * MS, 220 * MS)
    active = np.ones((2, 1), bool)
    assert measures.coverage(labels, active, TELEMETRY).tolist() == [0, 1]
    assert measures.coverage(labels, active, TELEMETRY, at="switch").tolist() == [1, 0]


def test_an_interval_without_traffic_has_no_coverage() -> None:
    """Nothing sent, nothing to cover: NaN, not 0 and not 1."""
    found = measures.coverage(np.zeros(0, FORM), np.array([[False], [True]]), TELEMETRY)
    assert math.isnan(found[0])
    assert found[1] == 0


def test_packets_are_counted_once() -> None:
    """A packet with three labels is one labelled packet."""
    labels = np.zeros(6, FORM)
    labels["count"] = 3, 3, 3, 1, 9, 1
    labels["position"] = 0, 1, 2, 0, 0, 0
    assert measures.labelled_packets(labels) == 4


def test_resolution_is_the_mean_time_between_updates() -> None:
    """By port, as a loop finds it; a port that was reported once or never has none."""
    labels, _ = drawn(3, labels=40, ports=12)
    times: dict[int, list[int]] = {}
    for one, fresh in zip(labels, measures.updates(labels), strict=True):
        if fresh:
            times.setdefault(int(one["port"]), []).append(int(one["received"]))
    expected = [
        float(np.mean(np.diff(times[port]))) / 1e12 if len(times.get(port, [])) > 1 else math.nan
        for port in range(14)
    ]
    assert any(len(found) == 1 for found in times.values())
    np.testing.assert_allclose(measures.resolution(labels, 14), expected)


def test_delay_is_from_switch_to_controller() -> None:
    """Seconds between the label and its arrival."""
    labels = np.zeros(1, FORM)
    labels["labelled"], labels["received"] = 5 * MS, 7 * MS
    assert measures.delay(labels).tolist() == [0.002]

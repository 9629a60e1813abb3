"""Loss by sequence number: gaps, late and double reports, wrap, restart, silence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.detect.counters import INDEX
from hopscope.detect.detector import Detector
from hopscope.settings.detect import DetectSettings

pytestmark = pytest.mark.kernel

SMALL: dict[str, Any] = {"ports": 16, "sources": 16, "flow_rows": 1, "hop_pool": 0}
SECOND = 1_000_000_000


def follow(make: Any, numbers: list[int], version: int = 20) -> tuple[Any, list[Any]]:
    """Row of the source, and events, after reports with these numbers."""
    detector = Detector(DetectSettings(**SMALL))
    reports = [
        make.Report(flow=None, sequence=number % (1 << 32), version=version, int_version=0, node=3, hw=2)
        for number in numbers
    ]
    events = make.run(detector, reports)
    rows = detector.tables["sources"]["sources"]
    (row,) = rows[rows["bits"] != 0]
    for name, key in (
        ("lost", "lost_reports"),
        ("duplicate", "duplicate_reports_total"),
        ("reordered", "reordered_reports_total"),
    ):
        assert detector.counters[INDEX[key]] == row[name]
    assert row["received"] == len(numbers)
    return row, events


def told(row: Any) -> tuple[int, int, int]:
    return int(row["lost"]), int(row["duplicate"]), int(row["reordered"])


def test_gap(make: Any) -> None:
    """Missing numbers are lost, and one event reports how many, of which source."""
    row, (event,) = follow(make, [5, 6, 10])
    assert told(row) == (3, 0, 0)
    assert (event.kind, event.value, event.node, event.ident, event.flow[1]) == ("gap", 3, 3, 2, 1)


def test_0_5_numbers_by_hardware(make: Any) -> None:
    """In Report 0.5 reports with and without a node id (drops, others) share one sequence: no false gaps."""
    detector = Detector(DetectSettings(**SMALL))
    reports = [
        make.Report(flow=None, sequence=n, version=5, int_version=0, node=3 if n % 2 else None, hw=2)
        for n in range(6)
    ]
    make.run(detector, reports)
    assert detector.counters[INDEX["lost_reports"]] == 0
    assert (detector.tables["sources"]["sources"]["bits"] != 0).sum() == 1


def test_0_5_events_name_one_source(make: Any) -> None:
    """A source of Report 0.5 has no node in any of its events, also if its report names one: alarms end."""
    detector = Detector(DetectSettings(**SMALL))
    make.run(detector, [make.Report(flow=None, version=5, int_version=0, node=None, hw=2)])
    events = make.events_of(detector.tick(make.T0 + 10 * SECOND))
    report = make.Report(flow=None, version=5, int_version=0, node=3, hw=2, sequence=3, time=11 * SECOND)
    events += make.run(detector, [report])
    assert [(event.kind, event.node, event.ident) for event in events] == [
        ("silent", 0, 2), ("returned", 0, 2), ("gap", 0, 2)
    ]  # fmt: skip


def test_late_report_is_not_lost(make: Any) -> None:
    """A report that comes late was counted as lost and is no more; it is reordered."""
    row, events = follow(make, [1, 2, 4, 5, 3])
    assert told(row) == (0, 0, 1)
    assert [event.value for event in events] == [1]


def test_duplicates(make: Any) -> None:
    """A number seen within the last 64 is a duplicate, and neither lost nor reordered."""
    assert told(follow(make, [1, 2, 2, 1, 3, 3])[0]) == (0, 3, 0)


def test_early_reordering_does_not_lower_losses(make: Any) -> None:
    """Numbers from before the first report had not been counted as lost; they lower nothing."""
    assert told(follow(make, [10, 12, 9, 8])[0]) == (1, 0, 2)


@pytest.mark.parametrize(("version", "bits"), [(20, 22), (10, 32), (5, 32)])
def test_wrap(make: Any, version: int, bits: int) -> None:
    """Numbers go on at 0 after 2^22 (Report 2.0) or 2^32, over gaps and late ones."""
    end = 1 << bits
    numbers = [end - 3, end - 2, 0, end - 1, 1, 4]
    row, events = follow(make, [number % end for number in numbers], version)
    assert told(row) == (2, 0, 1)
    assert [event.value for event in events] == [1, 2]
    assert (row["bits"], row["highest"]) == (bits, 4)


def test_restart(make: Any) -> None:
    """A source that begins its numbering again has lost nothing, and is not taken for late."""
    row, events = follow(make, [*range(500_000, 500_100), *range(100)])
    assert told(row) == (0, 0, 1)
    assert (row["restarts"], row["highest"]) == (1, 99)
    assert not events


@pytest.mark.parametrize("last", [3_200_000, 4_000_000, (1 << 22) - 65_600])
def test_restart_that_could_be_a_wrap(make: Any, last: int) -> None:
    """In the last quarter of the numbers, too, a source that begins at 0 again has lost nothing."""
    row, events = follow(make, [*range(last - 100, last), *range(100)])
    assert (row["lost"], row["restarts"], row["highest"]) == (0, 1, 99)
    assert not events


def test_gap_over_the_wrap(make: Any) -> None:
    """A loss over the wrap is one, also if the next number is among the first."""
    row, (event,) = follow(make, [*range((1 << 22) - 60_000, (1 << 22) - 59_900), 20])
    assert (row["lost"], row["restarts"], event.value) == (59_920, 0, 59_920)


def test_stray_number(make: Any) -> None:
    """One number from far away is a stray: the numbering goes on where it was."""
    row, events = follow(make, [*range(5000, 5010), 12, *range(5010, 5020)])
    assert told(row) == (0, 0, 1)
    assert (row["restarts"], row["highest"]) == (0, 5019)
    assert not events


def test_strays_are_forgotten(make: Any) -> None:
    """Two numbers from far away are strays if the numbering went on between them, however near each other."""
    row, events = follow(make, [*range(5000, 5100), 12, *range(5100, 5200), 15, *range(5200, 5300)])
    assert told(row) == (0, 0, 2)
    assert (row["restarts"], row["highest"]) == (0, 5299)
    assert not events


def test_restart_the_wrong_way_round(make: Any) -> None:
    """The first two reports after a restart may come in either order: what is lost is what never came."""
    row, events = follow(make, [*range(500_000, 500_100), 4, 1, 2, *range(5, 10)])
    assert told(row) == (1, 0, 2)
    assert (row["restarts"], row["highest"], row["first"]) == (1, 9, 1)
    assert [(event.kind, event.value, event.previous) for event in events] == [("gap", 2, 2)]


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(30)), st.sets(st.integers(1, 28)), st.sampled_from([0, (1 << 22) - 15]))
def test_lost_is_what_is_missing(make: Any, order: list[int], gone: set[int], begin: int) -> None:
    """In any order of up to 30 numbers, what stays lost is what never came after the first."""
    numbers = [number for number in sorted(order[:20]) + order[20:] if number not in gone]
    row, _ = follow(make, [(begin + number) % (1 << 22) for number in numbers])
    window = set(range(numbers[0], max(numbers) + 1))
    assert row["lost"] == len(window - set(numbers))
    assert row["duplicate"] == 0


def test_sources_are_kept_apart(make: Any) -> None:
    """Address, node and hw id each make a sequence space; 0.5 has no node, and counts as node 0."""
    detector = Detector(DetectSettings(**SMALL))
    spaces: list[dict[str, Any]] = [{"source": 9}, {"node": 9}, {"hw": 9}, {"node": None, "version": 5}]
    for sequence in range(3):
        reports = [
            make.Report(flow=None, int_version=0, sequence=sequence + 100 * i, **space)
            for i, space in enumerate(spaces)
        ]
        assert make.run(detector, reports) == []
    rows = detector.tables["sources"]["sources"]
    assert sorted(rows["node_id"][rows["bits"] != 0]) == [0, 1, 1, 9]


def test_reports_of_a_group_share_a_number(make: Any) -> None:
    """Only the first report of a group is counted: the number is the group's."""
    detector = Detector(DetectSettings(**SMALL))
    reports = [make.Report(flow=None, int_version=0, sequence=i // 3, index=i % 3) for i in range(9)]
    assert make.run(detector, reports) == []
    assert detector.tables["sources"]["sources"]["received"].sum() == 3


def test_full_table(make: Any) -> None:
    """More sources than the table holds are counted; a silent one gives its place to a new one."""
    detector = Detector(DetectSettings(**SMALL))
    make.run(detector, [make.Report(flow=None, int_version=0, source=i) for i in range(20)])
    assert detector.counters[INDEX["source_table_full_total"]] == 4
    list(detector.tick(make.T0 + 10 * SECOND))
    make.run(detector, [make.Report(flow=None, int_version=0, source=50, time=10 * SECOND)])
    assert 50 in detector.tables["sources"]["sources"]["source_lo"]


def test_silent_and_returned(make: Any) -> None:
    """A source that stops is reported once, with the time since its last report; and again when it is
    back.
    """
    detector = Detector(DetectSettings(**SMALL, silent_seconds=5))
    report = make.Report(flow=None, int_version=0, node=3, hw=2)
    make.run(detector, [report])
    events = [e for s in range(10) for e in make.events_of(detector.tick(make.T0 + s * SECOND))]
    assert [(e.kind, e.previous, e.node, e.ident, e.flow[1]) for e in events] == [
        ("silent", 5 * SECOND, 3, 2, 1)
    ]
    report.time, report.sequence = 20 * SECOND, 1
    (event,) = make.run(detector, [report])
    assert (event.kind, event.previous) == ("returned", 20 * SECOND)

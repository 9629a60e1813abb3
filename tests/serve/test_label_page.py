"""Labels on the page: what is drawn of ports and coverage, and nothing from outside that becomes HTML."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hopscope.base.names import Names
from hopscope.labels.state import FILE_NAME, LABEL_ROW, NEVER, LabelRule
from hopscope.labels.table import LabelTable
from hopscope.labels.tracked_state import HOPS, TRACKED_FLOW
from hopscope.present.labels import Labels
from hopscope.present.tracked import TrackedFlows
from hopscope.serve.page.labels.ports import CELLS, age_map, coverage_series, note
from hopscope.serve.page.labels.snapshot import LabelSnapshot, label_snapshot
from hopscope.serve.page.labels.tracked import ROWS, paths_table
from hopscope.wire.label.records import LABEL
from hopscope.wire.records import Records

MS = 1_000_000
NOW = 10**18
ABOUT = LabelRule(100 * MS, 50 * MS, 50 * MS, "shift")


def snapshot(ports: Records) -> LabelSnapshot:
    """A snapshot at these ports."""
    return LabelSnapshot(NOW, ABOUT, ports, (), 0.9972, 24, 600, 600, flows_of([]), NOW)


def flows_of(rows: Sequence[tuple[int, int, int, int]]) -> Records:
    """TRACKED_FLOW of (flow number, heard of so many s ago, way changed so many s ago or -1, hops): each
    switch takes 100 µs, the second one 1 ms.
    """
    made = np.zeros(len(rows), TRACKED_FLOW)
    for at, (number, heard, changed, hops) in enumerate(rows):
        one = made[at]
        one["src_lo"], one["dst_lo"], one["proto"] = 0xFFFF0A000000 | number, 0xFFFF0A000001, 17
        one["sport"], one["dport"], one["packets"], one["hops"] = 5000, 53, 1234, hops
        one["received_ns"] = NOW - heard * 1000 * MS
        one["path"]["node_id"][:hops], one["path"]["latency_ns"] = np.arange(1, 1 + hops)[:HOPS], MS // 10
        one["path"]["latency_ns"][1] = MS
        if changed >= 0:
            one["changes"], one["changed_ns"], one["previous_hops"] = 2, NOW - changed * 1000 * MS, 2
            one["previous"]["node_id"][:2] = 7, 8
    return made


def ports_of(rows: Sequence[tuple[int, int, int | None, int, int]]) -> Records:
    """LABEL_ROW of (node, port, age in ms or never, S, traffic)."""
    made = np.zeros(len(rows), LABEL_ROW)
    for at, (node, port, age, shift, traffic) in enumerate(rows):
        one = made[at : at + 1]
        one["node_id"], one["port"], one["shift"], one["traffic"] = node, port, shift, traffic
        one["time_ns"] = one["received_ns"] = NEVER if age is None else NOW - age * MS
        one["latency_ns"], one["occupancy"], one["rate"], one["labels"] = 4100, 1500, 19.96, 7
    return made


def test_cells_are_coloured_by_age() -> None:
    """Heard of within a telemetry interval, within three, within ten, longer ago; silent without traffic,
    and never. S stands in its cell; a port that is missing leaves a gap.
    """
    rows = [
        (1, 1, 90, 0, 2), (1, 2, 299, 3, 2), (1, 4, 999, 0, 0), (1, 5, 5000, 16, 2),
        (2, 1, 5000, 0, 1), (2, 2, None, 0, 1), (2, 3, None, 0, 2),
    ]  # fmt: skip
    html = age_map(snapshot(ports_of(rows)), Names({1: "leaf-1"}, {(1, 2): "to spine-1"}))
    cells = re.findall(r'<i class="(\w+)" data-tip="([^"]+)">(\d*)</i>', html)
    assert [(colour, text) for colour, _, text in cells] == [
        ("h3", ""), ("h6", "3"), ("h7", ""), ("h8", "16"), ("idle", ""), ("never", ""), ("h8", ""),
    ]  # fmt: skip
    assert cells[1][1].split("\n") == [
        "leaf-1 · port 2 (to spine-1)",
        "last label 299 ms ago · 20.0 labels/s",
        "latency 4.10 µs · queue 1.50k bytes",
        "S 3: every 6.25 ms",
    ]
    first = html[: html.index('<span class="name node" title="2">')]
    assert first.count("<i></i>") == 1
    assert "no label yet" in cells[5][1]
    assert "<b>99.72 %</b> of active ports reported every 100 ms, last minute · 24 active now" in note(
        snapshot(ports_of(rows))
    )
    assert "S raised at 2 ports" in note(snapshot(ports_of(rows)))


def test_names_are_text() -> None:
    """A name cannot become a tag or end an attribute."""
    bad = '"><script>alert(1)</script>'
    html = age_map(snapshot(ports_of([(1, 1, 5, 0, 2)])), Names({1: bad}, {(1, 1): bad}))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 4


def test_a_large_fabric_is_cut_to_those_heard_of_longest_ago() -> None:
    """Of 1,280 switches the map draws some; the one with the oldest label is among them, those without
    traffic count as well heard of.
    """
    rows = [(node, port, 10, 0, 2) for node in range(1, 1281) for port in range(1, 33)]
    ports = ports_of(rows)
    ports["received_ns"][700 * 32 + 5] = NOW - 9000 * MS
    ports["received_ns"][100 * 32 + 5], ports["traffic"][100 * 32 + 5] = NOW - 90_000 * MS, 1
    html = age_map(snapshot(ports), Names())
    assert html.count("data-tip") <= CELLS
    assert 'title="701"' in html
    assert 'title="101"' not in html
    assert "20 of 1,280 switches" in html
    many = age_map(snapshot(ports_of([(1, port, 10, 0, 2) for port in range(5000)])), Names())
    assert many.count("data-tip") == CELLS


def test_coverage_is_drawn_by_second(tmp_path: Path) -> None:
    """Mean and lowest of the intervals of each second; without a label there is nothing to show."""
    table = LabelTable(tmp_path / FILE_NAME, ABOUT, ports=8)
    assert label_snapshot(Labels(tmp_path), TrackedFlows(tmp_path), NOW, 180) is None
    for step in range(140):
        now = NOW + step * 50 * MS
        some = np.zeros(2 if step % 20 else 1, LABEL)
        some["node_id"], some["egress_port"] = 1, range(len(some))
        some["time_ns"] = now
        if step % 2 or step % 20 == 0:
            table.update(some, now)
        table.tick(now)
    shown = label_snapshot(Labels(tmp_path), TrackedFlows(tmp_path), now, 180)
    assert shown is not None
    mean, lowest = (one["data"] for one in coverage_series(shown))
    assert len(mean) == len(lowest) >= 6
    assert all(high >= low for (_, high), (_, low) in zip(mean, lowest, strict=True))
    assert mean[0][0] < mean[-1][0] <= 0
    assert shown.covered is not None
    assert 0.8 < shown.covered <= 1


def test_intervals_that_were_left_out_are_told(tmp_path: Path) -> None:
    """The mean of the last minute says how many of its intervals it is of, where the process was held up; and
    does not where it was not.
    """
    table = LabelTable(tmp_path / FILE_NAME, ABOUT, ports=8)
    said = []
    for step in range(80):
        now = NOW + step * 50 * MS + 20_000 * MS * (step >= 40)
        some = np.zeros(1, LABEL)
        some["node_id"], some["time_ns"] = 1, now
        table.update(some, now)
        table.tick(now)
        if step in (39, 79):
            shown = label_snapshot(Labels(tmp_path), TrackedFlows(tmp_path), now, 180)
            assert shown is not None
            said.append((note(shown), shown))
    assert "intervals" not in said[0][0]
    known, all_of = said[1][1].intervals, said[1][1].expected_intervals
    assert all_of - known >= 195
    assert f"last minute ({known} of {all_of} intervals)" in said[1][0]


def tracked(rows: Sequence[tuple[int, int, int, int]]) -> str:
    """HTML of these flows."""
    names = Names({1: "leaf-1", 2: "spine<1>"}, {(2, 0): "to <leaf>"})
    return paths_table(replace(snapshot(ports_of([])), tracked=flows_of(rows)), names)


def test_ways_of_tracked_flows() -> None:
    """A flow's way with the latency of each switch, the slowest marked where it is more than half; a new way
    stands out for a minute, with the one before; names are text.
    """
    assert tracked([]) == ""
    html = tracked([(2, 5, -1, 3), (3, 1, 12, 2), (4, 1, 90, 2)])
    first, moved, calm = html.split("<tr")[2:]
    assert "10.0.0.2:5000 → 10.0.0.1:53" in first
    steps = re.findall(r'<span class="(step[ slow]*)" title="([^"]+)">([^<]+)<b>([^<]+)', first)
    assert [(kind, name, time) for kind, _, name, time in steps] == [
        ("step", "leaf-1", "100 µs"), ("step slow", "spine&lt;1&gt;", "1.00 ms"), ("step", "3", "100 µs"),
    ]  # fmt: skip
    assert "in port 0 (to &lt;leaf&gt;)" in steps[1][1]
    assert "<b>1.20 ms</b>" in first
    assert "5 s ago" in first
    assert "until" not in first
    assert moved.startswith(' class="moved"')
    assert "until 12 s ago: 7 → 8" in moved
    assert calm.startswith(">")
    assert "until 90 s ago: 7 → 8" in calm
    assert "<leaf>" not in html
    plain = flows_of([(2, 5, -1, 3)])
    plain["sport"], plain["dport"], plain["proto"] = 0, 0, 1
    assert "10.0.0.2 → 10.0.0.1 <em>icmp" in paths_table(
        replace(snapshot(ports_of([])), tracked=plain), Names()
    )


def test_of_many_flows_those_with_a_new_way_are_shown() -> None:
    """There are so many rows at most; ways that are longer than what is kept say so."""
    rows = [(number, 300, -1, 3) for number in range(2, 80)]
    rows[50], rows[60] = (52, 500, 3, 3), (62, 1, -1, 200)
    html = tracked(rows)
    assert html.count("<tr") == 1 + ROWS
    assert "Tracked flow · 8 of 78" in html
    assert ("10.0.0.52:" in html, "10.0.0.62:" in html) == (True, True)
    assert "<small>and 168 more</small>" in html

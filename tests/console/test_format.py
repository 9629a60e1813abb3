"""Figures in the console: the rules of `hopscope.present.units`, in JavaScript."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from support.formulas import CELLS

pytestmark = [pytest.mark.e2e, pytest.mark.kernel, pytest.mark.timeout(600)]

COUNTS = [
    (0, "0"), (7, "7"), (999, "999"), (0.25, "0.25"), (12.5, "12.5"), (999.6, "1.00k"), (12_345, "12.3k"),
    (999_999, "1.00M"), (4.56e9, "4.56G"), (2**64, "1.84e+7T"),
]  # fmt: skip
TIMES = [
    (0, "0 ns"), (999, "999 ns"), (1000, "1.00 µs"), (48_210, "48.2 µs"), (2.5e6, "2.50 ms"),
    (3e9, "3.00 s"),
]  # fmt: skip
AMOUNTS = [
    (("1500", "ns"), "1.50 µs"), ((1500, "ns"), "1.50 µs"), ((2048, "bytes"), "2.00 KiB"),
    ((999.6 * 1024, "bytes"), "1000 KiB"), ((2**60, "bytes"), "1048576 TiB"), ((12.3, "bytes"), "12 B"),
    ((987_654, "ppm"), "98.8 %"), ((8500, None), "8.50k"), ((None, "ns"), "–"),
    (("<script>", None), "–"),
]  # fmt: skip


def test_figures_are_short_and_have_units(demo: Any, browser: Any) -> None:
    """By hand: three digits and a prefix, without a step at the borders; also of numbers as text."""
    browser.open(demo.url)
    cases = {"si": COUNTS, "duration": TIMES, "amount": AMOUNTS}
    for name, some in cases.items():
        given = [case[0] if isinstance(case[0], tuple) else (case[0],) for case in some]
        module = "import('/console/any/lib/format.js')"
        found = browser.run(f"{module}.then((m) => {json.dumps(given)}.map((each) => m.{name}(...each)))")
        assert found == [text for _, text in some], name


def test_no_cell_of_csv_is_a_formula(demo: Any, browser: Any) -> None:
    """The rule of `hopscope.present.spreadsheet`, in JavaScript; numbers stay, also as numbers."""
    browser.open(demo.url)
    rows = json.dumps([[text] for text, _ in CELLS] + [[-5], [-0.5]])
    found = browser.run(f"import('/console/any/lib/export.js').then((m) => m.csv(['=name'], {rows}))")
    cells = [row[0] for row in csv.reader(io.StringIO(found))]
    assert cells == ["'=name", *(cell for _, cell in CELLS), "-5", "-0.5"]


def test_times_are_in_the_chosen_zone(demo: Any, browser: Any) -> None:
    """By hand: local time of a browser in Tokyo, then UTC, then local again, with the zone's name."""
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Tokyo")
    browser.open(demo.url)
    told = [
        browser.run(
            f"import('/console/any/lib/format.js').then((m) => {{ m.setZone('{zone}');"
            " return [m.clock('2026-01-02T23:04:05.678Z', 3), m.moment('2026-01-02T23:04:05.678901Z')]; })"
        )
        for zone in ("local", "utc", "local")
    ]
    tokyo = ["2026-01-03 08:04:05.678", "2026-01-03 08:04:05.678901 Asia/Tokyo"]
    assert told == [tokyo, ["2026-01-02 23:04:05.678", "2026-01-02 23:04:05.678901 UTC"], tokyo]


MARKS = """Promise.all(["lib/format", "charts/axes"].map((name) => import(`/console/any/${name}.js`)))
  .then(([format, axes]) => {
    format.setZone(ZONE);
    const texts = [];
    const context = {
      canvas: { clientWidth: WIDTH },
      measureText: () => ({ width: TEXT }),
      fillText: (text) => texts.push(text.slice(-5)),
    };
    const [from, to] = [FROM, TO].map(Date.parse);
    axes.drawTimes(context, from, to, (at) => 20 + ((at - from) / (to - from)) * (WIDTH - 40), 0, WIDTH);
    return texts;
  })"""


def marks(browser: Any, zone: str, width: int, begin: str, end: str, text: int = 30) -> list[str]:
    """Texts, each so wide, below an axis of time of so many pixels."""
    given = {"ZONE": zone, "WIDTH": width, "FROM": begin, "TO": end, "TEXT": text}
    code = MARKS
    for name, value in given.items():
        code = code.replace(name, json.dumps(value))
    return list(browser.run(code))


def test_marks_of_time_are_round_in_the_chosen_zone(demo: Any, browser: Any) -> None:
    """By hand: whole hours of a browser in Kolkata are half hours of UTC; Kathmandu is 5:45 ahead."""
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kolkata")
    browser.open(demo.url)
    two_hours = "2026-01-02T00:10:00Z", "2026-01-02T02:10:00Z"
    assert marks(browser, "local", 180, *two_hours) == ["06:00", "07:00"]
    assert marks(browser, "utc", 180, *two_hours) == ["01:00", "02:00"]
    browser.call("Emulation.setTimezoneOverride", timezoneId="Asia/Kathmandu")
    browser.open(demo.url)
    half_an_hour = "2026-01-02T00:11:00Z", "2026-01-02T00:39:00Z"
    assert marks(browser, "local", 270, *half_an_hour) == ["06:00", "06:10", "06:20"]


def test_marks_of_time_are_round_after_a_change_of_summer_time(demo: Any, browser: Any) -> None:
    """By hand: in Berlin, the hour from 2 does not exist on 29 March 2026, and exists twice on 25 October."""
    browser.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    browser.open(demo.url)
    march = marks(browser, "local", 900, "2026-03-28T20:30:00Z", "2026-03-29T14:30:00Z")
    assert march == ["22:00", "00:00", "04:00", "06:00", "08:00", "10:00", "12:00", "14:00", "16:00"]
    october = marks(browser, "local", 540, "2026-10-24T22:30:00Z", "2026-10-25T04:00:00Z")
    assert october == ["01:00", "02:00", "02:00", "03:00", "04:00", "05:00"]
    days = marks(browser, "local", 360, "2026-10-23T12:00:00Z", "2026-10-27T12:00:00Z")
    assert days == ["10-24", "10-25", "10-26", "10-27"]


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        ("2026-10-22T00:00:00Z", "2026-11-17T00:00:00Z", ["10-26", "11-02", "11-09", "11-16"]),
        ("2026-07-15T00:00:00Z", "2026-11-15T00:00:00Z", ["08-01", "09-01", "10-01", "11-01"]),
        ("2026-02-15T00:00:00Z", "2027-02-20T00:00:00Z", ["04-01", "07-01", "10-01", "01-01"]),
        ("2020-06-01T00:00:00Z", "2024-06-01T00:00:00Z", ["01-01", "01-01", "01-01", "01-01"]),
        ("2026-01-05T00:00:00Z", "2026-12-20T00:00:00Z", ["04-01", "07-01", "10-01"]),  # no 1 January
        ("2026-11-02T12:00:00Z", "2026-11-30T13:00:00Z", ["11-09", "11-16", "11-23", "11-30"]),  # no 1st
    ],
)
def test_marks_of_long_ranges_are_dates(
    demo: Any, browser: Any, begin: str, end: str, expected: list[str]
) -> None:
    """By hand: Mondays, first days of months, quarters and years, with as much room as hours have."""
    browser.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    browser.open(demo.url)
    assert marks(browser, "local", 500, begin, end) == expected


def test_marks_of_time_do_not_lie_on_each_other(demo: Any, browser: Any) -> None:
    """Texts of a past day, which have its date, need more room than those of today."""
    browser.open(demo.url)
    past = "2026-01-01T01:00:00Z", "2026-01-01T09:00:00Z"
    assert marks(browser, "utc", 900, *past) == [f"{hour:02}:00" for hour in range(1, 10)]
    assert marks(browser, "utc", 900, *past, text=110) == ["02:00", "04:00", "06:00", "08:00"]


def test_a_range_in_the_repeated_hour_is_the_one_that_is_shown(demo: Any, browser: Any) -> None:
    """By hand: 02:40 exists twice in Berlin on 25 October 2026. What is not edited stays; an edit means
    the first of both as a begin, the second as an end.
    """
    browser.call("Emulation.setTimezoneOverride", timezoneId="Europe/Berlin")
    browser.open(demo.url)
    pick = """Promise.all(["format", "range"].map((name) => import(`/console/any/lib/${name}.js`)))
      .then(([format, range]) => {
        format.setZone("local");
        range.choose(Date.parse("2026-10-25T01:20:00Z"), Date.parse("2026-10-25T01:40:00Z"));
        const { element } = range.rangeControl();
        const shown = (...texts) => {
          element.querySelector("button").click();
          const fields = [...element.querySelectorAll("input")];
          const before = fields.map((each) => each.value.slice(11, 16));
          texts.forEach((text, at) => { if (text) fields[at].value = text; });
          element.querySelector("button.main").click();
          const { from, to } = range.range();
          return [...before, ...[from, to].map((each) => new Date(each).toISOString().slice(11, 16))];
        };
        return [shown(), shown("2026-10-25T02:10:00"), shown(null, "2026-10-25T02:05")];
      })"""
    assert browser.run(pick) == [
        ["02:20", "02:40", "01:20", "01:40"],
        ["02:20", "02:40", "00:10", "01:40"],
        ["02:10", "02:40", "00:10", "01:05"],
    ]


def test_rows_with_one_key_do_not_pile_up(demo: Any, browser: Any) -> None:
    """Bursts of one place may begin in one batch of reports: each has its row, however often it is drawn."""
    browser.open(demo.url)
    draw = """import('/console/any/lib/dom.js').then(({ keyed }) => {
      const list = document.createElement("ul");
      const draw = (...items) => {
        keyed(list, items, (item) => item[0], () => document.createElement("li"), () => {});
        return list.children.length;
      };
      return [draw("a1", "a2", "b"), draw("a1", "a2", "b"), draw("b", "a1"), draw("a1", "a2", "a3"), draw()];
    })"""
    assert browser.run(draw) == [3, 3, 2, 3, 0]


EVENTS: list[tuple[dict[str, Any], list[list[str]]]] = [
    ({"kind": "gap", "value": 2, "previous": 1015}, [["Reports lost", "2"], ["First number lost", "1015"]]),
    ({"kind": "silent", "value": 0, "previous": 5.21e9}, [["Last report", "5.21 s earlier"]]),
    ({"kind": "returned", "value": 0, "previous": 10.9e9}, [["Silent for", "10.9 s"]]),
    ({"kind": "drop", "value": 200, "previous": 0}, [["Drop reason", "200"]]),
    ({"kind": "adapted", "value": 1500, "previous": 1000}, [["Factor of limits", "1.5"], ["Before", "1"]]),
    ({"kind": "queue_report", "value": 0, "previous": 0}, []),
    ({"kind": "path_change", "metric": "flow_path", "value": 2**60, "previous": 2**61}, []),
    (
        {"kind": "flow_record", "metric": "flow_path", "value": 14, "previous": "1700000000000000000"},
        [["Reports", "14"], ["First report", "2023-11-14 22:13:20 UTC"]],
    ),
    (
        {"kind": "flow_record", "metric": "hop_latency", "unit": "ns", "value": 1800, "previous": 2210},
        [["Mean", "1.80 µs"], ["Latest", "2.21 µs"]],
    ),
    (
        {"kind": "new_key", "metric": "hop_latency", "unit": "ns", "value": 9, "previous": 0},
        [["Value", "9 ns"]],
    ),
    (
        {"kind": "change", "metric": "queue_occupancy", "value": 9, "previous": 700},
        [["Value", "9"], ["Compared with", "700"]],
    ),
    (
        {"kind": "raised", "metric": "queue_occupancy", "value": 900, "previous": 500},
        [["Value", "900"], ["Limit", "500"]],
    ),
    (
        {"kind": "cleared", "metric": "queue_occupancy", "value": 9, "previous": 0, "reason": "expired"},
        [["Value", "9"]],
    ),
]  # fmt: skip


def test_values_of_an_event_are_named_by_its_kind(demo: Any, browser: Any) -> None:
    """What `value` and `previous` are differs: the number of a report that is lost is no time."""
    browser.open(demo.url)
    given = [{"metric": "none", "unit": None, "reason": None, **event} for event, _ in EVENTS]
    set_zone = "import('/console/any/lib/format.js').then((m) => m.setZone('utc'))"
    module = "import('/console/any/lib/event_text.js')"
    found = browser.run(
        f"{set_zone}.then(() => {module}).then((m) => {json.dumps(given)}.map((each) => m.valuesOf(each)))"
    )
    assert found == [values for _, values in EVENTS]


NOWHERE: dict[str, Any] = {"source": None, "node": None, "port": None, "queue": None, "flow": None}
FLOW = {"id": "1", "src": "10.0.0.1", "dst": "10.0.0.2", "sport": 1, "dport": 2, "proto": 6}
ALARMS: list[tuple[dict[str, Any], str]] = [
    (
        {"source": {"address": "192.0.2.7", "node": {"id": 7, "name": "leaf-7"}, "hw_id": 1}},
        "192.0.2.7 leaf-7 hw 1",
    ),
    ({"source": {"address": "192.0.2.7", "node": None, "hw_id": 0}}, "192.0.2.7 hw 0"),
    ({"node": {"id": 7, "name": "leaf-7"}, "port": {"id": 3, "name": None}}, "leaf-7 · port 3"),
    ({"flow": FLOW}, "10.0.0.1:1 → 10.0.0.2:2 TCP"),
    ({}, "the network"),
]  # fmt: skip


def test_the_place_of_an_alarm_names_the_switch(demo: Any, browser: Any) -> None:
    """By hand: a silent source has an address, which says little, so its switch is named as well."""
    browser.open(demo.url)
    given = [{"metric": "none", **NOWHERE, **alarm} for alarm, _ in ALARMS]
    found = browser.run(
        "import('/console/any/lib/panel.js').then((m) =>"
        f" {json.dumps(given)}.map((each) => m.alarmPlace(each).textContent))"
    )
    assert found == [place for _, place in ALARMS]


def test_columns_of_times_have_their_unit_in_csv(demo: Any, browser: Any) -> None:
    """A value is a number of ns, as in CSV of the command line; a flow without a latency has none, not 0."""
    browser.open(demo.url)
    found = browser.run(
        "import('/console/any/views/overview/tables.js').then((m) => m.flowPanel()).then((panel) => {"
        f" const flow = {json.dumps(FLOW)};"
        " const rows = [null, 4560000].map((latency_ns) => ({ flow: { ...flow, id: String(latency_ns) },"
        "  latency_ns, latency_mean_ns: null, hop_count: 1, packets: 1, alarms: [] }));"
        " panel.update({ slow_flows: rows });"
        " return panel.rows.export(); })"
    )
    at = found["names"].index("latency_ns")
    assert "mean_ns" in found["names"]
    assert [row[at] for row in found["rows"]] == [None, 4_560_000]

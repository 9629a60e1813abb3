"""Rules by which answers of members become one, by hand and by brute force."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.base.names import Names
from hopscope.cluster.merge.rules import RULES, rule_of
from hopscope.cluster.merge.sources import lost, merged_source
from hopscope.detect.detector import Detector
from hopscope.detect.moved import CORRECTION, SPACE, CorrectionReader, CorrectionWriter, open_corrections
from hopscope.serve.models.overview import Overview, Points, Totals
from hopscope.serve.routes import show
from hopscope.settings.detect import DetectSettings
from support.events.detect_make import Report, batch, path

T0 = 1_700_000_000
MEMBERS = ("a", "b", "c")


def when(second: float) -> str:
    """A time as the API has it."""
    ns = round(second * 1e9)
    return f"{datetime.fromtimestamp(T0 + ns // 10**9, UTC):%Y-%m-%dT%H:%M:%S}.{ns % 10**9:09d}Z"


def row(numbers: list[int], times: list[float], bits: int) -> dict[str, Any]:
    """What a member says of a source whose reports it received in order: those between are lost."""
    spanned = numbers[-1] - numbers[0] + 1
    return {
        "address": "192.0.2.1", "node": {"id": 1, "name": None}, "hw_id": 3, "silent": False,
        "received": len(numbers), "lost": spanned - len(numbers), "moved": 0, "duplicate": 0,
        "reordered": 0,
        "highest_sequence": numbers[-1] % (1 << bits), "sequence_bits": bits,
        "first_seen": when(times[0]), "last_seen": when(times[-1]),
    }  # fmt: skip


def moved(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Who gets each report, as if a route changed from time to time."""
    changes = np.sort(rng.integers(0, count, 5))
    return np.searchsorted(changes, np.arange(count)) % 3


def spread(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """Who gets each report, each by chance."""
    return rng.integers(0, 3, count)


def joining(rng: np.random.Generator, count: int) -> np.ndarray[Any, Any]:
    """The second comes after a while, the first one leaves."""
    at = np.arange(count)
    return np.where(at < count // 3, 0, np.where(at < 2 * count // 3, rng.integers(0, 2, count), 1))


@pytest.mark.parametrize("who", [moved, spread, joining])
@pytest.mark.parametrize("bits", [22, 32])
@pytest.mark.parametrize("begin", [0, 2**22 - 700, 2**32 - 1500])
def test_lost_is_what_no_member_received(who: Any, bits: int, begin: int) -> None:
    """Brute force: numbers between the first and the last that were received which have no receiver, also
    where the numbering wraps, and however reports are spread.
    """
    rng = np.random.default_rng(bits + begin % 1000)
    for _ in range(20):
        count = int(rng.integers(50, 3000))
        arrives = rng.random(count) > 0.05
        numbers = begin + np.flatnonzero(arrives)
        member = who(rng, count)[arrives]
        parts = []
        for one in range(3):
            mine = numbers[member == one]
            if len(mine):
                parts.append(row(mine.tolist(), ((mine - begin) * 0.001).tolist(), bits))
        expected = int(numbers[-1] - numbers[0] + 1 - len(numbers))
        assert lost(parts) == expected
        assert merged_source(parts)["lost"] == expected


class Detecting:
    """A member whose detector counts reports and takes corrections."""

    def __init__(self, regions: Path) -> None:
        regions.mkdir()
        settings = DetectSettings(flow_rows=1, ports=16, sources=256, hop_pool=0)
        self._detector = Detector(settings, None)
        self._table = self._detector.tables["sources"]["sources"]
        self._writer = CorrectionWriter(open_corrections(regions))
        self._reader = CorrectionReader(open_corrections(regions), self._table)

    def take(self, source: int, bits: int, numbers: list[int], at: int) -> None:
        """Reports with these numbers, from the millisecond `at` on."""
        version = 20 if bits == 22 else 10
        reports = [
            Report(path(1), time=(at + i) * 10**6, sequence=number % (1 << bits), hw=source, version=version)
            for i, number in enumerate(numbers)
        ]
        for events in self._detector.update(batch(reports)):
            assert len(events)

    def correct(self, source: int, moved: int) -> None:
        """So many of its missing numbers are accounted for by others."""
        row = self._row(source).copy()
        correction = np.zeros(1, CORRECTION)
        for name in SPACE:
            correction[name] = row[name]
        correction["moved"] = moved
        assert self._writer.put(correction) == 1
        assert self._reader.take() == min(moved, int(row["lost"]))

    def shown(self, source: int) -> dict[str, Any]:
        """Its row of the API."""
        return show.source(self._row(source), Names(), {}).model_dump(mode="json")

    def _row(self, source: int) -> np.void:
        (at,) = np.flatnonzero((self._table["hw_id"] == source) & (self._table["bits"] != 0))
        return self._table[at]


@pytest.mark.parametrize("bits", [22, 32])
def test_lost_does_not_depend_on_what_members_corrected(bits: int, tmp_path: Path) -> None:
    """Brute force, through detectors: sources move between three members and come back, some reports are
    lost, doubled or late, numbers wrap, and members take corrections of any size at any time. Lost in the
    cluster are the numbers that no member received; lost and moved of a member are those that it missed.
    """
    dice = random.Random(bits)
    members = [Detecting(tmp_path / name) for name in MEMBERS]
    late = corrected = 0
    for source in range(1, 61):
        number, at = (1 << bits) - dice.randrange(1, 200), 0
        received: list[list[int]] = [[], [], []]
        for _ in range(dice.randrange(2, 8)):
            which = dice.randrange(3)
            mine, sent = received[which], list[int]()
            for _ in range(dice.randrange(1, 40)):
                number += dice.randrange(2, 8) if dice.random() < 0.1 else 1
                sent.append(number)
                if dice.random() < 0.1:
                    sent.append(dice.choice(sent[-10:]))
                begin = max(min([*mine, *sent]), number - 60)
                missing = [*{*range(begin, number)}.difference(sent, *received)]
                if missing and dice.random() < 0.1:
                    sent.append(dice.choice(missing))
                    late += 1
            members[which].take(source, bits, sent, at)
            at += len(sent)
            mine += sent
            if dice.random() < 0.6:
                corrected += 1
                members[which].correct(source, dice.randrange(1, 60))
        shown = {i: members[i].shown(source) for i in range(3) if received[i]}
        for i, row in shown.items():
            mine = received[i]
            assert row["lost"] + row["moved"] == max(mine) - min(mine) + 1 - len(set(mine))
            assert row["received"] - row["duplicate"] == len(set(mine))
        every = set[int]().union(*received)
        expected = max(every) - min(every) + 1 - len(every)
        found = merged_source(list(shown.values()))
        assert found["lost"] == expected
        assert found["moved"] == sum(row["moved"] for row in shown.values())
    assert late > 50
    assert corrected > 50


def test_a_long_time_at_one_member_does_not_matter() -> None:
    """A source of 22 bits wraps for an hour at one member: what is missing where it moved is lost."""
    first = row(list(range(1000)), [0, 1], 22)
    numbers = [1003, 1003 + 5 * 2**22]
    second = {**row(numbers, [1, 3600], 22), "received": 5 * 2**22 + 1, "lost": 0}
    third = row([numbers[1] + 11, numbers[1] + 12], [3600, 3601], 22)
    assert lost([third, first, second]) == 3 + 10


def test_another_numbering_is_no_loss() -> None:
    """A source that began again at a number far away when it moved has lost what each member missed."""
    first = row([5, 6, 8], [0, 1], 22)
    again = row([3_000_000, 3_000_001, 3_000_004], [2, 3], 22)
    assert lost([first, again]) == 1 + 2
    assert lost([first, {**again, "sequence_bits": 32}]) == 1 + 2


def test_lost_is_an_upper_bound_after_a_restart() -> None:
    """A member that started after the source's first report may have received what is missing; so may one
    that others found to have numbers which nobody accounts for now. A later start of a member whose counts
    go on is none, nor is an earlier start; and what is not missing is in no doubt.
    """
    numbers = [*range(100), *range(600, 700)]
    first = row(numbers, [0, 9], 32)
    again = row(list(range(700, 720)), [9.5, 9.6], 32)
    since = [{**again, "counted_since": when(second)} for second in (-5, 9.4, 9.55)]
    assert [merged_source([first, part])["lost_at_most"] for part in since] == [False, True, False]
    assert merged_source([first, since[1]])["lost"] == 500
    moved = {**first, "lost": 20, "moved": 480}
    assert merged_source([moved])["lost_at_most"]
    assert merged_source([moved, row(list(range(100, 600)), [1, 8], 32)])["lost_at_most"] is False
    whole = row(list(range(700)), [0, 9], 32)
    assert merged_source([whole, since[1]])["lost_at_most"] is False


def test_a_report_at_two_members_is_no_negative_loss() -> None:
    """Both received everything, as from a mirror."""
    part = row(list(range(100)), [0, 1], 32)
    assert merged_source([part, part])["lost"] == 0


def port(node: int, number: int, **more: Any) -> dict[str, Any]:
    """A labelling port."""
    return {"node": {"id": node, "name": None}, "port": {"id": number, "name": None}, **more}


def test_a_labelling_port_is_that_of_its_newest_label() -> None:
    """Labels are added, a port without a label comes first by age, as for one member."""
    label = {"labels": 2, "late": 1, "s": 1, "labels_per_second": 1.0, "occupancy": 5}
    fresh = port(1, 1, **label, last_seen=when(9), age_ns=1, latency_ns=7)
    stale = port(1, 1, **label, last_seen=when(2), age_ns=7 * 10**9, latency_ns=3)
    none = port(1, 2, **label, last_seen=None, age_ns=None, latency_ns=None)
    bodies = {
        "b": [{"mode": "shift", "total": 2, "offset": 0, "items": [stale, none]}],
        "a": [{"mode": "shift", "total": 1, "offset": 0, "items": [fresh]}],
    }
    found = RULES["/api/v0/labels"].merge(bodies, {"sort": "age", "order": "desc"})
    assert (found["total"], found["mode"]) == (2, "shift")
    assert [(item["port"]["id"], item["latency_ns"], item["labels"]) for item in found["items"]] == [
        (2, None, 2), (1, 7, 4),
    ]  # fmt: skip
    assert found["items"][1]["members"] == ["a", "b"]


def test_links_that_members_disagree_on_are_disputed() -> None:
    """One link that both know alike has the sources of both; one that leads elsewhere is disputed."""

    def link(number: int, far: int | None, source: str) -> dict[str, Any]:
        node = None if far is None else {"id": far, "name": None}
        return port(1, number, next_node=node, sources=[source], disputed=False)

    bodies = {
        "a": [{"total": 2, "items": [link(1, 2, "file"), link(2, 3, "lldp")]}],
        "b": [{"total": 2, "items": [link(1, 2, "paths"), link(2, None, "paths")]}],
    }
    found = RULES["/api/v0/topology"].merge(bodies, {})
    assert found["total"] == 2
    assert [(item["sources"], item["disputed"]) for item in found["items"]] == [
        (["file", "paths"], False), (["lldp", "paths"], True),
    ]  # fmt: skip


def test_switches_of_all_controllers_are_listed() -> None:
    """Each with the member whose controller reaches it."""
    bodies = {
        "a": [{"total": 1, "in_sync": 1, "items": [{"name": "leaf", "in_sync": True}]}],
        "b": [{"total": 1, "in_sync": 0, "items": [{"name": "leaf", "in_sync": False}]}],
    }
    found = RULES["/api/v0/control/switches"].merge(bodies, {})
    assert (found["total"], found["in_sync"]) == (2, 1)
    assert [item["member"] for item in found["items"]] == ["a", "b"]


def test_open_alarms_stay_those_of_their_members() -> None:
    """The newest first, equal ones by place; one of unknown beginning comes last; each says whose it is."""

    def page(*alarms: tuple[str, str | None]) -> list[Any]:
        items = [{"key": key, "since": since} for key, since in alarms]
        return [{"total": len(items), "offset": 0, "items": items}]

    bodies = {
        "b": page(("queue_occupancy/1/2/0", when(5)), ("hop_latency/1/2", None)),
        "a": page(("hop_latency/1/2", when(5)), ("queue_occupancy/1/2/0", when(7))),
    }
    found = RULES["/api/v0/alarms"].merge(bodies, {"limit": "3"})
    assert found["total"] == 4
    assert [(item["key"], item["member"]) for item in found["items"]] == [
        ("queue_occupancy/1/2/0", "a"), ("hop_latency/1/2", "a"), ("queue_occupancy/1/2/0", "b"),
    ]  # fmt: skip


def test_large_numbers_stay_exact_and_sort_as_numbers() -> None:
    """Packets above 2^53 are text: they sort with the others by value, and are added without rounding."""

    def flow(number: int, packets: int | str) -> dict[str, Any]:
        return {"flow": {"id": f"{number:016x}"}, "packets": packets}

    bodies = {
        "a": [{"total": 2, "items": [flow(1, str(2**60 + 1)), flow(2, 5)]}],
        "b": [{"total": 2, "items": [flow(3, str(2**60)), flow(4, 2**53 - 1)]}],
    }
    found = RULES["/api/v0/flows"].merge(bodies, {"sort": "packets", "limit": "3"})
    assert [item["flow"]["id"][-1] for item in found["items"]] == ["1", "3", "4"]
    assert (found["total"], found["items"][0]["member"]) == (4, "a")


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("/api/v0/flows", True), ("/api/v0/flows/0123456789abcdef", True), ("/api/v0/flows/{flow_id}", True),
        ("/api/v0/flows/1/bottleneck", True), ("/api/v0/flows/1/2", False), ("/api/v0/limits", False),
        ("/api/v0/flows/", False), ("", False), ("/api/v0/events", False), ("/api/v0/sql", False),
    ],
)  # fmt: skip
def test_only_paths_of_the_table_are_asked(path: str, known: bool) -> None:
    """What is not in it is no query to a cluster."""
    assert (rule_of(path) is not None) == known


def waiting(port: int, second: int, kind: str = "queue") -> dict[str, Any]:
    """What a member says of queue or buffer 0 of switch 1."""
    return {
        "node": {"id": 1, "name": None}, "kind": kind, "id": 0, "port": {"id": port, "name": None},
        "occupancy": port, "highest_occupancy": 10 * port, "congestion": None, "highest_congestion": 0,
        "last_seen": when(second), "samples": 5, "alarms": [],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("of_a", "of_b", "expected"),
    [
        (
            [waiting(1, 1), waiting(2, 1)],
            [waiting(2, 2), waiting(3, 2)],
            {(1, 5): ["a"], (2, 10): ["a", "b"], (3, 5): ["b"]},
        ),
        ([waiting(1, 1)], [waiting(2, 2)], {(2, 10): ["a", "b"]}),
        ([waiting(1, 1, "buffer")], [waiting(2, 2, "buffer")], {(2, 10): ["a", "b"]}),
    ],
    ids=["of their ports", "of their switch", "buffers"],
)
def test_queues_of_several_ports_stay_apart(of_a: Any, of_b: Any, expected: Any) -> None:
    """Ports have queues with the same numbers. Where queues are those of a switch (`detect.queue_key`), and
    of buffers, the port is that of the last report, and differs between members.
    """
    pages = {name: [{"total": len(of), "items": of}] for name, of in (("a", of_a), ("b", of_b))}
    found = RULES["/api/v0/queues"].merge(pages, {})
    assert {(each["port"]["id"], each["samples"]): each["members"] for each in found["items"]} == expected
    one = {
        name: [{**waiting(0, 9), "alarms": [], "port_states": [], "queue_states": of}]
        for name, of in (("a", of_a), ("b", of_b))
    }
    assert RULES["/api/v0/switches/{node}"].merge(one, {})["queues"] == len(expected)


def seen(received: int, **more: Any) -> dict[str, Any]:
    """The overview of a member with one queue, as its API answers it."""
    place = {"node": {"id": 1, "name": "leaf"}, "port": {"id": 2, "name": None}, "queue": 3}
    gauge = {"latest": received, "mean": 1.0, "highest": received}
    points = {name: [1.0, 2.0, 3.0] for name in Points.model_fields}
    body = {
        "time": when(received), "unit": "report", "takes_labels": False,
        "totals": {
            "received": received, "received_per_second": 10.0, "lost": 5, "lost_at_most": False,
            "lost_per_second": 0.0, "moved": 4,
            "rejected": 1, "rejected_per_second": 0.0, "kernel_drops": 0, "packets_dropped": 2, "events": 4,
            "events_per_second": 1.0, "values": 80, "values_per_event": 20.0, "flows": 3, "switches": 1,
            "sources": 1, "silent_sources": 0, "workers": 1, "busy_ratio": 0.5, "ns_per_report": 100.0,
        },
        "points": points, "followed_seconds": 60.0,
        "queues": [
            {**place, "values": [1, received, 0], "now": 0, "peak": received, "limit": 9, "alarm": False}
        ],
        "buffers": [], "links": [], "slow_flows": [], "slowest": None,
        "slow_hops": [{**place, "worst_ns": received, "mean_ns": float(received), "flows": 1}],
        "contributors": [{
            **place, "share": 0.5, "latency_sum_ns": 100 * received, "packets": received, "mean_ns": 100.0,
            "median_ns": None, "p99_ns": {"lower": 1, "upper": 2, "estimate": 1.5}, "highest_ns": received,
            "occupancy": gauge, "utilization": gauge, "slow_flows": 1,
        }],
        "contributors_source": "recent", "contributors_seconds": float(received),
        "contributors_note": f"{received} s",
        "drops": [{**place, "last_minute": 1, "total": received}], "lost_sources": [],
        "lost_workers": [{"worker": "0", "cause": "full", "reports": received}], "notable": [],
        "kinds": [{"kind": "raised", "total": received, "per_second": 0.5}], "missed_events": 0,
    }  # fmt: skip
    return body | more


def test_an_overview_of_an_older_member_counts() -> None:
    """Its totals do not have `moved`: it counts as 0, whichever member comes first. What a newer member adds
    is left out.
    """
    old, new = seen(10), seen(30)
    del old["totals"]["moved"]
    new["totals"]["of_a_later_version"] = 7
    Overview.model_validate(old, strict=True)
    nothing = [{"total": 0, "items": []}] * 2
    for bodies in (
        {"a": [old, *nothing], "b": [new, *nothing]},
        {"a": [new, *nothing], "b": [old, *nothing]},
    ):
        totals = RULES["/api/v0/overview"].merge(bodies, {})["totals"]
        assert totals.keys() == Totals.model_fields.keys()
        assert (totals["received"], totals["moved"]) == (40, 4)


def test_overviews_become_one() -> None:
    """By hand: rates of the seconds that both know, the highest of each half second, sums of drops and of
    latency. Shares are of the latency of both. A member that counts no distributions is not in the shares,
    and the note says so. The source of both has lost what neither received, at most: one started
    after its first report.
    """
    switches = {"total": 1, "items": [{"node": {"id": 1, "name": "leaf"}}]}
    sources = [row(list(range(10)), [0, 9], 22), row(list(range(12, 20)), [12, 19], 22)]
    sources[1]["counted_since"] = when(11)
    short = {name: values[1:] for name, values in seen(1)["points"].items()}
    bodies = {
        member: [body, switches, {"total": 1, "items": [source]}]
        for member, body, source in zip(
            ("a", "b"), (seen(10), seen(30, points=short, followed_seconds=1.0)), sources, strict=True
        )
    }
    found = RULES["/api/v0/overview"].merge(bodies, {})
    Overview.model_validate(found, strict=True)
    assert found["points"]["reports"] == [4.0, 6.0]
    assert found["followed_seconds"] == 1.0
    (queue,) = found["queues"]
    assert (queue["values"], queue["peak"], queue["members"]) == ([1, 30, 0], 30, ["a", "b"])
    (hop,) = found["slow_hops"]
    assert (hop["worst_ns"], hop["mean_ns"], hop["flows"]) == (30, 20.0, 2)
    (place,) = found["contributors"]
    assert (place["share"], place["latency_sum_ns"], place["packets"], place["mean_ns"]) == (
        0.5,
        4000,
        40,
        100,
    )
    assert place["p99_ns"] is None
    assert found["contributors_note"] == "30 s"
    assert [(each["last_minute"], each["total"]) for each in found["drops"]] == [(2, 40)]
    assert [each["member"] for each in found["lost_workers"]] == ["b", "a"]
    assert found["kinds"] == [{"kind": "raised", "total": 40, "per_second": 1.0}]
    totals = found["totals"]
    assert (totals["received"], totals["switches"], totals["sources"], totals["flows"]) == (40, 1, 1, 6)
    assert totals["values_per_event"] == 20.0
    assert (totals["lost"], totals["lost_at_most"], totals["moved"]) == (12, True, 8)
    (source,) = found["lost_sources"]
    assert (source["lost"], source["lost_at_most"], source["received"]) == (2, True, 18)
    bodies["b"][0] |= {"contributors": [], "contributors_source": "none"}
    found = RULES["/api/v0/overview"].merge(bodies, {})
    assert found["contributors_note"] == "10 s, of a alone"
    assert [each["members"] for each in found["contributors"]] == [["a"]]
    sources[1]["counted_since"] = when(0)
    assert RULES["/api/v0/overview"].merge(bodies, {})["totals"]["lost_at_most"] is False
    bodies["b"][0]["points"]["reports"] = []
    assert RULES["/api/v0/overview"].merge(bodies, {})["points"]["lost"] == []

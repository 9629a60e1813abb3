"""States of switches as entries of P4 tables, and back."""

from __future__ import annotations

import pytest

from hopscope.control.driver import RefusedError
from hopscope.control.drivers.p4tables import (
    ALL,
    Entry,
    chance_entries,
    entry,
    port_params,
    track_entries,
    tracked_of,
    updates,
    watch_entries,
    watch_of,
)
from hopscope.control.state import SwitchState, difference
from hopscope.settings.label import LabellingSettings, TrackedFlowSettings
from hopscope.settings.watch import WatchSettings

RULES: list[dict[str, object]] = [
    {}, {"source": "10.0.0.0/8"}, {"destination": "192.0.2.7", "port": 7, "protocol": "tcp"},
    {"source": "2001:db8::/32", "destination": "any", "port": 1, "last_port": 1024, "protocol": "any"},
    {"source": "0.0.0.0/0", "sample": 3}, {"source": "10.1.0.0/16", "destination": "10.2.0.0/16"},
    {"sample": 1 << 31}, {"port": 0, "last_port": 65535}, {"destination": "2001:db8::1", "sample": 1000},
]  # fmt: skip


def test_a_rule_by_hand() -> None:
    """192.0.2.0/24, TCP, ports 80 to 443, one packet in four: the entry that p4/README.md describes."""
    rule = WatchSettings(destination="192.0.2.0/24", port=80, last_port=443, protocol="tcp", sample=4)
    (found,) = watch_entries([rule], 0xE400, 8)
    match = {"destination": (0xC0000200, 0xFFFFFF00), "destination_port": (80, 443), "protocol": (6, 0xFF)}
    params = {"instructions": 0xE400, "hop_limit": 8, "sample": 1 << 30}
    assert found == entry("watch_ipv4", match, "start", params, 1024)


def test_watch_lists_come_back() -> None:
    """Whatever is written is read as the same list, in its order, as far as meaning goes."""
    rules = tuple(WatchSettings.model_validate(each) for each in RULES)
    for chosen in (rules, rules[::-1], *((each,) for each in rules), ()):
        found = watch_of(watch_entries(chosen, 0xE400, 8))
        assert not difference(SwitchState(watch=chosen), SwitchState(watch=found)).parts(), (chosen, found)


def test_a_rule_of_both_versions_has_two_entries() -> None:
    """Any address is one rule, and an entry in each table."""
    assert [each.table for each in watch_entries([WatchSettings()], 1, 1)] == ["watch_ipv4", "watch_ipv6"]
    with pytest.raises(ValueError, match="prefixes of one version"):
        WatchSettings(source="10.0.0.0/8", destination="2001:db8::/32")


def test_what_the_program_cannot_do_is_an_error() -> None:
    """A sample of flows, an interval that does not fit: nothing is written in its place."""
    with pytest.raises(RefusedError, match="sample_by 'flow'"):
        list(watch_entries([WatchSettings(sample_by="flow")], 1, 1))
    with pytest.raises(RefusedError, match="expected 1 us to 4294 s"):
        port_params(LabellingSettings(interval=5000))


def test_entries_of_others_are_no_rules() -> None:
    """An entry that no rule can say is left out; it goes with the next change."""
    odd = entry("watch_ipv4", {"source_port": (1, 2)}, "start", {"sample": ALL}, 3)
    mask = entry("watch_ipv4", {"source": (0x0A000001, 0xFF0000FF)}, "start", {"sample": ALL}, 2)
    assert watch_of([odd, mask, entry("watch_ipv4", {}, "NoAction", {}, 4)]) == ()
    prefix = {"source": (0x0A000000, 0xFF000000), "destination": (0x0A000001, 0xFFFFFFFF)}
    assert tracked_of([entry("track_ipv4", prefix, "track", {"every": 1, "index": 0}, 10)]) == ()
    assert [kind for kind, _ in updates([odd], [])] == ["-"]


def test_a_tracked_flow_keeps_its_counter() -> None:
    """Rows of counters are different for each flow, and stay when others come and go."""
    flows = [TrackedFlowSettings(src=f"10.0.0.{n}", dst="10.0.1.1", every=n) for n in range(1, 6)]
    flows.append(TrackedFlowSettings(src="2001:db8::1", dst="2001:db8::2", every=9))
    first = list(track_entries(flows, []))
    assert tracked_of(first) == tuple(flows)
    assert len({dict(each.params)["index"] for each in first}) == len(flows)
    second = list(
        track_entries([flows[5], flows[2], TrackedFlowSettings(src="10.9.9.9", dst="10.0.1.1")], first)
    )
    rows = {each.match: dict(each.params)["index"] for each in first}
    assert [dict(each.params)["index"] for each in second[:2]] == [rows[first[5].match], rows[first[2].match]]
    assert len({dict(each.params)["index"] for each in second}) == 3


def test_a_table_of_probabilities_covers_the_interval() -> None:
    """Each number of labels and each time has the probability of its row and column, by brute force."""
    table = ((0.0, 0.25), (0.5, 1.0), (1.0, 1.0))
    labelling = LabellingSettings(interval=0.001, chance_table=table)
    found = list(chance_entries(labelling))
    for count in range(6):
        for elapsed in (0, 1, 499, 500, 501, 999, 1000, 5000):
            shares = [dict(each.params)["share"] for each in found if _matches(each, count, elapsed)]
            chance = table[min(count, 2)][min(elapsed // 500, 1)]
            assert shares == ([min(ALL, round(chance * 2**32))] if chance else [])


def _matches(each: Entry, count: int, scaled: int) -> bool:
    match = dict(each.match)
    return all(
        match[name][0] <= value <= match[name][1]
        for name, value in (("count", count), ("scaled", scaled))
        if name in match
    )

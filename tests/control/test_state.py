"""States of switches: what differs, what a change makes of them."""

from __future__ import annotations

import json

import pytest

from hopscope.control.state import SwitchState, changed, difference, lacking
from hopscope.settings.label import LabellingSettings, TrackedFlowSettings
from hopscope.settings.watch import WatchSettings

FLOW = TrackedFlowSettings(src="10.0.0.2", dst="10.0.1.2", every=10)
WATCH = WatchSettings(destination="192.0.2.7", port=5001)


def full() -> SwitchState:
    """Every part with something in it."""
    return SwitchState(
        watch=(WATCH,), track=(FLOW,), labelling=LabellingSettings(), reg2={1: 3, 2: 255, 9: 0}
    )


def test_a_change_makes_a_switch_do_what_it_should() -> None:
    """From any state to any other: after the difference is applied, none is left."""
    states = [
        SwitchState(watch=(), track=(), labelling=LabellingSettings(interval=1), reg2={1: 0, 2: 0, 9: 0}),
        full(),
    ]
    states.append(
        SwitchState(watch=(WatchSettings(),), track=(), labelling=LabellingSettings(), reg2={2: 1, 9: 4})
    )
    for actual in states:
        for wanted in states:
            after = changed(actual, difference(wanted, actual))
            assert not difference(wanted, after).parts()
            assert difference(wanted, actual).parts() or wanted is actual


def test_only_the_ports_that_differ_are_in_a_change() -> None:
    """A port with another value, one that should have 0, one that had 0; none that the switch lacks."""
    wanted, actual = SwitchState(reg2={1: 3, 2: 5, 4: 1, 5: 1}), SwitchState(reg2={1: 3, 2: 4, 3: 7, 4: 0})
    assert difference(wanted, actual).reg2 == {2: 5, 3: 0, 4: 1}
    assert lacking(wanted, actual) == ("port 5",)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"destination": "192.0.2.7"}, {"destination": "192.0.2.7/32"}),
        ({"destination": "any"}, {"destination": "::/0"}),
        ({"port": 7}, {"port": 7, "last_port": 7}),
        ({}, {"port": 0, "last_port": 65535}),
        ({"source": "2001:db8::/32"}, {"source": "2001:0db8:0::/32"}),
    ],
)
def test_the_same_entry_may_be_written_in_two_ways(one: dict[str, object], other: dict[str, object]) -> None:
    """What a switch answers is compared by its meaning, or it would be written again and again."""
    states = [SwitchState(watch=(WatchSettings.model_validate(each),)) for each in (one, other)]
    assert not difference(*states).parts()


def test_the_order_of_a_watch_list_counts() -> None:
    """The first entry that matches decides."""
    assert difference(
        SwitchState(watch=(WATCH, WatchSettings())), SwitchState(watch=(WatchSettings(), WATCH))
    ).watch


def test_parts_that_nobody_asks_for_stay() -> None:
    """A part that is not asked for, or that the switch does not have, is not in the change."""
    assert not difference(SwitchState(), full()).parts()
    assert not difference(full(), SwitchState()).parts()
    assert lacking(full(), SwitchState(watch=())) == ("track", "labelling", "reg2")
    assert not lacking(SwitchState(track=(), reg2={}), SwitchState())


def test_a_state_survives_json() -> None:
    """What one side writes is what the other reads, ports included."""
    state = full()
    assert SwitchState.model_validate_json(json.dumps(state.as_json())) == state

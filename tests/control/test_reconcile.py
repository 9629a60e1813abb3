"""The loop of one switch: it converges, tries again, finds what others change, waits in standby."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from hopscope.control.driver import StandbyError
from hopscope.control.reconcile import Reconciler
from hopscope.control.state import SwitchState
from hopscope.settings.watch import WatchSettings
from support.network.switch_driver import MemoryDriver, gone
from support.waiting import eventually

WATCH = (WatchSettings(port=5001),)
Start = Callable[[MemoryDriver], Reconciler]


@pytest.fixture
def lines() -> list[str]:
    """What is logged."""
    return []


@pytest.fixture
def start(lines: list[str]) -> Iterator[Start]:
    """Starts the loop of a switch, with short pauses."""
    running: list[Reconciler] = []

    def make(driver: MemoryDriver) -> Reconciler:
        made = Reconciler(
            "leaf1", driver, verify_seconds=0.02, retry_seconds=0.05, notify=lines.append, warn=lines.append
        )
        running.append(made)
        made.start()
        return made

    yield make
    for reconciler in running:
        reconciler.stop()
        reconciler.join()


def test_a_switch_does_what_is_asked(start: Start) -> None:
    """The newest state that is asked for is reached, and then shown as reached."""
    driver = MemoryDriver(SwitchState(watch=(), reg2={7: 0}))
    reconciler = start(driver)
    for value in (1, 2, 3):
        reconciler.ask(SwitchState(watch=WATCH, reg2={7: value}))
    eventually(
        lambda: driver.state == SwitchState(watch=WATCH, reg2={7: 3}) and reconciler.status()["in_sync"]
    )
    assert reconciler.status()["state"] == "up"


def test_a_failure_is_shown_and_repeated(start: Start, lines: list[str]) -> None:
    """A switch that is away is tried again until it is back; the log says each once."""
    driver = MemoryDriver(SwitchState(watch=()))
    driver.problem = gone()
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH))
    eventually(lambda: reconciler.counts["failures"] >= 3)
    status = reconciler.status()
    assert (status["state"], status["in_sync"], status["error"]) == ("down", False, "it does not answer")
    assert driver.closed == driver.connections or driver.closed + 1 == driver.connections
    driver.problem = None
    eventually(lambda: reconciler.status()["in_sync"])
    assert driver.state.watch == WATCH
    assert lines == ["switch leaf1: it does not answer; retrying", "switch leaf1: connected"]


def test_a_switch_that_forgets_is_written_again(start: Start) -> None:
    """A restart of the switch, or somebody else's change, is found when it is read next, and counted."""
    driver = MemoryDriver(SwitchState(watch=()))
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH))
    eventually(lambda: driver.state.watch == WATCH and reconciler.status()["in_sync"])
    driver.state = SwitchState(watch=())
    eventually(lambda: driver.state.watch == WATCH)
    assert reconciler.counts["drifts"] == 1


def test_a_bug_in_a_driver_ends_nothing(start: Start) -> None:
    """An exception of a client library is a failure like any other."""
    driver = MemoryDriver(SwitchState(watch=()))
    driver.problem = KeyError("x")
    reconciler = start(driver)
    eventually(lambda: reconciler.status()["error"] == "KeyError: 'x'")
    driver.problem = None
    eventually(lambda: reconciler.status()["state"] == "up")


def test_a_standby_stays_connected(start: Start) -> None:
    """Another controller has the switch: nothing is written, nothing is closed, no failure counted."""
    driver = MemoryDriver(SwitchState(watch=()))
    driver.problem = StandbyError("controller 9 changes it")
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH))
    eventually(lambda: reconciler.status()["state"] == "standby")
    assert (driver.closed, reconciler.counts["failures"]) == (0, 0)
    driver.problem = None
    eventually(lambda: driver.state.watch == WATCH)


def test_reg2_is_reset_at_the_end(start: Start) -> None:
    """Without a controller ports label at their own interval; rules stay."""
    driver = MemoryDriver(SwitchState(watch=(), reg2={1: 4, 2: 0}))
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH, reg2={1: 4, 2: 255}))
    eventually(lambda: driver.state.reg2 == {1: 4, 2: 255} and reconciler.status()["in_sync"])
    reconciler.stop()
    reconciler.join()
    assert driver.state == SwitchState(watch=WATCH, reg2={1: 0, 2: 0})


def test_reg2_of_others_stays(start: Start) -> None:
    """A controller that never set Reg2 does not reset it."""
    driver = MemoryDriver(SwitchState(watch=(), reg2={1: 4}))
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH))
    eventually(lambda: driver.state.watch == WATCH and reconciler.status()["in_sync"])
    reconciler.stop()
    reconciler.join()
    assert driver.state.reg2 == {1: 4}


def test_what_a_switch_lacks_is_said_once(start: Start, lines: list[str]) -> None:
    """A switch without a part does the rest."""
    driver = MemoryDriver(SwitchState(reg2={1: 0}))
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH, reg2={1: 1, 9: 1}))
    eventually(lambda: reconciler.counts["reads"] >= 3 and driver.state.reg2 == {1: 1})
    assert reconciler.status()["lacks"] == ["watch", "port 9"]
    assert lines.count("switch leaf1 does not have watch, port 9, which its wanted state needs") == 1


def test_a_part_that_is_refused_stops_no_other(start: Start, lines: list[str]) -> None:
    """The switch stays up and gets the other parts; the refused one is shown, tried again with each read, and
    applied once the switch takes it.
    """
    driver = MemoryDriver(SwitchState(watch=(), track=(), reg2={1: 0}))
    driver.refused = {"watch"}
    reconciler = start(driver)
    reconciler.ask(SwitchState(watch=WATCH, reg2={1: 3}))
    eventually(lambda: reconciler.counts["failures"] >= 2 and driver.state.reg2 == {1: 3})
    status = reconciler.status()
    assert (status["state"], status["in_sync"], status["error"]) == ("up", False, None)
    assert status["refuses"] == {"watch": "no such [2Jwatch"}  # without what a terminal would obey
    assert (driver.connections, driver.closed, driver.state.watch) == (1, 0, ())
    assert lines.count("switch leaf1 refuses watch: no such [2Jwatch") == 1
    driver.refused = set()
    eventually(lambda: driver.state.watch == WATCH and reconciler.status()["in_sync"])
    assert reconciler.status()["refuses"] == {}


def test_a_refused_part_is_not_repeated_for_others(start: Start) -> None:
    """While other parts change, what was refused waits for the next read, or for another wish."""
    driver = MemoryDriver(SwitchState(watch=(), reg2={1: 0}))
    driver.refused = {"watch"}
    reconciler = Reconciler(
        "leaf1", driver, verify_seconds=1000, retry_seconds=1, notify=print, warn=print
    )  # fmt: skip
    reconciler.ask(SwitchState(watch=WATCH))
    reconciler.start()
    try:
        eventually(lambda: reconciler.status()["refuses"])
        for value in (1, 2, 3):
            reconciler.ask(SwitchState(watch=WATCH, reg2={1: value}))
            eventually(lambda value=value: driver.state.reg2 == {1: value})  # type: ignore[misc]
        assert reconciler.counts["failures"] == 1
        reconciler.ask(SwitchState(watch=(), reg2={1: 3}))
        eventually(lambda: reconciler.status()["in_sync"] and not reconciler.status()["refuses"])
    finally:
        reconciler.stop()
        reconciler.join()

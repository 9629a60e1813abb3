"""Silent ports: found once, after the limit, and never without traffic; cleared when a label comes."""

from __future__ import annotations

import numpy as np

from hopscope.labels.silence import BUSY, IDLE, UNKNOWN, Changes, Silence
from hopscope.labels.state import LABEL_ROW, NEVER

SECOND = 10**9
NOW = 10**18


class Port:
    """One port over time, looked at 50 times per second; the limit is 2 s."""

    def __init__(self, traffic: int) -> None:
        self.rows = np.zeros(1, LABEL_ROW)
        self.rows["time_ns"] = self.rows["received_ns"] = NEVER
        self.rows["traffic"] = traffic
        self.silence = Silence(self.rows)
        self.now = NOW

    def label(self) -> None:
        self.rows["received_ns"] = self.now

    def wait(self, seconds: float) -> list[str]:
        """What happens, with the time from the beginning."""
        found = []
        for _ in range(round(seconds * 50)):
            self.now += SECOND // 50
            found += [f"{kind} {(self.now - NOW) / SECOND:.0f}" for kind in self.look(self.now)]
        return found

    def look(self, now: int) -> list[str]:
        changes: Changes = self.silence.tick(1, now, 2 * SECOND)
        kinds = {"silent": changes.silent, "heard": changes.heard, "idle": changes.idle}
        assert len(changes.ages) == len(changes.silent)
        assert all(age >= 2 * SECOND for age in changes.ages.tolist())
        return [kind for kind, rows in kinds.items() if len(rows)]


def test_a_port_whose_traffic_is_unknown() -> None:
    """It is silent after the limit, once, until a label comes; one that was never heard of never is."""
    port = Port(UNKNOWN)
    assert port.wait(5) == []
    port.label()
    assert port.wait(5) == ["silent 7"]
    assert port.rows["silent"].tolist() == [1]
    port.label()
    assert port.wait(1) == ["heard 10"]
    assert port.rows["silent"].tolist() == [0]
    for _ in range(10):
        port.label()
        assert port.wait(1.5) == []


def test_a_port_with_traffic_that_never_labels() -> None:
    """It waits for its first label from its first traffic on."""
    port = Port(BUSY)
    assert port.wait(4) == ["silent 2"]
    port.rows["traffic"] = IDLE
    assert port.wait(5) == ["idle 6"]


def test_a_port_without_traffic_is_not_silent() -> None:
    """However long; one packet after a pause does not make it silent, traffic for that long does."""
    port = Port(BUSY)
    port.label()
    port.rows["traffic"] = IDLE
    assert port.wait(60) == []
    for _ in range(3):
        port.rows["traffic"] = BUSY
        assert port.wait(0.1) == []
        port.rows["traffic"] = IDLE
        assert port.wait(30) == []
    port.rows["traffic"] = BUSY
    assert len(port.wait(2.2)) == 1


def test_another_process_goes_on() -> None:
    """A silent port stays so, and is cleared by the next label; one that was evicted begins again."""
    port = Port(UNKNOWN)
    port.label()
    assert port.wait(3) == ["silent 2"]
    port.silence = Silence(port.rows)
    port.silence.resume(port.now)
    assert port.wait(3) == []
    port.label()
    assert port.wait(0.1) == ["heard 6"]
    port.wait(3)
    assert port.silence.forget(np.array([0])).tolist() == [0]
    port.rows[:] = 0
    port.rows["received_ns"] = NEVER
    assert port.silence.forget(np.array([0])).tolist() == []
    assert port.wait(3) == []

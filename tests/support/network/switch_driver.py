"""A switch in memory, as a driver reaches it."""

from __future__ import annotations

import threading

from hopscope.control.driver import RefusedError, SouthboundError
from hopscope.control.neighbours import SwitchPorts
from hopscope.control.state import SwitchState, changed, lacking


class MemoryDriver:
    """A switch with these parts, which may fail."""

    def __init__(self, state: SwitchState) -> None:
        self.state = state
        self.problem: Exception | None = None
        """Raised by every call, if it is set."""
        self.refused: set[str] = set()
        """Parts that it cannot do."""
        self.changes: list[SwitchState] = []
        self.connections = self.closed = 0
        self.known_ports: SwitchPorts | None = None
        self.held = threading.Event()
        """Cleared: `read` does not return."""
        self.held.set()

    def connect(self) -> None:
        """Count it."""
        self.connections += 1
        self._check()

    def read(self) -> SwitchState:
        """The state."""
        self.held.wait()
        self._check()
        return self.state

    def apply(self, change: SwitchState) -> None:
        """Change the state."""
        self._check()
        if refused := self.refused.intersection(change.parts()):
            raise RefusedError(f"no such \x1b[2J{min(refused)}")
        self.changes.append(change)
        assert not lacking(change, self.state)
        self.state = changed(self.state, change)

    def ports(self) -> SwitchPorts | None:
        """What the test says."""
        return self.known_ports

    def close(self) -> None:
        """Count it."""
        self.closed += 1

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem


def gone() -> SouthboundError:
    """A switch does not answer."""
    return SouthboundError("it does not answer")

"""Brings one switch into its wanted state: reads it, applies the difference, and retries after failures."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..base.deadline import jittered
from ..base.errors import described
from ..base.names import clean_name
from .driver import Driver, RefusedError, StandbyError
from .neighbours import SwitchPorts
from .state import SwitchState, changed, difference, lacking

FIRST_PAUSE = 0.5
"""Seconds until the first retry; each pause is twice as long as the one before."""
STANDBY_SECONDS = 1.0
"""How often a controller in standby checks whether it may change the switch now."""
COUNTS = ("connections", "failures", "reads", "drifts", "changes")
"""Connections made; failed attempts; states read; reads that found an unrequested change; changes
applied.
"""


class Reconciler(threading.Thread):
    """One switch, in a thread of its own, so that a slow switch delays no other.

    Call `ask` whenever the wanted state changes; `stop` ends the thread and resets Reg2.
    """

    def __init__(
        self,
        name: str,
        driver: Driver,
        *,
        verify_seconds: float,
        retry_seconds: float,
        notify: Callable[[str], object],
        warn: Callable[[str], object],
    ) -> None:
        super().__init__(name=f"switch {name}", daemon=True)
        self.switch, self._driver = name, driver
        self._verify_seconds, self._retry_seconds = verify_seconds, retry_seconds
        self._notify, self._warn = notify, warn
        self._wanted = SwitchState()
        self._actual: SwitchState | None = None
        self._state, self._since_ns = "connecting", time.time_ns()
        self._error, self._error_ns = "", 0
        self._pause = FIRST_PAUSE
        self._connected = self._stopping = False
        self._verify_at = 0.0
        self._wake = threading.Condition()
        self._asked = False
        self._lacking: tuple[str, ...] = ()
        self._refused: dict[str, tuple[Any, str]] = {}
        """Refused change and reason, by part. Replaced, never modified: other threads call `status`."""
        self._ports: SwitchPorts | None = None
        self.counts: Counter[str] = Counter()

    def ask(self, wanted: SwitchState) -> None:
        """Set the wanted state of the switch."""
        if wanted == self._wanted:
            return
        with self._wake:
            self._wanted, self._asked = wanted, True
            self._wake.notify()

    def stop(self) -> None:
        """Reset Reg2 if the switch is connected, and end the thread; the caller joins it."""
        with self._wake:
            self._stopping = True
            self._wake.notify()

    def run(self) -> None:
        """Run until `stop`."""
        while not self._stopping:
            try:
                self._converge()
                self._become("up")
                self._pause = FIRST_PAUSE
                self._wait(max(0.0, self._verify_at - time.monotonic()))
            except StandbyError as error:
                self._become("standby", str(error))
                self._wait(STANDBY_SECONDS)
                self._verify_at = 0.0
            except Exception as error:  # also from a client library: one switch must not stop the others
                self._failed(described(error))
        self._release()

    @property
    def ports(self) -> SwitchPorts | None:
        """The switch's ports as last read; None: unknown."""
        return self._ports

    def status(self) -> dict[str, Any]:
        """Status for people and programs: state, wanted and actual state of the switch, last error."""
        wanted, actual = self._wanted, self._actual
        known = self._state == "up" and actual is not None
        return {
            "state": self._state,
            "since_ns": self._since_ns,
            "in_sync": known and not difference(wanted, actual).parts(),  # type: ignore[arg-type]
            "error": self._error or None,
            "error_ns": self._error_ns or None,
            "lacks": list(lacking(wanted, actual)) if actual is not None else [],
            "refuses": {part: why for part, (_, why) in self._refused.items()},
            "wanted": wanted.as_json(),
            "actual": None if actual is None else actual.as_json(),
            "ports": None if self._ports is None else self._ports.model_dump(mode="json"),
            "counts": {name: self.counts[name] for name in COUNTS},
        }

    def _converge(self) -> None:
        if not self._connected:
            self._connected, self._actual = True, None
            self._driver.connect()
            self.counts["connections"] += 1
        now = time.monotonic()
        is_read = self._actual is None or now >= self._verify_at
        if is_read:
            before, self._actual = self._actual, self._driver.read()
            self._ports = self._driver.ports()
            self.counts["reads"] += 1
            self._verify_at = now + self._verify_seconds
            if before is not None and difference(before, self._actual).parts():
                self.counts["drifts"] += 1
            self._note_lacking()
        with self._wake:
            wanted, self._asked = self._wanted, False
        assert self._actual is not None
        change = difference(wanted, self._actual)
        parts = change.parts()
        self._refused = {part: refused for part, refused in self._refused.items() if part in parts}
        if not is_read:  # refused changes are retried after each read, or when the wanted state changes
            parts = tuple(
                part for part in parts if self._refused.get(part, (None, ""))[0] != getattr(change, part)
            )
        if parts:
            self._apply(change.only(*parts))

    def _apply(self, change: SwitchState) -> None:
        """Apply a change; parts that the switch refuses are skipped, and appear in the status."""
        assert self._actual is not None
        parts = list(change.parts())
        try:
            self._driver.apply(change)
        except RefusedError as error:
            part, *others = parts
            if others:
                for part in parts:
                    self._apply(change.only(part))
                return
            self.counts["failures"] += 1
            why = _line(str(error))
            if self._refused.get(part, (None, ""))[1] != why:
                self._warn(f"switch {self.switch} refuses {part}: {why}")
            self._refused = {**self._refused, part: (getattr(change, part), why)}
            return
        self._refused = {part: refused for part, refused in self._refused.items() if part not in parts}
        self.counts["changes"] += len(parts)
        self._actual = changed(self._actual, change)

    def _note_lacking(self) -> None:
        assert self._actual is not None
        found = lacking(self._wanted, self._actual)
        if found != self._lacking and found:
            self._warn(f"switch {self.switch} does not have {', '.join(found)}, which its wanted state needs")
        self._lacking = found

    def _become(self, state: str, error: str = "") -> None:
        error = _line(error)
        if state == self._state:
            return
        self._state, self._since_ns = state, time.time_ns()
        if error:
            self._error, self._error_ns = error, time.time_ns()
            self._warn(f"switch {self.switch}: {error}")
        else:
            self._notify(f"switch {self.switch}: connected")

    def _failed(self, problem: str) -> None:
        problem = _line(problem)
        self._close()
        self.counts["failures"] += 1
        news = problem != self._error or self._state != "down"
        self._error, self._error_ns = problem, time.time_ns()
        if self._state != "down":
            self._state, self._since_ns = "down", time.time_ns()
        if news:
            self._warn(f"switch {self.switch}: {problem}; retrying")
        self._wait(jittered(self._pause, 0.8, 1.2), asked=False)
        self._pause = min(self._pause * 2, self._retry_seconds)

    def _wait(self, seconds: float, *, asked: bool = True) -> None:
        """Wait this long, or until `stop`, or (`asked`) until the wanted state changes."""
        with self._wake:
            self._wake.wait_for(lambda: self._stopping or (asked and self._asked), seconds)

    def _release(self) -> None:
        """Reset Reg2 if this controller set it: without a controller, ports label at their own interval."""
        owns = self._connected and self._state == "up" and self._wanted.reg2 is not None
        if owns and self._actual is not None:
            change = difference(SwitchState(reg2={}), self._actual)
            try:
                if change.parts():
                    self._driver.apply(change)
            except Exception as error:
                self._warn(f"switch {self.switch}: Reg2 was not reset: {_line(described(error))}")
        self._close()

    def _close(self) -> None:
        if self._connected:
            self._connected = False
            self._driver.close()


def _line(text: str) -> str:
    """Text as one line of at most 300 printable characters, since it may contain text from a switch."""
    return clean_name(text.encode("utf-8", "replace"), 300)

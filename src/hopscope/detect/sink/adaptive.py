"""Thresholds that follow the rate of events: a state machine that is told the time (INT sink, III-C)."""

from __future__ import annotations

from ...settings.sink import AdaptSettings

QUIET_STEPS = 10
"""Periods in a row with less than half of the rate, after which thresholds fall by a step."""


class Adaptive:
    """By how much the limits of the configuration are multiplied: 1 to `highest`, in steps of `factor`.

    They rise by a step a period while there are more events than `events_per_second`, or while a reader says
    that it is behind; they fall by one after ten quiet periods in a row.  Between half of the rate and the
    rate they stay: that a step down brings more events does not bring the step up again at once.
    """

    def __init__(self, settings: AdaptSettings) -> None:
        self._settings = settings
        self._period_ns = max(1, int(settings.step_seconds * 1e9))
        self._begin_ns: int | None = None
        self._events = 0
        self._quiet = 0
        self._behind = False
        self._steps = 0
        self.scale = 1.0
        """Factor in force."""

    def note_lag(self, behind: bool = True) -> None:
        """A reader of the ring has lost records, or is about to: the thresholds rise with the next step."""
        self._behind = self._behind or behind

    def step(self, now_ns: int, events: int) -> tuple[float, float] | None:
        """Take `events` since the last call into account; (scale before, after) where it changed.

        `now_ns` may be of any clock; where it goes back the period begins anew.
        """
        self._events += events
        if not self._settings.enabled:
            return None
        if self._begin_ns is None or now_ns < self._begin_ns:
            self._begin_ns = now_ns
            return None
        passed = now_ns - self._begin_ns
        if passed < self._period_ns:
            return None
        rate = self._events * 1e9 / passed
        self._begin_ns, self._events = now_ns, 0
        before = self.scale
        behind, self._behind = self._behind, False
        if rate > self._settings.events_per_second or behind:
            self._quiet = 0
            self._steps += self.scale < self._settings.max_factor
        elif rate < self._settings.events_per_second / 2:
            self._quiet += 1
            if self._quiet == QUIET_STEPS:
                self._quiet = 0
                self._steps -= self._steps > 0
        else:
            self._quiet = 0
        self.scale = min(self._settings.factor**self._steps, self._settings.max_factor)
        return (before, self.scale) if self.scale != before else None

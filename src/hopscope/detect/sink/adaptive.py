"""Thresholds that adapt to the rate of events (INT sink, III-C); the caller passes the time."""

from __future__ import annotations

from ...settings.sink import AdaptSettings

QUIET_STEPS = 10
"""After this many consecutive periods with less than half of the rate, thresholds decrease by a step."""


class AdaptiveThresholds:
    """Factor for the configured limits: 1 to `max_factor`, in steps of `factor`.

    It increases by a step per period while there are more events than `events_per_second`, or a reader lags;
    it decreases by a step after ten quiet periods in a row. Between half of the rate and the full rate it
    does not change, so that the additional events after a step down do not cause a step up at once.
    """

    def __init__(self, settings: AdaptSettings) -> None:
        self._settings = settings
        self._period_ns = int(settings.step_seconds * 1e9)
        self._begin_ns: int | None = None
        self._events = 0
        self._quiet = 0
        self._behind = False
        self._steps = 0
        self.scale = 1.0
        """Current factor."""

    def note_lag(self, behind: bool = True) -> None:
        """Note that a reader of the ring has lost records, or is about to: the next step increases
        thresholds.
        """
        self._behind = self._behind or behind

    def step(self, now_ns: int, events: int) -> tuple[float, float] | None:
        """Account for `events` since the last call; returns (factor before, factor after) if it changed.

        `now_ns` may be of any clock; if it goes back, the period restarts.
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

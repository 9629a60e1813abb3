"""Estimates how many events other limits would have caused, from the values in history.

History has the values that caused events. Between two of these, a value was within ±T of the stored one, so
the effect of other limits is known only in part:

- Alarms of stored values are certain. Values above a new limit that caused no event are not known, so the
number
  of alarms is a lower bound; it is exact for the limits in force.
- Changes are counted by comparing the stored values with the new T, one after the other. The number is exact
  if every change was stored (T = 0), and for the T in force; otherwise it is an estimate. - A lower bound of
changes always holds. Let v and w be two values of one key, w after v. With the new T, the
  stored value would have been within T of v. So if w differs from v by more than 2 T, there would have been
a
  change after v, at the latest with w. Just after a new key or a push, the stored value is v itself, so a
  difference of more than T is enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...detect.records import MEASURED, Kind
from ...history.history_like import HistoryLike
from ...history.reading.filters import Filters
from ...settings.limits import (
    SWITCH_METRICS,
    LimitSettings,
    MetricLimits,
    SwitchLimits,
    SwitchMetricLimits,
)
from .intervals import event_key, event_rows, place_of_row
from .places import Place, limits_at

MAX_EVENTS = 200_000
"""Largest number of events that a preview reads: the newest of the range. This takes about one CPU second."""
PLACES = 10
"""How many places a preview lists."""
COUNTED = ("change", "raised", "cleared", "threshold")
"""Kinds of events that limits cause."""
_NEW, _PUSH, _CLEARED = Kind.NEW_KEY.label, Kind.PUSH.label, Kind.CLEARED.label
KINDS = (_NEW, _PUSH, *COUNTED)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change of a metric's limits, for all switches or for one. `given`: the new values by name; None:
    never; "general": the value for all switches.
    """

    metric: str
    node: int | None
    given: Mapping[str, int | str | None]

    def applied(self, limits: LimitSettings) -> LimitSettings:
        """All limits with the change. ValueError: they contradict each other, or a
        switch has no such limit.
        """
        if self.node is None:
            if "general" in self.given.values():
                raise ValueError('found "general", expected it for a single switch only')
            before: MetricLimits = getattr(limits.general, self.metric)
            after = MetricLimits(**{**before.model_dump(), **self.given})
            general = limits.general.model_copy(update={self.metric: after})
            return LimitSettings(general=general, switches=limits.switches)
        if self.metric not in SWITCH_METRICS:
            raise ValueError(f"{self.metric} has limits of all switches only")
        own = next((one for one in limits.switches if one.node == self.node), SwitchLimits(node=self.node))
        words = {name: _own(value) for name, value in self.given.items()}
        changed = SwitchMetricLimits(**{**getattr(own, self.metric).model_dump(), **words})
        others = tuple(one for one in limits.switches if one.node != self.node)
        switch = own.model_copy(update={self.metric: changed})
        return LimitSettings(general=limits.general, switches=(*others, switch))


def _own(value: int | str | None) -> int | str | None:
    return "never" if value is None else None if value == "general" else value


@dataclass(slots=True)
class Counts:
    """Number of events by kind."""

    change: int = 0
    raised: int = 0
    cleared: int = 0
    threshold: int = 0
    other: int = 0
    """New keys and pushes, which do not depend on limits."""

    @property
    def total(self) -> int:
        """Number of all events."""
        return self.change + self.raised + self.cleared + self.threshold + self.other

    def add(self, other: Counts) -> None:
        """Add the numbers of another place."""
        for name in (*COUNTED, "other"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class Preview:
    """What a change of limits would have caused."""

    had: Counts = field(default_factory=Counts)
    would: Counts = field(default_factory=Counts)
    at_least: int = 0
    """Lower bound of the number of all events that there would have been."""
    exact: bool = True
    """Whether `would` is exact. If not, it is an estimate."""
    lower_bound: bool = False
    """Whether there may have been more, because values that caused no event are not stored."""
    places: list[tuple[Place, Counts, Counts]] = field(default_factory=list)
    """Places with the most events: (place, events that it had, events that it would have had)."""
    since_ns: int = 0
    """Only events after this time were read."""


def preview(
    history: HistoryLike, before: LimitSettings, proposal: Proposal, since_ns: int, until_ns: int
) -> Preview:
    """Compare the limits in force, `before`, with a proposal, over the events of a time range. ValueError:
    the proposal contradicts itself.
    """
    after = proposal.applied(before)
    metric = proposal.metric
    filters: Filters = {"start": since_ns, "end": until_ns, "metrics": (metric,), "kinds": KINDS}
    if proposal.node is not None:
        filters["nodes"] = (proposal.node,)
    table = history.events(limit=MAX_EVENTS, **filters)
    rows = list(event_rows(table))
    rows.reverse()
    found = Preview(since_ns=rows[0]["time_ns"] if table.truncated and rows else since_ns)
    by_key: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_key[event_key(row)].append(row)
    places: dict[Place, tuple[Counts, Counts]] = {}
    for events in by_key.values():
        place = place_of_row(events[0])
        old, new = limits_at(before, metric, place.node), limits_at(after, metric, place.node)
        assert old is not None
        assert new is not None
        had, would, least = _of_key(events, old, new)
        found.had.add(had)
        found.would.add(would)
        found.at_least += least
        if place.node is not None:
            counts = places.setdefault(place, (Counts(), Counts()))
            counts[0].add(had)
            counts[1].add(would)
        _judge(found, old, new)
    order = sorted(places.items(), key=lambda item: -max(item[1][0].total, item[1][1].total))
    found.places = [(place, *counts) for place, counts in order[:PLACES]]
    return found


def _judge(found: Preview, old: MetricLimits, new: MetricLimits) -> None:
    """Note whether the counts of a switch with these limits are exact, or may be too low."""
    known = old.change == 0
    alarms_differ = (old.raise_above, old.clear_below) != (new.raise_above, new.clear_below)
    repeats = new.clear_below is None and new.raise_above is not None
    if old.change != new.change and not known:
        found.exact = False
        found.lower_bound |= new.change is not None and (old.change is None or new.change < old.change)
    if alarms_differ and (not known or repeats):
        found.exact = False
        found.lower_bound = True


def _of_key(events: list[dict[str, Any]], old: MetricLimits, new: MetricLimits) -> tuple[Counts, Counts, int]:
    """The events that a key had and would have had, and a lower bound of the latter."""
    had, would = Counts(), Counts()
    for row in events:
        name = row["kind"] if row["kind"] in COUNTED else "other"
        setattr(had, name, getattr(had, name) + 1)
    if old == new:
        return had, had, had.total
    replay = _Replay(new, would, alarm=_began_raised(events))
    least = _Bound(new.change)
    for value, kinds in _observations(events):
        if value is None:
            replay.left()
            least.left()
            continue
        replay.see(value, kinds)
        least.see(value, new=_NEW in kinds, pushed=_PUSH in kinds)
    changes = had.change if old.change == new.change else least.changes
    if old.change == new.change:
        would.change = had.change
    if (old.raise_above, old.clear_below) == (new.raise_above, new.clear_below):
        would.raised, would.cleared, would.threshold = had.raised, had.cleared, had.threshold
    would.other = had.other
    return had, would, changes + would.raised + would.cleared + would.threshold + would.other


def _began_raised(events: list[dict[str, Any]]) -> bool:
    """Whether the alarm of a key was raised before the first event."""
    first = next((row["kind"] for row in events if row["kind"] in ("raised", "cleared", _NEW)), None)
    return first == _CLEARED


def _observations(events: Iterable[dict[str, Any]]) -> Iterable[tuple[int | None, dict[str, int]]]:
    """The values in order, each with its events (`previous` by kind); None when the key left its table."""
    time_value: tuple[int, int] | None = None
    kinds: dict[str, int] = {}
    for row in events:
        if row["kind"] == _CLEARED and row["reason"] not in MEASURED:
            if kinds:
                yield time_value[1] if time_value else None, kinds
            time_value, kinds = None, {}
            yield None, {}
            continue
        at = (row["time_ns"], row["value"])
        if at != time_value or row["kind"] in kinds:
            if kinds and time_value:
                yield time_value[1], kinds
            time_value, kinds = at, {}
        kinds[row["kind"]] = row["previous"]
    if kinds and time_value:
        yield time_value[1], kinds


@dataclass(slots=True)
class _Replay:
    """Compares values as the detector does (`detect.flows.event_kernel.check_limits`)."""

    limits: MetricLimits
    counts: Counts
    alarm: bool
    stored: int | None = None
    """The stored value; None: not known yet."""

    def left(self) -> None:
        """The key left its table, which clears its alarm."""
        self.counts.cleared += self.alarm
        self.alarm, self.stored = False, None

    def see(self, value: int, kinds: Mapping[str, int]) -> None:
        """Take a value, and the events that it caused (`previous` by kind)."""
        limits, counts = self.limits, self.counts
        if _NEW in kinds:
            if self.alarm:
                self.left()
            self.stored = value
        else:
            if self.stored is None:
                self.stored = kinds.get("change")
            if (
                self.stored is not None
                and limits.change is not None
                and abs(value - self.stored) > limits.change
            ):
                counts.change += 1
                self.stored = value
            if _PUSH in kinds:
                self.stored = value
        above = limits.raise_above is not None and value > limits.raise_above
        if limits.clear_below is None:
            self.alarm = False
            counts.threshold += above and set(kinds) != {_PUSH}
        elif not self.alarm and above:
            counts.raised += 1
            self.alarm = True
        elif self.alarm and value < limits.clear_below:
            counts.cleared += 1
            self.alarm = False


@dataclass(slots=True)
class _Bound:
    """The lower bound of changes, see the module's docstring."""

    change: int | None
    changes: int = 0
    _from: int | None = None
    _exact: bool = False

    def left(self) -> None:
        """The key left its table."""
        self._from = None

    def see(self, value: int, *, new: bool, pushed: bool) -> None:
        """Take a value. If it is the first of a new key or was pushed, it is the stored value."""
        if self.change is None:
            return
        if self._from is not None and not new:
            if abs(value - self._from) <= (self.change if self._exact else 2 * self.change):
                if pushed:
                    self._from, self._exact = value, True
                return
            self.changes += 1
        self._from, self._exact = value, new or pushed

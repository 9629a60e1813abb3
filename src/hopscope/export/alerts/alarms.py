"""Tracks open alarms by the events of history: when they are sent, and how they end.

An alarm begins with RAISED or SILENT and ends with CLEARED or RETURNED. An alarm shorter than `for_seconds`
is not sent. An alarm whose end was lost, or whose switch has fallen silent, expires. The clock of a shard is
the time of its events, so that reading an hour of history at once gives the same alerts as an hour of
operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.log import logger
from ...base.names import Names
from ...detect.alarms import ENDS, alarm_key, alarmed_hop
from ...detect.records import NO_NODE, Kind
from ...present.events import continues, event_object, long_paths, when
from ...settings.destinations.alerts import AlertSettings
from ...wire.records import Records
from .severity import SeverityRules, rank

MAX_ALARMS = 4096
"""Maximum number of open alarms; further alarms are sent at once, without their end."""
NEVER = 2**63 - 1
Alert = dict[str, Any]
"""An event as the API's object, with `severity`, `alarm` (an id that is the same for begin and end), `since`,
and `lasted_ns`, which is None until the end.
"""


@dataclass(slots=True)
class Alarm:
    """One open alarm."""

    alert: Alert
    shard: int
    since_ns: int
    due_ns: int
    """When to send it; NEVER: it has been sent."""
    expires_ns: int
    """When it expires unless it is raised again."""
    hops: list[int]
    """Hops that have raised it and not cleared it, by `alarmed_hop`."""
    silent_ns: int = NEVER
    """When it ends because its switch is silent; NEVER: the switch is not silent."""

    @property
    def sent(self) -> bool:
        """Whether it has been sent, since it lasted long enough."""
        return self.due_ns == NEVER

    @property
    def ends_ns(self) -> int:
        """When it ends unless an event ends it before."""
        return min(self.expires_ns, self.silent_ns)


class Alarms:
    """Alarms of one destination; `suppressed` counts those that were too short to send."""

    def __init__(self, settings: AlertSettings, names: Names, member: str, queue_by_port: bool) -> None:
        self._names, self._member, self._queue_by_port = names, member, queue_by_port
        self._severities = SeverityRules(settings)
        self._kinds = set(settings.kinds) or {kind.label for kind in Kind}
        self._for_ns = round(settings.for_seconds * 1e9)
        self._expire_ns = round(settings.expire_seconds * 1e9) or NEVER
        self._silent_ns = round(settings.silent_seconds * 1e9) or NEVER
        self._open: dict[str, Alarm] = {}
        self._next: dict[int, int] = {}
        self.clocks: dict[int, int] = {}
        """Time of each shard, ns: that of its newest event, or as passed to `advance`."""
        self.at_ns = 0
        """Time of the last alert: that of its event, or when the alarm had lasted long enough."""
        self.suppressed = 0
        self.changed = False
        """Whether anything has changed since the last `dump`."""

    def __iter__(self) -> Iterator[Alarm]:
        return iter(self._open.values())

    def take(self, events: Records) -> Iterator[Alert]:
        """Alerts of EVENT records of one shard, in order."""
        paths = long_paths(events)
        for row in events[~continues(events)]:
            kind = int(row["kind"])
            yield from self.advance(int(row["shard"]), int(row["time_ns"]))
            self.at_ns = int(row["time_ns"])
            if kind in ENDS:
                yield from self._end(row)
                continue
            severity = self._severities.of(kind, int(row["metric"]), int(row["value"]))
            if rank(severity) < self._severities.least:
                continue
            if kind in ENDS.values():
                yield from self._begin(row, severity)
            else:
                alert = event_object(row, self._names, paths)
                yield from self._wanted(alert | {"severity": severity, **self._beginning(row)})

    def advance(self, shard: int, now_ns: int) -> Iterator[Alert]:
        """Alerts that are due by the clock of a shard."""
        self.clocks[shard] = max(now_ns, self.clocks.get(shard, 0))
        if now_ns < self._next.get(shard, NEVER):
            return
        soonest = NEVER
        for key, alarm in list(self._open.items()):
            if alarm.shard != shard:
                continue
            if alarm.due_ns <= now_ns and alarm.due_ns <= alarm.ends_ns:
                self.at_ns = alarm.due_ns
                alarm.due_ns, self.changed = NEVER, True
                yield from self._wanted(alarm.alert)
            if alarm.ends_ns <= now_ns:
                yield from self._expired(self._removed(key))
            else:
                soonest = min(soonest, alarm.due_ns, alarm.ends_ns)
        self._next[shard] = soonest

    def set_back(self, now_ns: int) -> None:
        """If a shard is ahead of the machine's clock, the clock was set back: alarms with a later beginning
        are moved to now, and keep their durations.
        """
        if max(self.clocks.values(), default=0) <= now_ns:
            return
        self.clocks = {shard: min(at_ns, now_ns) for shard, at_ns in self.clocks.items()}
        for alarm in self._open.values():
            ahead_ns = alarm.since_ns - now_ns
            if ahead_ns > 0:
                for name in ("since_ns", "due_ns", "expires_ns", "silent_ns"):
                    if (at_ns := getattr(alarm, name)) != NEVER:
                        setattr(alarm, name, at_ns - ahead_ns)
                self._wait(alarm)
                self.changed = True

    def set_forward(self, step_ns: int) -> None:
        """The machine's clock was set forward by `step_ns`: open alarms become due and end later by that."""
        for alarm in self._open.values():
            for name in ("due_ns", "expires_ns", "silent_ns"):
                if (at_ns := getattr(alarm, name)) != NEVER:
                    setattr(alarm, name, at_ns + step_ns)
            self.changed = True

    def dump(self) -> dict[str, Any]:
        """The open alarms, for JSON."""
        self.changed = False
        return {key: fields_of(alarm) for key, alarm in self._open.items()}

    def load(self, dumped: dict[str, Any]) -> None:
        """Open the alarms of a dump."""
        self._open = {key: Alarm(**values) for key, values in dumped.items()}
        for alarm in self._open.values():
            self.clocks[alarm.shard] = max(alarm.since_ns, self.clocks.get(alarm.shard, 0))
            self._wait(alarm)

    # ---------------------------------------------------------------------------------------- one alarm

    def _begin(self, row: np.void, severity: str) -> Iterator[Alert]:
        time_ns, key = int(row["time_ns"]), alarm_key(row, self._queue_by_port)
        if int(row["kind"]) == Kind.SILENT and int(row["node_id"]) != NO_NODE:
            self._silence(int(row["shard"]), int(row["node_id"]), time_ns)
        expires = NEVER if self._expire_ns == NEVER else time_ns + self._expire_ns
        known = self._open.get(key)
        if known is not None:  # its end was lost, for example by a restart of the machine
            known.expires_ns = expires
            if alarmed_hop(row) not in known.hops:
                known.hops.append(alarmed_hop(row))
            known.silent_ns = NEVER  # its switch reports, even if the event of its return was lost
            self.changed = True
            return
        alert = event_object(row, self._names) | {"severity": severity, **self._beginning(row)}
        if len(self._open) >= MAX_ALARMS:
            logger("export").warning("too many open alarms: their ends are not sent", limit=MAX_ALARMS)
            yield from self._wanted(alert)
            return
        due = time_ns + self._for_ns if self._for_ns else NEVER
        self._open[key] = Alarm(alert, int(row["shard"]), time_ns, due, expires, [alarmed_hop(row)])
        self._wait(self._open[key])
        self.changed = True
        if not self._for_ns:
            yield from self._wanted(alert)

    def _end(self, row: np.void) -> Iterator[Alert]:
        if int(row["kind"]) == Kind.RETURNED and int(row["node_id"]) != NO_NODE:
            self._silence(int(row["shard"]), int(row["node_id"]), None)
        key = alarm_key(row, self._queue_by_port)
        if key not in self._open:
            return
        hops = self._open[key].hops
        del hops[hops.index(alarmed_hop(row)) if alarmed_hop(row) in hops else -1]
        if hops:
            self.changed = True
            return
        alarm = self._removed(key)
        if alarm.sent:
            ended = event_object(row, self._names)
            yield from self._wanted(ended | _ending(alarm, int(row["time_ns"])))
        else:
            self.suppressed += 1

    def _expired(self, alarm: Alarm) -> Iterator[Alert]:
        """The end of an alarm that no event ended."""
        kind = Kind.RETURNED if alarm.alert["kind"] == Kind.SILENT.label else Kind.CLEARED
        if not alarm.sent:
            self.suppressed += 1
            return
        ended = alarm.alert | {
            "id": f"{alarm.alert['id']}-expired",
            "kind": kind.label,
            "time": when(alarm.ends_ns),
            "switch_ns": None,
            "reason": "expired",
        }
        self.at_ns = alarm.ends_ns
        yield from self._wanted(ended | _ending(alarm, alarm.ends_ns))

    def _removed(self, key: str) -> Alarm:
        self.changed = True
        return self._open.pop(key)

    def _silence(self, shard: int, node_id: int, since_ns: int | None) -> None:
        """A switch has fallen silent: its alarms end sooner. None: it is back, which undoes that."""
        if self._silent_ns == NEVER:
            return
        for alarm in self._open.values():
            node = alarm.alert["node"]
            if alarm.shard != shard or node is None or node["id"] != node_id:
                continue
            if since_ns is None:
                alarm.silent_ns = NEVER
            elif alarm.silent_ns == NEVER:
                alarm.silent_ns = since_ns + self._silent_ns
            self.changed = True
            self._wait(alarm)

    def _wait(self, alarm: Alarm) -> None:
        soonest = self._next.get(alarm.shard, NEVER)
        self._next[alarm.shard] = min(soonest, alarm.due_ns, alarm.ends_ns)

    def _wanted(self, alert: Alert) -> Iterator[Alert]:
        if alert["kind"] in self._kinds:
            yield alert

    def _beginning(self, row: np.void) -> Alert:
        """The alert for the begin of an alarm. Its id includes the time, since numbers restart in a new data
        folder.
        """
        name = f"{self._member}-{int(row['shard'])}-{int(row['sequence'])}-{int(row['time_ns'])}"
        return {"alarm": name, "since": when(row["time_ns"]), "lasted_ns": None}


def fields_of(one: Any) -> dict[str, Any]:
    """The fields of a dataclass with slots, not copied: 1 us, where `asdict` takes 130 us for an alarm."""
    return {name: getattr(one, name) for name in one.__slots__}


def _ending(alarm: Alarm, time_ns: int) -> Alert:
    """Fields that the end of an alarm takes from its beginning."""
    same = {name: alarm.alert[name] for name in ("severity", "alarm", "since")}
    return same | {"lasted_ns": max(0, time_ns - alarm.since_ns)}

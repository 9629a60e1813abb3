"""Base of alert destinations: turns blocks of events into messages, with state that survives a kill.

`send` takes a block into the state, and returns when the state is in its file. `tick` delivers messages that
are due; while that fails, no further blocks are read: they wait in history.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from ...base.clock import ClockSteps
from ...base.errors import described
from ...base.log import logger
from ...detect.alarms import ENDS
from ...detect.records import Kind
from ...operators.silences import SilenceReader
from ...settings.destinations.alerts import AlertSettings
from ..block import EventBlock
from ..destination import Context, DeliveryError, Destination
from .alarms import Alarm, Alarms, Alert
from .outbox import Message, Outbox
from .severity import SeverityRules
from .texts import Texts

LAG_NS = 1_000_000_000
"""How much later one shard's events may arrive than those of another shard with the same time."""
MOST = 20
"""How many messages are delivered before events are read again, unless full messages are left."""
VERSION = 1
_BEGINNING_OF = {end.label: Kind(begin).label for end, begin in ENDS.items()}
"""For each kind of event that ends an alarm, the kind that began it."""


class AlertDestination(Destination):
    """Each kind of destination is a subclass that implements `deliver`."""

    Settings = AlertSettings
    buffers = True

    def __init__(self, settings: Any, context: Context) -> None:
        super().__init__(settings, context)
        self.alarms = Alarms(settings, context.names, context.member, context.queue_by_port)
        self.outbox = Outbox(settings.grouping)
        self.texts = Texts(settings, context.member)
        self._silences = None if context.data is None else SilenceReader(context.data)
        self._silenced: set[str] = set()
        """`alarm` ids whose beginning a silence holds back, so that their end is held back, too."""
        self._taken: dict[str, str] = {}
        self._counted = {"suppressed_total": 0, "unlisted_total": 0}
        self._clock = ClockSteps()
        self._unsaved = False
        """Whether the last `_save` failed to write the state."""
        self._load()

    @classmethod
    def check(cls, settings: Any) -> None:
        """Raises HopscopeError for unknown kinds, metrics and rules."""
        super().check(settings)
        SeverityRules(settings)

    @abstractmethod
    def deliver(self, message: Message) -> None:
        """Deliver one message. Raises DeliveryError if it was not accepted."""

    def send(self, block: EventBlock) -> None:
        """Take a block into the state; a repeated block changes nothing."""
        self._follow_clock()
        if self._taken.get(str(block.shard)) != block.id and (
            self._add(self.alarms.take(block.records)) or self.alarms.changed
        ):
            self._taken[str(block.shard)] = block.id
            self._unsaved = True
        if self._unsaved:
            self._save()

    def tick(self, idle: Collection[int], ending: bool) -> int:
        """Send alarms that have lasted long enough, end expired ones, and deliver messages that are due."""
        self._follow_clock()
        now_ns = time.time_ns()
        self.alarms.set_back(now_ns)
        added = sum(self._add(self.alarms.advance(shard, now_ns - LAG_NS)) for shard in idle)
        added += self._end_silences(now_ns)
        if added or self.alarms.changed or self._unsaved:
            self._save()
        delivered = 0
        try:
            while (delivered < MOST or self.outbox.is_full) and (message := self._next(ending)):
                self._try(message)
                delivered += 1
                self.context.count("events_total", message.count)
                self._done()
        except DeliveryError as error:
            error.delivered = delivered
            raise
        return delivered

    def _follow_clock(self) -> None:
        """If the machine's clock was set forward, keep alarms from ageing by that."""
        if (step_ns := self._clock.look()) > 0:
            self.alarms.set_forward(step_ns)

    def _try(self, message: Message) -> None:
        """Deliver a message, or drop it if it will never be accepted or an unexpected exception occurs."""
        try:
            self.deliver(message)
        except DeliveryError as error:
            failure = error
        except Exception as error:
            failure = DeliveryError(described(error), again=False)
            failure.__cause__ = error
        else:
            return
        if not failure.again:
            self.context.count("failed_total", message.count)
            self._done()
        raise failure

    def _add(self, alerts: Iterable[Alert]) -> int:
        now_ns, count = time.time_ns(), 0
        for alert in alerts:
            if self._is_silent(alert):
                self.context.count("silenced_total", 1)
                continue
            self.outbox.add(alert, now_ns)
            count += 1
        found = {"suppressed_total": self.alarms.suppressed, "unlisted_total": self.outbox.unlisted}
        for name, total in found.items():
            self.context.count(name, total - self._counted[name])
        self._counted = found
        return count

    def _is_silent(self, alert: Alert) -> bool:
        """Whether an alert is held back. If the begin of an alarm was sent, so is its end; otherwise an
        incident that began before a silence would stay open for ever.
        """
        alarm, kind = alert["alarm"], alert["kind"]
        if alert["lasted_ns"] is not None and self._begins(kind):
            held = alarm in self._silenced
            self._silenced.discard(alarm)
            return held
        if not self._matches(alert, self.alarms.at_ns):
            return False
        if kind in _BEGINNING_OF.values():
            self._silenced.add(alarm)
        return True

    def _begins(self, end: str) -> bool:
        """Whether the destination also wants the beginnings of alarms that this kind of event ends."""
        return not self.settings.kinds or _BEGINNING_OF[end] in self.settings.kinds

    def _matches(self, alert: Alert, at_ns: int) -> bool:
        """Whether a silence applies to an alert, now or at `at_ns`."""
        return self._silences is not None and self._silences.match(alert, at_ns) is not None

    def is_held_back(self, alarm: Alarm) -> bool:
        """Whether a silence holds back the beginning of an open alarm."""
        return alarm.alert["alarm"] in self._silenced

    def _end_silences(self, now_ns: int) -> int:
        """Send open alarms that are no longer silenced: a silence only defers alarms that outlast it, by the
        clock of their shard.
        """
        if not self._silenced:
            return 0
        held = [alarm for alarm in self.alarms if self.is_held_back(alarm)]
        still = {
            alarm.alert["alarm"]
            for alarm in held
            if self._matches(alarm.alert, self.alarms.clocks.get(alarm.shard, alarm.since_ns))
        }
        over = [alarm.alert for alarm in held if alarm.alert["alarm"] not in still]
        for alert in over:
            self.outbox.add(alert, now_ns)
        self._silenced = still
        return len(over)

    def _next(self, ending: bool) -> Message | None:
        tried = self.outbox.under_way is not None
        message = self.outbox.next(time.time_ns(), ending)
        if message is not None and not tried:
            self._save()
        return message

    def _done(self) -> None:
        self.outbox.done()
        self._save()

    # ---------------------------------------------------------------------------------------- the state

    def _load(self) -> None:
        path = self.context.state
        if path is None or not path.exists():
            return
        try:
            state = json.loads(path.read_text(encoding="utf-8"))
            if state["version"] != VERSION:
                raise ValueError(f"version {state['version']}")
            self.alarms.load(state["alarms"])
            self.outbox.load(state["outbox"])
            self._taken = state["taken"]
            self._silenced = set(state.get("silenced", ()))
        except (OSError, ValueError, KeyError, TypeError) as error:
            reason = described(error)
            logger("export").warning("alerts begin without a state", file=str(path), reason=reason)

    def _save(self) -> None:
        """Write the state. Raises DeliveryError if that fails, so that the block is sent again."""
        path = self.context.state
        if path is None:
            return
        state = {
            "version": VERSION,
            "taken": self._taken,
            "silenced": sorted(self._silenced),
            "alarms": self.alarms.dump(),
            "outbox": self.outbox.dump(),
        }
        self._unsaved = True
        try:
            _replace(path, json.dumps(state, separators=(",", ":")))
        except OSError as error:
            raise DeliveryError(f"{path}: {error.strerror}") from error
        self._unsaved = False


def _replace(path: Path, text: str) -> None:
    """Write a file atomically; only its owner can read it."""
    fresh = path.with_name(f"{path.name}.new")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)

"""Flows and sources that moved here from another member: events of kinds `moved` and `source_moved`, and
corrected losses.

Once a second, a member tells all others which flows are new to it, and what it received of sequence spaces
that may have moved. A member that has such a flow answers with the time since its last report, if that is
below `detect.idle_seconds`. No state is kept about flows: they are looked up in detection's tables. All times
in messages are durations, so clocks need not agree.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...detect.moved import CORRECTION, CorrectionWriter, open_corrections
from ...detect.records import EVENT, EVENT_VERSION, NO_NODE, NO_PORT, SOURCE, STATE_VERSION, Kind, Metric
from ...memory.private_file import hash_secret
from ...memory.region import Region, RegionError
from ...memory.rings import Rings
from ...memory.snapshot import snapshot_rows
from ...wire.records import Records
from ..names import token
from ..process import Context, Part
from .flows import FLOW_KEY, FLOW_KEY_4, FLOW_SEEN, NAMES, FlowTables, packed, unpacked
from .messages import Inbox, MovedMessage, decode
from .sources import SPACES, SUMMARY, MovedSource, Spaces

FLOWS = 20_000
"""Maximum number of new flows sent in a turn: 320 kB, or 800 kB with IPv6."""
EVENTS = 10_000
"""Maximum number of events of moved flows in a turn."""
SCAN = 65_536
"""Maximum number of events of a ring that are scanned in a turn."""


class EventSink(Protocol):
    """A destination of events: an EventWriter."""

    lost: int
    """Events that history will not have."""

    @property
    def waiting(self) -> int:
        """Events that wait for the disk."""

    def write(self, events: Records) -> None:
        """Number and keep EVENT records."""

    def tick(self) -> None:
        """Call it regularly."""

    def close(self) -> None:
        """Write what waits."""


def member_hash(member: str) -> int:
    """`previous` of an event: 64 bits of the BLAKE2b hash of a member's name, little-endian."""
    return int.from_bytes(hashlib.blake2b(member.encode(), digest_size=8).digest(), "little")


class Moved(Part):
    """`moved`: asks, answers, writes events and corrections."""

    name = "moved"
    seconds = 1.0

    def __init__(self, context: Context, events: Callable[[], EventSink]) -> None:
        """`events` opens the destination of events."""
        super().__init__(context)
        settings = context.settings
        self._open = events
        self._events: EventSink | None = None
        self._idle_ns = round(settings.detect.idle_seconds * 1e9)
        self._rings = Rings(context.regions, "events", EVENT_VERSION, start="new")
        self._flows = FlowTables(context.regions, hash_secret(context.data))
        self._spaces = Spaces(self._idle_ns)
        self._sources: Region | None = None
        self._corrections = CorrectionWriter(open_corrections(context.regions))
        self._uncorrected: Records = np.zeros(0, CORRECTION)
        self._turns = 0
        self._inbox = Inbox()

    def start(self) -> None:
        """Subscribe to messages of other members."""
        self._events = self._open()
        names, connection = self.context.connection.names, self.context.connection
        connection.answer(names.subject("moved"), self._arrived)
        connection.answer(names.subject("moved", token(self.context.name)), self._arrived)

    def turn(self) -> None:
        """Send what is new here, and process the messages of others."""
        now_ns = time.time_ns()
        self._flows.attach()
        self._spaces.look(self._source_rows(), now_ns)  # before the gaps, see `sources`
        new = self._read_events(now_ns)
        for body in self._inbox.take():
            self._take(body, now_ns)
        self._correct(now_ns)
        self._tell(new, now_ns)
        assert self._events is not None
        self._events.tick()
        self._turns += 1
        self.context.shown[self.name] = {"moved": {"turns": self._turns, "spaces": len(self._spaces)}}
        self.context.counts["moved_waiting"] = int(self._events.waiting)
        self.context.counts["moved_lost"] = self._events.lost

    def stop(self) -> None:
        """Write what waits for the disk."""
        if self._events is not None:
            self._events.close()
            self._events = None

    async def _arrived(self, message: Any) -> None:
        if not self._inbox.put(message.data):
            self.context.counts["moved_rejected"] += 1

    # ------------------------------------------------------------------------------------------- turns

    def _source_rows(self) -> Records:
        """SOURCE of all sequence spaces."""
        if self._sources is None or not self._sources.is_current():
            path = self.context.regions / "worker-0.sources"
            try:
                self._sources = Region.attach(path, "sources", STATE_VERSION)
            except RegionError:  # not made yet
                self._sources = None
                return np.zeros(0, SOURCE)
        rows = self._sources["sources"]
        return snapshot_rows(rows, rows["version"])

    def _read_events(self, now_ns: int) -> Records:
        """Scan the detected events for gaps; returns the new flows, FLOW_KEY."""
        blocks, lost = self._rings.read(SCAN)
        self.context.counts["moved_unsent"] += lost
        found = [np.zeros(0, FLOW_KEY)]
        for events in blocks:
            for row in events[events["kind"] == Kind.GAP]:
                source = int(row["src_hi"]), int(row["src_lo"])
                node = int(row["node_id"])
                self._spaces.gap(
                    source, node, int(row["ident"]), int(row["previous"]), int(row["value"]), now_ns
                )
            new = events[
                (events["kind"] == Kind.NEW_KEY)
                & (events["metric"] == Metric.FLOW_PATH)
                & (events["hop"] == 0)
                & (events["flow_id"] != 0)
            ]
            flows = np.zeros(len(new), FLOW_KEY)
            for name in NAMES:
                flows[name] = new[name]
            found.append(flows)
        return np.unique(np.concatenate(found))

    def _take(self, body: bytes, now_ns: int) -> None:
        """Take a message of another member."""
        try:
            news = decode(body)
        except ValueError:
            self.context.counts["moved_rejected"] += 1
            return
        if news.member == self.context.name:
            return
        for source in self._spaces.take(news.member, news.summaries, now_ns):
            self._write_source(source, now_ns)
        asked = unpacked(news.four, news.other)[:FLOWS]  # an answer is one message
        if len(asked):
            ages = self._flows.ages(asked, now_ns)
            there = (ages >= 0) & (ages <= self._idle_ns)
            seen = np.zeros(np.count_nonzero(there), FLOW_SEEN)
            for name in NAMES:
                seen[name] = asked[name][there]
            seen["age_ns"] = ages[there]
            if len(seen):
                self._publish(MovedMessage(self.context.name, *_nothing(seen=seen)), news.member)
        if len(news.seen):
            self._write_flows(news.member, news.seen, now_ns)

    def _tell(self, new: Records, now_ns: int) -> None:
        """Ask all others about new flows, and tell them about spaces."""
        self.context.counts["moved_unsent"] += max(0, len(new) - FLOWS)
        four, other = packed(new[:FLOWS])
        summaries = self._spaces.summaries(now_ns)
        self.context.counts["moved_unsent"] += max(0, len(summaries) - SPACES)
        if len(four) or len(other):
            self._publish(MovedMessage(self.context.name, *_nothing(four=four, other=other)))
        if len(summaries):
            self._publish(MovedMessage(self.context.name, *_nothing(summaries=summaries[:SPACES])))

    def _publish(self, news: MovedMessage, to: str = "") -> None:
        """Send a message to a member, or to all."""
        body, connection = news.encode(), self.context.connection
        subject = connection.names.subject("moved", *([token(to)] if to else []))

        async def publish() -> None:
            await connection.client.publish(subject, body)

        connection.run(publish(), 5.0)
        self.context.counts["moved_bytes"] += len(body)

    def _correct(self, now_ns: int) -> None:
        """Tell the detecting process which losses have to be corrected."""
        found = self._spaces.corrections(now_ns)
        self.context.counts["moved_reports"] += int(found["moved"].sum())
        waiting = np.concatenate([self._uncorrected, found])
        self._uncorrected = waiting[self._corrections.put(waiting) :]

    def _write_flows(self, member: str, seen: Records, now_ns: int) -> None:
        seen = seen[self._flows.ages(seen, now_ns) >= 0]
        self.context.counts["moved_unwritten"] += max(0, len(seen) - EVENTS)
        seen = seen[:EVENTS]
        events = _events(Kind.MOVED, member, len(seen), now_ns)
        for name in NAMES:
            events[name] = seen[name]
        events["flow_id"], events["value"] = self._flows.ids.of_records(seen), np.maximum(seen["age_ns"], 0)
        self.context.counts["moved_flows"] += len(events)
        self._write(events)

    def _write_source(self, source: MovedSource, now_ns: int) -> None:
        event = _events(Kind.SOURCE_MOVED, source.member, 1, now_ns)
        event["src_hi"], event["src_lo"], event["node_id"], event["ident"], _ = source.key
        event["value"] = source.age_ns
        self.context.counts["moved_sources"] += 1
        self._write(event)

    def _write(self, events: Records) -> None:
        assert self._events is not None
        if len(events):
            self._events.write(events)


def _events(kind: Kind, member: str, count: int, now_ns: int) -> Records:
    events = np.zeros(count, EVENT)
    events["kind"], events["time_ns"], events["previous"] = kind, now_ns, member_hash(member)
    events["node_id"], events["port"] = NO_NODE, NO_PORT
    return events


def _nothing(**but: Records) -> tuple[Records, ...]:
    """The arrays of MovedMessage, empty except for the given ones."""
    empty = {"four": FLOW_KEY_4, "other": FLOW_KEY, "summaries": SUMMARY, "seen": FLOW_SEEN}
    return tuple(but.get(name, np.zeros(0, dtype)) for name, dtype in empty.items())

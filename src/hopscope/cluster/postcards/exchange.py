"""Sends postcards to the members that own their flows, and receives this member's.

Workers put postcards of other members' flows into queues (`detect.postcards.share`). Every few milliseconds,
this part takes them from there, and publishes them in blocks to the owners, on the subject
`hopscope.CLUSTER.postcards.MEMBER`. Received postcards go into a queue that the detector merges like that of
one more worker.

Nothing waits for NATS. While it is unreachable, or no other member takes part, workers keep their postcards.
NATS does not store blocks: a path waits `postcards.window_ms` for its postcards, so a postcard that arrives
seconds later is useless. Blocks are numbered, and the receiver counts missing ones.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...detect.postcards.share import attach_slots, given_path, taken_path
from ...detect.report_queue import QueueReader, QueueWriter, attach_queue
from ...wire.dialect import Clock
from ...wire.records import HOP, REPORT, Records
from ..connection import ClusterError, Connection
from ..names import token
from ..process import Context, Part
from .blocks import Arrivals, BadBlockError, BlockWriter, read_block
from .slots import MAX_MEMBERS, Slots, SlotTable

Words = npt.NDArray[np.uint64]
BUSY_SECONDS, IDLE_SECONDS = 0.003, 0.02
"""Time between two turns: after a turn with postcards, and otherwise."""
WAIT_NS = 100_000_000
"""How long the detector delays reports to wait for postcards from other members."""
TURN_POSTCARDS = 65_536
"""Maximum number of postcards taken from a worker's queue in a turn."""
OLDEST_NS = 500_000_000
"""Older received postcards are treated as if they had this age, half of `join_kernel.CLOCK_BACK_NS`: if one
is older than that when the detector reads it, a clock seems to be set back, and all paths are emitted.
"""
RETRY_SECONDS = 1.0
PUBLISH_SECONDS = 1.0
"""Maximum time for publishing the postcards of a turn."""


class Exchange(Part):
    """`exchange`: sends and receives postcards."""

    name = "exchange"
    needs_nats = False
    """It uses a separate connection, so that heartbeats do not wait for postcards."""
    seconds = IDLE_SECONDS

    def __init__(self, context: Context, slots: Slots) -> None:
        super().__init__(context)
        self._slots = slots
        self._table = SlotTable()
        self._link = Connection(context.settings.cluster, f"{context.name} postcards", keep=True)
        self._open_at = 0.0
        self._session = secrets.randbits(63)
        self._writers: dict[str, BlockWriter] = {}
        self._arrivals: dict[int, Arrivals] = defaultdict(Arrivals)

    def start(self) -> None:
        """Map the queues. Raises RegionError."""
        regions, workers = self.context.regions, self.context.settings.workers
        self._region = attach_slots(regions, writable=True)
        self._given = [QueueReader(attach_queue(given_path(regions, worker))) for worker in range(workers)]
        self._taken = QueueWriter(attach_queue(taken_path(regions)))
        self._taken.close()

    def turn(self) -> None:
        """Send postcards from the workers, and tell the detector up to which time postcards are complete."""
        self._connect()
        self._follow()
        others = len(self._table.members) > 1 and self.context.name in self._table.members
        if not others or not self._link.connected:
            self._region["mine"][:] = 1
            self._taken.close()
        else:
            self._taken.advance(time.time_ns() - WAIT_NS)
        self._region["alive"][0] = time.monotonic_ns()
        self.seconds = BUSY_SECONDS if self._send() else IDLE_SECONDS

    def stop(self) -> None:
        """Have workers keep their postcards from now on."""
        self._region["mine"][:] = 1
        self._send()
        self._taken.close()
        self._link.close()

    # ------------------------------------------------------------------------------------------- turns

    def _connect(self) -> None:
        if not self._link.closed or time.monotonic() < self._open_at:
            return
        self._open_at = time.monotonic() + RETRY_SECONDS
        with suppress(HopscopeError):  # `members` reports the problem
            self._link.open()
            subject = self._link.names.subject("postcards", token(self.context.name))
            self._link.answer(subject, self._arrived)

    def _follow(self) -> None:
        """Use the table on which the members agree."""
        table = self._slots.table
        mine = self._region["mine"]
        wanted = table.mine(self.context.name)
        if table is not self._table or not np.array_equal(mine, wanted):
            self._table = table
            mine[:] = wanted

    def _send(self) -> int:
        """Publish the postcards in the queues; returns how many."""
        sent = 0
        for clock, reports, hops in self._waiting():
            sent += len(reports)
            self._publish(self._addressed(clock, reports, hops))
        return sent

    def _waiting(self) -> Iterator[tuple[Clock, Records, Records]]:
        """Postcards from the workers' queues, by clock of the dialect; hop i belongs to report i."""
        found: dict[Clock, list[tuple[Words, Words]]] = defaultdict(list)
        for queue in self._given:
            taken = 0
            while len(queue) and taken < TURN_POSTCARDS:
                block = queue.block()
                batch = queue.batch(block, 0, block.reports)
                found[block.clock].append((_words(batch.reports).copy(), _words(batch.hops).copy()))
                queue.free(block, block.reports)
                taken += block.reports
        for clock, parts in found.items():
            reports, hops = map(np.concatenate, zip(*parts, strict=True))
            yield clock, reports.view(REPORT).reshape(-1), hops.view(HOP).reshape(-1)

    def _addressed(self, clock: Clock, reports: Records, hops: Records) -> Iterator[tuple[str, bytes, int]]:
        """Yield (member, message, number of postcards), by owner and time."""
        table = self._table
        if len(table.members) < 2:
            self.context.counts["postcards_unsent"] += len(reports)
            return
        owners = table.owners[reports["packet"] % len(table.owners)]
        order = np.lexsort((reports["time_ns"], owners))
        reports = _words(reports)[order].view(REPORT).reshape(-1)
        hops = _words(hops)[order].view(HOP).reshape(-1)
        cuts = np.searchsorted(owners[order], np.arange(len(table.members) + 1))
        for number, member in enumerate(table.members):
            part = slice(cuts[number], cuts[number + 1])
            if part.start == part.stop:
                continue
            writer = self._writers.setdefault(member, BlockWriter(self._session))
            for body, count in writer.blocks(reports[part], hops[part], clock, table.generation):
                yield member, body, count

    def _publish(self, messages: Iterator[tuple[str, bytes, int]]) -> None:
        """Send messages; each is made after the previous one was sent, since it has the time of sending."""
        counts, names = self.context.counts, self._link.names

        async def publish() -> None:
            for member, body, count in messages:
                try:
                    await self._link.client.publish(names.subject("postcards", token(member)), body)
                except Exception as error:  # NATS is unreachable: nothing is sent later
                    counts["postcards_unsent"] += count
                    raise ClusterError(str(error)) from error
                counts["postcards_sent"] += count
                counts["postcard_bytes"] += len(body)

        with suppress(ClusterError):  # counted; `members` reports the problem
            self._link.run(publish(), PUBLISH_SECONDS)

    # ------------------------------------------------------------------------------------- in the loop

    async def _arrived(self, message: Any) -> None:
        """Receive a block from another member."""
        counts = self.context.counts
        now_ns = time.time_ns()
        try:
            block = read_block(message.data)
        except BadBlockError:
            counts["postcard_blocks_rejected"] += 1
            return
        if len(self._arrivals) > MAX_MEMBERS:
            self._arrivals.clear()  # they may be of processes that ended long ago
        arrivals = self._arrivals[int(block.header["session"])]
        lost = arrivals.missing(block.header)
        if lost is None:
            counts["postcard_blocks_rejected"] += 1
            return
        counts["postcard_blocks_missing"] += lost[0]
        counts["postcards_missing"] += lost[1]
        times = block.batch.reports["time_ns"]
        times += arrivals.ahead_ns(int(block.header["sent_ns"]), now_ns)
        np.clip(times, now_ns - OLDEST_NS, now_ns, out=times)  # the sender may claim anything
        np.maximum.accumulate(times, out=times)
        counts["postcards_received"] += len(block.batch)
        counts["postcards_late"] += int(np.count_nonzero(times < now_ns - WAIT_NS))
        counts["postcards_unqueued"] += self._taken.put(block.batch, block.clock, time.monotonic_ns())


def _words(records: Records) -> Words:
    """Records as words, uint64 [records, words], since NumPy copies records field by field."""
    return records.view(np.uint64).reshape(len(records), -1)

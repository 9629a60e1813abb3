"""Messages of IPFIX and packets of NetFlow 9 to report batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ..decode.decoder import MARGIN, new_block, with_room
from ..node_ids import NodeIds
from ..reasons import Place, Reason
from ..records import FRAME, HOP, REPORT, Carried, FrameBatch, Kind, Records, ReportBatch
from ..versions import IPFIX, NETFLOW_9
from . import layout
from .domains import Domain, Domains, Session, WaitingSet
from .layout import Column
from .records import Count, State, Status
from .templates import TemplateError, pull_records, pull_templates, sampling

_HEADERS = {layout.NETFLOW_9: layout.NETFLOW_9_PACKET.size, layout.IPFIX: layout.IPFIX_MESSAGE.size}
_TEMPLATE_SETS = {
    layout.NETFLOW_9: (layout.TEMPLATES_9, layout.OPTIONS_9),
    layout.IPFIX: (layout.TEMPLATES, layout.OPTIONS),
}


class IpfixDecoder:
    """Decodes messages of IPFIX and NetFlow 9; its blocks are reused, so a result is valid until the next
    call.

    It remembers at most 1,024 observation domains and 2,048 templates; `domains` says when these are
    forgotten. The first decoder compiles its kernel, or loads it from the cache.

    `ended`: messages come by TCP, and the listener notes here which sessions have ended before the next
    batch.
    """

    def __init__(
        self, nodes: NodeIds | None = None, frames: int = 1024, ended: list[Session] | None = None
    ) -> None:
        from ...base.kernels.jit import readonly
        from . import ipfix_kernel

        self._kernel, self._readonly = ipfix_kernel.decode_messages, readonly
        self.domains = Domains(nodes or {}, sessions=ended is not None)
        self._ended = ended
        self._tables = (
            self.domains.rows,
            self.domains.slots,
            self.domains.templates,
            self.domains.fields,
            np.zeros(len(Column), np.uint64),
        )
        self._state = np.zeros(len(State), np.uint64)
        self._counts = np.zeros(len(Count), np.uint64)
        self._reports = new_block(16 * frames + MARGIN, REPORT)
        self._hops = new_block(16 * frames + MARGIN, HOP)
        self._released: list[tuple[Domain, WaitingSet, int, int]] = []
        self._early = self._options = 0

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """A report for each flow record; a rejected report for each damaged message, set or template. A
        message without flow records becomes a report without contents.
        """
        self._counts[Count.REPORTS] = self._counts[Count.HOPS] = 0
        if len(batch):
            now_ns = int(batch.frames["time_ns"][-1])
            self.domains.expire(now_ns)
            while self._ended:
                self.domains.end(self._ended.pop())
            rows, first = np.full(len(batch), -1, np.int64), 0
            for end in self._parts(batch, rows):
                self._run(batch.arena, batch.frames[:end], rows[:end], first)
                first = end
                while self._released:
                    released, self._released = self._released, []
                    self._run_again(released)
        return ReportBatch(
            self._reports[: int(self._counts[Count.REPORTS])],
            self._hops[: int(self._counts[Count.HOPS])],
            batch.first_packet,
        )

    def counts(self) -> dict[str, int]:
        """Counts so far, and numbers of known domains and templates, by name."""
        return {
            "ipfix_flow_records": int(self._counts[Count.RECORDS]),
            "ipfix_options_records": self._options,
            "ipfix_other_records": int(self._counts[Count.OTHER_RECORDS]),
            "ipfix_early_sets": self._early,
            "ipfix_expired_sets": self.domains.expired,
            "ipfix_rejected_templates": self.domains.rejected_templates,
            "ipfix_domains": len(self.domains),
            "ipfix_templates": self.domains.template_count,
            "ipfix_waiting_sets": self.domains.waiting_count,
        }

    def _parts(self, batch: FrameBatch, rows: npt.NDArray[np.int64]) -> Iterator[int]:
        """Write the row of each message's domain into `rows`, int64 [frames]; -1 stays without a complete
        header of a known version. Yields the end of each part of the batch: it is decoded before the domains
        of the next part take the rows of its domains.
        """
        frames = batch.frames
        arena = batch.arena
        names = ("offset", "length", "source_hi", "source_lo", "source_port", "time_ns")
        columns = (frames[name].tolist() for name in names)
        self.domains.begin_part()
        for number, (at, length, hi, lo, port, time_ns) in enumerate(zip(*columns, strict=True)):
            version = int(arena[at]) << 8 | int(arena[at + 1]) if length >= 2 else 0
            size = _HEADERS.get(version)
            if size is not None and length >= size:
                domain = int.from_bytes(arena[at + size - 4 : at + size].tobytes(), "big")
                key = hi, lo, 0 if self._ended is None else port, version, domain
                while (row := self.domains.find(key, time_ns)) is None:
                    yield number
                    self.domains.begin_part()
                rows[number] = row
        yield len(frames)

    def _run(
        self,
        arena: npt.NDArray[np.uint8],
        frames: Records,
        rows: npt.NDArray[np.int64],
        first: int = 0,
        again: bool = False,
    ) -> None:
        """Decode messages from `first` on: the kernel reads data sets, all other sets are read here."""
        state = self._state
        state[:] = 0
        state[State.FRAME], state[State.AGAIN] = first, again
        fixed = (self._readonly(arena), self._readonly(frames), self._readonly(rows))
        while True:
            status = self._kernel(*fixed, *self._tables, self._reports, self._hops, state, self._counts)
            if status == Status.DONE:
                return
            frame = frames[int(state[State.FRAME])]
            if status == Status.FULL:
                self._make_room(int(frame["length"]))
            else:
                self._take_set(arena, frame, self.domains.of_row(int(rows[int(state[State.FRAME])])))

    def _make_room(self, room: int) -> None:
        self._reports = with_room(self._reports, int(self._counts[Count.REPORTS]), room + MARGIN)
        self._hops = with_room(self._hops, int(self._counts[Count.HOPS]), room + MARGIN)

    def _take_set(self, arena: npt.NDArray[np.uint8], frame: np.void, domain: Domain) -> None:
        """Read a set of templates or options, or of data whose template is unknown."""
        origin = int(frame["offset"])
        set_id, at, end = (int(self._state[slot]) for slot in (State.SET_ID, State.SET_AT, State.SET_END))
        version = int(arena[origin]) << 8 | int(arena[origin + 1])
        body = arena[at:end].tobytes()
        try:
            if set_id in _TEMPLATE_SETS[version]:
                self._take_templates(body, set_id, domain, int(frame["time_ns"]))
            elif set_id < layout.FIRST_DATA:
                self._reject(frame, domain, Reason.UNKNOWN_TYPE, at - layout.SET.size)
            elif (held := domain.templates.get(set_id)) is not None and held.template.options:
                self._take_options(body, domain, set_id)
            else:
                self._state[State.UNKNOWN] = 1
                self._early += 1
                header = arena[origin : origin + _HEADERS[version]].tobytes()
                message = header + arena[at - layout.SET.size : end].tobytes()
                self.domains.wait(domain, WaitingSet(set_id, message, frame.copy()))
        except TemplateError:
            self._state[State.UNKNOWN] = 1
            self._reject(frame, domain, Reason.TRUNCATED, at - layout.SET.size)

    def _take_templates(self, body: bytes, set_id: int, domain: Domain, now_ns: int) -> None:
        for template in pull_templates(body, set_id):
            if not self.domains.put(domain, template, now_ns):
                self.domains.rejected_templates += 1
                continue
            for waiting in self.domains.released(domain, template.id):
                self._released.append((domain, waiting, int(self._state[State.FRAME]), now_ns))

    def _take_options(self, body: bytes, domain: Domain, template_id: int) -> None:
        for record in pull_records(body, domain.templates[template_id].template):
            self._state[State.RECORDS] += 1
            self._options += 1
            if (found := sampling(record)) is not None:
                self.domains.put_sampler(domain, *found)

    def _run_again(self, released: list[tuple[Domain, WaitingSet, int, int]]) -> None:
        """Decode sets whose template has arrived, with its time of arrival, so that times never go back."""
        frames = np.array([waiting.frame for _, waiting, _, _ in released], FRAME)
        lengths = np.array([len(waiting.message) for _, waiting, _, _ in released], np.uint64)
        messages = bytearray(b"".join(waiting.message for _, waiting, _, _ in released))
        frames["time_ns"] = [time_ns for _, _, _, time_ns in released]
        frames["offset"], frames["length"] = np.cumsum(lengths) - lengths, lengths
        for frame in frames:  # the length of an IPFIX message becomes that of the remaining set
            at = int(frame["offset"])
            if messages[at + 1] == layout.IPFIX:
                messages[at + 2 : at + 4] = int(frame["length"]).to_bytes(2, "big")
        first = int(self._counts[Count.REPORTS])
        rows = np.array([domain.row for domain, _, _, _ in released], np.int64)
        self._run(np.frombuffer(bytes(messages), np.uint8), frames, rows, again=True)
        numbers = np.array([number for _, _, number, _ in released], np.uint32)
        made = self._reports[first : int(self._counts[Count.REPORTS])]
        made["packet"] = packets = numbers[made["packet"]]
        made["reason_at"] = 0  # the set is not in that message
        of_message = np.bincount(self._reports[:first]["packet"], minlength=int(packets.max(initial=0)) + 1)
        made["index"] = of_message[packets] + np.arange(len(made)) - np.searchsorted(packets, packets)

    def _reject(self, frame: np.void, domain: Domain, reason: Reason, at: int) -> None:
        """A row for a set that is damaged, as the kernel begins one; `at` is its place in the arena."""
        self._make_room(1)
        counts, state = self._counts, self._state
        known = self.domains.rows[domain.row]
        self._reports[int(counts[Count.REPORTS])] = np.zeros((), REPORT)
        row = self._reports[int(counts[Count.REPORTS])]
        for name in ("time_ns", "source_hi", "source_lo"):
            row[name] = frame[name]
        row["packet"], row["index"] = state[State.FRAME], state[State.ROWS]
        if not state[State.ROWS]:
            known["sequence"] = (int(known["sequence"]) + int(known["missing"]) + 1) & 0xFFFFFFFF
            known["missing"] = 0
            state[State.FIRST] = counts[Count.REPORTS]
        for name in ("sequence", "node_id", "hw_id"):
            row[name] = known[name]
        row["version"] = NETFLOW_9 if domain.key[3] == layout.NETFLOW_9 else IPFIX
        row["kind"], row["carried"], row["first_hop"] = Kind.INNER, Carried.NODE_ID, counts[Count.HOPS]
        row["reason"], row["place"], row["reason_at"] = reason, Place.IPFIX, at - int(frame["offset"])
        state[State.ROWS] += 1
        counts[Count.REPORTS] += 1

"""The filter of the XDP program: its tables equal the detector's, so that both compare with the same values.

The detector decides. After each batch, the flows of reports that were passed up are copied into the
program's tables, where the program watches them: it updates their stored values as the detector will, but
still passes their reports up. Once the detector has processed all reports that were on their way when the
flows were copied, and none of these reports has changed them, both tables are equal. From then on the
program compares, and reports within the limits end in the program. If it passes up a report whose rows it
knows, both sides store the same values. A row that the program can no longer follow starts again from the
beginning.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from ..detect.counters import INDEX
from ..detect.detector import Detector
from ..detect.records import INLINE_HOPS, KEYS
from ..wire import rules
from ..wire.decode.decoder import Decoder
from ..wire.dialect import DEFAULT, Dialect
from ..wire.records import FrameBatch, Records, ReportBatch
from ..wire.timing import changes
from . import layout
from .program import Tables
from .ring import BpfRing, epoch_ns

SLICES = 8
"""Number of ticks in which all flows, queues, buffers and ports are merged once."""
TICK_NS = 100_000_000
WATCHED = 1 << 14
"""Most rows that are watched at once."""
_COUNTS = {
    "frames_total": "datagrams",
    "frame_bytes_total": "bytes",
    "reports_total": "reports",
    "hops_total": "hops",
    "values_total": "values",
}


def filters(dialect: Dialect) -> bool:
    """Whether the program reads reports of this dialect as the decoder does: if they follow the
    specification.
    """
    own, usual = dialect.table().copy(), DEFAULT.table().copy()
    for table in (own, usual):
        table[rules.INT_DSCP : rules.SHIM] = 0
    return bool((own == usual).all()) and not changes(dialect.clock)


class Filter:
    """Keeps the program's tables equal to a detector's, and adds the program's counts to the detector's
    tables.
    """

    def __init__(self, program: Tables, ring: BpfRing, detector: Detector, dialect: Dialect) -> None:
        """`program`: has tables of the same sizes as the detector's; `dialect`: dialect of the reports."""
        from .follow import install_kernel, merge_kernel, remove_kernel, sources_kernel

        self._installing, self._merging = install_kernel, merge_kernel
        self._removing, self._numbering = remove_kernel, sources_kernel
        self._program, self._ring, self._detector = program, ring, detector
        self._decoder = Decoder(dialect)
        tables = detector.tables
        rows = len(tables["flows"]["rows"])
        flows, states, ports, sources = (
            len(tables["flows"]["flows"]),
            len(tables["flows"]["hops"]),
            len(tables["ports"]["ports"]),
            len(tables["sources"]["sources"]),
        )
        self._tags = program.table("tags", rows, layout.TAGS)
        self._flows = program.table("flows", flows, layout.FLOW)
        self._more = program.table("more_hops", max(1, states - flows * INLINE_HOPS), layout.HOP)
        self._ports = program.table("ports", ports, layout.PORT)
        self._sources = program.table("sources", sources, layout.SOURCE)
        self._seen = np.zeros((flows, 4), np.uint64)
        self._seen_hops = np.zeros((states, 2), np.uint64)
        self._seen_ports = np.zeros((ports, 2), np.uint64)
        self._merged = np.zeros((sources, sources_kernel.MERGED), np.uint64)
        self._watched = np.zeros((WATCHED, 2), np.uint64)
        self._lost = np.zeros(1, np.uint64)
        """Packets of flows that had left the detector's table, found when their rows were reused."""
        self._watching = 0
        self._boundary: int | None = None
        """Position of the ring at which the watched rows are confirmed."""
        self._batch: ReportBatch | None = None
        self._counted = dict.fromkeys(_COUNTS, 0)
        self._spoiled = 0
        """Number of flows that the program had marked as spoiled by the last batch."""
        self._spoiled_until = 0
        """Position of the ring before which there may be reports that spoiled these flows."""
        self._slice = 0
        self._due_ns = 0
        self._changes = detector.comparison.changes
        control = program.control
        table = dialect.table()
        dscp = table[rules.INT_DSCP : rules.UDP_ROLE]
        control["dscp"] = sum(1 << int(number) for number in np.flatnonzero(dscp))
        control["keys"] = detector.comparison.knobs[:KEYS]
        control["near_mask"] = layout.near_flows(rows) - 1
        control["flow_mask"], control["port_mask"], control["source_mask"] = rows - 1, ports - 1, sources - 1
        program.table("roles", 1 << 16, np.dtype(np.uint8))[:] = table[rules.UDP_ROLE : rules.SHIM]
        control["filter"] = 1

    @property
    def following(self) -> bool:
        """Whether rows are watched, whose reports are passed up until they are confirmed, or a batch ended
        early.
        """
        return self._boundary is not None or self._ring.more

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """The reports of a batch, for the detector; merges sources whose numbers the detector must check."""
        ring = self._ring
        self._numbering.merge_marked(
            ring.marks, ring.rows, ring.received, len(batch), *self._of_sources(), np.uint64(epoch_ns())
        )
        self._batch = self._decoder.decode(batch)
        reports, tables = self._batch.reports, self._detector.tables["flows"]
        self._numbering.set_numbered(reports, ring.marks)
        if self._spoils() or (ring.marks[: len(batch)] & layout.Mark.UNUSUAL).any():
            self._merging.merge_changing(
                reports, ring.marks, tables["rows"].view(np.uint32), tables["flows"], tables["hops"],
                self._detector.comparison.knobs, self._flows, self._more, self._seen, self._seen_hops,
                np.uint64(epoch_ns()),
            )  # fmt: skip
        return self._batch

    def _spoils(self) -> bool:
        """Whether a report of the last batch may have spoiled a flow."""
        spoiled = int(self._program.control["spoiled"])
        if spoiled != self._spoiled:
            self._spoiled, self._spoiled_until = spoiled, self._ring.written
        return self._ring.start < self._spoiled_until

    def counts(self) -> dict[str, int]:
        """Empty: the program counts."""
        return {}

    def receive(self) -> FrameBatch | None:
        """The next datagrams that were passed up. First brings the tables up to the last batch, and confirms
        watched rows.
        """
        self._follow()
        if self._boundary is not None and self._ring.position >= self._boundary:
            self._confirm()
        now_ns = time.monotonic_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + TICK_NS
            self.merge(self._slice, SLICES)
            self._slice = (self._slice + 1) % SLICES
        return self._ring.receive(self._boundary)

    def merge(self, part: int = 0, parts: int = 1) -> None:
        """Add the program's counts to the detector's tables and counters: all sources, and one of `parts` of
        the other tables.
        """
        epoch = np.uint64(epoch_ns())
        detector = self._detector
        tables = detector.tables
        self._numbering.merge_sources(*self._of_sources(), epoch)
        rows, ports = (
            (np.uint64(part * length // parts), np.uint64((part + 1) * length // parts))
            for length in (len(self._tags), len(self._ports))
        )
        flows = tables["flows"]
        lost = self._merging.merge_flows(
            rows[0], rows[1], flows["rows"].view(np.uint32), flows["flows"], flows["hops"],
            self._tags, self._flows, self._more, self._seen, self._seen_hops, epoch,
        )  # fmt: skip
        self._merging.merge_ports(
            ports[0], ports[1], tables["ports"]["ports"], self._ports, self._seen_ports, epoch
        )
        detector.counters[INDEX["unrecorded_flow_packets_total"]] += np.uint64(lost) + self._lost[0]
        self._lost[0] = 0
        filtered = self._program.filtered()
        for key, name in _COUNTS.items():
            detector.counters[INDEX[key]] += np.uint64(filtered[name] - self._counted[key])
            self._counted[key] = filtered[name]

    def _of_sources(self) -> tuple[Records, Records, npt.NDArray[np.uint64]]:
        return self._detector.tables["sources"]["sources"], self._sources, self._merged

    def _follow(self) -> None:
        """Bring the program's tables up to the state of the detector, which has seen the last batch."""
        batch, self._batch = self._batch, None
        detector = self._detector
        limits = detector.comparison
        if limits.changes != self._changes:
            self._changes = limits.changes
            self._tags["ways"] = 0
            self._flows["state"] = self._ports["state"] = layout.State.ABSENT
        if batch is None:
            return
        tables = detector.tables
        reports, hops = batch.reports, batch.hops
        rows, flows, states = (
            tables["flows"]["rows"].view(np.uint32),
            tables["flows"]["flows"],
            tables["flows"]["hops"],
        )
        ports, marks, knobs = tables["ports"]["ports"], self._ring.marks, limits.knobs
        mine = (self._tags, self._flows, self._more, self._ports)
        epoch = np.uint64(epoch_ns())
        wanting = np.zeros(len(reports), np.uint8)
        lacking = self._removing.drop_spoiled(
            reports,
            hops,
            rows,
            flows,
            states,
            ports,
            knobs,
            *mine,
            self._seen,
            self._seen_hops,
            epoch,
            wanting,
        )
        self._removing.forget(
            reports, hops, marks, rows, flows, ports, knobs, self._tags, self._flows, self._ports
        )
        if self._boundary is not None:
            return
        unknown = bool((self._ring.rows[: self._ring.count] == layout.NOWHERE).any())
        if not lacking and not unknown:
            return
        self._program.wait()
        self._watching = self._installing.install(
            reports, hops, marks, rows, flows, states, ports, limits.limits, limits.overrides, knobs, *mine,
            self._seen, self._seen_hops, self._seen_ports, self._watched, epoch, wanting, self._lost,
        )  # fmt: skip
        self._numbering.install_sources(
            reports, self._ring.rows, tables["sources"]["sources"], knobs, self._sources, self._merged
        )
        self._program.wait()
        if self._watching:
            self._boundary = self._ring.written

    def _confirm(self) -> None:
        """Confirm watched rows, after the detector has processed all reports that were on their way."""
        self._boundary = None
        tables = self._detector.tables
        self._installing.confirm(
            self._watched, self._watching, tables["flows"]["flows"], tables["flows"]["hops"],
            tables["ports"]["ports"], self._tags, self._flows, self._ports,
        )  # fmt: skip

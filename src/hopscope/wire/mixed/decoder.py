"""Captured frames to report batches: Telemetry Reports, and datagrams of sFlow, IPFIX and NetFlow 9."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...base.kernels import plain
from ..dialect import DEFAULT, Dialect
from ..node_ids import NodeIds
from ..reasons import Reason
from ..records import FRAME, HOP, REPORT, FrameBatch, Records, ReportBatch

if TYPE_CHECKING:
    from ..decode.decoder import Decoder
    from ..decode.plain import PlainDecoder
    from ..ipfix.decoder import IpfixDecoder
    from ..sflow.decoder import SflowDecoder

_values = attrgetter(*list(FRAME.names or ()))
Verdicts = npt.NDArray[np.uint64]
Offsets = npt.NDArray[np.uint32]
_SAMPLE, _FLOW = 1, 2  # verdicts of `datagram_kernel`


class MixedDecoder:
    """Decodes captured frames: reports by the decoder of the dialect, and datagrams to the dialect's ports of
    sFlow and IPFIX by the decoders of live datagrams.

    The state of agents and exporters is kept over all batches. `agents` (sFlow) and `exporters`: node ids by
    address. `small`: uncompiled kernels read reports and find datagrams, until `compile` is called. The
    decoder of samples, or of flow records, is made for the first datagram that needs it; its kernels are
    always compiled, or loaded from the cache.
    """

    def __init__(
        self,
        dialect: Dialect = DEFAULT,
        agents: NodeIds | None = None,
        exporters: NodeIds | None = None,
        small: bool = False,
        frames: int = 4096,
    ) -> None:
        self.dialect, self._agents, self._exporters = dialect, agents, exporters
        ports = (*dialect.sflow_ports, *dialect.ipfix_ports)
        self._table = replace(
            dialect, ports=ports, int_ports=dialect.ipfix_ports, inserted_udp_ports=()
        ).table()
        self._reports: PlainDecoder | Decoder
        self._small = small
        if small:
            from ..decode.plain import PlainDecoder

            self._reports = PlainDecoder(dialect)
        else:
            self.compile(frames)
        self._sflow: SflowDecoder | None = None
        self._ipfix: IpfixDecoder | None = None
        self.rejected = Counter[str]()
        """Rejected datagrams, samples and sets by reason, without those of Telemetry Reports."""

    def compile(self, frames: int = 4096) -> None:
        """Use compiled kernels from now on, with room for batches of this size."""
        from ..decode.decoder import Decoder

        self._reports, self._small = Decoder(self.dialect, frames), False

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """The reports, samples and flow records of all frames, in the order of the frames; a frame is in
        `other` if it has none of them. A result is valid until the next call.
        """
        reports = self._reports.decode(batch)
        if not reports.other:
            return reports
        verdicts, found = self._find(batch)
        if not verdicts.any():
            return reports
        verdicts[reports.reports["packet"]] = 0  # of two readings of a frame, that of reports counts
        start = (found["offset"] - batch.frames["offset"]).astype(np.uint32)
        parts = []
        for verdict, decoder in ((_SAMPLE, self._samples), (_FLOW, self._flows)):
            packets = np.flatnonzero(verdicts == verdict)
            if len(packets):
                parts.append(decoder().decode(FrameBatch(batch.arena, found[packets])))
                rows = parts[-1].reports
                rows["packet"] = packets[rows["packet"]]
                rows["reason_at"] += np.where(rows["reason"], start[rows["packet"]], 0).astype(np.uint32)
        cut = np.flatnonzero(verdicts > _FLOW)
        if len(cut):
            parts.append(_damaged(found[cut], verdicts[cut], start[cut], cut))
        self._count(parts)
        return ReportBatch(
            *_merged([reports, *parts]),
            batch.first_packet,
            reports.other - int(np.count_nonzero(verdicts)),
            reports.unknown_int,
        )

    def _count(self, parts: list[ReportBatch]) -> None:
        """Count rejected rows."""
        for part in parts:
            reasons, counts = np.unique(part.reports["reason"], return_counts=True)
            for reason, count in zip(reasons.tolist(), counts.tolist(), strict=True):
                if reason:
                    self.rejected[Reason(reason).label] += count

    def counts(self) -> dict[str, int]:
        """Counts of samples and flow records so far, by key of `detect.counters`."""
        return {
            name: count
            for decoder in (self._sflow, self._ipfix)
            if decoder is not None
            for name, count in decoder.counts().items()
        }

    @property
    def samples(self) -> int | None:
        """Samples in the datagrams of sFlow so far, also those without a report; None: no datagrams."""
        if self._sflow is None:
            return None
        counts = self._sflow.counts()
        return sum(counts[f"sflow_{kind}_samples"] for kind in ("flow", "counter", "discarded", "other"))

    @property
    def undecoded_sets(self) -> int:
        """Data sets of IPFIX and NetFlow 9 without a template: those that wait, and those that expired."""
        counts = self.counts()
        return counts.get("ipfix_waiting_sets", 0) + counts.get("ipfix_expired_sets", 0)

    def _samples(self) -> SflowDecoder:
        if self._sflow is None:
            from ..sflow.decoder import SflowDecoder

            self._sflow = SflowDecoder(self._agents)
        return self._sflow

    def _flows(self) -> IpfixDecoder:
        if self._ipfix is None:
            from ..ipfix.decoder import IpfixDecoder

            self._ipfix = IpfixDecoder(self._exporters)
        return self._ipfix

    def _find(self, batch: FrameBatch) -> tuple[Verdicts, Records]:
        """The verdict of `datagram_kernel` for each frame, and the payload of each datagram."""
        count = len(batch)
        if self._small:
            kernel = plain.load(f"{__package__}.datagram_kernel").find_datagrams
            frames = [plain.record_class(FRAME)(*values) for values in batch.frames.tolist()]
            payloads, marks = plain.Rows(FRAME, count), [0] * count
            kernel(batch.arena.tobytes(), frames, self._table.tobytes(), marks, payloads)
            return np.array(marks, np.uint64), np.array([_values(payloads[i]) for i in range(count)], FRAME)
        from ...base.kernels.jit import readonly
        from . import datagram_kernel

        verdicts, found = np.zeros(count, np.uint64), np.zeros(count, FRAME)
        arena, rows = readonly(batch.arena), readonly(batch.frames)
        datagram_kernel.find_datagrams(arena, rows, self._table, verdicts, found)
        return verdicts, found


def _damaged(found: Records, codes: Verdicts, at: Offsets, packets: npt.NDArray[np.intp]) -> ReportBatch:
    """Rows of datagrams whose IP or UDP header is damaged, as the decoder of reports makes them."""
    rows = np.zeros(len(found), REPORT)
    for name in ("time_ns", "source_hi", "source_lo"):
        rows[name] = found[name]
    rows["packet"], rows["reason_at"] = packets, at
    rows["reason"], rows["place"] = codes >> np.uint64(8), codes & np.uint64(0xFF)
    return ReportBatch(rows, np.zeros(0, HOP))


def _merged(parts: list[ReportBatch]) -> tuple[Records, Records]:
    """All rows, by packet, and all hops."""
    first = np.repeat(np.cumsum([0, *(len(part.hops) for part in parts[:-1])]), list(map(len, parts)))
    rows = np.concatenate([part.reports for part in parts])
    rows["first_hop"] += first.astype(np.uint32)
    return rows[np.argsort(rows["packet"], kind="stable")], np.concatenate([part.hops for part in parts])

"""sFlow datagrams to report batches."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from ...base.hash_keys import hash_keys
from ..decode.decoder import MARGIN, new_block, with_room
from ..dialect import DEFAULT
from ..node_ids import NodeIds, node_table
from ..records import HOP, REPORT, FrameBatch, ReportBatch
from .records import INTERFACE, ROWS, SAMPLER, Count

_COUNTED = {
    "sflow_flow_samples": Count.FLOW_SAMPLES,
    "sflow_counter_samples": Count.COUNTER_SAMPLES,
    "sflow_discarded_samples": Count.DISCARDED_PACKETS,
    "sflow_other_samples": Count.OTHER_SAMPLES,
    "sflow_pool_packets": Count.POOL,
    "sflow_lost_samples": Count.LOST_SAMPLES,
    "sflow_port_discards": Count.PORT_DISCARDS,
}
_PACKETS = replace(
    DEFAULT, name="sampled", int_dscp=(), inserted_udp_ports=(), gpe_protocols=(), geneve_classes=()
)
"""Reads sampled packets without their INT."""


class SflowDecoder:
    """Decodes datagrams of sFlow 5; its blocks are reused, so a result is valid until the next call.

    It keeps the counters of 16,384 data sources and as many interfaces (1 MiB), to compare them with the next
    ones. The first decoder compiles its kernels, or loads them from the cache.
    """

    def __init__(self, nodes: NodeIds | None = None, frames: int = 1024) -> None:
        from ...base.kernels.jit import readonly
        from ..decode import trail_kernel
        from . import sflow_kernel

        self._kernel, self._readonly = sflow_kernel.decode_sflow, readonly
        self._fixed = (
            _PACKETS.table(),
            np.zeros(trail_kernel.MEMORY, np.uint64),
            readonly(node_table(nodes or {})),
            np.zeros(ROWS, SAMPLER),
            np.zeros(ROWS, INTERFACE),
            hash_keys(os.urandom(16), 2),
        )
        self._counts = np.zeros(len(Count), np.uint64)
        self._reports = new_block(8 * frames + MARGIN, REPORT)
        self._hops = new_block(8 * frames + MARGIN, HOP)

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """A report for each flow sample and discarded packet, and for each interface with a known
        utilisation; a rejected report for each damaged datagram or sample. A datagram without any of these
        becomes a report without contents.
        """
        arena, frames = self._readonly(batch.arena), self._readonly(batch.frames)
        counts = self._counts
        counts[Count.REPORTS] = counts[Count.HOPS] = 0
        at = np.uint64(0)
        while True:
            at = np.uint64(self._kernel(arena, frames, at, *self._fixed, self._reports, self._hops, counts))
            if at == len(frames):
                break
            room = int(batch.frames[int(at)]["length"]) + MARGIN
            self._reports = with_room(self._reports, int(counts[Count.REPORTS]), room)
            self._hops = with_room(self._hops, int(counts[Count.HOPS]), room)
        return ReportBatch(
            self._reports[: int(counts[Count.REPORTS])],
            self._hops[: int(counts[Count.HOPS])],
            batch.first_packet,
        )

    def counts(self) -> dict[str, int]:
        """Counts so far, by name."""
        return {name: int(self._counts[slot]) for name, slot in _COUNTED.items()}

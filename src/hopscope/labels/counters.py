"""Counters of the process that takes labels, declared once, in a region that `/metrics` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter, family
from ..memory.counted import CountedRegion, read_counted
from ..wire.reasons import Reason

KIND, VERSION = "label counters", 1
FILE_NAME = "labels.counters"

COUNTERS: tuple[Counter, ...] = (
    Counter("label_datagrams_total", "Datagrams of last hops, handed over by the socket.", of="datagrams"),
    Counter("label_bytes_total", "Bytes of these datagrams.", of="bytes"),
    Counter(
        "label_kernel_drops_total", "Datagrams that the kernel dropped: the socket's buffer was full.",
        of="listener.counts.kernel_drops_total", absolute=True,
    ),
    Counter(
        "label_denied_total", "Datagrams of sources that are not on the list of allowed sources.",
        of="listener.counts.denied_frames_total",
    ),
    Counter(
        "label_oversized_total", "Datagrams longer than the receive buffer, refused.",
        of="listener.counts.oversized_frames_total",
    ),
    *family(
        "label_refused_total",
        "Datagrams refused, or their rest behind the last good packet's labels, by reason.",
        "reason", {reason.label: int(reason) for reason in Reason if reason}, of="refused",
    ),
    Counter("labelled_packets_total", "Packets that labels came from.", of="packets"),
    Counter("labels_total", "Labels taken.", of="table.taken"),
    Counter(
        "late_labels_total", "Of these, older than one of the same port that was here: discarded.",
        of="table.late",
    ),
    Counter(
        "label_clocks_back_total", "Ports whose labels began anew with an earlier time.",
        of="table.clocks_back",
    ),
    Counter(
        "label_times_ahead_total",
        "Ports whose newest label had a time ahead of ours, taken back for one that agrees with our clock.",
        of="table.ahead",
    ),
    Counter(
        "label_table_full_total", "Labels of ports for which the table has no room.", of="table.refused"
    ),
    Counter(
        "label_reused_rows_total", "Ports forgotten since a full table needed their room.", of="table.reused"
    ),
    Counter(
        "label_unknown_ports_total", "Labels of ports that the switches' registers do not name, refused.",
        of="table.unknown",
    ),
    Counter(
        "label_left_out_intervals_total",
        "Telemetry intervals without coverage: the process was held up at their end.",
        of="table.coverage.left_out",
    ),
    Counter("label_tracked_flows", "Tracked flows known.", of="tracked.used", gauge=True),
    Counter(
        "label_tracked_packets_total", "Packets of tracked flows taken for their flow's way.",
        of="tracked.taken",
    ),
    Counter(
        "label_tracked_late_total", "Of these, overtaken by a newer one of their flow.", of="tracked.late"
    ),
    Counter(
        "label_tracked_partial_total", "Of these, without the labels of some switches of the way.",
        of="tracked.partial",
    ),
    Counter(
        "label_tracked_changes_total", "Of these, with another way than the one before.",
        of="tracked.changes",
    ),
    Counter(
        "label_tracked_flowless_total",
        "Packets of tracked flows whose last hop does not say the flow: only their labels are taken.",
        of="tracked.flowless",
    ),
    Counter(
        "label_tracked_unknown_total",
        "Packets of tracked flows with a label of a port that the switches' registers do not name.",
        of="tracked.unknown",
    ),
    Counter(
        "label_tracked_refused_total", "Packets of tracked flows for which there was no room.",
        of="tracked.refused",
    ),
    Counter(
        "label_tracked_evicted_total", "Tracked flows forgotten since others needed their room.",
        of="tracked.evicted",
    ),
    Counter("label_ports", "Ports known.", of="table.used", gauge=True),
    Counter(
        "label_raised_ports", "Ports whose interval the controller has shortened.",
        of="controller.raised", gauge=True,
    ),
    Counter(
        "label_changes_total", "Changes of Reg2 (S, or the flag) that the controller decided.",
        of="controller.changes",
    ),
    Counter(
        "label_unwritten_changes_total", "Of these, not written: no registers, or not of that port.",
        of="unwritten",
    ),
    Counter("label_redis_up", "1 while a Redis server answers.", of="redis.up", gauge=True),
    Counter(
        "label_redis_connections_total", "Connections made to it, and made anew.",
        of="redis.counts.connections",
    ),
    Counter(
        "label_redis_failures_total", "Times that it did not do what it was asked to.",
        of="redis.counts.failures",
    ),
    Counter("label_redis_ports_total", "Newest labels of ports written to it.", of="redis.counts.ports"),
    Counter(
        "label_redis_entries_total", "Entries of the ageing database set or renewed.",
        of="redis.counts.entries",
    ),
    *family(
        "label_redis_expired_total", "Entries of the ageing database that timed out, by who said so.",
        "by", ("notification", "look", "clock"), of="redis.counts",
    ),
    Counter(
        "label_redis_foreign_total", "Notifications about entries that are not due, or of nobody's port.",
        of="redis.counts.foreign",
    ),
)  # fmt: skip
"""`by`: Redis told it, Redis was asked since it had not told in time, or Redis was gone and our clock did."""
INDEX: Mapping[str, int] = {counter.key: number for number, counter in enumerate(COUNTERS)}
"""Key of a counter to its place."""


class LabelCounts(CountedRegion):
    """The counters of the process that takes labels."""

    def __init__(self, folder: Path | None = None) -> None:
        """Those in `folder` are continued; None: private memory. Raises RegionError."""
        super().__init__(None if folder is None else folder / FILE_NAME, KIND, VERSION, COUNTERS)


def read_label_counters(folder: Path) -> npt.NDArray[np.uint64]:
    """uint64 [COUNTERS] of the regions' folder; zeros where no labels were taken."""
    return read_counted(folder / FILE_NAME, KIND, VERSION, len(COUNTERS))

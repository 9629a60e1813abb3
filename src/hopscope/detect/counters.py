"""Every counter of the program, declared once: the workers count into a mapped array in this order.

`/metrics`, `hopscope top`, `hopscope demo` and docs/reference/counters.md read this table; nothing else
names a counter.  Law 5: everything that moves has a counter, everything refused has a reason.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter
from ..memory.region import Region
from ..wire.reasons import DropReason, Place, Reason
from .records import Kind
from .sink.records import Type

COUNTERS_KIND = "counters"
COUNTERS_VERSION = 1
"""Kind and version of the region that a worker counts in."""
COUNTERS: tuple[Counter, ...] = (
    Counter("frames_total", "Frames (datagrams, packets of a file) handed over by capture."),
    Counter("frame_bytes_total", "Bytes of these frames."),
    Counter("other_frames_total", "Frames that are no telemetry report: another protocol or port."),
    Counter(
        "kernel_drops_total",
        "Datagrams, or frames of an interface, that the kernel dropped: the socket's buffer was full.",
        of="received.kernel_drops_total",
        absolute=True,
    ),
    Counter(
        "denied_frames_total",
        "Datagrams of sources that are not on the list of allowed sources.",
        of="received.denied_frames_total",
    ),
    Counter(
        "rate_limited_frames_total",
        "Datagrams held back by the rate limit per source.",
        of="received.rate_limited_frames_total",
    ),
    Counter(
        "oversized_frames_total",
        "Datagrams and frames longer than the receive buffer, refused.",
        of="received.oversized_frames_total",
    ),
    Counter(
        "completed_checksums_total",
        "Frames whose checksum the sender left to its card: completed.",
        of="received.completed_checksums_total",
    ),
    Counter("reports_total", "Reports decoded, and packets with telemetry of their own."),
    Counter("packets_total", "Of these, packets that carry INT or IOAM themselves: no report brought them."),
    Counter("hops_total", "Hops in these reports."),
    *(
        Counter("refused_reports_total", "Reports refused, by reason.", ("reason", reason.label))
        for reason in Reason
        if reason
    ),
    *(
        Counter("refused_places_total", "The same reports, by the header being read.", ("place", place.label))
        for place in Place
        if place
    ),
    Counter("forwarded_frames_total", "Frames that a sink sent on, at an interface or into a file."),
    Counter("stripped_packets_total", "Packets whose INT a sink removed: they are as before their source."),
    Counter(
        "unverified_packets_total",
        "Of these, packets with a checksum that fitted neither with INT nor without: it is as it came.",
    ),
    Counter("unstripped_packets_total", "Packets that a sink sent on with their INT, which is damaged."),
    *(
        Counter("forward_drops_total", "Frames not sent on by a sink, by reason.", ("reason", drop.label))
        for drop in DropReason
        if drop
    ),
    Counter("lost_reports", "Reports missing by sequence number, less those that came late.", gauge=True),
    Counter("duplicate_reports_total", "Reports whose sequence number had been seen."),
    Counter("reordered_reports_total", "Reports that came after one with a higher sequence number."),
    Counter("postcards_total", "Postcards: reports of one node about a packet without a stack."),
    Counter("joined_postcards_total", "Postcards that became hops of a joined path."),
    Counter("postcard_paths_total", "Paths of postcards, by whether all came.", ("path", "complete")),
    Counter("postcard_paths_total", "Paths of postcards, by whether all came.", ("path", "incomplete")),
    Counter("postcard_evictions_total", "Paths given out too early because the table of postcards was full."),
    Counter("late_postcards_total", "Postcards that came after the path of their packet was given out."),
    Counter("duplicate_postcards_total", "Postcards of a node and packet that had been seen."),
    *(Counter("events_total", "Events, by kind.", ("kind", kind.label)) for kind in Kind),
    Counter("values_total", "Metric values in all reports: what would be stored without detection."),
    Counter("flow_evictions_total", "Flows evicted from the flow table because their row was full."),
    Counter("flow_expiries_total", "Flows that were idle longer than the limit."),
    Counter("port_table_full_total", "Values not kept because the table of queues and ports was full."),
    Counter("distribution_table_full_total", "Hops not counted because the table of distributions was full."),
    Counter("source_table_full_total", "Reports not checked for loss because the table of sources was full."),
    Counter("hop_pool_full_total", "Paths cut to 8 hops of state because the hop pool was full."),
    Counter("nameless_hops_total", "Hops without a node id, which belong to no switch."),
    Counter("sink_reports_total", "Telemetry Reports that the sink sent to another collector."),
    Counter(
        "sink_report_drops_total",
        "The same, not sent: the socket's buffer was full, no route, or flows lost to the eviction ring.",
    ),
    Counter("sink_report_refusals_total", "Times that the other collector's machine said: nobody listens."),
    Counter("sink_packets_total", "INT packets that a sink took into its flow table."),
    *(
        Counter("sink_events_total", "Events in a sink's event ring, by type.", ("type", kind.label))
        for kind in Type
    ),
    *(
        Counter(
            "sink_held_back_total", "Events that a sink's quota held back, by type.", ("type", kind.label)
        )
        for kind in Type
    ),
    Counter("sink_journal_held_back_total", "Events of a sink that history does not have, by its own quota."),
    Counter(
        "sink_thresholds_raised",
        "By how much a sink has raised its limits above those in force, in thousandths; 0: not at all.",
        gauge=True,
    ),
    Counter("journal_bytes_total", "Bytes written to the journal."),
    Counter("journal_retries_total", "Failed writes of the journal (a full disk), tried again."),
    Counter("journal_sync_failures_total", "Times that the journal could not be forced to disk (fsync)."),
    Counter(
        "ticks_total",
        "Looks at the clock, ten a second: a worker that hangs, or waits for a full disk, has none.",
    ),
    Counter("busy_ns_total", "Time that the worker spent on reports, ns; the rest it slept."),
    Counter("busy_capture_ns_total", "Of this, receiving frames, ns."),
    Counter("busy_decode_ns_total", "Of this, decoding, ns."),
    Counter("busy_detect_ns_total", "Of this, detecting, ns."),
    Counter("busy_journal_ns_total", "Of this, writing the journal and the ring, ns."),
)
INDEX: dict[str, int] = {counter.key: i for i, counter in enumerate(COUNTERS)}
"""Key of a counter to its slot in the block."""


def attach_counters(path: Path) -> npt.NDArray[np.uint64]:
    """Counters of a worker, uint64 [COUNTERS], to read. Raises RegionError."""
    return Region.attach(path, COUNTERS_KIND, COUNTERS_VERSION)["counters"]

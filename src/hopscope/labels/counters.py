"""Counters of the process that takes labels."""

from ..base.counter import Counter, family, late_kernels
from ..memory.counter_region import CounterFile
from ..wire.reasons import Reason

LABEL_COUNTERS = CounterFile("labels.counters", "label counters", 1, (
    Counter("label_datagrams_total", "Datagrams received from last hops.", of="datagrams"),
    Counter("label_bytes_total", "Bytes of these datagrams.", of="bytes"),
    Counter(
        "label_kernel_drops_total", "Datagrams dropped by the kernel: the socket buffer was full.",
        of="listener.counts.kernel_drops_total", absolute=True,
    ),
    Counter(
        "label_denied_total", "Datagrams from sources that are not on the allow list.",
        of="listener.counts.denied_frames_total",
    ),
    Counter(
        "label_oversized_total", "Datagrams longer than the receive buffer, rejected.",
        of="listener.counts.oversized_frames_total",
    ),
    *family(
        "label_rejected_total",
        "Datagrams rejected, in whole or after the last valid packet's labels, by reason.",
        "reason", {reason.label: int(reason) for reason in Reason if reason}, of="rejected.{}",
    ),
    Counter("labelled_packets_total", "Packets that carried labels.", of="packets"),
    Counter("labels_total", "Labels received.", of="table.taken"),
    Counter(
        "late_labels_total", "Labels discarded because a newer one of the same port had arrived.",
        of="table.late",
    ),
    Counter(
        "label_clock_resets_total", "Ports whose label time jumped back.",
        of="table.clock_resets",
    ),
    Counter(
        "label_future_times_total",
        "Ports whose newest label was ahead of the local clock and was replaced by one that agrees with it.",
        of="table.future_times",
    ),
    Counter(
        "label_table_full_total", "Labels of ports for which the table has no room.", of="table.rejected"
    ),
    Counter(
        "label_evicted_ports_total",
        "Ports evicted because the full table needed their row.",
        of="table.evicted",
    ),
    Counter(
        "label_unknown_ports_total",
        "Labels rejected because the switches' registers do not list their port.",
        of="table.unknown",
    ),
    Counter(
        "label_skipped_intervals_total",
        "Telemetry intervals without coverage: the process was delayed at their end.",
        of="table.coverage.skipped",
    ),
    Counter("label_tracked_flows", "Tracked flows known.", of="tracked.used", gauge=True),
    Counter(
        "label_tracked_packets_total", "Packets of tracked flows that updated their flow's path.",
        of="tracked.taken",
    ),
    Counter(
        "label_tracked_late_total",
        "Packets of tracked flows overtaken by a newer one of their flow.",
        of="tracked.late",
    ),
    Counter(
        "label_tracked_partial_total",
        "Packets of tracked flows without the labels of some switches on the path.",
        of="tracked.partial",
    ),
    Counter(
        "label_tracked_path_changes_total",
        "Packets of tracked flows with another path than the previous one.",
        of="tracked.changes",
    ),
    Counter(
        "label_tracked_without_flow_total",
        "Packets of tracked flows whose last hop does not report the flow; only their labels are used.",
        of="tracked.without_flow",
    ),
    Counter(
        "label_tracked_unknown_ports_total",
        "Packets of tracked flows with a label of a port that the switches' registers do not list.",
        of="tracked.unknown",
    ),
    Counter(
        "label_tracked_rejected_total", "Packets of tracked flows for which there was no room.",
        of="tracked.rejected",
    ),
    Counter(
        "label_tracked_evicted_total", "Tracked flows evicted because others needed their room.",
        of="tracked.evicted",
    ),
    Counter("label_ports", "Ports known.", of="table.used", gauge=True),
    Counter(
        "label_shortened_ports", "Ports whose label interval the controller has shortened.",
        of="controller.raised", gauge=True,
    ),
    Counter(
        "label_changes_total", "Changes of Reg2 (S, or the flag) that the controller decided.",
        of="controller.changes",
    ),
    Counter(
        "label_unwritten_changes_total",
        "Changes of Reg2 that were not written: no registers, or none of that port.",
        of="unwritten",
    ),
    *family(
        "label_events_total", "Events of labels, by kind.", "kind",
        ("raised", "cleared", "path_change", "label_record"), of="events.counts.{}",
    ),
    Counter("label_silent_ports", "Ports that are silent.", of="events.silent_ports", gauge=True),
    Counter(
        "label_coverage_low", "1 if the mean coverage of the last period was below its limit.",
        of="events.is_low", gauge=True,
    ),
    Counter(
        "label_waiting_events", "Events of labels in memory that the journal lacks.",
        of="events.writer.waiting", gauge=True,
    ),
    Counter(
        "label_journal_failing", "1 while the disk does not take the journal of labels, else 0.",
        of="events.writer.failing", gauge=True,
    ),
    Counter(
        "label_lost_events_total", "Events of labels that history will not have.", of="events.writer.lost"
    ),
    Counter("label_redis_up", "1 if a Redis server answers.", of="redis.up", gauge=True),
    Counter(
        "label_redis_connections_total", "Connections made to Redis.",
        of="redis.counts.connections",
    ),
    Counter(
        "label_redis_failures_total", "Failed Redis commands.",
        of="redis.counts.failures",
    ),
    Counter("label_redis_ports_total", "Newest labels of ports written to Redis.", of="redis.counts.ports"),
    Counter(
        "label_redis_entries_total", "Entries of the ageing database set or renewed.",
        of="redis.counts.entries",
    ),
    *family(
        "label_redis_expired_total", "Entries of the ageing database that timed out, by how it was noticed.",
        "by", {"notification": "notification", "poll": "look", "clock": "clock"}, of="redis.counts.{}",
    ),
    Counter(
        "label_redis_unexpected_total",
        "Unexpected notifications: entries that are not due, or of no known port.",
        of="redis.counts.unexpected",
    ),
    late_kernels("label_"),
))  # fmt: skip
"""Of the process that takes labels, in the folder of regions.

`by` of expired entries: a notification of Redis, a poll because none came in time, or our clock without
Redis.
"""

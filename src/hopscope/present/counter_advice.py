"""What to do when a counter of losses rises; used by the log, `hopscope doctor` and the console."""

from __future__ import annotations

from collections.abc import Mapping

TABLES: Mapping[str, tuple[str, str]] = {
    "flow_evictions_total": ("flows evicted while they were live", "raise detect.flow_rows"),
    "port_table_full_total": ("values without room in the table of ports", "raise detect.ports"),
    "port_evictions_total": ("queues and ports that made room for others", "raise detect.ports"),
    "source_table_full_total": ("reports not checked for loss", "raise detect.sources"),
    "source_evictions_total": ("sequence spaces that made room for others", "raise detect.sources"),
    "hop_pool_full_total": ("paths of more than 8 hops cut short", "raise detect.hop_pool (3.5 KiB a flow)"),
    "distribution_table_full_total": ("hops not counted in distributions", "raise distributions.queues"),
    "distribution_evictions_total": ("distributions that made room for others", "raise distributions.queues"),
    "postcard_evictions_total": ("paths emitted before they were complete", "raise postcards.packets"),
}
"""What the counters of a collector's tables count, and what to do when they rise."""
LABEL_TABLES: Mapping[str, tuple[str, str]] = {
    "label_table_full_total": (
        "labels of ports without room in the table",
        "allow fewer sources in label.allow",
    ),
    "label_evicted_ports_total": (
        "ports with labels that made room for others",
        "allow fewer sources in label.allow",
    ),
}
"""What the counters of tables of labels count, and what to do."""
ADVICE: Mapping[str, str] = {
    "lost_reports": "those that the other losses do not explain were lost in the network, or never sent: "
    "/api/v0/sources shows which source",
    "kernel_drops_total": "raise net.core.rmem_max and listen.receive_buffer_bytes (of a ring: ring_bytes), "
    "or listen.workers",
    "denied_frames_total": "add the source to listen.allow, or stop it",
    "rate_limited_frames_total": "raise listen.rate_limit, or slow the source down",
    "oversized_frames_total": "the source sends more than a report fits in: check what it sends",
    "abandoned_frames_total": "the log says why the worker ended",
    "xdp_lost_metadata_total": "raise listen.ring_bytes",
    "detector_lost_reports_total": "raise detect.queue_reports, or sample less",
    "journal_lost_events_total": "free space on the disk of the data folder, or use a faster one",
    "label_kernel_drops_total": "raise net.core.rmem_max",
    "label_denied_total": "add the source to label.allow, or stop it",
    "label_table_full_total": LABEL_TABLES["label_table_full_total"][1],
}
"""What to do when a counter of losses rises."""
WARNINGS: Mapping[str, tuple[str, str]] = {
    **TABLES,
    "late_postcards_total": ("postcards after their path was emitted", "raise postcards.window_ms"),
    "journal_sync_failures_total": ("failed writes to the disk", "check the disk of the data folder"),
    "late_kernels_total": ("kernels compiled while frames waited", "run `hopscope warmup`, and report it"),
    "sink_report_drops_total": ("reports of the sink not sent", "check sink.report.to and its route"),
    "sink_reports_unreachable_total": ("reports of the sink not received", "start the other collector"),
    "unstripped_packets_total": ("packets forwarded with damaged telemetry", "check its source"),
}
"""What the counters that should stay at zero count, and what to do when they rise."""
_FAMILIES = {
    "rejected_reports_total": "`hopscope decode --dialect auto` on a capture proposes a dialect",
    "forward_drops_total": "see docs/troubleshooting.md",
}
"""What to do when a counter of these families rises, whatever its label."""


def advice_of(key: str) -> str:
    """What to do if the counter with this key rises; empty if there is no advice."""
    for known in (WARNINGS, LABEL_TABLES):
        if key in known:
            return known[key][1]
    return ADVICE.get(key) or _FAMILIES.get(key.partition(".")[0], "")

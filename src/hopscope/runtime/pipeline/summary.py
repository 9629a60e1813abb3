"""The summary at the end of `collect` and `replay`: reports received, rejected and lost, and events."""

from __future__ import annotations

from collections.abc import Mapping

from ...base.plural import plural
from ...detect.counters import stored_values

LOST = {
    "lost_reports": "missing by sequence number",
    "kernel_drops_total": "dropped by the kernel: the socket buffer or the ring was full",
    "abandoned_frames_total": "taken by a worker that was killed, which may have forwarded some",
    "xdp_lost_metadata_total": "forwarded by the XDP program without their metadata: its ring was full",
    "denied_frames_total": "from sources that are not allowed",
    "rate_limited_frames_total": "above the rate limit",
    "oversized_frames_total": "longer than the receive buffer",
    "detector_lost_reports_total": "not handed to the detector: its queue was full",
    "journal_lost_events_total": "events that could not be written to disk",
}
"""Counters of lost frames, reports and events, with their text in the summary."""
LABEL_LOST = {
    "label_kernel_drops_total": "datagrams dropped by the kernel",
    "label_denied_total": "datagrams from sources that are not allowed",
    "label_table_full_total": "labels of ports that the full table has no room for",
}


def family(counters: Mapping[str, int], name: str) -> dict[str, int]:
    """The nonzero counters of one family by label, largest first."""
    found = {
        key.partition(".")[2]: count
        for key, count in counters.items()
        if key.startswith(f"{name}.") and count
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def summary_lines(counters: Mapping[str, int]) -> list[str]:
    """The summary of counters by key, human-readable."""
    rejected = family(counters, "rejected_reports_total")
    events = family(counters, "events_total")
    packets = f" ({found:,} of them packets with telemetry)" if (found := counters["packets_total"]) else ""
    samples = sum(family(counters, "sflow_samples_total").values())
    records = counters["ipfix_records_total.flow"]
    if samples or records:
        packets += ", those of samples included,"
    lines = [
        f"received   {plural(counters['reports_total'], 'report')}{packets} in "
        f"{plural(counters['frames_total'], 'frame')} ({counters['frame_bytes_total']:,} bytes), "
        f"{plural(counters['hops_total'], 'hop')}"
    ]
    if samples or records:
        lines.append(
            f"sampled    {plural(samples, 'sample')} of sFlow, {plural(records, 'flow record')} of IPFIX and "
            "NetFlow 9"
        )
    if counters["other_frames_total"]:
        what = "without telemetry" if counters["forwarded_frames_total"] else "without a report"
        lines.append(f"other      {plural(counters['other_frames_total'], 'frame')} {what}")
    if counters["postcards_total"]:
        paths = family(counters, "postcard_paths_total")
        lines.append(
            f"postcards  {counters['postcards_total']:,}, {counters['joined_postcards_total']:,} of them "
            f"hops of joined paths; paths {_listed(paths)}"
        )
    lines += _sink_lines(counters)
    lines += _label_lines(counters)
    lines.append(f"rejected   {_listed(rejected)}")
    lost = ", ".join(f"{counters[key]:,} {text}" for key, text in LOST.items() if counters[key])
    lines.append(f"lost       {lost or 0}")  # without a total: one report may be missing in two ways
    if moved := counters["moved_reports_total"]:
        many = plural(moved, "report")
        lines.append(f"moved      {many} missing here, which other members of the cluster received")
    lines.append(f"events     {_listed(events)}")
    values, stored = counters["values_total"], stored_values(counters)
    if stored and values:
        lines.append(
            f"reduction  {values:,} values in the reports, {stored:,} stored: {values / stored:,.1f} to 1"
        )
    return lines


def _sink_lines(counters: Mapping[str, int]) -> list[str]:
    """Lines about a sink; empty for a collector of reports."""
    lines = []
    dropped = family(counters, "forward_drops_total")
    bypassed = counters["bypassed_frames_total"]
    if counters["forwarded_frames_total"] or dropped or bypassed:
        damaged = counters["unstripped_packets_total"]
        unverified = counters["unverified_packets_total"]
        in_kernel = sum(family(counters, "xdp_forwarded_frames_total").values())
        lines.append(
            f"forwarded  {plural(counters['forwarded_frames_total'], 'frame')}, "
            f"{counters['stripped_packets_total']:,} of them stripped of telemetry"
            + (f" ({unverified:,} unverified)" if unverified else "")
            + (f", {damaged:,} unchanged because their telemetry is damaged" if damaged else "")
            + (f"; {in_kernel:,} by the XDP program" if in_kernel else "")
        )
    if bypassed:
        lines.append(f"bypassed   {plural(bypassed, 'frame')}, which the kernel passed on as they were")
    if dropped:
        lines.append(f"dropped    {_listed(dropped)}")
    if flows := counters["unrecorded_flows_total"]:
        packets = counters["unrecorded_flow_packets_total"]
        lines.append(f"flows      {plural(flows, 'flow')} of {plural(packets, 'packet')} not in history")
    if counters["sink_packets_total"]:
        lines.append(
            f"sink       {plural(counters['sink_ring_events_total'], 'event')} in the event ring"
            f"{_types(counters)}"
        )
        if held := family(counters, "sink_throttled_events_total"):
            lines.append(f"throttled  {_listed(held)} by the quota")
        if more := counters["sink_journal_throttled_events_total"]:
            lines.append(f"history    {plural(more, 'event')} above sink.journal_events missing")
    if counters["sink_reports_total"] or counters["sink_report_drops_total"]:
        refused = counters["sink_reports_unreachable_total"]
        lines.append(
            f"reported   {plural(counters['sink_reports_total'], 'report')} to another collector, "
            f"{counters['sink_report_drops_total']:,} dropped"
            + (f"; {refused:,} ICMP answers: no collector listens there" if refused else "")
        )
    return lines


def _types(counters: Mapping[str, int]) -> str:
    """Events of each type; an event may have several."""
    found = family(counters, "sink_events_total")
    return "; by type: " + ", ".join(f"{count:,} {name}" for name, count in found.items()) if found else ""


def _label_lines(counters: Mapping[str, int]) -> list[str]:
    """Lines about labels; empty if no datagrams with labels arrived."""
    if not counters.get("label_datagrams_total"):
        return []
    lost = {text: counters[key] for key, text in LABEL_LOST.items() if counters[key]}
    rejected = family(counters, "label_rejected_total")
    return [
        f"labels     {counters['labels_total']:,} of {counters['label_ports']:,} ports in "
        f"{plural(counters['labelled_packets_total'], 'packet')}, {counters['late_labels_total']:,} of them "
        f"late; "
        f"rejected {_listed(rejected)}" + (f"; lost {_listed(lost)}" if lost else ""),
        *(
            [
                f"tracked   {plural(packets, 'packet')} of "
                f"{plural(counters['label_tracked_flows'], 'flow')}, "
                f"{plural(counters['label_tracked_path_changes_total'], 'path change')}"
            ]
            if (packets := counters["label_tracked_packets_total"])
            else []
        ),
        *(
            [f"intervals  {plural(changes, 'change')} by the controller"]
            if (changes := counters["label_changes_total"])
            else []
        ),
    ]


def _listed(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    if not total:
        return "0"
    return f"{total:,}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items())

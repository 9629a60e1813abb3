"""The lines of a summary."""

from __future__ import annotations

from collections import Counter

from hopscope.runtime.pipeline.summary import LOST, summary_lines


def test_postcards() -> None:
    """Postcards and the paths that were joined of them are said where there are any."""
    counts = Counter({"reports_total": 9, "frames_total": 9})
    assert not any(line.startswith("postcards") for line in summary_lines(counts))
    counts["postcards_total"], counts["joined_postcards_total"] = 9, 8
    counts["postcard_paths_total.complete"], counts["postcard_paths_total.incomplete"] = 2, 1
    line = next(line for line in summary_lines(counts) if line.startswith("postcards"))
    assert line == "postcards  9, 8 of them hops of joined paths; paths 3: 2 complete, 1 incomplete"


def test_moved_reports_are_counted_apart_from_lost_ones() -> None:
    """Reports that other members of the cluster received have a line of their own, if there are any."""
    counts = Counter({"lost_reports": 2})
    assert not any(line.startswith("moved") for line in summary_lines(counts))
    counts["moved_reports_total"] = 7
    assert summary_lines(counts)[2:4] == [
        "lost       2 missing by sequence number",
        "moved      7 reports missing here, which other members of the cluster received",
    ]


def test_the_reduction_counts_stored_values() -> None:
    """Flow records and alarms are events, and store no value of the reports."""
    counts = Counter({"reports_total": 9, "frames_total": 9, "values_total": 100})
    counts["events_total.new_key"], counts["events_total.change"], counts["events_total.push"] = 5, 10, 5
    counts["events_total.flow_record"], counts["events_total.raised"] = 50, 3
    assert summary_lines(counts)[-1] == "reduction  100 values in the reports, 20 stored: 5.0 to 1"


def test_a_sink() -> None:
    """What went on, what was found and what was held back is said where there is any."""
    counts = Counter({"reports_total": 9, "frames_total": 9})
    assert len(summary_lines(counts)) == 4
    counts["forwarded_frames_total"], counts["stripped_packets_total"] = 9, 7
    counts["forward_drops_total.no_slot"] = 2
    counts["unverified_packets_total"] = 1
    counts["xdp_forwarded_frames_total.stripped"], counts["xdp_forwarded_frames_total.unchanged"] = 4, 1
    counts["bypassed_frames_total"] = 6
    counts["sink_packets_total"], counts["sink_events_total.latency_above"] = 7, 3
    counts["sink_ring_events_total"], counts["sink_events_total.path_change"] = 3, 2
    counts["sink_throttled_events_total.latency_above"], counts["sink_journal_throttled_events_total"] = 5, 1
    counts["sink_reports_total"], counts["sink_reports_unreachable_total"] = 3, 2
    assert summary_lines(counts)[1:8] == [
        "forwarded  9 frames, 7 of them stripped of telemetry (1 unverified); 5 by the XDP program",
        "bypassed   6 frames, which the kernel passed on as they were",
        "dropped    2: 2 no_slot",
        "sink       3 events in the event ring; by type: 3 latency_above, 2 path_change",
        "throttled  5: 5 latency_above by the quota",
        "history    1 event above sink.journal_events missing",
        "reported   3 reports to another collector, 0 dropped; 2 ICMP answers: no collector listens there",
    ]


def test_losses_have_no_total() -> None:
    """A report that the kernel dropped is missing by its sequence number, too: the two are not added."""
    counts = Counter({"reports_total": 9, "frames_total": 9, "lost_reports": 5, "kernel_drops_total": 3})
    line = next(line for line in summary_lines(counts) if line.startswith("lost"))
    assert line == "lost       5 missing by sequence number, 3 " + LOST["kernel_drops_total"]

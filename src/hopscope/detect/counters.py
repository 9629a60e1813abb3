"""The workers' counters, declared once, in the order of the mapped array.

`/metrics`, `hopscope top`, `hopscope demo` and docs/reference/counters.md read this table; nothing else names
a counter. Law 5: everything that moves has a counter, everything rejected has a reason.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter, family, late_kernels
from ..memory.counter_region import CounterFile
from ..memory.region import Region
from ..wire.reasons import DropReason, Place, Reason
from .records import METRICS, Kind, Metric
from .sink.records import Type

STORED = (Kind.NEW_KEY, Kind.CHANGE, Kind.PUSH, Kind.VALUE)
"""Kinds of events that store a value of the reports."""
COUNTERS_KIND = "counters"
COUNTERS_VERSION = 1
"""Kind and version of a worker's region of counters."""
DETECTOR = "detector"
"""Name of the process that detects for several workers, and of its counters."""
_TYPES = {kind.label: number for number, kind in enumerate(Type)}
COUNTERS: tuple[Counter, ...] = (
    Counter(
        "frames_total",
        "Frames received from capture (datagrams, or packets of a file), including those that an XDP "
        "program counted or forwarded.",
    ),
    Counter("frame_bytes_total", "Bytes of the received frames."),
    Counter("other_frames_total", "Frames without telemetry: another protocol or port."),
    Counter(
        "kernel_drops_total",
        "Datagrams or frames dropped by the operating system: the socket buffer or the ring was full. Those "
        "dropped while systemd restarted the collector are counted at its start.",
        of="received.kernel_drops_total",
        absolute=True,
    ),
    Counter(
        "denied_frames_total",
        "Datagrams from sources that are not on the allow list.",
        of="received.denied_frames_total",
    ),
    Counter(
        "rate_limited_frames_total",
        "Datagrams dropped by the rate limit per source.",
        of="received.rate_limited_frames_total",
    ),
    Counter(
        "oversized_frames_total",
        "Datagrams and frames longer than the receive buffer, rejected.",
        of="received.oversized_frames_total",
    ),
    Counter(
        "bypassed_frames_total",
        "Frames that a sink received and the kernel forwarded unchanged, while no worker did, "
        "including those that the output then dropped.",
    ),
    Counter(
        "interface_returns_total",
        "Interfaces that were deleted, created again, and bound again.",
        of="received.interface_returns_total",
    ),
    Counter(
        "interface_gap_ns_total",
        "Time from the deletion of an interface until it was bound again; with an XDP program, this may be "
        "up to a second too long.",
        of="received.interface_gap_ns_total",
    ),
    Counter(
        "abandoned_frames_total",
        "Frames that a killed worker had taken from its ring; those that it had not forwarded are lost.",
        of="received.abandoned_frames_total",
    ),
    Counter(
        "completed_checksums_total",
        "Frames with an offloaded checksum, which the collector completed.",
        of="received.completed_checksums_total",
    ),
    Counter("reports_total", "Reports decoded, including packets that carry telemetry themselves."),
    Counter("packets_total", "Packets that carry INT, IOAM or IFA themselves, without a report around them."),
    Counter("hops_total", "Hops in decoded reports."),
    Counter(
        "unknown_int_packets_total",
        "Packets, also inside reports, whose DSCP or port announces INT, but whose INT has no known "
        "version; they are treated as ordinary traffic.",
    ),
    *family(
        "xdp_datagrams_total",
        "Datagrams that the XDP program counted itself (`filtered`) or passed to the collector, by reason.",
        "outcome",
        ("filtered", "unusual", "unknown", "changed", "flagged", "sequence", "busy", "unfiltered"),
        of="received.xdp_{}",
    ),
    *family(
        "xdp_passed_datagrams_total",
        "Datagrams that the XDP program left to the network stack, by reason: IP fragments, contradictory "
        "lengths.",
        "reason",
        ("fragment", "bad_length"),
        of="received.xdp_{}",
    ),
    *family(
        "xdp_forwarded_frames_total",
        "Frames that the XDP program of a sink forwarded, unchanged or without their INT. Frames "
        "that its workers forwarded are not included.",
        "outcome",
        ("unchanged", "stripped"),
        of="received.wire_{}",
    ),
    *family(
        "xdp_passed_frames_total",
        "Frames that the XDP program of a sink passed to its workers, by reason: headers that it "
        "does not read, IP fragments, contradictory lengths, INT of another form or damaged, "
        "checksums that a sender left to its card, frames longer than the output's MTU, output or "
        "worker not ready.",
        "reason",
        ("form", "fragment", "length", "int", "checksum", "long", "off"),
        of="received.wire_{}",
    ),
    Counter(
        "xdp_lost_metadata_total",
        "Packets with INT that the XDP program of a sink forwarded while the ring to its worker was full: "
        "their metadata is lost.",
        of="received.wire_lost",
    ),
    *family(
        "rejected_reports_total", "Reports rejected, by reason.", "reason", [r.label for r in Reason if r]
    ),
    *family(
        "rejected_headers_total",
        "Reports rejected, by the header that could not be read.",
        "header",
        [header.name.lower() for header in Place if header],
    ),
    *family(
        "sflow_samples_total",
        "sFlow samples, by kind.",
        "kind",
        ("flow", "counter", "discarded", "other"),
        of="received.sflow_{}_samples",
    ),
    Counter(
        "sflow_pool_packets_total",
        "Packets from which sFlow agents chose their samples.",
        of="received.sflow_pool_packets",
    ),
    Counter(
        "sflow_lost_samples_total",
        "Samples that agents of sFlow lost for lack of resources.",
        of="received.sflow_lost_samples",
    ),
    Counter(
        "sflow_port_discards_total",
        "Packets that interfaces discarded, according to their counters in sFlow.",
        of="received.sflow_port_discards",
    ),
    *family(
        "ipfix_records_total",
        "Data records of IPFIX and NetFlow 9, by kind.",
        "kind",
        ("flow", "options", "other"),
        of="received.ipfix_{}_records",
    ),
    Counter(
        "ipfix_early_sets_total",
        "Data sets of IPFIX and NetFlow 9 that arrived before their template.",
        of="received.ipfix_early_sets",
    ),
    Counter(
        "ipfix_expired_sets_total",
        "Data sets of IPFIX and NetFlow 9 dropped because their template did not arrive in time, or because "
        "there was no room to wait.",
        of="received.ipfix_expired_sets",
    ),
    Counter(
        "ipfix_rejected_templates_total",
        "Templates rejected or dropped for lack of room: too many of a domain or an address, or too many "
        "fields.",
        of="received.ipfix_rejected_templates",
    ),
    Counter(
        "ipfix_domains",
        "Observation domains of exporters that are known now.",
        of="received.ipfix_domains",
        gauge=True,
    ),
    Counter(
        "ipfix_templates",
        "Templates of IPFIX and NetFlow 9 that are known now.",
        of="received.ipfix_templates",
        gauge=True,
    ),
    Counter(
        "ipfix_open_connections",
        "Connections of exporters of IPFIX over TCP that are open now.",
        of="received.ipfix_connections",
        gauge=True,
    ),
    Counter(
        "ipfix_connections_total",
        "Accepted connections of exporters of IPFIX over TCP.",
        of="received.ipfix_connections_opened",
    ),
    *family(
        "ipfix_closed_connections_total",
        "Connections of exporters that ended, by reason: closed by the exporter, cut within a message, "
        "damaged, or slow: no whole message in 60 s.",
        "reason",
        ("end", "cut", "bad_header", "slow"),
        of="received.ipfix_connections_closed_{}",
    ),
    *family(
        "ipfix_refused_connections_total",
        "Connections of exporters that were not accepted, by reason: all are in use, the share of their "
        "source is, or the source is not allowed.",
        "reason",
        ("full", "source", "denied"),
        of="received.ipfix_connections_refused_{}",
    ),
    Counter(
        "ipfix_waiting_sets",
        "Data sets that wait for their template.",
        of="received.ipfix_waiting_sets",
        gauge=True,
    ),
    Counter("forwarded_frames_total", "Frames forwarded by a sink, to an interface or into a file."),
    Counter(
        "stripped_packets_total",
        "Forwarded frames whose INT, IFA or IOAM a sink removed, restoring the packet.",
    ),
    Counter(
        "unverified_packets_total",
        "Stripped frames whose checksum was wrong with and without the telemetry; it is left as received.",
    ),
    Counter(
        "unstripped_packets_total", "Frames forwarded unchanged because their INT, IOAM or IFA is damaged."
    ),
    *family(
        "forward_drops_total",
        "Frames that a sink did not forward, by reason.",
        "reason",
        [drop.label for drop in DropReason if drop],
    ),
    Counter(
        "lost_reports",
        "Reports missing by sequence number, minus those that arrived late.",
        gauge=True,
        tally="flows.LOST",
    ),
    Counter(
        "duplicate_reports_total",
        "Reports with a sequence number that was already seen.",
        tally="flows.DUPLICATE",
    ),
    Counter(
        "reordered_reports_total",
        "Reports that arrived after one with a higher sequence number.",
        tally="flows.REORDERED",
    ),
    Counter(
        "postcards_total",
        "Postcards: reports of a single node about a packet without an INT stack.",
        tally="postcards.POSTCARDS",
    ),
    Counter(
        "joined_postcards_total", "Postcards that became hops of a joined path.", tally="postcards.IN_PATHS"
    ),
    *family(
        "postcard_paths_total",
        "Paths joined from postcards, by completeness.",
        "path",
        {"complete": "COMPLETE", "incomplete": "INCOMPLETE"},
        tally="postcards.{}",
    ),
    Counter(
        "postcard_evictions_total",
        "Paths emitted too early because the postcard table was full.",
        tally="postcards.EVICTED",
    ),
    Counter(
        "late_postcards_total",
        "Postcards that arrived after their packet's path was emitted.",
        tally="postcards.LATE",
    ),
    Counter(
        "duplicate_postcards_total",
        "Postcards of a node and packet that were already seen.",
        tally="postcards.DUPLICATES",
    ),
    *family(
        "events_total",
        "Events, by kind.",
        "kind",
        {kind.label: int(kind) for kind in Kind},
        tally="flows.EVENTS.{}",
    ),
    *family(
        "alarms",
        "Alarms that are currently raised, by metric.",
        "metric",
        {metric.label: int(metric) for metric in Metric if Metric.FLOW_PATH < metric < METRICS},
        tally="flows.ALARMS.{}",
        gauge=True,
    ),
    Counter(
        "values_total",
        "Metric values in all reports: the number that would be stored without event detection.",
        tally="flows.VALUES",
    ),
    Counter(
        "flow_evictions_total",
        "Flows evicted because their row of the flow table was full.",
        tally="flows.EVICTIONS",
    ),
    Counter("flow_expiries_total", "Flows expired after the idle timeout.", tally="flows.EXPIRIES"),
    Counter(
        "port_table_full_total",
        "Values discarded because the table of queues and ports was full.",
        tally="flows.PORTS_FULL",
    ),
    Counter(
        "port_evictions_total",
        "Queues, buffers and ports evicted from a source that has many, to make room for those of "
        "another source.",
        tally="flows.PORT_EVICTIONS",
    ),
    Counter(
        "distribution_table_full_total",
        "Hops not counted because the distribution table was full.",
        tally="sink.DISTRIBUTIONS_FULL",
    ),
    Counter(
        "distribution_evictions_total",
        "Queues whose distributions were evicted to make room for another queue, because the table was full.",
        tally="sink.DISTRIBUTION_EVICTIONS",
    ),
    Counter(
        "source_table_full_total",
        "Reports not checked for loss because the source table was full.",
        tally="flows.SOURCES_FULL",
    ),
    Counter(
        "source_evictions_total",
        "Sequence spaces evicted from a source that has many, to make room for those of another source.",
        tally="flows.SOURCE_EVICTIONS",
    ),
    Counter(
        "hop_pool_full_total",
        "Paths truncated to 8 hops of state because the hop pool was full.",
        tally="flows.POOL_FULL",
    ),
    Counter(
        "hops_without_node_id_total",
        "Hops without a node id, which cannot be assigned to a switch.",
        tally="flows.WITHOUT_NODE_ID",
    ),
    Counter(
        "detector_lost_reports_total",
        "With several workers: reports that a worker could not hand to the detector because the "
        "queue was full.",
    ),
    Counter(
        "detector_waiting_reports",
        "With several workers: reports that wait for the detector.",
        gauge=True,
    ),
    Counter(
        "detector_queue_full",
        "With several workers: 1 while a worker's queue to the detector is full, else 0.",
        gauge=True,
        highest=True,
    ),
    Counter(
        "given_postcards_total",
        "Postcards whose flow another member of the cluster owns: they are sent there.",
    ),
    Counter(
        "given_postcards_lost_total",
        "Postcards for another member that found no room in the queue to the `cluster` process.",
    ),
    Counter(
        "moved_reports_total",
        "Reports missing here whose sequence numbers other members of the cluster had; they no "
        "longer count as lost.",
    ),
    Counter("sink_reports_total", "Telemetry Reports that the sink sent to another collector."),
    Counter(
        "sink_report_drops_total",
        "Reports that the sink did not send: full socket buffer, or no route.",
    ),
    Counter("sink_reports_unreachable_total", "ICMP port-unreachable errors from the other collector."),
    Counter(
        "sink_packets_total",
        "Packets with INT, IOAM or IFA that a sink added to its flow table.",
        tally="sink.PACKETS",
    ),
    Counter("sink_ring_events_total", "Events in a sink's event ring."),
    *family(
        "sink_events_total",
        "Events in a sink's event ring, by type; an event may have several types.",
        "type",
        _TYPES,
        tally="sink.OF_TYPE.{}",
    ),
    *family(
        "sink_throttled_events_total",
        "Sink events suppressed by the quota, by type.",
        "type",
        _TYPES,
        tally="sink.HELD_BACK_TYPE.{}",
    ),
    Counter(
        "sink_journal_throttled_events_total",
        "Sink events missing in history, suppressed by its own quota.",
        tally="sink.HELD_BACK_JOURNAL",
    ),
    Counter(
        "unrecorded_flows_total",
        "Flows without a flow record in history: more than `sink.journal_flows`, or no time left at the end.",
    ),
    Counter("unrecorded_flow_packets_total", "Packets of flows without a flow record in history."),
    Counter(
        "sink_threshold_increase_permille",
        "How far a sink has raised its thresholds above the configured ones (0: not at all).",
        gauge=True,
        highest=True,
    ),
    Counter("journal_bytes_total", "Bytes written to the journal."),
    Counter("journal_retries_total", "Journal writes retried after a failure such as a full disk."),
    Counter(
        "journal_lost_events_total",
        "Events missing in history: overwritten in memory before the disk took them.",
    ),
    Counter(
        "journal_waiting_events",
        "Events that wait in memory to be written to disk.",
        gauge=True,
    ),
    Counter("evidence_reports_total", "Reports kept because they caused a notable event."),
    Counter(
        "evidence_skipped_total",
        "Reports of notable events that were not kept because of `history.evidence_per_second`.",
    ),
    Counter(
        "evidence_incomplete_total",
        "Reports kept without the bytes of all their datagrams: a datagram was overwritten before the event "
        "was found, reached another member of the cluster, or is longer than 65,536 bytes.",
    ),
    Counter(
        "journal_failing", "1 while the journal cannot be written to disk, else 0.", gauge=True, highest=True
    ),
    Counter("journal_sync_failures_total", "Failed fsync calls of the journal."),
    Counter(
        "ticks_total",
        "Clock ticks of a worker, ten per second; a worker that hangs has none.",
    ),
    late_kernels(),
    Counter("busy_ns_total", "Time that the worker spent on reports; it slept the rest of the time."),
    Counter("busy_capture_ns_total", "Busy time spent receiving frames."),
    Counter("busy_decode_ns_total", "Busy time spent decoding."),
    Counter(
        "busy_handover_ns_total",
        "Busy time that several workers spent handing reports to the detector.",
    ),
    Counter("busy_detect_ns_total", "Busy time spent detecting events."),
    Counter("busy_journal_ns_total", "Busy time spent writing the journal and the ring."),
)
Slots = npt.NDArray[np.int64]
INDEX: dict[str, int] = {counter.key: i for i, counter in enumerate(COUNTERS)}
"""Slot of each counter in the block, by key."""


def by_key(counters: npt.NDArray[np.uint64]) -> dict[str, int]:
    """Counters of a block, uint64 [COUNTERS], by their keys."""
    return {key: int(counters[slot]) for key, slot in INDEX.items()}


def tally_slots(**kernels: Any) -> tuple[Slots, Slots]:
    """(slots of the kernels' tally, places in COUNTERS to which they are added), int64 [n] each.

    `Counter.tally` is `KERNEL.SLOT` or `KERNEL.SLOT.OFFSET`; `kernels` has the module of each KERNEL.
    """
    pairs = []
    for place, counter in enumerate(COUNTERS):
        room, slot, offset, *_ = f"{counter.tally}...".split(".")
        if room in kernels:
            pairs.append((int(getattr(kernels[room], slot)) + int(offset or 0), place))
    slots, places = np.array(pairs, np.int64).T
    return slots, places


def counters_of(process: str) -> CounterFile:
    """The counters of a process (such as `worker-0`), in the folder of regions."""
    return CounterFile(f"{process}.counters", COUNTERS_KIND, COUNTERS_VERSION, COUNTERS)


def process_of(name: str) -> str | None:
    """The process whose counters a file holds: a worker's number, or DETECTOR; None: not a counter file."""
    found = re.fullmatch(rf"(?:worker-(\d+)|({DETECTOR}))\.counters", name)
    return None if found is None else found[1] or found[2]


def counter_files(regions: Path) -> dict[str, Path]:
    """Files of the counters in a folder of regions, by process."""
    found = ((process_of(path.name), path) for path in sorted(regions.glob("*.counters")))
    return {process: path for process, path in found if process is not None}


def attach_counters(path: Path) -> npt.NDArray[np.uint64]:
    """Counters of a worker for reading, uint64 [COUNTERS]. Raises RegionError."""
    return Region.attach(path, COUNTERS_KIND, COUNTERS_VERSION)["counters"]


def stored_values(counters: Mapping[str, int]) -> int:
    """Number of values that events stored; `values_total` divided by this is the reduction."""
    return sum(counters.get(f"events_total.{kind.label}", 0) for kind in STORED)

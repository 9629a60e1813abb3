"""Counters of RoCEv2 connections and of the software NIC."""

from ..base.counter import Counter, family, late_kernels
from ..memory.counter_region import CounterFile
from ..wire.reasons import RoceReason
from .records import Sender

COUNTERS = (
    Counter("verbs_total", "Memory operations accepted for sending."),
    Counter("completed_verbs_total", "Memory operations acknowledged, or sent if none is expected."),
    Counter("rejected_verbs_total", "Memory operations not sent because they are outside the peer's memory."),
    Counter("dropped_verbs_total", "Memory operations dropped after a resynchronisation (DTA 5.2)."),
    Counter("given_up_verbs_total", "Memory operations abandoned because the connection was lost."),
    Counter("packets_total", "Packets sent, including retransmissions."),
    Counter("retransmitted_packets_total", "Packets retransmitted."),
    Counter("acks_total", "Acknowledgments that advanced the window."),
    Counter("stale_answers_total", "Answers to packets that were already acknowledged."),
    Counter("sequence_naks_total", "NAKs for lost packets (PSN sequence error)."),
    Counter("other_naks_total", "NAKs that ended a connection."),
    Counter("not_ready_naks_total", "NAKs of a receiver without a buffer (RNR)."),
    Counter("timeouts_total", "Acknowledgment timeouts."),
    Counter("resynchronisations_total", "Resynchronisations of the packet sequence number (DTA 5.2)."),
    Counter("abandoned_packets_total", "Packets given up as lost before a resynchronisation."),
    Counter("congestion_notifications_total", "Congestion notifications received (CNP)."),
)  # fmt: skip
"""Counters of a requester."""
SENDER_INDEX = {
    "verbs_total": Sender.VERBS,
    "completed_verbs_total": Sender.COMPLETED,
    "rejected_verbs_total": Sender.REJECTED,
    "packets_total": Sender.PACKETS,
    "retransmitted_packets_total": Sender.RETRANSMITTED,
    "acks_total": Sender.ACKS,
    "stale_answers_total": Sender.STALE,
    "sequence_naks_total": Sender.SEQUENCE_NAKS,
    "other_naks_total": Sender.OTHER_NAKS,
    "not_ready_naks_total": Sender.NOT_READY,
    "resynchronisations_total": Sender.RESYNCS,
    "abandoned_packets_total": Sender.ABANDONED,
    "congestion_notifications_total": Sender.CNPS,
}
"""Index in the requester's state of the counters that kernels update."""
NIC_COUNTERS = CounterFile("nic.counters", "nic", 1, (
    Counter("nic_packets_total", "Packets received by the software NIC.", of="ports.counts.packets"),
    Counter("nic_executed_total", "Requests executed.", of="ports.reasons.0"),
    *family(
        "nic_rejected_total", "Packets rejected, by reason.", "reason",
        {reason.label: int(reason) for reason in RoceReason if reason}, of="ports.reasons.{}",
    ),
    Counter("nic_verbs_total", "Memory operations executed.", of="ports.counts.verbs"),
    Counter("nic_answers_total", "Answers sent: ACK, NAK, ATOMIC_ACK.", of="ports.counts.answers"),
    Counter(
        "nic_notices_total", "Notices written for the owners of memory regions.",
        of="ports.counts.notices",
    ),
    Counter(
        "nic_congestion_notifications_total", "Congestion notifications sent (CNP).",
        of="ports.counts.notifications",
    ),
    Counter(
        "nic_denied_total", "Datagrams from addresses that are not on the allow list.",
        of="ports.counts.denied",
    ),
    Counter(
        "nic_kernel_drops_total", "Datagrams dropped by the kernel: the socket buffer was full.",
        of="ports.counts.kernel_drops",
    ),
    Counter("nic_connections_total", "Connections made.", of="ports.counts.established"),
    Counter(
        "nic_rejected_connections_total", "Connection requests rejected.",
        of="ports.counts.rejected",
    ),
    Counter("nic_queue_pairs", "Connected queue pairs.", of="queue_pairs", gauge=True),
    late_kernels("nic_"),
))  # fmt: skip
"""Of a software NIC, in the folder of its stores."""

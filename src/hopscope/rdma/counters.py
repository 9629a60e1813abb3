"""Counters of RoCEv2 connections and of the software NIC, declared once."""

from __future__ import annotations

from dataclasses import dataclass

from ..wire.reasons import RoceReason
from .records import Sender


@dataclass(frozen=True, slots=True)
class Counter:
    """One counter, a uint64."""

    name: str
    """Prometheus name without its prefix."""
    help: str
    place: Sender | None = None
    """Where a requester's kernels count it."""
    label: tuple[str, str] | None = None

    @property
    def key(self) -> str:
        """`name`, or `name.value` in a family."""
        return f"{self.name}.{self.label[1]}" if self.label else self.name


COUNTERS = (
    Counter("verbs_total", "Memory operations taken to be sent.", Sender.VERBS),
    Counter("completed_verbs_total", "Of these, acknowledged (or only sent).", Sender.COMPLETED),
    Counter("refused_verbs_total", "Of these, not sent: outside the peer's memory.", Sender.REFUSED),
    Counter("dropped_verbs_total", "Memory operations dropped after a resynchronisation (DTA 5.2)."),
    Counter("given_up_verbs_total", "Memory operations given up because the connection was lost."),
    Counter("packets_total", "Packets sent, again or for the first time.", Sender.PACKETS),
    Counter("retransmitted_packets_total", "Of these, sent again.", Sender.RETRANSMITTED),
    Counter("acks_total", "Acknowledgments that were news.", Sender.ACKS),
    Counter("stale_answers_total", "Answers to what had been answered.", Sender.STALE),
    Counter("sequence_naks_total", "NAKs about packets that were lost.", Sender.SEQUENCE_NAKS),
    Counter("other_naks_total", "NAKs that ended a connection.", Sender.OTHER_NAKS),
    Counter("not_ready_naks_total", "NAKs of a receiver without a buffer.", Sender.NOT_READY),
    Counter("timeouts_total", "Times that nothing was acknowledged for too long."),
    Counter("resynchronisations_total", "Packet numbers set anew (DTA 5.2).", Sender.RESYNCS),
    Counter("abandoned_packets_total", "Packets lost before these.", Sender.ABANDONED),
    Counter("congestion_notifications_total", "Congestion notifications taken (CNP).", Sender.CNPS),
)  # fmt: skip
"""Of a requester."""
NIC_COUNTERS = (
    Counter("nic_packets_total", "Packets that came to the software NIC."),
    Counter("nic_executed_total", "Requests that were executed."),
    *(
        Counter("nic_refused_total", "Packets that were not, by reason.", None, ("reason", reason.label))
        for reason in RoceReason
        if reason
    ),
    Counter("nic_verbs_total", "Memory operations executed."),
    Counter("nic_answers_total", "Answers sent: ACK, NAK, ATOMIC_ACK."),
    Counter("nic_notices_total", "Notices written for the owners of memories."),
    Counter("nic_congestion_notifications_total", "Congestion notifications sent (CNP)."),
    Counter("nic_denied_total", "Datagrams of addresses that are not on the list of allowed ones."),
    Counter("nic_kernel_drops_total", "Datagrams that the kernel dropped because the buffer was full."),
    Counter("nic_connections_total", "Connections made."),
    Counter("nic_refused_connections_total", "Requests for a connection that were refused."),
    Counter("nic_queue_pairs", "Queue pairs that are connected."),
)
"""Of the software NIC, in the order of its region."""

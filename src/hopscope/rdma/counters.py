"""Counters of RoCEv2 connections and of the software NIC, declared once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..base.counter import Counter
from ..memory.counted import read_counted
from ..memory.region import Region
from ..wire.reasons import RoceReason
from .records import Sender

COUNTERS = (
    Counter("verbs_total", "Memory operations taken to be sent."),
    Counter("completed_verbs_total", "Of these, acknowledged (or only sent)."),
    Counter("refused_verbs_total", "Of these, not sent: outside the peer's memory."),
    Counter("dropped_verbs_total", "Memory operations dropped after a resynchronisation (DTA 5.2)."),
    Counter("given_up_verbs_total", "Memory operations given up because the connection was lost."),
    Counter("packets_total", "Packets sent, again or for the first time."),
    Counter("retransmitted_packets_total", "Of these, sent again."),
    Counter("acks_total", "Acknowledgments that were news."),
    Counter("stale_answers_total", "Answers to what had been answered."),
    Counter("sequence_naks_total", "NAKs about packets that were lost."),
    Counter("other_naks_total", "NAKs that ended a connection."),
    Counter("not_ready_naks_total", "NAKs of a receiver without a buffer."),
    Counter("timeouts_total", "Times that nothing was acknowledged for too long."),
    Counter("resynchronisations_total", "Packet numbers set anew (DTA 5.2)."),
    Counter("abandoned_packets_total", "Packets lost before these."),
    Counter("congestion_notifications_total", "Congestion notifications taken (CNP)."),
)  # fmt: skip
"""Of a requester."""
PLACES = {
    "verbs_total": Sender.VERBS,
    "completed_verbs_total": Sender.COMPLETED,
    "refused_verbs_total": Sender.REFUSED,
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
"""Where its kernels count those that they count."""
NIC_COUNTERS = (
    Counter("nic_packets_total", "Packets that came to the software NIC."),
    Counter("nic_executed_total", "Requests that were executed."),
    *(
        Counter("nic_refused_total", "Packets that were not, by reason.", ("reason", reason.label))
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
    Counter("nic_queue_pairs", "Queue pairs that are connected.", gauge=True),
)
"""Of the software NIC, in the order of its region."""


NIC_INDEX = {counter.key: number for number, counter in enumerate(NIC_COUNTERS)}
NIC_FILE, NIC_KIND, NIC_VERSION = "nic.counters", "nic", 1


def create_nic_counters(path: Path | None) -> npt.NDArray[np.uint64]:
    """uint64 [NIC_COUNTERS] of a NIC that starts, mapped where a path is given. Raises RegionError."""
    region = Region.create(path, NIC_KIND, NIC_VERSION, {"counters": (np.uint64, len(NIC_COUNTERS))})
    counters: npt.NDArray[np.uint64] = region["counters"]
    return counters


def read_nic_counters(folder: Path) -> npt.NDArray[np.uint64]:
    """uint64 [NIC_COUNTERS] of the NIC that runs, or ran last, on a folder; zeros where none did."""
    return read_counted(folder / NIC_FILE, NIC_KIND, NIC_VERSION, len(NIC_COUNTERS))

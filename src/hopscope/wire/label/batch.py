"""Batches of frames and export datagrams to LABEL records, and records to datagrams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...base.hash_keys import hash_keys
from ..buffer import push
from ..reasons import Reason
from ..records import FrameBatch, Records
from . import layout
from .codec import MAX_HOP, MAX_ITEMS, LabelFlow, push_flow, push_item
from .layout import LabelItem
from .records import LABEL, LABEL_FLOW


@dataclass(slots=True)
class LabelBatch:
    """The contents of a batch of frames."""

    labels: Records
    """LABEL [labels]; labels of one packet are consecutive, in path order."""
    codes: npt.NDArray[np.uint16]
    """Why a frame, or the rest of a datagram after its last good block, was rejected: 0, or
    `Reason << 8 | Place`, uint16 [frames].
    """
    packets: int
    """Labelled packets, or blocks."""
    other: int
    """Frames without labels."""
    flows: Records
    """LABEL_FLOW [flows] of the packets whose last hop reported the flow, in their order."""

    @property
    def refused(self) -> npt.NDArray[np.int64]:
        """Frames and datagrams by `Reason` of rejection, int64 [reasons]; accepted ones are at 0."""
        return np.bincount(self.codes >> 8, minlength=len(Reason))


class LabelDecoder:
    """The batch decoder; its blocks are reused, so a result is valid until the next call.

    A payload from a socket (Link.UDP_PAYLOAD) is a last hop's datagram; any other frame is a packet with or
    without labels.
    """

    def __init__(
        self, max_hop: int = MAX_HOP, *, protocol: int = layout.PROTOCOL_LABEL, secret: bytes | None = None
    ) -> None:
        """`secret`: secret of the hash of a label's sender, `owner`; None: all owners are 0."""
        from ...base.kernels.jit import readonly
        from . import label_kernel

        self._kernel = label_kernel.decode_frames
        self._readonly = readonly
        self._max_hop, self._protocol = np.uint64(max_hop), np.uint64(protocol)
        self._keys = np.zeros(2, np.uint64) if secret is None else hash_keys(secret, 2)
        self._labels = np.zeros(4096, LABEL)
        self._flows = np.zeros(1024, LABEL_FLOW)
        self._counts = np.zeros(3, np.uint64)

    def decode(self, frames: FrameBatch) -> LabelBatch:
        """The labels of a batch."""
        size = int(frames.frames["length"].sum(dtype=np.uint64))
        maximum = size // layout.LABEL_STATE.size
        if maximum > len(self._labels):
            self._labels = np.zeros(2 * maximum, LABEL)
        maximum = size // (layout.LABEL_FLOW.size + layout.LABEL_OPTION.size + layout.LABEL_STATE.size)
        if maximum > len(self._flows):
            self._flows = np.zeros(2 * maximum, LABEL_FLOW)
        codes = np.zeros(len(frames), np.uint16)
        count = int(
            self._kernel(
                self._readonly(frames.arena), self._readonly(frames.frames), self._max_hop, self._protocol,
                self._keys, self._labels, self._flows, codes, self._counts,
            )
        )  # fmt: skip
        packets, other, flows = self._counts.tolist()
        return LabelBatch(self._labels[:count], codes, packets, other, self._flows[:flows])


def flow_of(row: np.void) -> LabelFlow:
    """The flow of a LABEL_FLOW record."""
    source, target = (int(row[f"{end}_hi"]) << 64 | int(row[f"{end}_lo"]) for end in ("src", "dst"))
    return LabelFlow(source, target, int(row["proto"]), int(row["sport"]), int(row["dport"]))


def encode_blocks(
    labels: Records, *, flows: Records | None = None, max_hop: int = MAX_HOP, next_header: int = 0
) -> bytes:
    """A last hop's datagram: a block for each packet of LABEL records, which are in path order; packets with
    a LABEL_FLOW record with their flow.

    Raises ValueError if a packet has more labels than its option can count.
    """
    out = bytearray()
    flow_by = {} if flows is None else {int(row["packet"]): flow_of(row) for row in flows}
    starts = np.flatnonzero(np.diff(labels["packet"], prepend=-1, append=-1))
    for start, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rows = labels[start:end]
        tracked = bool(rows["tracked"][0])
        maximum = MAX_ITEMS - max_hop if tracked else max_hop
        if len(rows) > maximum:
            raise ValueError(f"{len(rows)} labels of one packet, at most {maximum}")
        count = len(rows) + tracked * max_hop
        flow = flow_by.get(int(rows["packet"][0]))
        if flow is not None:
            push_flow(out, flow)
        protocol = next_header if flow is None else flow.protocol
        push(out, layout.LABEL_OPTION, {"next_header": protocol, "count": count})
        for time_ns, node, latency, occupancy, _, ingress, egress, *_ in reversed(rows.tolist()):
            push_item(out, LabelItem(node, ingress, egress, time_ns % (1 << 64), latency, occupancy))
    return bytes(out)

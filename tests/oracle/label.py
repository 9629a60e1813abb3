"""Labels of frames."""

from __future__ import annotations

import numpy as np

from hopscope.wire.errors import WireError
from hopscope.wire.label import layout
from hopscope.wire.label.batch import LabelBatch
from hopscope.wire.label.codec import MAX_HOP, LabelFlow, read_blocks, read_labels
from hopscope.wire.label.item import Labelled
from hopscope.wire.label.records import LABEL, LABEL_FLOW
from hopscope.wire.reasons import Place, Reason
from hopscope.wire.records import FrameBatch, Link

_LOW = (1 << 64) - 1


def decode_scalar(
    frames: FrameBatch, max_hop: int = MAX_HOP, *, protocol: int = layout.PROTOCOL_LABEL
) -> LabelBatch:
    """The same in pure Python."""
    rows: list[tuple[int, ...]] = []
    flows: list[tuple[object, ...]] = []
    codes = np.zeros(len(frames), np.uint16)
    packets = other = 0
    for i, frame in enumerate(frames.frames):
        start = int(frame["offset"])
        raw = frames.arena[start : start + int(frame["length"])].tobytes()
        found, error = _labels_of(raw, frame, max_hop, protocol)
        for one in found:
            rows += _rows(one, packets)
            if one.flow is not None:
                flows.append(_flow_row(one.flow, packets))
            packets += 1
        if error:
            codes[i] = error.reason << 8 | error.place
        elif not found:
            other += 1
    return LabelBatch(np.array(rows, LABEL), codes, packets, other, np.array(flows, LABEL_FLOW))


def _labels_of(
    raw: bytes, frame: np.void, max_hop: int, protocol: int
) -> tuple[list[Labelled], WireError | None]:
    if frame["link"] == Link.UDP_PAYLOAD:
        found, error = read_blocks(raw, max_hop=max_hop)
        if error is None and frame["wire_length"] > frame["length"]:
            error = WireError(Reason.TRUNCATED, Place.LABEL, len(raw), "the capture cut the datagram")
        return found, error
    try:
        one = read_labels(raw, max_hop=max_hop, protocol=protocol, link=int(frame["link"]))
    except WireError as error:
        return [], error
    return [one] if one else [], None


def _rows(labelled: Labelled, packet: int) -> list[tuple[int, ...]]:
    path = labelled.path()
    return [
        (
            item.time_ns - ((item.time_ns >> 63) << 64), item.node_id, item.latency_ns, item.occupancy,
            packet, item.ingress_port, item.egress_port, position, len(path), labelled.tracked, 0,
        )
        for position, item in enumerate(path)
    ]  # fmt: skip


def _flow_row(flow: LabelFlow, packet: int) -> tuple[object, ...]:
    return (
        flow.source >> 64, flow.source & _LOW, flow.destination >> 64, flow.destination & _LOW, packet,
        flow.source_port, flow.destination_port, flow.protocol, (0,) * 7,
    )  # fmt: skip

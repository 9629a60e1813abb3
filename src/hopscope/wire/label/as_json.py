"""Labels as the objects that `hopscope label decode` prints: one for each labelled packet, and for each block
of a last hop's datagram.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from .. import layout
from ..address import address
from ..buffer import Buffer
from ..dta.parser import dialect_of_port
from ..errors import WireError
from ..headers.datagram import Datagram, find_datagram
from ..headers.ethernet import Ip, pull_ip
from ..reasons import Place, Reason
from ..records import FrameBatch, Link
from .codec import MAX_HOP, Form, LabelFlow, Labelled, read_blocks, read_labels
from .layout import LABEL_PORT, PROTOCOL_LABEL, LabelItem, PublishedItem

_LOW = (1 << 64) - 1
_FORMS = {Form.PAPER: "packet", Form.PUBLISHED: "published", Form.EXPORT: "export"}


def label_objects(
    batch: FrameBatch,
    *,
    max_hop: int = MAX_HOP,
    protocol: int = PROTOCOL_LABEL,
    port: int = LABEL_PORT,
) -> Iterator[dict[str, Any]]:
    """The objects of a batch, in its order; none for frames without labels.

    `labels` are in path order, as LabelItem; labels of the published code have their own fields. Rejected
    frames have `error` and the bytes of the frame.
    """
    dialect = dialect_of_port(port)
    for number, frame in enumerate(batch.frames, batch.first_packet):
        start, link = int(frame["offset"]), int(frame["link"])
        raw = batch.arena[start : start + int(frame["length"])].tobytes()
        place = {"packet": number, "index": 0}
        head = {"time_ns": int(frame["time_ns"])}
        datagram = _datagram(frame) if link == Link.UDP_PAYLOAD else find_datagram(raw, link, dialect)
        if datagram is not None:
            for index, block in enumerate(_blocks(raw, datagram, int(frame["wire_length"]), max_hop)):
                place = {"packet": number, "index": index}
                if isinstance(block, WireError):
                    yield place | _rejected(block, raw, frame)
                else:
                    yield place | head | _exported(block, datagram.source)
            continue
        try:
            labelled = read_labels(raw, max_hop=max_hop, protocol=protocol, link=link)
        except WireError as error:
            yield place | _rejected(error, raw, frame)
            continue
        if labelled is not None:
            yield place | head | _carried(raw, labelled)


def _datagram(frame: np.void) -> Datagram:
    source = int(frame["source_hi"]) << 64 | int(frame["source_lo"])
    return Datagram(source, None, 0, 0, 0, int(frame["wire_length"]))


def _blocks(raw: bytes, datagram: Datagram, whole: int, max_hop: int) -> Iterator[Labelled | WireError]:
    if datagram.error is not None:
        yield datagram.error
        return
    blocks, error = read_blocks(raw[datagram.start : datagram.announced], max_hop=max_hop)
    yield from blocks
    if error is not None:
        yield WireError(error.reason, error.place, datagram.start + error.at, error.detail)
    elif datagram.announced > len(raw):
        detail = f"the capture kept {len(raw):,} of {whole:,} bytes"
        yield WireError(Reason.TRUNCATED, Place.LABEL, len(raw), detail)


def _rejected(error: WireError, raw: bytes, frame: np.void) -> dict[str, Any]:
    found = {"reason": error.reason.label, "at": error.place.label}
    out: dict[str, Any] = {
        "error": {**found, "detail": f"{error.detail} (byte {error.at})"},
        "link": Link(int(frame["link"])).name.lower(),
        "frame": raw.hex(),
    }
    if frame["wire_length"] > frame["length"]:
        out["wire_length"] = int(frame["wire_length"])
    return out


def _exported(labelled: Labelled, source: int) -> dict[str, Any]:
    out: dict[str, Any] = {"form": _FORMS[Form.EXPORT], "source": address(source >> 64, source & _LOW)}
    out["tracked"] = labelled.tracked
    if labelled.flow is not None:
        out["flow"] = _flow_object(labelled.flow)
    return out | {"labels": _labels(labelled)}


def _flow_object(flow: LabelFlow) -> dict[str, Any]:
    """A flow as its last hop reports it; without ports if they are 0."""
    ends = flow.source, flow.destination
    src, dst = (address(end >> 64, end & _LOW) for end in ends)
    out: dict[str, Any] = {"src": src, "dst": dst, "proto": flow.protocol}
    if flow.source_port or flow.destination_port:
        out |= {"sport": flow.source_port, "dport": flow.destination_port}
    return out


def _carried(raw: bytes, labelled: Labelled) -> dict[str, Any]:
    out: dict[str, Any] = {"form": _FORMS[labelled.form]}
    if labelled.form is Form.PUBLISHED:
        out["specific"] = bool(labelled.next_header >> 7)
    else:
        out["tracked"] = labelled.tracked
        out["flow"] = _flow(raw, labelled)
    return out | {"labels": _labels(labelled)}


def _labels(labelled: Labelled) -> list[dict[str, int]]:
    return [_label(item) for item in labelled.items[::-1]]


def _label(item: LabelItem | PublishedItem) -> dict[str, int]:
    return asdict(item)


def _flow(raw: bytes, labelled: Labelled) -> dict[str, Any]:
    """Addresses of a labelled packet, and its ports if it has any, without its labels."""
    own = bytearray(raw[labelled.ip : labelled.at])
    version = own[0] >> 4
    own[9 if version == 4 else 6] = labelled.next_header
    buf = Buffer(bytes(own) + raw[labelled.end :])
    try:
        ip = pull_ip(buf, version, Place.INNER_IP)
    except WireError:  # damaged after the labels; the fixed header is complete
        ip = pull_ip(Buffer(bytes(own)), 4, Place.INNER_IP) if version == 4 else _fixed(bytes(own))
    src, dst = (address(end >> 64, end & _LOW) for end in (ip.source, ip.destination))
    flow: dict[str, Any] = {"src": src, "dst": dst, "proto": ip.protocol}
    over_ports = ip.protocol in (layout.PROTOCOL_TCP, layout.PROTOCOL_UDP)
    if over_ports and not ip.fragment_offset and buf.left >= layout.PORTS.size:
        flow |= buf.peek(layout.PORTS, Place.INNER_L4)
    return flow


def _fixed(header: bytes) -> Ip:
    head = Buffer(header).peek(layout.IPV6, Place.INNER_IP)
    return Ip(6, head["source"], head["destination"], head["next_header"])

"""DTA reports to frames and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hopscope.wire import layout
from hopscope.wire.address import number_of
from hopscope.wire.dta.codec import COUNTER_BYTES, LIST_BYTES, DtaReport, Form, Opcode, push_dta
from hopscope.wire.dta.encode import REPORTER_PORT
from hopscope.wire.dta.parser import _fill, looked_for
from hopscope.wire.headers.datagram import find_datagram
from hopscope.wire.reasons import DtaReason, Reason
from hopscope.wire.records import DTA, FRAME, DtaFlag, FrameBatch, Link, Records

from .encode import push_outer


def encode_dta_scalar(
    reports: Records,
    arena: npt.NDArray[np.uint8],
    form: Form,
    *,
    link: Link = Link.UDP_PAYLOAD,
    source: str = "192.0.2.1",
    collector: str = "192.0.2.254",
    port: int = layout.DTA_PORT,
    sport: int = REPORTER_PORT,
    udp_checksum: bool = False,
) -> FrameBatch:
    """`encode_dta` in pure Python."""
    sender, target = number_of(source), number_of(collector)
    out = bytearray()
    frames = np.zeros(len(reports), FRAME)
    for row, frame in zip(reports, frames, strict=True):
        payload = bytearray()
        push_dta(payload, report_of(row, arena), form)
        start = len(out)
        if link == Link.UDP_PAYLOAD:
            out += payload
        else:
            push_outer(out, sender, target, sport, port, bytes(payload), udp_checksum)
        frame["offset"], frame["length"], frame["wire_length"] = start, len(out) - start, len(out) - start
    frames["source_hi"], frames["source_lo"] = sender >> 64, sender & (1 << 64) - 1
    frames["port"], frames["source_port"], frames["link"] = port, sport, link
    return FrameBatch(np.frombuffer(bytes(out), np.uint8), frames)


def parse_scalar(batch: FrameBatch, form: Form, *, port: int = layout.DTA_PORT) -> Records:
    """DTA [frames], in pure Python."""
    dialect = looked_for(port)
    reports = np.zeros(len(batch), DTA)
    for report, frame in zip(reports, batch.frames, strict=True):
        origin = int(frame["offset"])
        raw = batch.arena[origin : origin + int(frame["length"])].tobytes()
        start, announced = 0, int(frame["wire_length"])
        if frame["link"] != Link.UDP_PAYLOAD:
            found = find_datagram(raw, int(frame["link"]), dialect)
            if found is None or found.error is not None:
                report["reason"] = _outer_reason(found.error.reason if found and found.error else None)
                continue
            start, announced = found.start, found.announced
            raw = raw[:announced]
        if announced > len(raw):
            report["reason"] = DtaReason.TRUNCATED
            continue
        _fill(report, raw[start:], origin + start, form)
    return reports


def _outer_reason(reason: Reason | None) -> DtaReason:
    if reason is None:
        return DtaReason.NOT_DTA
    return DtaReason.BAD_LENGTH if reason is Reason.BAD_LENGTH else DtaReason.TRUNCATED


def report_of(row: np.void, arena: npt.NDArray[np.uint8]) -> DtaReport:
    """The report that a DTA record describes."""
    key_at, data_at = int(row["key_at"]), int(row["data_at"])
    key = arena[key_at : key_at + int(row["key_bytes"])].tobytes()
    data = arena[data_at : data_at + int(row["data_bytes"])].tobytes()
    if row["opcode"] == Opcode.APPEND:
        key = int(row["list"]).to_bytes(LIST_BYTES, "big")
    if row["opcode"] == Opcode.KEY_INCREMENT:
        data = int(row["counter"]).to_bytes(COUNTER_BYTES, "big")
    return DtaReport(
        int(row["opcode"]), key, data, int(row["redundancy"]), int(row["hop"]), int(row["path_length"]),
        int(row["sequence"]), bool(row["flags"] & DtaFlag.IMMEDIATE), bool(row["flags"] & DtaFlag.RETRANSMIT),
    )  # fmt: skip

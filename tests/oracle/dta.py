"""DTA reports to frames and back."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hopscope.wire.address import number_of
from hopscope.wire.dta import layout
from hopscope.wire.dta.encode import REPORTER_PORT
from hopscope.wire.dta.forms import COUNTER_BYTES, KEY_FIELDS, LIST_BYTES, PUBLISHED, Form, Opcode
from hopscope.wire.dta.parser import dialect_of_port
from hopscope.wire.dta.records import DTA, DtaFlag
from hopscope.wire.reasons import DtaReason, Reason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records

from .datagram import find_datagram
from .dta_codec import DtaError, DtaReport, pull_dta, push_dta
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
    dialect = dialect_of_port(port)
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


def _fill(row: np.void, raw: bytes, origin: int, form: Form) -> None:
    if len(raw) >= form:
        base = form.header.unpack(raw)
        row["opcode"], row["sequence"] = base["opcode"], base.get("sequence", 0)
        row["flags"] = DtaFlag.IMMEDIATE * base["immediate"] + DtaFlag.RETRANSMIT * base.get("retransmit", 0)
    try:
        report = pull_dta(raw, form)
    except DtaError as error:
        row["reason"] = error.reason
        return
    key_at = int(form)
    if form is not Form.SIZED:
        key_at += next(f.at for f in PUBLISHED[Opcode(report.opcode)].fields if f.name in KEY_FIELDS) // 8
    row["key_at"], row["data_at"] = origin + key_at, origin + len(raw) - len(report.data)
    row["key_bytes"], row["data_bytes"] = len(report.key), len(report.data)
    row["redundancy"], row["hop"], row["path_length"] = report.redundancy, report.hop, report.path_length
    row["list"] = report.list if report.opcode == Opcode.APPEND else 0
    row["counter"] = report.counter if report.opcode == Opcode.KEY_INCREMENT else 0


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

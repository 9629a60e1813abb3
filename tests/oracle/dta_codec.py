"""DTA reports and acknowledgments, one datagram at a time."""

from __future__ import annotations

from dataclasses import dataclass

from hopscope.wire.buffer import push
from hopscope.wire.dta.forms import (
    COUNTER_BYTES,
    DATA_FIELDS,
    KEY_FIELDS,
    LIST_BYTES,
    PUBLISHED,
    Form,
    Opcode,
)
from hopscope.wire.fields import Header
from hopscope.wire.reasons import DtaReason


class DtaError(ValueError):
    """A datagram that is not a DTA report or acknowledgment; the batch parser writes the same reason."""

    def __init__(self, reason: DtaReason, detail: str) -> None:
        super().__init__(f"{reason.label}: {detail}")
        self.reason = reason
        self.detail = detail


@dataclass(slots=True)
class DtaReport:
    """One report."""

    opcode: int
    key: bytes = b""
    """Append: the list, 4 bytes."""
    data: bytes = b""
    """Key-Increment: the counter, 8 bytes."""
    redundancy: int = 0
    hop: int = 0
    """Postcarding: number of the hop; 1 is the first."""
    path_length: int = 0
    """Hops of the whole path, 0: unknown; only the sized form has it."""
    sequence: int = 0
    immediate: bool = False
    retransmit: bool = False

    @property
    def list(self) -> int:
        """The list of an Append."""
        return int.from_bytes(self.key, "big")

    @property
    def counter(self) -> int:
        """The number that a Key-Increment adds."""
        return int.from_bytes(self.data, "big")


def pull_dta(raw: bytes, form: Form) -> DtaReport:
    """Read a datagram's payload, all of it, as a report. Raises DtaError."""
    base = _fields(raw, form.header)
    report = DtaReport(
        base["opcode"], sequence=base.get("sequence", 0), immediate=bool(base["immediate"]),
        retransmit=bool(base.get("retransmit", 0)),
    )  # fmt: skip
    if form is Form.SIZED:
        report.redundancy, report.hop = base["redundancy"], base["hop"]
        report.path_length = base["path_length"]
        key_bytes, data_bytes = base["key_bytes"], base["data_bytes"]
        _exact(raw, form + key_bytes + data_bytes, "header, key and data")
        report.key, report.data = raw[form : form + key_bytes], raw[form + key_bytes :]
        check_lengths(report)
        return report
    header = PUBLISHED.get(Opcode(report.opcode)) if report.opcode in PUBLISHED else None
    if header is None:
        raise DtaError(DtaReason.UNKNOWN_OPCODE, f"opcode {report.opcode}, expected 1 to 4")
    _exact(raw, form + header.size, f"{header.name} with a base header of {form} bytes")
    for field in header.fields:
        value = raw[form + field.at // 8 : form + (field.at + field.bits) // 8]
        if field.name in KEY_FIELDS:
            report.key = value
        elif field.name in DATA_FIELDS:
            report.data = value
        else:
            setattr(report, field.name, value[0])
    return report


def push_dta(out: bytearray, report: DtaReport, form: Form) -> None:
    """Append a report; raises ValueError if the form has no room for it."""
    flags = {"immediate": int(report.immediate), "retransmit": int(report.retransmit)}
    values = {"opcode": report.opcode, "sequence": report.sequence, **flags}
    if form is Form.SIZED:
        try:
            check_lengths(report)
        except DtaError as error:
            raise ValueError(error.detail) from error
        push(out, form.header, {
            **values, "redundancy": report.redundancy, "hop": report.hop, "path_length": report.path_length,
            "key_bytes": len(report.key), "data_bytes": len(report.data),
        })  # fmt: skip
        out += report.key + report.data
        return
    if report.opcode not in PUBLISHED:
        raise ValueError(f"opcode {report.opcode} has no header in the form of {form} bytes")
    header = PUBLISHED[Opcode(report.opcode)]
    body: dict[str, int] = {}
    for field in header.fields:
        if field.name in KEY_FIELDS or field.name in DATA_FIELDS:
            value = report.key if field.name in KEY_FIELDS else report.data
            if len(value) * 8 != field.bits:
                raise ValueError(
                    f"{header.name}: {field.name} of {len(value)} bytes, expected {field.bits // 8}"
                )
            body[field.name] = int.from_bytes(value, "big")
        else:
            body[field.name] = getattr(report, field.name)
    for name, value in (*values.items(), *((name, getattr(report, name)) for name in _OPTIONAL)):
        if value and name not in body and all(name != field.name for field in form.header.fields):
            raise ValueError(f"{header.name} in the form of {form} bytes has no {name}")
    push(out, form.header, values)
    push(out, header, body)


_OPTIONAL = ("redundancy", "hop", "path_length")


def check_lengths(report: DtaReport) -> None:
    """Raise DtaError if a list is not 4 bytes, or a counter not 8."""
    if report.opcode == Opcode.APPEND and len(report.key) != LIST_BYTES:
        raise DtaError(DtaReason.BAD_LENGTH, f"list of {len(report.key)} bytes, expected {LIST_BYTES}")
    if report.opcode == Opcode.KEY_INCREMENT and len(report.data) != COUNTER_BYTES:
        raise DtaError(DtaReason.BAD_LENGTH, f"counter of {len(report.data)} bytes, expected {COUNTER_BYTES}")


@dataclass(slots=True)
class DtaAck:
    """A translator's answer to a reporter."""

    sequence: int
    """ACK: the last report that need not be kept. NACK: in the published form the last report before the
    rejected ones, in the sized form the first rejected one.
    """
    nack: bool = False
    count: int = 0
    """NACK in the sized form: how many in a row were rejected."""
    reason: int = 0
    """NACK in the sized form: a `DtaReason`."""


def pull_ack(raw: bytes, form: Form) -> DtaAck:
    """Read a datagram's payload as an acknowledgment. Raises DtaError."""
    header = form.ack
    fields = _fields(raw, header)
    _exact(raw, header.size, header.name)
    ack = DtaAck(fields["sequence"], bool(fields["nack"]), fields.get("count", 0), fields.get("reason", 0))
    if form is Form.SIZED and ack.nack and ack.count == 0:
        raise DtaError(DtaReason.BAD_LENGTH, "a NACK of 0 reports")
    return ack


def push_ack(out: bytearray, ack: DtaAck, form: Form) -> None:
    """Append an acknowledgment; raises ValueError if it does not fit the form."""
    values = {"sequence": ack.sequence, "nack": int(ack.nack)}
    if form is Form.SIZED:
        values |= {"count": ack.count, "reason": ack.reason}
    elif ack.count or ack.reason:
        raise ValueError("the published acknowledgment has neither count nor reason")
    push(out, form.ack, values)


def _fields(raw: bytes, header: Header) -> dict[str, int]:
    if len(raw) < header.size:
        raise DtaError(DtaReason.TRUNCATED, f"{header.name} needs {header.size} bytes, {len(raw)} are there")
    return header.unpack(raw)


def _exact(raw: bytes, size: int, name: str) -> None:
    if len(raw) != size:
        reason = DtaReason.TRUNCATED if len(raw) < size else DtaReason.BAD_LENGTH
        raise DtaError(reason, f"{len(raw)} bytes, {name} take {size}")

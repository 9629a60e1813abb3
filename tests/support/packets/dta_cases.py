"""DTA reports and their datagrams, for tests."""

from __future__ import annotations

import random

from hopscope.wire.dta.forms import Form, Opcode
from oracle.dta_codec import DtaReport, push_dta


def any_report(rng: random.Random, form: Form) -> DtaReport:
    """A report that the form can carry."""
    opcode = rng.choice([*Opcode, 16, 255] if form is Form.SIZED else list(Opcode))
    report = DtaReport(opcode, immediate=rng.random() < 0.5)
    fixed = form is not Form.SIZED
    report.key = rng.randbytes(4 if fixed or opcode == Opcode.APPEND else rng.choice((0, 1, 4, 13, 17, 255)))
    data = 8 if opcode == Opcode.KEY_INCREMENT else 4 if fixed else rng.choice((0, 1, 4, 20, 64, 255))
    report.data = rng.randbytes(data)
    if form.sequence_bits:
        report.sequence = rng.getrandbits(form.sequence_bits)
        report.retransmit = rng.random() < 0.5
    if not fixed or opcode in (Opcode.KEY_WRITE, Opcode.KEY_INCREMENT):
        report.redundancy = rng.getrandbits(8)
    if not fixed or opcode == Opcode.POSTCARDING:
        report.hop = rng.getrandbits(8)
    if not fixed:
        report.path_length = rng.getrandbits(8)
    return report


def payload(report: DtaReport, form: Form) -> bytes:
    """The datagram's payload."""
    out = bytearray()
    push_dta(out, report, form)
    return bytes(out)

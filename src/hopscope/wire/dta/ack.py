"""Acknowledgments of DTA in batches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import FRAME, FrameBatch, Link, Records
from . import layout
from .forms import Form
from .records import DTA_ANSWER

WORD = 8
"""Bytes of the longest acknowledgment."""


def encode_answers(answers: Records, form: Form) -> FrameBatch:
    """Datagrams with answers, DTA_ANSWER: each frame's `source_*` and `port` are its destination.

    The published form names the report before the first rejected one, and neither count nor reason.
    """
    header = form.ack
    sequence = answers["sequence"].astype(np.uint64)
    columns = {"nack": answers["nack"], "count": answers["count"], "reason": answers["reason"]}
    if form is not Form.SIZED:
        sequence -= columns["nack"]
    numbers = np.zeros(len(answers), np.uint64)
    for name, shift, mask in header.shifts:
        value = sequence if name == "sequence" else columns[name].astype(np.uint64)
        numbers |= (value & np.uint64(mask)) << np.uint64(shift)
    raw = numbers.astype(">u8").view(np.uint8).reshape(-1, WORD)[:, WORD - header.size :]
    frames = np.zeros(len(answers), FRAME)
    frames["offset"] = np.arange(len(answers)) * header.size
    frames["length"] = frames["wire_length"] = header.size
    frames["port"], frames["link"] = layout.DTA_ACK_PORT, Link.UDP_PAYLOAD
    for name in ("source_hi", "source_lo", "source_port"):
        frames[name] = answers[name]
    return FrameBatch(np.ascontiguousarray(raw).reshape(-1), frames)


def parse_answers(batch: FrameBatch, form: Form) -> tuple[Records, int]:
    """(DTA_ANSWER, number of other datagrams) for the datagrams that a reporter's socket received."""
    header = form.ack
    frames = batch.frames
    whole = (frames["length"] == header.size) & (frames["wire_length"] <= frames["length"])
    frames = frames[whole & (frames["link"] == Link.UDP_PAYLOAD)]
    at = frames["offset"][:, None] + np.arange(header.size, dtype=np.uint64)
    raw = np.zeros((len(frames), WORD), np.uint8)
    raw[:, WORD - header.size :] = batch.arena[at]
    numbers = raw.view(">u8").reshape(-1).astype(np.uint64)
    answers = np.zeros(len(frames), DTA_ANSWER)
    for name, shift, mask in header.shifts:
        answers[name] = (numbers >> np.uint64(shift)) & np.uint64(mask)
    for name in ("source_hi", "source_lo", "source_port"):
        answers[name] = frames[name]
    if form is Form.SIZED:
        answers = answers[(answers["nack"] == 0) | (answers["count"] > 0)]
    else:
        answers["sequence"] = _next(answers["sequence"], answers["nack"], form)
    return answers, len(batch) - len(answers)


def _next(
    sequence: npt.NDArray[np.uint32], nack: npt.NDArray[np.uint8], form: Form
) -> npt.NDArray[np.uint64]:
    """Sequence numbers of the first reports to send again: a published NACK names the last accepted one."""
    most = np.uint64((1 << form.sequence_bits) - 1)
    return (sequence.astype(np.uint64) + nack) & most

"""DTA records to frames, for reporters, simulated switches and benchmarks. The inverse of `parser`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..address import number_of
from ..records import FRAME, FrameBatch, Link, Records
from . import layout
from .forms import COUNTER_BYTES, LIST_BYTES, PUBLISHED, Form, Opcode
from .parser import rules
from .records import DtaFlag

REPORTER_PORT = 0xC0DE
"""UDP source port of the published reporter."""
_OUTER = 62


def encode_dta(
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
    """One frame per DTA record, whose keys and data are in `arena`; an Append's list and a Key-Increment's
    counter are those of the record.

    `link` is UDP_PAYLOAD or ETHERNET (complete frames from `source` to `collector`; `udp_checksum`: over
    IPv4 too). Raises ValueError, with the row, if the form has no room for a record's values.
    """
    check_reports(reports, arena, form)
    from ...base.kernels.jit import readonly
    from ..encode import encode_kernel as place
    from .encode_kernel import put_reports

    sender, target = number_of(source), number_of(collector)
    options = np.zeros(place.OPTIONS, np.uint64)
    options[place.PORT], options[place.SPORT], options[place.LINK] = port, sport, link
    options[place.COLLECTOR_HI], options[place.COLLECTOR_LO] = target >> 64, target & (1 << 64) - 1
    halves = np.array([sender >> 64, sender & (1 << 64) - 1], np.uint64)
    size = form.header.size + 2 + LIST_BYTES + COUNTER_BYTES + _OUTER * (link != Link.UDP_PAYLOAD)
    body = int(reports["key_bytes"].sum(dtype=np.int64)) + int(reports["data_bytes"].sum(dtype=np.int64))
    out = np.empty(size * len(reports) + body, np.uint8)
    frames = np.zeros(len(reports), FRAME)
    used = put_reports(
        readonly(reports), readonly(arena), np.uint64(form), readonly(rules()), options, halves, udp_checksum,
        out, frames,
    )  # fmt: skip
    return FrameBatch(out[: int(used)], frames)


def check_reports(reports: Records, arena: npt.NDArray[np.uint8], form: Form) -> None:
    """Raise ValueError, with the row, if a record cannot be written in this form."""
    opcode = reports["opcode"]
    append, increment = opcode == Opcode.APPEND, opcode == Opcode.KEY_INCREMENT
    key_end = reports["key_at"].astype(np.int64) + reports["key_bytes"]
    data_end = reports["data_at"].astype(np.int64) + reports["data_bytes"]
    _reject(~append & (key_end > len(arena)), "its key ends after the arena")
    _reject(~increment & (data_end > len(arena)), "its data ends after the arena")
    if form is Form.SIZED:
        return
    copied = increment | (opcode == Opcode.KEY_WRITE)
    _reject((opcode < min(PUBLISHED)) | (opcode > max(PUBLISHED)), "only the sized form has this opcode")
    _reject(~append & (reports["key_bytes"] != 4), "expected a key of 4 bytes in a published form")
    _reject(~increment & (reports["data_bytes"] != 4), "expected data of 4 bytes in a published form")
    _reject(~copied & (reports["redundancy"] > 0), "its published header has no redundancy")
    _reject((opcode != Opcode.POSTCARDING) & (reports["hop"] > 0), "its published header has no hop")
    _reject(reports["path_length"] > 0, "only the sized form has a path length")
    most = (1 << form.sequence_bits) - 1
    _reject(reports["sequence"] > most, f"its sequence number is above {most}")
    if form is Form.TWO:
        _reject(reports["flags"] & DtaFlag.RETRANSMIT > 0, "the form of 2 bytes has no retransmit flag")


def _reject(bad: npt.NDArray[np.bool_], why: str) -> None:
    if bad.any():
        raise ValueError(f"report {int(bad.argmax())}: {why}")

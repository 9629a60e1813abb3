"""Telemetry Reports around unchanged packets, sent by a sink that has the packet.

A report contains the packet with its INT or IFA (Telemetry Report 2.0, 3.2: the original headers, and the
stack if the sink has removed it). Its bytes are copied from the frame, up to a little after the stack. So it
has values that `encode_reports` would have to invent: addresses of tunnels, TCP flags, domain-specific
metadata.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..records import FRAME, FrameBatch, Link, Mode, Records

BEHIND = 64
"""Bytes after the stack that are included: the tail of INT 0.5, or the packet that a tunnel carries."""
_STACK = 4 * 255
"""Maximum bytes that a shim can count."""
_HEADERS = 20 + 14 + 3
"""Maximum bytes of a report's headers, an Ethernet header if the frame has none, and padding."""
_LINK_BYTES = {Link.NULL: 4, Link.LINUX_SLL: 16, Link.LINUX_SLL2: 20}


def carries_stack(rows: Records) -> npt.NDArray[np.bool_]:
    """Which REPORT rows are packets with INT-MD or IFA that were read without an error, bool [rows]."""
    mode = rows["int_mode"]
    return np.asarray((rows["reason"] == 0) & ((mode == Mode.MD) | (mode == Mode.IFA)))


def enclose(
    frames: FrameBatch, rows: Records, *, version: int, node_id: int, hw_id: int, sequence: int
) -> FrameBatch:
    """Reports (version 5, 10 or 20) for REPORT rows that were read from `frames`, as UDP payloads, in order.

    They are about tracked flows (F), with Ethernet inside; `sequence` is the sequence number of the first. A
    frame of another link type gets an Ethernet header of zeros. In 0.5 and 1.0, the time is the low 32 bits
    of the frame's.
    """
    from ...base.kernels.jit import readonly
    from . import encapsulate_kernel as kernel

    each = frames.frames[rows["packet"]]
    starts = np.zeros(len(rows), np.uint32)
    for link, size in _LINK_BYTES.items():
        starts[each["link"] == link] = size
    stack = 12 + 4 * rows["hop_words"].astype(np.uint32) * rows["hop_count"]
    stack[rows["ds_flags"] != 0] = _STACK  # the size of metadata from the source alone is unknown here
    lengths = np.minimum(each["length"], rows["int_at"] + stack + np.uint32(BEHIND)) - starts
    options = np.array([version, node_id, hw_id, sequence], np.uint64)
    out = np.empty(int(lengths.sum(dtype=np.int64)) + _HEADERS * len(rows), np.uint8)
    made = np.zeros(len(rows), FRAME)
    used = kernel.enclose(
        readonly(frames.arena), readonly(frames.frames), readonly(rows), starts, lengths.astype(np.uint32),
        options, out, made,
    )  # fmt: skip
    return FrameBatch(out[: int(used)], made)

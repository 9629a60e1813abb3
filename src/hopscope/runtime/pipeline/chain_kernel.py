"""Decoding, counting and detection of a batch, by calls of their kernels (`base.kernels.call`)."""

from __future__ import annotations

from typing import Any

from ...base.kernels.jit import U64, invoke, kernel, monotonic_ns
from .layout import Came

NOWHERE, TO_POSTCARDS, TO_EVENTS = U64(Came.NOWHERE), U64(Came.TO_POSTCARDS), U64(Came.TO_EVENTS)
TO_THE_END, ASTRAY = U64(Came.TO_THE_END), U64(Came.ASTRAY)
RESULT = U64(1)
ARENA, FRAMES, FRAME_COUNT, FIRST_FRAME = U64(4), U64(6), U64(7), U64(8)
NEW_REPORTS, NEW_HOPS = U64(13), U64(15)
"""Words of `decode_frames`."""
COUNTED_FRAMES, COUNTED_REPORTS = U64(4), U64(6)
"""Words of `count_batch`."""
REPORTS, FIRST_REPORT, HOPS = U64(4), U64(6), U64(7)
"""Words of `update_kernel`."""


@kernel
def take_frames(arena: Any, frames: Any, decode: Any, counts: Any, count: Any, detect: Any, settle: Any,
                joins: Any) -> Any:  # fmt: skip
    """Decode and count frames, and detect events, unless postcards are to be joined (`joins`).

    `counts` are the decoder's; `decode`, `count`, `detect` and `settle` are words of calls. The tally is
    settled at the end only. Returns (`Came`, accepted reports, reports that detection has processed, events
    that it has written, ns of decoding).
    """
    begin, nothing = monotonic_ns(), U64(0)
    decode[ARENA], decode[ARENA + U64(1)] = U64(arena.ctypes.data), U64(len(arena))
    decode[FRAMES], decode[FRAME_COUNT], decode[FIRST_FRAME] = (
        U64(frames.ctypes.data), U64(len(frames)), U64(0),
    )  # fmt: skip
    if len(frames) == 0:
        return NOWHERE, nothing, nothing, nothing, nothing
    if invoke(decode):
        return ASTRAY, nothing, nothing, nothing, nothing
    spent = monotonic_ns() - begin
    if decode[RESULT] != U64(len(frames)):
        return NOWHERE, nothing, nothing, nothing, spent
    reports = counts[0]
    count[COUNTED_FRAMES], count[COUNTED_FRAMES + U64(1)] = decode[FRAMES], decode[FRAME_COUNT]
    count[COUNTED_REPORTS], count[COUNTED_REPORTS + U64(1)] = decode[NEW_REPORTS], reports
    if invoke(count):
        return ASTRAY, nothing, nothing, nothing, spent
    accepted, postcards = count[RESULT], count[RESULT + U64(1)]
    if joins and postcards != U64(0):
        return TO_POSTCARDS, accepted, nothing, nothing, spent
    detect[REPORTS], detect[REPORTS + U64(1)], detect[FIRST_REPORT] = decode[NEW_REPORTS], reports, U64(0)
    detect[HOPS], detect[HOPS + U64(1)] = decode[NEW_HOPS], counts[1]
    if invoke(detect):
        return ASTRAY, nothing, nothing, nothing, spent
    at, events = detect[RESULT], detect[RESULT + U64(1)]
    if at != reports or events != U64(0):
        return TO_EVENTS, accepted, at, events, spent
    if invoke(settle):
        return ASTRAY, nothing, nothing, nothing, spent
    return TO_THE_END, accepted, at, events, spent

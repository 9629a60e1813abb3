"""TCP."""

from __future__ import annotations

from hopscope.wire import layout
from hopscope.wire.buffer import Buffer
from hopscope.wire.errors import WireError
from hopscope.wire.headers.ethernet import Tcp
from hopscope.wire.reasons import Place, Reason


def pull_tcp(buf: Buffer, place: Place) -> Tcp:
    """A TCP header with options. Raises WireError where it is cut or states fewer than 5 words."""
    start = buf.at
    head = buf.peek(layout.TCP, place)
    size = head.pop("header_words") * 4
    if size < layout.TCP.size:
        raise WireError(
            Reason.BAD_LENGTH, place, start, f"TCP header of {size} bytes, at least 20 are needed"
        )
    buf.skip(size, place, "TCP with options")
    return Tcp(**head, options=bytes(buf.raw[start + 20 : start + size]))

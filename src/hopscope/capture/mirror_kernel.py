"""Messages of recvmmsg(2) on a packet socket to frames, compiled."""

from __future__ import annotations

from typing import Any

from ..jit import U64, kernel
from .layout import CONTROL_BYTES, NAME_BYTES, Setup, Unpack
from .pcap_kernel import le32
from .udp_kernel import le64

_MESSAGES, _NEXT, _OVERSIZED = U64(Unpack.MESSAGES), U64(Unpack.NEXT), U64(Unpack.OVERSIZED)
_STRIDE = U64(Setup.STRIDE)
_MSG_TRUNC = 0x20
_NAME_ROOM = 28
_OUTGOING = 4
_AUXDATA = U64(8) << U64(32) | U64(263)
_VLAN_VALID, _TPID_VALID = U64(0x10), U64(0x40)
_HEADROOM, _MAC_BYTES = U64(4), U64(12)
_FF = U64(0xFF)


@kernel
def tag_of(controls: Any, at: Any, length: Any) -> Any:
    """The VLAN tag that the kernel took off, as 32 bits (TPID, TCI); 0: none. struct tpacket_auxdata."""
    end = at + length
    while at + U64(16) <= end:
        size, kind = le64(controls, at), le64(controls, at + U64(8))
        if size < U64(16) or at + size > end:
            break
        if kind == _AUXDATA and size >= U64(36):
            status, words = le32(controls, at + U64(16)), le32(controls, at + U64(32))
            if status & _VLAN_VALID:
                protocol = words >> U64(16) if status & _TPID_VALID else U64(0x8100)
                return protocol << U64(16) | (words & U64(0xFFFF))
        at += (size + U64(7)) & ~U64(7)
    return U64(0)


@kernel
def put_back(arena: Any, start: Any, tag: Any) -> None:
    """Move a frame's MAC addresses 4 bytes ahead of `start`, and write the tag behind them."""
    for i in range(12):
        arena[start - _HEADROOM + U64(i)] = arena[start + U64(i)]
    for i in range(4):
        arena[start - _HEADROOM + _MAC_BYTES + U64(i)] = (tag >> U64(24 - 8 * i)) & _FF


@kernel
def unpack_frames(arena: Any, messages: Any, names: Any, controls: Any, frames: Any, setup: Any, state: Any,
                  time_ns: Any, link: Any) -> Any:  # fmt: skip
    """Describe received frames in `frames` until they are full or all is described; returns how many.

    `state` is that of `udp_kernel.unpack`.  Frames that this machine sent are left out (sockaddr_ll tells).
    """
    count = 0
    while count < len(frames) and state[_NEXT] < state[_MESSAGES]:
        m = state[_NEXT]
        message = messages[m]
        length = U64(message.length)
        if message.flags & _MSG_TRUNC:
            state[_OVERSIZED] += U64(1)
        elif names[m * U64(NAME_BYTES) + U64(10)] != _OUTGOING:
            start = m * setup[_STRIDE] + _HEADROOM
            tag = tag_of(controls, m * U64(CONTROL_BYTES), U64(message.control_length))
            if tag and length >= _MAC_BYTES:
                put_back(arena, start, tag)
                start -= _HEADROOM
                length += _HEADROOM
            frame = frames[count]
            frame.offset = start
            frame.time_ns = time_ns
            frame.source_hi = U64(0)
            frame.source_lo = U64(0)
            frame.length = length
            frame.wire_length = length
            frame.port = 0
            frame.link = link
            count += 1
        state[_NEXT] += U64(1)
        message.name_length = _NAME_ROOM
        message.control_length = CONTROL_BYTES
        message.flags = 0
    return count

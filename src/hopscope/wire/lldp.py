"""LLDP: announcements of a port's neighbour (IEEE 802.1AB-2016, clauses 8 and 9)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from .fields import header

ETHERTYPE = 0x88CC
GROUPS = tuple(bytes.fromhex(text) for text in ("0180c200000e", "0180c2000003", "0180c2000000"))
"""Group addresses of frames: nearest bridge, nearest non-TPMR bridge, nearest customer bridge (7.1)."""
TLV = header("LLDP TLV", "IEEE 802.1AB 8.4", ("type", 7), ("length", 9, "bytes"))
_END, _CHASSIS, _PORT, _TTL, _SYSTEM = 0, 1, 2, 3, 5
_ETHERNET = 14
MAX_TEXT = 255
"""Longest id and text, in bytes (8.5)."""


class ChassisId(IntEnum):
    """Kind of a chassis id (8.5.2.2)."""

    MAC = 4
    NAME = 6
    LOCAL = 7


class PortId(IntEnum):
    """Kind of a port id (8.5.3.2)."""

    ALIAS = 1
    MAC = 3
    NAME = 5
    LOCAL = 7


class LldpError(Exception):
    """A frame that must be discarded according to the standard (9.2.7.7)."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The other end of a link, as it announces itself."""

    chassis: str
    """A MAC address, such as `02:00:00:00:00:01`, or text."""
    port: str
    """A MAC address, or text."""
    system: str
    """Its name; empty: not announced."""
    seconds: int
    """Time for which this information is valid, s; 0: the neighbour is shutting down."""


def read_lldp(frame: bytes) -> Neighbour:
    """The neighbour that sent an Ethernet frame with this EtherType. Raises LldpError."""
    texts: dict[int, str] = {}
    at, order, seconds = _ETHERNET, list[int](), 0
    while True:
        if at + TLV.size > len(frame):
            raise LldpError("the frame ends within a TLV")
        head = TLV.unpack(frame, at)
        kind, start, at = head["type"], at + TLV.size, at + TLV.size + head["length"]
        if at > len(frame):
            raise LldpError(f"the frame ends within a TLV of type {kind}")
        if kind == _END:
            break
        order.append(kind)
        value = frame[start:at]
        if kind in (_CHASSIS, _PORT):
            if not 2 <= len(value) <= 1 + MAX_TEXT:
                raise LldpError(f"found an id of {len(value) - 1} bytes, expected 1 to {MAX_TEXT}")
            mac = ChassisId.MAC if kind == _CHASSIS else PortId.MAC
            texts[kind] = _mac(value[1:]) if value[0] == mac and len(value) == 7 else _text(value[1:])
        elif kind == _TTL:
            if len(value) < 2:
                raise LldpError(f"found a time to live of {len(value)} bytes, expected 2")
            seconds = int.from_bytes(value[:2], "big")
        elif kind == _SYSTEM:
            texts.setdefault(kind, _text(value[:MAX_TEXT]))
    if order[:3] != [_CHASSIS, _PORT, _TTL] or len({*order[:3]} & {*order[3:]}):
        raise LldpError(f"found TLVs {order[:3]}, expected chassis id, port id and time to live, once")
    return Neighbour(texts[_CHASSIS], texts[_PORT], texts.get(_SYSTEM, ""), seconds)


def _mac(value: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in value)


def _text(value: bytes) -> str:
    """Printable text; other ids are shown in hexadecimal."""
    text = value.decode("utf-8", "replace").rstrip("\0")
    return text if text.isprintable() and text else value.hex()

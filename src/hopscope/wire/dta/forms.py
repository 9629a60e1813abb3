"""Primitives of Direct Telemetry Access (DTA 3, 4), and the forms of its headers.

Three base headers are in use, and a datagram does not state which one it has: two published ones with keys
and data of fixed size, and Hopscope's own with lengths. The configuration chooses.
"""

from __future__ import annotations

from enum import IntEnum

from ..fields import Header
from . import layout


class Opcode(IntEnum):
    """The primitive that a report asks for; numbers from 16 on are free for extensions, in the sized form."""

    KEY_WRITE = 1
    APPEND = 2
    KEY_INCREMENT = 3
    POSTCARDING = 4


class Form(IntEnum):
    """The base header of a report; its value is the header's size in bytes."""

    TWO = layout.DTA_2.size
    """Opcode and immediate flag."""
    THREE = layout.DTA_3.size
    """With a sequence number of 8 bits and the retransmit flag."""
    SIZED = layout.DTA_SIZED.size
    """Hopscope's own: lengths of key and data, and a sequence number of 32 bits."""

    @property
    def header(self) -> Header:
        """The base header."""
        return _BASES[self]

    @property
    def ack(self) -> Header:
        """The acknowledgment. Raises ValueError for the form without sequence numbers."""
        if not self.sequence_bits:
            raise ValueError(f"the form of {self} bytes has no sequence numbers to acknowledge")
        return layout.DTA_SIZED_ACK if self is Form.SIZED else layout.DTA_ACK

    @property
    def sequence_bits(self) -> int:
        """Width of the sequence number, 0 in the form without."""
        return {Form.TWO: 0, Form.THREE: 8, Form.SIZED: 32}[self]


_BASES = {Form.TWO: layout.DTA_2, Form.THREE: layout.DTA_3, Form.SIZED: layout.DTA_SIZED}
PUBLISHED = {
    Opcode.KEY_WRITE: layout.DTA_KEY_WRITE,
    Opcode.APPEND: layout.DTA_APPEND,
    Opcode.KEY_INCREMENT: layout.DTA_KEY_INCREMENT,
    Opcode.POSTCARDING: layout.DTA_POSTCARD,
}
"""The header after a published base header, by opcode; nothing may follow it."""
KEY_FIELDS, DATA_FIELDS = ("key", "list"), ("data", "counter")
"""Names of a published header's fields that are the report's key, and its data."""
LIST_BYTES, COUNTER_BYTES = 4, 8

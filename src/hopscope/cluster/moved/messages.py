"""Messages between members about flows and sources: a HEADER, then four arrays of records."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from ...settings.cluster import MEMBER
from ...wire.records import Records
from .flows import FLOW_KEY, FLOW_KEY_4, FLOW_SEEN
from .sources import SUMMARY

MAGIC = b"HPM1"
HEADER = np.dtype([("magic", "S4"), ("counts", "<u4", (4,)), ("member", "S64")])
INBOX, INBOX_BYTES = 1000, 64 * 1024**2
"""Maximum number of waiting messages, and their total size; further ones are rejected."""
_ARRAYS = (FLOW_KEY_4, FLOW_KEY, SUMMARY, FLOW_SEEN)


@dataclass(frozen=True, slots=True)
class MovedMessage:
    """The content of a message."""

    member: str
    four: Records
    """FLOW_KEY_4: IPv4 flows that are new to the sender."""
    other: Records
    """FLOW_KEY: other new flows."""
    summaries: Records
    """SUMMARY: what the sender received of sequence spaces."""
    seen: Records
    """FLOW_SEEN: flows that are new to the receiver, and that the sender has."""

    def encode(self) -> bytes:
        """The message."""
        arrays = (self.four, self.other, self.summaries, self.seen)
        header = np.zeros(1, HEADER)
        header["magic"], header["member"] = MAGIC, self.member.encode()
        header["counts"] = [len(array) for array in arrays]
        return b"".join(array.tobytes() for array in (header, *arrays))


class Inbox:
    """Messages that wait for the next turn. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bodies: list[bytes] = []
        self._size = 0

    def put(self, body: bytes) -> bool:
        """Keep a message; False: it is full."""
        with self._lock:
            if len(self._bodies) >= INBOX or self._size + len(body) > INBOX_BYTES:
                return False
            self._bodies.append(body)
            self._size += len(body)
            return True

    def take(self) -> list[bytes]:
        """Remove and return all waiting messages, in order."""
        with self._lock:
            found, self._bodies, self._size = self._bodies, [], 0
            return found


def decode(body: bytes) -> MovedMessage:
    """Decode a message. ValueError: it is malformed."""
    if len(body) < HEADER.itemsize:
        raise ValueError("too short")
    header = np.frombuffer(body, HEADER, 1)[0]
    member = bytes(header["member"]).decode("ascii", "replace")
    if bytes(header["magic"]) != MAGIC or not MEMBER.fullmatch(member):
        raise ValueError("another format")
    arrays, at = [], HEADER.itemsize
    for count, dtype in zip(header["counts"].tolist(), _ARRAYS, strict=True):
        end = at + count * dtype.itemsize
        if end > len(body):
            raise ValueError("too short")
        arrays.append(np.frombuffer(body, dtype, count, at))
        at = end
    if at != len(body):
        raise ValueError("too long")
    return MovedMessage(member, *arrays)

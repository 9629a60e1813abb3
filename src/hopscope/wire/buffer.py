"""A position in the bytes of one frame, from which every `pull_x` reads."""

from __future__ import annotations

from collections.abc import Mapping

from .errors import WireError
from .fields import Header
from .reasons import Place, Reason


class Buffer:
    """Bytes between `at` and `end`; `limit` is lower if a header states a shorter packet.

    Reading past `end` is `truncated`; reading bytes past `limit` that exist is `bad_length`.
    """

    __slots__ = ("at", "end", "limit", "raw")

    def __init__(self, raw: bytes, at: int = 0, end: int | None = None) -> None:
        self.raw = raw
        self.at = at
        self.end = len(raw) if end is None else end
        self.limit = self.end

    @property
    def left(self) -> int:
        """Number of bytes that may still be read."""
        return max(self.limit - self.at, 0)

    def need(self, size: int, place: Place, name: str) -> None:
        """Raise WireError unless `size` bytes may be read here."""
        if self.at + size > self.end:
            left = max(self.end - self.at, 0)
            raise WireError(Reason.TRUNCATED, place, self.at, f"{name} needs {size} bytes, {left} are left")
        if self.at + size > self.limit:
            raise WireError(
                Reason.BAD_LENGTH,
                place,
                self.at,
                f"{name} needs {size} bytes, the IP length leaves {self.left}",
            )

    def peek(self, header: Header, place: Place) -> dict[str, int]:
        """The fields of `header` at this position."""
        self.need(header.size, place, header.name)
        return header.unpack(self.raw, self.at)

    def pull(self, header: Header, place: Place) -> dict[str, int]:
        """Read the fields of `header`, and move past it."""
        fields = self.peek(header, place)
        self.at += header.size
        return fields

    def skip(self, size: int, place: Place, name: str) -> int:
        """Skip `size` bytes; returns their offset."""
        self.need(size, place, name)
        start = self.at
        self.at += size
        return start


def push(out: bytearray, header: Header, values: Mapping[str, int]) -> None:
    """Append `header` with these fields; other fields are 0. Raises ValueError if a value is wider than its
    field.
    """
    out += header.pack(values)

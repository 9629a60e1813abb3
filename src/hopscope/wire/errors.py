"""The exception of the codecs: reason, header and byte offset."""

from __future__ import annotations

from .reasons import Place, Reason


class WireError(ValueError):
    """Bytes that cannot be read; the batch decoder writes the same three numbers into the report's row."""

    def __init__(self, reason: Reason, place: Place, at: int, detail: str) -> None:
        super().__init__(f"{reason.label} at {place.label} (byte {at}): {detail}")
        self.reason = reason
        self.place = place
        self.at = at
        """Offset of the header that was being read, bytes from the start of the frame."""
        self.detail = detail

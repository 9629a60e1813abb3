"""One report while the scalar codecs read it."""

from __future__ import annotations

from hopscope.wire.errors import WireError
from hopscope.wire.records import Hop


class Row:
    """One report while it is read: fields as in REPORT (those not set are 0), its hops and its own
    metadata.
    """

    def __init__(self, fields: dict[str, int]) -> None:
        self.fields = dict(fields)
        self.hops: list[Hop] = []
        self.own: Hop | None = None
        self.error: WireError | None = None

    def set(self, **fields: int) -> None:
        """Set fields."""
        self.fields.update(fields)

    def carry(self, bits: int) -> None:
        """Set bits of `carried`."""
        self.fields["carried"] = self.fields.get("carried", 0) | bits

    def refuse(self, error: WireError) -> None:
        """Write why this report is refused."""
        self.error = error
        self.set(reason=error.reason, place=error.place, reason_at=error.at)

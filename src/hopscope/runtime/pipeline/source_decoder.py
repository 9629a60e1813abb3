"""Decoders of sources that do not send Telemetry Reports: they make reports of what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...settings.listen import ListenSettings
    from ...wire.records import FrameBatch, ReportBatch


class SourceDecoder(Protocol):
    """Datagrams to reports; a result is valid until the next call."""

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """The reports of a batch."""

    def counts(self) -> dict[str, int]:
        """What it has read so far, by the names in `detect.counters`."""


def source_decoder(listen: ListenSettings) -> SourceDecoder | None:
    """The decoder of a listener; None: its dialect's."""
    if listen.kind == "sflow":
        from ...wire.sflow.decoder import SflowDecoder

        return SflowDecoder(listen.node_ids)
    if listen.kind == "ipfix":
        from ...wire.ipfix.decoder import IpfixDecoder

        return IpfixDecoder(listen.node_ids)
    return None

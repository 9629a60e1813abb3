"""Decoders for formats other than Telemetry Reports; they convert what they read into reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ...settings.listen import ListenSettings
    from ...wire.ipfix.domains import Session
    from ...wire.records import FrameBatch, ReportBatch


class SourceDecoder(Protocol):
    """Converts datagrams into reports; a result is valid until the next call."""

    def decode(self, batch: FrameBatch, trails: bool = False) -> ReportBatch:
        """The reports of a batch."""

    def counts(self) -> dict[str, int]:
        """Counts of what it has read so far, by key of `detect.counters`."""


def source_decoder(listen: ListenSettings, ended: list[Session] | None = None) -> SourceDecoder | None:
    """The decoder of a listener; None: the listener's dialect decodes. `ended`: where a listener over TCP
    notes the sessions that have ended.
    """
    if listen.kind == "sflow":
        from ...wire.sflow.decoder import SflowDecoder

        return SflowDecoder(listen.node_ids)
    if listen.kind in ("ipfix", "ipfix+tcp"):
        from ...wire.ipfix.decoder import IpfixDecoder

        return IpfixDecoder(listen.node_ids, ended=ended)
    return None

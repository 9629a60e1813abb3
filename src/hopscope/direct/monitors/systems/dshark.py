"""dShark: parsers send packet summaries to groupers; all summaries of a packet reach the same grouper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ....base.hash_rows import mix64
from ....wire.records import Records
from ...stores.store import Store
from ..bases import Events
from ..monitor import Reports, appended, packed_as

SUMMARY = np.dtype(
    [("packet", "<u8"), ("time_ns", "<i8"), ("switch", "<u4"), ("hop", "u1"), ("path_length", "u1"),
     ("drop_reason", "u1")]
)  # fmt: skip
"""A parser's summary of one packet at one switch."""


@dataclass(slots=True)
class PacketGroup:
    """The summaries of one packet at its grouper."""

    summaries: Records
    """SUMMARY records in hop order."""

    @property
    def path(self) -> tuple[int, ...]:
        """Switch ids in hop order."""
        return tuple(self.summaries["switch"].tolist())

    @property
    def dropped(self) -> bool:
        """Whether the last switch dropped the packet."""
        return bool(self.summaries["drop_reason"][-1])

    @property
    def whole(self) -> bool:
        """Whether every switch up to the path's end or the drop reported it."""
        hops = self.summaries["hop"].tolist()
        end = len(hops) if self.dropped else int(self.summaries["path_length"][-1])
        return bool(hops == list(range(1, end + 1)))


class DShark(Events):
    """Each grouper has a list; a hash of the packet chooses it."""

    name = "dshark"
    description = "summary of a packet at a switch, to the list of the packet's grouper"
    sizes = "23 B"
    source = "dShark; DTA Table 2, Append"
    record = SUMMARY

    def __init__(self, groupers: int = 8) -> None:
        super().__init__(lists=groupers)

    def observe(self, observations: Records) -> Reports:
        """One report per packet and switch."""
        columns = (observations[name] for name in SUMMARY.names or ())
        which = mix64(observations["packet"]) % np.uint64(self.lists)
        return appended(which, packed_as(SUMMARY, columns))

    def query(self, store: Store, grouper: int) -> dict[int, PacketGroup]:
        """Packets in a grouper's list, by id."""
        rows = self.read(store, grouper)
        rows = rows[np.lexsort((rows["hop"], rows["packet"]))]
        packets, first = np.unique(rows["packet"], return_index=True)
        parts = np.split(rows, first[1:]) if len(packets) else []
        return {int(packet): PacketGroup(part) for packet, part in zip(packets, parts, strict=True)}

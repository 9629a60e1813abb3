"""Notices to the owner of a memory: what was written with an immediate value, in a ring of NOTICE records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..memory.region import Region
from ..memory.ring import RingReader, RingWriter, attach_ring, create_ring
from ..wire.records import Records
from .records import NO_TARGET, NOTICE, NOTICE_VERSION, NoticeFlag, Verb, VerbBlock, VerbFlag

NOTICES_FILE = "notices.ring"
"""In the folder of the stores."""


def create_notices(path: Path | None, capacity: int = 4096) -> Region:
    """A ring of NOTICE records, a power of two. Raises RegionError."""
    return create_ring(path, NOTICE, capacity, NOTICE_VERSION)


def follow_notices(folder: Path) -> RingReader:
    """A reader of a folder's notices, from the oldest that is there. RegionError where there is no ring."""
    return RingReader(attach_ring(folder / NOTICES_FILE, NOTICE_VERSION), start="oldest")


class Notifier:
    """Writes notices about verbs that this process executes itself."""

    def __init__(self, region: Region) -> None:
        self._ring = RingWriter(region)
        self.written = 0

    def tell(self, block: VerbBlock, time_ns: int) -> None:
        """A notice for every verb with an immediate value, as a NIC writes them; `time_ns` since 1970."""
        told: Records = block.filled[(block.filled["flags"] & VerbFlag.IMMEDIATE) != 0]
        notices = np.zeros(len(told), NOTICE)
        write = told["kind"] == Verb.WRITE
        notices["time_ns"], notices["flags"] = time_ns, NoticeFlag.IMMEDIATE
        notices["address"] = np.where(write, told["address"], 0)
        notices["length"] = np.where(write, told["length"], 0)
        notices["immediate"] = told["immediate"]
        notices["target"] = np.where(write, told["target"], NO_TARGET)
        for at in range(0, len(notices), self._ring.capacity):
            self._ring.write(notices[at : at + self._ring.capacity])
        self.written += len(notices)

"""Notices to the owner of a memory about writes with an immediate value, in a ring of NOTICE records."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..memory.region import Region
from ..memory.ring import RingReader, RingWriter, attach_ring, create_ring
from ..wire.records import Records
from .records import NO_TARGET, NOTICE, NOTICE_VERSION, NoticeFlag, Verb, VerbBlock, VerbFlag

NOTICES_FILE = "notices.ring"
"""File in the folder of the stores."""


def create_notices(path: Path | None, capacity: int = 4096) -> Region:
    """Create a ring of NOTICE records; `capacity`: a power of two. Raises RegionError."""
    return create_ring(path, NOTICE, capacity, NOTICE_VERSION)


def follow_notices(folder: Path) -> RingReader:
    """A reader of a folder's notices, from the oldest available. Raises RegionError if there is no ring."""
    return RingReader(attach_ring(folder / NOTICES_FILE, NOTICE_VERSION), start="oldest")


class Notifier:
    """Writes notices about verbs that this process executes."""

    def __init__(self, region: Region) -> None:
        self._ring = RingWriter(region)
        self.written = 0

    def notify(self, block: VerbBlock, time_ns: int) -> None:
        """Write a notice for every verb with an immediate value, as a NIC does; `time_ns` since 1970."""
        marked: Records = block.filled[(block.filled["flags"] & VerbFlag.IMMEDIATE) != 0]
        notices = np.zeros(len(marked), NOTICE)
        write = marked["kind"] == Verb.WRITE
        notices["time_ns"], notices["flags"] = time_ns, NoticeFlag.IMMEDIATE
        notices["address"] = np.where(write, marked["address"], 0)
        notices["length"] = np.where(write, marked["length"], 0)
        notices["immediate"] = marked["immediate"]
        notices["target"] = np.where(write, marked["target"], NO_TARGET)
        self._ring.write(notices)
        self.written += len(notices)

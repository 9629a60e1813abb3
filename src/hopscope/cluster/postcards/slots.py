"""The table of slots: which member owns the flows whose postcards are exchanged.

The hash of a flow gives its slot (`detect.postcards.share`). Participating members are listed in one entry of
the bucket of owners. Each member updates it by compare-and-set, to add itself and to remove members that are
gone. The revision of the entry is the generation of the table. From the sorted names, each member computes
the owner of every slot by rendezvous hashing: the member with the highest weight for the slot. So all members
agree, and a member that joins or leaves moves only the slots that it takes or gives away.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ...base.hash_rows import mix64
from ...detect.postcards.share import SLOTS
from ...settings.cluster import MEMBER
from ..buckets import Bucket
from ..process import Context, Part

KEY = "postcards"
"""The entry of the bucket of owners."""
MAX_MEMBERS = 1000
Owners = npt.NDArray[np.int64]


def slot_owners(members: Sequence[str]) -> Owners:
    """Index in `members` of the owner of every slot, int64 [SLOTS]; zeros if there are no members."""
    if not members:
        return np.zeros(SLOTS, np.int64)
    seeds = [hashlib.blake2b(name.encode(), digest_size=8).digest() for name in members]
    mixed = np.frombuffer(b"".join(seeds), "<u8")[:, None] ^ mix64(np.arange(SLOTS, dtype=np.uint64))
    return np.argmax(mix64(mixed), axis=0)


@dataclass(frozen=True, slots=True)
class SlotTable:
    """The owners of all slots, as of a generation."""

    generation: int = 0
    """0: there is none yet."""
    members: tuple[str, ...] = ()
    """Sorted."""
    owners: Owners = field(default_factory=lambda: np.zeros(SLOTS, np.int64))

    def mine(self, member: str) -> npt.NDArray[np.uint8]:
        """uint8 [SLOTS]: 1 for the slots of `member`, which are all slots if it is not in the table."""
        if member not in self.members:
            return np.ones(SLOTS, np.uint8)
        return (self.owners == self.members.index(member)).astype(np.uint8)


class Slots(Part):
    """`slots`: agrees with the other members on the table."""

    name = "slots"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.table = SlotTable()
        """The table in use, replaced as a whole."""
        self._bucket = Bucket(context.connection, context.connection.names.owners)
        self._absent: dict[str, float] = {}
        """Since when members of the table have been absent, monotonic."""
        settings = context.settings.cluster
        self._patience = 2 * settings.heartbeat_seconds

    def turn(self) -> None:
        """Read the table, and correct it if necessary."""
        entry = self._bucket.get(KEY)
        found = () if entry is None else _decode(entry.value)
        if entry is not None and entry.revision != self.table.generation:
            self.table = SlotTable(entry.revision, found, slot_owners(found))
        wanted = tuple(sorted({name for name in found if not self._gone(name)} | self._own()))
        if wanted != found:
            value = json.dumps({"members": wanted}).encode()
            self._bucket.change(KEY, value, 0 if entry is None else entry.revision)
            self.context.wake(self.name)  # read it, or what another member wrote at the same time
        shown = {
            "generation": self.table.generation,
            "members": self.table.members,
            "slots": int(self.table.mine(self.context.name).sum()),
        }
        self.context.shown[self.name] = {"postcards": shown}

    def stop(self) -> None:
        """Leave the table."""
        self.table = SlotTable()
        if not self.context.connected:
            return
        entry = self._bucket.get(KEY)
        found = () if entry is None else _decode(entry.value)
        if entry is not None and self.context.name in found:
            left = [name for name in found if name != self.context.name]
            self._bucket.change(KEY, json.dumps({"members": left}).encode(), entry.revision)

    def _own(self) -> set[str]:
        state = self.context.own.get("state", "live")
        return {self.context.name} if state == "live" else set()

    def _gone(self, name: str) -> bool:
        """Whether a member of the table no longer takes part: it says so, or has been absent for a while."""
        if name == self.context.name:
            return True  # `_own` knows
        record = self.context.living.get(name)
        if record is not None:
            self._absent.pop(name, None)
            return record.state != "live"
        return time.monotonic() - self._absent.setdefault(name, time.monotonic()) > self._patience


def _decode(value: bytes) -> tuple[str, ...]:
    """The members in an entry; none if it is damaged, in which case members rewrite it."""
    try:
        found = json.loads(value)["members"]
        if len(found) <= MAX_MEMBERS and all(MEMBER.fullmatch(name) for name in found):
            return tuple(sorted(set(found)))
    except (ValueError, TypeError, KeyError, RecursionError):
        pass
    return ()

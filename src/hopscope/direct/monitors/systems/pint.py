"""Path tracing with one byte per packet, as in PINT: each copy of a flow's slot holds a different part of the
path.

A packet's number selects copy n, which stands for one hop (n mod hops) and one hash function: that hop's
switch puts 8 bits of ``h(n, switch id)`` into the packet, and the sink writes them. A hop after the path's
end counts as switch 0. A query tries all known switches and takes the one whose bits match in all copies of a
hop; the true one always does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ....base.hash_rows import mix64
from ....wire.observation import FLOW_BYTES
from ....wire.records import Records
from ...primitives.key_write import KeyWriteLayout, query
from ...stores.answers import UNREACHABLE, QueryOptions, Status
from ...stores.store import Store, StoreError
from ..monitor import Bytes, Monitor, MonitorAnswers, Numbers, Reports, packed, reports
from ..packet_stacks import PacketStacks

_COPY, _DIGEST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)


class Pint(Monitor):
    """Reports of 1 B; a path is known once each hop had enough packets."""

    name = "pint-path"
    primitive = "key-write"
    description = "8 bits of one hop's switch id, the copy chosen by the packet"
    sizes = "14 B key (flow and copy), 1 B data"
    source = "PINT; DTA Table 2, row 4"
    key_bytes = FLOW_BYTES + 1
    needs_values = True

    def __init__(self, hops: int = 5, per_hop: int = 3) -> None:
        self.hops, self.per_hop = hops, per_hop
        self._stacks = PacketStacks(hops)

    @property
    def copies(self) -> int:
        """Copies of a flow's value."""
        return self.hops * self.per_hop

    def layout(self, expected: int) -> KeyWriteLayout:
        """Load 1/16 for `expected` flows."""
        return KeyWriteLayout(slots=16 * expected * self.copies, data_bytes=1, copies=1)

    def observe(self, observations: Records) -> Reports:
        """One report per packet that reaches its sink."""
        sinks, stacks = self._stacks.at_sinks(observations)
        copy = (mix64(sinks["packet"] ^ _COPY) % np.uint64(self.copies)).astype(np.int64)
        switch = stacks[np.arange(len(sinks)), copy % self.hops]
        keys = packed(sinks["flow"], (copy, 1))
        return reports(KeyWriteLayout.opcode, keys, packed((digest(copy, switch), 1)), redundancy=1)

    def query(self, store: Store, flows: Bytes, switches: npt.ArrayLike) -> MonitorAnswers:
        """Paths of flows (uint8 [flows, 13]) over `switches`, uint32 [flows, hops], 0 after a path's end.

        EMPTY: a hop has no copy. CONFLICT: several switches fit a hop, or none (the path has changed).
        """
        found = np.zeros((len(flows), self.copies), bool)
        digests = np.zeros((len(flows), self.copies), np.uint8)
        for copy in range(self.copies):
            keys = np.concatenate([flows, np.full((len(flows), 1), copy, np.uint8)], axis=1)
            answers = query(store, keys, copies=1)
            found[:, copy], digests[:, copy] = answers.found, answers.data[:, 0]
        return self._paths(found, digests, switches)

    def stored_keys(self, key: bytes) -> list[bytes]:
        """A flow has one key for each copy."""
        return [key + bytes([copy]) for copy in range(self.copies)] if len(key) == FLOW_BYTES else [key]

    def subject(self, key: bytes) -> bytes:
        """The flow."""
        return key[:FLOW_BYTES]

    def answer(self, answers: list[dict[str, Any]], options: QueryOptions) -> dict[str, Any]:
        """The path of a flow over the switches `options.values`."""
        if len(answers) == 1:
            return answers[0]
        if options.values is None:
            raise StoreError(
                f"{self.name}: a path query needs the switches of the network (--values, values=)"
            )
        if missing := next((each for each in answers if each["status"] == UNREACHABLE), None):
            return missing
        found = np.array([[each["status"] == "found" for each in answers]])
        digests = np.array([[int(each.get("data", "0"), 16) for each in answers]], np.uint8)
        paths = self._paths(found, digests, options.values)
        answer: dict[str, Any] = {"status": Status(paths.status[0]).label}
        if paths.found[0]:
            answer["decoded"] = {"path": [switch for switch in paths.values[0].tolist() if switch]}
        return answer

    def _paths(self, found: npt.NDArray[np.bool_], digests: Bytes, switches: npt.ArrayLike) -> MonitorAnswers:
        """Paths from the copies of flows, bool and uint8 [flows, copies]."""
        flows = len(found)
        candidates = np.unique(np.concatenate([[0], np.asarray(switches, np.uint32)])).astype(np.uint32)
        fits = np.ones((flows, self.hops, len(candidates)), bool)
        seen = np.zeros((flows, self.hops), bool)
        for copy in range(self.copies):
            hop = copy % self.hops
            seen[:, hop] |= found[:, copy]
            same = digest(np.full(len(candidates), copy), candidates)[None, :] == digests[:, copy, None]
            fits[:, hop] &= same | ~found[:, copy, None]
        unique = (fits.sum(axis=2) == 1).all(axis=1)
        status = np.where(seen.all(axis=1), np.where(unique, Status.FOUND, Status.CONFLICT), Status.EMPTY)
        path = np.where((status == Status.FOUND)[:, None], candidates[fits.argmax(axis=2)], np.uint32(0))
        return MonitorAnswers(status.astype(np.uint8), path)


def digest(copy: npt.ArrayLike, switch: npt.ArrayLike) -> Numbers:
    """8 bits of a switch id, by a different function for every copy."""
    salt = mix64(np.asarray(copy, np.int64).astype(np.uint64) + np.uint64(1)) ^ _DIGEST
    return mix64(salt ^ np.asarray(switch).astype(np.uint64)) >> np.uint64(56)

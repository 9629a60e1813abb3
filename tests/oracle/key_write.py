"""Key-Write again, in plain Python: one memory for each collector, byte by byte."""

from __future__ import annotations

import numpy as np

from hopscope.direct.primitives.key_write import KeyWriteLayout, Variant
from hopscope.direct.stores.answers import Status
from hopscope.direct.theory import Rule
from oracle import hashing as twin


class KeyWrite:
    """The stores of all collectors."""

    def __init__(self, layout: KeyWriteLayout) -> None:
        self.layout = layout
        self.memories = [bytearray(layout.nbytes) for _ in range(layout.collectors)]

    def places(self, key: bytes, copies: int) -> list[tuple[int, int]]:
        """Collector and offset of every copy."""
        layout = self.layout
        first = 0
        if layout.collectors > 1:
            first = twin.collector(layout.hashing, key, layout.seed, layout.collectors)
        return [
            (
                (first + copy * layout.spread) % layout.collectors,
                twin.slot(layout.hashing, key, layout.seed, copy, layout.slots) * layout.stride,
            )
            for copy in range(copies)
        ]

    def check(self, key: bytes) -> bytes:
        """Checksum as it is in a slot."""
        bits = self.layout.checksum_bits
        return twin.checksum(self.layout.hashing, key, self.layout.seed, bits).to_bytes(
            -(-bits // 8), "little"
        )

    def write(self, key: bytes, value: bytes, copies: int) -> None:
        """One report."""
        content = self.check(key) + value
        for copy, (collector, at) in enumerate(self.places(key, copies)):
            slot = slice(at, at + len(content))
            swap = self.layout.variant is Variant.SWAP and copy == 1
            if not swap or not any(self.memories[collector][slot]):
                self.memories[collector][slot] = content

    def query(self, key: bytes, copies: int, consensus: int, rule: Rule) -> tuple[Status, bytes, int]:
        """Status, data and votes of one key."""
        check = self.check(key)
        votes: dict[bytes, int] = {}
        for collector, at in dict.fromkeys(self.places(key, copies)):
            content = bytes(self.memories[collector][at : at + self.layout.stride])
            if content.startswith(check):
                value = content[len(check) :]
                votes[value] = votes.get(value, 0) + 1
        best = max(votes.values(), default=0)
        winners = [value for value, count in votes.items() if count == best]
        if len(votes) > 1 and rule is Rule.SINGLE:
            return Status.CONFLICT, b"", best
        if votes and rule is Rule.NEWEST:
            value = next(iter(votes))
            if votes[value] >= consensus:
                return Status.FOUND, value, votes[value]
            return Status.CONFLICT if best >= consensus else Status.EMPTY, b"", best
        if best < consensus or not best:
            return Status.EMPTY, b"", best
        if len(winners) > 1:
            return Status.CONFLICT, b"", best
        return Status.FOUND, winners[0], best

    def as_arrays(self) -> list[np.ndarray[tuple[int], np.dtype[np.uint8]]]:
        """The memories."""
        return [np.frombuffer(bytes(memory), np.uint8) for memory in self.memories]

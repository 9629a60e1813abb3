"""Verbs executed on one memory. The only code that writes into a region."""

from __future__ import annotations

from typing import Any

from ..jit import I64, U8, U64, inlined, kernel
from .records import Verb, VerbFlag

WRITE, FETCH_ADD, CMP_SWAP = U64(Verb.WRITE), U64(Verb.FETCH_ADD), U64(Verb.CMP_SWAP)
REFUSED = U8(VerbFlag.REFUSED)


@inlined
def le64(memory: Any, at: Any) -> Any:
    """Little-endian 64 bits at index `at`."""
    value = U64(0)
    for i in range(8):
        value |= U64(memory[at + U64(i)]) << U64(8 * i)
    return value


@inlined
def put_le64(memory: Any, at: Any, value: Any) -> None:
    """Write 64 bits little-endian at index `at`."""
    for i in range(8):
        memory[at + U64(i)] = U8((value >> U64(8 * i)) & U64(255))


@kernel
def apply(verbs: Any, first: Any, last: Any, payload: Any, memory: Any, target: Any) -> Any:
    """Execute verbs `first` to `last` (excluded) of `target` on its memory, in order; how many were refused.

    A write is copied from its lowest address to its highest, as readers of Append's lists expect.
    """
    refused = U64(0)
    size = U64(memory.shape[0])
    for row in range(U64(first), U64(last)):
        verb = verbs[row]
        if U64(verb["target"]) != U64(target):
            continue
        at, kind = U64(verb["address"]), U64(verb["kind"])
        length = U64(verb["length"]) if kind == WRITE else U64(8)
        if at > size or length > size - at or (kind != WRITE and at & U64(7)):
            verbs[row]["flags"] |= REFUSED
            refused += U64(1)
            continue
        if kind == WRITE:
            source = U64(verb["payload_at"])
            for i in range(length):
                memory[at + i] = payload[source + i]
            continue
        before = le64(memory, at)
        verbs[row]["result"] = before
        if kind == FETCH_ADD:
            put_le64(memory, at, before + U64(verb["value"]))
        elif before == U64(verb["compare"]):
            put_le64(memory, at, U64(verb["value"]))
    return I64(refused)

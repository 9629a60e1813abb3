"""What a primitive is, and which there are: a new one is one module that ends in `register(…)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..memory.region import Region
from ..rdma.records import VerbBlock
from ..wire.records import Records
from .stores import layout as at
from .stores.answers import Question
from .stores.store import KIND, VERSION, Layout, Store, StoreError


class Writer(Protocol):
    """Turns the DTA reports of one primitive into memory operations; keeps what it must (caches, heads)."""

    def room(self, reports: int) -> tuple[int, int]:
        """The most verbs and bytes of payload that so many reports can become."""

    def write(
        self,
        reports: Records,
        rows: npt.NDArray[np.uint32],
        arena: npt.NDArray[np.uint8],
        out: VerbBlock,
    ) -> None:
        """Append the verbs of `rows` of the DTA records; a refused row gets its `reason` in the record.

        `out` has the room that `room(len(rows))` asked for. `arena` holds their keys and data.
        """

    def flush(self, out: VerbBlock, now_ns: int | None = None) -> bool:
        """Append what waits in caches and batches, as much as fits into `out`; True: call again for the rest.

        `now_ns`: only what has been idle for longer than the writer allows (None: everything). Calls with a
        time are its clock, so what is idle goes out at most one interval of calls late.
        """
        return False

    def begin(self, memories: Sequence[npt.NDArray[np.uint8] | None], generation: int) -> None:
        """The memories behind the targets are from now on these: what another writer left, or a new epoch's.

        One for each collector, in order; None: it is elsewhere and cannot be read. `generation`: a number
        (below 2^24) that no earlier beginning of these targets had, such as the seconds of a clock.
        """
        return


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive: how its memory looks, how reports become verbs, and how a file of it is told."""

    name: str
    opcode: int
    layout: type[Layout]
    writer: Callable[[Layout, Sequence[int]], Writer]
    """Called with the layout and the targets' numbers: one for each of `layout.collectors`, in order."""
    tell: Callable[[Store, npt.NDArray[np.uint8], Question], list[dict[str, Any]]]
    """Answers to keys, uint8 [keys, bytes], as JSON objects: for the command line and the HTTP API.

    Each has `status` (found, empty, conflict), what was found under names of its own, and `why` where a
    question is not answered.
    """


PRIMITIVES: dict[int, Primitive] = {}
"""Opcode to primitive, of those that are registered; `load` registers ours."""
_OURS = ("key_write", "key_increment", "postcarding", "append", "cardinality")


def register(primitive: Primitive) -> None:
    """Make a primitive known; ValueError where its opcode is taken by another."""
    known = PRIMITIVES.setdefault(primitive.opcode, primitive)
    if known.name != primitive.name:
        raise ValueError(f"opcode {primitive.opcode} is that of {known.name}")


def load() -> dict[int, Primitive]:
    """All primitives, ours registered."""
    for name in _OURS:
        import_module(f".primitives.{name}", __package__)
    return PRIMITIVES


def named(name: str) -> Primitive:
    """The primitive of this name; StoreError says which there are."""
    for primitive in load().values():
        if primitive.name == name:
            return primitive
    raise StoreError(f"no primitive '{name}'; there are {', '.join(p.name for p in PRIMITIVES.values())}")


def attach(path: Path | str, *, writable: bool = False) -> Store:
    """Map any store: its header says of which primitive it is. Raises RegionError or StoreError."""
    with Region.attach(path, KIND, VERSION) as region:
        opcode = int(region["params"][at.OPCODE]) if "params" in region else 0
    primitive = load().get(opcode)
    if primitive is None:
        raise StoreError(f"{path}: primitive {opcode} is not known")
    return Store.attach(path, primitive.layout, writable=writable)

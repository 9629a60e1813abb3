"""Primitives and their registry: a new primitive is one module that ends in `register(…)`."""

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
from .stores import params as at
from .stores.answers import QueryOptions
from .stores.store import KIND, VERSION, Layout, Store, StoreError


@dataclass(frozen=True, slots=True)
class WriterStart:
    """The memory on which a writer starts: left by an earlier writer, or of a new epoch."""

    generation: int
    """Number below 2^24 that no earlier start on the target has used, such as the seconds of a clock."""
    memory: npt.NDArray[np.uint8] | None = None
    """The memory; None: it is remote."""
    epoch: int = 0
    progress: bytes = b""
    """State of a remote memory, as sent by its owner (`Primitive.progress`)."""


class Writer(Protocol):
    """Turns the DTA reports of one primitive into memory operations; keeps the state for that (caches,
    heads).
    """

    def room(self, reports: int) -> tuple[int, int]:
        """Maximum verbs and payload bytes that `reports` reports can produce."""

    def write(
        self,
        reports: Records,
        rows: npt.NDArray[np.uint32],
        arena: npt.NDArray[np.uint8],
        out: VerbBlock,
    ) -> None:
        """Append the verbs of `rows` of the DTA records; a rejected row gets its `reason` in the record.

        `out` has the capacity that `room(len(rows))` returned. `arena` holds their keys and data.
        """

    def flush(self, out: VerbBlock, now_ns: int | None = None) -> bool:
        """Append the content of caches and batches, as much as fits into `out`; True: call again for the
        rest.

        `now_ns`: append only entries that have been idle for longer than the writer allows; None: everything.
        These calls are the writer's only clock, so idle entries are written at most one call interval late.
        """
        return False

    def begin(self, which: int, start: WriterStart) -> None:
        """Start on a memory of target `which`."""
        return


@dataclass(frozen=True, slots=True)
class Primitive:
    """One primitive: its memory layout, how reports become verbs, and how keys are answered."""

    layout: type[Layout]
    writer: Callable[[Any, Sequence[int]], Writer]
    """Called with the layout and the target numbers, one for each of `layout.collectors`, in order."""
    answer: Callable[[Store, npt.NDArray[np.uint8], QueryOptions], list[dict[str, Any]]]
    """Answers to keys, uint8 [keys, bytes], as JSON objects for the command line and the HTTP API. Each has
    `status` (found, empty, conflict), the primitive's own fields, and without an answer its `reason`.
    """
    progress: Callable[[Store], bytes] = lambda store: b""
    """State of a store's content that a remote writer needs to continue it."""

    @property
    def name(self) -> str:
        """Name of its layout."""
        return self.layout.name

    @property
    def opcode(self) -> int:
        """Opcode of its reports."""
        return self.layout.opcode


PRIMITIVES: dict[int, Primitive] = {}
"""Registered primitives by opcode; `load` registers the built-in ones."""
_BUILT_IN = ("key_write", "key_increment", "postcarding", "append", "cardinality")


def register(primitive: Primitive) -> None:
    """Register a primitive. Raises ValueError if another has its opcode."""
    known = PRIMITIVES.setdefault(primitive.opcode, primitive)
    if known.name != primitive.name:
        raise ValueError(f"opcode {primitive.opcode} belongs to {known.name}")


def load() -> dict[int, Primitive]:
    """All primitives by opcode, including the built-in ones."""
    for name in _BUILT_IN:
        import_module(f".primitives.{name}", __package__)
    return PRIMITIVES


def named(name: str) -> Primitive:
    """The primitive of this name. Raises StoreError that lists the known ones."""
    for primitive in load().values():
        if primitive.name == name:
            return primitive
    raise StoreError(f"unknown primitive '{name}'; known: {', '.join(p.name for p in PRIMITIVES.values())}")


def attach(path: Path | str, *, writable: bool = False) -> Store:
    """Map a store of any primitive, which its header names. Raises RegionError or StoreError."""
    with Region.attach(path, KIND, VERSION) as region:
        opcode = int(region["params"][at.OPCODE]) if "params" in region else 0
    primitive = load().get(opcode)
    if primitive is None:
        raise StoreError(f"{path}: unknown primitive {opcode}")
    return Store.attach(path, primitive.layout, writable=writable)

"""Stores: the memory into which one primitive's reports are written, as a region that any process may read.

A store's region is of kind `direct` and has three arrays: `params` (uint64 [32], `layout`: how to read it),
`state` (uint64 [8]: its epoch and what its writer counts) and `memory` (uint8: what RDMA writes to).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...memory.region import Region
from ..hashing import Hashing, tables
from . import layout as at

MOST_COLLECTORS = 1 << 16
"""Of a header that is believed: writers have a table of them."""
KIND = "direct"
VERSION = 1
EPOCH, WRITES, BEGUN_NS, ENDED_NS = 0, 1, 2, 3
"""Places in `state`: the number of the epoch, verbs executed in it, its start and its end (0: it goes on),
ns since 1970."""


class StoreError(HopscopeError):
    """A store cannot be made or read, or a question does not fit it; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How one primitive uses its memory: subclassed by each, which adds its own fields and checks.

    Everything that a reader needs is in `params`, so that a file explains itself.
    """

    opcode: ClassVar[int]
    schema: ClassVar[int]
    name: ClassVar[str]
    counted: ClassVar[str] = "slots"
    """The field that grows with memory."""

    hashing: Hashing = Hashing.MIX
    """How the slots of a key are found."""
    seed: int = 0
    """Of the hash functions: the same at the translator and in queries."""
    collectors: int = 1
    """Collectors over which keys are spread."""

    def _within(self, **ranges: tuple[int, int]) -> None:
        """Fields that have to lie in (lowest, highest). Raises ValueError."""
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}, expected {low} to {high}")

    @property
    def stride(self) -> int:
        """Bytes from one slot (chunk, counter, list) to the next."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Slots (chunks, counters, lists)."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Bytes of the whole memory."""
        return self.stride * self.count

    @classmethod
    def sized(cls, nbytes: int, **fields: Any) -> Self:
        """The largest layout of at most so many bytes. StoreError where not even one slot fits.

        `fields` are those of the class, without the one that is `counted`.
        """
        one = cls(**{**fields, cls.counted: 1}).nbytes
        if nbytes < one:
            raise StoreError(f"{nbytes:,} bytes, expected at least {one:,} for one of its {cls.counted}")
        return cls(**{**fields, cls.counted: min(nbytes // one, 1 << 32)})

    def own_params(self) -> dict[int, int]:
        """Place in `params` (see `layout`) to value, of what the primitive adds."""
        raise NotImplementedError

    @classmethod
    def own_fields(cls, params: npt.NDArray[np.uint64]) -> dict[str, Any]:
        """The inverse of `own_params`: arguments of the class."""
        raise NotImplementedError

    def params(self) -> npt.NDArray[np.uint64]:
        """The header's array, uint64 [32]."""
        values = {
            at.OPCODE: self.opcode,
            at.SCHEMA: self.schema,
            at.HASHING: self.hashing,
            at.SEED: self.seed,
            at.SLOTS: self.count,
            at.STRIDE: self.stride,
            at.COLLECTORS: self.collectors,
            **self.own_params(),
        }
        params = np.zeros(at.PARAMS, np.uint64)
        for place, value in values.items():
            params[place] = value
        return params

    @classmethod
    def of(cls, params: npt.NDArray[np.uint64]) -> Self:
        """The layout that a header describes; StoreError where it is of another primitive or version."""
        if int(params[at.OPCODE]) != cls.opcode or int(params[at.SCHEMA]) != cls.schema:
            raise StoreError(
                f"layout {int(params[at.SCHEMA])} of primitive {int(params[at.OPCODE])}, "
                f"expected {cls.schema} of {cls.opcode} ({cls.name})"
            )
        collectors = int(params[at.COLLECTORS])
        if collectors > MOST_COLLECTORS:
            raise StoreError(f"its header is damaged: {collectors:,} collectors, at most {MOST_COLLECTORS:,}")
        try:
            return cls(
                hashing=Hashing(int(params[at.HASHING])),
                seed=int(params[at.SEED]),
                collectors=collectors,
                **cls.own_fields(params),
            )
        except ValueError as error:
            raise StoreError(f"its header is damaged: {error}") from error


class Store:
    """A layout and its memory. Made with `create` or `attach`."""

    def __init__(self, region: Region, layout: Layout) -> None:
        self.region = region
        self.layout = layout
        self.params: npt.NDArray[np.uint64] = layout.params()
        """The header's array, a copy: loops believe it, and others may write to the region."""
        self.state: npt.NDArray[np.uint64] = region["state"]
        self.memory: npt.NDArray[np.uint8] = region["memory"]
        self.tables = tables(layout.hashing)

    @classmethod
    def create(cls, path: Path | str | None, layout: Layout) -> Store:
        """Make an empty store; None as path: private memory. Raises RegionError."""
        region = Region.create(path, KIND, VERSION, _arrays(layout.nbytes))
        region["params"][:] = layout.params()
        return cls(region, layout)

    @classmethod
    def attach(cls, path: Path | str, layout: type[Layout], *, writable: bool = False) -> Store:
        """Map a store of this layout, read-only by default. Raises RegionError or StoreError."""
        region = Region.attach(path, KIND, VERSION, writable)
        arrays = region.shape()
        memory = arrays.get("memory", (None, 0))[1]
        if arrays != _arrays(memory):
            raise StoreError(f"{path}: its arrays are not those of a store")
        try:
            found = layout.of(region["params"])
        except StoreError as error:
            raise StoreError(f"{path}: {error}") from error
        if (found.params() != region["params"]).any():
            raise StoreError(f"{path}: its header is damaged: parameters contradict each other")
        if found.nbytes != arrays["memory"][1]:
            raise StoreError(f"{path}: {arrays['memory'][1]:,} bytes, its header says {found.nbytes:,}")
        return cls(region, found)

    @property
    def epoch(self) -> int:
        """Number of the epoch that it holds, from 0."""
        return int(self.state[EPOCH])


def _arrays(nbytes: int) -> dict[str, tuple[np.dtype[Any], int]]:
    """Arrays of a store's region."""
    return {
        "params": (np.dtype(np.uint64), at.PARAMS),
        "state": (np.dtype(np.uint64), 8),
        "memory": (np.dtype(np.uint8), nbytes),
    }

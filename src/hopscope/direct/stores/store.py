"""Stores: the memory of one primitive, in a region that any process may read.

A store's region is of kind `direct` and has three arrays: `params` (uint64 [32]: its layout, see module
`params`), `state` (uint64 [8]: its epoch and its writer's counters) and `memory` (uint8, the target of RDMA
writes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...memory.region import Region
from ..hashing import Hashing, tables
from . import params as at

MAX_COLLECTORS = 1 << 16
"""Maximum in a valid header: writers have a table of collectors."""
KIND = "direct"
VERSION = 1
EPOCH, WRITES, BEGUN_NS, ENDED_NS = 0, 1, 2, 3
"""Indices into `state`: the number of the epoch, verbs executed in it, its start and its end (0: current), ns
since 1970.
"""


_SHARED = {
    at.OPCODE: "opcode",
    at.SCHEMA: "schema",
    at.HASHING: "hashing",
    at.SEED: "seed",
    at.STRIDE: "stride",
    at.COLLECTORS: "collectors",
}
"""Parameters of all primitives: index to attribute."""


class StoreError(HopscopeError):
    """A store cannot be created or read, or a query does not fit it; the message has the reason."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Memory layout of a primitive; each primitive has a subclass with its own fields and checks.

    `params` has everything that a reader needs, so files are self-describing.
    """

    opcode: ClassVar[int]
    schema: ClassVar[int]
    name: ClassVar[str]
    counted: ClassVar[str] = "slots"
    """The field that grows with memory."""
    own: ClassVar[dict[int, str]]
    """The primitive's own parameters in the header: index (module `params`) to attribute."""

    hashing: Hashing = Hashing.MIX
    """Hash function of keys."""
    seed: int = 0
    """Seed of the hash functions, the same in the translator and in queries."""
    collectors: int = 1
    """Collectors over which keys are spread."""

    def _within(self, **ranges: tuple[int, int]) -> None:
        """Check that each field is within its (lowest, highest). Raises ValueError."""
        for name, (low, high) in ranges.items():
            if not low <= getattr(self, name) <= high:
                raise ValueError(f"{name} is {getattr(self, name)}, expected {low} to {high}")

    @property
    def stride(self) -> int:
        """Bytes from one slot (chunk, counter, list) to the next."""
        raise NotImplementedError

    @property
    def count(self) -> int:
        """Number of slots (chunks, counters, lists)."""
        return int(getattr(self, self.own[at.SLOTS]))

    @property
    def nbytes(self) -> int:
        """Bytes of the whole memory."""
        return self.stride * self.count

    @classmethod
    def sized(cls, nbytes: int, **fields: Any) -> Self:
        """The largest layout of at most `nbytes` bytes.

        Raises StoreError if no slot fits. `fields` are those of the class, without the `counted` one.
        """
        smallest = cls(**{**fields, cls.counted: 1}).nbytes
        if nbytes < smallest:
            raise StoreError(f"{nbytes:,} bytes, expected at least {smallest:,} for one of its {cls.counted}")
        return cls(**{**fields, cls.counted: min(nbytes // smallest, 1 << 32)})

    def params(self) -> npt.NDArray[np.uint64]:
        """The header's array, uint64 [32]."""
        params = np.zeros(at.PARAMS, np.uint64)
        for place, name in (_SHARED | self.own).items():
            params[place] = getattr(self, name)
        return params

    @classmethod
    def of(cls, params: npt.NDArray[np.uint64]) -> Self:
        """The layout that a header describes. Raises StoreError for another primitive or version."""
        if int(params[at.OPCODE]) != cls.opcode or int(params[at.SCHEMA]) != cls.schema:
            raise StoreError(
                f"layout {int(params[at.SCHEMA])} of primitive {int(params[at.OPCODE])}, "
                f"expected {cls.schema} of {cls.opcode} ({cls.name})"
            )
        if (collectors := int(params[at.COLLECTORS])) > MAX_COLLECTORS:
            raise StoreError(f"its header is damaged: {collectors:,} collectors, at most {MAX_COLLECTORS:,}")
        given: dict[str, Any] = {name: int(params[place]) for place, name in (_SHARED | cls.own).items()}
        try:
            return cls(**{field.name: _typed(field, given[field.name]) for field in fields(cls)})
        except ValueError as error:
            raise StoreError(f"its header is damaged: {error}") from error


def _typed(field: Field[Any], value: int) -> Any:
    """A parameter converted to the type of the field's default. Raises ValueError if the type has no such
    value.
    """
    return value if field.default is MISSING else type(field.default)(value)


class Store:
    """A layout and its memory; use `create` or `attach`."""

    def __init__(self, region: Region, layout: Layout) -> None:
        self.region = region
        self.layout = layout
        self.params: npt.NDArray[np.uint64] = layout.params()
        """A copy of the header: kernels trust it, and other processes may write to the region."""
        self.state: npt.NDArray[np.uint64] = region["state"]
        self.memory: npt.NDArray[np.uint8] = region["memory"]
        self.tables = tables(layout.hashing)

    @classmethod
    def create(cls, path: Path | str | None, layout: Layout) -> Store:
        """Create an empty store; path None: private memory. Raises RegionError."""
        region = Region.create(path, KIND, VERSION, _arrays(layout.nbytes))
        region["params"][:] = layout.params()
        return cls(region, layout)

    @classmethod
    def attach(cls, path: Path | str, layout: type[Layout], *, writable: bool = False) -> Store:
        """Map a store of this layout, read-only by default. Raises RegionError or StoreError."""
        region = Region.attach(path, KIND, VERSION, writable)
        region.require(_arrays(region.length("memory")))
        try:
            found = layout.of(region["params"])
        except StoreError as error:
            raise StoreError(f"{path}: {error}") from error
        if (found.params() != region["params"]).any():
            raise StoreError(f"{path}: its header is damaged: inconsistent parameters")
        if found.nbytes != region.length("memory"):
            raise StoreError(f"{path}: {region.length('memory'):,} bytes, its header says {found.nbytes:,}")
        return cls(region, found)

    @property
    def epoch(self) -> int:
        """Number of its epoch, from 0."""
        return int(self.state[EPOCH])


L = TypeVar("L", bound=Layout)


def query_arguments(
    stores: Store | Sequence[Store], layout: type[L], keys: npt.NDArray[np.uint8], copies: int | None
) -> tuple[list[Store], L, npt.NDArray[np.uint8], int]:
    """Stores, their layout, keys and copies of a query, checked. Raises StoreError.

    `stores`: one, or those of all collectors in order. `copies`: None: the layout's maximum.
    """
    stores = [stores] if isinstance(stores, Store) else list(stores)
    found = stores[0].layout
    assert isinstance(found, layout)
    keys = np.ascontiguousarray(keys, np.uint8)
    if keys.ndim != 2 or not 1 <= keys.shape[1] <= 255:
        raise StoreError(f"keys of shape {keys.shape}, expected [keys, bytes of a key], of 1 to 255 bytes")
    max_copies = int(stores[0].params[at.COPIES])
    copies = max_copies if copies is None else copies
    if not 1 <= copies <= max_copies:
        raise StoreError(f"{copies} copies: the store has {max_copies}")
    if len(stores) not in (1, found.collectors) or any(store.layout != found for store in stores):
        raise StoreError(
            f"{len(stores)} stores, expected those of {found.collectors} collectors of one layout"
        )
    return stores, found, keys, copies


def _arrays(nbytes: int) -> dict[str, tuple[np.dtype[Any], int]]:
    """Types and lengths of the arrays of a store's region."""
    return {
        "params": (np.dtype(np.uint64), at.PARAMS),
        "state": (np.dtype(np.uint64), 8),
        "memory": (np.dtype(np.uint8), nbytes),
    }

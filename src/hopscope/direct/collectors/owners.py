"""Which collectors have the answer to a key (DART 3.2, step 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..hashing import collectors_of
from ..primitives.append_layout import AppendLayout
from ..primitives.cardinality import CardinalityLayout
from ..primitives.key_write import KeyWriteLayout
from ..stores.store import Layout, StoreError

Owners = npt.NDArray[np.int64]


def owners_of(
    layout: Layout, keys: npt.NDArray[np.uint8], shares: Owners, copies: int | None = None
) -> tuple[Owners, list[str]]:
    """Collectors of keys, int64 [copies, keys], and the keys, as text, under which these collectors have
    them.

    `keys`: uint8 [keys, bytes]; for Append and cardinality they are numbers. `shares`: the collector of each
    share of the keys, int64 [layout.collectors]: the look-up table of DART 3.2. There is one row, except for
    a store whose copies are spread over collectors. In a store that is not spread, the numbers of lists
    continue from one collector to the next, while each collector counts its own lists from 0. Raises
    StoreError.
    """
    texts = [f"0x{bytes(key).hex()}" for key in keys]
    if isinstance(layout, AppendLayout) and layout.collectors != len(shares):
        collectors = int(shares.max()) + 1
        numbers = [_list(layout, key, collectors) for key in keys]
        return np.array([[number // layout.lists for number in numbers]]), [
            str(number % layout.lists) for number in numbers
        ]
    if layout.collectors != len(shares):
        raise StoreError(
            f"the store is spread over {layout.collectors} collectors, the settings name {len(shares)}"
        )
    if isinstance(layout, AppendLayout | CardinalityLayout):
        return shares[[[int.from_bytes(key.tobytes()) % len(shares) for key in keys]]], texts
    first = collectors_of(layout.params(), keys).astype(np.int64)
    if not (isinstance(layout, KeyWriteLayout) and layout.spread):
        return shares[first][None, :], texts
    copy = np.arange(layout.copies if copies is None else copies)
    return shares[(first[None, :] + copy[:, None]) % len(shares)], texts


def _list(layout: AppendLayout, key: npt.NDArray[np.uint8], collectors: int) -> int:
    number = int.from_bytes(key.tobytes())
    if number >= layout.lists * collectors:
        raise StoreError(
            f"list {number}: {collectors} collectors have lists 0 to {layout.lists * collectors - 1}"
        )
    return number

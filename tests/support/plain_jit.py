"""`hopscope.base.jit` without a compiler: every kernel runs as the Python that it is written in.

`install()` takes the place of the module before a kernel is imported.  Integers are NumPy's scalars, which
wrap around as compiled code does; an index beyond an array raises IndexError, which compiled code overlooks.
Some hundred times slower than compiled code: for coverage, and for bounds (`make plain`).
"""

from __future__ import annotations

import functools
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import numpy as np

U8, U16, U32, U64, I64 = np.uint8, np.uint16, np.uint32, np.uint64, np.int64
ONES = (1 << 64) - 1
_inside = False
"""Whether a kernel runs: what it calls gets its arguments as they are."""


class Record(np.void):  # type: ignore[misc]
    """A row of a record array whose fields are attributes, also those that NumPy uses itself, as `flags`."""

    def __getattribute__(self, name: str) -> Any:
        fields = super().__getattribute__("dtype").fields
        if name in fields:
            return super().__getitem__(name)
        return super().__getattribute__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value


def _records(argument: Any) -> Any:
    """Record arrays with `Record` rows; other arguments as they are."""
    if isinstance(argument, np.ndarray):
        kind = argument.dtype
        return argument.view(np.dtype((Record, kind))) if kind.names and kind.type is np.void else argument
    if isinstance(argument, bool | float | np.generic) or argument is None or callable(argument):
        return argument
    if isinstance(argument, int):
        return I64(argument)
    if isinstance(argument, tuple) and hasattr(argument, "_fields"):
        return type(argument)(*map(_records, argument))
    if isinstance(argument, tuple):
        return tuple(map(_records, argument))
    return argument


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with its arguments as a kernel sees them."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        global _inside
        if _inside:
            return function(*arguments)
        _inside = True
        try:
            return function(*map(_records, arguments))
        finally:
            _inside = False

    call.py_func = function  # type: ignore[attr-defined]
    call.overloads = {}  # type: ignore[attr-defined]
    return call


inlined = uncached = kernel
compiled: list[Any] = []


def readonly(array: Any) -> Any:
    """A view that cannot be written."""
    view = array.view()
    view.flags.writeable = False
    return view


def _word(octets: Any, at: Any, count: int, order: Any) -> int:
    first = int(at)
    if first + count > len(octets):
        raise IndexError(f"{count} bytes at {first} of {len(octets)}")
    return int.from_bytes(bytes(octets[first : first + count]), order)


def be16(buf: Any, at: Any) -> Any:
    """Big-endian 16 bits."""
    return U64(_word(buf, at, 2, "big"))


def be32(buf: Any, at: Any) -> Any:
    """Big-endian 32 bits."""
    return U64(_word(buf, at, 4, "big"))


def be64(buf: Any, at: Any) -> Any:
    """Big-endian 64 bits."""
    return U64(_word(buf, at, 8, "big"))


def mix64(x: Any) -> Any:
    """Finaliser of MurmurHash3 (64 bit)."""
    value = int(x) & ONES
    value ^= value >> 33
    value = value * 0xFF51AFD7ED558CCD & ONES
    value ^= value >> 33
    value = value * 0xC4CEB9FE1A85EC53 & ONES
    return U64(value ^ value >> 33)


def fence() -> None:
    """Nothing: there is one thread."""


order = order_reads = fence


def prefetch(array: Any, index: Any, offset: Any) -> None:
    """Nothing."""


prefetch_read = prefetch


def clear(record: Any) -> None:
    """All fields to 0."""
    for name in record.dtype.names:
        record[name] = 0


def cycles() -> Any:
    """A clock."""
    return U64(time.perf_counter_ns())


def load64(octets: Any, at: Any) -> Any:
    """64 bits, little-endian."""
    return U64(_word(octets, at, 8, "little"))


def store64(octets: Any, at: Any, value: Any) -> None:
    """The inverse of `load64`."""
    first = int(at)
    if first + 8 > len(octets):
        raise IndexError(f"8 bytes at {first} of {len(octets)}")
    octets[first : first + 8] = np.frombuffer(int(value).to_bytes(8, "little"), np.uint8)


def few(octets: Any, at: Any, count: Any) -> Any:
    """`count` bytes (0 to 8), little-endian."""
    return U64(_word(octets, at, int(count), "little"))


def move(to: Any, to_at: Any, source: Any, source_at: Any, count: Any) -> None:
    """Copy `count` bytes."""
    here, there, size = int(to_at), int(source_at), int(count)
    if here + size > len(to) or there + size > len(source):
        raise IndexError(f"{size} bytes from {there} of {len(source)} to {here} of {len(to)}")
    to[here : here + size] = source[there : there + size].copy()


def equal_words(words: Any, index: Any, value: Any) -> Any:
    """Bit i is set if `words[index + i] == value`, for 16 words."""
    first = int(index)
    row = words[first : first + 16]
    if len(row) != 16:
        raise IndexError(f"16 words at {first} of {len(words)}")
    return U64(sum(1 << i for i in np.flatnonzero(row == value).tolist()))


def lowest_bit(x: Any) -> Any:
    """Number of the lowest bit that is set; 64 for 0."""
    value = int(x)
    return U64((value & -value).bit_length() - 1 if value else 64)


def highest_bit(x: Any) -> Any:
    """Number of the highest bit that is set; x must not be 0."""
    return U64(int(x).bit_length() - 1)


def install() -> None:
    """Take the place of `hopscope.base.jit`."""
    import hopscope.base

    np.seterr(over="ignore")
    module = types.ModuleType("hopscope.base.jit")
    module.__dict__.update({name: value for name, value in globals().items() if not name.startswith("__")})
    sys.modules[module.__name__] = module
    hopscope.base.jit = module

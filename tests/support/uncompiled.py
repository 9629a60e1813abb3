"""`pytest --uncompiled` runs all kernels as plain Python: `make coverage` sees their lines.

Integers behave as in compiled code as far as kernels make use of it: 64 bits without a sign wrap around, all
others have any size until they are stored.  It is some hundred times slower: for tests with small inputs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from hopscope.base.kernels.plain import SHUFFLED, shuffled

_TOP = (1 << 64) - 1


def _unsigned(bits: int) -> Callable[[Any], int]:
    return lambda x: int(x) & ((1 << bits) - 1)


def _u64(x: Any) -> Any:
    return np.uint64(int(x) & _TOP)


def _i64(x: Any) -> int:
    return (int(x) + (1 << 63) & _TOP) - (1 << 63)


def _fit(value: Any, dtype: Any) -> Any:
    """A value as it is stored: cut to the bits of its field."""
    if isinstance(value, Array | Record):
        return value.raw
    if dtype.kind == "u" and np.ndim(value) == 0:
        return int(value) & ((1 << 8 * dtype.itemsize) - 1)
    if dtype.kind == "i" and np.ndim(value) == 0:
        half = 1 << 8 * dtype.itemsize - 1
        return (int(value) + half & 2 * half - 1) - half
    return value


def _out(value: Any) -> Any:
    """A value as a kernel reads it."""
    if isinstance(value, np.ndarray):
        return Array(value)
    if isinstance(value, np.void):
        return Record(value)
    if isinstance(value, np.integer) and type(value) is not np.uint64:
        return int(value)
    return value


class Array:
    """An array whose items are what compiled code would make of them."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def __len__(self) -> int:
        return len(self.raw)

    def __getitem__(self, index: Any) -> Any:
        return _out(self.raw[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.raw[index] = _fit(value, self.raw.dtype)


class Record:
    """A record whose fields are attributes."""

    raw: Any

    def __init__(self, raw: Any) -> None:
        object.__setattr__(self, "raw", raw)

    def __getattr__(self, name: str) -> Any:
        return _out(self.raw[name])

    def __setattr__(self, name: str, value: Any) -> None:
        self.raw[name] = _fit(value, self.raw.dtype[name])

    __getitem__, __setitem__ = __getattr__, __setattr__


_depth = 0


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself; it gets and returns what the compiled one would."""

    @wraps(function)
    def call(*values: Any) -> Any:
        global _depth
        _depth += 1
        try:
            found = function(*map(_out, values))
        finally:
            _depth -= 1
        if _depth:
            return found
        return tuple(map(_result, found)) if isinstance(found, tuple) else _result(found)

    call.py_func = function  # type: ignore[attr-defined]
    return call


def _result(value: Any) -> Any:
    if isinstance(value, Array | Record):
        return value.raw
    return value.item() if isinstance(value, np.generic) and not isinstance(value, np.void) else value


def clear(record: Record) -> None:
    """Set all fields to 0."""
    zero = np.zeros((), record.raw.dtype)
    for name in record.raw.dtype.names:
        record.raw[name] = zero[name]


def load64(octets: Array, at: Any) -> Any:
    """64 bits, little-endian."""
    return np.uint64(int.from_bytes(octets.raw[int(at) : int(at) + 8].tobytes(), "little"))


def store64(octets: Array, at: Any, value: Any) -> None:
    """The inverse of `load64`."""
    octets.raw[int(at) : int(at) + 8] = np.frombuffer(int(value).to_bytes(8, "little"), np.uint8)


def stream128(octets: Any, at: Any, low: Any, high: Any) -> None:
    """Write 128 bits."""
    store64(octets, at, low)
    store64(octets, at + 8, high)


def equal_words(words: Array, index: Any, value: Any) -> Any:
    """Bits of the 16 words that are equal."""
    found = words.raw[int(index) : int(index) + 16] == np.uint32(value)
    return _u64(sum(1 << i for i in range(16) if found[i]))


def lowest_bit(x: Any) -> Any:
    """Number of the lowest bit."""
    return _u64((int(x) & -int(x)).bit_length() - 1 if x else 64)


def highest_bit(x: Any) -> Any:
    """Number of the highest bit."""
    return _u64(int(x).bit_length() - 1)


def shuffler(order: tuple[int, ...], others: bytes) -> Callable[[Array, Any, Record], Any]:
    """A function that writes a record of 64 bytes."""

    def shuffle(octets: Array, at: Any, record: Record) -> Any:
        source = octets.raw[int(at) : int(at) + SHUFFLED].tobytes()
        values, full = shuffled(source, order, others, record.raw.dtype)
        for name in record.raw.dtype.names:
            record.raw[name] = values[name]
        return _u64(full)

    return shuffle


def comparer(dtypes: Any, names: Any) -> Callable[[Record, Record, Array], Any]:
    """A function that compares fields of two records."""

    def compare(one: Record, other: Record, limits: Array) -> Any:
        found = 0
        for i, (mine, theirs) in enumerate(zip(*names, strict=True)):
            value = int(one[mine])
            apart = abs(value - int(other[theirs])) > int(limits[i])
            found |= (apart or value > int(limits[len(names[0]) + i])) << i
        return _u64(found)

    return compare


def matcher(names: tuple[str, ...]) -> Callable[[Record, Record], bool]:
    """A function that tells whether fields of two records are equal."""
    return lambda one, other: all(int(one[name]) == int(other[name]) for name in names)


def install() -> None:
    """Put all of this into `base.kernels.jit`; kernel modules may not be imported yet."""
    from hopscope.base.kernels import jit

    np.seterr(over="ignore")
    twins = (
        clear, load64, store64, stream128, equal_words, shuffler, comparer, matcher, lowest_bit, highest_bit,
    )  # fmt: skip
    hints = ("fence", "order", "order_reads", "prefetch", "prefetch_read")
    functions: dict[str, Any] = {twin.__name__: twin for twin in twins}
    functions |= dict.fromkeys(hints, lambda *_: None)
    for name in ("be16", "be32", "be64", "mix64", "few", "move"):
        functions[name] = kernel(getattr(jit, name).py_func)
    functions["CAN_SHUFFLE"] = False
    types = {f"U{bits}": _unsigned(bits) for bits in (8, 16, 32)} | {"U64": _u64, "I64": _i64}
    decorators = dict.fromkeys(("kernel", "inlined", "uncached"), kernel)
    for name, twin in (functions | types | decorators).items():
        setattr(jit, name, twin)

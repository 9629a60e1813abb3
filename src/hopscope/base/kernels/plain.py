"""Runs kernels without a compiler: their source is executed as plain Python, for small inputs and for tests.

`load` executes a kernel module in a namespace of its own, in which `jit` is this module: decorators that do
nothing, integers of any size, and plain twins of the intrinsics. Numba is not imported, and the compiled
module may be loaded at the same time.

Differences from compiled code:

* Integers do not wrap around at 64 bits, so the values of a kernel must stay within 0 to 2^64-1. Those of the
  decoder do (tests/wire/test_plain.py runs it with numbers that raise an error if they leave this range).
* An index beyond the end of `bytes` or `Rows` raises IndexError; compiled code would read whatever is there.
* Records are objects with a slot for each field (`record_class`), so a value that is too wide for its field
  is noticed only when the rows are put into an array.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import struct
import sys
from collections.abc import Callable
from functools import cache
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

# --------------------------------------------------------------------------------------------- twins of `jit`

U8 = U16 = U32 = U64 = I64 = int

_MASK = (1 << 64) - 1
_LE64 = struct.Struct("<Q")


def kernel(function: F) -> F:
    """The function itself."""
    return function


inlined = kernel


def be16(buf: Any, at: int) -> int:
    """Big-endian 16 bits at index `at`."""
    return buf[at] << 8 | buf[at + 1]  # type: ignore[no-any-return]


def be32(buf: Any, at: int) -> int:
    """Big-endian 32 bits at index `at`."""
    return buf[at] << 24 | buf[at + 1] << 16 | buf[at + 2] << 8 | buf[at + 3]  # type: ignore[no-any-return]


def be64(buf: Any, at: int) -> int:
    """Big-endian 64 bits at index `at`."""
    return be32(buf, at) << 32 | be32(buf, at + 4)


def mix64(x: int) -> int:
    """Finaliser of MurmurHash3 (64 bit)."""
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & _MASK
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & _MASK
    return x ^ x >> 33


def clear(record: Any) -> None:
    """Set all fields of a record to 0."""
    record.__init__()


def load64(octets: Any, at: int) -> int:
    """64 bits, little-endian, at any index of bytes."""
    return int(_LE64.unpack_from(octets, at)[0])


def store64(octets: Any, at: int, value: int) -> None:
    """The inverse of `load64`."""
    _LE64.pack_into(octets, at, value)


def stream128(octets: Any, at: int, low: int, high: int) -> None:
    """Write 128 bits."""
    store64(octets, at, low)
    store64(octets, at + 8, high)


SHUFFLED = 64
CAN_SHUFFLE, shuffle_by = False, None


def shuffled(
    octets: bytes, order: tuple[int, ...], others: bytes, dtype: np.dtype[np.void]
) -> tuple[Any, int]:
    """The record that a function of `shuffler` writes, and the mask that it returns, for the bytes that it
    reads.
    """
    raw = bytes(others[i] if place < 0 else octets[place] for i, place in enumerate(order))
    words = np.frombuffer(octets, np.uint32)
    return np.frombuffer(raw, dtype)[0], sum(1 << i for i, word in enumerate(words) if word == 0xFFFFFFFF)


def shuffler(order: tuple[int, ...], others: bytes) -> Callable[[Any, int, Any], int]:
    """A function that writes a record of 64 bytes."""

    def shuffle(octets: Any, at: int, record: Any) -> int:
        values, full = shuffled(bytes(octets[at : at + SHUFFLED]), order, others, record.dtype)
        for name in record.names:
            setattr(record, name, int(values[name]))
        return full

    return shuffle


def few(octets: Any, at: int, count: int) -> int:
    """`count` bytes (0 to 8), little-endian."""
    return int.from_bytes(bytes(octets[at : at + count]), "little")


def move(to: Any, to_at: int, source: Any, source_at: int, count: int) -> None:
    """Copy `count` bytes."""
    to[to_at : to_at + count] = source[source_at : source_at + count]


# ---------------------------------------------------------------------------------------------------- records


@cache
def record_class(dtype: np.dtype[np.void]) -> type[Any]:
    """A class whose objects represent records of this dtype: a slot for each field,
    in order, 0 by default.
    """
    names = dtype.names or ()
    parameters = ", ".join(f"{name}=0" for name in names)
    lines = "".join(f"\n    self.{name} = {name}" for name in names)
    space: dict[str, Any] = {}
    exec(f"def __init__(self, {parameters}):{lines}", space)
    body = {"__slots__": names, "__init__": space["__init__"], "names": names, "dtype": dtype}
    return type("Record", (), body)  # type: ignore[return-value]


class Rows(dict[int, Any]):
    """A block of records, which are made at the first access. IndexError beyond `room`."""

    def __init__(self, dtype: np.dtype[np.void], room: int = sys.maxsize) -> None:
        super().__init__()
        self._record, self._room = record_class(dtype), room

    def __missing__(self, index: int) -> Any:
        if not 0 <= index < self._room:
            raise IndexError(f"row {index} of {self._room}")
        made = self[index] = self._record()
        return made

    def __len__(self) -> int:
        return self._room


# ---------------------------------------------------------------------------------------------------- loading


class Loader:
    """Loads kernel modules as plain Python; `jit` stands in for `base.kernels.jit`."""

    def __init__(self, jit: Any) -> None:
        self._jit = jit
        self._loaded: dict[str, ModuleType] = {}

    def load(self, name: str) -> ModuleType:
        """The kernel module of this name, and all kernel modules that it imports, as plain Python."""
        found = self._loaded.get(name)
        if found is not None:
            return found
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            raise ModuleNotFoundError(f"no kernel module {name}")
        module = ModuleType(name)
        module.__file__ = spec.origin
        module.__package__ = spec.parent
        module.__dict__["__builtins__"] = vars(builtins) | {"__import__": self._import}
        exec(cast(CodeType, spec.loader.get_code(name)), module.__dict__)  # type: ignore[attr-defined]
        for key, value in module.__dict__.items():
            if isinstance(value, np.ndarray):
                module.__dict__[key] = value.tolist()
        self._loaded[name] = module
        return module

    def _import(
        self, name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if not fromlist:
            return __import__(name, globals, locals, fromlist, level)
        package = (globals or {}).get("__package__")
        full = importlib.util.resolve_name("." * level + name, package) if level else name
        if self._is_ours(full):
            return self._module(full)
        if not any(self._is_ours(f"{full}.{item}") for item in fromlist):
            return __import__(name, globals, locals, fromlist, level)
        return SimpleNamespace(**{item: self._module(f"{full}.{item}") for item in fromlist})

    @staticmethod
    def _is_ours(name: str) -> bool:
        return name.endswith("_kernel") or name == _JIT

    def _module(self, name: str) -> Any:
        if name == _JIT:
            return self._jit
        return self.load(name) if name.endswith("_kernel") else importlib.import_module(name)


_JIT = f"{__package__}.jit"
_LOADER = Loader(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The kernel module with this full name, as plain Python; always the same object."""
    return _LOADER.load(name)

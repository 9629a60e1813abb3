"""The only importer of Numba: the kernel decorator, integer helpers, intrinsics and the cache policy.

Numba's own cache looks at a kernel's file alone: it misses a change in a file that the kernel imports, and
misses everything when the package is installed at another path.  `SourceLocator` keys a kernel by the
code of its file and of all that it imports (`*_kernel.py`, layouts, records, and this file), by
nothing else: a changed kernel compiles itself and what is built on it; a changed docstring, nothing.

Integers: Numba turns ``int64 + uint64`` into ``float64``.  Indices and constants are therefore ``uint64``;
write ``U64(3)`` for a literal that meets an unsigned value.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba  # noqa: TID251 - the one permitted import
import numpy as np
import numpy.typing as npt
import platformdirs
from llvmlite import ir
from numba.core.caching import CompileResultCacheImpl, _CacheLocator  # noqa: TID251
from numba.extending import intrinsic  # noqa: TID251

F = TypeVar("F", bound=Callable[..., Any])
_PACKAGE = Path(__file__).parents[1]
_IMPORT = re.compile(r"^from (\.*)([\w.]*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)

_PROSE = re.compile(r'^[ \t]*"""(?:[^"]|"(?!""))*"""[ \t]*$|[ \t]+# [^"\'\n]*$|^#.*$', re.MULTILINE)
"""Docstrings and comments: no machine code depends on them."""


def _imports(path: Path, source: str) -> Iterator[Path]:
    """Files of this package that a file imports at its top level."""
    for dots, module, names in _IMPORT.findall(source):
        if dots:
            folder = path.parents[len(dots) - 1]
        elif module.partition(".")[0] == _PACKAGE.name:
            folder, module = _PACKAGE.parent, module
        else:
            continue
        base = folder.joinpath(*module.split(".")) if module else folder
        for name in re.findall(r"(\w+)(?: as \w+)?", names.partition("#")[0]):
            for file in ((base / name).with_suffix(".py"), base.with_suffix(".py")):
                if file.is_file():
                    yield file
                    break


@cache
def closure(path: Path) -> tuple[Path, ...]:
    """A file and all of this package that it imports, directly or not, sorted."""
    found, ahead = {path}, [path]
    while ahead:
        file = ahead.pop()
        for other in _imports(file, file.read_text(encoding="utf-8")):
            if other not in found:
                found.add(other)
                ahead.append(other)
    return tuple(sorted(found))


@cache
def _digest(path: Path) -> bytes:
    lines = _PROSE.sub("", path.read_text(encoding="utf-8")).split("\n")
    code = "\n".join(line for line in lines if line.strip())
    return hashlib.blake2b(code.encode(), digest_size=16).digest()


@cache
def fingerprint(path: Path) -> str:
    """What the machine code of a kernel module depends on: code of its closure, flags of the compiler."""
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "0").encode(), digest_size=10)
    for file in closure(path):
        digest.update(file.name.encode() + _digest(file))
    return digest.hexdigest()


@cache
def all_kernels() -> str:
    """Fingerprint of every kernel of the package: changes with any of them."""
    digest = hashlib.blake2b(digest_size=10)
    for path in sorted(_PACKAGE.rglob("*_kernel.py")):
        digest.update(fingerprint(path).encode())
    return digest.hexdigest()


def cache_folder() -> Path:
    """Folder of compiled kernels."""
    root = os.environ.get("HOPSCOPE_KERNEL_CACHE") or platformdirs.user_cache_dir("hopscope")
    return Path(root) / "kernels"


class SourceLocator(_CacheLocator):
    """Where Numba keeps the machine code of a kernel: by what it is made of, not by where it is installed."""

    def __init__(self, function: Any, file: str) -> None:
        path = Path(file).resolve()
        self._fingerprint = fingerprint(path)
        inside = path.is_relative_to(_PACKAGE)
        name = ".".join(path.relative_to(_PACKAGE).with_suffix("").parts) if inside else path.stem
        self._folder = cache_folder() / name / self._fingerprint
        self._line = "" if inside else str(function.__code__.co_firstlineno)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> SourceLocator | None:
        """A locator, or None if the file is gone or the folder cannot be written."""
        if not os.path.exists(py_file):  # noqa: PTH110 - Numba's names of no file, as <stdin>
            return None
        locator = cls(py_func, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        """Folder of the kernel's files."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What an entry must be equal in to be used."""
        return self._fingerprint

    def get_disambiguator(self) -> str:
        """Tells functions of one name apart; in this package names differ, and lines move with docstrings."""
        return self._line


CompileResultCacheImpl._locator_classes = [SourceLocator, *CompileResultCacheImpl._locator_classes]

U8 = np.uint8
U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
I64 = np.int64

compiled: list[Any] = []
"""Every kernel of the imported modules; `warmup` compiles them, tests count them."""


_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "cache": True,
    "_nrt": False,
    "forceinline": False,
}
"""Nothing is allocated in a kernel, so arrays are not reference counted (`_nrt`).

Numba otherwise counts every array at every call between kernels, with atomic instructions: the batch
decoder took 519 ns a report of 3 hops and 8 fields with it, and 70 ns without.

`forceinline` is said in either case: a kernel for which nothing is said takes it over from the one whose
compilation asks for it first, and so did everything below `payload`.  The batch decoder compiled in 171 s
of a processor then (415 s with bounds checks on), and in 31 s (42 s) since; a packet with a stack of one
hop takes 30.7 ns (31.3 then), a report of 3 hops and 8 fields 46 ns (43).
"""


def kernel(function: F) -> F:
    """Compile `function` on first use: no Python objects, GIL released, C semantics for errors, cached."""
    dispatcher = numba.njit(**_OPTIONS)(function)
    compiled.append(dispatcher)
    return dispatcher  # type: ignore[no-any-return,return-value,unused-ignore]


def inlined(function: F) -> F:
    """A `kernel` that is always inlined: for a hot step whose arrays would cost a call dearly."""
    dispatcher = numba.njit(**{**_OPTIONS, "forceinline": True})(function)
    compiled.append(dispatcher)
    return dispatcher  # type: ignore[no-any-return,return-value,unused-ignore]


def uncached(function: F) -> F:
    """A `kernel` of a caller's own, compiled anew in every process: its source may be anywhere."""
    return numba.njit(**{**_OPTIONS, "cache": False})(function)  # type: ignore[no-any-return,return-value,unused-ignore]


def readonly(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written: inputs always have this one type, so a kernel is compiled once."""
    view = array.view()
    view.flags.writeable = False
    return view


@kernel
def be16(buf: Any, at: Any) -> Any:
    """Big-endian 16 bits at index `at` (uint64), as uint64."""
    return (U64(buf[at]) << U64(8)) | U64(buf[at + U64(1)])


@kernel
def be32(buf: Any, at: Any) -> Any:
    """Big-endian 32 bits at index `at` (uint64), as uint64; one load and a swap after LLVM's idiom match."""
    return (
        (U64(buf[at]) << U64(24))
        | (U64(buf[at + U64(1)]) << U64(16))
        | (U64(buf[at + U64(2)]) << U64(8))
        | U64(buf[at + U64(3)])
    )


@kernel
def be64(buf: Any, at: Any) -> Any:
    """Big-endian 64 bits at index `at` (uint64), as uint64."""
    return (be32(buf, at) << U64(32)) | be32(buf, at + U64(4))


@kernel
def mix64(x: Any) -> Any:
    """Finaliser of MurmurHash3 (64 bit): every input bit reaches every output bit."""
    x = U64(x)
    x ^= x >> U64(33)
    x *= U64(0xFF51AFD7ED558CCD)
    x ^= x >> U64(33)
    x *= U64(0xC4CEB9FE1A85EC53)
    x ^= x >> U64(33)
    return x


@intrinsic  # type: ignore[misc,unused-ignore]
def fence(typingctx: Any) -> Any:
    """Full memory fence: orders a kernel's stores for the readers in other processes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return numba.types.void(), codegen


def _order(typingctx: Any) -> Any:
    """Release fence: earlier reads and writes before later writes. On x86 an order, no instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("release")
        return context.get_dummy_value()

    return numba.types.void(), codegen


order: Any = intrinsic(_order)


def _order_reads(typingctx: Any) -> Any:
    """Acquire fence: earlier reads before later reads and writes. On x86 an order, no instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("acquire")
        return context.get_dummy_value()

    return numba.types.void(), codegen


order_reads: Any = intrinsic(_order_reads)


def _touch(context: Any, builder: Any, signature: Any, args: Any, write: int) -> Any:
    kind = signature.args[0]
    view = context.make_array(kind)(context, builder, args[0])
    i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    at = builder.mul(args[1], ir.Constant(i64, context.get_abi_sizeof(context.get_data_type(kind.dtype))))
    base = builder.bitcast(view.data, i8.as_pointer())
    line = builder.gep(base, [builder.add(at, args[2])])
    touch = builder.module.declare_intrinsic(
        "llvm.prefetch",
        [i8.as_pointer()],
        ir.FunctionType(ir.VoidType(), [i8.as_pointer(), i32, i32, i32]),
    )
    builder.call(touch, [line, ir.Constant(i32, write), ir.Constant(i32, 3), ir.Constant(i32, 1)])
    return context.get_dummy_value()


def _prefetch(typingctx: Any, array: Any, index: Any, offset: Any) -> Any:
    """Ask for the cache line at `offset` bytes into item `index` of a 1-D array; any address is harmless."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _touch(context, builder, signature, args, 1)

    return numba.types.void(array, numba.types.uint64, numba.types.uint64), codegen


prefetch: Any = intrinsic(_prefetch)


def _prefetch_read(typingctx: Any, array: Any, index: Any, offset: Any) -> Any:
    """The same to read it only: it is not taken from a processor that writes to it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _touch(context, builder, signature, args, 0)

    return numba.types.void(array, numba.types.uint64, numba.types.uint64), codegen


prefetch_read: Any = intrinsic(_prefetch_read)


def _clear(typingctx: Any, record: Any) -> Any:
    """Set all bytes of a record to 0, in a few wide stores."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i8, i32, i1 = ir.IntType(8), ir.IntType(32), ir.IntType(1)
        start = builder.bitcast(args[0], i8.as_pointer())
        fill = builder.module.declare_intrinsic(
            "llvm.memset",
            [i8.as_pointer(), i32],
            ir.FunctionType(ir.VoidType(), [i8.as_pointer(), i8, i32, i1]),
        )
        builder.call(fill, [start, ir.Constant(i8, 0), ir.Constant(i32, record.size), ir.Constant(i1, 0)])
        return context.get_dummy_value()

    return numba.types.void(record), codegen


clear: Any = intrinsic(_clear)


def _cycles(typingctx: Any) -> Any:
    """The processor's time stamp counter, uint64: for measurements inside a kernel."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

    return numba.types.uint64(), codegen


cycles: Any = intrinsic(_cycles)


def _octets(context: Any, builder: Any, kind: Any, array: Any, at: Any, bits: int) -> Any:
    """Pointer to an integer of `bits` at index `at` of a uint8 array."""
    view = context.make_array(kind)(context, builder, array)
    return builder.bitcast(builder.gep(view.data, [at]), ir.IntType(bits).as_pointer())


def _load64(typingctx: Any, octets: Any, at: Any) -> Any:
    """64 bits, little-endian, at any index of a uint8 array; the caller has checked that all are in it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_octets(context, builder, signature.args[0], args[0], args[1], 64), align=1)

    return numba.types.uint64(octets, numba.types.uint64), codegen


load64: Any = intrinsic(_load64)


def _store64(typingctx: Any, octets: Any, at: Any, value: Any) -> Any:
    """The inverse of `load64`: one store, so no other process sees half of it where `at` is aligned."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _octets(context, builder, signature.args[0], args[0], args[1], 64), align=1)
        return context.get_dummy_value()

    return numba.types.void(octets, numba.types.uint64, numba.types.uint64), codegen


store64: Any = intrinsic(_store64)


@inlined
def few(octets: Any, at: Any, count: Any) -> Any:
    """`count` bytes (0 to 8) at index `at` of a uint8 array, little-endian, in 64 bits; the rest is zero."""
    if at + U64(8) <= U64(octets.shape[0]):
        if count == U64(0):
            return U64(0)
        return load64(octets, at) & (U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - count * U64(8)))
    value = U64(0)
    for i in range(count):
        value |= U64(octets[at + i]) << (i * U64(8))
    return value


@inlined
def move(to: Any, to_at: Any, source: Any, source_at: Any, count: Any) -> None:
    """Copy `count` bytes between uint8 arrays, from the lowest index to the highest."""
    if count < U64(8):
        for j in range(count):
            to[to_at + j] = source[source_at + j]
        return
    i: Any = U64(0)
    while i + U64(8) <= count:
        store64(to, to_at + i, load64(source, source_at + i))
        i += U64(8)
    if i < count:
        i = count - U64(8)
        store64(to, to_at + i, load64(source, source_at + i))


def _equal_words(typingctx: Any, words: Any, index: Any, value: Any) -> Any:
    """Bit i is set where `words[index + i] == value`, for 16 words of 32 bits, all of them in the array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        i32, row = ir.IntType(32), ir.VectorType(ir.IntType(32), 16)
        at = builder.bitcast(builder.gep(view.data, [args[1]]), row.as_pointer())
        one = builder.insert_element(ir.Constant(row, ir.Undefined), args[2], ir.Constant(i32, 0))
        each = builder.shuffle_vector(one, ir.Constant(row, ir.Undefined), ir.Constant(row, [0] * 16))
        equal = builder.icmp_unsigned("==", builder.load(at, align=4), each)
        return builder.zext(builder.bitcast(equal, ir.IntType(16)), ir.IntType(64))

    return numba.types.uint64(words, numba.types.uint64, numba.types.uint32), codegen


equal_words: Any = intrinsic(_equal_words)


def _lowest_bit(typingctx: Any, x: Any) -> Any:
    """Number of the lowest bit that is set; 64 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return numba.types.uint64(numba.types.uint64), codegen


lowest_bit: Any = intrinsic(_lowest_bit)


def _highest_bit(typingctx: Any, x: Any) -> Any:
    """Number of the highest bit that is set; x must not be 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return numba.types.uint64(numba.types.uint64), codegen


highest_bit: Any = intrinsic(_highest_bit)

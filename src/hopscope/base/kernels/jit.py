"""The tools for writing kernels: the decorator, integer helpers, intrinsics. `compiler` compiles kernels.

Integers: Numba turns ``int64 + uint64`` into ``float64``. Therefore, indices and constants are ``uint64``;
write ``U64(3)`` for a literal that is combined with an unsigned value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import binding as llvm
from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from .compiler import KernelDispatcher

F = TypeVar("F", bound=Callable[..., Any])
U8 = np.uint8
U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
I64 = np.int64

compiled: list[Any] = []
"""All kernels of the imported modules; `warmup` compiles them, tests count them."""


_OPTIONS: dict[str, Any] = {
    "nopython": True,
    "boundscheck": None,
    "nogil": True,
    "error_model": "numpy",
    "_nrt": False,
    "forceinline": False,
}
"""Kernels allocate nothing, so arrays are not reference counted (`_nrt`).

Otherwise, Numba would count every array at every call between kernels, with atomic instructions: the batch
decoder then took 519 ns for a report of 3 hops and 8 fields, and 70 ns without.

`forceinline` is always given, because a kernel without it inherits the option from the kernel whose
compilation first needs it, as did everything below `payload`. The batch decoder then took 171 CPU seconds to
compile (415 s with bounds checks), and 31 s (42 s) since; decoding a packet with a stack of one hop takes
30.7 ns (31.3 ns then), and a report of 3 hops and 8 fields 46 ns (43 ns then).
"""


def kernel(function: F) -> F:
    """Compile `function` on first use: no Python objects, GIL released, C semantics for errors, cached."""
    return _dispatcher(function)  # type: ignore[return-value,unused-ignore]


def _dispatcher(function: Any, cached: bool = True, **options: Any) -> Any:
    dispatcher = KernelDispatcher(function, {**_OPTIONS, **options}, cached)
    if cached:
        compiled.append(dispatcher)
    return dispatcher


def inlined(function: F) -> F:
    """A `kernel` that is always inlined: for a hot step with arrays, which would make a call expensive."""
    return _dispatcher(function, forceinline=True)  # type: ignore[no-any-return,return-value,unused-ignore]


def uncached(function: F) -> F:
    """A `kernel` that is compiled again in every process, so that its source may be anywhere."""
    return _dispatcher(function, cached=False)  # type: ignore[no-any-return,return-value,unused-ignore]


def readonly(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view. If all inputs have this type, a kernel is compiled only once."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
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
    """Finaliser of MurmurHash3 (64 bit): every input bit affects every output bit."""
    x = U64(x)
    x ^= x >> U64(33)
    x *= U64(0xFF51AFD7ED558CCD)
    x ^= x >> U64(33)
    x *= U64(0xC4CEB9FE1A85EC53)
    x ^= x >> U64(33)
    return x


def _fence(typingctx: Any) -> Any:
    """Full memory fence: orders a kernel's stores for the readers in other processes."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return numba.types.void(), codegen


fence: Any = intrinsic(_fence)


def _order(typingctx: Any) -> Any:
    """Release fence: orders earlier reads and writes before later writes. On x86, it needs no instruction."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("release")
        return context.get_dummy_value()

    return numba.types.void(), codegen


order: Any = intrinsic(_order)


def _order_reads(typingctx: Any) -> Any:
    """Acquire fence: orders earlier reads before later reads and writes. On x86, it needs no instruction."""

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
    """Prefetch for writing the cache line `offset` bytes into item `index` of a 1-D array; any address is
    safe.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _touch(context, builder, signature, args, 1)

    return numba.types.void(array, numba.types.uint64, numba.types.uint64), codegen


prefetch: Any = intrinsic(_prefetch)


def _prefetch_read(typingctx: Any, array: Any, index: Any, offset: Any) -> Any:
    """Prefetch as above, but only for reading: the line is not taken away from a
    processor that writes to it.
    """

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
    """The processor's time stamp counter, uint64, for measurements inside a kernel."""

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
    """64 bits, little-endian, at any index of a uint8 array; the caller must have checked the bounds."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_octets(context, builder, signature.args[0], args[0], args[1], 64), align=1)

    return numba.types.uint64(octets, numba.types.uint64), codegen


load64: Any = intrinsic(_load64)


def _store64(typingctx: Any, octets: Any, at: Any, value: Any) -> Any:
    """The inverse of `load64`. It is one store, so if `at` is aligned, no other process sees half of the
    value.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _octets(context, builder, signature.args[0], args[0], args[1], 64), align=1)
        return context.get_dummy_value()

    return numba.types.void(octets, numba.types.uint64, numba.types.uint64), codegen


store64: Any = intrinsic(_store64)


def _stream128(typingctx: Any, octets: Any, at: Any, low: Any, high: Any) -> Any:
    """Write 128 bits to memory, bypassing the caches, for data that this processor does not read again. The
    address must be aligned to 16 bytes. A `fence` must follow before others may read it.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pair, i32 = ir.VectorType(ir.IntType(64), 2), ir.IntType(32)
        both = ir.Constant(pair, ir.Undefined)
        for number, value in enumerate(args[2:]):
            both = builder.insert_element(both, value, ir.Constant(i32, number))
        place = _octets(context, builder, signature.args[0], args[0], args[1], 64)
        stored = builder.store(both, builder.bitcast(place, pair.as_pointer()), align=16)
        stored.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(i32, 1)]))
        return context.get_dummy_value()

    uint64 = numba.types.uint64
    return numba.types.void(octets, uint64, uint64, uint64), codegen


stream128: Any = intrinsic(_stream128)


@inlined
def few(octets: Any, at: Any, count: Any) -> Any:
    """`count` bytes (0 to 8) at index `at` of a uint8 array as a little-endian number, uint64."""
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
    """A bit mask: bit i is set if `words[index + i] == value`, for 16 words of 32 bits, which must be in the
    array.
    """

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


SHUFFLED = 64
"""Number of bytes that a function of `shuffler` reads and writes."""


def shuffler(order: tuple[int, ...], others: bytes) -> Any:
    """A function `(octets, at, record)` that writes a record of 64 bytes by one vector shuffle.

    Byte i of the record is `octets[at + order[i]]`, or `others[i]` if `order[i]` is negative; all 64 bytes
    from `at` on must be in the array. It returns a bit mask of the 32-bit words among these 64 bytes that
    are all ones.
    """

    def shuffle(typingctx: Any, octets: Any, at: Any, record: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            i8, i32 = ir.IntType(8), ir.IntType(32)
            row, words = ir.VectorType(i8, SHUFFLED), ir.VectorType(i32, SHUFFLED // 4)
            view = context.make_array(signature.args[0])(context, builder, args[0])
            start = builder.bitcast(builder.gep(view.data, [args[1]]), row.as_pointer())
            source = builder.load(start, align=1)
            places = [SHUFFLED + i if place < 0 else place for i, place in enumerate(order)]
            shuffled = builder.shuffle_vector(
                source, ir.Constant(row, list(others)), ir.Constant(ir.VectorType(i32, SHUFFLED), places)
            )
            builder.store(shuffled, builder.bitcast(args[2], row.as_pointer()), align=1)
            full = builder.icmp_unsigned(
                "==", builder.bitcast(source, words), ir.Constant(words, [0xFFFFFFFF] * (SHUFFLED // 4))
            )
            return builder.zext(builder.bitcast(full, ir.IntType(SHUFFLED // 4)), ir.IntType(64))

        return numba.types.uint64(octets, numba.types.uint64, record), codegen

    return intrinsic(shuffle)


CAN_SHUFFLE: bool = bool(llvm.get_host_cpu_features().get("avx2"))
"""Whether this processor supports `shuffle_by`."""


def _shuffle_by(typingctx: Any, octets: Any, at: Any, order: Any, index: Any, record: Any) -> Any:
    """Write a record of 64 bytes. Let o be byte i of the 8 words of `order` from `index` on: byte i of the
    record is `octets[at + o]`, or 0 if o is 128. Returns a bit mask of the bytes of the record that are all
    ones.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
        part, half = ir.VectorType(i8, 16), ir.VectorType(i8, SHUFFLED // 2)

        def each(value: int) -> Any:
            return ir.Constant(half, [value] * (SHUFFLED // 2))

        def declared(name: str) -> Any:
            kind = ir.FunctionType(half, [half, half])
            return cgutils.get_or_insert_function(builder.module, kind, name)

        shuffle, add = declared("llvm.x86.avx2.pshuf.b"), declared("llvm.uadd.sat.v32i8")
        view = context.make_array(signature.args[0])(context, builder, args[0])
        orders = context.make_array(signature.args[2])(context, builder, args[2])
        twice = ir.Constant(ir.VectorType(i32, SHUFFLED // 2), [*range(16)] * 2)
        parts = []
        for k in range(4):
            here = builder.gep(view.data, [builder.add(args[1], ir.Constant(i64, 16 * k))])
            loaded = builder.load(builder.bitcast(here, part.as_pointer()), align=1)
            parts.append(builder.shuffle_vector(loaded, ir.Constant(part, ir.Undefined), twice))
        full: Any = ir.Constant(i64, 0)
        for k in range(2):
            here = builder.gep(orders.data, [builder.add(args[3], ir.Constant(i64, 4 * k))])
            places = builder.load(builder.bitcast(here, half.as_pointer()), align=1)
            found: Any = each(0)
            for number, source in enumerate(parts):  # a place in another part gets its highest bit, for a 0
                own = builder.call(add, [builder.xor(places, each(16 * number)), each(0x70)])
                found = builder.or_(found, builder.call(shuffle, [source, own]))
            start = builder.gep(builder.bitcast(args[4], i8.as_pointer()), [ir.Constant(i64, 32 * k)])
            builder.store(found, builder.bitcast(start, half.as_pointer()), align=1)
            ones = builder.bitcast(builder.icmp_unsigned("==", found, each(0xFF)), i32)
            full = builder.or_(full, builder.shl(builder.zext(ones, i64), ir.Constant(i64, 32 * k)))
        return full

    uint64 = numba.types.uint64
    return uint64(octets, uint64, order, uint64, record), codegen


shuffle_by: Any = intrinsic(_shuffle_by)


COMPARED = 4
"""Number of words that a function of `comparer` compares."""


def comparer(dtypes: tuple[Any, Any], names: tuple[tuple[str, ...], tuple[str, ...]]) -> Any:
    """A function `(one, other, limits)` of two records and an array of 2 * COMPARED words of 32 bits.

    It compares COMPARED fields of 32 bits at once. Bit i of the result is set if the i-th fields of the
    records differ by more than `limits[i]`, or if the field of the first record is above `limits[COMPARED +
    i]`.
    """
    offsets = [
        [dtype.fields[name][1] for name in chosen] for dtype, chosen in zip(dtypes, names, strict=True)
    ]

    def compare(typingctx: Any, one: Any, other: Any, limits: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            i8, i32, i64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
            lanes = ir.VectorType(i32, COMPARED)
            values = []
            for record, places in zip(args[:2], offsets, strict=True):
                start = builder.bitcast(record, i8.as_pointer())
                value = ir.Constant(lanes, ir.Undefined)
                for lane, place in enumerate(places):
                    at = builder.bitcast(builder.gep(start, [ir.Constant(i64, place)]), i32.as_pointer())
                    value = builder.insert_element(value, builder.load(at, align=4), ir.Constant(i32, lane))
                values.append(value)
            mine, theirs = values
            view = context.make_array(signature.args[2])(context, builder, args[2])
            start = builder.bitcast(view.data, lanes.as_pointer())
            span, above = (
                builder.load(builder.gep(start, [ir.Constant(i64, part)]), align=4) for part in range(2)
            )
            less = builder.icmp_unsigned("<", mine, theirs)
            apart = builder.select(less, builder.sub(theirs, mine), builder.sub(mine, theirs))
            odd = builder.or_(
                builder.icmp_unsigned(">", apart, span), builder.icmp_unsigned(">", mine, above)
            )
            return builder.zext(builder.bitcast(odd, ir.IntType(COMPARED)), i64)

        return numba.types.uint64(one, other, limits), codegen

    return intrinsic(compare)


def matcher(names: tuple[str, ...]) -> Any:
    """A function `(one, other)` of two records: whether these fields, unsigned integers that both have, are
    equal. Fields that are next to each other in both records are compared at once.
    """

    def match(typingctx: Any, one: Any, other: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            i8, i64 = ir.IntType(8), ir.IntType(64)
            starts = [builder.bitcast(record, i8.as_pointer()) for record in args]
            runs: list[list[int]] = []  # offset in one, offset in other, bytes
            for name in sorted(names, key=one.offset):
                mine, theirs, size = one.offset(name), other.offset(name), one.typeof(name).bitwidth // 8
                if runs and [mine - runs[-1][2], theirs - runs[-1][2]] == runs[-1][:2]:
                    runs[-1][2] += size
                else:
                    runs.append([mine, theirs, size])
            apart: Any = ir.Constant(ir.IntType(1), 0)
            rest: Any = ir.Constant(i64, 0)
            for *places, size in runs:
                kind = ir.IntType(8 * size)
                mine, theirs = (
                    builder.load(
                        builder.bitcast(builder.gep(start, [ir.Constant(i64, at)]), kind.as_pointer()),
                        align=1,
                    )
                    for start, at in zip(starts, places, strict=True)
                )
                if size > 8:
                    apart = builder.or_(apart, builder.icmp_unsigned("!=", mine, theirs))
                else:
                    odd = builder.xor(mine, theirs)
                    rest = builder.or_(rest, odd if size == 8 else builder.zext(odd, i64))
            return builder.not_(builder.or_(apart, builder.icmp_unsigned("!=", rest, ir.Constant(i64, 0))))

        return numba.types.boolean(one, other), codegen

    return intrinsic(match)


def _lowest_bit(typingctx: Any, x: Any) -> Any:
    """Index of the lowest bit that is set; 64 for 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return numba.types.uint64(numba.types.uint64), codegen


lowest_bit: Any = intrinsic(_lowest_bit)


def _highest_bit(typingctx: Any, x: Any) -> Any:
    """Index of the highest bit that is set; x must not be 0."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return numba.types.uint64(numba.types.uint64), codegen


highest_bit: Any = intrinsic(_highest_bit)

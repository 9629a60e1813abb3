"""Private copies of slots or chunks that may be written meanwhile: they are copied until two copies are
equal.

Parameters: `places`: uint64 [keys * copies], offsets; `owners`: uint64 [keys], first collectors; `look`:
uint8 [keys], keys to process; `slots`: uint8 [keys * copies * stride + 8], the copies.
"""

from ...base.kernels.jit import U8, U64, few, inlined, kernel, load64, move, store64

EIGHT = U64(8)


@kernel
def fetch(memory, places, owners, collector, collectors, spread, stride, look, again, slots, changed):
    """Copy this collector's slots, of `stride` bytes, of all keys marked in `look`.

    `again`: they were copied before; keys with a slot that has changed are marked in `changed`, uint8 [keys].
    """
    keys = U64(look.shape[0])
    copies = U64(places.shape[0]) // keys
    for i in range(keys):
        if look[i] == U8(0):
            continue
        for copy in range(copies):
            if collectors > U64(1) and (owners[i] + copy * spread) % collectors != collector:
                continue
            here, at = places[i * copies + copy], (i * copies + copy) * stride
            if again and not same(slots, at, memory, here, stride):
                changed[i] = U8(1)
            if stride == EIGHT:
                store64(slots, at, load64(memory, here))
            else:
                move(slots, at, memory, here, stride)


@inlined
def same(left, left_at, right, right_at, count):
    """Whether `count` bytes of two arrays are equal."""
    i = U64(0)
    while i + EIGHT <= count:
        if load64(left, left_at + i) != load64(right, right_at + i):
            return False
        i += EIGHT
    return few(left, left_at + i, count - i) == few(right, right_at + i, count - i)

"""Key-Write: keys to answers, in three passes over a block of keys: locate their copies, copy them, vote.

Memory is prefetched while the rest of the block is hashed; votes use private copies of slots.

Parameters: `places`: uint64 [keys * copies], offsets of slots; `checks`: uint64 [keys], checksums; `look`:
uint8 [keys], keys to process; `slots`: uint8 [keys * copies * stride], copies of slots.
"""

from ...base.kernels.jit import U8, U64, few, kernel, move, prefetch_read
from ..hashing_kernel import begin, checksum, slot
from ..stores import params as place
from .fetch_kernel import same

EMPTY, FOUND, CONFLICT = U8(0), U8(1), U8(2)
EIGHT = U64(8)
SINGLE, NEWEST = U64(1), U64(2)
"""Numbers of `theory.Rule` in `key_write.RULES`; any other number: PLURALITY."""


@kernel
def locate(keys, key_bytes, copies, memory, params, tables, places, checks):
    """Offsets of the slots of every key, uint64 [keys * copies], and the checksums, uint64 [keys]."""
    mode, stride = params[place.HASHING], params[place.STRIDE]
    at = U64(0)
    for i in range(U64(checks.shape[0])):
        key_at = i * key_bytes
        h = begin(mode, keys, key_at, key_bytes, params[place.SEED])
        checks[i] = checksum(mode, tables, h, keys, key_at, key_bytes, params[place.CHECKSUM_BITS])
        for copy in range(U64(copies)):
            here = slot(mode, tables, h, keys, key_at, key_bytes, copy, params[place.SLOTS]) * stride
            prefetch_read(memory, here, U64(0))
            if stride != EIGHT:
                prefetch_read(memory, here, stride - U64(1))
            places[at] = here
            at += U64(1)


@kernel
def vote(slots, places, checks, look, consensus, rule, spread, params, status, data, votes):
    """The answer to every key by the `Rule`, and the number of copies that hold it; two in one slot count
    once.
    """
    stride, width = params[place.STRIDE], params[place.DATA_BYTES]
    check_bytes = (params[place.CHECKSUM_BITS] + U64(7)) >> U64(3)
    keys = U64(look.shape[0])
    copies = U64(places.shape[0]) // keys
    for i in range(keys):
        if look[i] == U8(0):
            continue
        check, row = checks[i], i * copies
        best, best_at, tied, values = U64(0), U64(0), False, U64(0)
        lowest, lowest_at = U64(0), U64(0)
        for copy in range(copies):
            here = (row + copy) * stride
            if few(slots, here, check_bytes) != check:
                continue
            here += check_bytes
            count, counted = U64(0), False
            for other in range(copies):
                there = (row + other) * stride
                if few(slots, there, check_bytes) != check or not same(
                    slots, here, slots, there + check_bytes, width
                ):
                    continue
                if other < copy:
                    counted = True
                    break
                count += U64(1)
                if spread == U64(0):
                    for earlier in range(copy, other):
                        if places[row + earlier] == places[row + other]:
                            count -= U64(1)
                            break
            if counted:
                continue
            values += U64(1)
            if values == U64(1):
                lowest, lowest_at = count, here
            if count > best:
                best, best_at, tied = count, here, False
            elif count == best:
                tied = True
        status[i] = EMPTY
        votes[i] = U8(best)
        if values > U64(1) and rule == SINGLE:
            status[i] = CONFLICT
        elif rule == NEWEST and values > U64(0):
            if lowest >= U64(consensus):
                status[i], votes[i], best_at = FOUND, U8(lowest), lowest_at
            elif best >= U64(consensus):  # only an older value has the consensus
                status[i] = CONFLICT
        elif best >= U64(consensus) and best > U64(0):
            status[i] = CONFLICT if tied else FOUND
        if status[i] == FOUND:
            move(data, i * width, slots, best_at, width)

"""Postcarding queries: chunks to values, keys to paths."""

from ...base.kernels.jit import U8, U32, U64, inlined, kernel, prefetch_read
from ..hashing_kernel import key_hash, slot
from ..stores import params as place
from .postcarding_kernel import BLANK, MISSING, encode, hop_checksum, word_mask

# flags of an entry of the value table, above its value
PRESENT, AMBIGUOUS = U64(1) << U64(32), U64(1) << U64(33)
IS_BLANK, IS_MISSING = U64(1) << U64(34), U64(1) << U64(35)
NOTHING, FITS, HOLES, UNSURE = U64(0), U64(1), U64(2), U64(3)
"""Kinds of chunks: another key's; a path; values with gaps; a path of values that share a g."""


@kernel
def fill_values(values, mode, tables, bits, table):
    """Fill the open-addressing table of g(v) and v, uint64 [2 * power of two], starting with the two
    reserved values.

    Returns the number of values that share a g.
    """
    mask, last = word_mask(bits), U64(table.shape[0]) // U64(2) - U64(1)
    shared = U64(0)
    for i in range(values.shape[0] + 2):
        value, mark = BLANK, IS_BLANK
        if i == 1:
            value, mark = MISSING, IS_MISSING
        elif i > 1:
            value, mark = U64(values[i - 2]), U64(0)
        code = encode(mode, tables, value, bits) & mask
        at = code & last
        while table[at * U64(2) + U64(1)] and table[at * U64(2)] != code:
            at = (at + U64(1)) & last
        if table[at * U64(2) + U64(1)]:
            table[at * U64(2) + U64(1)] |= AMBIGUOUS
            shared += U64(1)
            continue
        table[at * U64(2)] = code
        table[at * U64(2) + U64(1)] = value | PRESENT | mark
    return shared


@kernel
def value_of(code, table):
    """The entry of a g, or 0 if no value has it."""
    last = U64(table.shape[0]) // U64(2) - U64(1)
    at = code & last
    while table[at * U64(2) + U64(1)]:
        if table[at * U64(2)] == code:
            return table[at * U64(2) + U64(1)]
        at = (at + U64(1)) & last
    return U64(0)


@inlined
def read_chunk(memory, at, mode, tables, h, keys, key_at, key_bytes, hops, bits, table, path):
    """Decode one chunk into `path`, reserved values included. Returns its kind, and from bit 2 on the hops
    with a value.
    """
    size, mask = (bits + U64(7)) >> U64(3), word_mask(bits)
    known, marks = U64(0), U64(0)
    for hop in range(hops):
        word = U64(0)
        for j in range(size):
            word |= U64(memory[at + hop * size + j]) << (j * U64(8))
        code = (word ^ hop_checksum(mode, tables, h, keys, key_at, key_bytes, hop)) & mask
        entry = value_of(code, table)
        if entry == U64(0):
            return NOTHING
        path[hop] = U32(entry & BLANK)
        known |= U64(entry & (IS_BLANK | IS_MISSING) == U64(0)) << hop
        marks |= entry
    if known == U64(0) and marks & AMBIGUOUS == U64(0):
        return NOTHING
    whole = (known & (known + U64(1))) | (marks & IS_MISSING) == U64(0)
    kind = UNSURE if marks & AMBIGUOUS else FITS if whole else HOLES
    return kind | (known << U64(2))


@kernel
def locate(keys, key_bytes, copies, memory, params, tables, places):
    """Offsets of the chunks of every key, uint64 [keys * copies]."""
    for i in range(U64(places.shape[0]) // U64(copies)):
        key_at = i * U64(key_bytes)
        h = key_hash(keys, key_at, U64(key_bytes), params[place.SEED])
        for copy in range(U64(copies)):
            chunk = slot(
                params[place.HASHING], tables, h, keys, key_at, U64(key_bytes), copy, params[place.SLOTS]
            )
            places[i * U64(copies) + copy] = chunk * params[place.STRIDE]
            prefetch_read(memory, chunk * params[place.STRIDE], U64(0))


@kernel
def query(
    keys, key_bytes, copies, partial, chunks, look, params, tables, table, scratch, paths, known, votes, kinds
):
    """Decode the copies of each key's chunks, uint8 [keys * copies * chunk bytes], if marked in `look`.

    `kinds` [keys]: bit `kind` for each kind seen, bit 4 if paths differ.

    `paths` [keys * hops], `known` (bits of hops) and `votes` are those of the first chunk with an answer.
    """
    mode, hops, bits = params[place.HASHING], params[place.HOPS], params[place.CHECKSUM_BITS]
    key_bytes, chunk_bytes = U64(key_bytes), hops * ((bits + U64(7)) >> U64(3))
    for i in range(known.shape[0]):
        if look[i] == U8(0):
            continue
        votes[i] = U8(0)
        key_at, at = U64(i) * key_bytes, U64(i) * hops
        h = key_hash(keys, key_at, key_bytes, params[place.SEED])
        seen = U64(0)
        for copy in range(U64(copies)):
            found = read_chunk(
                chunks, (U64(i) * U64(copies) + copy) * chunk_bytes, mode, tables, h, keys, key_at, key_bytes,
                hops, bits, table, scratch,
            )  # fmt: skip
            kind, hops_known = found & U64(3), found >> U64(2)
            seen |= U64(1) << kind
            if kind != FITS and (kind != HOLES or not partial):
                continue
            if votes[i] == U8(0):
                for hop in range(hops):
                    paths[at + hop] = scratch[hop]
                known[i] = hops_known
                votes[i] = U8(1)
                continue
            same = known[i] == hops_known
            for hop in range(hops):
                same = same and paths[at + hop] == scratch[hop]
            if same:
                votes[i] += U8(1)
            else:
                seen |= U64(16)
        kinds[i] = U8(seen)

"""Postcarding: postcards into the cache, rows of the cache to chunks.

Parameters: `cache`: uint64 [rows * width], see below; `keys`: uint8 [rows * KEY_ROOM], if the hash functions
are CRCs; `state`: uint64 [8], tick and counters; `verbs`, `payload`, `fill`: a VerbBlock."""

from __future__ import annotations

from typing import Any

from ...base.jit import U8, U32, U64, be32, inlined, kernel, mix64, prefetch, store64
from ...rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason
from ..hashing_kernel import MIX, checksum, collector, crc32, hashed, key_hash, slot
from ..stores import params as place

WRITE, NOTIFY = U8(Verb.WRITE), U8(VerbFlag.IMMEDIATE)
IMMEDIATE = U64(DtaFlag.IMMEDIATE)
BAD_HOP, BAD_LENGTH = U8(DtaReason.BAD_HOP), U8(DtaReason.BAD_LENGTH)

BLANK = U64(0xFFFFFFFF)
HOP = U64(64)
"""Functions 64 to 79 of a key are its hops' checksums; lower numbers are those of slots, checksum and
collector.
"""
ROW_HOP = U64(8)
"""First row of the CRC tables for hops: rows 0 to 7 are the copies', so both are at most 8."""

# a row of the cache: key hash, state, then one value per hop; uint64, padded to a power of two
WHAT, VALUES = U64(1), U64(2)
HOPS = U64(0xFFFF)
"""Bits of a row's state: hops seen, path length (from bit 16), the reports' flags (24), complete (31), and
the tick of the last postcard (32).
"""
FLAGS = U64(0x7F)
LENGTH_AT, FLAGS_AT, LEAVES_AT, TICK_AT = U64(16), U64(24), U64(31), U64(32)
LEAVES = U64(1) << LEAVES_AT
KEY_ROOM = 64
"""Bytes of a row's key where the hash functions are CRCs: its length, then the key."""

# indices into the writer's state
TICK, WAITING, COMPLETED, EARLY, AGED, FLUSHED, DUPLICATES = range(7)


@inlined
def word_mask(bits: Any) -> Any:
    """The lowest `bits` (1 to 64) bits."""
    return U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - U64(bits))


@inlined
def encode(mode: Any, tables: Any, value: Any, bits: Any) -> Any:
    """g(v): the lower 32 bits are a permutation of the 32-bit numbers; more bits only if `bits` needs
    them.
    """
    value = U64(value)
    if U64(mode) == MIX:
        low = value ^ (value >> U64(16))  # the finaliser of MurmurHash3, 32 bit
        low = (low * U64(0x85EBCA6B)) & U64(0xFFFFFFFF)
        low ^= low >> U64(13)
        low = (low * U64(0xC2B2AE35)) & U64(0xFFFFFFFF)
        low ^= low >> U64(16)
        if U64(bits) <= U64(32):
            return low
        return low | (mix64(value + U64(1)) & U64(0xFFFFFFFF00000000))
    crc = U64(0xFFFFFFFF)
    for i in range(4):
        octet = (value >> U64(24 - 8 * i)) & U64(255)
        crc = U64(tables[(crc ^ octet) & U64(255)]) ^ (crc >> U64(8))
    return crc ^ U64(0xFFFFFFFF)


@inlined
def hop_checksum(mode: Any, tables: Any, h: Any, arena: Any, at: Any, count: Any, hop: Any) -> Any:
    """checksum(x, i) of a key at hop i, from 0: 64 bits, or 32 where the functions are CRCs."""
    if U64(mode) == MIX:
        return hashed(h, HOP + U64(hop))
    return crc32(tables, ROW_HOP + U64(hop), arena, at, count)


@inlined
def emit(
    row: Any, params: Any, tables: Any, targets: Any, cache: Any, keys: Any, width: Any, verbs: Any,
    payload: Any, fill: Any,
) -> None:  # fmt: skip
    """Append the writes of one row's chunk, one per copy, and empty the row."""
    mode, hops, bits = params[place.HASHING], params[place.HOPS], params[place.CHECKSUM_BITS]
    size, mask = (bits + U64(7)) >> U64(3), word_mask(bits)
    h, what = cache[row * width], cache[row * width + WHAT]
    key_at = row * U64(KEY_ROOM) + U64(1)
    key_bytes = U64(0) if mode == MIX else U64(keys[key_at - U64(1)])
    count, at = fill[COUNT], fill[PAYLOAD]
    for hop in range(hops):
        value = cache[row * width + VALUES + hop] if (what >> hop) & U64(1) else BLANK
        word = hop_checksum(mode, tables, h, keys, key_at, key_bytes, hop) ^ encode(mode, tables, value, bits)
        store64(payload, at + hop * size, word & mask)  # bytes after the word belong to the next one
    target = targets[0]
    if targets.shape[0] > 1:
        target = targets[collector(mode, tables, h, keys, key_at, key_bytes, U64(targets.shape[0]))]
    flags = NOTIFY if (what >> FLAGS_AT) & IMMEDIATE else U8(0)
    for copy in range(params[place.COPIES]):
        verb = verbs[count]
        chunk = slot(mode, tables, h, keys, key_at, key_bytes, copy, params[place.SLOTS])
        verb["address"] = chunk * params[place.STRIDE]
        verb["payload_at"] = U32(at)
        verb["length"] = U32(hops * size)
        verb["target"] = target
        verb["kind"] = WRITE
        verb["flags"] = flags if copy == U64(0) else U8(0)
        if flags and copy == U64(0):
            verb["immediate"] = U32(checksum(mode, tables, h, keys, key_at, key_bytes, U64(32)))
        count += U64(1)
    fill[COUNT], fill[PAYLOAD] = count, at + hops * size
    cache[row * width + WHAT] = U64(0)


@kernel
def drain(
    queue: Any, left: Any, params: Any, tables: Any, targets: Any, cache: Any, keys: Any, width: Any,
    verbs: Any, payload: Any, fill: Any,
) -> None:  # fmt: skip
    """Append the chunks of the first `left` rows of the queue."""
    for i in range(U64(left)):
        emit(U64(queue[i]), params, tables, targets, cache, keys, width, verbs, payload, fill)


@kernel
def write(
    reports: Any, rows: Any, arena: Any, params: Any, tables: Any, targets: Any, cache: Any, keys: Any,
    width: Any, hashes: Any, queue: Any, state: Any, verbs: Any, payload: Any, fill: Any,
) -> None:  # fmt: skip
    """Put postcards into the cache; append the chunks of rows that are complete or evicted by another key.

    Processes blocks of `hashes` [block] postcards in three passes: hash the keys and prefetch their rows;
    update the rows; make the chunks of leaving rows, collected in `queue` [block + 1]. 28.6 to 15.3 ns per
    postcard with 1,000 flows in flight (parsing: 4.4), on a busy machine: rows become complete at random, so
    a branch that makes the chunk at once is mispredicted. 20 ns without prefetching. Blocks of 32 to 512
    measure alike, as does copying an evicted row instead of draining.
    """
    mode, seed, hops = params[place.HASHING], params[place.SEED], params[place.HOPS]
    width, block, total = U64(width), U64(hashes.shape[0]), U64(rows.shape[0])
    lowest = U64(cache.shape[0]) // width - U64(1)
    longest = U64(255) if mode == MIX else U64(KEY_ROOM - 1)
    tick = state[TICK] << TICK_AT
    waiting, early, completed, duplicates = U64(0), U64(0), U64(0), U64(0)
    begin = U64(0)
    while begin < total:
        end = min(begin + block, total)
        for i in range(begin, end):
            report = reports[U64(rows[i])]
            h = key_hash(arena, U64(report["key_at"]), U64(report["key_bytes"]), seed)
            hashes[i - begin] = h
            prefetch(cache, (h & lowest) * width, U64(0))
        left = U64(0)
        for i in range(begin, end):
            index = U64(rows[i])
            report = reports[index]
            hop, length = U64(report["hop"]), U64(report["path_length"])
            if (hop - U64(1) >= hops) | (length > hops) | ((length != U64(0)) & (hop > length)):
                reports[index]["reason"] = BAD_HOP
                continue
            key_at, key_bytes = U64(report["key_at"]), U64(report["key_bytes"])
            if (report["data_bytes"] != U8(4)) | (key_bytes - U64(1) >= longest):
                reports[index]["reason"] = BAD_LENGTH
                continue
            h = hashes[i - begin]
            row = h & lowest
            at = row * width
            what = cache[at + WHAT]
            if what and (cache[at] != h or what & LEAVES):
                if not what & LEAVES:
                    queue[left] = U32(row)
                    left += U64(1)
                    early += U64(1)
                drain(queue, left, params, tables, targets, cache, keys, width, verbs, payload, fill)
                left, what = U64(0), U64(0)
            waiting += U64(what == U64(0))  # saves a branch: every fifth postcard begins a row, at random
            cache[at] = h
            if mode != MIX:
                keys[row * U64(KEY_ROOM)] = U8(key_bytes)
                for j in range(key_bytes):
                    keys[row * U64(KEY_ROOM) + U64(1) + j] = arena[key_at + j]
            bit = U64(1) << (hop - U64(1))
            duplicates += U64(what & bit != U64(0))
            cache[at + VALUES + hop - U64(1)] = be32(arena, U64(report["data_at"]))
            length = length if length else (what >> LENGTH_AT) & U64(255)
            seen = (what & HOPS) | bit
            flags = (what >> FLAGS_AT | U64(report["flags"])) & FLAGS
            whole = (U64(1) << (length if length else hops)) - U64(1)
            leaves = U64(seen & whole == whole)
            cache[at + WHAT] = (
                seen | (length << LENGTH_AT) | (flags << FLAGS_AT) | (leaves << LEAVES_AT) | tick
            )
            queue[left] = U32(row)
            left += leaves
            completed += leaves
        drain(queue, left, params, tables, targets, cache, keys, width, verbs, payload, fill)
        begin = end
    state[WAITING] += waiting - early - completed
    state[EARLY] += early
    state[COMPLETED] += completed
    state[DUPLICATES] += duplicates


@kernel
def sweep(
    first: Any, before: Any, counter: Any, params: Any, tables: Any, targets: Any, cache: Any, keys: Any,
    width: Any, state: Any, verbs: Any, payload: Any, fill: Any,
) -> Any:  # fmt: skip
    """Append the chunks of waiting rows from `first` on whose last postcard is older than tick `before`.

    `counter` is the index of the counter. Returns the row to continue with, or the number of rows when done.
    """
    width = U64(width)
    count = U64(cache.shape[0]) // width
    size = params[place.HOPS] * ((params[place.CHECKSUM_BITS] + U64(7)) >> U64(3))
    for row in range(U64(first), count):
        what = cache[row * width + WHAT]
        if what & HOPS == U64(0) or what >> TICK_AT >= U64(before):
            continue
        if fill[COUNT] + params[place.COPIES] > U64(verbs.shape[0]):
            return row
        if fill[PAYLOAD] + size + U64(8) > U64(payload.shape[0]):
            return row
        emit(row, params, tables, targets, cache, keys, width, verbs, payload, fill)
        state[U64(counter)] += U64(1)
        state[WAITING] -= U64(1)
    return count

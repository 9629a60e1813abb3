"""Postcarding: postcards into the cache, rows of the cache to chunks.

Parameters: `cache`: uint64 [rows * width], see below; `lowest`: rows - 1; `keys`: uint8 [rows * KEY_ROOM],
if the hash functions are CRCs; `state`: uint64 [8], tick and counters; `wholes`: uint64 [hops + 1], the hops
of a path by its length, all of them for 0; `hashes`, `cards`: uint64 [block], `taken`: uint32 [block], the
good postcards of a block: hash of the key, card (below) and index of the record; `queue`: uint32 [block + 1],
rows that leave; `verbs`, `payload`, `fill`: a VerbBlock."""

from ...base.kernels.jit import U8, U32, U64, be32, inlined, kernel, mix64, prefetch, store64
from ...rdma.records import COUNT, PAYLOAD, Verb, VerbFlag
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason
from ..hashing_kernel import MIX, checksum, collector, crc32, hashed, key_hash, slot
from ..stores import params as place

WRITE, NOTIFY = U8(Verb.WRITE), U8(VerbFlag.IMMEDIATE)
IMMEDIATE = U64(DtaFlag.IMMEDIATE)
BAD_HOP, BAD_LENGTH = U8(DtaReason.BAD_HOP), U8(DtaReason.BAD_LENGTH)

BLANK, MISSING = U64(0xFFFFFFFF), U64(0xFFFFFFFE)
"""Reserved values: `emit` writes MISSING, which is BLANK - 1, for a hop on the path without a value."""
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
LENGTH_AT, FLAGS_AT, LEAVES_AT, TICK_AT = U64(16), U64(24), U64(31), U64(32)
LENGTH, FLAGS, LEAVES = U64(0xFF) << LENGTH_AT, U64(0x7F) << FLAGS_AT, U64(1) << LEAVES_AT
HOP_OF_CARD, VALUE_AT = U64(15), U64(32)
"""A card: hop, from 0; path length and flags where a row's state has them; value (from bit 32)."""
KEY_ROOM = 64
"""Bytes of a row's key where the hash functions are CRCs: its length, then the key."""

# indices into the writer's state
TICK, WAITING, COMPLETED, EARLY, AGED, FLUSHED, DUPLICATES = range(7)


@inlined
def word_mask(bits):
    """The lowest `bits` (1 to 64) bits."""
    return U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - U64(bits))


@inlined
def encode(mode, tables, value, bits):
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
def hop_checksum(mode, tables, h, arena, at, count, hop):
    """checksum(x, i) of a key at hop i, from 0: 64 bits, or 32 where the functions are CRCs."""
    if U64(mode) == MIX:
        return hashed(h, HOP + U64(hop))
    return crc32(tables, ROW_HOP + U64(hop), arena, at, count)


@inlined
def emit(row, params, tables, targets, cache, keys, width, verbs, payload, fill):
    """Append the writes of one row's chunk, one per copy, and empty the row."""
    mode, hops, bits = params[place.HASHING], params[place.HOPS], params[place.CHECKSUM_BITS]
    size, mask = (bits + U64(7)) >> U64(3), word_mask(bits)
    h, what = cache[row * width], cache[row * width + WHAT]
    on_path = what | ((U64(1) << ((what & LENGTH) >> LENGTH_AT)) - U64(1))
    key_at = row * U64(KEY_ROOM) + U64(1)
    key_bytes = U64(0) if mode == MIX else U64(keys[key_at - U64(1)])
    count, at = fill[COUNT], fill[PAYLOAD]
    for hop in range(hops):
        value = cache[row * width + VALUES + hop] if (what >> hop) & U64(1) else BLANK
        value -= U64(value == BLANK) & (on_path >> hop)  # MISSING
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
def drain(queue, left, params, tables, targets, cache, keys, width, verbs, payload, fill):
    """Append the chunks of the first `left` rows of the queue."""
    for i in range(U64(left)):
        emit(U64(queue[i]), params, tables, targets, cache, keys, width, verbs, payload, fill)


@inlined
def accept(
    reports, rows, first, last, arena, longest, seed, hops, cache, lowest, width, hashes, cards, taken
):
    """Check postcards `first` to `last` (excluded) of `rows`, hash their keys, and prefetch their rows of the
    cache.

    Returns the number of good ones; the others get their reason.
    """
    count = U64(0)
    for i in range(first, last):
        index = U64(rows[i])
        report = reports[index]
        hop, length = U64(report["hop"]) - U64(1), U64(report["path_length"])
        if (hop >= hops) | (length > hops) | ((length != U64(0)) & (hop >= length)):
            reports[index]["reason"] = BAD_HOP
            continue
        key_bytes = U64(report["key_bytes"])
        if (report["data_bytes"] != U8(4)) | (key_bytes - U64(1) >= longest):
            reports[index]["reason"] = BAD_LENGTH
            continue
        h = key_hash(arena, U64(report["key_at"]), key_bytes, seed)
        prefetch(cache, (h & lowest) * width, U64(0))
        hashes[count] = h
        marks = (U64(report["flags"]) << FLAGS_AT) & FLAGS | (length << LENGTH_AT) | hop
        cards[count] = (be32(arena, U64(report["data_at"])) << VALUE_AT) | marks
        taken[count] = U32(index)
        count += U64(1)
    return count


@inlined
def put(first, last, hashes, cards, cache, lowest, width, wholes, tick, queue, state):
    """Put cards from `first` into their rows, until `last` (excluded) or one whose row has another key or
    leaves; the rows that become complete are queued.

    Returns where it ended, and from bit 32 on the length of the queue.
    """
    begun, left, again = U64(0), U64(0), U64(0)
    i = U64(first)
    while i < last:
        h, card = hashes[i], cards[i]
        row = h & lowest
        at = row * width
        what = cache[at + WHAT]
        other = (cache[at] ^ h) | (what & LEAVES)
        # LLVM would turn an `and` into two branches, often mispredicted: each fifth card meets an empty row
        if (U64(what != U64(0)) << U64(1)) + U64(other != U64(0)) == U64(3):
            break
        hop = card & HOP_OF_CARD
        begun += U64(what == U64(0))
        again += (what >> hop) & U64(1)
        cache[at] = h
        cache[at + VALUES + hop] = card >> VALUE_AT
        what &= HOPS | FLAGS if card & LENGTH else HOPS | FLAGS | LENGTH
        what |= card & (FLAGS | LENGTH) | (U64(1) << hop)
        whole = wholes[(what & LENGTH) >> LENGTH_AT]
        leaves = U64(what & whole == whole)
        cache[at + WHAT] = what | (leaves << LEAVES_AT) | tick
        queue[left] = U32(row)
        left += leaves
        i += U64(1)
    state[WAITING] += begun - left
    state[COMPLETED] += left
    state[DUPLICATES] += again
    return i | (left << U64(32))


@inlined
def keep_keys(first, last, reports, taken, arena, hashes, lowest, keys):
    """Copy the keys of cards `first` to `last` (excluded) to their rows."""
    for i in range(U64(first), U64(last)):
        report = reports[U64(taken[i])]
        at, key_at, count = (hashes[i] & lowest) * U64(KEY_ROOM), U64(report["key_at"]), report["key_bytes"]
        keys[at] = count
        for j in range(U64(count)):
            keys[at + U64(1) + j] = arena[key_at + j]


@kernel
def write(
    reports, rows, arena, params, tables, targets, cache, keys, width, wholes, hashes, cards, taken, queue,
    state, verbs, payload, fill,
):  # fmt: skip
    """Put postcards into the cache; append the chunks of rows that are complete or evicted by another key.

    Processes blocks of postcards in three passes: check them and prefetch their rows; put them into the rows;
    make the chunks of leaving rows. Rows become complete at random, so a branch that makes a chunk at once
    would be mispredicted: with 1,000 flows in flight, a postcard takes 15.3 ns instead of 28.6 (parsing:
    4.4). Cards instead of records in the second pass, blocks of 64 instead of 256 and the cache in huge pages
    reduce the time from datagram to store from 35.9 to 28.3 ns (alternating runs, on another machine).
    """
    mode, seed, hops = params[place.HASHING], params[place.SEED], params[place.HOPS]
    width, block, total = U64(width), U64(hashes.shape[0]), U64(rows.shape[0])
    lowest = U64(cache.shape[0]) // width - U64(1)
    longest = U64(255) if mode == MIX else U64(KEY_ROOM - 1)
    tick = state[TICK] << TICK_AT
    begin = U64(0)
    while begin < total:
        end = min(begin + block, total)
        count = accept(
            reports, rows, begin, end, arena, longest, seed, hops, cache, lowest, width, hashes, cards, taken
        )
        at = U64(0)
        while at < count:
            done = put(at, count, hashes, cards, cache, lowest, width, wholes, tick, queue, state)
            ended, left = done & U64(0xFFFFFFFF), done >> U64(32)
            if mode != MIX:
                keep_keys(at, ended, reports, taken, arena, hashes, lowest, keys)
            if ended < count:
                row = hashes[ended] & lowest
                if not cache[row * width + WHAT] & LEAVES:  # it blocks another key
                    queue[left] = U32(row)
                    left += U64(1)
                    state[EARLY] += U64(1)
                    state[WAITING] -= U64(1)
            drain(queue, left, params, tables, targets, cache, keys, width, verbs, payload, fill)
            at = ended
        begin = end


@kernel
def sweep(first, before, counter, params, tables, targets, cache, keys, width, state, verbs, payload, fill):
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

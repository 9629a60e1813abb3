"""Path sums: postcards into rows, complete rows above the threshold into records."""

from ...base.kernels.jit import U8, U32, U64, be32, kernel, move
from ..hashing_kernel import key_hash

# a row: key hash, state, time of the last postcard, then one value per hop
WHAT, LAST, VALUES = U64(1), U64(2), U64(3)
SEEN = U64(0xFFFF)
"""Bits of the state: hops seen, path length (from bit 16), bytes of the key (from bit 24)."""
KEY_ROOM = 64
"""Maximum bytes of a key."""

# counters
ABOVE, BELOW, UNANSWERED, DUPLICATES, SKIPPED = range(5)

# indices into `limits`
THRESHOLD, HOPS, LATENCY_BITS, IDLE = range(4)


@kernel
def observe(reports, rows, arena, limits, now, cache, keys, width, counters, out):
    """Process the postcards in `rows`; write paths with a sum above the threshold to `out`, and return their
    number.
    """
    hops, width, now = limits[HOPS], U64(width), U64(now)
    lowest = U64(cache.shape[0]) // width - U64(1)
    latency = (U64(1) << limits[LATENCY_BITS]) - U64(1)
    count = U64(0)
    for i in range(rows.shape[0]):
        report = reports[U64(rows[i])]
        hop, length, key_bytes = U64(report["hop"]), U64(report["path_length"]), U64(report["key_bytes"])
        if report["reason"] != U8(0):
            continue
        if (
            hop == U64(0) or hop > hops or length > hops or key_bytes == U64(0) or key_bytes > U64(KEY_ROOM)
            or report["data_bytes"] != U8(4)
        ):  # fmt: skip
            counters[SKIPPED] += U64(1)
            continue
        h = key_hash(arena, U64(report["key_at"]), key_bytes, U64(0))
        row = h & lowest
        at = row * width
        what = cache[at + WHAT]
        if what and (cache[at] != h or now - cache[at + LAST] > limits[IDLE]):
            counters[UNANSWERED] += U64(1)
            what = U64(0)
        if what == U64(0):
            cache[at] = h
            move(keys, row * U64(KEY_ROOM), arena, U64(report["key_at"]), key_bytes)
        bit = U64(1) << (hop - U64(1))
        if what & bit:
            counters[DUPLICATES] += U64(1)
        if length == U64(0):
            length = (what >> U64(16)) & U64(255)
        cache[at + VALUES + hop - U64(1)] = be32(arena, U64(report["data_at"]))
        cache[at + LAST] = now
        seen = (what & SEEN) | bit
        cache[at + WHAT] = seen | (length << U64(16)) | (key_bytes << U64(24))
        length = length if length else hops
        whole = (U64(1) << length) - U64(1)
        if seen & whole != whole:
            continue
        cache[at + WHAT] = U64(0)
        total = U64(0)
        for j in range(length):
            total += cache[at + VALUES + j] & latency
        if total <= limits[THRESHOLD]:
            counters[BELOW] += U64(1)
            continue
        counters[ABOVE] += U64(1)
        found = out[count]
        found["sum"], found["hops"], found["key_bytes"] = total, U8(length), U8(key_bytes)
        for j in range(key_bytes):
            found["key"][j] = keys[row * U64(KEY_ROOM) + j]
        for j in range(length):
            found["values"][j] = U32(cache[at + VALUES + j])
        count += U64(1)
    return count

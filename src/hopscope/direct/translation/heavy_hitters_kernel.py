"""Heavy hitters: additions of keys into a count-min sketch, keys that reach a threshold into records.

===================== ==========================================================================
`reports`, `rows`     DTA; uint32: indices of the reports to process
`arena`               uint8: keys of the reports
`limits`              uint64 [2]: THRESHOLD, SEED of the hash
`sketch`              uint64 [ROWS * WIDTH]
`out`                 HEAVY_HITTER [rows]
===================== ==========================================================================
"""

from ...base.kernels.jit import U8, U64, kernel, mix64
from ..hashing_kernel import key_hash

ROWS, WIDTH = 4, 1 << 16
THRESHOLD, SEED = range(2)
GOLDEN = U64(0x9E3779B97F4A7C15)
MASK = U64(WIDTH - 1)
KEY_ROOM = U64(64)
MOST = U64(0xFFFFFFFFFFFFFFFF)


@kernel
def observe(reports, rows, arena, limits, sketch, out):
    """Count the additions of `rows`; returns how many keys reached the threshold, which are in `out`."""
    found = U64(0)
    for i in range(rows.shape[0]):
        report = reports[U64(rows[i])]
        key_at, key_bytes = U64(report["key_at"]), U64(report["key_bytes"])
        if report["reason"] != U8(0) or key_bytes > KEY_ROOM or key_at + key_bytes > U64(arena.shape[0]):
            continue
        h = key_hash(arena, key_at, key_bytes, limits[SEED])
        before = MOST
        for row in range(U64(ROWS)):
            before = min(before, sketch[row * U64(WIDTH) + (mix64(h + row * GOLDEN) & MASK)])
        after = before + U64(report["counter"])
        if after < before:
            after = MOST
        for row in range(U64(ROWS)):
            at = row * U64(WIDTH) + (mix64(h + row * GOLDEN) & MASK)
            sketch[at] = max(sketch[at], after)
        if before < limits[THRESHOLD] and after >= limits[THRESHOLD]:
            entry = out[found]
            entry["count"] = after
            entry["key_bytes"] = U8(key_bytes)
            for k in range(key_bytes):
                entry["key"][k] = arena[key_at + k]
            found += U64(1)
    return found

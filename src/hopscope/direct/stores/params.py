"""Header of a store: indices into an array of 32 uint64, the same for every primitive."""

PARAMS = 32
"""Length of the array `params` of a store's region."""

# indices; unused parameters are 0
OPCODE = 0
"""The primitive (`wire.dta.Opcode`)."""
SCHEMA = 1
"""Version of the primitive's layout."""
HASHING = 2
"""`direct.hashing.Hashing`."""
SEED = 3
SLOTS = 4
"""Slots, chunks, counters or lists."""
STRIDE = 5
"""Bytes from one slot to the next."""
CHECKSUM_BITS = 6
DATA_BYTES = 7
"""Bytes of one report's data."""
COPIES = 8
"""Maximum copies of a report."""
HOPS = 9
"""Postcarding: hops per chunk."""
BATCH = 10
"""Append: entries per write."""
BATCHES = 11
"""Append: batches in a list's ring."""
VARIANT = 12
"""A primitive's own variant; Key-Write: `key_write.Variant`."""
COLLECTORS = 13
"""Collectors over which keys are spread (0 and 1: one)."""
SPREAD = 14
"""1: each copy of a key goes to a different collector, starting with the key's."""
DRAWN = 15
"""Key-Write, 1: a report writes one copy, drawn at random."""

"""What stands in the header of a store: an array of 32 uint64, the same for every primitive."""

from __future__ import annotations

PARAMS = 32
"""Length of the array `params` of a store's region."""

# places in it; 0 where a primitive has no use for one
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
"""Bytes from one of them to the next."""
CHECKSUM_BITS = 6
DATA_BYTES = 7
"""Bytes of one report's data."""
COPIES = 8
"""The most copies of a report."""
HOPS = 9
"""Postcarding: hops per chunk."""
BATCH = 10
"""Append: entries per write."""
BATCHES = 11
"""Append: writes after which a list's ring begins again."""
VARIANT = 12
"""A primitive's own choice; Key-Write: `key_write.Variant`."""
COLLECTORS = 13
"""Collectors over which keys are spread (0 and 1: one)."""
SPREAD = 14
"""1: every copy of a key goes to a collector of its own, beginning with the key's."""

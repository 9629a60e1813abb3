"""Adds the tallies of kernels to the counters."""

from ..base.kernels.jit import U64, kernel


@kernel
def settle(tally, slots, places, counters):
    """Add `tally[slots[k]]` to `counters[places[k]]` for every k, then clear `tally` (all uint64).

    A wrapped negative number subtracts. One call takes 1 us; NumPy's `counters[places] += tally[slots]` 3 us,
    and several times as long after a pause, since more of its code has left the caches.
    """
    for k in range(len(slots)):
        counters[U64(places[k])] += tally[U64(slots[k])]
    for slot in range(len(tally)):
        tally[slot] = U64(0)

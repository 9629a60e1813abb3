"""The sink's kernel, packet by packet, with the time stamp counter read before and after each."""

from hopscope.base.kernels.jit import U8, U32, U64, cycles, kernel
from hopscope.detect.flows.ahead_kernel import SLOTS
from hopscope.detect.flows.event_kernel import NOT_FOUND
from hopscope.detect.sink.sink_kernel import update_kernel

UPDATE, NOTIFY, EVICT, ADD, BOTH = U8(0), U8(1), U8(2), U8(3), U8(4)
"""What a packet caused: nothing but the update, events, an eviction, a new flow in an empty way, events and
one of the other two."""


@kernel
def stamp(
    reports, hops, tags, flows, states, pool, rows, bins, edges, ports, shares, limits, overrides, bounds,
    knobs, told, journal, gone, marked, tally, hashes, path, where, spare, taken, caused,
):  # fmt: skip
    """Run `update_kernel` for each packet alone: no prefetching ahead of others helps it.

    `taken` uint32 [packets]: cycles; `caused` uint8 [packets].
    """
    for k in range(len(reports)):
        i = U64(k)
        one = reports[i : i + U64(1)]
        begin = cycles()
        _, n, _, g = update_kernel(
            one, U64(0), hops, tags, flows, states, pool, rows, bins, edges, ports, shares, limits, overrides,
            bounds, knobs, told, journal, gone, marked, tally, hashes, path, where, spare,
        )  # fmt: skip
        end = cycles()
        taken[i] = U32(min(end - begin, U64(0xFFFFFFFF)))
        caused[i] = kind_of(n, g, hashes[SLOTS] == NOT_FOUND)  # the way that was found


@kernel
def kind_of(events, evictions, is_new):
    """What a packet caused."""
    if events and (evictions or is_new):
        return BOTH
    if evictions:
        return EVICT
    if is_new:
        return ADD
    return NOTIFY if events else UPDATE


@kernel
def nothing(taken):
    """What two reads of the counter take, one after the other."""
    for k in range(len(taken)):
        begin = cycles()
        taken[U64(k)] = U32(cycles() - begin)


@kernel
def read(to, at):
    """The counter, into `to[at]`."""
    to[at] = cycles()

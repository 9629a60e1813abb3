"""Descriptors of an AF_XDP socket to the payloads of UDP datagrams, in place."""

from hopscope.base.kernels.jit import U64, kernel
from hopscope.capture.ring.report_kernel import datagram
from hopscope.capture.udp.udp_kernel import put

_LENGTH = U64(0xFFFFFFFF)
_NONE = U64(0)


@kernel
def describe(umem, taken, first, count, frames, port, time_ns):
    """Describe datagrams to the port, of `count` descriptors from number `first` on; returns how many.

    `taken` uint64 [entries, 2]: address, and length with options.
    """
    mask = U64(len(taken)) - U64(1)
    n = 0
    for k in range(count):
        at = (first + U64(k)) & mask
        start = taken[at, 0]
        payload, length, high, low, source_port = datagram(
            umem, start, start + (taken[at, 1] & _LENGTH), port
        )
        if payload != _NONE:
            put(frames[n], payload, length, _NONE, high, low, source_port, time_ns)
            n += 1
    return n


@kernel
def refill(room, produced, taken, first, count):
    """Give the chunks of `count` descriptors back, from number `produced` of the fill ring on."""
    for k in range(count):
        address = taken[(first + U64(k)) & (U64(len(taken)) - U64(1)), 0]
        room[(produced + U64(k)) & (U64(len(room)) - U64(1))] = address & ~U64(2047)

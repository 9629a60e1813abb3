"""Frames with damage: each mutant follows from the seed and its number alone."""

from hopscope.base.kernels.jit import U64, be16, kernel, mix64

SPAN = 2048
"""Bytes of a mutant, at most."""
_GOLDEN = U64(0x9E3779B97F4A7C15)
_USUAL = U64(0xFF7F0100)
"""Four bytes that lengths and versions break at."""
_ETHERNET = U64(1)


@kernel
def mutate(arena, at, links, starts, seed, first, out, frames, count):
    """Write mutants number `first` to `first + count`, one behind the other.

    arena uint8: the frames to start from, number n in `at[n]` to `at[n + 1]` (uint64), `links` and `starts`
    (uint64) of each.  out uint8 [count * SPAN]; frames uint64 [count, 3]: offset, length, link.
    """
    used = U64(0)
    for row in range(count):
        state = mix64((seed + U64(1)) * _GOLDEN ^ mix64(first + U64(row) + U64(1)))
        chosen = state % U64(len(links))
        size = min(at[chosen + U64(1)] - at[chosen], U64(SPAN))
        for i in range(size):
            out[used + U64(i)] = arena[at[chosen] + U64(i)]
        before = size
        state = _next(state)
        changes = state >> U64(60) & U64(3)
        for _ in range(changes + U64(1)):
            state = _next(state)
            size, state = _change(out, used, size, starts[chosen], arena, at, state)
        state = _next(state)
        if size != before and links[chosen] == _ETHERNET and state & U64(3):
            _lengths(out, used, size)
        frames[row, 0], frames[row, 1], frames[row, 2] = used, size, links[chosen]
        used += size


@kernel
def _next(state):
    return mix64(state + _GOLDEN)


@kernel
def _change(out, used, size, start, arena, at, state):
    """One change; the new size and the next state."""
    if size == U64(0):
        return size, state
    low = start if state & U64(7) and start < size else U64(0)
    place = low + (state >> U64(8) & U64(0xFFFFFF)) % (size - low)
    how = (state >> U64(3) & U64(31)) % U64(16)
    state = _next(state)
    spot = used + place
    if how < U64(3):
        out[spot] ^= U64(1) << (state & U64(7))
    elif how < U64(6):
        out[spot] = _USUAL >> (U64(8) * (state & U64(3))) & U64(255)
    elif how < U64(8):
        out[spot] = state & U64(255)
    elif how < U64(10):
        out[spot] = (U64(out[spot]) + (state & U64(7)) - U64(4)) & U64(255)
    elif how < U64(12):
        _add_16(out, used, size, place & ~U64(1), state)
    elif how == U64(12):
        size = place
    elif how == U64(13):
        size = _splice(out, used, place, arena, at, state)
    elif how == U64(14):
        size = _insert(out, used, size, place & ~U64(1))
    elif place + U64(4) < size:
        for i in range(size - place - U64(4)):
            out[spot + U64(i)] = out[spot + U64(i) + U64(4)]
        size -= U64(4)
    return size, _next(state)


@kernel
def _add_16(out, used, size, place, state):
    """A 16-bit number becomes a little more or less, or one of the ends of its range."""
    if place + U64(2) > size:
        return
    value = (be16(out, used + place) + (state & U64(31)) - U64(16)) & U64(0xFFFF)
    if state & U64(0xE0) == U64(0):
        value = U64(0)
    elif state & U64(0xE0) == U64(32):
        value = U64(0xFFFF)
    _put_16(out, used + place, value)


@kernel
def _put_16(out, spot, value):
    out[spot], out[spot + U64(1)] = value >> U64(8) & U64(255), value & U64(255)


@kernel
def _splice(out, used, place, arena, at, state):
    """The rest becomes that of another frame, from the same place or from any."""
    other = (state >> U64(8)) % U64(len(at) - 1)
    length = at[other + U64(1)] - at[other]
    source = place
    if state & U64(1) and length:
        source = (state >> U64(40)) % length
    if source >= length:
        return place
    more = min(length - source, U64(SPAN) - place)
    for i in range(more):
        out[used + place + U64(i)] = arena[at[other] + source + U64(i)]
    return place + more


@kernel
def _insert(out, used, size, place):
    """Four bytes are there twice."""
    if size + U64(4) > U64(SPAN):
        return size
    i = size
    while i > place:
        i -= U64(1)
        out[used + i + U64(4)] = out[used + i]
    return size + U64(4)


@kernel
def _lengths(out, used, size):
    """The outer lengths of IPv4 and UDP follow the frame's."""
    if size < U64(42) or be16(out, used + U64(12)) != U64(0x0800) or out[used + U64(14)] != U64(0x45):
        return
    _put_16(out, used + U64(16), size - U64(14))
    if out[used + U64(23)] == U64(17):
        _put_16(out, used + U64(38), size - U64(34))

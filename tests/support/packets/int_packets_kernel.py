"""The INT packets of `int_packets`, written into an arena in one pass; no packet depends on another."""

from math import exp, log

from hopscope.base.kernels.jit import U8, U16, U32, U64, inlined, kernel, mix64

LOW = U64(0xFFFFFFFF)
PRIVATE, SHIFTED = U64(10 << 24), U64(172 << 24 | 16 << 16)
ETHERNET, IP, UDP, TCP, SHIM = U64(14), U64(20), U64(8), U64(20), U64(16)
"""Bytes of the headers; a shim with its INT header."""
LEAST = U64(60)
"""Bytes of the packet before INT: 64 with the frame check sequence."""
INT_PORT = U64(0x1000)
UNIT = 1.0 / (1 << 53)
(
    SEED, FIRST, HOPS, BITMAP, FLOWS, SWITCHES, TCP_BELOW, STRIDE, START_NS, STEP,
) = range(10)  # fmt: skip
"""Places in `setup`; STEP: time between packets in 1/65536 ns, TCP_BELOW: share of flows in 1/65536."""


@inlined
def put16(arena, at, value):
    arena[at] = U8(value >> U64(8))
    arena[at + U64(1)] = U8(value)


@inlined
def put32(arena, at, value):
    """Write 32 bits; returns them, for a checksum."""
    arena[at] = U8(value >> U64(24))
    arena[at + U64(1)] = U8(value >> U64(16))
    arena[at + U64(2)] = U8(value >> U64(8))
    arena[at + U64(3)] = U8(value)
    return value


@inlined
def checksum(total):
    """Ones' complement of a sum of 32-bit words."""
    total = (total >> U64(32)) + (total & LOW)
    total = (total >> U64(16)) + (total & U64(0xFFFF))
    total = (total >> U64(16)) + (total & U64(0xFFFF))
    total = (total >> U64(16)) + (total & U64(0xFFFF))
    return total ^ U64(0xFFFF)


@inlined
def popular(random, flows, skew):
    """A flow, 0 the most popular: a power law's continuous variable on [1, flows + 1), cut to an integer.

    `int_packets.popularity` has the probabilities.
    """
    u = float(random >> U64(11)) * UNIT
    span = float(flows) + 1.0
    if skew == 1.0:
        x = exp(u * log(span))
    else:
        t = 1.0 - skew
        x = exp(log((exp(log(span) * t) - 1.0) * u + 1.0) / t)
    return min(U64(x), flows) - U64(1)


@kernel
def fill(arena, frames, flow, values, quantiles, setup, skew, begin):
    """Write `len(frames)` packets from arena index `begin` on, at multiples of the stride.

    `flow` uint32 [packets] and `values` uint32 [packets * hops * 3] (latency, occupancy, utilisation; path
    order) get what is true of each. `quantiles` uint32 [3 * 65536].
    """
    seed, first, hops, bitmap = setup[SEED], setup[FIRST], setup[HOPS], setup[BITMAP]
    switches = setup[SWITCHES]
    per_hop = U64(0)
    for bit in range(16):
        per_hop += (bitmap >> U64(bit)) & U64(1)
    stack = hops * per_hop * U64(4)
    for i in range(U64(len(frames))):
        number = first + U64(i)
        state = mix64(seed + number * U64(0x9E3779B97F4A7C15))
        f = popular(state, setup[FLOWS], skew)
        flow[i] = U32(f)
        way = mix64(f * U64(0x9E3779B97F4A7C15) + seed)
        is_tcp = (way & U64(0xFFFF)) < setup[TCP_BELOW]
        source, destination = PRIVATE + f, SHIFTED | ((way >> U64(16)) & U64(0xFFFFF))
        sport = U64(1024) + ((way >> U64(36)) & U64(0x3FFF))
        dport = U64(20000) + ((way >> U64(50)) & U64(0x1FFF))
        at = begin + U64(i) * setup[STRIDE]
        length = LEAST + SHIM + stack + (UDP if is_tcp else U64(0))
        put_frame(frames[i], at, length, setup[START_NS] + (number * setup[STEP] >> U64(16)))
        put32(arena, at, U64(0x02000000))
        put32(arena, at + U64(4), U64(0x00020200))
        put32(arena, at + U64(8), U64(0x00000001))
        put16(arena, at + U64(12), U64(0x0800))
        at += ETHERNET
        ip = put32(arena, at, U64(0x45000000) | (length - ETHERNET))
        ip += put32(arena, at + U64(4), ((number & U64(0xFFFF)) << U64(16)) | U64(0x4000))
        ends = put32(arena, at + U64(12), source) + put32(arena, at + U64(16), destination)
        ip += ends + U64(64 << 24 | 17 << 16)
        put32(arena, at + U64(8), U64(64 << 24 | 17 << 16) | checksum(ip))
        at += IP
        size = length - ETHERNET - IP
        udp = at
        total = ends + U64(17) + size + size
        total += put32(arena, at, (sport << U64(16)) | INT_PORT)
        put32(arena, at + U64(4), size << U64(16))
        npt, original = (U64(2), U64(6)) if is_tcp else (U64(1), dport)
        words = U64(3) + (stack >> U64(2))
        total += put32(arena, at + U64(8), U64(1 << 28) | (npt << U64(26)) | (words << U64(16)) | original)
        total += put32(arena, at + U64(12), U64(2 << 28) | (per_hop << U64(8)) | (U64(8) - hops))
        total += put32(arena, at + U64(16), bitmap << U64(16))
        total += put32(arena, at + U64(20), U64(0))
        at += UDP + SHIM
        for h in range(hops):
            where = at + (hops - U64(1) - U64(h)) * per_hop * U64(4)
            node = U64(1) + U64(h) * switches + ((way >> (U64(8) * (U64(h) & U64(7)))) & U64(0xFF)) % switches
            total += put32(arena, where, node)
            state = mix64(state + U64(1))
            each = (U64(i) * hops + U64(h)) * U64(3)
            for measure in range(U64(3)):
                value = U64(0)
                if U64(measure) + U64(1) < per_hop:
                    where += U64(4)
                    index = (state >> (U64(16) * U64(measure))) & U64(0xFFFF)
                    value = U64(quantiles[(U64(measure) << U64(16)) + index])
                    total += put32(arena, where, value)
                values[each + U64(measure)] = U32(value)
        at += stack
        if is_tcp:
            total += put_tcp(arena, at, ends, sport, dport, number)
        else:
            total += put32(arena, at, number & LOW) + put32(arena, at + U64(4), f)
            for j in range(U64(8), U64(16), U64(4)):
                total += put32(arena, at + U64(j), U64(0))
            put16(arena, at + U64(16), U64(0))
        found = checksum(total)
        put16(arena, udp + U64(6), found if found else U64(0xFFFF))


@inlined
def put_frame(frame, at, length, time_ns):
    """The FRAME record of a packet."""
    frame.offset = at
    frame.time_ns = time_ns
    frame.source_hi = U64(0)
    frame.source_lo = U64(0)
    frame.length = length
    frame.wire_length = length
    frame.port = U16(0)
    frame.link = U8(1)
    frame.source_port = U16(0)


@inlined
def put_tcp(arena, at, ends, sport, dport, number):
    """A TCP header without options and 6 bytes behind it; returns the sum of its words."""
    inner = put32(arena, at, (sport << U64(16)) | dport)
    inner += put32(arena, at + U64(4), number & LOW)
    inner += put32(arena, at + U64(8), U64(1))
    inner += put32(arena, at + U64(12), U64(5 << 28 | 0x10 << 16 | 0x2000))
    inner += put32(arena, at + U64(20), U64(0))
    put16(arena, at + U64(24), U64(0))
    found = checksum(inner + ends + U64(6) + TCP + U64(6))
    put32(arena, at + U64(16), found << U64(16))
    return inner + (found << U64(16))

"""Kernel of clocks: raw times of reports and hops to ns, in place."""

from ..base.kernels.jit import U16, U32, U64, inlined, kernel
from . import versions
from .records import Carried, Flag, Have

OWN_HOP = U64(Carried.OWN_HOP)
TIME_CARRIED = U64(Carried.INGRESS_TIME)
JOINED = U64(Flag.JOINED)
LATENCY = U64(Have.HOP_LATENCY)
INGRESS = U64(Have.INGRESS_TIME)
EGRESS = U64(Have.EGRESS_TIME)
IOAM, IFA = U64(versions.IOAM), U64(versions.IFA)
SAMPLE = U64(versions.FIRST_SAMPLE)
PTP = U64(0)
NTP = U64(1)
SECOND = U64(1_000_000_000)
ERA = U64(1_000_000_000 << 32)
"""ns after which the seconds of IOAM wrap."""
LOW = U64(0xFFFFFFFF)
LARGEST = U64(0xFFFFFFFFFFFFFFFE)
NULL = LARGEST + U64(1)
"""All ones in a report's header: the switch has no time; in 32 bits before 2.0: LOW."""
LARGEST_LATENCY = U64(0xFFFFFFFE)


@inlined
def of_ioam(time, form):
    """Seconds and fraction as ns: PTP in ns, NTP in 2^-32 s, POSIX in us."""
    fraction = time & LOW
    if form == NTP:
        fraction = fraction * SECOND >> U64(32)
    elif form != PTP:
        fraction *= U64(1000)
    return (time >> U64(32)) * SECOND + fraction


@inlined
def scaled(value, unit, largest):
    """A value in ns, at most `largest`."""
    return largest if value > largest // unit else value * unit


@inlined
def width_of(bits, layout, times):
    """Mask of a timestamp: the clock's, or else its field's: 64 bits in 2.x or if more than 32 are
    used, else 32.
    """
    if bits:
        return NULL if bits >= U64(64) else (U64(1) << bits) - U64(1)
    return NULL if layout == U64(20) or times > LOW else LOW


@inlined
def take_hop(hop, layout, unit, bits, measured, form):
    """One hop: its latency, from its timestamps if `measured`, and its timestamps. Those of IFA are ns."""
    if layout == IFA:
        return
    have = U64(hop.present & ~hop.null)
    ingress = U64(hop.ingress_time)
    egress = U64(hop.egress_time)
    both = have & (INGRESS | EGRESS) == INGRESS | EGRESS
    if layout == IOAM:
        ingress = of_ioam(ingress, form)
        egress = of_ioam(egress, form)
        passed = egress - ingress if egress >= ingress else egress + ERA - ingress
        unit = U64(1)
        measured = measured and both
    else:
        used = (ingress if have & INGRESS else U64(0)) | (egress if have & EGRESS else U64(0))
        mask = width_of(bits, layout, used)
        ingress &= mask
        egress &= mask
        passed = (egress - ingress) & mask
    if measured and both:
        hop.hop_latency = U32(scaled(passed, unit, LARGEST_LATENCY))
        hop.present |= U16(LATENCY)
        hop.null &= ~U16(LATENCY)
    elif measured and have & LATENCY:
        hop.null |= U16(LATENCY)  # a field that the source never fills in
    elif have & LATENCY:
        hop.hop_latency = U32(scaled(U64(hop.hop_latency), unit, LARGEST_LATENCY))
    if have & INGRESS:
        hop.ingress_time = scaled(ingress, unit, LARGEST)
    if have & EGRESS:
        hop.egress_time = scaled(egress, unit, LARGEST)


@kernel
def apply_clock(reports, hops, unit, bits, measured, form):
    """Apply a clock to reports and their hops. `measured`: latency is egress minus ingress time; `form` is
    that of IOAM's timestamps.
    """
    for i in range(len(reports)):
        r = reports[U64(i)]
        if r.reason != 0:
            continue
        version = U64(r.version)
        if version >= SAMPLE:
            continue  # ns when decoded
        carried = U64(r.carried)
        own = version if version else U64(r.int_version)
        layout = own if r.int_version == 0 or U64(r.flags) & JOINED else U64(r.int_version)
        first = U64(r.first_hop)
        count = U64(r.hop_count)
        for h in range(count):
            take_hop(hops[first + U64(h)], layout, unit, bits, measured, form)
        if carried & OWN_HOP:
            take_hop(hops[first + count], own, unit, bits, measured, form)
        time = U64(r.ingress_time)
        if carried & TIME_CARRIED and time != (NULL if version == U64(20) else LOW):
            r.ingress_time = scaled(time & width_of(bits, own, time), unit, LARGEST)

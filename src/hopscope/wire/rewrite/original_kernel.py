"""Values of the packet before its INT source, from shim and tail of INT."""

from ...base.kernels.jit import U64, be16, inlined, kernel
from .. import rules
from ..headers.packet_kernel import NONE, get
from ..headers.put_kernel import put16
from ..telemetry import variant_kernel as variant
from ..telemetry.int_kernel import FIXED_TCP, TCP_WORDS

PLAIN_DSCP = U64(rules.PLAIN_DSCP)


@kernel
def after_int(buf, shim, carrier, row, table):
    """(end of the INT, whether its last four bytes are a tail); 0 if nothing states its length."""
    if carrier == variant.OVER_GENEVE:
        return shim + U64(4) + (get(buf, shim, variant.OPTION_WORDS) << U64(2)), False
    rule, version = variant.shim_rule(buf, shim, carrier, table), U64(row.int_version)
    old, numbered = rule & variant.OLD_SHIM != NONE, (rule & variant.NUMBERED) >> U64(5)
    length = get(buf, shim, variant.OLD_LENGTH) if old else get(buf, shim, variant.NEW_LENGTH)
    tail = variant.is_l4(carrier) and (version == U64(4) or version == U64(5))
    stack = NONE
    if version <= U64(5):
        stack = get(buf, shim + U64(4), variant.TOTAL_0) * U64(row.hop_words)
    if length == NONE and table[variant.ANY_SHIM_LENGTH]:
        if version > U64(5):
            return NONE, False
        length = U64(3) + numbered + stack + (U64(1) if tail else NONE)
    elif numbered and length == U64(3) + numbered + stack:
        tail = False
    words = length if old or table[variant.LENGTH_WITH_SHIM] else length + U64(1)
    return shim + (words << U64(2)), tail


@inlined
def original(buf, shim, npt, table):
    """DSCP, port or protocol in a shim of 2.x, by its NPT."""
    return be16(buf, shim + U64(2)) >> U64(table[variant.NPT_SHIFTS + npt])


@inlined
def l4_size(buf, l4, protocol, table):
    """Bytes of a UDP or TCP header before its INT."""
    if protocol == variant.UDP:
        return U64(8)
    return U64(20) if table[FIXED_TCP] else get(buf, l4, TCP_WORDS) << U64(2)


@kernel
def original_dscp(buf, shim, after, tail, protocol, dscp, version, npt, table):
    """The original DSCP of a packet whose DSCP announces INT; `after`: end of the INT."""
    if tail:
        if U64(buf[after - U64(4)]) == protocol:
            return U64(buf[after - U64(1)]) & U64(63)
    elif version == U64(20):
        if npt == NONE:
            return original(buf, shim, NONE, table) & U64(63)
    elif version == U64(10):
        return U64(buf[shim + U64(3)]) >> U64(2)
    return U64(table[PLAIN_DSCP + dscp])


@inlined
def put_dscp(out, ip, dscp):
    """Write the DSCP of an IP header."""
    word = be16(out, ip)
    if word >> U64(12) == U64(4):
        put16(out, ip, (word & U64(0xFF03)) | (dscp << U64(2)))
    else:
        put16(out, ip, (word & U64(0xF03F)) | (dscp << U64(6)))

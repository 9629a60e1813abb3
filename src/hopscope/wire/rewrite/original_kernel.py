"""What shim and tail of INT tell of the packet as it was before its source, for the batch stripper."""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be16, inlined, kernel
from .. import rules
from ..decode.walk_kernel import ROLE_INT, TCP_PORTS
from ..headers.packet_kernel import NONE, get
from ..headers.put_kernel import put16
from ..headers.tunnel_kernel import UDP_ROLE
from ..telemetry import variant_kernel as variant
from ..telemetry.int_kernel import ROLE_INSERTED

PLAIN_DSCP = U64(rules.PLAIN_DSCP)


@kernel
def behind_int(buf: Any, shim: Any, carrier: Any, row: Any, table: Any) -> Any:
    """(where the INT ends, whether its last four bytes are a tail); 0 where nothing tells it."""
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
def original(buf: Any, shim: Any, npt: Any, table: Any) -> Any:
    """What a shim of 2.x says by its NPT."""
    return be16(buf, shim + U64(2)) >> U64(table[variant.NPT_SHIFTS + npt])


@inlined
def said_by_port(protocol: Any, dport: Any, table: Any) -> Any:
    """Whether a port says that INT follows."""
    role = U64(table[UDP_ROLE + dport])
    if protocol == variant.UDP:
        return role & (ROLE_INT | ROLE_INSERTED) != NONE
    return table[TCP_PORTS] != 0 and role & ROLE_INT != NONE


@kernel
def own_dscp(
    buf: Any, shim: Any, behind: Any, tail: Any, protocol: Any, dscp: Any, version: Any, npt: Any, table: Any
) -> Any:
    """The packet's own DSCP, where its DSCP says INT."""
    if tail:
        if U64(buf[behind - U64(4)]) == protocol:
            return U64(buf[behind - U64(1)]) & U64(63)
    elif version == U64(20):
        if npt == NONE:
            return original(buf, shim, NONE, table) & U64(63)
    elif version == U64(10):
        return U64(buf[shim + U64(3)]) >> U64(2)
    return U64(table[PLAIN_DSCP + dscp])


@inlined
def put_dscp(out: Any, ip: Any, dscp: Any) -> None:
    """Write the DSCP of an IP header."""
    word = be16(out, ip)
    if word >> U64(12) == U64(4):
        put16(out, ip, (word & U64(0xFF03)) | (dscp << U64(2)))
    else:
        put16(out, ip, (word & U64(0xF03F)) | (dscp << U64(6)))

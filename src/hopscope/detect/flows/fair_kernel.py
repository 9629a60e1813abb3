"""Fair shares of the tables of ports and sources, whose rows any sender of reports can create.

A row belongs to the source that created it: the hash of its IPv4 address, or of its IPv6 /64. If a new key
finds no room, it replaces a row of a source that holds more rows than its own. Rows with few samples are
replaced first, so that neither one source nor many small ones displace those that report steadily.

===================== ==========================================================================
`shares`              uint32 [OWNERS + 1]: rows of each owner, then of all
`owner`               number of the owner
`keys`                uint64, see `keyed_kernel`
===================== ==========================================================================
"""

from ...base.kernels.jit import U32, U64, inlined
from ...base.keyed_kernel import spread, weigh
from .. import records

OWNERS = U64(records.OWNERS)
STEADY = U64(8)
"""Samples from which a row is steady: it is replaced only if its owner has `STEADY` times as many rows."""


@inlined
def owner_of(report, keys):
    """Owner of the rows that a report creates."""
    network = report.source_hi if report.source_hi else report.source_lo
    return spread(weigh(keys, 0, network)) & (OWNERS - U64(1))


@inlined
def rank(shares, owner, samples):
    """Rank of a row among the candidates for replacement: the highest is replaced first."""
    share = U64(shares[U64(owner)])
    return share if samples >= STEADY else share * STEADY


@inlined
def rank_of_new(shares, owner):
    """Rank that a new row of an owner would have."""
    return (U64(shares[U64(owner)]) + U64(1)) * STEADY


@inlined
def add_share(shares, owner):
    """Count a new row."""
    shares[U64(owner)] += U32(1)
    shares[OWNERS] += U32(1)


@inlined
def end_share(shares, owner):
    """Count the removal of a row."""
    shares[U64(owner)] -= U32(1)
    shares[OWNERS] -= U32(1)

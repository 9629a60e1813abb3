"""Kernels of distributions: histograms of values by (switch, egress port, queue).

===================== ==========================================================================
`rows`                DISTRIBUTION [power of two], `slot`: the index of a row
`bins`                uint64 [rows * DISTRIBUTED * BINS]
`edges`               uint64 [EDGES]: for each Measure the inclusive upper edges of its BINS bins, the
                      last one unbounded; then for each Measure 1 if its bins are logarithmic, so that
                      no search is needed (SmartNIC INT sink, III-C)
`reports`, `hops`     REPORT [n], HOP [m]
`network`             uint64: sender of a report or packet: its IPv4 address, or the /64 of its IPv6 address
`keys`                uint64, see `keyed_kernel`
`tally`               uint64 [TALLY]: FULL, hops for which the table had no row; EVICTIONS
===================== ==========================================================================

A row belongs to the network whose report or packet created it. If the table has no room for a new key, the
key replaces one of CANDIDATES rows that its hash selects: a silent row, else a row of the network with the
most candidates (see `find_worst`). Hash keys are secret, so no sender can choose the candidates.
"""

from ...base.kernels.jit import I64, U8, U16, U32, U64, highest_bit, inlined, kernel, order
from ...base.keyed_kernel import spread, weigh
from ...wire.records import Carried, Flag, Have, IntFlag, Mode
from .. import records
from ..records import BINS, DISTRIBUTED, NO_VALUE
from ..sink.records import MEASURES, Measure

NOT_FOUND = U64(records.NOT_FOUND)
EDGES = MEASURES * BINS + MEASURES
PROBES = 128
CANDIDATES = 16
"""Number of rows among which the one to be replaced is chosen, if the table has no room."""
STEADY = U64(8)
"""A steady row is replaced only if its owner has more than this many times the new owner's candidates."""
STEADY_NS = I64(1_000_000_000)
"""A row is steady if its first and last value are this far apart."""
SILENT_NS = I64(records.SILENT_NS)
FULL, EVICTIONS = U64(0), U64(1)
"""Indices into `tally`."""
TALLY = 2
USED = U64(1) << U64(63)

WIDTH = U64(BINS)
EACH = U64(DISTRIBUTED)
LAST_BIN = U64(BINS - 1)
FLAGS = U64(MEASURES * BINS)
LATENCY = U64(Measure.HOP_LATENCY)
OCCUPANCY = U64(Measure.QUEUE_OCCUPANCY)
UTILIZATION = U64(Measure.LINK_UTILIZATION)
END_TO_END = U64(Measure.END_TO_END)
HAS_LATENCY = U64(1) << LATENCY
HAS_OCCUPANCY = U64(1) << OCCUPANCY
HAS_UTILIZATION = U64(1) << UTILIZATION
NO_PORT = U64(records.NO_PORT)
NO_NODE = U64(records.NO_NODE)
MAX_LATENCY = U64(records.MAX_LATENCY)


@inlined
def log_bin(value):
    """Bin of a value, uint64: four per octave, one per value below 8; the last one is unbounded."""
    at = log_bin_of_32(value)
    return at if at < LAST_BIN else LAST_BIN


@inlined
def log_bin_of_32(value):
    """`log_bin` of a value of 32 bits, which is never in the last bin."""
    shift = highest_bit(value | U64(4)) - U64(2)
    return (shift << U64(2)) + (value >> shift)


@inlined
def edge_bin(edges, measure, value):
    """The first bin whose upper edge is not below a value: a binary search without a branch."""
    at = measure * WIDTH
    low = U64(0)
    step = WIDTH >> U64(1)
    for _ in range(7):
        low += step * U64(edges[at + low + step - U64(1)] < value)
        step >>= U64(1)
    return low


@inlined
def bin_of(edges, measure, value):
    """Bin of a value of a Measure, all uint64."""
    if edges[FLAGS + measure]:
        return log_bin(value)
    return edge_bin(edges, measure, value)


@inlined
def queue_key(node, port, queue):
    """Key of a row; `port` is NO_PORT if it is not known."""
    return USED | (queue << U64(48)) | (port << U64(32)) | node


@inlined
def home_of(rows, key, keys):
    """First row at which a key may be."""
    return spread(weigh(keys, 0, key)) & (U64(len(rows)) - U64(1))


@kernel
def add_queue(rows, bins, key, network, now, keys, tally, evictions):
    """Row of a key, created if the key is new; NOT_FOUND: no row could be replaced.

    Replaced rows are counted in `tally[evictions]`.
    """
    mask = U64(len(rows)) - U64(1)
    home = home_of(rows, key, keys)
    owner = spread(weigh(keys, 0, network)) & U64(0xFFFF)
    at = home
    free = NOT_FOUND
    for _ in range(min(PROBES, len(rows))):
        found = rows[at].key
        if found == key:
            return at
        if found == U64(0) and at != U64(0):
            free = at
            break
        at = (at + U64(1)) & mask
    if free == NOT_FOUND:
        free = find_worst(rows, home, owner, now)
        if free == NOT_FOUND:
            return NOT_FOUND
        tally[evictions] += U64(1)
        rows[free].key = U64(0)  # readers skip it
        order()
        for k in range(EACH * WIDTH):
            bins[free * EACH * WIDTH + U64(k)] = U64(0)
    row = rows[free]
    row.first_ns = now
    row.last_ns = now
    row.node_id = U32(key)
    row.port = U16(key >> U64(32))
    row.queue_id = U8(key >> U64(48))
    row.owner = U16(owner)
    for k in range(DISTRIBUTED):
        row.sum[k] = U64(0)
        row.latest[k] = U32(NO_VALUE)
        row.highest[k] = U32(0)
    order()
    row.key = key
    return free


@kernel
def find_worst(rows, home, owner, now):
    """Row to replace with a new row of `owner`, for a search that begins at `home`; NOT_FOUND: none.

    A silent candidate is replaced first. Else let N be the candidates that `owner` would have with the new
    row. An unsteady row is replaced if its owner has at least N candidates; else a steady row, if its owner
    has more than STEADY times N. In either case it is a row of the owner with the most candidates.
    """
    mask = U64(len(rows)) - U64(1)
    count = min(CANDIDATES, len(rows))
    young, most_young, steady, most_steady = NOT_FOUND, U64(0), NOT_FOUND, U64(0)
    for k in range(count):
        at = (home + U64(k)) & mask
        if at == U64(0):
            continue
        row = rows[at]
        if I64(now) - row.last_ns >= SILENT_NS:
            return at
        share = rows_of(rows, home, count, U64(row.owner))
        if row.last_ns - row.first_ns >= STEADY_NS:
            if share > most_steady:
                steady, most_steady = at, share
        elif share > most_young:
            young, most_young = at, share
    wanted = rows_of(rows, home, count, owner) + U64(1)
    if most_young >= wanted:
        return young
    return steady if most_steady > wanted * STEADY else NOT_FOUND


@kernel
def rows_of(rows, home, count, owner):
    """Number of rows that belong to `owner`, among `count` rows from `home` on."""
    mask = U64(len(rows)) - U64(1)
    found = U64(0)
    for k in range(count):
        at = (home + U64(k)) & mask
        found += U64(U64(rows[at].owner) == owner and at != U64(0))
    return found


@inlined
def slot_of(rows, bins, key, hint, network, now, keys, tally, evictions):
    """Row of a key: the row `hint` (any row) if it has the key, else the row that is found or created.

    NOT_FOUND: no row could be replaced; the caller counts this.
    """
    if rows[hint].key == key:
        return hint
    return add_queue(rows, bins, key, network, now, keys, tally, evictions)


@inlined
def count_value(rows, bins, slot, metric, at, value):
    """Count a value in bin `at` of a metric."""
    row = rows[slot]
    bins[(slot * EACH + metric) * WIDTH + at] += U64(1)
    row.sum[metric] += value
    row.latest[metric] = U32(value)
    if value > U64(row.highest[metric]):
        row.highest[metric] = U32(value)


@inlined
def count_hop(rows, bins, edges, slot, have, latency, occupancy, utilization, now):
    """Count the values of a hop: `have` has a bit for each Measure. Values are uint64 below NO_VALUE."""
    rows[slot].last_ns = now
    if have & HAS_LATENCY:
        count_value(rows, bins, slot, LATENCY, bin_of(edges, LATENCY, latency), latency)
    if have & HAS_OCCUPANCY:
        count_value(rows, bins, slot, OCCUPANCY, bin_of(edges, OCCUPANCY, occupancy), occupancy)
    if have & HAS_UTILIZATION:
        count_value(rows, bins, slot, UTILIZATION, bin_of(edges, UTILIZATION, utilization), utilization)


@inlined
def count_path(rows, bins, edges, latency, now):
    """Count the end-to-end latency of a packet, in row 0."""
    row = rows[U64(0)]
    if row.last_ns == 0:
        row.first_ns = now
    row.last_ns = now
    bins[bin_of(edges, END_TO_END, latency)] += U64(1)
    row.sum[LATENCY] += latency
    shown = latency if latency < MAX_LATENCY else MAX_LATENCY
    row.latest[LATENCY] = U32(shown)
    if shown > U64(row.highest[LATENCY]):
        row.highest[LATENCY] = U32(shown)


HAVE_NODE = U64(Have.NODE_ID)
HAVE_PORTS = U64(Have.PORTS)
HAVE_LATENCY = U64(Have.HOP_LATENCY)
HAVE_OCCUPANCY = U64(Have.QUEUE_OCCUPANCY)
HAVE_UTILIZATION = U64(Have.TX_UTILIZATION)
HELD = U64(Flag.HELD)
JOINED = U64(Flag.JOINED)
CUT_SHORT = U64(IntFlag.HOPS_EXCEEDED | IntFlag.MTU_EXCEEDED)
PARTIAL = U64(Flag.INTERMEDIATE | Flag.DROPPED | Flag.INCOMPLETE)
MX = U64(Mode.MX)
OWN_HOP = U64(Carried.OWN_HOP)
CARRIED_NODE = U64(Carried.NODE_ID)


@inlined
def measured(have):
    """Bits of Measure that a hop has, from its fields that are present and not null."""
    return (
        U64(have & HAVE_LATENCY != U64(0)) << LATENCY
        | U64(have & HAVE_OCCUPANCY != U64(0)) << OCCUPANCY
        | U64(have & HAVE_UTILIZATION != U64(0)) << UTILIZATION
    )


@inlined
def count_hop_at(hops, at, own, network, now, rows, bins, edges, keys, tally):
    """Count hop `at`; its node is `own` if it carries no id. Returns (latency, 1 if it has a latency)."""
    hop = hops[at]
    have = U64(hop.present & ~hop.null)
    node = U64(hop.node_id) if have & HAVE_NODE else own
    measures = measured(have)
    if measures and node != NO_NODE:
        port = U64(hop.egress_port) if have & HAVE_PORTS else NO_PORT
        queue = U64(hop.queue_id) if have & HAVE_OCCUPANCY else U64(0)
        key = queue_key(node, port, queue)
        slot = slot_of(rows, bins, key, home_of(rows, key, keys), network, now, keys, tally, EVICTIONS)
        if slot == NOT_FOUND:
            tally[FULL] += U64(1)
        else:
            count_hop(
                rows, bins, edges, slot, measures,
                U64(hop.hop_latency), U64(hop.queue_occupancy), U64(hop.tx_utilization), now,
            )  # fmt: skip
    has = U64(measures & HAS_LATENCY)
    return U64(hop.hop_latency) * has, has


@kernel
def count_batch(reports, hops, rows, bins, edges, keys, tally):
    """Count all hops of accepted reports, and the end-to-end latency of whole paths.

    Paths, and the report's own hop in them, are as in `flows.slow_path_kernel.take_report`.
    """
    for k in range(len(reports)):
        r = reports[U64(k)]
        flags = U64(r.flags)
        if r.reason != 0 or flags & HELD:
            continue
        first = U64(r.first_hop)
        count = U64(r.hop_count)
        has_own = U64(r.carried) & OWN_HOP
        last = first + count
        own = U64(r.node_id) if U64(r.carried) & CARRIED_NODE else NO_NODE
        if has_own:
            hop = hops[last]
            if U64(hop.present & ~hop.null) & HAVE_NODE:
                own = U64(hop.node_id)
        has_stack = count != U64(0) and (
            (r.int_version != 0 and U64(r.int_mode) != MX) or flags & JOINED != U64(0)
        )
        if has_stack:
            hop = hops[last - U64(1)]
            last_node = U64(hop.node_id) if U64(hop.present & ~hop.null) & HAVE_NODE else NO_NODE
            if has_own and own != NO_NODE and last_node != own and count < U64(64):
                count += U64(1)
        elif count:
            count = U64(1)
        elif has_own:
            count = U64(1)
        total = U64(0)
        with_latency = U64(0)
        for h in range(count):
            at = first + U64(h)
            latency, has = count_hop_at(
                hops, at, own if at == last else NO_NODE, r.source_hi if r.source_hi else r.source_lo,
                r.time_ns, rows, bins, edges, keys, tally,
            )  # fmt: skip
            total += latency
            with_latency += has
        if has_stack and with_latency == count and not (U64(r.int_flags) & CUT_SHORT or flags & PARTIAL):
            count_path(rows, bins, edges, total, r.time_ns)

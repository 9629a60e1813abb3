"""Sequence numbers of sources: the sources that the program follows, and its counts for them (`merged`)."""

from ...base.kernels.jit import U8, U16, U32, U64, inlined, kernel, order
from ...detect.flows.source_table_kernel import WINDOW, hash_source, numbering_node
from ...wire.records import Flag
from ..layout import NOWHERE, PROBES, Mark, State

_ABSENT = U32(State.ABSENT)
_WATCHED = U32(State.WATCHED)
_SETTLING = U32(State.SETTLING)
_NUMBERED = U8(Flag.NUMBERED)
_PROBES = U64(PROBES)
_NOWHERE = U64(NOWHERE)

# Columns of `merged`, for each source.
RECEIVED = U64(0)
"""Reports in sequence that were added to the detector."""
SEEN = U64(1)
"""Reports in sequence before the last one that was passed up and that the detector has seen."""
SEEN_WINDOW = U64(2)
"""The source's window and depth at that time; valid only while RECEIVED is more than SEEN."""
SEEN_DEPTH = U64(3)
MERGED = 4


@kernel
def set_numbered(reports, marks):
    """Mark the reports whose numbers the program has checked."""
    for k in range(len(reports)):
        r = reports[U64(k)]
        if U64(marks[r.packet]) & U64(Mark.NUMBERED):
            r.flags |= _NUMBERED


@inlined
def is_source(sources, at, k_sources):
    """Whether the program has the source of the detector's row in the same row."""
    s = sources[at]
    k = k_sources[at]
    return (
        s.source_lo == k.low
        and s.source_hi == k.high
        and s.node_id == k.node
        and s.hw_id == k.hardware
        and s.bits == k.bits
    )


@kernel
def merge_source(sources, at, k_sources, merged, received, came_up, epoch_ns):
    """Add the reports in sequence up to `received` to a source of the detector.

    `came_up`: the detector has seen all reports that were passed up before them. If `merge_sources` was
    ahead of that, the difference is taken back, and the window restored. Reports after a suspect confirm it,
    since the program follows a source that was silent from its first report on.
    """
    m = merged[at]
    more = received - m[RECEIVED]
    back = more >> U64(63) != U64(0)
    steps = received - m[SEEN] if back else more
    ahead = m[RECEIVED] != m[SEEN]
    m[RECEIVED] = received
    if came_up:
        m[SEEN] = received
    if more == U64(0) or not is_source(sources, at, k_sources):
        return
    s = sources[at]
    mask = (U64(1) << U64(s.bits)) - U64(1)
    version = s.version
    s.version = version | U32(1)
    order()
    s.received += more
    if s.suspected != U16(0):
        s.suspected = U16(0)
        s.restarts += U64(1)
        s.highest = s.suspect
        s.first = s.suspect
        s.window = U64(1)
        s.depth = U32(1)
    s.highest = U32((U64(s.highest) + more) & mask)
    if back:
        s.window = m[SEEN_WINDOW]
        s.depth = U32(m[SEEN_DEPTH])
    elif not ahead:
        m[SEEN_WINDOW] = s.window
        m[SEEN_DEPTH] = U64(s.depth)
    s.window = (s.window << steps) | ((U64(1) << steps) - U64(1)) if steps < WINDOW else ~U64(0)
    s.depth = U32(min(U64(s.depth) + steps, WINDOW) if steps < WINDOW else WINDOW)
    s.last_ns = max(s.last_ns, k_sources[at].last_ns + epoch_ns)
    order()
    s.version = (version | U32(1)) + U32(1)


@kernel
def merge_marked(marks, rows, received, count, sources, k_sources, merged, epoch_ns):
    """Merge the sources of those datagrams of a batch whose numbers the detector must check."""
    for k in range(count):
        if U64(marks[k]) & U64(Mark.MERGE):
            merge_source(sources, U64(rows[k]), k_sources, merged, received[k], True, epoch_ns)


@kernel
def install_sources(reports, at_source, sources, knobs, k_sources, merged):
    """Let the program follow the sequence numbers of these reports' sources. `at_source`, uint32 [frames]:
    row of the source if the program follows it already, else NOWHERE.
    """
    mask = U64(len(sources)) - U64(1)
    for k in range(len(reports)):
        r = reports[U64(k)]
        if r.index != 0 or r.reason != 0 or r.version < 5 or r.version > 20:
            continue
        if U64(at_source[r.packet]) != _NOWHERE:
            continue
        node = numbering_node(r)
        home = hash_source(r.source_hi, r.source_lo, node, U64(r.hw_id), knobs) & mask
        bits = U32(22) if r.version == 20 else U32(32)
        for step in range(_PROBES):
            at = (home + U64(step)) & mask
            s = sources[at]
            if (
                s.source_lo == r.source_lo
                and s.source_hi == r.source_hi
                and U64(s.node_id) == node
                and U64(s.hw_id) == U64(r.hw_id)
                and s.bits == bits
            ):
                row = k_sources[at]
                if row.state == _ABSENT and U64(s.depth) == WINDOW and not s.suspected and not s.silent:
                    if not is_source(sources, at, k_sources):  # else reports may be on their way
                        merged[at, RECEIVED] = merged[at, SEEN] = row.received
                    row.high = s.source_hi
                    row.low = s.source_lo
                    row.node = s.node_id
                    row.hardware = s.hw_id
                    row.bits = s.bits
                    # half the numbers away, since no number has arrived yet
                    row.highest = s.highest ^ (U32(1) << (bits - U32(1)))
                    order()
                    row.state = _SETTLING
                break


@kernel
def merge_sources(sources, k_sources, merged, epoch_ns):
    """Merge all sources; stop following those that are silent, or whose row has another source now."""
    for k in range(len(sources)):
        at = U64(k)
        if k_sources[at].state == _ABSENT:
            continue
        if not is_source(sources, at, k_sources):
            k_sources[at].state = _ABSENT
        elif sources[at].silent:
            k_sources[at].state = _WATCHED
        else:
            merge_source(sources, at, k_sources, merged, k_sources[at].received, False, epoch_ns)

"""Sequence numbers of reporters: lost, late and duplicate reports.

Relative to the highest number of its reporter, modulo 2^8 or 2^32, a report is

* the next, or ahead by no more than `limits[AHEAD]`: the numbers between are lost for now;
* behind by less than the window: a duplicate, or late, which reduces the lost ones by one;
* elsewhere: a suspect, rejected as stale. If another report follows it by less than 64, the reporter has
  restarted its numbering, and nothing was lost.

Simple reporters do not ask for retransmission. If one of them sends 0 or 1 again, it has restarted, provided
that it has sent 64 reports since, or nothing for a second. A reporter that has only ever sent 0 does not
number its reports. A reporter is an address and a UDP port.

Reporters are in sets of eight rows, which a hash with secret keys chooses. In a full set, a new reporter gets
the row of one that was silent for `limits[IDLE_NS]`, else of the network (IPv4 address, IPv6 /64) with the
most rows of the set, if that has more rows than the new reporter's network would have. So one host with many
ports does not keep others out.

`seen` is one ring of bits per reporter: bit (number mod window) says that the number has been received.

Parameters: `reporters`: REPORTER [rows]; `seen`: uint64 [rows * window / 64]; `limits`, `tally`: uint64, see
below; `frames`: FRAME, `reports`: DTA, row by row; `answers`: DTA_ANSWER.
"""

from ...base.kernels.jit import I64, U8, U16, U32, U64, inlined, kernel
from ...base.keyed_kernel import spread, weigh
from ...wire.dta.records import DtaFlag
from ...wire.reasons import DtaReason

WINDOW, MASK, AHEAD, IDLE_NS, KEYS = range(5)
"""Indices into `limits`: tracked numbers, highest number, largest accepted jump, the age from which a row may
be given to another reporter, and the first of HASH_KEYS keys of the hash.
"""
HASH_KEYS = 5
RECEIVED, LOST, LATE, DUPLICATE, STALE, RESTARTS, UNTRACKED, REPLACED = range(8)
"""Indices into `tally`: totals of REPORTER's columns, reports of reporters without a row, and reporters that
lost their row.
"""
TALLIES = 8
SET_ROWS = U64(8)
FOLLOWS = U64(64)
SILENT_NS = I64(1_000_000_000)
NONE = U64(0xFFFFFFFFFFFFFFFF)
ZERO, ONE, SIX = U64(0), U64(1), U64(6)
IS_DUPLICATE, IS_STALE = U8(DtaReason.DUPLICATE), U8(DtaReason.STALE)
RATE_LIMITED, CONGESTED, GAP = U8(DtaReason.RATE_LIMITED), U8(DtaReason.CONGESTED), U8(0)
NO_COLLECTOR = U8(DtaReason.NO_COLLECTOR)
RETRANSMIT = U8(DtaFlag.RETRANSMIT)
MAX_NAMED = U64(0xFFFF)
"""Maximum reports that one NACK names."""


@inlined
def is_row(row, high, low, port):
    """Whether a row is that of a reporter."""
    same = row.source_lo == low and row.source_hi == high and row.source_port == port
    return same and row.depth != U32(0)


@kernel
def find(reporters, high, low, port, make, now, limits, tally):
    """Row of a reporter; NONE if it has none, and `make` is false or no row of its set can be replaced."""
    sets = U64(len(reporters)) // SET_ROWS
    words = weigh(limits, KEYS, high) + weigh(limits, KEYS + 2, low)
    mixed = spread(words + U64(port) * limits[U64(KEYS + 4)])
    start = ((mixed >> U64(32)) * sets >> U64(32)) * SET_ROWS
    oldest = start
    for column in range(SET_ROWS):
        row = reporters[start + column]
        if is_row(row, high, low, port):
            return start + column
        free = reporters[oldest].depth == U32(0)
        if not free and (row.depth == U32(0) or row.last_ns < reporters[oldest].last_ns):
            oldest = start + column
    if not make:
        return NONE
    row = reporters[oldest]
    if row.depth != U32(0):
        if now - row.last_ns < I64(limits[IDLE_NS]):
            oldest = find_crowded(reporters, start, network_of(high, low))
            if oldest == NONE:
                return NONE
            row = reporters[oldest]
        tally[REPLACED] += ONE
    row.source_hi = high
    row.source_lo = low
    row.source_port = port
    row.received = ZERO
    row.lost = ZERO
    row.late = ZERO
    row.duplicate = ZERO
    row.stale = ZERO
    row.restarts = ZERO
    row.depth = U32(0)
    row.suspected = U32(0)
    row.asks = U8(0)
    return oldest


@inlined
def network_of(high, low):
    """The /64 of an IPv6 address, an IPv4 address itself."""
    return high if high else low


@kernel
def rows_of(reporters, start, network):
    """Number of rows of a full set that belong to a network."""
    found = ZERO
    for column in range(SET_ROWS):
        row = reporters[start + column]
        found += U64(network_of(row.source_hi, row.source_lo) == network)
    return found


@kernel
def find_crowded(reporters, start, network):
    """The oldest row of the network with the most rows of a full set; NONE unless it has more than `network`
    would have with a new row.
    """
    found, most = NONE, rows_of(reporters, start, network) + ONE
    for column in range(SET_ROWS):
        row = reporters[start + column]
        share = rows_of(reporters, start, network_of(row.source_hi, row.source_lo))
        older = found != NONE and share == most and row.last_ns < reporters[found].last_ns
        if share > most or older:
            found, most = start + column, share
    return found


@kernel
def forget_range(seen, base, number, count, window):
    """Clear the bits of `count` numbers from `number` on."""
    left = min(count, window)
    while left:
        at = number & (window - ONE)
        bit = at & U64(63)
        take = min(left, U64(64) - bit)
        bits = NONE >> (U64(64) - take)
        seen[base + (at >> SIX)] &= ~(bits << bit)
        number += take
        left -= take


@kernel
def has_gap(seen, base, newest, count, window):
    """Whether one of the last `count` numbers, `newest` included, is missing."""
    left, number = count, newest
    while left:
        at = number & (window - ONE)
        bit = at & U64(63)
        take = min(left, bit + ONE)
        bits = (NONE >> (U64(64) - take)) << (bit + ONE - take)
        if ~seen[base + (at >> SIX)] & bits:
            return True
        number -= take
        left -= take
    return False


@inlined
def begin(row, seen, base, number, window):
    """Track a numbering from `number` on, which has been received."""
    forget_range(seen, base, ZERO, window, window)
    at = number & (window - ONE)
    seen[base + (at >> SIX)] = ONE << (at & U64(63))
    row.newest = U32(number)
    row.depth = U32(1)
    row.suspected = U32(0)


@kernel
def settle(reporters, at, seen, number, flags, silent_ns, limits, tally):
    """(numbers newly missing, reason) of a report, `silent_ns` after the reporter's last one."""
    row = reporters[at]
    window, mask = limits[WINDOW], limits[MASK]
    base = at * (window >> SIX)
    place = number & (window - ONE)
    index, bit = base + (place >> SIX), ONE << (place & U64(63))
    newest, depth = U64(row.newest), U64(row.depth)
    distance = (newest - number) & mask
    ahead = (number - newest) & mask
    if depth == ZERO:
        begin(row, seen, base, number, window)
        return ZERO, U8(0)
    if number <= ONE and distance and not flags & RETRANSMIT and (distance < window or ahead > limits[AHEAD]):
        had = distance >= window or seen[index] & bit != ZERO
        if had and (distance >= FOLLOWS or silent_ns >= SILENT_NS):
            begin(row, seen, base, number, window)
            row.restarts += ONE
            tally[RESTARTS] += ONE
            return ZERO, U8(0)
    if distance < window:
        if seen[index] & bit:
            if number == ZERO and distance == ZERO and depth == ONE:
                return ZERO, U8(0)
            row.duplicate += ONE
            tally[DUPLICATE] += ONE
            return ZERO, IS_DUPLICATE
        seen[index] |= bit
        row.late += ONE
        tally[LATE] += ONE
        if distance < depth:  # numbers before the first report were not counted as lost
            row.lost -= ONE
            tally[LOST] -= ONE
        return ZERO, U8(0)
    if ahead <= limits[AHEAD]:
        missing = ahead - ONE
        forget_range(seen, base, newest + ONE, ahead, window)
        seen[index] |= bit
        row.newest = U32(number)
        row.depth = U32(min(depth + ahead, window))
        row.lost += missing
        tally[LOST] += missing
        row.suspected = U32(0)
        return missing, U8(0)
    after = (number - U64(row.suspect)) & mask
    if row.suspected != U32(0) and after - ONE < FOLLOWS:
        begin(row, seen, base, number, window)
        row.restarts += ONE
        tally[RESTARTS] += ONE
        return ZERO, U8(0)
    row.suspect = U32(number)
    row.suspected = U32(1)
    row.stale += ONE
    tally[STALE] += ONE
    return ZERO, IS_STALE


@kernel
def track(frames, reports, reporters, seen, gaps, limits, tally):
    """Check the numbers of reports; duplicates and stale ones get their reason.

    `gaps` gets the numbers newly found missing before each report. Reports that the parser rejected are
    skipped: their number may be damaged too, so it is missing.
    """
    last_hi, last_lo, last_port, at, base = NONE, NONE, U16(0), NONE, ZERO
    window, mask, received = limits[WINDOW], limits[MASK], ZERO
    for i in range(len(reports)):
        gaps[i] = U32(0)
        if reports[i].reason != U8(0):
            continue
        high, low = frames[i].source_hi, frames[i].source_lo
        port = frames[i].source_port
        if at == NONE or low != last_lo or high != last_hi or port != last_port:
            at = find(reporters, high, low, port, True, frames[i].time_ns, limits, tally)
            last_hi, last_lo, last_port, base = high, low, port, at * (window >> SIX)
            if at == NONE:
                tally[UNTRACKED] += ONE
                continue
        received += ONE
        row = reporters[at]
        row.received += ONE
        silent_ns = frames[i].time_ns - row.last_ns
        row.last_ns = frames[i].time_ns
        number = U64(reports[i].sequence)
        # shortcut for the next number: 2.9 ns instead of 9.5
        if number == ((U64(row.newest) + ONE) & mask) and U64(row.depth) == window:
            row.newest = U32(number)
            row.suspected = U32(0)
            place = number & (window - ONE)
            seen[base + (place >> SIX)] |= ONE << (place & U64(63))
            continue
        missing, reason = settle(reporters, at, seen, number, reports[i].flags, silent_ns, limits, tally)
        gaps[i] = U32(missing)
        if reason:
            reports[i]["reason"] = reason
    tally[RECEIVED] += received


@inlined
def put_nack(answers, count, frame, first, many, reason, mask):
    """Append a NACK, or extend the last one if it continues it; returns the new count."""
    if count:
        last = answers[count - ONE]
        same = last.source_lo == frame.source_lo and last.source_hi == frame.source_hi
        if same and last.source_port == frame.source_port and last.reason == reason:
            before = U64(last.count)
            if (U64(last.sequence) + before) & mask == first and before + many <= MAX_NAMED:
                last.count = U16(before + many)
                return count
    row = answers[count]
    row.source_hi = frame.source_hi
    row.source_lo = frame.source_lo
    row.source_port = frame.source_port
    row.sequence = U32(first)
    row.count = U16(many)
    row.nack = U8(1)
    row.reason = reason
    return count + ONE


@kernel
def make_nacks(frames, reports, gaps, reporters, seen, answers, limits, tally):
    """NACKs of a translated batch: for gaps before a report that asks for retransmission, and for such
    reports without room or collector.

    Returns their number, at most two per report. Reports without room or collector count as lost until they
    arrive again, and are then not duplicates.
    """
    count = ZERO
    mask, window = limits[MASK], limits[WINDOW]
    for i in range(len(reports)):
        report = reports[i]
        number = U64(report.sequence)
        asks = report.flags & RETRANSMIT
        if gaps[i] and asks:
            # older numbers than the window would be rejected as stale
            many = min(U64(gaps[i]), min(window - ONE, MAX_NAMED))
            count = put_nack(answers, count, frames[i], (number - many) & mask, many, GAP, mask)
        reason = report.reason
        if reason != RATE_LIMITED and reason != CONGESTED and reason != NO_COLLECTOR:
            continue
        at = find(
            reporters, frames[i].source_hi, frames[i].source_lo, frames[i].source_port, False, I64(0), limits,
            tally,
        )  # fmt: skip
        if at != NONE:
            distance = (U64(reporters[at].newest) - number) & mask
            if distance < window:
                forget_range(seen, at * (window >> SIX), number, ONE, window)
            if distance < U64(reporters[at].depth):
                reporters[at].lost += ONE
                tally[LOST] += ONE
        if asks:
            count = put_nack(answers, count, frames[i], number, ONE, report.reason, mask)
    return count


@kernel
def make_acks(frames, reports, reporters, seen, touched, answers, limits, tally):
    """ACKs of a translated batch: the newest number of every reporter that asked for retransmission and lacks
    none of the last half window, as many as a reporter keeps. Returns their number, at most one per reporter.

    `touched`, uint32 [reporters]: 0 before and after.
    """
    last_hi, last_lo, last_port, at, asked = NONE, NONE, U16(0), NONE, ZERO
    for i in range(len(reports)):
        report = reports[i]
        if not report.flags & RETRANSMIT or (report.reason != U8(0) and report.reason != IS_DUPLICATE):
            continue
        high, low = frames[i].source_hi, frames[i].source_lo
        port = frames[i].source_port
        if at == NONE or low != last_lo or high != last_hi or port != last_port:
            at = find(reporters, high, low, port, False, I64(0), limits, tally)
            last_hi, last_lo, last_port = high, low, port
            if at == NONE:
                continue
        asked += U64(touched[at] == U32(0))
        touched[at] = U32(frames[i].source_port) + U32(1)
    count, row, half = ZERO, ZERO, limits[WINDOW] >> ONE
    while asked:
        if touched[row] != U32(0):
            asked -= ONE
            reporter = reporters[row]
            reporter.asks = U8(1)
            kept = min(U64(reporter.depth), half)
            if reporter.lost == ZERO or not has_gap(
                seen, row * (half >> U64(5)), U64(reporter.newest), kept, half + half
            ):
                answer = answers[count]
                answer.source_hi = reporter.source_hi
                answer.source_lo = reporter.source_lo
                answer.source_port = U16(touched[row] - U32(1))
                answer.sequence = reporter.newest
                answer.count = U16(0)
                answer.nack = U8(0)
                answer.reason = U8(0)
                count += ONE
            touched[row] = U32(0)
        row += ONE
    return count

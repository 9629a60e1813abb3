"""Distributes reports to lanes and verbs to collectors, and counts the results.

Parameters: `reports`: DTA; `frames`: FRAME, row by row, may be empty; `routes`: ROUTE [rules]; `first`:
uint32 [257], first rule of an opcode; `plain`: uint32 [256]; `shares`: uint32, collectors of rules; `down`:
uint8 [collectors]; `tables`: CRC tables; `lanes`, `order`: uint32 [reports]; `counts`: uint64 [lanes or
collectors]."""

from ...base.kernels.jit import I64, U8, U32, U64, be32, kernel
from ...rdma.records import COUNT, Verb
from ...wire.reasons import DtaReason
from ..hashing_kernel import begin, collector

NO_LANE = U32(0xFFFFFFFF)
APPEND = U64(2)
NONE, UNKNOWN_OPCODE = U8(DtaReason.NONE), U8(DtaReason.UNKNOWN_OPCODE)
WRITE, FETCH_ADD, CMP_SWAP = U8(Verb.WRITE), U8(Verb.FETCH_ADD), U8(Verb.CMP_SWAP)
BAD_LIST, NO_COLLECTOR = U8(DtaReason.BAD_LIST), U8(DtaReason.NO_COLLECTOR)


@kernel
def alike(reports):
    """Whether all reports are accepted and of one primitive, which is the usual case.

    Then `partition` and `tally` avoid dependent additions in memory: they take 0.7 and 0.6 ns per report
    instead of 2.2 and 2.1.
    """
    first, other = reports[0]["opcode"], U8(0)
    for i in range(reports.shape[0]):
        other |= reports[i]["reason"] | (reports[i]["opcode"] ^ first)
    return other == U8(0)


@kernel
def partition(reports, frames, arena, routes, first, plain, shares, down, tables, lanes, counts, order):
    """Rows of accepted reports by lane, in `order`, stable; their numbers in `counts` [lanes].

    Returns the lane if all reports go to one: then `order` is untouched, and the rows are all rows. -1
    otherwise. Rejects reports that no route takes, and those of a collector that is down; the list of an
    Append report becomes the store's own number. `plain` must hold no lanes while a collector is down.
    """
    rows = U64(reports.shape[0])
    counts[:] = 0
    if rows and alike(reports):
        lane = plain[U64(reports[0]["opcode"])]
        if lane != NO_LANE:
            return I64(lane)
    rejected = False
    for i in range(rows):
        report = reports[i]
        lane = NO_LANE
        if report["reason"] == NONE:
            lane = plain[U64(report["opcode"])]
            if lane == NO_LANE:
                lane = _route(reports, frames, arena, routes, first, shares, down, tables, U64(i))
        lanes[i] = lane
        if lane == NO_LANE:
            rejected = True
        else:
            counts[U64(lane)] += U64(1)
    if rows and not rejected and counts[U64(lanes[0])] == rows:
        return I64(lanes[0])
    at = U64(0)
    for which in range(counts.shape[0]):
        count = counts[which]
        counts[which] = at
        at += count
    for i in range(rows):
        if lanes[i] != NO_LANE:
            mine = U64(lanes[i])
            order[counts[mine]] = U32(i)
            counts[mine] += U64(1)
    at = U64(0)
    for which in range(counts.shape[0]):
        end = counts[which]
        counts[which] = end - at
        at = end
    return I64(-1)


@kernel
def _route(reports, frames, arena, routes, first, shares, down, tables, row):
    """Lane of a report by the first matching rule; rejects it if there is none."""
    report = reports[row]
    opcode = U64(report["opcode"])
    begins, ends = U64(first[opcode]), U64(first[opcode + U64(1)])
    by_list = False
    for at in range(begins, ends):
        route = routes[at]
        if route["by_list"] != U8(0):
            by_list = True
            if report["list"] < route["first_list"] or report["list"] > route["last_list"]:
                continue
        if route["key_bytes"] != U8(0) and route["key_bytes"] != report["key_bytes"]:
            continue
        if route["data_bytes"] != U8(0) and route["data_bytes"] != report["data_bytes"]:
            continue
        if route["by_frame"] != U8(0):
            if U64(row) >= U64(frames.shape[0]) or not _sent(frames[row], route):
                continue
        if route["by_list"] != U8(0):
            reports[row]["list"] = report["list"] - route["first_list"]
        share = U64(route["first_share"])
        if route["shares"] > U32(1):
            key_at, key_bytes = U64(report["key_at"]), U64(report["key_bytes"])
            if opcode == APPEND:
                share += U64(reports[row]["list"]) % U64(route["shares"])
            elif route["numbered"] != U8(0):
                if key_bytes == U64(4):
                    share += be32(arena, key_at) % U64(route["shares"])
            else:
                mode = U64(route["hashing"])
                h = begin(mode, arena, key_at, key_bytes, route["seed"])
                share += collector(mode, tables, h, arena, key_at, key_bytes, U64(route["shares"]))
        if down[U64(shares[share])] != U8(0):
            reports[row]["reason"] = NO_COLLECTOR
            return NO_LANE
        return route["lane"]
    reports[row]["reason"] = BAD_LIST if by_list else UNKNOWN_OPCODE
    return NO_LANE


@kernel
def _sent(frame, route):
    """Whether a frame's port and source address match a route."""
    if U64(route["port"]) != U64(0) and route["port"] != frame["port"]:
        return False
    hi, lo = frame["source_hi"], frame["source_lo"]
    if hi < route["first_hi"] or (hi == route["first_hi"] and lo < route["first_lo"]):
        return False
    return not (hi > route["last_hi"] or (hi == route["last_hi"] and lo > route["last_lo"]))


@kernel
def tally(reports, reasons, opcodes):
    """Count reports by reason, and those translated by opcode."""
    if reports.shape[0] and alike(reports):
        reasons[U64(NONE)] += U64(reports.shape[0])
        opcodes[U64(reports[0]["opcode"])] += U64(reports.shape[0])
        return
    for i in range(reports.shape[0]):
        reason = reports[i]["reason"]
        reasons[U64(reason)] += U64(1)
        if reason == NONE:
            opcodes[U64(reports[i]["opcode"])] += U64(1)


@kernel
def reject(reports, allowed, reason):
    """Reject accepted reports beyond the first `allowed`; returns their number."""
    seen, rejected = U64(0), U64(0)
    for i in range(reports.shape[0]):
        if reports[i]["reason"] == NONE:
            seen += U64(1)
            if seen > U64(allowed):
                reports[i]["reason"] = U8(reason)
                rejected += U64(1)
    return I64(rejected)


@kernel
def kinds(verbs, fill, counts):
    """Count the verbs of a block by kind, in registers: 0.4 ns per verb instead of 1.9. Returns the bytes
    that the block's writes write, which may exceed its payload, since copies share it.
    """
    adds, swaps, written = U64(0), U64(0), U64(0)
    for i in range(fill[COUNT]):
        kind = verbs[i]["kind"]
        adds += U64(kind == FETCH_ADD)
        swaps += U64(kind == CMP_SWAP)
        written += U64(verbs[i]["length"]) * U64(kind == WRITE)
    counts[U64(FETCH_ADD)] += adds
    counts[U64(CMP_SWAP)] += swaps
    counts[U64(WRITE)] += fill[COUNT] - adds - swaps
    return I64(written)


@kernel
def split(verbs, fill, collectors, targets, counts, out):
    """Sort verbs by the collector of their target, stable; their numbers in `counts` [collectors].

    `collectors` and `targets`: collector and local number of each global target.
    """
    counts[:] = 0
    for i in range(fill[COUNT]):
        counts[U64(collectors[U64(verbs[i]["target"])])] += U64(1)
    at = U64(0)
    for which in range(counts.shape[0]):
        count = counts[which]
        counts[which] = at
        at += count
    for i in range(fill[COUNT]):
        target = U64(verbs[i]["target"])
        mine = U64(collectors[target])
        row = counts[mine]
        out[row] = verbs[i]
        out[row]["target"] = targets[target]
        counts[mine] = row + U64(1)
    at = U64(0)
    for which in range(counts.shape[0]):
        end = counts[which]
        counts[which] = end - at
        at = end

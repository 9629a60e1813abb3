"""Packets without their INT, IFA (`strip_ifa_kernel`) or IOAM (`strip_ioam_kernel`).

The usual form, INT-MD 2.x after the first TCP or UDP header, takes one pass over the payload;
`strip_any_kernel` restores all other forms. The following fields are corrected around the INT, and in every
header outside it:

* lengths: of IP, UDP, GTP-U and Geneve's options;
* next protocols: the UDP port (NPT 1, or the tail of 0.5), the IP protocol (NPT 2, or an inserted UDP
  header), the next protocols of GRE and VXLAN-GPE; GRE and VXLAN-GPE that the source added (G) are removed;
* the DSCP, if it announces INT and no port does: it becomes that of shim or tail, else that of
  `rules.PLAIN_DSCP`. Any other DSCP was not written by an INT source, and stays, like TTL and ECN;
* checksums (IPv4, TCP, UDP, GRE; innermost first). Sources treat them differently. A checksum that is right
  for the packet without INT stays: the source left it, or zeroed the sum with a checksum complement. A
  checksum that was right with INT was updated by all nodes, and is updated back. If it is right in neither
  case, or if the packet is cut, it stays and is counted, so that damage remains visible. A UDP checksum of 0
  stays 0. TCP after an inserted header was not changed by the source.

Bytes after the packet's end (padding, trailers) stay. No padding is added: senders do that.
"""

from ...base.kernels.jit import U64, be16, inlined, kernel, load64
from ..decode.trail_kernel import (
    count_of,
    kind_of,
    offset_of,
    protocol_of,
    shim_of,
    usual_headers,
    write_usual,
)
from ..decode.walk_kernel import INT_DSCP, announced_by_port
from ..headers import checksum_kernel as checksum
from ..headers.packet_kernel import NONE, get
from ..headers.put_kernel import put8, put16
from ..headers.tunnel_kernel import FOUR, L4
from ..records import Mode
from ..telemetry.variant_kernel import (
    LENGTH_WITH_SHIM,
    NEW_LENGTH,
    OLD_SHIM,
    OVER_INSERTED,
    SHIM_RULE,
    TCP,
    UDP,
    is_l4,
)
from .original_kernel import l4_size, original, original_dscp, put_dscp
from .strip_any_kernel import LEFT, strip_any
from .strip_ifa_kernel import strip_ifa
from .strip_ioam_kernel import strip_ioam

MD, IFA = U64(Mode.MD), U64(Mode.IFA)
IOAM = U64(Mode.IOAM_PREALLOCATED)
"""The first of the modes of IOAM."""
STRIPPED, UNVERIFIED, DAMAGED, PASSED, UNFIT = U64(0), U64(1), U64(2), U64(3), U64(4)
"""Results of a frame: telemetry removed; removed, but a checksum was right neither with it nor without;
damaged telemetry; nothing to remove; longer than the room.
"""


@inlined
def headers_around(buf, origin, end, row, trail):
    """(IP header, TCP or UDP header, shim, whether it is IPv4, IP protocol) if these two are the only headers
    around the INT; else zeros. With these read from the report rather than from a trail, a length by one
    lookup and sums folded without loops, a packet takes 48 ns instead of 57; without a UDP checksum, 28 ns
    instead of 38.
    """
    if trail[0] != NONE:
        if count_of(trail) != U64(2) or kind_of(trail[2]) != L4:
            return NONE, NONE, NONE, False, NONE
        ip, l4, four = origin + offset_of(trail[1]), origin + offset_of(trail[2]), kind_of(trail[1]) == FOUR
        return ip, l4, origin + shim_of(trail), four, protocol_of(trail[2])
    ip, l4, four, protocol = usual_headers(buf, origin, end, row)
    return ip, l4, origin + U64(row.int_at) - U64(4), four, protocol


@inlined
def strip_usual(buf, origin, end, row, table, ip, l4, shim, four, protocol, out, to, room):
    """Write the packet without its INT-MD 2.x after the frame's first TCP or UDP header to `out[to]`; returns
    (length, whether a checksum was right neither with INT nor without). Length 0: it does not fit; LEFT: any
    other packet.
    """
    carrier = U64(row.carrier)
    if four:
        dscp, total = U64(buf[ip + U64(1)]) >> U64(2), be16(buf, ip + U64(2))
        limit = ip + total
    else:
        dscp, total = (be16(buf, ip) >> U64(6)) & U64(63), be16(buf, ip + U64(4))
        limit = ip + total + U64(40)
        if l4 != ip + U64(40):
            return LEFT, False
    if l4 + l4_size(buf, l4, protocol, table) != shim or limit > end:
        return LEFT, False
    words = get(buf, shim, NEW_LENGTH)
    int_end = shim + ((words + U64(table[LENGTH_WITH_SHIM] == 0)) << U64(2))
    if words == NONE or int_end > limit or table[SHIM_RULE + U64(buf[shim])] & OLD_SHIM:
        return LEFT, False
    npt = U64(row.npt)
    inserted = carrier == OVER_INSERTED or npt == U64(2)
    cut = l4 if inserted else shim
    removed = int_end - cut
    length = end - origin - removed
    udp_length, check = NONE, NONE
    checked = not inserted
    if checked:
        if protocol == UDP:
            udp_length, check = be16(buf, l4 + U64(4)), be16(buf, l4 + U64(6))
            covered = l4 + udp_length
            if covered > limit or udp_length < removed + U64(8) or covered + removed == limit:
                return LEFT, False
            checked = check != NONE
        else:
            covered, check = limit, be16(buf, l4 + U64(16))
    if length > room:
        return NONE, False
    checksum.copy(out, to, buf, origin, cut)
    after_cut = to + cut - origin
    own_ip, own_l4 = to + ip - origin, to + l4 - origin
    rest = NONE
    if checked:
        rest = checksum.copy_and_add(out, after_cut, buf, int_end, covered)
        if covered < end:
            checksum.copy(out, after_cut + covered - int_end, buf, covered, end)
    else:
        checksum.copy(out, after_cut, buf, int_end, end)
    own_port = dport = be16(buf, l4 + U64(2))
    if npt == U64(1):
        own_port = original(buf, shim, npt, table)
    first = be16(buf, ip)
    own_first = first
    if table[INT_DSCP + dscp] and not announced_by_port(protocol, dport, table):
        own = original_dscp(buf, shim, int_end, False, protocol, dscp, U64(20), npt, table)
        put_dscp(out, own_ip, own)
        own_first = be16(out, own_ip)
    own_protocol = protocol
    if inserted:
        own_protocol = original(buf, shim, npt, table) & U64(0xFF) if npt == U64(2) else TCP
        put8(out, own_ip + (U64(9) if four else U64(6)), own_protocol)
    else:
        put16(out, own_l4 + U64(2), own_port)
        if protocol == UDP:
            put16(out, own_l4 + U64(4), udp_length - removed)
    unverified = False
    if four:
        put16(out, own_ip + U64(2), total - removed)
        if l4 - ip == U64(20):  # no options; the shortcuts for this and for UDP save 7 of 46 ns
            before = checksum.halves(load64(buf, ip)) + checksum.halves(load64(buf, ip + U64(8)))
            before = checksum.folded(before + (load64(buf, ip + U64(12)) >> U64(32)))
        else:
            before = checksum.folded(checksum.add_up(buf, ip, l4))
        after = checksum.changed(checksum.changed(before, total, total - removed), protocol, own_protocol)
        after = checksum.short(checksum.changed(after, first, own_first))
        if after != checksum.ONES_16:
            if before == checksum.ONES_16:
                put16(out, own_ip + U64(10), checksum.updated(be16(buf, ip + U64(10)), after, False))
            else:
                unverified = True
    else:
        put16(out, own_ip + U64(4), total - removed)
    if checked:
        size = covered - l4
        if protocol == UDP:
            own = checksum.addresses(buf, ip) + checksum.halves(load64(buf, l4)) + rest
        else:
            own = checksum.addresses(buf, ip) + checksum.add_up(buf, l4, shim) + rest
        after = checksum.changed(
            checksum.pseudo(checksum.folded(own), protocol, size - removed), dport, own_port
        )
        if protocol == UDP:
            after = checksum.changed(after, udp_length, udp_length - removed)
        after = checksum.short(after)
        if after != checksum.ONES_16:
            before = checksum.folded(own + checksum.add_up(buf, shim, int_end))
            if checksum.short(checksum.pseudo(before, protocol, size)) == checksum.ONES_16:
                at = own_l4 + (U64(6) if protocol == UDP else U64(16))
                put16(out, at, checksum.updated(check, after, protocol == UDP))
            else:
                unverified = True
    return length, unverified


@kernel
def strip_frames(buf, frames, first, reports, trails, table, out, offsets, room, lengths, results):
    """Write the frames from `first` on without their telemetry to `out`, one at each of `offsets`.
    `lengths` gets their lengths, 0 if a frame needs more than `room` bytes, or more than `out` has; `results`
    gets their results.
    """
    index, rows, space = NONE, U64(len(reports)), U64(len(out))
    for place in range(U64(len(offsets))):
        i = first + U64(place)
        frame = frames[i]
        origin, size, to = U64(frame.offset), U64(frame.length), U64(offsets[place])
        end = origin + size
        here = min(room, space - to) if to < space else NONE
        while index < rows and U64(reports[index].packet) < i:
            index += U64(1)
        what, length, unverified = PASSED, LEFT, False
        if index < rows and U64(reports[index].packet) == i and reports[index].version == 0:
            row = reports[index]
            if row.reason:
                what = DAMAGED
            elif U64(row.int_mode) == MD:
                what, trail = STRIPPED, trails[:, i]
                if U64(row.int_version) == U64(20) and is_l4(U64(row.carrier)):
                    ip, l4, shim, four, protocol = headers_around(buf, origin, end, row, trail)
                    if l4 != NONE:
                        length, unverified = strip_usual(
                            buf, origin, end, row, table, ip, l4, shim, four, protocol, out, to, here
                        )
                if length == LEFT:
                    if trail[0] == NONE:
                        write_usual(buf, origin, end, row, trail)
                    link = U64(frame.link)
                    length, unverified = strip_any(buf, origin, end, link, row, table, trail, out, to, here)
                if length == LEFT:
                    what = DAMAGED
            elif U64(row.int_mode) == IFA:
                length, unverified = strip_ifa(buf, origin, end, row, table, trails[:, i], out, to, here)
                what = DAMAGED if length == LEFT else STRIPPED
            elif U64(row.int_mode) >= IOAM:
                length, unverified = strip_ioam(buf, origin, end, row, table, trails[:, i], out, to, here)
                what = PASSED if length == LEFT else STRIPPED
        if length == LEFT:
            length = size if size <= here else NONE
            checksum.copy(out, to, buf, origin, origin + length)
        lengths[place] = length
        if length == NONE and size != NONE:
            what = UNFIT
        elif unverified:
            what = UNVERIFIED
        results[place] = what


@kernel
def place(frames, records, offsets):
    """Copy `frames` to `records`, with consecutive offsets, which are written to `offsets`, too. Returns the
    bytes that they take.
    """
    to = NONE
    for i in range(U64(len(frames))):
        records[i] = frames[i]
        records[i].offset = offsets[i] = to
        to += U64(frames[i].length)
    return to


@kernel
def shorten(records, lengths):
    """Set the lengths of `records`, and reduce their lengths on the wire by the same amounts."""
    for i in range(U64(len(records))):
        records[i].wire_length -= records[i].length - lengths[i]
        records[i].length = lengths[i]

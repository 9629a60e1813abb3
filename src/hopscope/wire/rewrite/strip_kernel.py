"""Packets without their INT, for batches: the rules of strip.py, which says why.

What most packets are, INT-MD 2.x behind the first TCP or UDP header, is done in one pass over the payload;
every other packet by `strip_any_kernel`.
"""

from __future__ import annotations

from typing import Any

from ...base.jit import U64, be16, inlined, kernel, load64
from ..decode.walk_kernel import INT_DSCP
from ..headers import checksum_kernel as checksum
from ..headers.packet_kernel import ETHERNET, IPV4, IPV6, NONE, ethernet, get
from ..headers.put_kernel import fold, put8, put16
from ..records import Mode
from ..telemetry.int_kernel import FIXED_TCP, TCP_WORDS
from ..telemetry.variant_kernel import OVER_INSERTED, OVER_TCP, OVER_UDP, TCP, UDP
from .original_kernel import behind_int, original, own_dscp, put_dscp, said_by_port
from .strip_any_kernel import LEFT, strip_any

MD = U64(Mode.MD)
STRIPPED, UNVERIFIED, DAMAGED, PASSED = U64(0), U64(1), U64(2), U64(3)
"""What happened to a frame: places in `counts`."""


@inlined
def quick(buf: Any, origin: Any, end: Any, row: Any, table: Any, out: Any, to: Any, room: Any) -> Any:
    """(length, whether a checksum fits nothing) of the packet at `out[to]` without its INT-MD 2.x behind the
    frame's first TCP or UDP header; 0 where it does not fit, LEFT for any other packet.
    """
    carrier = U64(row.carrier)
    l4_carrier = carrier == OVER_UDP or carrier == OVER_INSERTED or carrier == OVER_TCP
    if U64(row.int_version) != U64(20) or not l4_carrier:
        return LEFT, False
    shim = origin + U64(row.int_at) - U64(4)
    cut, ip, type_, _, _ = ethernet(buf, origin, end, end)
    if cut or shim + U64(12) > end or ip + U64(20) > shim:
        return LEFT, False
    four = type_ == IPV4
    if four:
        l4, protocol = ip + ((U64(buf[ip]) & U64(15)) << U64(2)), U64(buf[ip + U64(9)])
        dscp, total = U64(buf[ip + U64(1)]) >> U64(2), be16(buf, ip + U64(2))
        limit = ip + total
    elif type_ == IPV6:
        l4, protocol = ip + U64(40), U64(buf[ip + U64(6)])
        dscp, total = (be16(buf, ip) >> U64(6)) & U64(63), be16(buf, ip + U64(4))
        limit = ip + total + U64(40)
    else:
        return LEFT, False
    size = U64(8)
    if protocol == TCP and l4 + U64(20) <= shim:
        size = U64(20) if table[FIXED_TCP] else get(buf, l4, TCP_WORDS) << U64(2)
    elif protocol != UDP:
        return LEFT, False
    if l4 + size != shim or limit > end:
        return LEFT, False
    behind, _ = behind_int(buf, shim, carrier, row, table)
    if behind == NONE or behind > limit:
        return LEFT, False
    npt = U64(row.npt)
    inserted = carrier == OVER_INSERTED or npt == U64(2)
    cut = l4 if inserted else shim
    removed = behind - cut
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
        rest = checksum.copy_and_add(out, after_cut, buf, behind, covered)
        checksum.copy(out, after_cut + covered - behind, buf, covered, end)
    else:
        checksum.copy(out, after_cut, buf, behind, end)
    own_port = dport = be16(buf, l4 + U64(2))
    if npt == U64(1):
        own_port = original(buf, shim, npt, table)
    first = be16(buf, ip)
    own_first = first
    if table[INT_DSCP + dscp] and not said_by_port(protocol, dport, table):
        own = own_dscp(buf, shim, behind, False, protocol, dscp, U64(20), npt, table)
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
        if l4 - ip == U64(20):  # as most are; this and UDP's own header save 7 ns of 46
            before = checksum.halves(load64(buf, ip)) + checksum.halves(load64(buf, ip + U64(8)))
            before = checksum.folded(before + (load64(buf, ip + U64(12)) >> U64(32)))
        else:
            before = checksum.folded(checksum.add_up(buf, ip, l4))
        after = checksum.changed(checksum.changed(before, total, total - removed), protocol, own_protocol)
        after = fold(checksum.changed(after, first, own_first))
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
        after = fold(after)
        if after != checksum.ONES_16:
            if (
                fold(
                    checksum.pseudo(checksum.folded(own + checksum.add_up(buf, shim, behind)), protocol, size)
                )
                == checksum.ONES_16
            ):
                at = own_l4 + (U64(6) if protocol == UDP else U64(16))
                put16(out, at, checksum.updated(check, after, protocol == UDP))
            else:
                unverified = True
    return length, unverified


@kernel
def strip_frames(
    buf: Any, frames: Any, reports: Any, table: Any, trail: Any, out: Any, offsets: Any, room: Any,
    lengths: Any, counts: Any,
) -> None:  # fmt: skip
    """Write each frame without its INT to `out` at `offsets`, and its length to `lengths`: 0 where it takes
    more than `room` bytes, or more than there are.  `counts` of frames are added to: STRIPPED, UNVERIFIED (of
    these), DAMAGED, PASSED.
    """
    index, rows, space = NONE, U64(len(reports)), U64(len(out))
    for i in range(U64(len(frames))):
        frame = frames[i]
        origin, size, to = U64(frame.offset), U64(frame.length), U64(offsets[i])
        end = origin + size
        here = min(room, space - to) if to < space else NONE
        while index < rows and U64(reports[index].packet) < U64(i):
            index += U64(1)
        what, length, unverified = PASSED, LEFT, False
        if index < rows and U64(reports[index].packet) == U64(i) and reports[index].version == 0:
            row = reports[index]
            link = U64(frame.link)
            if row.reason:
                what = DAMAGED
            elif U64(row.int_mode) == MD:
                what = STRIPPED
                if link == ETHERNET:
                    length, unverified = quick(buf, origin, end, row, table, out, to, here)
                if length == LEFT:
                    length, unverified = strip_any(buf, origin, end, link, row, table, trail, out, to, here)
                if length == LEFT:
                    what = DAMAGED
        if length == LEFT:
            length = size if size <= here else NONE
            checksum.copy(out, to, buf, origin, origin + length)
        lengths[i] = length
        if length or size == NONE:
            counts[what] += U64(1)
            counts[UNVERIFIED] += U64(unverified)

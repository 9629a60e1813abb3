"""The trail of a packet: the headers that the decoder passed on its way to the packet's INT-MD, IFA or IOAM.

Stripping (`wire/rewrite`) reads it, so that it need not walk again. A trail is a column of
`ReportBatch.trails`: the number of headers and the offset of the shim, then the headers, outermost first; the
last one carries the INT, or is the IFA header. With IOAM, there are more after the one that has it.
Ethernet headers and the shim are left out, since nothing in them depends on the INT.

The decoder writes the trails of packets that it had to walk. For a usual packet it writes 0, and stripping
finds the two headers from the report: if the decoder wrote them, this would cost 10 of 52 ns per packet, and
in a third of all processes 50 ns (spilled registers).

A header is one number: 8 bits for its kind (`rules.Next`), 8 for the IP protocol (L4), 24 for its offset in
the frame, and 24 for the bytes from there to the end of its packet by the IP headers around it, perhaps after
the frame.
"""

from ...base.kernels.jit import U64, inlined, kernel
from .. import layout
from ..headers.packet_kernel import NONE, ethernet, get, word
from ..headers.tunnel_kernel import FOUR, L4, SIX
from ..telemetry.metadata_kernel import PLANS
from ..telemetry.variant_kernel import OVER_TCP, TCP, UDP

MAX_HEADERS = 40
"""Room for six IP headers, L4, a tunnel and MPLS labels after each, and more."""
TRAIL = 1 + MAX_HEADERS
"""Numbers of a trail."""
KEEPS, COUNT, UNKNOWN, FIRST = PLANS, PLANS + 1, PLANS + 2, PLANS + 3
MEMORY = FIRST + MAX_HEADERS
"""Numbers in the decoder's working memory: its plans; whether trails are kept (0: no, and `walk` records
nothing); how many headers `walk` recorded, if it found INT-MD, IFA or IOAM; how many packets seemed to have
INT of an unknown version; the headers of the packet that `walk` reads.
"""
IPV4_WORDS = word(layout.IPV4, "header_words")
TWO, LOW_8, LOW_24 = U64(2), U64(0xFF), U64(0xFFFFFF)


@inlined
def header(kind, protocol, offset, left):
    """A header as a number; offsets and sizes beyond 2^24 do not occur, and would be truncated."""
    return kind | (protocol << U64(8)) | (min(offset, LOW_24) << U64(16)) | (min(left, LOW_24) << U64(40))


@inlined
def kind_of(one):
    """Kind of a header (`rules.Next`)."""
    return one & LOW_8


@inlined
def protocol_of(one):
    """IP protocol of an L4 header."""
    return (one >> U64(8)) & LOW_8


@inlined
def offset_of(one):
    """Offset of a header in the frame."""
    return (one >> U64(16)) & LOW_24


@inlined
def left_of(one):
    """Bytes from a header to the end of its packet."""
    return one >> U64(40)


@inlined
def count_of(trail):
    """Headers of a trail."""
    return trail[0] & LOW_8


@inlined
def shim_of(trail):
    """Offset of the shim in the frame."""
    return trail[0] >> U64(8)


@kernel
def keep(row, plans, trails, column):
    """Write the trail that `walk` recorded."""
    count = plans[U64(COUNT)]
    trails[0, column] = min(count, LOW_8) | ((U64(row.int_at) - U64(4)) << U64(8))
    for i in range(min(count, U64(MAX_HEADERS))):
        trails[U64(1) + U64(i), column] = plans[U64(FIRST) + U64(i)]


@inlined
def usual_headers(buf, origin, end, row):
    """(IP header after Ethernet, its L4 header, whether it is IPv4, IP protocol) of a packet that needed no
    walk.
    """
    _, ip, _, _, _ = ethernet(buf, origin, end, end)
    four = row.ip_version == 4
    l4 = ip + (get(buf, ip, IPV4_WORDS) * U64(4) if four else U64(40))
    return ip, l4, four, TCP if U64(row.carrier) == OVER_TCP else UDP


@inlined
def write_usual(buf, origin, end, row, trail):
    """Write the trail of a packet that needed no walk: the IP header after Ethernet and its L4 header."""
    ip, l4, four, protocol = usual_headers(buf, origin, end, row)
    trail[0] = TWO | ((U64(row.int_at) - U64(4)) << U64(8))
    trail[1] = header(FOUR if four else SIX, NONE, ip - origin, LOW_24)
    trail[2] = header(L4, protocol, l4 - origin, U64(row.inner_length) + ip - l4)

"""Finds UDP datagrams to certain ports in captured frames, also in tunnels, as the decoder finds reports."""

from ...base.kernels.jit import U64, be16, kernel
from .. import rules
from ..decode.decode_kernel import is_usual_packet, outer
from ..headers.packet_kernel import ETHERNET, NONE
from ..records import Link

UDP_PAYLOAD, UDP_ROLE = U64(Link.UDP_PAYLOAD), U64(rules.UDP_ROLE)
ROLE_INT = U64(rules.ROLE_INT)
PORT, SIZE_UDP = U64(2), U64(8)
IS_SAMPLE, IS_FLOW = U64(1), U64(2)
"""Verdicts: a datagram to a port of sFlow; one to a port of IPFIX and NetFlow 9, which has ROLE_INT, too."""


@kernel
def find_datagrams(buf, frames, table, verdicts, found):
    """Write a verdict for each frame, uint64 [frames]: 0 for no datagram to a port with ROLE_REPORT, else
    IS_SAMPLE, IS_FLOW, or the code of a rejected datagram. `found`, FRAME [frames], gets its payload and
    source; of a rejected one, the place of the damage.
    """
    for k in range(len(frames)):
        i = U64(k)
        frame, one = frames[i], found[i]
        verdicts[i] = NONE
        link = U64(frame.link)
        if link == UDP_PAYLOAD:
            continue
        origin = U64(frame.offset)
        end = origin + U64(frame.length)
        if link == ETHERNET and is_usual_packet(buf, origin, end, table):
            continue  # most reports: 2 instead of 15 ns
        verdict, at, end, _, high, low = outer(buf, origin, end, link, table)
        if verdict == NONE:
            continue
        if verdict == U64(1):
            port = be16(buf, at - SIZE_UDP + PORT)
            verdict = IS_FLOW if U64(table[UDP_ROLE + port]) & ROLE_INT != NONE else IS_SAMPLE
            one.length = end - at
        verdicts[i] = verdict
        one.offset = at
        one.time_ns = frame.time_ns
        one.source_hi = high
        one.source_lo = low
        one.link = UDP_PAYLOAD

"""IFA 2.0 in packets, for the batch decoder: the checks of ifa.py, in the same order."""

from ...base.kernels.jit import U64, be16, be32, clear, inlined, kernel
from .. import layout
from ..headers.packet_kernel import NONE, code, get, lacks, word
from ..reasons import Place, Reason
from ..records import MAX_HOPS, Carried, Carrier, IntFlag, Mode
from ..versions import IFA
from .metadata_kernel import INGRESS, LATENCY, NODE, PORTS, QUEUE

PLACE = U64(Place.IFA)
UNKNOWN_NAMESPACE, UNSUPPORTED, BAD_SIZE, BAD_LENGTH = (
    code(reason, Place.IFA)
    for reason in (Reason.UNKNOWN_TYPE, Reason.UNSUPPORTED, Reason.BAD_HOP_SIZE, Reason.BAD_LENGTH)
)
VERSION_2, LOCAL = U64(2), U64(15)
SIZE, SIZE_METADATA, SIZE_HOP = (
    U64(header.size) for header in (layout.IFA, layout.IFA_METADATA, layout.IFA_HOP)
)
HOP_WORDS = U64(layout.IFA_HOP.size // 4)
assert 255 // HOP_WORDS <= MAX_HOPS
VERSION, NAMESPACE, NEXT = (word(layout.IFA, name) for name in ("version", "namespace", "next_header"))
FRAGMENTED, TAIL, INBAND, CHECKED = (
    word(layout.IFA, name) for name in ("fragmented", "tail_stamp", "inband", "checksum_present")
)
REQUEST, HOP_LIMIT, WORDS = (word(layout.IFA_METADATA, name) for name in ("request", "hop_limit", "words"))
NODE_ID, QUEUE_ID, SECONDS = (word(layout.IFA_HOP, name) for name in ("node_id", "queue_id", "seconds"))
EGRESS_PORT, INGRESS_PORT = word(layout.IFA_HOP, "egress_port"), word(layout.IFA_HOP, "ingress_port")
NANOSECONDS, RESIDENCE = word(layout.IFA_HOP, "nanoseconds"), word(layout.IFA_HOP, "residence_time")
QUEUE_CELLS = word(layout.IFA_HOP, "queue_cells")
OPAQUE = U64(layout.IFA_HOP.field("queue_bytes").at // 8)
SIZE_UDP, SIZE_TCP = U64(layout.UDP.size), U64(layout.TCP.size)
TCP_WORDS = word(layout.TCP, "header_words")
UDP, TCP = U64(layout.PROTOCOL_UDP), U64(layout.PROTOCOL_TCP)
HAS_PORTS, COPY = U64(Carried.PORTS), U64(IntFlag.COPY)
INT_VERSION, MODE, CARRIER = U64(IFA), U64(Mode.IFA), U64(Carrier.IP_PROTOCOL)
SECOND = U64(1_000_000_000)
FOUR = U64(4)


@kernel
def is_ifa(buf, at, limit):
    """Whether IFA 2.0, followed by TCP or UDP, is at `at`. The IP protocol alone does not say so: it is one
    for experiments, which others may use.
    """
    if at + SIZE > limit or get(buf, at, VERSION) != VERSION_2:
        return False
    following = get(buf, at, NEXT)
    return following == TCP or following == UDP


@kernel
def read_ifa(buf, origin, at, end, limit, row, hops, first):
    """Read the IFA header at `at` (see `is_ifa`), the ports and the stack into the row and its hops.

    Returns (code, offset, hops): the offset is that of the rejected header, or of the end of the stack.
    """
    if get(buf, at, NAMESPACE) != LOCAL:
        return UNKNOWN_NAMESPACE, at, NONE
    if get(buf, at, FRAGMENTED) | get(buf, at, TAIL) | get(buf, at, CHECKED):
        return UNSUPPORTED, at, NONE
    protocol, inband = get(buf, at, NEXT), get(buf, at, INBAND)
    at += SIZE
    row.proto = protocol
    why = lacks(at, FOUR, end, limit)
    if why:
        return why | PLACE, at, NONE
    row.sport = be16(buf, at)
    row.dport = be16(buf, at + U64(2))
    row.carried = U64(row.carried) | HAS_PORTS
    size = SIZE_UDP
    if protocol == TCP:
        why = lacks(at, SIZE_TCP, end, limit)
        if why:
            return why | PLACE, at, NONE
        size = get(buf, at, TCP_WORDS) << U64(2)
        if size < SIZE_TCP:
            return BAD_LENGTH, at, NONE
    why = lacks(at, size, end, limit)
    if why:
        return why | PLACE, at, NONE
    at += size
    why = lacks(at, SIZE_METADATA, end, limit)
    if why:
        return why | PLACE, at, NONE
    row.int_version = INT_VERSION
    row.int_mode = MODE
    row.carrier = CARRIER
    row.int_at = at - origin
    row.int_flags = NONE if inband else COPY
    row.instructions = get(buf, at, REQUEST)
    row.remaining_hops = get(buf, at, HOP_LIMIT)
    row.hop_words = HOP_WORDS
    words = get(buf, at, WORDS)
    if words % HOP_WORDS != NONE:
        return BAD_SIZE, at, NONE
    why = lacks(at + SIZE_METADATA, words << U64(2), end, limit)
    if why:
        return why | PLACE, at, NONE
    at += SIZE_METADATA
    count = U64(words // HOP_WORDS)
    for i in range(count):
        read_hop(buf, at, hops[first + count - U64(1) - U64(i)])
        at += SIZE_HOP
    return NONE, at, count


@inlined
def read_hop(buf, at, hop):
    """Read a node's metadata at `at` into a HOP record, with times in ns; every field is written."""
    residence = get(buf, at, RESIDENCE)
    present = NODE | PORTS | LATENCY | INGRESS
    if be32(buf, at + OPAQUE) | be32(buf, at + OPAQUE + FOUR) | be32(buf, at + OPAQUE + U64(8)):
        present |= QUEUE
    clear(hop)
    hop.ingress_time = get(buf, at, SECONDS) * SECOND + get(buf, at, NANOSECONDS)
    hop.node_id = get(buf, at, NODE_ID)
    # Some ASICs add 10^9 ns, since they subtract times within a second.
    hop.hop_latency = residence - SECOND if residence >= SECOND else residence
    hop.queue_id = get(buf, at, QUEUE_ID)
    hop.queue_occupancy = get(buf, at, QUEUE_CELLS)
    hop.ingress_port = get(buf, at, INGRESS_PORT)
    hop.egress_port = get(buf, at, EGRESS_PORT)
    hop.present = present
    hop.null = NONE

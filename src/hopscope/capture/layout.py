"""Numbers and records shared by the kernels of this package and their counterparts in Python."""

from enum import IntEnum

import numpy as np

MAX_RECORD = 16 * 1024 * 1024
"""Maximum size of a record or block of a capture file, bytes (libpcap's limit for pcapng blocks)."""


class Walk(IntEnum):
    """Why a walk over records stopped."""

    MORE = 0
    """The next record is not complete in the buffer."""
    FULL = 1
    """The frame block is full."""
    SECTION = 2
    """A block that describes sections or interfaces, or the header of an appended pcap; Python code reads it.
    """
    BAD_LENGTH = 3
    BAD_INTERFACE = 4
    LONG = 5
    """A block of pcapng is longer than MAX_RECORD."""


class Block(IntEnum):
    """pcapng block types (draft-ietf-opsawg-pcapng, section 4)."""

    INTERFACE = 1
    PACKET = 2
    """Obsolete, still written by old tools."""
    SIMPLE_PACKET = 3
    ENHANCED_PACKET = 6
    SECTION = 0x0A0D0D0A


class Clock(IntEnum):
    """How ticks are converted to ns."""

    MULTIPLY = 0
    """10^-9 s or coarser: ns = ticks * scale."""
    DIVIDE = 1
    """Finer: ns = ticks // scale."""
    BINARY = 2
    """2^-scale s."""


INTERFACE = np.dtype(
    [
        ("scale", "<u8"),
        ("offset_ns", "<u8"),  # if_tsoffset, modulo 2^64
        ("snap_length", "<u4"),  # 0: none
        ("link", "u1"),  # records.Link
        ("clock", "u1"),
        ("reserved", "<u2"),
    ]
)
"""One interface of a capture file; a pcap has one, whose ticks are those of the fraction of a second."""

MMSGHDR = np.dtype(
    {
        "names": ["name", "name_length", "iov", "iov_count", "control", "control_length", "flags", "length"],
        "formats": ["<u8", "<u4", "<u8", "<u8", "<u8", "<u8", "<u4", "<u4"],
        "offsets": [0, 8, 16, 24, 32, 40, 48, 56],
        "itemsize": 64,
    }
)
"""struct mmsghdr of 64-bit Linux: one message of recvmmsg(2) and sendmmsg(2)."""
IOVEC = np.dtype([("base", "<u8"), ("length", "<u8")])
"""struct iovec of 64-bit Linux."""
NAME_BYTES = 32
"""Room for one source address (struct sockaddr_in6 takes 28)."""
CONTROL_BYTES = 64
"""Room for the control messages of one datagram: two of 24 bytes in, 24 and 40 out."""

BUCKET = np.dtype([("source_hi", "<u8"), ("source_lo", "<u8"), ("due_ns", "<i8")])
"""One source of the rate limit: the time at which its bucket is full again."""
BUCKET_WAYS = 8


class Unpack(IntEnum):
    """Slots of the state of `udp_kernel.unpack`, uint64."""

    MESSAGES = 0
    """Messages of the last receive call."""
    NEXT = 1
    """The first message that has not been unpacked."""
    AT = 2
    """Bytes of its train that have been unpacked."""
    DROPS_SEEN = 3
    """SO_RXQ_OVFL as last seen, 32 bits."""
    DROPS = 4
    DENIED = 5
    LIMITED = 6
    OVERSIZED = 7


UNPACK_SLOTS = 8


class Setup(IntEnum):
    """Slots of the fixed parameters of `udp_kernel.unpack`, uint64."""

    SLOT = 0
    """Bytes of a message's slot; slots are at the start of the arena."""
    ROOMS = 1
    """Offset of the first message's room in the arena: a message that is longer than a slot moves there."""
    STRIDE = 2
    """Bytes from one message's room in the arena to the next."""
    PORT = 3
    INTERVAL_NS = 4
    """Time between two reports of a source at its rate; 0: no limit."""
    BURST_NS = 5
    """How far a source may be ahead of its rate."""
    BUCKET_MASK = 6
    NETWORK_HI = 7
    """Bits of an IPv6 address that distinguish sources."""
    NETWORK_LO = 8
    KEYS = 9
    """Keys of the hash of a source: the first of `BUCKET_KEYS`."""


BUCKET_KEYS = 4
SETUP_SLOTS = Setup.KEYS + BUCKET_KEYS


class Ring(IntEnum):
    """Slots of the position of `ring_kernel.walk` in a receive ring, uint64."""

    BLOCK = 0
    """Block being read."""
    AT = 1
    """Index in the ring of the block's next packet; 0: the block has not been started."""
    LEFT = 2
    """Packets left in the block."""
    HELD = 3
    """First block that was read, but not handed back."""
    DONE = 4
    """Number of such blocks."""
    OVERSIZED = 5
    COMPLETED = 6
    """Frames whose checksum was completed."""
    IN_TRAIN = 7
    """For reports: bytes of the next packet's train that have been described."""
    DENIED = 8
    LIMITED = 9


RING_SLOTS = 10


class RingSetup(IntEnum):
    """Slots of the fixed parameters of `ring_kernel.walk`, uint64."""

    BLOCKS = 0
    BLOCK_BYTES = 1
    MOST = 2
    """Maximum number of blocks that one batch holds."""


RING_SETUP_SLOTS = 3


class BlockAt(IntEnum):
    """Byte offsets in a block of a TPACKET_V3 ring (struct tpacket_block_desc, linux/if_packet.h)."""

    STATUS = 8
    PACKETS = 12
    FIRST = 16
    """Offset of the first packet."""
    SEQUENCE = 24
    TAKEN = 48
    """Hopscope's field after the kernel's: 1 while a worker reads the block."""
    DROPS = 56
    """Hopscope's field in the first block: frames that the kernel dropped since the socket was opened."""


BLOCK_PRIVATE = 16
"""Bytes at the head of a block that are reserved for Hopscope."""


class PacketAt(IntEnum):
    """Byte offsets in the header of a packet in a block (struct tpacket3_hdr, then struct sockaddr_ll)."""

    NEXT = 0
    SECONDS = 4
    NANOSECONDS = 8
    CAPTURED = 12
    LENGTH = 16
    STATUS = 20
    FRAME = 24
    """Offset of the frame, 16 bits; a virtio_net_hdr precedes it."""
    VLAN_TCI = 32
    VLAN_TPID = 36
    KIND = 58
    """sll_pkttype."""
    END = 68


VNET_BYTES = 10
"""struct virtio_net_hdr before each frame: how to complete its checksum, and whether it is a train."""
VNET_TRAIN_KIND, VNET_TRAIN_BYTES = 1, 4
"""Byte offsets in it (gso_type, gso_size): 5 for a train of UDP datagrams; bytes of each, 16 bits."""


class SlotAt(IntEnum):
    """Byte offsets in the header of a slot of a transmit ring (struct tpacket3_hdr)."""

    LENGTH = 16
    """Bytes after this header."""
    STATUS = 20
    HEADER_LENGTH = 50
    """In the virtio_net_hdr: number of bytes that are copied; the rest stays in the ring until it is sent."""


SLOT_HEADER = 48 + VNET_BYTES
"""Offset of the frame in a slot."""

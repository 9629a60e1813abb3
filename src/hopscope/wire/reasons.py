"""Reject reasons and headers: closed lists, the same in kernels, counters, `decode` and docs/."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why a frame on a report port, or a report within it, was rejected; 0: accepted."""

    NONE = 0
    """Accepted."""
    TRUNCATED = 1
    """The bytes end before a header, or before a length that a header announces."""
    FRAGMENT = 2
    """An IP fragment, outer or inner: its headers or its rest are in another packet."""
    UNKNOWN_VERSION = 3
    """A version number that no specification defines (of a report, INT, IP, or the flow of labels)."""
    UNKNOWN_TYPE = 4
    """A reserved type: NProto, RepType, InType or the shim's type."""
    BAD_LENGTH = 5
    """Two lengths contradict each other, or a length is below its header's size."""
    BAD_HOP_SIZE = 6
    """The hop size is zero, or is not what the instruction bitmap implies."""
    TOO_MANY_HOPS = 7
    """More than 64 hops in one report."""
    UNSUPPORTED = 8
    """A type whose contents are not read: IOAM in a report's main contents, IOAM's proof of transit and
    edge-to-edge data, destination-type INT.
    """
    BAD_BOTTOM = 9
    """INT of 2015: the bottom-of-stack bit is not in the last word that the header's counts imply."""
    TOO_MANY_LAYERS = 10
    """More than 6 IP headers, one inside the other."""
    UNKNOWN_INSTRUCTIONS = 11
    """All bits of the instruction bitmap are reserved, so that no value of a hop has a meaning; perhaps the
    source swaps its bytes.
    """
    EMPTY_REPORTS = 12
    """More than 8 reports of a datagram hold neither a packet nor metadata, or more than 64 are damaged: the
    rest of it is not read.
    """

    @property
    def label(self) -> str:
        """Lower-case name, as printed and counted."""
        return self.name.lower()


class Place(IntEnum):
    """The header that was being read when a report was rejected."""

    NONE = 0
    """Accepted."""
    OUTER_ETHERNET = 1
    """Ethernet, VLAN tags, or another link header, of the packet that carries the report."""
    OUTER_IP = 2
    """IPv4 with options, or IPv6 with extension headers, of that packet."""
    OUTER_UDP = 3
    """UDP of that packet."""
    REPORT_HEADER = 4
    """Fixed header of the report, or of a group and its individual reports (2.0)."""
    REPORT_METADATA = 5
    """Drop and switch-local headers (0.5), optional and variable metadata (1.0, 2.0)."""
    INNER_ETHERNET = 6
    """Ethernet and VLAN tags of the packet that the report is about."""
    INNER_IP = 7
    """IP of that packet."""
    INNER_L4 = 8
    """TCP or UDP of that packet."""
    INT_SHIM = 9
    """The shim, which announces INT."""
    INT_HEADER = 10
    """The INT-MD header."""
    INT_STACK = 11
    """The hops."""
    INT_TAIL = 12
    """What follows the stack in INT 0.5."""
    TUNNEL = 13
    """MPLS, GRE, ERSPAN, VXLAN, VXLAN-GPE, Geneve or GTP-U of the packet that the report is about."""
    IOAM_OPTION = 14
    """The IPv6 option with IOAM, and its trace or direct-export header."""
    IOAM_DATA = 15
    """The data that nodes wrote into an IOAM trace."""
    LABEL = 16
    """INT-label's source route, flow, option or items."""
    SFLOW = 17
    """A sample of sFlow, or a record in it."""
    IPFIX = 18
    """A set of IPFIX or NetFlow 9, or a record in it."""
    IFA = 19
    """The IFA header, its metadata header, or its stack."""

    @property
    def label(self) -> str:
        """Name as printed: lower case with spaces, as in ``int stack``."""
        return self.name.lower().replace("_", " ")


class DtaReason(IntEnum):
    """Why a DTA report was not translated; 0: accepted."""

    NONE = 0
    """Translated."""
    TRUNCATED = 1
    """The datagram ends before the header, the key or the data that it announces."""
    UNKNOWN_OPCODE = 2
    """No primitive has this opcode, no region of it is served, or no rule gives the report to one."""
    BAD_LENGTH = 3
    """Bytes left over, or a key, data or counter of a length that its primitive or store does not take."""
    BAD_REDUNDANCY = 4
    """Redundancy 0, or more copies than the region allows."""
    BAD_LIST = 5
    """A list, or a sketch, that the region does not have, or an entry that no rule gives to one."""
    BAD_HOP = 6
    """A hop number that is 0 or beyond the end of its path, or a hop number or path length above the hops of
    a chunk.
    """
    RATE_LIMITED = 7
    """Dropped by the rate limit; answered with a NACK if the report's form has a sequence number."""
    CONGESTED = 8
    """Dropped while the collector's connection had no room, or resynchronised; answered likewise."""
    NO_COLLECTOR = 9
    """The collector that its key or its header chooses is not connected; answered likewise."""
    NOT_DTA = 10
    """Another protocol or UDP port: no DTA report at all."""
    DUPLICATE = 11
    """The reporter has already sent this sequence number: the report is not executed twice."""
    STALE = 12
    """Its sequence number is too far off to decide whether it is a duplicate."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed and counted."""
        return self.name.lower()


class RoceReason(IntEnum):
    """Why a RoCEv2 packet was not executed; 0: accepted."""

    NONE = 0
    """Executed."""
    TRUNCATED = 1
    """The packet ends before a header, or is not an InfiniBand transport packet."""
    BAD_ICRC = 2
    """The invariant CRC does not match the packet."""
    UNKNOWN_OPCODE = 3
    """An opcode, or a transport version, that the software NIC does not have, or an opcode that its queue
    pair's service does not allow.
    """
    UNKNOWN_QUEUE_PAIR = 4
    """No queue pair has this number, or it is not connected to the sender's address."""
    BAD_PARTITION = 5
    """A partition key other than the queue pair's."""
    PSN_GAP = 6
    """Packets before it are missing: answered with a NAK (RC), or its message is dropped (UC)."""
    DUPLICATE = 7
    """Executed before: acknowledged again and not executed."""
    BAD_KEY = 8
    """No memory region has this key."""
    OUT_OF_BOUNDS = 9
    """It would write outside the memory region."""
    NO_ACCESS = 10
    """The memory region does not allow this operation."""
    MISALIGNED = 11
    """An atomic operation at an address that is not a multiple of 8."""
    BAD_LENGTH = 12
    """The payload is not what DMALen and the path MTU imply."""
    BAD_SEQUENCE = 13
    """MIDDLE or LAST without FIRST, or FIRST and ONLY within a message."""
    NOT_READY = 14
    """A SEND for which no receive buffer is free."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed and counted."""
        return self.name.lower()


class DropReason(IntEnum):
    """Why a sink did not forward a frame; 0: forwarded."""

    NONE = 0
    """Sent on."""
    NO_SLOT = 1
    """The transmit ring was full: frames arrived faster than the output takes them."""
    TOO_LONG = 2
    """Longer than the MTU of the output interface, even without its INT."""
    CUT = 3
    """Captured only in part."""
    TOO_SHORT = 4
    """Shorter than an Ethernet header."""
    DOWN = 5
    """The output interface was down or gone, or had not taken the frame when the sink ended."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed and counted."""
        return self.name.lower()

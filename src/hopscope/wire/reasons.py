"""Why a report was refused, and where: closed lists, the same in kernels, counters, `decode` and docs/."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why a frame on a report port, or a report within it, was refused. 0 is no refusal."""

    NONE = 0
    """No refusal."""
    TRUNCATED = 1
    """The bytes end before a header, or before a length that a header announces."""
    FRAGMENT = 2
    """An IP fragment, outer or inner: its headers or its rest are in another packet."""
    UNKNOWN_VERSION = 3
    """A version number that no specification defines (report, INT or IP)."""
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
    """INT of 2015: the bottom-of-stack bit is not where the header's counts imply the last word."""
    TOO_MANY_LAYERS = 10
    """More than 6 IP headers, one inside the other."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed and counted."""
        return self.name.lower()


class Place(IntEnum):
    """Which header was being read when a report was refused."""

    NONE = 0
    """No refusal."""
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
    """The shim that says that INT follows."""
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

    @property
    def label(self) -> str:
        """Name as printed: lower case with spaces, as in ``int stack``."""
        return self.name.lower().replace("_", " ")

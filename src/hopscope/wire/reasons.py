"""Why a report was refused, and where: closed lists, the same in kernels, counters, `decode` and docs/."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Why a frame on a report port, or a report within it, was refused. 0 is no refusal."""

    NONE = 0
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
    """A defined form that this version does not decode (IOAM, destination-type INT)."""

    @property
    def label(self) -> str:
        """Lower-case name, as printed and counted."""
        return self.name.lower()


class Place(IntEnum):
    """Which header was being read when a report was refused."""

    NONE = 0
    OUTER_ETHERNET = 1
    OUTER_IP = 2
    OUTER_UDP = 3
    REPORT_HEADER = 4
    REPORT_METADATA = 5
    INNER_ETHERNET = 6
    INNER_IP = 7
    INNER_L4 = 8
    INT_SHIM = 9
    INT_HEADER = 10
    INT_STACK = 11
    INT_TAIL = 12

    @property
    def label(self) -> str:
        """Name as printed: lower case with spaces, as in ``int stack``."""
        return self.name.lower().replace("_", " ")

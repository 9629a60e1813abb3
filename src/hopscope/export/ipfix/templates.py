"""Templates of IPFIX (RFC 7011 §3.4): the elements of data records, as NumPy types and on the wire.

Elements without a number from IANA are enterprise-specific; an options template describes them (RFC 5610).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from itertools import count

import numpy as np
import numpy.typing as npt

from ...detect.records import PATH_PART
from ...wire.ipfix import layout

_ENTERPRISE = 0x8000
"""Bit of an element's number which says that an enterprise number follows the length (RFC 7011 §3.2)."""
_TYPES = {">u1": 1, ">u2": 2, ">u4": 3, ">u8": 4, f">u4x{PATH_PART}": 0}
"""Abstract data types (IANA registry "IPFIX Information Element Data Types"); 0: octetArray."""
_QUANTITY, _IDENTIFIER = 1, 4
"""Semantics (IANA registry "IPFIX Information Element Semantics")."""


@dataclass(frozen=True, slots=True)
class Element:
    """One information element."""

    name: str
    number: int
    form: str
    """Its NumPy type; with `x` and a number, an array of it."""
    own: bool = False
    """Whether it is enterprise-specific."""
    semantics: int = _IDENTIFIER

    @property
    def field(self) -> tuple[str, str] | tuple[str, str, tuple[int]]:
        """Field of a structured NumPy type."""
        form, _, several = self.form.partition("x")
        return (self.name, form, (int(several),)) if several else (self.name, form)

    def specifier(self, enterprise: int) -> bytes:
        """Field specifier (RFC 7011 §3.2)."""
        length = np.dtype([self.field]).itemsize
        if not self.own:
            return struct.pack(">HH", self.number, length)
        return struct.pack(">HHI", _ENTERPRISE | self.number, length, enterprise)


_ADDRESSES_4 = (Element("sourceIPv4Address", 8, ">u4"), Element("destinationIPv4Address", 12, ">u4"))
_ADDRESSES_6 = (Element("sourceIPv6Address", 27, ">u8x2"), Element("destinationIPv6Address", 28, ">u8x2"))
_FLOW = (
    Element("sourceTransportPort", 7, ">u2"),
    Element("destinationTransportPort", 11, ">u2"),
    Element("protocolIdentifier", 4, ">u1"),
    Element("flowId", 148, ">u8"),
)
_RECORD = (
    Element("packetDeltaCount", 2, ">u8"),
    Element("flowStartMilliseconds", 152, ">u8"),  # what nfdump and pmacct read
    Element("flowEndMilliseconds", 153, ">u8"),
    Element("flowStartNanoseconds", 156, ">u8"),
    Element("flowEndNanoseconds", 157, ">u8"),
)
_SEQUENCE = Element("hopscopeSequence", 1, ">u8", own=True)
_HOPS = Element("hopscopeHopCount", 2, ">u1", own=True, semantics=_QUANTITY)
_PATH = Element("hopscopePath", 3, f">u4x{PATH_PART}", own=True)
_LATENCY = Element("hopscopeFlowLatencyNanoseconds", 4, ">u8", own=True, semantics=_QUANTITY)
_DELAY = (Element("pathDelayMeanDeltaMicroseconds", 530, ">u4"), _LATENCY)  # RFC 9951
_EVENT = (
    Element("observationTimeNanoseconds", 325, ">u8"),
    _SEQUENCE,
    Element("hopscopeKind", 5, ">u1", own=True),
    Element("hopscopeMetric", 6, ">u1", own=True),
    Element("hopscopeReason", 7, ">u1", own=True),
    Element("hopscopeHop", 8, ">u1", own=True),
    _HOPS,
    Element("hopscopeValue", 9, ">u8", own=True, semantics=_QUANTITY),
    Element("hopscopePrevious", 10, ">u8", own=True, semantics=_QUANTITY),
    Element("hopscopeSwitchTime", 11, ">u8", own=True, semantics=_QUANTITY),
    Element("hopscopeNode", 12, ">u4", own=True),
    Element("hopscopePort", 13, ">u2", own=True),
    Element("hopscopeIdentifier", 14, ">u4", own=True),
    _PATH,
)
_SOURCE = (Element("exporterIPv6Address", 131, ">u8x2"),)


@dataclass(frozen=True)
class Template:
    """A template; `number` is the id of its sets."""

    number: int
    elements: tuple[Element, ...]

    @cached_property
    def layout(self) -> np.dtype[np.void]:
        """A data record, packed, big-endian."""
        return np.dtype([element.field for element in self.elements])

    def record(self, enterprise: int) -> bytes:
        """Template record (RFC 7011 §3.4.1)."""
        head = struct.pack(">HH", self.number, len(self.elements))
        return head + b"".join(element.specifier(enterprise) for element in self.elements)


_numbers = count(256)
FLOW_4, FLOW_6, DELAYED_FLOW_4, DELAYED_FLOW_6 = (
    Template(next(_numbers), (*addresses, *_FLOW, *_RECORD, *delay, _SEQUENCE, _HOPS, _PATH))
    for delay in ((), _DELAY)
    for addresses in (_ADDRESSES_4, _ADDRESSES_6)
)
"""Flow records for IPv4 and IPv6, without and with the flow's latency."""
EVENT_4, EVENT_6, EVENT_OTHER = (
    Template(next(_numbers), (*about, *_EVENT))
    for about in ((*_ADDRESSES_4, *_FLOW), (*_ADDRESSES_6, *_FLOW), _SOURCE)
)
"""Events of IPv4 and IPv6 flows; other events, with or without a source of reports."""
TEMPLATES = (FLOW_4, FLOW_6, DELAYED_FLOW_4, DELAYED_FLOW_6, EVENT_4, EVENT_6, EVENT_OTHER)
OWN = tuple(
    sorted(
        {element for template in TEMPLATES for element in template.elements if element.own},
        key=lambda element: element.number,
    )
)
"""Enterprise-specific elements, by number."""
_TYPE_TEMPLATE = next(_numbers)


def sets(enterprise: int) -> list[tuple[bytes, int]]:
    """The sets that a reader needs before any data, and how many data records each has.

    They are the templates, and descriptions of the enterprise-specific elements (RFC 5610 §3.9).
    """
    scope = ((346, 4), (303, 2))  # privateEnterpriseNumber, informationElementId
    about = ((339, 1), (344, 1), (341, layout.VARIABLE))  # data type, semantics, name
    options = struct.pack(">HHH", _TYPE_TEMPLATE, len(scope) + len(about), len(scope))
    options += b"".join(struct.pack(">HH", *field) for field in (*scope, *about))
    types = b"".join(
        struct.pack(
            ">IHBBB", enterprise, one.number, _TYPES[one.form], one.semantics, len(one.name)
        ) + one.name.encode()
        for one in OWN
    )  # fmt: skip
    made = [(encode_set(layout.TEMPLATES, template.record(enterprise)), 0) for template in TEMPLATES]
    return [*made, (encode_set(layout.OPTIONS, options), 0), (encode_set(_TYPE_TEMPLATE, types), len(OWN))]


def encode_set(number: int, content: bytes) -> bytes:
    """A set with its header (RFC 7011 §3.3.2); for each message, in a quarter of the time of wire's."""
    return struct.pack(">HH", number, 4 + len(content)) + content


def ntp(time_ns: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Times as dateTimeNanoseconds: seconds since 1900, and 2**-32 s (RFC 7011 §6.1.10).

    A reader that rounds down gets the same ns back.
    """
    seconds, rest = np.divmod(time_ns, np.uint64(10**9))
    fraction = ((rest << np.uint64(32)) + np.uint64(10**9 - 1)) // np.uint64(10**9)
    return (seconds + np.uint64(2_208_988_800)) << np.uint64(32) | fraction

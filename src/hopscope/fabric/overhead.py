"""What INT adds to packets and links, and the reports that result: sizes in closed form.

INT 2.1, sections 5.6 to 5.8 (headers) and 4.2 (MTU); Telemetry Report 2.0, section 3. The older versions are
those that `simulate` writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from ..wire import layout
from ..wire.records import MAX_HOPS, Have
from ..wire.versions import REPORT_VERSIONS
from .instructions import FIELDS, fields_of, instructions_of, most_hops
from .ports import FabricError
from .switch import MODES

_SHIMS = {5: layout.SHIM_OLD.size + layout.TAIL_0_5.size, 10: layout.SHIM_OLD.size, 20: layout.SHIM_2_0.size}
_HEADERS = {5: layout.MD_0_5.size, 10: layout.MD_1_0.size, 20: layout.MD_2_0.size}
_REPORTS = {5: layout.REPORT_0_5.size, 10: layout.REPORT_1_0.size, 20: layout.REPORT_2_0.size}
_LAST_WORDS = 255
"""From this length on, a report must be the last one of its datagram."""
_OUTER = layout.ETHERNET.size + layout.IPV4.size + layout.UDP.size
_GAP = 4 + 20
"""Frame check sequence, preamble and gap between frames of Ethernet, bytes."""
_LARGEST_GROUP = 8


def wire_bytes(size: float) -> float:
    """Bytes that an IP packet takes on Ethernet, with preamble and gap."""
    return size + layout.ETHERNET.size + _GAP


@dataclass(frozen=True, slots=True)
class IntDemand:
    """A network with INT, and its traffic."""

    mode: str = "md"
    """One of `switch.MODES`."""
    version: str = "2.0"
    """Version of the reports, which implies that of INT."""
    fields: Sequence[str] = ()
    """Names of `FIELDS`; empty: all of the version."""
    hops: int = 5
    """Switches that add metadata on the longest path."""
    packets: float = 1e6
    """Packets per second that enter the network at its INT sources."""
    size: float = 800
    """Mean length of a packet without INT, bytes from the IP header on."""
    sample: float = 1
    """One packet in this many carries INT, or, in mode xd, is reported."""
    reported: float = 1
    """Share of the packets with INT that are reported."""
    mtu: int = 1500
    """Largest IP packet of the links."""
    copied: int = layout.ETHERNET.size + layout.IPV4.size + layout.UDP.size
    """Bytes of the packet, without INT, in a report."""
    group: int = 1
    """Reports in a datagram."""

    @property
    def wire_bytes(self) -> float:
        """Bytes of a packet without INT on Ethernet."""
        return wire_bytes(self.size)

    def checked(self) -> IntDemand:
        """This object, if its values are valid. Raises FabricError."""
        if self.version not in REPORT_VERSIONS:
            raise FabricError(f"report version {self.version!r}: expected {', '.join(REPORT_VERSIONS)}")
        if self.mode not in MODES:
            raise FabricError(f"mode {self.mode!r}: expected {', '.join(MODES)}")
        if self.version != "2.0" and self.mode != "md":
            raise FabricError(f"mode {self.mode} takes Report 2.0")
        if self.version != "2.0" and self.group > 1:
            raise FabricError("only Report 2.0 puts several reports into one datagram")
        for name, low, high in (
            ("hops", 1, MAX_HOPS), ("packets", 0, 1e15), ("size", 28, 65535), ("sample", 1, 1e9),
            ("reported", 0, 1), ("mtu", 68, 65535), ("copied", 0, 9000), ("group", 1, _LARGEST_GROUP),
        ):  # fmt: skip
            value = getattr(self, name)
            if not (isfinite(value) and low <= value <= high):
                raise FabricError(f"{name}: found {value:g}, expected {low:g} to {high:g}")
        if self.size > self.mtu:
            raise FabricError(f"size: found {self.size:g}, but mtu is {self.mtu}")
        if self.copied > layout.ETHERNET.size + self.size:
            raise FabricError(
                f"copied: found {self.copied}, more than Ethernet and an IP packet of {self.size:g} B"
            )
        return self


@dataclass(frozen=True, slots=True)
class LinkOverhead:
    """The link after a hop."""

    hop: int
    """1: after the INT source."""
    inserted: int
    """Bytes that INT has added to a packet here."""
    traffic: float
    """Growth of the traffic, as a share of its bytes on the wire."""
    largest: int
    """Largest IP packet, without INT, that fits the MTU here; below 0: none does."""


@dataclass(frozen=True, slots=True)
class IntPlan:
    """What a demand means for packets, links and collectors."""

    demand: IntDemand
    fields: tuple[str, ...]
    instructions: int
    """Instruction bitmap of the version."""
    fixed: int
    """Bytes of shim and INT headers in a packet."""
    hop: int
    """Bytes that each switch adds."""
    links: tuple[LinkOverhead, ...]
    """By hop."""
    reports: float
    """Reports per second."""
    report_bytes: float
    """Bytes of a report on the wire, from packets that passed all hops."""

    @property
    def inserted(self) -> int:
        """Bytes that INT adds to a packet at most."""
        return self.links[-1].inserted

    @property
    def growth(self) -> float:
        """Mean growth of the traffic over the links after all hops, as a share."""
        return sum(link.traffic for link in self.links) / len(self.links)

    @property
    def report_hops(self) -> int:
        """Hops whose values a report has."""
        return self.demand.hops if self.demand.mode == "md" else 1

    @property
    def report_bits(self) -> float:
        """Traffic of reports to the collectors, bit/s."""
        return self.reports * self.report_bytes * 8


def plan_int(demand: IntDemand) -> IntPlan:
    """Compute a plan. Raises FabricError if a value of the demand is invalid."""
    demand.checked()
    version = REPORT_VERSIONS[demand.version]
    names = tuple(demand.fields) or FIELDS[version]
    instructions = instructions_of(version, names)
    present, words = fields_of(version, instructions)
    fixed = 0 if demand.mode == "xd" else _SHIMS[version] + _HEADERS[version]
    hop = 4 * words if demand.mode == "md" else 0
    if demand.mode == "md" and demand.hops > (most := most_hops(version, words)):
        raise FabricError(
            f"hops: found {demand.hops} of {hop} B each, but the length field of INT allows {most}"
        )
    links = []
    for number in range(1, demand.hops + 1):
        inserted = fixed + number * hop
        growth = inserted / demand.sample / demand.wire_bytes
        links.append(LinkOverhead(number, inserted, growth, demand.mtu - inserted))
    each, own = 1, 0
    if demand.mode != "md":  # its values are in the report's own metadata, the switch in the group header
        each, own = demand.hops, 4 * words - (layout.NODE.size if present & Have.NODE_ID else 0)
    return IntPlan(
        demand,
        tuple(name for name in FIELDS[version] if name in names),
        instructions,
        fixed,
        hop,
        tuple(links),
        demand.packets / demand.sample * demand.reported * each,
        _report_bytes(demand, version, own, links[-1].inserted),
    )


def _report_bytes(demand: IntDemand, version: int, own: int, inserted: int) -> float:
    """Bytes of a report on the wire, `own` of them the reporting switch's values. Report 2.0 pads the packet
    to a multiple of four.
    """
    packet = demand.copied + inserted
    outer = _OUTER + _GAP
    if version != 20:
        return outer + _REPORTS[version] + packet
    contents = layout.MAIN_2_0.size + own + -(-packet // 4) * 4
    if demand.group > 1 and contents >= 4 * _LAST_WORDS:
        raise FabricError(
            f"group: found {demand.group}, but a report of {contents} B is the last of its datagram"
        )
    return (outer + layout.GROUP_2_0.size) / demand.group + _REPORTS[version] + contents

"""Headers of IPFIX (RFC 7011 section 3) and NetFlow version 9 (RFC 3954 section 5), and the elements that are
read.
"""

from __future__ import annotations

from enum import IntEnum

from ..fields import header

IPFIX_MESSAGE = header(
    "IPFIX message", "RFC 7011 3.1",
    ("version", 16, "", "10"), ("length", 16, "bytes"), ("export_time", 32, "s"),
    ("sequence", 32, "", "data records before this message"), ("domain", 32),
)  # fmt: skip
NETFLOW_9_PACKET = header(
    "NetFlow 9 packet", "RFC 3954 5.1",
    ("version", 16, "", "9"), ("count", 16, "records"), ("uptime", 32, "ms"), ("export_time", 32, "s"),
    ("sequence", 32, "", "packets before this one"), ("domain", 32),
)  # fmt: skip
SET = header("IPFIX set", "RFC 7011 3.3.2", ("id", 16), ("length", 16, "bytes", "with this header"))
NETFLOW_9, IPFIX = 9, 10
"""Versions."""
TEMPLATES_9, OPTIONS_9, TEMPLATES, OPTIONS = 0, 1, 2, 3
"""Ids of sets with templates: of NetFlow 9, of IPFIX."""
FIRST_DATA = 256
"""Lowest id of a template, and so of a set with data."""
VARIABLE = 0xFFFF
"""Length of a field in a template whose length precedes each value (RFC 7011 7)."""


class Column(IntEnum):
    """Value that is read from a record."""

    NONE = 0
    """Skipped."""
    SOURCE_4 = 1
    DESTINATION_4 = 2
    SOURCE_HI = 3
    SOURCE_LO = 4
    DESTINATION_HI = 5
    DESTINATION_LO = 6
    PROTOCOL = 7
    SPORT = 8
    DPORT = 9
    INGRESS = 10
    EGRESS = 11
    PACKETS = 12
    STATUS = 13
    SAMPLER = 14
    RATE = 15
    DELAY_MEAN = 16
    DELAY_SUM = 17


COLUMNS: dict[int, Column] = {
    2: Column.PACKETS,  # packetDeltaCount
    4: Column.PROTOCOL,
    7: Column.SPORT,
    8: Column.SOURCE_4,
    10: Column.INGRESS,
    11: Column.DPORT,
    12: Column.DESTINATION_4,
    14: Column.EGRESS,
    27: Column.SOURCE_HI,
    28: Column.DESTINATION_HI,
    34: Column.RATE,  # samplingInterval
    48: Column.SAMPLER,  # samplerId
    86: Column.PACKETS,  # packetTotalCount, where there is no delta
    89: Column.STATUS,  # forwardingStatus
    180: Column.SPORT,
    181: Column.DPORT,
    182: Column.SPORT,
    183: Column.DPORT,
    302: Column.SAMPLER,  # selectorId
    530: Column.DELAY_MEAN,  # pathDelayMeanDeltaMicroseconds
    533: Column.DELAY_SUM,  # pathDelaySumDeltaMicroseconds
}
"""Columns by element of IANA's registry."""
ADDRESSES_6 = {
    Column.SOURCE_HI: Column.SOURCE_LO,
    Column.DESTINATION_HI: Column.DESTINATION_LO,
}
"""An IPv6 address is read in halves."""
SAMPLER_IDS = (302, 48)
"""Elements of an options record that name a sampler: selectorId, samplerId."""
INTERVALS = (34, 50)
"""Packets per sampled packet: samplingInterval, samplerRandomInterval."""
SPACING = (305, 306)
"""Numbers of consecutive packets that are sampled, and then skipped: samplingPacketInterval,
samplingPacketSpace (RFC 5477).
"""
SHARE = (309, 310)
"""Sampled packets, and the number of packets from which they are chosen: samplingSize, samplingPopulation
(RFC 5477).
"""

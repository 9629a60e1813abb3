"""Structures of sFlow version 5 (sflow_version_5.txt), of its transit delay and its drop extension."""

from ..fields import header

_V5 = "sFlow version 5"
VERSION = 5
ADDRESS_NONE, ADDRESS_IPV4, ADDRESS_IPV6 = 0, 1, 2

DATAGRAM = header("sFlow datagram", _V5, ("version", 32), ("address_type", 32, "", "1 IPv4, 2 IPv6"))
"""Followed by the agent's address, of 4 or 16 bytes, then AGENT."""
AGENT = header(
    "sFlow agent", _V5,
    ("sub_agent", 32), ("sequence", 32, "", "of the sub-agent's datagrams"),
    ("uptime", 32, "ms"), ("samples", 32),
)  # fmt: skip
SAMPLE = header(
    "sFlow sample", _V5, ("format", 32, "", "enterprise in 20 bits, format in 12"), ("length", 32, "bytes"),
)  # fmt: skip
"""Header of a sample, and of every record in it."""
FLOW_SAMPLE, COUNTER_SAMPLE, EXPANDED_FLOW_SAMPLE, EXPANDED_COUNTER_SAMPLE, DISCARDED_PACKET = 1, 2, 3, 4, 5
"""Formats of samples (enterprise 0)."""

FLOW = header(
    "sFlow flow sample", _V5,
    ("sequence", 32), ("source", 32, "", "type in 8 bits, index in 24"), ("rate", 32, "packets"),
    ("pool", 32, "packets", "that could have been sampled"), ("drops", 32, "", "samples that were lost"),
    ("input", 32, "", "format in 2 bits, ifIndex in 30"), ("output", 32), ("records", 32),
)  # fmt: skip
EXPANDED_FLOW = header(
    "sFlow expanded flow sample", _V5,
    ("sequence", 32), ("source_type", 32), ("source", 32), ("rate", 32, "packets"),
    ("pool", 32, "packets"), ("drops", 32),
    ("input_format", 32, "", "0 ifIndex, 1 reason of a drop, 2 several ports"), ("input", 32),
    ("output_format", 32), ("output", 32), ("records", 32),
)  # fmt: skip
COUNTERS = header("sFlow counter sample", _V5, ("sequence", 32), ("source", 32), ("records", 32))
EXPANDED_COUNTERS = header(
    "sFlow expanded counter sample", _V5,
    ("sequence", 32), ("source_type", 32), ("source", 32), ("records", 32),
)  # fmt: skip
DISCARD = header(
    "sFlow discarded packet", "sFlow dropped packet notification (sflow_drops.txt)",
    ("sequence", 32), ("source_type", 32), ("source", 32), ("drops", 32, "", "notifications that were lost"),
    ("input", 32), ("output", 32), ("reason", 32), ("records", 32),
)  # fmt: skip

RAW_PACKET, SAMPLED_IPV4, SAMPLED_IPV6 = 1, 3, 4
EGRESS_QUEUE, TRANSIT_DELAY, QUEUE_DEPTH = 1036, 1039, 1040
"""Formats of flow records; the last three hold one number: a queue, ns, bytes."""
INTERFACE = 1
"""Format of the generic interface counters."""

RAW = header(
    "sFlow sampled header", _V5,
    ("protocol", 32, "", "1 Ethernet, 11 IPv4, 12 IPv6"), ("frame_length", 32, "bytes"),
    ("stripped", 32, "bytes"), ("length", 32, "bytes", "of the header that follows"),
)  # fmt: skip
ETHERNET, IPV4, IPV6 = 1, 11, 12
"""Protocols of sampled headers."""
IPV4_DATA = header(
    "sFlow sampled IPv4", _V5,
    ("length", 32, "bytes"), ("protocol", 32), ("source", 32), ("destination", 32),
    ("sport", 32), ("dport", 32), ("tcp_flags", 32), ("tos", 32),
)  # fmt: skip
IPV6_DATA = header(
    "sFlow sampled IPv6", _V5,
    ("length", 32, "bytes"), ("protocol", 32), ("source", 128), ("destination", 128),
    ("sport", 32), ("dport", 32), ("tcp_flags", 32), ("priority", 32),
)  # fmt: skip
IF_COUNTERS = header(
    "sFlow interface counters", _V5,
    ("index", 32), ("type", 32), ("speed", 64, "bit/s"), ("direction", 32), ("status", 32),
    ("in_octets", 64), ("in_unicast", 32), ("in_multicast", 32), ("in_broadcast", 32), ("in_discards", 32),
    ("in_errors", 32), ("in_unknown", 32), ("out_octets", 64), ("out_unicast", 32), ("out_multicast", 32),
    ("out_broadcast", 32), ("out_discards", 32), ("out_errors", 32), ("promiscuous", 32),
)  # fmt: skip

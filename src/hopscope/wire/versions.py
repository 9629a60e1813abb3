"""Versions of Telemetry Reports and of INT: numbers in records, names, and tables that depend on them."""

REPORT_VERSIONS = {"0.5": 5, "1.0": 10, "2.0": 20}
"""`version` of a REPORT, by name."""
SFLOW, NETFLOW_9, IPFIX = 105, 109, 110
"""`version` of rows made from samples and flow records, which are not Telemetry Reports."""
SAMPLE_VERSIONS = {"sflow-5": SFLOW, "netflow-9": NETFLOW_9, "ipfix": IPFIX}
"""These versions by name."""
FIRST_SAMPLE = 100
"""Lowest of these versions: such a row stands for `packet_id` packets that one node saw."""
IOAM = 91
"""`int_version` of IOAM (RFC 9197 and 9326), a number that no version of INT has."""
IFA = 92
"""`int_version` of IFA 2.0 (draft-kumar-ippm-ifa)."""
INT_VERSIONS = {"2015": 1, "0.4": 4, "0.5": 5, "1.0": 10, "2": 20, "ioam": IOAM, "ifa": IFA}
"""`int_version` of a REPORT, by name."""
COUNTED = (1, 4, 5)
"""INT versions whose header counts the hops; they have no M flag."""
REPORT_INDEX = {0: 0, 5: 1, 10: 2, 20: 3}
"""Place of a report's version in a dialect's tables; 0: the packet is not in a report."""
NIBBLES = {1: 0, 4: 4, 5: 0, 10: 1, 20: 2}
"""The version nibble of each INT version, unless a dialect differs."""

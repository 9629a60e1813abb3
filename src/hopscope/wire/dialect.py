"""How to read what a listener receives: data, not code. The seam for implementations that differ from the
spec.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import numpy.typing as npt

ReportVersion = Literal["auto", "0.5", "1.0", "2.0"]
REPORT_PORTS = (32766, 54321, 8090, 8086, 5900, 1234, 556)
"""Destination ports on which reports were seen; IANA assigned none."""

# What Dialect.table() holds, in uint64: a row of the first byte's meaning, of DSCP values and of ports.
FIRST_BYTE = 0
"""256 entries: the report version (5, 10, 20; 0 unknown) by the first byte of the datagram's payload."""
INT_DSCP = FIRST_BYTE + 256
"""64 entries: 1 where this DSCP says that INT follows the inner TCP or UDP header."""
PORTS = INT_DSCP + 64
"""65536 entries: bit 0 reports arrive on this UDP port, bit 1 INT follows an inner UDP header with this
port.
"""
TABLE = PORTS + 65536


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way of reading reports."""

    name: str
    ports: tuple[int, ...] = REPORT_PORTS
    """UDP ports that reports are sent to (captures only: a listener has its own)."""
    report_version: ReportVersion = "auto"
    """Layout of the report header; auto decides by the first byte."""
    int_dscp: tuple[int, ...] = (0x17, 0x20, 0x01)
    """DSCP values of inner packets that carry INT."""
    int_ports: tuple[int, ...] = ()
    """UDP destination ports of inner packets that carry INT."""

    def table(self) -> npt.NDArray[np.uint8]:
        """What the decoders look up, uint8 [TABLE]; read-only."""
        return _table(self)


def version_of(first: int, rule: ReportVersion) -> int:
    """Report version (5, 10, 20; 0 unknown) that a payload's first byte stands for.

    Ver 1 is ambiguous: Report 1.0, or the layout of 0.5, whose text never states a number.  The second nibble
    decides: Length is 4 words or more in 1.0, NProto is 2 or less in 0.5.
    """
    version, second = first >> 4, first & 15
    if rule == "0.5":
        return 5 if version <= 1 else 0
    if rule == "1.0":
        return 10 if version == 1 else 0
    if rule == "2.0":
        return 20 if version == 2 else 0
    if version == 1:
        return 10 if second >= 4 else 5 if second <= 2 else 0
    return {0: 5, 2: 20}.get(version, 0)


@lru_cache(maxsize=64)
def _table(dialect: Dialect) -> npt.NDArray[np.uint8]:
    table = np.zeros(TABLE, np.uint8)
    table[FIRST_BYTE : FIRST_BYTE + 256] = [version_of(first, dialect.report_version) for first in range(256)]
    table[INT_DSCP + np.array(dialect.int_dscp, np.int64)] = 1
    table[PORTS + np.array(dialect.ports, np.int64)] |= np.uint8(1)
    table[PORTS + np.array(dialect.int_ports, np.int64)] |= np.uint8(2)
    table.flags.writeable = False
    return table


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect("spec"),
        Dialect("report-0.5", report_version="0.5"),
        Dialect("report-1.0", report_version="1.0"),
        Dialect("report-2.0", report_version="2.0"),
    )
}
"""The dialects by name."""
DEFAULT = DIALECTS["spec"]
"""What the specifications say."""

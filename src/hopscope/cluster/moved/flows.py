"""Flows in messages between members, and their lookup in this member's tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...detect.flows.flow_id_hash import FlowIdHash
from ...detect.records import STATE_VERSION, WAYS
from ...memory.region import Region, RegionError
from ...wire.records import Records

_TUPLE = [
    ("src_hi", "<u8"),
    ("src_lo", "<u8"),
    ("dst_hi", "<u8"),
    ("dst_lo", "<u8"),
    ("sport", "<u2"),
    ("dport", "<u2"),
    ("proto", "u1"),
    ("ip_version", "u1"),
    ("reserved", "<u2"),
]
FLOW_KEY = np.dtype(_TUPLE)
"""A 5-tuple, 40 bytes."""
FLOW_KEY_4 = np.dtype(
    [
        ("src", "<u4"),
        ("dst", "<u4"),
        ("sport", "<u2"),
        ("dport", "<u2"),
        ("proto", "u1"),
        ("reserved", "u1", (3,)),
    ]
)
"""A 5-tuple of IPv4, 16 bytes."""
FLOW_SEEN = np.dtype([*_TUPLE, ("age_ns", "<i8")])
"""A flow that a member has, and the time since its last report there."""
NAMES = tuple(name for name, _ in _TUPLE[:-1])
_MAPPED = np.uint64(0xFFFF << 32)
_LOW = np.uint64(0xFFFFFFFF)
Ints = npt.NDArray[np.int64]


def packed(flows: Records) -> tuple[Records, Records]:
    """(FLOW_KEY_4, FLOW_KEY) of records with the fields of a 5-tuple."""
    short = (flows["ip_version"] == 4) & (flows["src_hi"] | flows["dst_hi"] == 0)
    short &= (flows["src_lo"] & ~_LOW == _MAPPED) & (flows["dst_lo"] & ~_LOW == _MAPPED)
    four = np.zeros(np.count_nonzero(short), FLOW_KEY_4)
    four["src"], four["dst"] = flows["src_lo"][short] & _LOW, flows["dst_lo"][short] & _LOW
    for name in ("sport", "dport", "proto"):
        four[name] = flows[name][short]
    other = np.zeros(len(flows) - len(four), FLOW_KEY)
    for name in NAMES:
        other[name] = flows[name][~short]
    return four, other


def unpacked(four: Records, other: Records) -> Records:
    """The inverse: FLOW_KEY [flows]."""
    wide = np.zeros(len(four), FLOW_KEY)
    wide["src_lo"], wide["dst_lo"] = four["src"] | _MAPPED, four["dst"] | _MAPPED
    for name in ("sport", "dport", "proto"):
        wide[name] = four[name]
    wide["ip_version"] = 4
    return np.concatenate([wide, other])


class FlowTables:
    """The flow tables of a folder of regions, by 5-tuple."""

    def __init__(self, regions: Path, secret: bytes) -> None:
        self._regions = regions
        self.ids = FlowIdHash(secret)
        self._tables: dict[Path, Region] = {}

    def attach(self) -> None:
        """Map new and recreated tables."""
        for path in self._regions.glob("worker-*.flows"):
            known = self._tables.get(path)
            if known is None or not known.is_current():
                try:
                    self._tables[path] = Region.attach(path, "flows", STATE_VERSION)
                except RegionError:
                    continue  # not complete yet

    def ages(self, flows: Records, now_ns: int) -> Ints:
        """Time since the last report of each flow, ns, by this member's clock; -1: it is not in a table."""
        ids = self.ids.of_records(flows)
        found = np.full(len(flows), -1, np.int64)
        for table in self._tables.values():
            rows = (ids & np.uint64(len(table["rows"]) - 1)).astype(np.int64)
            at = rows[:, None] * WAYS + np.arange(WAYS)
            there = (table["flows"]["flow_id"][at] == ids[:, None]) & (table["rows"]["tag"][rows] != 0)
            which, way = np.nonzero(there)
            ages = np.maximum(now_ns - table["flows"]["last_ns"][at[which, way]], 0)
            before = found[which]
            found[which] = np.where(before < 0, ages, np.minimum(before, ages))
        return found

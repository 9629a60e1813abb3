"""Instruction bitmaps: fields written by switches, by INT version."""

from __future__ import annotations

from collections.abc import Iterable

from ..wire.records import Have, Records
from ..wire.versions import REPORT_VERSIONS
from .ports import FabricError

INSTRUCTIONS = {5: 0xFF00, 10: 0xFF00, 20: 0xFF80}
"""All fields defined by an INT version."""

_FIELDS: dict[int, tuple[tuple[Have, int], ...]] = {
    version: (
        (Have.NODE_ID, 1),
        (Have.PORTS, 1),
        (Have.HOP_LATENCY, 1),
        (Have.QUEUE_OCCUPANCY, 1),
        (Have.INGRESS_TIME, 2 if version == 20 else 1),
        (Have.EGRESS_TIME, 2 if version == 20 else 1),
        (Have.QUEUE_CONGESTION, 1) if version == 5 else (Have.L2_PORTS, 2),
        (Have.TX_UTILIZATION, 1),
        *(((Have.BUFFER_OCCUPANCY, 1),) if version == 20 else ()),
    )
    for version in REPORT_VERSIONS.values()
}
"""Fields of instruction bits 0, 1, … of each version, and their sizes in words."""

FIELDS = {version: tuple(have.name.lower() for have, _ in rows) for version, rows in _FIELDS.items()}
"""Names of the fields of each version, in the order of their instruction bits."""

_PARTS = {
    Have.NODE_ID: ("node_id",),
    Have.PORTS: ("ingress_port", "egress_port"),
    Have.HOP_LATENCY: ("hop_latency",),
    Have.QUEUE_OCCUPANCY: ("queue_id", "queue_occupancy"),
    Have.INGRESS_TIME: ("ingress_time",),
    Have.EGRESS_TIME: ("egress_time",),
    Have.L2_PORTS: ("l2_ingress_port", "l2_egress_port"),
    Have.TX_UTILIZATION: ("tx_utilization",),
    Have.BUFFER_OCCUPANCY: ("buffer_id", "buffer_occupancy"),
    Have.QUEUE_CONGESTION: ("congestion_queue_id", "queue_congestion"),
}


def fields_of(version: int, instructions: int) -> tuple[int, int]:
    """(`present` bits, hop size in words) of an instruction bitmap. Raises FabricError for unknown bits."""
    present = words = 0
    for bit, (have, size) in enumerate(_FIELDS[version]):
        if instructions >> (15 - bit) & 1:
            present |= have
            words += size
    if not instructions or instructions & ~INSTRUCTIONS[version] & 0xFFFF:
        raise FabricError(
            f"instructions 0x{instructions:04x}: known are 0x{INSTRUCTIONS[version]:04x} in this version"
        )
    return present, words


def instructions_of(version: int, names: Iterable[str]) -> int:
    """The instruction bitmap for fields named as in `FIELDS`. Raises FabricError for an unknown name."""
    known = FIELDS[version]
    instructions = 0
    for name in names:
        if name not in known:
            raise FabricError(f"field {name!r}: expected {', '.join(known)}")
        instructions |= 0x8000 >> known.index(name)
    return instructions


def most_hops(version: int, words: int) -> int:
    """Hops of this many words whose metadata INT can carry: the length in the shim is at most 255 words,
    which include the INT header (2.x), also the shim (1.0), also the tail (0.5).
    """
    return (255 - (4 if version == 5 else 3)) // words


def clear_absent(hops: Records, present: int) -> None:
    """Set the fields of HOP rows that are not in `present` to 0."""
    for have, names in _PARTS.items():
        if not present & have:
            for name in names:
                hops[name] = 0

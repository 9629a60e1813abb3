"""Telemetry Reports 0.5, 1.0 and 2.0: the meaning of their headers' fields."""

from __future__ import annotations

from .. import layout, rules
from ..dialect import DEFAULT, Dialect
from ..records import Flag, Kind
from .report_metadata import ReportMetadata, push_report_metadata

INNER_NONE, INNER_ETHERNET = 0, 3
"""InType of Report 2.0; the older versions' next protocols are translated to it."""
FLAGS = {
    "dropped": Flag.DROPPED, "congested": Flag.CONGESTED, "tracked": Flag.TRACKED,
    "intermediate": Flag.INTERMEDIATE,
}  # fmt: skip
"""Flags by field; only 2.0 has the last one."""


def flag_fields(flags: int) -> dict[str, int]:
    """Flags as fields of a report's header."""
    return {name: int(bool(flags & flag)) for name, flag in FLAGS.items()}


def kind_of(flags: int) -> Kind:
    """Kind of a Report 1.0 or 2.0: a drop, else a congested queue, else INT."""
    if flags & Flag.DROPPED:
        return Kind.DROP
    return Kind.QUEUE if flags & Flag.CONGESTED and not flags & Flag.TRACKED else Kind.INT


def main_form(report_type: int, dialect: Dialect = DEFAULT) -> tuple[int, int]:
    """(form of a Report 2.0's main contents: 0 none, 1 INT, 2 not defined, 3 skipped, 255 unknown; bytes that
    are skipped).
    """
    at = rules.MAIN_2_0 + 2 * report_type
    form, size = dialect.table()[at : at + 2].tolist()
    return form, size


def push_main(out: bytearray, own: ReportMetadata, **main: int) -> None:
    """Append INT main contents with these fields, and the metadata that their bitmap names."""
    out += layout.MAIN_2_0.pack(main)
    push_report_metadata(out, layout.OWN_2_0, main["metadata_bits"], own)

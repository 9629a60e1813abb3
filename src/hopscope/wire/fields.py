"""Declaration of headers: the fields in wire order, once, for codecs, kernels, documentation and the
dissector.

A header that only kernels read is a table of rows (`header`). A header that Python code makes or reads as an
object is a dataclass whose fields state their width (`bits`, `declare`). Both become a `Header`. Bit 0 is the
most significant bit of the first byte, all numbers are big-endian, and a word is 4 bytes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RESERVED = "reserved"
_NUMBERED = re.compile(r"(\d+) ([^,;]+)")


@dataclass(frozen=True, slots=True)
class Field:
    """One field: `at` is its bit offset in the header, `bits` its width."""

    name: str
    at: int
    bits: int
    unit: str
    doc: str

    def meanings(self) -> dict[int, str]:
        """Names of values, if its text lists them, as in `1 MD, 2 destination`."""
        parts = [_NUMBERED.fullmatch(part) for part in self.doc.split(", ")]
        if len(parts) < 2 or not all(parts):
            return {}
        return {int(part[1]): part[2] for part in parts if part is not None}


@dataclass(frozen=True, slots=True)
class Header:
    """A fixed header: its fields in wire order, and the section of the document that defines it."""

    name: str
    spec: str
    fields: tuple[Field, ...]
    size: int
    """Bytes."""
    shifts: tuple[tuple[str, int, int], ...]
    """(name, right shift of the whole header as one number, mask) of every field that is not reserved."""

    def field(self, name: str) -> Field:
        """The field of this name. Raises KeyError."""
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(f"{self.name} has no field {name}")

    def word(self, name: str) -> tuple[int, int, int]:
        """(byte offset of the 32-bit word that holds the field, right shift, mask), for kernels."""
        field = self.field(name)
        byte = field.at // 32 * 4
        return byte, 32 - (field.at - byte * 8) - field.bits, (1 << field.bits) - 1

    def unpack(self, raw: bytes, at: int = 0) -> dict[str, int]:
        """The fields of the header at `at`; `raw` must contain all of its bytes."""
        number = int.from_bytes(raw[at : at + self.size], "big")
        return {name: number >> shift & mask for name, shift, mask in self.shifts}

    def pack(self, values: Mapping[str, int]) -> bytes:
        """The header with these fields; other fields are 0. Raises ValueError if a value is too wide."""
        number = 0
        for name, shift, mask in self.shifts:
            value = values.get(name, 0)
            if not 0 <= value <= mask:
                raise ValueError(f"{self.name}: {name} {value} is not in 0..{mask}")
            number |= value << shift
        return number.to_bytes(self.size, "big")

    def pack_object(self, source: object, **values: int) -> bytes:
        """The header with the attributes of `source`; `values` take precedence. Raises ValueError like
        `pack`.
        """
        return self.pack({name: getattr(source, name) for name, _, _ in self.shifts} | values)


Row = tuple[str, int] | tuple[str, int, str] | tuple[str, int, str, str]


def header(name: str, spec: str, *rows: Row) -> Header:
    """A header from its rows: (name, bits[, unit[, doc]]); `reserved` may occur more than once."""
    fields: list[Field] = []
    at = 0
    for row in rows:
        unit = row[2] if len(row) > 2 else ""
        doc = row[3] if len(row) > 3 else ""
        fields.append(Field(row[0], at, row[1], unit, doc))
        at += row[1]
    if at % 8:
        raise ValueError(f"{name} is {at} bits long")
    shifts = tuple((f.name, at - f.at - f.bits, (1 << f.bits) - 1) for f in fields if f.name != RESERVED)
    return Header(name, spec, tuple(fields), at // 8, shifts)


def bits(
    width: int, unit: str = "", doc: str = "", *, default: int = 0, skip: int = 0, compare: bool = True
) -> Any:
    """A dataclass field of `width` bits, after `skip` reserved bits."""
    metadata = {"row": (width, unit, doc), "skip": skip}
    return dataclasses.field(default=default, compare=compare, metadata=metadata)


def declare(cls: type[Any], name: str, spec: str, *, skip: int = 0) -> Header:
    """The header of a dataclass: its fields made by `bits`, in order, then `skip` reserved bits."""
    rows: list[Row] = []
    for field in dataclasses.fields(cls):
        if "row" in field.metadata:
            if field.metadata["skip"]:
                rows.append((RESERVED, field.metadata["skip"]))
            rows.append((field.name, *field.metadata["row"]))
    if skip:
        rows.append((RESERVED, skip))
    return header(name, spec, *rows)

"""IPFIX messages of a simulated exporter."""

from __future__ import annotations

from collections.abc import Sequence

from . import layout


def encode_message(domain: int, sequence: int, time_s: int, sets: Sequence[bytes]) -> bytes:
    """A message; `sequence` is the number of data records before it."""
    body = b"".join(sets)
    values = {
        "version": layout.IPFIX, "length": layout.IPFIX_MESSAGE.size + len(body), "export_time": time_s,
        "sequence": sequence & 0xFFFF_FFFF, "domain": domain,
    }  # fmt: skip
    return layout.IPFIX_MESSAGE.pack(values) + body


def encode_template(template_id: int, fields: Sequence[tuple[int, int]]) -> bytes:
    """A set with one template, of (element, bytes)."""
    numbers = [template_id, len(fields), *(number for field in fields for number in field)]
    return encode_set(layout.TEMPLATES, b"".join(number.to_bytes(2, "big") for number in numbers))


def encode_records(
    template_id: int, fields: Sequence[tuple[int, int]], records: Sequence[Sequence[int]]
) -> bytes:
    """A set of data records: the values of the template's fields, in their order."""
    rows = (
        value.to_bytes(size, "big")
        for record in records
        for value, (_, size) in zip(record, fields, strict=True)
    )
    return encode_set(template_id, b"".join(rows))


def encode_set(set_id: int, body: bytes) -> bytes:
    """A set with its header."""
    return layout.SET.pack({"id": set_id, "length": layout.SET.size + len(body)}) + body

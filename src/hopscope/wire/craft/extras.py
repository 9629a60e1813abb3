"""Domain-specific metadata in an object's `extras` as bytes: the inverse of `decode.extras`."""

from __future__ import annotations

from .. import layout
from ..decode.extras import RAW, RAW_SOURCE, UNNAMED, Fields, domain_of
from ..dialect import Dialect
from ..records import Hop
from ..telemetry.hop_stack import push_metadata
from ..telemetry.int_header import Md, form_of
from .keys import Keys

_SOME = 0x8000


def domain_bytes(keys: Keys, md: Md, dialect: Dialect) -> tuple[bytes, bytes]:
    """(bytes that each hop adds, bytes that only the source adds) for the `extras` of a hop or packet."""
    part = keys.part("extras")
    fields, source_only = domain_of(dialect, md.domain_id)
    found = _named(part, RAW, fields, md.ds_instruction), _named(part, RAW_SOURCE, source_only, md.ds_flags)
    part.close(f"domain-specific metadata of domain {md.domain_id}")
    return found


def domain_fields(parts: list[Keys], dialect: Dialect) -> tuple[int, int, int, int]:
    """(domain id, DS Instruction, DS Flags, words of each hop) that these extras imply, by the first domain
    of the dialect that has all their names; bytes without a name imply only a bit.
    """
    names = {name for part in parts for name in part.names()}
    raw = max((len(part.hexadecimal(RAW)) for part in parts), default=0)
    some = _SOME if raw else 0, _SOME if RAW_SOURCE in names else 0
    names -= {RAW, RAW_SOURCE}
    for domain in dialect.domains:
        both = (domain.fields, domain.source_only)
        if names and names <= {name for fields in both for _, name, _ in fields}:
            bits, flags = (
                sum({0x8000 >> bit for bit, name, _ in fields if name in names}) or usual
                for fields, usual in zip(both, some, strict=True)
            )
            size = sum(size for bit, _, size in domain.fields if bits >> (15 - bit) & 1)
            return domain.domain_id, bits, flags, -(-max(raw, size) // 4)
    return 0, *some, -(-raw // 4)


def report_bytes(keys: Keys, dialect: Dialect) -> tuple[int, int, bytes]:
    """(domain id, DSMdBits, metadata) for the `extras` of a Report 2.0; raw extras have no domain."""
    part = keys.part("extras")
    domain_id, bits, added = 0, 0, part.hexadecimal(RAW)
    names = set(part.names()) - {RAW}
    for domain in dialect.domains:
        known = [(bit, name) for bit, name, _ in domain.fields]
        if names and names <= {name for _, name in known}:
            domain_id = domain.domain_id
            bits = sum({0x8000 >> bit for bit, name in known if name in names})
            added = _named(part, RAW, domain.fields, bits)
            break
    part.close("domain-specific metadata of a report")
    return domain_id, bits, added + bytes(-len(added) % 4)


def _named(keys: Keys, raw: str, known: Fields, bits: int) -> bytes:
    if keys.has(raw):
        return keys.hexadecimal(raw)
    fields = [(name, size) for bit, name, size in known if bits >> (15 - bit) & 1]
    if not any(keys.has(name) for name, _ in fields):
        return b""
    out = b""
    for name, size in fields:
        if name in UNNAMED:
            out += bytes(size)
        elif size > 8:
            text = keys.hexadecimal(name)
            if len(text) != size:
                raise keys.wrong(name, f"{2 * size} hexadecimal digits")
            out += text
        else:
            most = (1 << 8 * size) - 1
            value = keys.value(name, most)
            out += (most if value is None else value).to_bytes(size, "big")
    return out


def push_records(out: bytearray, md: Md, path: list[Hop], keys: list[Keys], dialect: Dialect) -> None:
    """Append the stack of INT 2.x: hops in path order, each with the extras of its object.

    Room without extras is filled with 0; so is metadata that only the source adds, if the dialect states its
    size.
    """
    items, bitmap = form_of(md, dialect)
    known = layout.metadata_size(items, bitmap)
    last = sum(
        item.size for bit, item in enumerate(items)
        if bitmap >> (15 - bit) & 1 and item.have == layout.CHECKSUM.have
    )  # fmt: skip
    for at in reversed(range(len(path))):
        inside, source = domain_bytes(keys[at], md, dialect)
        room = 4 * md.hop_words - known
        if len(inside) > room:
            raise keys[at].wrong("extras", f"{room} bytes of domain-specific metadata")
        if at == 0 and md.ds_flags and not source:
            source = bytes(4 * dialect.source_words)
        if at > 0 and source:
            raise keys[at].wrong("extras", "metadata of the source alone in the first hop only")
        added = inside.ljust(room, b"\0") + source + bytes(-len(source) % 4)
        start = len(out) + known - last
        push_metadata(out, items, bitmap, path[at], known + len(added))
        out[start : start + len(added)] = added

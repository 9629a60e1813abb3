"""A Wireshark dissector in Lua, from the same declarations as the decoders: headers and items of `layout`,
rules of each dialect's table, reasons of `reasons`. The code that reads them is in `dissector.lua`, which
names fields and rules, but has no offsets of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files

from .. import layout, rules
from ..catalog import HEADERS, MODULES
from ..decode.extras import UNNAMED
from ..dialect import DEFAULT, DIALECTS, Dialect, Domain
from ..fields import RESERVED, Field, Header
from ..layout import Item
from ..reasons import Reason
from ..records import MAX_HOPS

SHOWN = {
    "REPORT_0_5": "report", "REPORT_1_0": "report", "GROUP_2_0": "report", "REPORT_2_0": "report",
    "MAIN_2_0": "report", "TLV_2_0": "report.tlv",
    "SHIM_OLD": "int.shim", "SHIM_2_0": "int.shim", "SHIM_GRE_2_0": "int.shim", "SHIM_GPE_2_0": "int.shim",
    "SHIM_GPE_OLD": "int.shim", "GENEVE_OPTION": "int.shim", "TAIL_0_5": "int.tail",
    "MD_0_4": "int", "MD_0_5": "int", "MD_1_0": "int",
    "IFA": "int", "IFA_METADATA": "int", "IFA_HOP": "int.hop",
    "DTA_2": "dta", "DTA_3": "dta", "DTA_KEY_WRITE": "dta", "DTA_APPEND": "dta", "DTA_KEY_INCREMENT": "dta",
    "DTA_POSTCARD": "dta", "DTA_ACK": "dta", "DTA_SIZED": "dta", "DTA_SIZED_ACK": "dta",
    "LABEL_OPTION": "label", "LABEL_STATE": "label.item", "LABEL_ITEM": "label.item",
    "LABEL_ROUTE": "label.route", "LABEL_ROUTE_ENTRY": "label.route",
}  # fmt: skip
"""Headers whose fields are shown, and the prefix of their filters after `hopscope.`; others are just read."""
_MD_FLAGS = ("discard", "hops_exceeded", "mtu_exceeded")
_DS_FIELDS = ("domain_id", "ds_instruction", "ds_flags")
_ORIGINAL = (("original_dscp", 6), ("original_port", 16), ("original_protocol", 8))


def dissector(dialects: Mapping[str, Dialect] = DIALECTS) -> str:
    """The Lua text that Wireshark loads; its preference offers `dialects`, the first by default."""
    return (
        files(__package__)
        .joinpath("dissector.lua")
        .read_text("utf-8")
        .replace("--@TABLES@\n", tables(dialects))
    )


def tables(dialects: Mapping[str, Dialect]) -> str:
    """The generated part: constants, headers, items, and the rules of each dialect."""
    items = _Items()
    chosen = [_dialect(dialect, items) for dialect in dialects.values()]
    wide = dict.fromkeys(_wide(items), True)
    reasons = [reason.label for reason in Reason if reason]
    parts = (
        ("Numbers of the layout modules", "L", _block(_constants())),
        ("Offset of each rule in a dialect's table, wire/rules.py", "R", _block(_offsets())),
        ("Headers: bit offset and width of every field", "H", _block(_headers())),
        ("Which of them are shown, and under which names", "SHOWN", _table(SHOWN)),
        ("Fields that have more than 32 bits somewhere", "WIDE", _table(wide)),
        ("Items: what one bit of an instruction bitmap stands for", "ITEMS", _block(items.lua())),
        ("The rules of the specifications", "SPEC", _rules(DEFAULT, None)),
        ("Dialects: what differs from them", "DIALECTS", _block(chosen)),
        ("Reject reasons, wire/reasons.py", "REASONS", _table(reasons)),
        ("Hops of one report that are read", "MAX_HOPS", str(MAX_HOPS)),
    )
    return "\n".join(f"-- {title}.\nlocal {name} = {text}\n" for title, name, text in parts)


def _block(rows: Iterable[str]) -> str:
    return "{\n" + "".join(rows) + "}"


class _Items:
    """Items by number; each item occurs once, even if several tables have it."""

    def __init__(self) -> None:
        self.numbers: dict[Item, int] = {}

    def number(self, item: Item) -> int:
        """Number of an item, from 1."""
        return self.numbers.setdefault(item, len(self.numbers) + 1)

    def lua(self) -> Iterator[str]:
        for item in self.numbers:
            last = ", last = true" if item.have == layout.CHECKSUM.have else ""
            rows = ", ".join(_row(field) for field in item.fields.fields if field.name != RESERVED)
            yield f"  {{ size = {item.size}, have = {item.have}{last}, {rows} }},\n"


def _constants() -> Iterator[str]:
    for module in MODULES:
        for name, value in vars(module).items():
            if name.isupper() and (isinstance(value, int) or (isinstance(value, tuple) and _plain(value))):
                yield f"  {name} = {_value(value)},\n"


def _plain(values: Iterable[object]) -> bool:
    return all(isinstance(value, int) for value in values)


def _offsets() -> Iterator[str]:
    for name, value in vars(rules).items():
        if name.isupper() and isinstance(value, int):
            yield f"  {name} = {value},\n"


def _headers() -> Iterator[str]:
    for name, value in HEADERS.items():
        yield f"  {name} = {_header(value)},\n"


def _header(header: Header) -> str:
    rows = "".join(f"    {_row(field)},\n" for field in header.fields if field.name != RESERVED)
    return f"{{ title = {_quoted(header.name)}, size = {header.size}, -- {header.spec}\n{rows}  }}"


def _row(field: Field) -> str:
    values = field.meanings()
    named = f", values = {_table(values)}" if values else ""
    texts = f"unit = {_quoted(field.unit)}, doc = {_quoted(field.doc)}"
    return f"{{ name = {_quoted(field.name)}, at = {field.at}, bits = {field.bits}, {texts}{named} }}"


def _wide(items: _Items) -> Iterator[str]:
    for name, prefix in SHOWN.items():
        yield from (f"{prefix}.{field.name}" for field in HEADERS[name].fields if field.bits > 32)
    for item in items.numbers:
        for field in item.fields.fields:
            if field.bits > 32:
                yield from (f"{prefix}.{field.name}" for prefix in ("int.hop", "report.metadata"))


def _dialect(dialect: Dialect, items: _Items) -> str:
    kinds = [
        _table([[items.number(item) for item in alternative] for alternative in dialect.alternatives(kind)])
        for kind in range(layout.KINDS)
    ]
    item_rows = "".join(f"      [{kind}] = {text},\n" for kind, text in enumerate(kinds))
    return (
        f"  {{ name = {_quoted(dialect.name)}, about = {_quoted(dialect.about)},\n"
        f"    rules = {_rules(dialect, DEFAULT)},\n"
        f"    md = {_header(_moved(layout.MD_2_0, dialect))},\n"
        f"    mx = {_header(_moved(layout.MX_2_1, dialect))},\n"
        f"    original = {{ {', '.join(_row(field) for field in _original(dialect))} }},\n"
        f"    domains = {{ {', '.join(map(_domain, dialect.domains))} }},\n"
        f"    items = {{\n{item_rows}    }},\n  }},\n"
    )


def _domain(domain: Domain) -> str:
    parts = (
        ", ".join(
            f"{{ bit = {bit}, name = {_quoted(name)}, size = {size}, shown = {_value(name not in UNNAMED)} }}"
            for bit, name, size in fields
        )
        for fields in (domain.fields, domain.source_only)
    )
    return "{{ id = {}, fields = {{ {} }}, source_only = {{ {} }} }}".format(domain.domain_id, *parts)


def _moved(header: Header, dialect: Dialect) -> Header:
    """The header of INT-MD 2.x or INT-MX in this dialect."""
    places = {name: 31 - shift for name, shift in zip(_MD_FLAGS, dialect.md_shifts, strict=True)}
    places |= {name: 8 * at for name, at in zip(_DS_FIELDS, dialect.ds_offsets, strict=True)}
    fields = tuple(replace(field, at=places.get(field.name, field.at)) for field in header.fields)
    return replace(header, fields=fields)


def _original(dialect: Dialect) -> Iterator[Field]:
    """Fields of the packet that a 2.x shim keeps, by its next-protocol type."""
    start = layout.SHIM_2_0.field("original")
    for (name, bits), shift in zip(_ORIGINAL, dialect.npt_shifts, strict=True):
        yield Field(name, start.at + start.bits - shift - bits, bits, "", "")


def _rules(dialect: Dialect, than: Dialect | None) -> str:
    """Bytes of a dialect's table that are not 0, or that differ from another's; without the items."""
    table = dialect.table()[: rules.ITEMS]
    other = table * 0 if than is None else than.table()[: rules.ITEMS]
    changed = [f"[{at}] = {table[at]}" for at in (table != other).nonzero()[0].tolist()]
    lines = (", ".join(changed[start : start + 10]) for start in range(0, len(changed), 10))
    return "{" + "".join(f"\n      {line}," for line in lines) + " }"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list | tuple):
        return _table(value)
    raise TypeError(f"no Lua for {value!r}")


def _table(values: Mapping[str, object] | Mapping[int, object] | Iterable[object]) -> str:
    if isinstance(values, Mapping):
        return "{ " + ", ".join(f"[{_value(key)}] = {_value(value)}" for key, value in values.items()) + " }"
    return "{ " + ", ".join(map(_value, values)) + " }"


def _quoted(text: str) -> str:
    escaped = re.sub(r'[\\"\x00-\x1f\x7f]', lambda found: f"\\{ord(found[0]):03d}", text)
    return f'"{escaped}"'

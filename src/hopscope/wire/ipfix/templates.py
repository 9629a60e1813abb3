"""Templates of IPFIX and NetFlow 9 in messages, and records of options, which state how exporters sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from . import layout

_PRIVATE = 0x8000


class TemplateError(Exception):
    """A damaged set of templates or options."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a template: an element of IANA's registry, or of an enterprise (`pen` is not 0)."""

    element: int
    length: int
    """Length, bytes; layout.VARIABLE: each value states its own."""
    pen: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    """The structure of the records of a set."""

    id: int
    fields: tuple[Field, ...]
    """Its fields; empty: the template is withdrawn (IPFIX)."""
    options: bool = False

    @property
    def size(self) -> int:
        """Size of a record, bytes; the smallest size if fields have variable length."""
        return sum(1 if field.length == layout.VARIABLE else field.length for field in self.fields)

    @property
    def variable(self) -> bool:
        """Whether any field has variable length."""
        return any(field.length == layout.VARIABLE for field in self.fields)


def pull_templates(body: bytes, set_id: int) -> Iterator[Template]:
    """The templates of a set. Raises TemplateError."""
    at = 0
    options = set_id in (layout.OPTIONS_9, layout.OPTIONS)
    while at + 4 <= len(body):
        template_id, count = _words(body, at, 2)
        if template_id == 0 and count == 0:
            return  # padding
        at += 4
        if set_id == layout.OPTIONS_9:
            scope_bytes, option_bytes = count, _words(body, at, 1)[0]
            at += 2
            count = (scope_bytes + option_bytes) // 4
            scopes = scope_bytes // 4
        elif options and count:
            scopes = _words(body, at, 1)[0]
            at += 2
            if not 1 <= scopes <= count:
                raise TemplateError
        else:
            scopes = 0
        fields: list[Field] = []
        for number in range(count):
            element, length = _words(body, at, 2)
            at += 4
            pen = 0
            if element & _PRIVATE and set_id in (layout.TEMPLATES, layout.OPTIONS):
                pen = int.from_bytes(body[at : at + 4], "big")
                at += 4
                if at > len(body):
                    raise TemplateError
            if set_id == layout.OPTIONS_9 and number < scopes:
                pen = -1  # a scope of NetFlow 9 has numbers of its own
            fields.append(Field(element & ~_PRIVATE if pen else element, length, pen))
        withdrawn = not count and set_id in (layout.TEMPLATES, layout.OPTIONS)
        template = Template(template_id, tuple(fields), options)
        if not withdrawn and (template_id < layout.FIRST_DATA or template.size == 0):
            raise TemplateError
        yield template


def pull_records(body: bytes, template: Template) -> Iterator[dict[int, int]]:
    """Values of IANA's elements, by element, of each record. Raises TemplateError."""
    at = 0
    while at + template.size <= len(body):
        record: dict[int, int] = {}
        for field in template.fields:
            length = field.length
            if length == layout.VARIABLE:
                length = int.from_bytes(body[at : at + 1], "big")
                at += 1
                if length == 255:
                    length = _words(body, at, 1)[0]
                    at += 2
            if at + length > len(body):
                raise TemplateError
            if not field.pen:
                record[field.element] = int.from_bytes(body[at : at + length], "big")
            at += length
        yield record


def sampling(record: Mapping[int, int]) -> tuple[int, int] | None:
    """(sampler, packets per sampled packet) of an options record; None: it does not state them."""
    rate = 0
    for element in layout.INTERVALS:
        rate = rate or record.get(element, 0)
    taken, left_out = (record.get(element, 0) for element in layout.SPACING)
    if taken:
        rate = (taken + left_out) // taken
    size, population = (record.get(element, 0) for element in layout.SHARE)
    if size and population:
        rate = population // size
    if not rate:
        return None
    sampler = next((record[element] for element in layout.SAMPLER_IDS if element in record), 0)
    return sampler & 0xFFFF_FFFF, min(rate, 0xFFFF_FFFF)


def _words(body: bytes, at: int, count: int) -> tuple[int, ...]:
    """Numbers of 16 bits. Raises TemplateError."""
    if at + 2 * count > len(body):
        raise TemplateError
    return tuple(int.from_bytes(body[at + 2 * i : at + 2 * i + 2], "big") for i in range(count))

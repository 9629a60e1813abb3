"""Textual descriptions of stores: `paths=key-write,bytes=64MiB,data_bytes=20`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ..hashing import Hashing
from ..primitive import named
from .store import Layout, StoreError

DEFAULT_BYTES = 32 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_SIZE = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*([KMGT]?)(i?B)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """Name and layout of a store to create."""

    name: str
    layout: Layout

    @classmethod
    def of(cls, name: str, primitive: str, options: Mapping[str, Any]) -> StoreSpec:
        """A spec from options: the layout's fields, and `bytes`.

        Raises StoreError. Without `bytes` and a number of slots it has 32 MiB.
        """
        if not _NAME.fullmatch(name) or name.startswith("."):
            raise StoreError(
                f"store {name!r}: expected a name of at most 32 letters, digits, dots, dashes and underlines"
            )
        layout = named(primitive).layout
        fields = {field.name for field in dataclasses.fields(layout)}
        given = dict(options)
        size = given.pop("bytes", None)
        if wrong := sorted(given.keys() - fields):
            known = ", ".join(sorted(fields))
            raise StoreError(
                f"store {name}: unknown option {', '.join(wrong)}; {primitive} has bytes, {known}"
            )
        try:
            values = {key: _value(layout, key, value) for key, value in given.items()}
            if layout.counted in values and size is None:
                return cls(name, layout(**values))
            return cls(name, layout.sized(DEFAULT_BYTES if size is None else parse_size(size), **values))
        except (ValueError, TypeError, StoreError) as error:
            raise StoreError(f"store {name}: {error}") from error


def parse_store(text: str) -> StoreSpec:
    """A store from `NAME=PRIMITIVE,option=value,…`; the name may be omitted. Raises StoreError."""
    return StoreSpec.of(*split_store(text))


def split_store(text: str) -> tuple[str, str, dict[str, Any]]:
    """Split such a text into name, primitive and options. Raises StoreError."""
    head, *rest = (part.strip() for part in text.split(","))
    name, equals, primitive = head.partition("=")
    options: dict[str, Any] = {}
    for part in rest:
        key, assigned, value = part.partition("=")
        if not assigned or key in options:
            raise StoreError(f"store {text!r}: found {part!r}, expected option=value, each once")
        options[key.strip()] = value.strip()
    return name, primitive if equals else name, options


def options_of(layout: Layout) -> dict[str, int | str | bool]:
    """Fields that differ from their defaults, as in the settings; always includes the one that is counted."""
    options: dict[str, int | str | bool] = {}
    for field in dataclasses.fields(layout):
        value = getattr(layout, field.name)
        if value != field.default or field.name == layout.counted:
            options[field.name] = value.name.lower() if isinstance(value, IntEnum) else value
    return options


def described(layout: Layout) -> str:
    """A layout as `parse_store` takes it, without a name."""
    given = (f"{key}={str(value).lower()}" for key, value in options_of(layout).items())
    return ",".join((layout.name, *given))


def parse_size(value: int | str) -> int:
    """Bytes of `64MiB`, `64M` (both 2^26), `1e6` or a number. Raises StoreError."""
    if isinstance(value, int):
        return value
    found = _SIZE.fullmatch(value.strip())
    if not found:
        raise StoreError(f"found {value!r}, expected bytes, such as 33554432, 32MiB or 4G")
    return int(float(found[1]) * 1024 ** "_KMGT".index(found[2].upper() or "_"))


def _value(layout: type[Layout], key: str, value: Any) -> Any:
    """Convert an option's value to the type of its field."""
    if not isinstance(value, str):
        return value
    default = next(field.default for field in dataclasses.fields(layout) if field.name == key)
    kind: type[IntEnum] | None = Hashing if key == "hashing" else None
    if isinstance(default, IntEnum):
        kind = type(default)
    if kind is not None:
        try:
            return kind[value.upper().replace("-", "_")]
        except KeyError:
            raise StoreError(
                f"{key} is {value!r}, expected {' or '.join(member.name.lower() for member in kind)}"
            ) from None
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise StoreError(f"{key} is {value!r}, expected true or false")
        return value.lower() == "true"
    return parse_size(value)

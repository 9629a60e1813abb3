"""The keys of an object that is crafted: each is read by name and checked; an unread key is an error."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..address import number_of


class CraftError(ValueError):
    """An error in a key of an object; the message names object, key and problem."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(key, problem)
        self.key, self.problem = key, problem
        self.number = 0
        """Number of the object, counted from 1."""

    def __str__(self) -> str:
        return f"object {self.number}: {self.key}: {self.problem}"


class Keys:
    """An object, or a part of one, while it is read; `where` is the path of keys to it, `ordinal` the number
    of the object, counted from 1.
    """

    __slots__ = ("_asked", "_object", "ordinal", "where")

    def __init__(self, value: object, where: str = "", ordinal: int = 0) -> None:
        if not isinstance(value, Mapping):
            raise CraftError(where or "it", f"found {_shown(value)}, expected an object")
        self._object: Mapping[str, Any] = value
        self._asked: dict[str, None] = {}
        self.where = where
        self.ordinal = ordinal

    def has(self, name: str) -> bool:
        """Whether the object has this key."""
        self._asked[name] = None
        return name in self._object

    def raw(self, name: str) -> Any:
        """The unchecked value; None if there is none."""
        self._asked[name] = None
        return self._object.get(name)

    def names(self) -> Iterable[str]:
        """The keys of the object."""
        return self._object.keys()

    def wrong(self, name: str, expected: str) -> CraftError:
        """The error for this key's value."""
        return CraftError(self.path(name), f"found {_shown(self._object.get(name))}, expected {expected}")

    def path(self, name: str) -> str:
        """The full path of a key."""
        return f"{self.where}.{name}" if self.where else name

    def number(self, name: str, most: int, default: int, least: int = 0) -> int:
        """A number from `least` to `most`, which may be written as text "0x…"."""
        if not self.has(name):
            return default
        value = self._object[name]
        if isinstance(value, str) and value[:2].lower() == "0x":
            try:
                value = int(value, 16)
            except ValueError:
                raise self.wrong(name, f"{least} to {most}") from None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise self.wrong(name, f"{least} to {most}")
        return value

    def value(self, name: str, most: int, default: int | None = None) -> int | None:
        """A number, or None for an unavailable value."""
        if self.has(name) and self._object[name] is None:
            return None
        if name not in self._object:
            return default
        try:
            return self.number(name, most, 0)
        except CraftError:
            raise self.wrong(name, f"0 to {most}, or null") from None

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        if not self.has(name):
            return default
        value = self._object[name]
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def word(self, name: str, choices: Iterable[str], default: str) -> str:
        """One of `choices`."""
        if not self.has(name):
            return default
        value = self._object[name]
        known = tuple(choices)
        if value not in known:
            raise self.wrong(name, ", ".join(known))
        return str(value)

    def words(self, name: str, choices: Iterable[str]) -> frozenset[str]:
        """A list of words from `choices`."""
        value: object = self._object[name] if self.has(name) else []
        known = tuple(choices)
        if not isinstance(value, list) or not all(isinstance(item, str) and item in known for item in value):
            raise self.wrong(name, f"a list of {', '.join(known)}")
        return frozenset(value)

    def address(self, name: str, default: str) -> int:
        """An address as 128 bits, IPv4 as ::ffff:a.b.c.d."""
        value = self._object[name] if self.has(name) else default
        try:
            if not isinstance(value, str):
                raise ValueError
            return number_of(value)
        except ValueError:
            raise self.wrong(name, "an IPv4 or IPv6 address") from None

    def hexadecimal(self, name: str) -> bytes:
        """Bytes as hexadecimal digits."""
        value = self._object[name] if self.has(name) else ""
        try:
            return bytes.fromhex(value)
        except (TypeError, ValueError):
            raise self.wrong(name, "hexadecimal digits") from None

    def part(self, name: str) -> Keys:
        """The object under this key; an empty one if the key is missing."""
        return Keys(self._object[name] if self.has(name) else {}, self.path(name))

    def parts(self, name: str) -> list[Keys]:
        """The objects in the list under this key."""
        value: object = self._object[name] if self.has(name) else []
        if not isinstance(value, list):
            raise self.wrong(name, "a list of objects")
        return [Keys(item, f"{self.path(name)}[{place}]") for place, item in enumerate(value)]

    def close(self, of: str) -> None:
        """Raise CraftError for an unread key; `of` names the thing that does not have such a key."""
        for name in self._object:
            if name not in self._asked:
                known = ", ".join(sorted(self._asked))
                raise CraftError(self.path(name), f"{of} has no such key; it has {known}")


def _shown(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else text[:39] + "…"


@contextmanager
def about(keys: Keys) -> Iterator[None]:
    """Attribute errors raised inside to this object."""
    try:
        yield
    except CraftError as error:
        error.number = error.number or keys.ordinal
        raise
    except ValueError as error:  # a value that its header has no room for
        wrong = CraftError("it", str(error))
        wrong.number = keys.ordinal
        raise wrong from error

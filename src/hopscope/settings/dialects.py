"""Dialects by name: built-in ones, and custom ones of the configuration (`[dialects.NAME]`)."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from ..base.errors import HopscopeError
from ..wire.dialect import DIALECTS, LAYOUTS, Dialect, Domain, with_layout

if TYPE_CHECKING:
    from .custom_dialect import DialectSettings, DomainField
    from .listen import ListenSettings

AUTO = "auto"
"""The name for whichever dialect the first reports are in."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_PORTS = ("ports", "sflow_ports", "ipfix_ports")
"""Ports of datagrams, by format."""
_NOT_FIELDS = {"base", "marker", "domains", "clock"}


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes that flags make to any dialect; None: unchanged."""

    ports: tuple[int, ...] | None = None
    packets: bool = False
    int_dscp: tuple[int, ...] | None = None
    int_ports: tuple[int, ...] | None = None
    marker: bytes | None = None
    sflow_ports: tuple[int, ...] | None = None
    ipfix_ports: tuple[int, ...] | None = None

    def of(self, dialect: Dialect) -> Dialect:
        """The dialect with these changes; a port that is given for one format is no port of the others.

        Raises HopscopeError if a port is given for two formats.
        """
        claimed = Counter(port for name in _PORTS for port in set(getattr(self, name) or ()))
        if twice := [port for port, times in claimed.items() if times > 1 and port]:
            raise HopscopeError(f"found port {twice[0]} for two formats, expected one format for each port")
        given: dict[str, Any] = {
            name: tuple(port for port in getattr(dialect, name) if port not in claimed)
            for name in _PORTS
            if claimed
        }
        given |= {
            name: value
            for name in (*_PORTS, "int_dscp", "int_ports", "marker")
            if (value := getattr(self, name)) is not None
        }
        return replace(dialect, packets=dialect.packets or self.packets, **given)


def with_listeners(dialect: Dialect, listeners: Iterable[ListenSettings]) -> Dialect:
    """The dialect for a capture of what these listeners receive: with their ports, each for one format, and
    with the packets of mirror ports.
    """
    added: dict[str, list[int]] = {name: [] for name in _PORTS}
    for listen in listeners:
        if listen.kind in ("sflow", "ipfix"):
            added[f"{listen.kind}_ports"].append(listen.port)
        elif listen.kind == "mirror":
            dialect = replace(dialect, packets=True)
        elif not listen.over_tcp:
            added["ports"].append(listen.port)
    taken = set(chain(*added.values()))
    ports: dict[str, Any] = {}
    for name, found in added.items():
        own = (port for port in getattr(dialect, name) if port in found or port not in taken)
        ports[name] = tuple(port for port in dict.fromkeys((*own, *found)) if port)
    return replace(dialect, **ports)


def known(own: Mapping[str, DialectSettings] | None = None) -> dict[str, Dialect]:
    """All dialects by name, those of `own` last. HopscopeError begins with the wrong key."""
    found = dict(DIALECTS)
    for name in own or {}:
        _add(name, own or {}, found, ())
    return found


def named(
    name: str, own: Mapping[str, DialectSettings] | None = None, *, auto: bool = False
) -> tuple[Dialect, ...]:
    """The dialect of this name, also with layouts (`spec:swapped`); with `auto`, the name `auto` means all.
    Raises HopscopeError.
    """
    dialects = known(own)
    if auto and name == AUTO:
        return tuple(dialects.values())
    base, *layouts = name.split(":")
    for layout in layouts:
        if layout not in LAYOUTS:
            raise HopscopeError(f"unknown layout {layout!r} of a dialect; known are {', '.join(LAYOUTS)}")
    if base in dialects:
        return (with_layout(dialects[base], *layouts) if layouts else dialects[base],)
    raise HopscopeError(unknown(name, [*dialects, *[AUTO] * auto]))


def unknown(name: str, names: Iterable[str]) -> str:
    """The error line for an unknown dialect."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}"
    return f"unknown dialect {name!r}; {hint}"


def _add(
    name: str, own: Mapping[str, DialectSettings], found: dict[str, Dialect], above: tuple[str, ...]
) -> None:
    """Put the dialect `name` of `own` into `found`, after the one that it is based on."""
    if name in found and name not in DIALECTS:
        return
    if name in DIALECTS or name == AUTO or not _NAME.fullmatch(name):
        raise HopscopeError(
            f"dialects.{name}: found the name {name!r}, expected another name, of lower-case letters, "
            "digits, dots and dashes"
        )
    settings = own[name]
    if name in above:
        raise HopscopeError(f"dialects.{name}.base: found {settings.base!r}, which is based on {name!r}")
    if settings.base in own and settings.base not in DIALECTS:
        _add(settings.base, own, found, (*above, name))
    if settings.base not in found:
        raise HopscopeError(f"dialects.{name}.base: {unknown(settings.base, [*DIALECTS, *own])}")
    found[name] = _made(name, settings, found[settings.base])


def _made(name: str, settings: DialectSettings, base: Dialect) -> Dialect:
    given = {
        key: value
        for key in type(settings).model_fields
        if key not in _NOT_FIELDS and (value := getattr(settings, key)) is not None
    }
    given["about"] = settings.about or f"Custom, based on {base.name}."
    if settings.marker is not None:
        given["marker"] = bytes.fromhex(settings.marker)
    if settings.domains is not None:
        given["domains"] = tuple(
            Domain(domain.id, _items(domain.fields), _items(domain.source_only))
            for domain in settings.domains
        )
    clock = {key: value for key, value in settings.clock.model_dump().items() if value is not None}
    return replace(base, name=name, clock=replace(base.clock, **clock), **given)


def _items(fields: Iterable[DomainField]) -> tuple[tuple[int, str, int], ...]:
    """Bit, name and bytes of each field, by bit."""
    return tuple((item.bit, item.name, item.bytes) for item in sorted(fields, key=lambda item: item.bit))

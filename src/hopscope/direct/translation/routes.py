"""Which store, at which collector, takes a report: by opcode, by header, by the hash of its key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...wire.records import Records
from ..records import ROUTE
from ..stores.store import Layout

APPEND = 2
"""Opcode of the primitive whose reports have a list in place of a key."""
NUMBERED = (APPEND, 16)
"""Opcodes whose key is a number, of a list or a sketch: modulo the collectors, it is its collector."""
OPCODES = 256
NO_LANE = 0xFFFFFFFF
"""Lane of a report that no store takes; in `plain`: the rules have to be looked at."""
_ADDRESSES = (0, (1 << 128) - 1)
_LOW = (1 << 64) - 1


class RouteError(HopscopeError):
    """Rules that contradict each other or name what is not there; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """A store, where it is, and which reports of its primitive it takes: all that is given has to hold.

    The first rule that a report fits takes it.
    """

    layout: Layout
    at: tuple[tuple[int, int], ...]
    """(collector, target there) for each of `layout.collectors`, in the order in which keys are spread."""
    lists: tuple[int, int] | None = None
    """Append: first and last list, as reports name them; the store's own numbers begin with 0."""
    port: int = 0
    """UDP destination port; 0: any."""
    sources: tuple[int, int] = _ADDRESSES
    """First and last source address, 128 bits (IPv4 as ::ffff:a.b.c.d)."""
    key_bytes: int = 0
    """Bytes of the key; 0: any."""
    data_bytes: int = 0
    """Bytes of the data; 0: any."""

    @property
    def plain(self) -> bool:
        """Whether it takes every report of its primitive as it is."""
        return not (
            (self.lists and self.lists[0])
            or self.port
            or self.sources != _ADDRESSES
            or self.key_bytes
            or self.data_bytes
        )


def routes_of(layouts: Sequence[Layout], collectors: int = 1) -> tuple[Route, ...]:
    """Routes where every collector has the same stores, in the order of `layouts`.

    A store whose layout names as many collectors as there are is spread over them, by keys or lists. Lists
    of other Append stores are counted through: over the stores of a collector, then over the collectors.
    Several stores of another primitive are told apart by the length of their data. With one collector,
    that one has all. Raises RouteError where the rules do not tell reports apart.
    """
    found: list[Route] = []
    first_list = 0
    for collector in range(collectors):
        for target, layout in enumerate(layouts):
            spread = collectors > 1 and layout.collectors == collectors
            if layout.opcode == APPEND and not spread:
                last = first_list + layout.count - 1
                at = ((collector, target),) * max(layout.collectors, 1)
                found.append(Route(layout=layout, at=at, lists=(first_list, last)))
                first_list = last + 1
            elif collector == 0:
                found.append(_keyed(layouts, target, collectors))
    return tuple(found)


def _keyed(layouts: Sequence[Layout], target: int, collectors: int) -> Route:
    layout = layouts[target]
    if collectors > 1 and layout.collectors != collectors:
        raise RouteError(
            f"{layout.name}: its keys are spread over {layout.collectors} collectors, there are {collectors}"
        )
    at = tuple((share % collectors, target) for share in range(max(layout.collectors, 1)))
    alike = [other for other in layouts if other.opcode == layout.opcode]
    if len(alike) == 1:
        return Route(layout=layout, at=at)
    lengths = [getattr(other, "data_bytes", 0) for other in alike]
    if len(set(lengths)) < len(alike) or not all(lengths):
        raise RouteError(
            f"{len(alike)} stores of {layout.name} with data of {', '.join(map(str, lengths))} bytes: "
            "the length does not tell their reports apart, rules are needed"
        )
    return Route(layout=layout, at=at, data_bytes=getattr(layout, "data_bytes", 0))


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Routes as kernels see them; a lane is the row of a route, with a writer of its own."""

    rules: tuple[Route, ...]
    """By opcode, and in the order of the rules within one."""
    routes: Records
    """ROUTE [lanes]."""
    first: npt.NDArray[np.uint32]
    """First lane of each opcode, uint32 [257]."""
    plain: npt.NDArray[np.uint32]
    """Lane of an opcode with one rule that takes everything, uint32 [256]; `NO_LANE` for others."""
    shares: npt.NDArray[np.uint32]
    """Collectors of every lane's shares, one lane behind the other."""


def compile_routes(routes: Iterable[Route], collectors: int) -> RouteTable:
    """Routes as arrays; RouteError where one names a collector that is not there."""
    rules = tuple(sorted(routes, key=lambda route: route.layout.opcode))
    table: Records = np.zeros(len(rules), ROUTE)
    plain = np.full(OPCODES, NO_LANE, np.uint32)
    shares: list[int] = []
    for lane, route in enumerate(rules):
        layout = route.layout
        if len(route.at) != max(layout.collectors, 1):
            raise RouteError(
                f"{layout.name}: at {len(route.at)} places, its keys are spread over {layout.collectors}"
            )
        if any(not 0 <= collector < collectors for collector, _ in route.at):
            raise RouteError(f"{layout.name}: at collectors {route.at}, there are {collectors}")
        _fill(table[lane], route, len(shares))
        shares += [collector for collector, _ in route.at]
        if route.plain and sum(other.layout.opcode == layout.opcode for other in rules) == 1:
            plain[layout.opcode] = lane  # a list that the store does not have is refused by its writer
    first = np.searchsorted(table["opcode"], np.arange(OPCODES + 1)).astype(np.uint32)
    return RouteTable(rules, table, first, plain, np.array(shares, np.uint32))


def _fill(row: np.void, route: Route, first_share: int) -> None:
    first, last = route.sources
    first_list, last_list = route.lists or (0, 0xFFFFFFFF)
    row["first_hi"], row["first_lo"] = first >> 64, first & _LOW
    row["last_hi"], row["last_lo"] = last >> 64, last & _LOW
    row["seed"] = route.layout.seed
    row["first_list"], row["last_list"] = first_list, last_list
    row["first_share"], row["shares"] = first_share, len(route.at)
    row["port"], row["hashing"], row["opcode"] = route.port, route.layout.hashing, route.layout.opcode
    row["key_bytes"], row["data_bytes"] = route.key_bytes, route.data_bytes
    row["numbered"] = route.layout.opcode in NUMBERED
    row["by_list"] = route.lists is not None
    row["by_frame"] = route.port != 0 or route.sources != _ADDRESSES

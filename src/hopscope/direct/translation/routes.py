"""Routes of reports to stores and collectors: by opcode, header fields, and the hash of the key."""

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
"""Opcode of the primitive whose reports have a list instead of a key."""
NUMBERED = (APPEND, 16)
"""Opcodes whose key is the number of a list or sketch; modulo the collectors it gives the collector."""
OPCODES = 256
NO_LANE = 0xFFFFFFFF
"""Lane of a report that no store takes; in `plain`: the rules have to be evaluated."""
_ADDRESSES = (0, (1 << 128) - 1)
_LOW = (1 << 64) - 1


class RouteError(HopscopeError):
    """Contradictory rules, or an unknown collector; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """A store, its targets, and the conditions for the reports that it takes, all of which must hold.

    The first matching rule takes a report.
    """

    layout: Layout
    at: tuple[tuple[int, int], ...]
    """(collector, target there) for each of `layout.collectors`, in the order in which keys are spread."""
    lists: tuple[int, int] | None = None
    """Append: first and last list number in reports; the store's own numbers begin with 0."""
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
        """Whether it takes every report of its primitive unchanged."""
        return not (
            (self.lists and self.lists[0])
            or self.port
            or self.sources != _ADDRESSES
            or self.key_bytes
            or self.data_bytes
        )


def routes_of(layouts: Sequence[Layout], collectors: int = 1) -> tuple[Route, ...]:
    """Default routes if every collector has the same stores, in the order of `layouts`.

    A store whose layout has as many collectors as there are is spread over them, by keys or lists. Lists of
    other Append stores are numbered consecutively, over the stores of a collector, then over the collectors.
    Several stores of another primitive are distinguished by the length of their data. Raises RouteError for
    ambiguous reports.
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
            f"{layout.name}: its keys are spread over {layout.collectors} collectors, expected {collectors}"
        )
    at = tuple((share % collectors, target) for share in range(max(layout.collectors, 1)))
    alike = [other for other in layouts if other.opcode == layout.opcode]
    if len(alike) == 1:
        return Route(layout=layout, at=at)
    lengths = [getattr(other, "data_bytes", 0) for other in alike]
    if len(set(lengths)) < len(alike) or not all(lengths):
        raise RouteError(
            f"{len(alike)} stores of {layout.name} with data of {', '.join(map(str, lengths))} bytes: "
            "the length does not distinguish their reports, rules are needed"
        )
    return Route(layout=layout, at=at, data_bytes=getattr(layout, "data_bytes", 0))


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Routes as arrays for kernels; a lane is the row of a route, and has its own writer."""

    rules: tuple[Route, ...]
    """Sorted by opcode, stable."""
    routes: Records
    """ROUTE [lanes]."""
    first: npt.NDArray[np.uint32]
    """First lane of each opcode, uint32 [257]."""
    plain: npt.NDArray[np.uint32]
    """Lane of an opcode whose only rule takes every report, uint32 [256]; `NO_LANE` for others."""
    shares: npt.NDArray[np.uint32]
    """Collectors of every lane's shares, concatenated."""


def compile_routes(routes: Iterable[Route], collectors: int) -> RouteTable:
    """Routes as arrays. Raises RouteError for an unknown collector."""
    rules = tuple(sorted(routes, key=lambda route: route.layout.opcode))
    table: Records = np.zeros(len(rules), ROUTE)
    plain = np.full(OPCODES, NO_LANE, np.uint32)
    shares: list[int] = []
    for lane, route in enumerate(rules):
        layout = route.layout
        if len(route.at) != max(layout.collectors, 1):
            raise RouteError(
                f"{layout.name}: {len(route.at)} targets, its keys are spread over {layout.collectors}"
            )
        if any(not 0 <= collector < collectors for collector, _ in route.at):
            raise RouteError(f"{layout.name}: targets {route.at}, expected collectors 0 to {collectors - 1}")
        _fill(table[lane], route, len(shares))
        shares += [collector for collector, _ in route.at]
        if route.plain and sum(other.layout.opcode == layout.opcode for other in rules) == 1:
            plain[layout.opcode] = lane  # its writer rejects lists that the store does not have
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

"""Routes of reports to stores and collectors: by opcode, header fields, and the hash of the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...base.errors import HopscopeError
from ...wire.address import address
from ...wire.records import Records
from ..records import ROUTE
from ..stores.store import Layout

APPEND = 2
"""Opcode of the primitive whose reports have a list instead of a key."""
NUMBERED = (APPEND, 16)
"""Opcodes whose key is the number of a list or sketch; modulo the collectors, it gives the collector."""
OPCODES = 256
NO_LANE = 0xFFFFFFFF
"""Lane of a report that no store takes; in `plain`: the rules must be evaluated."""
_ADDRESSES = (0, (1 << 128) - 1)
_LOW = (1 << 64) - 1
_LAST_LIST = 0xFFFFFFFF


class RouteError(HopscopeError):
    """Contradictory rules, or an unknown collector; the message says which."""


@dataclass(frozen=True, kw_only=True)
class Route:
    """A store, its targets, and the conditions for the reports that it takes, all of which must hold.

    The first matching route takes a report. Routes of one store share its writer.
    """

    name: str = ""
    """Name of the store, for messages."""
    layout: Layout
    at: tuple[tuple[int, int], ...]
    """(collector, target at this collector) for each of `layout.collectors`, in the order in which keys are
    spread.
    """
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
        return not ((self.lists and self.lists[0]) or self.by_frame or self.key_bytes or self.data_bytes)

    @property
    def by_frame(self) -> bool:
        """Whether it depends on a report's source address or port."""
        return self.port != 0 or self.sources != _ADDRESSES

    def overlaps(self, other: Route) -> bool:
        """Whether a report may fit both routes and they lead to different stores or different lists."""
        first, second = self.lists or (0, _LAST_LIST), other.lists or (0, _LAST_LIST)
        return (
            self.layout.opcode == other.layout.opcode
            and (self.at != other.at or first[0] != second[0])
            and all(
                not mine or not others or mine == others
                for mine, others in (
                    (self.port, other.port),
                    (self.key_bytes, other.key_bytes),
                    (self.data_bytes, other.data_bytes),
                )
            )
            and _meet(self.sources, other.sources)
            and _meet(first, second)
        )

    def conditions(self) -> str:
        """Its conditions, for messages."""
        low, high = (address(bound >> 64, bound & _LOW) for bound in self.sources)
        parts = [
            f"lists {self.lists[0]} to {self.lists[1]}" if self.lists else "",
            f"port {self.port}" if self.port else "",
            f"from {low} to {high}" if self.sources != _ADDRESSES else "",
            f"keys of {self.key_bytes} B" if self.key_bytes else "",
            f"data of {self.data_bytes} B" if self.data_bytes else "",
        ]
        return f"{self.name} those with {', '.join(filter(None, parts)) or 'anything'}"


def _meet(first: tuple[int, int], second: tuple[int, int]) -> bool:
    """Whether two ranges have a number in common."""
    return first[0] <= second[1] and second[0] <= first[1]


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreRule:
    """Reports that a store takes: those that fit all conditions. Several rules of a store add up."""

    store: str
    lists: tuple[int, int] | None = None
    """Append: first and last list number in reports; the first is the store's list 0."""
    port: int = 0
    """UDP destination port; 0: any."""
    sources: tuple[int, int] = _ADDRESSES
    """First and last source address, 128 bits."""
    key_bytes: int = 0
    """Bytes of the key; 0: any."""
    data_bytes: int = 0
    """Bytes of the data; 0: any, but the store's own length if several stores have its primitive."""


def routes_of(
    layouts: Sequence[Layout],
    collectors: int = 1,
    *,
    names: Sequence[str] = (),
    rules: Sequence[StoreRule] = (),
    shares: Sequence[int] = (),
) -> tuple[Route, ...]:
    """Routes for rules, if every collector has the same stores, in the order of `layouts`.

    A store without rules takes all reports of its primitive, with data of its length if there are several
    such stores. A store whose layout has as many collectors as there are shares is spread over them, by keys
    or lists. In other Append stores, the numbers of lists continue from one collector to the next. `names` of
    the stores default to the names of their primitives. `shares`: collector of each share; default: collector
    n has share n. Raises RouteError for a report that fits two stores.
    """
    shares = shares or range(collectors)
    names = names or [layout.name for layout in layouts]
    if unknown := sorted({rule.store for rule in rules} - set(names)):
        raise RouteError(
            f"a rule names the store {unknown[0]!r}, which is unknown; known: {', '.join(names) or 'none'}"
        )
    found: list[Route] = []
    for target, (name, layout) in enumerate(zip(names, layouts, strict=True)):
        alone = sum(other.opcode == layout.opcode for other in layouts) == 1
        for rule in [rule for rule in rules if rule.store == name] or [StoreRule(store=name)]:
            found += _routes(rule, layout, target, shares, alone)
    for number, route in enumerate(found):
        for other in found[:number]:
            if route.overlaps(other):
                raise RouteError(
                    f"stores {other.name} and {route.name} take the same {route.layout.name} reports "
                    f"({other.conditions()}; {route.conditions()}): the length of the data does not "
                    "distinguish them, add rules (direct.translator.rules)"
                )
    return tuple(found)


def _routes(
    rule: StoreRule, layout: Layout, target: int, shares: Sequence[int], alone: bool
) -> Iterator[Route]:
    """The routes of one rule: a single one, or one for each collector with lists of its own."""
    collectors = max(shares) + 1
    spread = collectors == 1 or layout.collectors == len(shares)
    if layout.opcode != APPEND and not spread:
        raise RouteError(
            f"store {rule.store} has collectors={layout.collectors}, but {len(shares)} are written to: give "
            f"it collectors={len(shares)} at each of them (--store NAME=…,collectors={len(shares)})"
        )
    if layout.opcode != APPEND and rule.lists:
        raise RouteError(f"store {rule.store}: a rule with lists, but its primitive is {layout.name}")
    own_bytes = 0 if alone else getattr(layout, "data_bytes", 0)
    at = tuple((shares[share % len(shares)], target) for share in range(max(layout.collectors, 1)))
    route = Route(
        name=rule.store, layout=layout, at=at, port=rule.port, sources=rule.sources, key_bytes=rule.key_bytes,
        data_bytes=rule.data_bytes or own_bytes,
    )  # fmt: skip
    if layout.opcode != APPEND:
        yield route
        return
    lists = layout.count * (1 if spread else collectors)
    first, last = rule.lists or (0, lists - 1)
    if last - first >= lists:
        raise RouteError(f"store {rule.store}: a rule for {last - first + 1} lists, it has {lists}")
    if spread:
        yield replace(route, lists=(first, last))
        return
    for collector in range(collectors):
        begin = first + collector * layout.count
        if begin <= last:
            each = ((collector, target),) * max(layout.collectors, 1)
            yield replace(route, at=each, lists=(begin, min(last, begin + layout.count - 1)))


@dataclass(frozen=True, slots=True)
class RouteTable:
    """Routes as arrays for kernels; a lane is a store with its writer."""

    rules: tuple[Route, ...]
    """Sorted by opcode, stable."""
    lanes: tuple[Route, ...]
    """The first rule of every lane."""
    routes: Records
    """ROUTE [rules]."""
    first: npt.NDArray[np.uint32]
    """First rule of each opcode, uint32 [257]."""
    plain: npt.NDArray[np.uint32]
    """Lane of an opcode whose only rule takes every report, uint32 [256]; `NO_LANE` for others."""
    shares: npt.NDArray[np.uint32]
    """Collectors of every rule's shares, concatenated."""


def compile_routes(routes: Iterable[Route], collectors: int) -> RouteTable:
    """Routes as arrays. Raises RouteError for an unknown collector."""
    rules = tuple(sorted(routes, key=lambda route: route.layout.opcode))
    table: Records = np.zeros(len(rules), ROUTE)
    plain = np.full(OPCODES, NO_LANE, np.uint32)
    shares: list[int] = []
    lanes: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
    owners: list[Route] = []
    for number, route in enumerate(rules):
        layout = route.layout
        if len(route.at) != max(layout.collectors, 1):
            raise RouteError(
                f"{layout.name}: {len(route.at)} targets, its keys are spread over {layout.collectors}"
            )
        if any(not 0 <= collector < collectors for collector, _ in route.at):
            raise RouteError(f"{layout.name}: targets {route.at}, expected collectors 0 to {collectors - 1}")
        lane = lanes.setdefault((layout.opcode, route.at), len(owners))
        if lane == len(owners):
            owners.append(route)
        _fill(table[number], route, len(shares), lane)
        shares += [collector for collector, _ in route.at]
        if route.plain and sum(other.layout.opcode == layout.opcode for other in rules) == 1:
            plain[layout.opcode] = lane  # its writer rejects lists that the store does not have
    first = np.searchsorted(table["opcode"], np.arange(OPCODES + 1)).astype(np.uint32)
    return RouteTable(rules, tuple(owners), table, first, plain, np.array(shares, np.uint32))


def _fill(row: np.void, route: Route, first_share: int, lane: int) -> None:
    first, last = route.sources
    first_list, last_list = route.lists or (0, _LAST_LIST)
    row["lane"] = lane
    row["first_hi"], row["first_lo"] = first >> 64, first & _LOW
    row["last_hi"], row["last_lo"] = last >> 64, last & _LOW
    row["seed"] = route.layout.seed
    row["first_list"], row["last_list"] = first_list, last_list
    row["first_share"], row["shares"] = first_share, len(route.at)
    row["port"], row["hashing"], row["opcode"] = route.port, route.layout.hashing, route.layout.opcode
    row["key_bytes"], row["data_bytes"] = route.key_bytes, route.data_bytes
    row["numbered"] = route.layout.opcode in NUMBERED
    row["by_list"] = route.lists is not None
    row["by_frame"] = route.by_frame

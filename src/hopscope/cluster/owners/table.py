"""The table of owners: which member has a key of direct access (DART 3.2: key, collector, address).

The hash of a key gives its *share*, a number below `shares`, which never changes: it is the `collectors` of
the stores' layout. The table names the member of each share. A member that joins takes shares from the
others, so that all have the same number; one that leaves gives its shares away. No other share moves. Each
change makes a new generation; queries also ask earlier generations while their owners keep that memory
(`direct/collectors/generations`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from ...direct.collectors.collector import NO_TOKEN, ApiAccess, Collector, Epoch
from ...direct.collectors.generations import CollectorGenerations, Generation, Retention
from ...direct.collectors.group import CollectorGroup
from ...direct.collectors.open import open_collector
from ...direct.stores.answers import QueryOptions
from ...direct.stores.store import MAX_COLLECTORS
from ...settings.cluster import MEMBER
from ...settings.direct import CollectorPlace
from ..buckets import Bucket
from ..connection import ClusterError, Connection
from ..shares import assign

KEY = "table"
"""Key of the bucket's only entry."""
SHARES = 256
"""Shares of a new table: of 100 members, none has more than 1.2 times the mean; P4 switches can hold them."""
MAX_GENERATIONS = 32
"""Older generations are dropped, even if their memory still exists."""
MAX_BYTES = 900_000
"""Longest table: NATS takes messages of 1 MB."""


def _member(text: str) -> str:
    if not MEMBER.fullmatch(text):
        raise ValueError("expected letters, digits, `_`, `-`, and dots between them")
    return text


Member = Annotated[str, AfterValidator(_member)]
Number = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True, slots=True)
class Owner:
    """Where a member's stores are."""

    place: CollectorPlace
    """Where queries go: the address of its API, or its data folder."""
    address: Annotated[str, Field(max_length=256, pattern=r"^[^\s]*$")] = ""
    """Address of its NIC (RoCEv2), to which translators and switches write; empty: the host of its API."""

    @property
    def nic(self) -> str:
        """The address of its NIC."""
        if self.address or "://" not in self.place:
            return self.address
        from urllib.parse import urlsplit

        return urlsplit(self.place).hostname or ""


def checked_owner(name: str, owner: Owner) -> Owner:
    """The owner. Raises ClusterError if its name, place or address is not valid."""
    try:
        TypeAdapter(dict[Member, Owner]).validate_python({name: asdict(owner)})
    except ValidationError as error:
        raise ClusterError(f"{name or 'member'}: {_reason(error)}") from None
    if not owner.place:
        raise ClusterError(
            f"{name}: found no place, expected NAME=PLACE, such as {name}=http://192.0.2.7:8080"
        )
    return owner


@dataclass(frozen=True, slots=True)
class MemberCollector:
    """A collector, named after its member."""

    name: str
    collector: Collector

    def stores(self) -> list[dict[str, Any]]:
        """See `Collector`."""
        return self.collector.stores()

    def query(
        self, store: str, keys: Sequence[str], options: QueryOptions, epoch: Epoch
    ) -> list[dict[str, Any]]:
        """See `Collector`."""
        return self.collector.query(store, keys, options, epoch)

    def read_list(self, store: str, number: int, after: str | None, limit: int) -> tuple[list[str], int, str]:
        """See `Collector`."""
        return self.collector.read_list(store, number, after, limit)


@dataclass(frozen=True, slots=True)
class OwnerGeneration:
    """The members that have had the keys since some time."""

    number: Number
    since_ns: Number
    """When it took effect, ns since 1970."""
    members: tuple[Member, ...]
    """Members in the order of their numbers, which is that of their first shares."""
    shares: tuple[Number, ...]
    """Number of the member of each share."""
    begins: dict[Member, dict[str, Number]] = field(default_factory=dict)
    """Epoch of each member's stores at that time; earlier epochs have no keys of this generation."""

    @classmethod
    def of(
        cls, number: int, since_ns: int, of_share: Sequence[str], begins: Mapping[str, Mapping[str, int]]
    ) -> OwnerGeneration:
        """The generation whose shares have these members."""
        members = tuple(dict.fromkeys(of_share))
        epochs = {name: dict(stores) for name, stores in begins.items()}
        return cls(number, since_ns, members, tuple(members.index(name) for name in of_share), epochs)

    def of_share(self) -> list[str]:
        """Name of the member of each share."""
        return [self.members[number] for number in self.shares]

    def counts(self) -> dict[str, int]:
        """Shares by member."""
        return {name: self.shares.count(number) for number, name in enumerate(self.members)}


@dataclass(frozen=True, slots=True)
class OwnerTable:
    """All generations that can still be queried, oldest first; the last one is in effect."""

    owners: dict[Member, Owner]
    """Owners in all generations, by name."""
    generations: Annotated[tuple[OwnerGeneration, ...], Field(min_length=1, max_length=MAX_GENERATIONS)]
    epoch_seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """`direct.epoch_seconds` of all members."""
    keep_epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 24
    """`direct.keep_epochs` of all members."""

    @property
    def current(self) -> OwnerGeneration:
        """The generation in effect."""
        return self.generations[-1]

    @property
    def kept(self) -> Retention:
        """How long memory is kept."""
        return Retention(round(self.epoch_seconds * 1e9), self.keep_epochs)

    @property
    def addresses(self) -> tuple[str, ...]:
        """NIC of each share, in the form of `direct.translator.collectors`."""
        return tuple(self.owners[name].nic for name in self.current.of_share())

    def changed(
        self,
        names: Sequence[str],
        owners: Mapping[str, Owner],
        begins: Mapping[str, Mapping[str, int]],
        now_ns: int,
    ) -> OwnerTable:
        """The table with a new generation of these members; the fewest shares move. Raises ClusterError."""
        before = self.current
        shares = assign(names, len(before.shares), before.of_share())
        new = OwnerGeneration.of(
            before.number + 1, max(now_ns, before.since_ns + 1), [names[at] for at in shares], begins
        )
        table = replace(self, owners={**self.owners, **owners}, generations=(*self.generations, new))
        return table.pruned(now_ns)

    def pruned(self, now_ns: int) -> OwnerTable:
        """The table without generations whose memory is gone, and without members that are in none."""
        ends = [each.since_ns for each in self.generations[1:]]
        alive = [
            generation
            for generation, end in zip(self.generations, ends, strict=False)
            if (until := self.kept.answers_until(end, "all")) is None or now_ns < until
        ]
        return self._of([*alive, self.current][-MAX_GENERATIONS:])

    def without_memory_of(self, name: str) -> OwnerTable:
        """The table without the remaining memory of a member that is not in the current generation, which is
        lost. Its shares in older generations go to the members that have them now.
        """
        if name in self.current.members:
            raise ClusterError(f"{name} is an owner: remove it first")
        now = self.current.of_share()
        found = []
        for each in self.generations[:-1]:
            held = [now[share] if owner == name else owner for share, owner in enumerate(each.of_share())]
            begins = {member: epochs for member, epochs in each.begins.items() if member != name}
            found.append(OwnerGeneration.of(each.number, each.since_ns, held, begins))
        return self._of([*found, self.current])

    def _of(self, generations: Iterable[OwnerGeneration]) -> OwnerTable:
        kept = tuple(generations)
        used = {name for each in kept for name in each.members}
        owners = {name: owner for name, owner in self.owners.items() if name in used}
        return replace(self, owners=owners, generations=kept)

    def collectors(
        self, access: ApiAccess = NO_TOKEN, *, known: Mapping[str, Collector] | None = None
    ) -> CollectorGenerations:
        """The collectors that queries ask, named after the members. `access`: to the members' APIs. `known`:
        collectors by member, in place of those at the table's places.
        """
        known = known or {}
        opened = {
            name: MemberCollector(name, known.get(name) or open_collector(owner.place, access))
            for name, owner in self.owners.items()
        }
        ends = [*(each.since_ns for each in self.generations[1:]), None]
        return CollectorGenerations(
            [
                Generation(
                    each.number,
                    CollectorGroup([opened[name] for name in each.members], each.shares),
                    end,
                    each.begins,
                )
                for each, end in zip(self.generations, ends, strict=True)
            ],
            self.kept,
        )

    def encode(self) -> bytes:
        """The stored form, JSON."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()


def first_table(
    names: Sequence[str],
    owners: Mapping[str, Owner],
    begins: Mapping[str, Mapping[str, int]],
    now_ns: int,
    *,
    shares: int = SHARES,
    epoch_seconds: float = 0.0,
    keep_epochs: int = 24,
) -> OwnerTable:
    """A table of one generation. Raises ClusterError."""
    if not 1 <= shares <= MAX_COLLECTORS // 4:
        raise ClusterError(f"{shares} shares, expected 1 to {MAX_COLLECTORS // 4:,}")
    generation = OwnerGeneration.of(1, now_ns, [names[at] for at in assign(names, shares, [])], begins)
    return OwnerTable(dict(owners), (generation,), epoch_seconds, keep_epochs)


def decode(value: bytes) -> OwnerTable:
    """The stored table. ClusterError: it is malformed."""
    try:
        if len(value) > MAX_BYTES:
            raise ValueError(f"found {len(value):,} bytes, expected at most {MAX_BYTES:,}")
        table: OwnerTable = _form().validate_json(value, strict=True)
        _check(table)
    except ValidationError as error:
        raise ClusterError(f"the table of owners is damaged: {_reason(error)}") from None
    except ValueError as error:
        raise ClusterError(f"the table of owners is damaged: {error}") from None
    return table


def _reason(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _check(table: OwnerTable) -> None:
    """Raises ValueError if the table is inconsistent."""
    count = len(table.current.shares)
    for each in table.generations:
        if not 1 <= len(each.shares) == count <= MAX_COLLECTORS:
            raise ValueError(f"generation {each.number} has {len(each.shares)} shares, expected {count}")
        if max(each.shares) >= len(each.members) or len(set(each.members)) < len(each.members):
            raise ValueError(f"generation {each.number}: its shares are not those of its members")
        if unknown := set(each.members) - table.owners.keys():
            raise ValueError(f"generation {each.number}: {min(unknown)} has no address")
    times = [(each.number, each.since_ns) for each in table.generations]
    if any(one[0] >= two[0] or one[1] >= two[1] for one, two in pairwise(times)):
        raise ValueError("its generations are not in order")


@cache
def _form() -> TypeAdapter[OwnerTable]:
    return TypeAdapter(OwnerTable)


# ------------------------------------------------------------------------------------------------ in NATS


def read_owners(connection: Connection) -> tuple[OwnerTable | None, int]:
    """The table (None: there is none) and its revision. Raises ClusterError."""
    entry = Bucket(connection, connection.names.owners).get(KEY)
    return (None, 0) if entry is None else (decode(entry.value), entry.revision)


def write_owners(connection: Connection, table: OwnerTable, revision: int) -> None:
    """Replace the table of this revision (0: there is none). Raises ClusterError, also if it changed."""
    value = table.encode()
    if len(value) > MAX_BYTES:
        raise ClusterError(f"the table would have {len(value):,} bytes, at most {MAX_BYTES:,}: fewer shares")
    if Bucket(connection, connection.names.owners).change(KEY, value, revision) is None:
        raise ClusterError("the table of owners has been changed meanwhile: try again")

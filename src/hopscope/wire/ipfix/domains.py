"""State of exporters: their observation domains, templates, samplers, and data that waits for a template.

All tables are bounded, and unused entries are forgotten; the kernel reads the same tables. If a table is
full, the address with the most entries makes room, so that many domains, templates or waiting sets of one
cost others nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field

import numpy as np

from ..node_ids import NodeIds, node_of
from ..records import Records
from . import layout
from .layout import COLUMNS, Column
from .records import (
    DOMAIN,
    DOMAINS,
    FIELD,
    FIELDS,
    IDS,
    SAMPLERS,
    TEMPLATE,
    TEMPLATES,
    TEMPLATES_OF_DOMAIN,
)
from .templates import Template

SECOND = 1_000_000_000
TEMPLATE_SECONDS = 1800
"""Time without a transmission after which a template is forgotten, s (RFC 5153 6.2)."""
WAITING_SECONDS = 60
"""Time for which data waits for its template, s."""
WAITING_SETS = 64
"""Maximum number of waiting data sets of a domain."""
WAITING_BYTES = 4 * 1024 * 1024
"""Maximum bytes of waiting data sets of all domains."""
WAITING_UNIT = 256
"""Waiting bytes are counted in units of this size, rounded up for each set."""
Source = tuple[int, int]
"""Address of an exporter, high and low half."""
Session = tuple[int, int, int]
"""Address of an exporter (high, low half), and the port of its TCP connection; 0 for datagrams."""
Key = tuple[int, int, int, int, int]
"""Session of the exporter, version, and id of the domain."""


@dataclass(slots=True)
class WaitingSet:
    """A data set whose template has not arrived yet."""

    template_id: int
    message: bytes
    """The header of its message, and the set."""
    frame: np.void
    """FRAME of the datagram in which it arrived."""

    @property
    def units(self) -> int:
        """Its size in units."""
        return -(-len(self.message) // WAITING_UNIT)


@dataclass(slots=True)
class KnownTemplate:
    """A template, and the time at which it was last received."""

    template: Template
    seen_ns: int
    place: int
    """Its row in the table of templates, which the kernel does not read for options."""


@dataclass(slots=True)
class Domain:
    """An observation domain of an exporter."""

    key: Key
    row: int
    seen_ns: int
    part: int
    """Part of a batch, by number, that has its newest message."""
    templates: dict[int, KnownTemplate] = field(default_factory=dict)
    waiting: deque[WaitingSet] = field(default_factory=deque)


class Shares:
    """How many entries of a table each address has."""

    def __init__(self) -> None:
        self._counts = Counter[Source]()
        self._having = defaultdict[int, dict[Source, None]](dict)
        """Addresses with so many entries, the one that was silent longest first."""
        self._most = 0

    def change(self, source: Source, step: int) -> None:
        """Count entries that an address gets or loses (negative), or a sign of life (0)."""
        before = self._counts[source]
        self._having[before].pop(source, None)
        count = self._counts[source] = before + step
        if count:
            self._having[count][source] = None
        else:
            del self._counts[source]
        self._most = max(self._most, count)
        while self._most and not self._having[self._most]:
            del self._having[self._most]
            self._most -= 1

    def largest(self, source: Source) -> Source:
        """The address with the most entries, this one if no other has more."""
        return source if self._counts[source] == self._most else next(iter(self._having[self._most]))

    def would_lead(self, source: Source, entries: int) -> bool:
        """Whether an address with so many more entries would have more than any has now."""
        return self._counts[source] + entries > self._most


class Domains:
    """All observation domains."""

    def __init__(self, nodes: NodeIds, sessions: bool = False) -> None:
        """`sessions`: exporters connect by TCP. Templates are then valid until the connection ends."""
        self._nodes, self._sessions = nodes, sessions
        self.rows: Records = np.zeros(DOMAINS, DOMAIN)
        self.slots = np.zeros(DOMAINS * IDS, np.uint16)
        self.templates: Records = np.zeros(TEMPLATES, TEMPLATE)
        self.fields: Records = np.zeros(TEMPLATES * FIELDS, FIELD)
        self._free = list(range(TEMPLATES))
        self._free_rows = list(range(DOMAINS))
        self._of_source: dict[Source, dict[Key, Domain]] = {}
        """Domains by address, the one that was silent longest first."""
        self._by_row: dict[int, Domain] = {}
        self._domain_shares, self._template_shares = Shares(), Shares()
        self._waiting_shares = Shares()
        self._part = 0
        self._looked_ns = 0
        self._waiting_units = 0
        self.expired = 0
        """Number of data sets whose template did not arrive in time, or for which there was no room."""
        self.rejected_templates = 0
        """Number of templates for which there was no room, or which made room for those of others."""

    def __len__(self) -> int:
        return len(self._by_row)

    @property
    def template_count(self) -> int:
        """Number of templates of all domains."""
        return sum(len(domain.templates) for domain in self._by_row.values())

    @property
    def waiting_count(self) -> int:
        """Number of data sets that wait for their template."""
        return sum(len(domain.waiting) for domain in self._by_row.values())

    def of_row(self, row: int) -> Domain:
        """The domain of a row of the table."""
        return self._by_row[row]

    def begin_part(self) -> None:
        """Begin a part of a batch: what was found before has been decoded."""
        self._part += 1

    def find(self, key: Key, now_ns: int) -> int | None:
        """Row of a domain. If the table is full, a new domain takes the row of the one that was silent
        longest among those of the address with the most; None: that one has messages in the same part of a
        batch.
        """
        source = key[:2]
        own = self._of_source.get(source, {})
        if (domain := own.get(key)) is not None and domain.part == self._part:
            return domain.row  # its place among the silent ones is right: 0.7 µs less for a message
        if domain is None:
            if not self._free_rows:
                victim = next(iter(self._of_source[self._domain_shares.largest(source)].values()))
                if victim.part == self._part:
                    return None
                self._forget(victim)
            domain = Domain(key, self._free_rows.pop(), now_ns, self._part)
            self._by_row[domain.row] = domain
            row = self.rows[domain.row]
            row["node_id"] = node_of(self._nodes, key[0], key[1])
            # far from its previous numbers, if it was known before, so that none appears to be a duplicate
            row["sequence"] = (now_ns // SECOND << 26) & 0xFFFFFFFF
            row["hw_id"] = (key[4] ^ key[4] >> 8 ^ key[4] >> 16 ^ key[4] >> 24) & 0xFF
            self._domain_shares.change(source, 1)
        else:
            del own[key]
            self._domain_shares.change(source, 0)
        domain.seen_ns, domain.part = now_ns, self._part
        self._of_source.setdefault(source, own)[key] = domain
        return domain.row

    def put(self, domain: Domain, template: Template, now_ns: int) -> bool:
        """Store a template, or withdraw it if it has no fields. False: no room, or too many fields."""
        if not template.fields:
            ids = [template.id]
            if template.id in (layout.TEMPLATES, layout.OPTIONS):  # all of a kind (RFC 7011 8.1)
                ids = [
                    id_ for id_, held in domain.templates.items() if held.template.options == template.options
                ]
            for id_ in ids:
                self._drop(domain, id_)
            return True
        known = domain.templates.get(template.id)
        if known is not None and known.template == template:
            known.seen_ns = now_ns
            return True
        self._drop(domain, template.id)
        fields = [] if template.options else _columns(template)
        if len(domain.templates) >= TEMPLATES_OF_DOMAIN or len(fields) > FIELDS or template.size >= IDS:
            return False
        source = domain.key[:2]
        if not self._free and not self._drop_for(source):
            return False
        place = self._free.pop()
        if not template.options:
            self._write(place, template, fields)
            self.slots[domain.row * IDS + template.id] = place + 1
        domain.templates[template.id] = KnownTemplate(template, now_ns, place)
        self._template_shares.change(source, 1)
        return True

    def put_sampler(self, domain: Domain, sampler: int, rate: int) -> None:
        """Store the rate of a sampler, packets per sampled packet; in the last place if there is no room."""
        row = self.rows[domain.row]
        known = row["sampler"][: int(row["samplers"])].tolist()
        at = known.index(sampler) if sampler in known else min(len(known), SAMPLERS - 1)
        row["sampler"][at], row["rate"][at] = sampler, rate
        row["samplers"] = max(len(known), at + 1)

    def wait(self, domain: Domain, waiting: WaitingSet) -> None:
        """Keep a data set until its template arrives."""
        source, units = domain.key[:2], waiting.units
        left = WAITING_BYTES // WAITING_UNIT - units
        leads = self._waiting_units > left and self._waiting_shares.would_lead(source, units)
        if leads or len(domain.waiting) >= WAITING_SETS:
            self.expired += 1
            return
        while self._waiting_units > left:  # never its own: another address has more until there is room
            largest = self._waiting_shares.largest(source)
            self._expire_first(next(one for one in self._of_source[largest].values() if one.waiting))
        domain.waiting.append(waiting)
        self._count_waiting(source, units)

    def released(self, domain: Domain, template_id: int) -> list[WaitingSet]:
        """Remove and return the data sets that waited for this template."""
        found = [waiting for waiting in domain.waiting if waiting.template_id == template_id]
        if found:
            domain.waiting = deque(left for left in domain.waiting if left.template_id != template_id)
            self._count_waiting(domain.key[:2], -sum(waiting.units for waiting in found))
        return found

    def expire(self, now_ns: int) -> None:
        """Forget old entries; called with every batch, but checks only once per second."""
        if abs(now_ns - self._looked_ns) < SECOND:
            return
        self._looked_ns = now_ns
        for domain in list(self._by_row.values()):
            while domain.waiting and now_ns - domain.waiting[0].frame["time_ns"] > WAITING_SECONDS * SECOND:
                self._expire_first(domain)
            if self._sessions:
                continue
            for id_, held in list(domain.templates.items()):
                if now_ns - held.seen_ns > TEMPLATE_SECONDS * SECOND:
                    self._drop(domain, id_)
            if not domain.templates and now_ns - domain.seen_ns > TEMPLATE_SECONDS * SECOND:
                self._forget(domain)

    def end(self, session: Session) -> None:
        """Forget the domains of a connection that has ended."""
        for key, domain in list(self._of_source.get(session[:2], {}).items()):
            if key[:3] == session:
                self._forget(domain)

    def _expire_first(self, domain: Domain) -> None:
        self._count_waiting(domain.key[:2], -domain.waiting.popleft().units)
        self.expired += 1

    def _count_waiting(self, source: Source, units: int) -> None:
        self._waiting_units += units
        self._waiting_shares.change(source, units)

    def _drop_for(self, source: Source) -> bool:
        """Drop a template of the address with the most; False: this one has the most."""
        largest = self._template_shares.largest(source)
        if largest == source:
            return False
        victim = next(one for one in self._of_source[largest].values() if one.templates)
        self._drop(victim, next(iter(victim.templates)))
        self.rejected_templates += 1
        return True

    def _drop(self, domain: Domain, id_: int) -> None:
        held = domain.templates.pop(id_, None)
        if held is not None:
            self._template_shares.change(domain.key[:2], -1)
            self._free.append(held.place)
            self.slots[domain.row * IDS + id_] = 0

    def _forget(self, domain: Domain) -> None:
        source = domain.key[:2]
        own = self._of_source[source]
        del own[domain.key]
        if not own:
            del self._of_source[source]
        self._domain_shares.change(source, -1)
        for id_ in list(domain.templates):
            self._drop(domain, id_)
        while domain.waiting:
            self._expire_first(domain)
        self.rows[domain.row] = 0
        del self._by_row[domain.row]
        self._free_rows.append(domain.row)

    def _write(self, place: int, template: Template, fields: list[tuple[int, int, Column]]) -> None:
        stored = self.templates[place]
        stored["columns"] = sum(1 << column for column in {column for _, _, column in fields} if column)
        stored["size"], stored["fields"] = template.size, len(fields)
        stored["variable"] = template.variable
        for row, (at, length, column) in zip(self.fields[place * FIELDS :], fields, strict=False):
            row["at"], row["length"], row["column"] = at, length, column


def _columns(template: Template) -> list[tuple[int, int, Column]]:
    """(offset, length, column) of each field that is read. If a field has variable length: of all fields,
    with offsets of 0.

    An address of a wrong size is skipped; if two fields have the same column, the first is read.
    """
    found: list[tuple[int, int, Column]] = []
    taken: set[Column] = set()
    at, fixed = 0, not template.variable
    for given in template.fields:
        column = COLUMNS.get(given.element, Column.NONE) if not given.pen else Column.NONE
        size = {Column.SOURCE_4: 4, Column.DESTINATION_4: 4}.get(column)
        low = layout.ADDRESSES_6.get(column)
        if low is not None:
            size = 16
        if column in taken or (size is not None and given.length != size):
            column = Column.NONE
        taken.add(column)
        if column and low is not None:
            found += [(at, 8, column), (at + 8 * fixed, 8, low)]
        elif column or not fixed:
            found.append((at, given.length, column))
        at += given.length * fixed
    return found

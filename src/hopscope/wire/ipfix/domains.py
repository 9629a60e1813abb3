"""State of exporters: their observation domains, templates, samplers, and data that waits for a template.

All tables are bounded, and unused entries are forgotten; the kernel reads the same tables.
"""

from __future__ import annotations

from collections import Counter, deque
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
SOURCE_DOMAINS, SOURCE_TEMPLATES = 64, 256
"""Maximum numbers of domains and templates of an address whose connections are TCP; a new domain replaces the
one of this address that was silent longest.
"""
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


@dataclass(slots=True)
class KnownTemplate:
    """A template, and the time at which it was last received."""

    template: Template
    seen_ns: int
    place: int | None
    """Its row in the table of templates; None for options."""


@dataclass(slots=True)
class Domain:
    """An observation domain of an exporter."""

    key: Key
    row: int
    seen_ns: int
    templates: dict[int, KnownTemplate] = field(default_factory=dict)
    waiting: deque[WaitingSet] = field(default_factory=deque)


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
        self._known: dict[Key, Domain] = {}
        """Domains by key, the one that was silent longest first."""
        self._by_row: dict[int, Domain] = {}
        self._of_source: dict[Source, dict[Key, None]] = {}
        """Keys by address, the one that was silent longest first; only if exporters connect by TCP."""
        self._templates_of = Counter[Source]()
        self._looked_ns = 0
        self._waiting_bytes = 0
        self.expired = 0
        """Number of data sets whose template did not arrive in time, or for which there was no room."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def template_count(self) -> int:
        """Number of templates of all domains."""
        return sum(len(domain.templates) for domain in self._known.values())

    @property
    def waiting_count(self) -> int:
        """Number of data sets that wait for their template."""
        return sum(len(domain.waiting) for domain in self._known.values())

    def of_row(self, row: int) -> Domain:
        """The domain of a row of the table."""
        return self._by_row[row]

    def find(self, key: Key, now_ns: int) -> int:
        """Row of a domain; if the table is full, a new domain takes the row of the one that was silent
        longest.
        """
        domain = self._known.pop(key, None)
        if domain is None:
            if len(self._of_source.get(key[:2], ())) >= SOURCE_DOMAINS:
                self._forget(next(iter(self._of_source[key[:2]])))
            if not self._free_rows:
                self._forget(next(iter(self._known)))
            domain = Domain(key, self._free_rows.pop(), now_ns)
            self._by_row[domain.row] = domain
            row = self.rows[domain.row]
            row["node_id"] = node_of(self._nodes, key[0], key[1])
            # far from its previous numbers, if it was known before, so that none appears to be a duplicate
            row["sequence"] = (now_ns // SECOND << 26) & 0xFFFFFFFF
            row["hw_id"] = (key[4] ^ key[4] >> 8 ^ key[4] >> 16 ^ key[4] >> 24) & 0xFF
        domain.seen_ns = now_ns
        self._known[key] = domain
        if self._sessions:
            own = self._of_source.setdefault(key[:2], {})
            own.pop(key, None)
            own[key] = None
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
        source = domain.key[:2]
        if len(domain.templates) >= TEMPLATES_OF_DOMAIN:
            return False
        if self._sessions and self._templates_of[source] >= SOURCE_TEMPLATES:
            return False
        place = None
        if not template.options:
            fields = _columns(template)
            if not self._free or len(fields) > FIELDS or template.size >= IDS:
                return False
            place = self._free.pop()
            self._write(place, template, fields)
            self.slots[domain.row * IDS + template.id] = place + 1
        domain.templates[template.id] = KnownTemplate(template, now_ns, place)
        self._templates_of[source] += 1
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
        if len(domain.waiting) >= WAITING_SETS or self._waiting_bytes + len(waiting.message) > WAITING_BYTES:
            self.expired += 1
            return
        domain.waiting.append(waiting)
        self._waiting_bytes += len(waiting.message)

    def released(self, domain: Domain, template_id: int) -> list[WaitingSet]:
        """Remove and return the data sets that waited for this template."""
        found = [waiting for waiting in domain.waiting if waiting.template_id == template_id]
        if found:
            domain.waiting = deque(left for left in domain.waiting if left.template_id != template_id)
            self._waiting_bytes -= sum(len(waiting.message) for waiting in found)
        return found

    def expire(self, now_ns: int) -> None:
        """Forget old entries; called with every batch, but checks only once per second."""
        if abs(now_ns - self._looked_ns) < SECOND:
            return
        self._looked_ns = now_ns
        for key, domain in list(self._known.items()):
            while domain.waiting and now_ns - domain.waiting[0].frame["time_ns"] > WAITING_SECONDS * SECOND:
                self._waiting_bytes -= len(domain.waiting.popleft().message)
                self.expired += 1
            if self._sessions:
                continue
            for id_, held in list(domain.templates.items()):
                if now_ns - held.seen_ns > TEMPLATE_SECONDS * SECOND:
                    self._drop(domain, id_)
            if not domain.templates and now_ns - domain.seen_ns > TEMPLATE_SECONDS * SECOND:
                self._forget(key)

    def end(self, session: Session) -> None:
        """Forget the domains of a connection that has ended."""
        for key in list(self._of_source.get(session[:2], ())):
            if key[:3] == session:
                self._forget(key)

    def _drop(self, domain: Domain, id_: int) -> None:
        held = domain.templates.pop(id_, None)
        if held is None:
            return
        source = domain.key[:2]
        self._templates_of[source] -= 1
        if not self._templates_of[source]:
            del self._templates_of[source]
        if held.place is not None:
            self._free.append(held.place)
            self.slots[domain.row * IDS + id_] = 0

    def _forget(self, key: Key) -> None:
        domain = self._known.pop(key)
        if self._sessions:
            own = self._of_source[key[:2]]
            del own[key]
            if not own:
                del self._of_source[key[:2]]
        for id_ in list(domain.templates):
            self._drop(domain, id_)
        self.expired += len(domain.waiting)
        self._waiting_bytes -= sum(len(waiting.message) for waiting in domain.waiting)
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

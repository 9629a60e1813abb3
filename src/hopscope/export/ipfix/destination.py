"""IPFIX over UDP, TCP or TLS: a transport session with one observation domain per shard."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from ...settings.destinations.ipfix import IpfixSettings
from ...wire.ipfix.layout import IPFIX, SET
from ..block import EventBlock
from ..connection import Connection
from ..destination import Context, Destination
from .data_records import data_records
from .templates import encode_set, sets

_HEADER = struct.Struct(">HHIII")
"""Version, length, export time, sequence number, observation domain (RFC 7011 §3.1)."""
_BURST = 16
"""Datagrams sent without a pause."""


@dataclass(slots=True)
class Domain:
    """One observation domain of a transport session."""

    number: int
    sequence: int = 0
    """Data records sent in this session, modulo 2**32."""
    templates_due: float = 0.0
    """When to send templates again, by time.monotonic."""

    def message(self, content: bytes, records: int) -> bytes:
        """A message with `content`: sets with `records` data records."""
        length = _HEADER.size + len(content)
        head = _HEADER.pack(IPFIX, length, int(time.time()), self.sequence, self.number)
        self.sequence = (self.sequence + records) % 2**32
        return head + content


class Ipfix(Destination):
    """One collector of IPFIX."""

    Settings = IpfixSettings
    settings: IpfixSettings
    _client: Connection

    def __init__(self, settings: IpfixSettings, context: Context) -> None:
        super().__init__(settings, context)
        self._domains: dict[int, Domain] = {}
        self._sets = sets(settings.enterprise)

    def connect(self) -> None:
        """Begin a transport session; over UDP this shows nothing about the collector."""
        self.close()
        settings = self.settings
        self._client = Connection(settings.url, settings, settings.timeout_seconds)
        self._domains = {}

    def send(self, block: EventBlock) -> None:
        """Send a block; over TCP, return once the collector's machine has acknowledged it."""
        settings = self.settings
        domain = self._domains.get(block.shard)
        if domain is None:
            domain = self._domains[block.shard] = Domain(settings.observation_domain + block.shard)
        messages = [*self._templates(domain), *self._data(domain, block)]
        if self._client.is_udp:
            for at in range(0, len(messages), _BURST):
                burst = messages[at : at + _BURST]
                self._client.send(burst)
                time.sleep(len(burst) / settings.messages_per_second)
        else:
            self._client.send(messages)
        self.context.count("bytes_total", sum(map(len, messages)))

    def _templates(self, domain: Domain) -> Iterator[bytes]:
        """Messages with templates: at the start of a session, over UDP every `template_seconds`."""
        now = time.monotonic()
        if domain.templates_due > now:
            return
        again = self.settings.template_seconds if self._client.is_udp else float("inf")
        domain.templates_due = now + again
        content, records = b"", 0
        for each, count in self._sets:
            if content and _HEADER.size + len(content) + len(each) > self.settings.message_bytes:
                yield domain.message(content, records)
                content, records = b"", 0
            content, records = content + each, records + count
        yield domain.message(content, records)

    def _data(self, domain: Domain, block: EventBlock) -> Iterator[bytes]:
        """Messages with data records of one template each."""
        for template, records in data_records(block.records):
            size = template.layout.itemsize
            most = (self.settings.message_bytes - _HEADER.size - SET.size) // size
            raw = records.tobytes()
            for at in range(0, len(raw), most * size):
                part = raw[at : at + most * size]
                yield domain.message(encode_set(template.number, part), len(part) // size)

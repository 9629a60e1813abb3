"""Compiles the kernels of direct telemetry access by calling them; once per machine, about a minute."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...direct.primitive import WriterStart, load
from ...direct.primitives.cardinality import CardinalityLayout
from ...direct.primitives.key_increment import KeyIncrementWriter
from ...direct.reporter import Reporter
from ...direct.stores.store import Layout, Store
from ...direct.translation.acknowledge import Acknowledger
from ...direct.translation.rate import TokenBucket
from ...direct.translation.sequence import SequenceTracker
from ...direct.translation.translator import Translator
from ...direct.transport import MemoryTransport
from ...rdma.advertisement import RemoteRegion, encode
from ...rdma.endpoint import Endpoint
from ...rdma.notices import create_notices
from ...rdma.records import VERB, Verb, VerbBlock, VerbFlag
from ...wire.address import number_of
from ...wire.dta.forms import Form
from ...wire.dta.parser import DtaParser

_ENDS = ("127.0.0.1", "127.0.0.2")
_STEP_NS = 1_000_000
_TIMEOUT_NS = 2_000_000_000
"""Longer than a requester waits for an answer."""
_LONG = 3000
"""Bytes of a write that is split into a first, a middle and a last packet."""


def warm_rdma() -> None:
    """Two endpoints in memory: connect, advertise a region, every kind of verb, disconnect."""
    nic, asking = Endpoint(_ENDS[0], notices=create_notices(None)), Endpoint(_ENDS[1])
    memory = np.zeros(1 << 13, np.uint8)
    row = nic.table.add(memory)[0]
    region = RemoteRegion("warm", int(row["base"]), int(row["length"]), int(row["key"]), int(row["access"]))
    nic.serve(1, lambda connection: encode([region], connection.path_mtu))
    now = 0
    session = asking.connect(_ENDS[0], 1, now)

    def turns(count: int) -> None:
        nonlocal now
        for _ in range(count):
            now += _STEP_NS
            for name, source, to in ((_ENDS[1], asking, nic), (_ENDS[0], nic, asking)):
                for batch in source.frames(now):
                    batch.frames["source_hi"] = number_of(name) >> 64
                    batch.frames["source_lo"] = number_of(name) & (1 << 64) - 1
                    to.receive(batch, now, now)

    turns(10)
    verbs = np.zeros(4, VERB)
    verbs["kind"] = Verb.WRITE, Verb.WRITE, Verb.FETCH_ADD, Verb.CMP_SWAP
    verbs["length"] = 8, _LONG, 8, 8
    verbs["flags"][0] = VerbFlag.IMMEDIATE
    session.submit(VerbBlock(verbs, np.zeros(_LONG, np.uint8), np.array([4, _LONG], np.uint64)))
    list(asking.frames(now))  # lost: sent again after a timeout
    now += _TIMEOUT_NS
    turns(10)
    asking.disconnect(session, now)
    turns(5)


def warm_progress(layouts: Sequence[Layout]) -> None:
    """The NIC's summary of store contents, on private memory."""
    for layout in {layout.opcode: layout for layout in layouts}.values():
        load()[layout.opcode].progress(Store.create(None, type(layout).sized(1 << 20)))


def warm_translator(layouts: Sequence[Layout], form: Form, *, combined: bool = False) -> None:
    """One report of every primitive through parser and translator, into private memory shared by two
    collectors. `combined`: additions to counters are combined.
    """
    small = {layout.opcode: type(layout).sized(1 << 20, collectors=2) for layout in layouts}
    stores = [Store.create(None, layout) for layout in small.values()]
    acknowledger = Acknowledger(SequenceTracker(form)) if form.sequence_bits else None
    translator = Translator(list(small.values()), [MemoryTransport(stores)] * 2)
    for route, writer in zip(translator.routes, translator.writers, strict=True):
        if isinstance(writer, KeyIncrementWriter) and combined:
            writer.combine()
        writer.begin(0, WriterStart(1))
        writer.begin(0, WriterStart(1, stores[route.at[0][1]].memory))
    reporter, parser = Reporter(form, first=1), DtaParser(form)
    key, value = np.zeros((2, 4), np.uint8), np.zeros((2, 4), np.uint8)
    for batch in (
        reporter.key_write(key, value, redundancy=1),
        reporter.append(np.zeros(2, np.uint32), value),
        reporter.key_increment(key, np.ones(2, np.uint64), redundancy=1),
        reporter.postcard(key, 1, value),
        *((reporter.report(CardinalityLayout.opcode, key, value),) if form is Form.SIZED else ()),
    ):
        reports = parser.parse(batch)
        if acknowledger is not None:
            acknowledger.track(reports, parser.frames)
        translator.translate(reports, batch.arena, parser.frames)
        if acknowledger is not None:
            acknowledger.answers(reports, parser.frames)
    translator.flush()
    translator.limit = TokenBucket(1)
    reports["reason"] = 0  # reports without a store of their primitive were rejected
    translator.translate(reports, batch.arena, parser.frames)

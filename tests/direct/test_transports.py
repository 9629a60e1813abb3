"""Both transports leave the same bytes: all primitives, into memory and over RoCEv2 through real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.direct.primitive import WriterStart, load
from hopscope.direct.primitives.append import AppendLayout, AppendWriter, ListReader, ListsReader
from hopscope.direct.primitives.key_write import query
from hopscope.direct.reporter import Reporter
from hopscope.direct.stores.query import attach_any_epoch
from hopscope.direct.stores.spec import StoreSpec, parse_store, split_store
from hopscope.direct.stores.store import WRITES, Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.memory.counter_region import CounterRegion
from hopscope.rdma.records import VerbBlock
from hopscope.runtime.direct.local import LocalStores
from hopscope.runtime.direct.nic import NicProcess
from hopscope.runtime.direct.output import TranslatorOptions
from hopscope.runtime.direct.remote import ALIVE_NS, RemoteStores
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.runtime.direct.warm import warm_progress, warm_rdma, warm_translator
from hopscope.settings.direct import DirectSettings, NicSettings, StoreSettings, TranslatorSettings
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.dta.records import DTA
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FrameBatch, Records
from support.network.loopback import own_host
from support.waiting import HANG_SECONDS

pytestmark = pytest.mark.kernel
SPECS = (
    "flows=key-write,slots=4096,data_bytes=20,copies=3",
    "swaps=key-write,slots=4096,data_bytes=4,copies=2,variant=swap",
    "paths=postcarding,chunks=512,copies=2",
    "events=append,lists=40,batches=64,data_bytes=18",
    "counters=key-increment,slots=2048,copies=2",
    "sketches=cardinality,sketches=2,precision=9",
)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """No connection waits for a compilation: it takes longer than the timers of RoCEv2 allow."""
    warm_rdma()
    warm_progress([spec.layout for spec in specs_of(*SPECS)])
    warm_translator([spec.layout for spec in specs_of(*SPECS)], Form.SIZED)


def traffic(rng: np.random.Generator, reporter: Reporter, count: int) -> Iterator[FrameBatch]:
    """Reports of all primitives, in turns."""
    for _ in range(3):
        keys = rng.integers(0, 256, (count, 13), np.uint8)
        some = rng.integers(0, count, count)
        yield reporter.key_write(
            keys, rng.integers(0, 256, (count, 20), np.uint8), redundancy=3, immediate=True
        )
        yield reporter.key_write(keys, keys[:, :4], redundancy=rng.integers(1, 3, count))
        hops = np.tile(np.arange(1, 6), count // 5)
        yield reporter.postcard(
            np.repeat(keys[: count // 5], 5, axis=0), hops, rng.integers(0, 256, (len(hops), 4), np.uint8),
            redundancy=2,
        )  # fmt: skip
        yield reporter.append(rng.integers(0, 41, count).astype(np.uint32), keys[:, :1].repeat(18, axis=1))
        yield reporter.key_increment(keys[some % 50], some.astype(np.uint64), redundancy=2, immediate=True)
        yield reporter.report(16, np.array([[0, 0, 0, 1]], np.uint8).repeat(count, axis=0), keys)


def specs_of(*texts: str) -> list[StoreSpec]:
    return [parse_store(text) for text in texts]


@contextmanager
def nic_at(folder: Path, host: str, specs: list[StoreSpec]) -> Iterator[NicProcess]:
    """A software NIC on a loopback address, in a thread."""
    settings = DirectSettings(nic=NicSettings(hosts=(host,)))
    nic, stop = NicProcess(settings, folder, specs), threading.Event()
    nic.open()
    thread = threading.Thread(target=nic.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield nic
    finally:
        stop.set()
        thread.join(HANG_SECONDS)


def remote(folder: Path, own: str, *collectors: str, **options: object) -> TranslatorProcess:
    """A translator that writes to these collectors."""
    settings = DirectSettings(
        translator=TranslatorSettings(
            host=own, port=0, form="sized", transport="rocev2", collectors=collectors, address=own, **options  # type: ignore[arg-type]
        )
    )  # fmt: skip
    process = TranslatorProcess(settings, folder)
    process.batch_timeout_ns = 20_000_000_000
    process.open()
    return process


def connected(process: TranslatorProcess, collectors: int = 1) -> None:
    """Turn until so many collectors are connected."""
    until = time.monotonic() + HANG_SECONDS
    while int(np.count_nonzero(process.translator.fanout.down == 0)) < collectors or not process.output.ready:
        assert time.monotonic() < until, "no connection"
        process.output.tick(time.time_ns())
        if not process.output.turn():
            time.sleep(0.001)


def drained(process: TranslatorProcess) -> None:
    """Flush, and turn until everything is acknowledged."""
    until = time.monotonic() + HANG_SECONDS
    while not process.translator.flush() or not process.output.idle():
        assert time.monotonic() < until, "not everything is acknowledged"
        if not process.output.turn():
            time.sleep(0.0005)


def test_regions_are_equal_byte_for_byte(tmp_path: Path) -> None:
    """The same reports: stores of this process, and those after sockets, a NIC, and RoCEv2."""
    specs = specs_of(*SPECS)
    stores = [Store.create(None, spec.layout) for spec in specs]
    local = Translator([spec.layout for spec in specs], MemoryTransport(stores))
    parser = DtaParser(Form.SIZED)
    with nic_at(tmp_path / "nic", own_host(11), specs) as nic:
        process = remote(tmp_path / "translator", own_host(12), own_host(11))
        connected(process)
        for writer in (*local.writers, *process.translator.writers):
            writer.begin(0, WriterStart(77))
        for batch in traffic(np.random.default_rng(40), Reporter(Form.SIZED, first=1), 1000):
            local.translate(parser.parse(batch), batch.arena, parser.frames)
            process.intakes[0].step(batch, time.monotonic_ns())
        local.flush()
        drained(process)
        for name, store in zip(nic.stores, stores, strict=True):
            assert store.memory.any(), name
            assert (nic.stores[name].memory == store.memory).all(), name
        assert (process.translator.rejected == local.rejected).all()
        assert process.translator.rejected[DtaReason.BAD_LIST] > 0
        assert process.translator.rejected[DtaReason.CONGESTED] == 0
        process.counted.collect(process)
        counted: CounterRegion = process.counted
        assert (
            counted["dta_verbs_total.write"]
            + counted["dta_verbs_total.fetch_add"]
            + counted["dta_verbs_total.cmp_swap"]
            == counted["rdma_verbs_total"]
        )
        process.close()
    assert counted["dta_connections_total"] == 1


def test_a_collector_that_dies_is_connected_again(tmp_path: Path) -> None:
    """While it is away its reports are counted; the other one goes on; then both have what is theirs."""
    specs = specs_of("flows=key-write,slots=65536,collectors=2,copies=1")
    keys = np.arange(4000, dtype=">u8").view(np.uint8).reshape(-1, 8)
    reporter = Reporter(Form.SIZED, first=1)
    process = remote(tmp_path / "translator", own_host(23), own_host(21), own_host(22))
    process.intakes[0].step(reporter.key_write(keys[:100], keys[:100, 4:]), 0)
    assert process.translator.rejected[DtaReason.NO_COLLECTOR] == 100
    with nic_at(tmp_path / "one", own_host(21), specs) as one:
        with nic_at(tmp_path / "two", own_host(22), specs):
            connected(process, 2)
            process.intakes[0].step(reporter.key_write(keys, keys[:, 4:]), time.monotonic_ns())
            drained(process)
        until = time.monotonic() + HANG_SECONDS
        while not process.translator.fanout.any_down:
            assert time.monotonic() < until
            process.output.turn()
            process.output.tick(time.time_ns())
        before = one.stores["flows"].memory.copy()
        process.intakes[0].step(reporter.key_write(keys, keys[:, :4]), time.monotonic_ns())
        drained(process)
        away = int(process.translator.rejected[DtaReason.NO_COLLECTOR]) - 100
        assert abs(away - 2000) < 4 * np.sqrt(4000 / 4)
        assert (one.stores["flows"].memory != before).any()
        with nic_at(tmp_path / "two", own_host(22), specs) as two:
            connected(process, 2)
            process.intakes[0].step(reporter.key_write(keys, keys[:, :4]), time.monotonic_ns())
            drained(process)
            held = [int(np.count_nonzero(nic.stores["flows"].memory.view("<u8"))) for nic in (one, two)]
            assert 3700 < sum(held) <= 4000
            assert abs(held[1] - away) < 150
            process.close()
    assert process.counted["dta_connections_total"] == 3
    assert process.counted["dta_lost_connections_total"] == 1


def test_a_collector_that_comes_back_with_other_stores_is_written_as_it_says(tmp_path: Path) -> None:
    """Its layout is learned again when no one else is connected; counters go on."""
    keys = np.arange(200, dtype=">u8").view(np.uint8).reshape(-1, 8)
    reporter = Reporter(Form.SIZED, first=1)
    process = remote(tmp_path / "translator", own_host(32), own_host(31))
    for folder, slots, data_bytes in (("one", 4096, 4), ("two", 8192, 8)):
        specs = specs_of(f"flows=key-write,slots={slots},data_bytes={data_bytes},copies=1")
        with nic_at(tmp_path / folder, own_host(31), specs) as nic:
            connected(process)
            process.intakes[0].step(reporter.key_write(keys, keys[:, :data_bytes]), time.monotonic_ns())
            drained(process)
            assert query(nic.stores["flows"], keys).found.mean() > 0.9
        until = time.monotonic() + HANG_SECONDS
        while not process.translator.fanout.any_down:
            assert time.monotonic() < until
            process.output.turn()
            process.output.tick(time.time_ns())
    process.close()
    assert process.counted["dta_translated_total.key-write"] == 400
    assert process.counted["dta_verbs_total.write"] == 400


def turned(process: TranslatorProcess, *nics: NicProcess, until: Callable[[], bool]) -> None:
    """Turn all of them, in this thread."""
    last = time.monotonic() + HANG_SECONDS
    while not until():
        assert time.monotonic() < last, "it did not come about"
        process.output.tick(time.time_ns())
        moved = process.output.turn()
        for nic in nics:
            moved += nic.turn()
        if not moved:
            time.sleep(0.0005)


@contextmanager
def opened(folder: Path, host: str, specs: list[StoreSpec]) -> Iterator[NicProcess]:
    """A software NIC that the test turns."""
    nic = NicProcess(DirectSettings(nic=NicSettings(hosts=(host,))), folder, specs)
    nic.open()
    try:
        yield nic
    finally:
        nic.ports.close()
        nic._stores.close()


def every_entry(store: Store) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    """Lists and data of all entries of a store."""
    assert isinstance(store.layout, AppendLayout)
    return ListsReader(store, np.arange(store.layout.lists), "oldest").poll(1 << 16)


def test_answers_are_equal_in_every_epoch(tmp_path: Path) -> None:
    """Four epochs, all primitives, batches that are half full at their end: both transports have the same
    memory, entries of lists and registers included.
    """
    specs = specs_of(*SPECS)
    settings = DirectSettings(
        stores=tuple(
            StoreSettings(name=name, primitive=primitive, options=dict(options))
            for name, primitive, options in map(split_store, SPECS)
        )
    )
    local = LocalStores(settings, tmp_path / "local", TranslatorOptions.of(settings, lambda: False))
    parser = DtaParser(Form.SIZED)
    with opened(tmp_path / "nic", own_host(41), specs) as nic:
        process = remote(tmp_path / "translator", own_host(42), own_host(41))
        turned(process, nic, until=lambda: process.output.ready)
        rng, reporter = np.random.default_rng(41), Reporter(Form.SIZED, first=1)
        for epoch in range(4):
            for batch in traffic(rng, reporter, 300):
                local.translator.translate(parser.parse(batch), batch.arena, parser.frames)
                turned(process, nic, until=process.output.idle)
                process.intakes[0].step(
                    batch, time.monotonic_ns()
                )  # the last one is on its way when the epoch ends
            for keeper in (*local.stores.keepers, *nic._stores.keepers):
                keeper.swap(time.time_ns())
            turned(process, nic, until=lambda: not any(map(nic._is_moving, range(len(specs)))))
            turned(process, nic, until=process.output.idle)
            nic.tick(time.time_ns() + 1)
            assert process.output.connections == {"made": 1, "lost": 0}  # type: ignore[attr-defined]
            for ours in (*local.stores.keepers, *nic._stores.keepers):
                ours._thread.submit(lambda: None).result()
            for name in nic.stores:
                here = attach_any_epoch(tmp_path / "local", name, epoch)
                there = attach_any_epoch(tmp_path / "nic", name, epoch)
                assert here.memory.any(), name
                assert there.state[WRITES] == here.state[WRITES], (epoch, name)
                if name == "events":
                    lists = [every_entry(store) for store in (here, there)]
                    assert len(lists[0][0]) > 500
                    assert all((a == b).all() for a, b in zip(*lists, strict=True))
                else:
                    assert (there.memory == here.memory).all(), (epoch, name)
        process.close()
    local.close()


def test_lists_go_on_after_a_reconnect(tmp_path: Path) -> None:
    """A translator is killed and started again, and a collector reconnects: every entry that was written
    stays readable, and lists of the other collector are not touched.
    """
    specs = specs_of("lists=append,lists=2,batches=64,collectors=2")
    reporter = Reporter(Form.SIZED, first=1)
    hosts = (own_host(51), own_host(52))

    def entries(store: Store, number: int) -> list[int]:
        return ListReader(store, number, "oldest").read(4096)[0][:, 3].tolist()

    def run(nics: Sequence[NicProcess], own: str, first: int) -> None:
        """Write 80 entries; after each half, the first collector's connection ends and is made again."""
        process = remote(tmp_path / own, own, *hosts)
        turned(process, *nics, until=lambda: not process.translator.fanout.any_down)
        for begin in (first, first + 40):
            values = np.arange(begin, begin + 40, dtype=">u4").view(np.uint8).reshape(-1, 4)
            process.intakes[0].step(
                reporter.append(np.arange(40, dtype=np.uint32) % 2, values), time.monotonic_ns()
            )
            turned(process, *nics, until=lambda: process.translator.flush() and process.output.idle())
            session = process.output._sessions[0]  # type: ignore[attr-defined]
            process.output._endpoint.disconnect(session, time.monotonic_ns())  # type: ignore[attr-defined]
            turned(process, *nics, until=lambda: process.translator.fanout.any_down)
            turned(process, *nics, until=lambda: not process.translator.fanout.any_down)
        process.intakes[0].close()
        process.output._socket.close()  # type: ignore[attr-defined]

    with opened(tmp_path / "a", hosts[0], specs) as one, opened(tmp_path / "b", hosts[1], specs) as two:
        sent = 240
        for number in range(3):
            run((one, two), own_host(53 + number), 80 * number)
        assert entries(one.stores["lists"], 0) == list(range(0, sent, 2))
        assert entries(two.stores["lists"], 1) == list(range(1, sent, 2))


def test_an_idle_collector_that_dies_is_noticed(tmp_path: Path) -> None:
    """Nothing is sent to it: a message without content asks whether it is there."""
    with opened(tmp_path / "nic", own_host(61), specs_of("lists=append,lists=2,batches=64")) as nic:
        process = remote(tmp_path / "translator", own_host(62), own_host(61))
        turned(process, nic, until=lambda: process.output.ready)
        output = process.output
        assert isinstance(output, RemoteStores)
        session = output._sessions[0]
        assert session is not None
        assert session.requester is not None
        session.requester._retries = 1
        later = time.monotonic_ns() + 2 * ALIVE_NS
        output._keep_alive(0, session, later)
        turned(process, nic, until=lambda: session.idle)
        assert session.lost == ""
        output._keep_alive(0, session, later + ALIVE_NS)
        assert not session.idle
        turned(process, until=lambda: process.translator.fanout.any_down)
        assert str(session.lost) == "no answer, 1 times"
        process.intakes[0].close()
        output._socket.close()


def test_a_collector_that_does_not_fit_is_named_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store is for one collector, two are written to: one line says what to give it, however often it
    connects.
    """
    monkeypatch.setattr("hopscope.runtime.direct.remote.RETRY_NS", 0)
    lines: list[str] = []
    with opened(tmp_path / "nic", own_host(63), specs_of("paths=key-write,slots=64")) as nic:
        process = remote(tmp_path / "translator", own_host(64), own_host(63), own_host(65))
        output = process.output
        assert isinstance(output, RemoteStores)
        monkeypatch.setattr(output, "_notify", lines.append)
        for _ in range(3):
            turned(process, nic, until=lambda: output._sessions[0] is not None)
            turned(process, nic, until=lambda: output._sessions[0] is None)
        process.intakes[0].close()
        output._socket.close()
    said = [line for line in lines if own_host(63) in line]
    assert len(said) == 1
    assert "store paths has collectors=1, but 2 are written to: give it collectors=2" in said[0]


def test_collectors_with_other_stores_are_told_apart(tmp_path: Path) -> None:
    """Of the same name and primitive: the line says where the second one's store differs."""
    hosts = own_host(71), own_host(72)
    lines: list[str] = []
    first, second = (specs_of(f"paths=key-write,slots={slots},collectors=2") for slots in (64, 65))
    with opened(tmp_path / "a", hosts[0], first) as one, opened(tmp_path / "b", hosts[1], second) as two:
        process = remote(tmp_path / "translator", own_host(73), *hosts)
        output = process.output
        assert isinstance(output, RemoteStores)
        output._notify = lines.append
        turned(process, one, until=lambda: output.ready)
        turned(process, one, two, until=lambda: any("announces" in line for line in lines))
        process.intakes[0].close()
        output._socket.close()
    assert lines[-1] == (
        f"collector {hosts[1]}: it announces paths=key-write,collectors=2,slots=65, "
        "the first collector paths=key-write,collectors=2,slots=64; trying again"
    )


def test_packets_that_are_not_of_a_connection_are_counted(tmp_path: Path) -> None:
    """From a collector's address they are rejected, from another one denied; the connection goes on."""
    collector, own = own_host(66), own_host(67)
    with opened(tmp_path / "nic", collector, specs_of("paths=key-write,slots=64")) as nic:
        process = remote(tmp_path / "translator", own, collector)
        output = process.output
        assert isinstance(output, RemoteStores)
        turned(process, nic, until=lambda: not process.translator.fanout.any_down and output.idle())
        before = output.received
        for source in (collector, own_host(68)):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.bind((source, 0))
                sender.sendto(b"\xff" * 40, (own, 4791))
        turned(process, nic, until=lambda: (output.received - before)["denied"] == 1)
        turned(process, nic, until=lambda: (output.received - before)["rejected"] == 1)
        assert not process.translator.fanout.any_down
        process.intakes[0].close()
        output._socket.close()


def test_entries_that_a_connection_lost_are_counted() -> None:
    """The writer had numbered 32 entries, 16 have arrived: it goes on with the next batch and the reader
    counts 16 as lost.
    """
    layout = AppendLayout(batches=8, batch=4)
    store = Store.create(None, layout)
    transport, writer = MemoryTransport([store]), AppendWriter(layout, [0])
    writer.begin(0, WriterStart(5))

    def write(first: int, count: int, *, arrive: bool) -> None:
        reports: Records = np.zeros(count, DTA)
        arena = np.arange(first, first + count, dtype=">u4").view(np.uint8)
        reports["data_at"], reports["data_bytes"] = np.arange(count) * 4, 4
        block = VerbBlock.of(*writer.room(count))
        writer.write(reports, np.arange(count, dtype=np.uint32), arena, block)
        if arrive:
            transport.submit(block)

    write(0, 16, arrive=True)
    write(16, 16, arrive=False)
    writer.begin(0, WriterStart(6, progress=load()[layout.opcode].progress(store)))
    write(32, 4, arrive=True)
    entries, lost = ListReader(store, 0, "oldest").read(4096)
    assert entries[:, 3].tolist() == [*range(16), *range(32, 36)]
    assert lost == 16

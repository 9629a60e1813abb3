"""Both transports leave the same bytes: all primitives, into memory and over RoCEv2 through real sockets."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from hopscope.direct.counters import TranslatorCounters
from hopscope.direct.primitives.key_write import query
from hopscope.direct.reporter import Reporter
from hopscope.direct.stores.spec import StoreSpec, parse_store
from hopscope.direct.stores.store import Store
from hopscope.direct.translation.translator import Translator
from hopscope.direct.transport import MemoryTransport
from hopscope.runtime.direct.nic import NicProcess
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.settings.direct import DirectSettings, NicSettings, TranslatorSettings
from hopscope.wire.dta.codec import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FrameBatch
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
    settings = DirectSettings(nic=NicSettings(host=host))
    nic, stop = NicProcess(settings, folder, specs), threading.Event()
    nic.open()
    thread = threading.Thread(target=nic.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield nic
    finally:
        stop.set()
        thread.join(20)


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
    with nic_at(tmp_path / "nic", "127.40.1.1", specs) as nic:
        process = remote(tmp_path / "translator", "127.40.1.2", "127.40.1.1")
        connected(process)
        for writer in (*local.writers, *process.translator.writers):
            writer.begin([None], 77)
        for batch in traffic(np.random.default_rng(40), Reporter(Form.SIZED, first=1), 1000):
            local.translate(parser.parse(batch), batch.arena, parser.frames)
            process.step(batch, time.monotonic_ns())
        local.flush()
        drained(process)
        for name, store in zip(nic.stores, stores, strict=True):
            assert store.memory.any(), name
            assert (nic.stores[name].memory == store.memory).all(), name
        assert (process.translator.rejected == local.rejected).all()
        assert process.translator.rejected[DtaReason.BAD_LIST] > 0
        assert process.translator.rejected[DtaReason.CONGESTED] == 0
        process.counted.collect(process)
        counted: TranslatorCounters = process.counted
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
    process = remote(tmp_path / "translator", "127.40.2.3", "127.40.2.1", "127.40.2.2")
    process.step(reporter.key_write(keys[:100], keys[:100, 4:]), 0)
    assert process.translator.rejected[DtaReason.NO_COLLECTOR] == 100
    with nic_at(tmp_path / "one", "127.40.2.1", specs) as one:
        with nic_at(tmp_path / "two", "127.40.2.2", specs):
            connected(process, 2)
            process.step(reporter.key_write(keys, keys[:, 4:]), time.monotonic_ns())
            drained(process)
        until = time.monotonic() + HANG_SECONDS
        while not process.translator.fanout.any_down:
            assert time.monotonic() < until
            process.output.turn()
            process.output.tick(time.time_ns())
        before = one.stores["flows"].memory.copy()
        process.step(reporter.key_write(keys, keys[:, :4]), time.monotonic_ns())
        drained(process)
        away = int(process.translator.rejected[DtaReason.NO_COLLECTOR]) - 100
        assert abs(away - 2000) < 4 * np.sqrt(4000 / 4)
        assert (one.stores["flows"].memory != before).any()
        with nic_at(tmp_path / "two", "127.40.2.2", specs) as two:
            connected(process, 2)
            process.step(reporter.key_write(keys, keys[:, :4]), time.monotonic_ns())
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
    process = remote(tmp_path / "translator", "127.40.3.2", "127.40.3.1")
    for folder, slots, data_bytes in (("one", 4096, 4), ("two", 8192, 8)):
        specs = specs_of(f"flows=key-write,slots={slots},data_bytes={data_bytes},copies=1")
        with nic_at(tmp_path / folder, "127.40.3.1", specs) as nic:
            connected(process)
            process.step(reporter.key_write(keys, keys[:, :data_bytes]), time.monotonic_ns())
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

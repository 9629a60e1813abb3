"""The translator as a process: every report that comes is written or counted as refused."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.capture.errors import CaptureError
from hopscope.capture.udp.listener import UdpSender
from hopscope.direct.counters import TRANSLATOR_COUNTERS
from hopscope.direct.primitives import key_increment, postcarding
from hopscope.direct.primitives.append import ListReader
from hopscope.direct.primitives.append_layout import AppendLayout
from hopscope.direct.primitives.key_write import query
from hopscope.direct.reporter import Reporter
from hopscope.direct.stores.answers import Status
from hopscope.direct.stores.epochs import epochs
from hopscope.direct.stores.folder import read_store
from hopscope.direct.stores.query import read_list
from hopscope.direct.stores.store import StoreError
from hopscope.direct.translation import translator_kernel
from hopscope.runtime.direct.local import LocalStores
from hopscope.runtime.direct.translator import TranslatorProcess
from hopscope.runtime.direct.warm import warm_translator
from hopscope.settings.direct import (
    DirectSettings,
    HeavyHitterSettings,
    PathSumSettings,
    RuleSettings,
    StoreSettings,
    TranslatorSettings,
)
from hopscope.wire.dta.forms import Form
from hopscope.wire.reasons import DtaReason
from hopscope.wire.records import FRAME, FrameBatch, Link, Records
from support.network.loopback import own_host
from support.waiting import HANG_SECONDS, eventually

pytestmark = pytest.mark.kernel


def sized(
    opcode: int, keys: npt.NDArray[np.uint8], values: npt.NDArray[np.uint8], **fields: int
) -> FrameBatch:
    """Datagrams of the form with lengths: keys uint8 [n, k], values uint8 [n, d]."""
    count, first = len(keys), fields.get("first", 1)
    header = np.zeros((count, 12), np.uint8)
    header[:, 0], header[:, 2], header[:, 3] = opcode, keys.shape[1], values.shape[1]
    header[:, 1] = fields.get("flags", 0)
    header[:, 4:8] = np.arange(first, first + count, dtype=">u4").view(np.uint8).reshape(-1, 4)
    header[:, 8], header[:, 9] = fields.get("redundancy", fields.get("hop", 0)), fields.get("length", 0)
    rows = np.concatenate([header, keys, values], axis=1)
    frames: Records = np.zeros(count, FRAME)
    frames["offset"] = np.arange(count) * rows.shape[1]
    frames["length"] = frames["wire_length"] = rows.shape[1]
    frames["link"] = Link.UDP_PAYLOAD
    return FrameBatch(np.ascontiguousarray(rows).reshape(-1), frames)


def numbers(first: int, count: int, width: int = 8) -> npt.NDArray[np.uint8]:
    """Big-endian numbers, uint8 [count, width]."""
    return np.arange(first, first + count, dtype=">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :].copy()


def settings(**translator: object) -> DirectSettings:
    """One store of each primitive."""
    stores = (
        ("flows", "key-write", {"slots": 1 << 16, "copies": 2}),
        ("events", "append", {"lists": 10, "batches": 1 << 11}),
        ("hosts", "key-increment", {"slots": 1 << 16}),
        ("paths", "postcarding", {"chunks": 1 << 16}),
        ("who", "cardinality", {"sketches": 4}),
    )
    return DirectSettings(
        stores=tuple(StoreSettings(name=n, primitive=p, options=dict(o)) for n, p, o in stores),
        translator=TranslatorSettings(port=0, form="sized", **translator),  # type: ignore[arg-type]
    )


def test_reports_from_a_socket_are_answered_and_counted(tmp_path: Path) -> None:
    """Good, damaged and unknown ones: received is translated plus refused; counters outlive a restart."""
    for run in range(2):
        process = TranslatorProcess(settings(), tmp_path)
        process.open()
        stop = threading.Event()
        thread = threading.Thread(target=process.run, args=(stop,), daemon=True)
        thread.start()
        keys = numbers(1000 * run, 500)
        with closing(UdpSender("127.0.0.1", process.port)) as sender:
            sender.send(sized(1, keys, keys[:, 4:], redundancy=2))
            sender.send(sized(1, keys[:50], keys[:50, 4:], redundancy=3, first=501))
            sender.send(sized(99, keys[:7], keys[:7], first=551))
            cut = sized(1, keys[:3], keys[:3, 4:], redundancy=1, first=558)
            cut.frames["length"] -= 1
            sender.send(cut)
        refused = process.translator.rejected
        eventually(lambda refused=refused: refused.sum() == 560)  # type: ignore[misc]
        stop.set()
        thread.join()
        assert query(read_store(tmp_path, "flows"), keys, copies=2).found.mean() > 0.99
    told = TRANSLATOR_COUNTERS.read(tmp_path)
    assert told["dta_datagrams_total"] == 2 * 560
    assert told["dta_translated_total.key-write"] == 2 * 500
    assert told["dta_rejected_total.bad_redundancy"] == 2 * 50
    assert told["dta_rejected_total.unknown_opcode"] == 2 * 7
    assert told["dta_rejected_total.truncated"] == 2 * 3
    assert told["dta_verbs_total.write"] == 2 * 1000
    assert told["dta_collectors"] == 1


def test_numbers_of_reporters_stay_with_their_workers(tmp_path: Path) -> None:
    """A file of the numbers for each of as many workers: with others, or without numbers, none is left that
    a later process would take for its own.
    """
    for workers, form, files in (
        (1, "sized", ["reporters.1-of-1"]),
        (2, "sized", ["reporters.1-of-2", "reporters.2-of-2"]),
        (2, "3", []),
        (1, "sized", ["reporters.1-of-1"]),
        (1, "2", []),
    ):
        made = settings()
        chosen = made.translator.model_copy(update={"workers": workers, "form": form})
        TranslatorProcess(made.model_copy(update={"translator": chosen}), tmp_path).close()
        assert sorted(path.name for path in tmp_path.glob("reporters.*")) == files


def reporters(count: int) -> list[Reporter]:
    """Switches with loopback addresses of their own."""
    return [
        Reporter(Form.SIZED, first=1, source=f"127.31.{1 + number // 200}.{1 + number % 200}")
        for number in range(count)
    ]


def test_several_workers_write_to_the_same_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hops of a path come from different switches, so from different workers, as do entries of a list and
    additions to a counter; nothing is lost, duplicates are found, and every worker takes some.
    """
    base = settings(workers=3)
    process = TranslatorProcess(base, tmp_path)
    # No path is written early, however slow this machine is; `close` writes what waits.
    monkeypatch.setattr(process, "_flush", lambda now_ns: False)
    process.open()
    stop = threading.Event()
    thread = threading.Thread(target=process.run, args=(stop,))
    thread.start()
    switches, keys = reporters(30), numbers(0, 40)
    try:
        with closing(
            UdpSender("127.0.0.1", process.port, rate=20_000, trains=False, by_source=True)
        ) as sender:
            for number, switch in enumerate(switches):
                first = switch.postcard(
                    keys, number % 5 + 1, np.tile(numbers(number % 5, 1, 4), (40, 1)), path_length=5
                )
                batches = (
                    first,
                    first,
                    switch.append(np.full(40, number % 10), numbers(100 * number, 40, 4)),
                    switch.key_increment(keys, np.ones(40, np.uint64), redundancy=2),
                    switch.key_write(numbers(1000 * number, 40), numbers(number, 40, 4), redundancy=2),
                )
                for batch in batches:
                    sender.send(batch)
                sent = (number + 1) * 5 * 40
                if number % 5 == 4:  # all hops of all paths: a worker that lags would mix in the next ones
                    eventually(lambda: process.translator.rejected.sum() == sent)  # noqa: B023
    finally:
        stop.set()
        thread.join()
    taken = [intake.datagrams for intake in process.intakes]
    assert sum(taken) == sent
    assert all(taken)
    assert process.translator.rejected[DtaReason.DUPLICATE] == 30 * 40
    assert process.translator.rejected[DtaReason.NONE] == 30 * 4 * 40
    paths = postcarding.query(read_store(tmp_path, "paths"), keys, values=range(10))
    assert (paths.path[paths.found] == np.arange(5)).all()
    assert paths.found.all()
    counted = key_increment.query(read_store(tmp_path, "hosts"), keys)
    assert (counted.counter == 30).all()
    lists = read_store(tmp_path, "events")
    for number in range(10):
        entries = [int.from_bytes(bytes(e)) for e in ListReader(lists, number, "oldest").read()[0]]
        assert sorted(entries) == [100 * s + n for s in range(number, 30, 10) for n in range(40)]
        for source in range(number, 30, 10):
            mine = [entry for entry in entries if entry // 100 == source]
            assert mine == sorted(mine)
    every = np.concatenate([numbers(1000 * number, 40) for number in range(30)])
    data = np.concatenate([numbers(number, 40, 4) for number in range(30)])
    answers = query(read_store(tmp_path, "flows"), every, copies=2)
    assert (answers.data[answers.found] == data[answers.found]).all()
    assert answers.found.mean() > 0.99  # both slots of a key may be another's


def test_a_worker_that_fails_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a thread raises, the loop raises."""
    process = TranslatorProcess(settings(workers=2), tmp_path)
    process.open()

    def fail() -> int:
        raise CaptureError("the socket is gone")

    monkeypatch.setattr(process.intakes[1], "turn", fail)
    with pytest.raises(CaptureError, match="the socket is gone"):
        process.run(threading.Event())


def test_a_rule_may_name_a_port(tmp_path: Path) -> None:
    """The translator listens there, too; the port chooses the store."""
    host, port = own_host(1), 41_000
    stores = tuple(StoreSettings(name=name, primitive="key-write", options={"slots": 1024}) for name in "ab")
    rules = (RuleSettings(store="a", port=port), RuleSettings(store="b", port=port + 1))
    translator = TranslatorSettings(host=host, port=port, rules=rules, workers=2)
    process = TranslatorProcess(DirectSettings(stores=stores, translator=translator), tmp_path)
    process.open()
    keys, reporter = numbers(0, 8), Reporter(Form.SIZED, first=1)
    for name, to in (("a", port), ("b", port + 1)):
        with closing(UdpSender(host, to)) as sender:
            sender.send(reporter.key_write(keys, keys[:, 4:], redundancy=2))

        def taken(name: str = name) -> bool:
            for intake in process.intakes:
                intake.turn()
            return bool(query(read_store(tmp_path, name), keys, copies=2).found.all())

        eventually(taken)
        assert not query(read_store(tmp_path, "b"), keys).found.any() or name == "b"
    process.close()


def test_epochs_begin_while_reports_come(tmp_path: Path) -> None:
    """Four epochs that end with batches half full: each entry and increment is in exactly one."""
    base = settings()
    process = TranslatorProcess(base.model_copy(update={"epoch_seconds": 10.0}), tmp_path)
    assert isinstance(process.output, LocalStores)
    reporter, sent = Reporter(Form.SIZED, first=1), 0
    for second in range(40):
        process.output.tick((1000 + second) * 1_000_000_000)
        values = numbers(sent, 137, 4)
        for batch in (
            reporter.append(np.arange(137, dtype=np.uint32) % 10, values),
            reporter.key_increment(values % 16, np.ones(137, np.uint64), redundancy=1),
        ):
            process.intakes[0].step(batch, second)
        sent += 137
        for keeper in process.output.stores.keepers:
            if keeper._next is not None:
                keeper._next.result()  # made in the background; a swap does not wait for it
    process.translator.flush()
    process.output.close()
    process.counted.collect(process)
    lists = list(epochs(tmp_path, "events"))
    assert [store.epoch for store in lists] == [3, 2, 1, 0]
    entries = [
        bytes(entry)
        for store in lists
        for number in range(10)
        for entry in ListReader(store, number, start="oldest").read(1 << 14)[0]
    ]
    assert len(entries) == len(set(entries)) == sent
    added = [int(store.memory.view("<u8").sum()) for store in epochs(tmp_path, "hosts")]
    assert sum(added) == sent
    assert all(added)
    assert process.counted["dta_epochs_total"] == process.counted["dta_saved_epochs_total"] == 15


def test_a_list_is_followed_through_epochs(tmp_path: Path) -> None:
    """Whoever polls it gets each entry once and in order, also what came after the last poll of an epoch, and
    after one without entries.
    """
    process = TranslatorProcess(settings().model_copy(update={"epoch_seconds": 10.0}), tmp_path)
    assert isinstance(process.output, LocalStores)
    reporter, sent = Reporter(Form.SIZED, first=1), 0
    place: str | None = None
    got: list[str] = []

    def poll() -> None:
        nonlocal place
        while True:
            entries, lost, place = read_list(tmp_path, "events", 3, after=place, limit=20)
            assert lost == 0
            if not entries:
                return
            got.extend(entries)

    def swap(epoch: int) -> None:
        assert isinstance(process.output, LocalStores)
        process.output.tick((1000 + 10 * epoch) * 1_000_000_000)
        for keeper in process.output.stores.keepers:
            if keeper._next is not None:
                keeper._next.result()

    poll()
    for epoch, counts in enumerate([(35, 20), (), (5,), (40, 7), ()]):
        swap(epoch)
        for count in counts:
            process.intakes[0].step(
                reporter.append(np.full(count, 3), numbers(sent, count, 4)), time.monotonic_ns()
            )
            sent += count
            process.translator.flush()
            if count != counts[-1]:
                poll()
    poll()
    process.close()
    assert [int(entry, 16) for entry in got] == list(range(sent))


def test_a_flood_does_not_cut_a_stop_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports come as long as they are taken: then the collectors are still waited for."""
    monkeypatch.setattr("hopscope.runtime.direct.translator.DRAIN_SECONDS", 0.05)
    process = TranslatorProcess(settings(), tmp_path)
    process.open()
    busy = iter(range(30))
    monkeypatch.setattr(process, "turn", lambda: 1)
    monkeypatch.setattr(process.output, "idle", lambda: next(busy, None) is None)
    stop = threading.Event()
    stop.set()
    process.run(stop)
    assert next(busy, None) is None


def test_counters_of_another_version_are_begun_anew(tmp_path: Path) -> None:
    """A file that does not fit is no reason to stop."""
    (tmp_path / "translator.counters").write_bytes(b"something else")
    counted = TRANSLATOR_COUNTERS.open(tmp_path)
    counted.put("dta_acks_total", 3)
    assert TRANSLATOR_COUNTERS.open(tmp_path)["dta_acks_total"] == 3
    counters = TRANSLATOR_COUNTERS.counters
    assert len({counter.key for counter in counters}) == len(counters)


def test_damaged_datagrams_are_counted_and_nothing_stops(tmp_path: Path) -> None:
    """20,000 with bytes changed and ends cut, of all primitives: each is translated or has a reason."""
    process = TranslatorProcess(settings(), tmp_path)
    process.open()
    rng, reporter = np.random.default_rng(11), Reporter(Form.SIZED, first=1, source="127.0.0.1")
    keys, received = numbers(0, 1000), 0
    for _ in range(4):
        for batch in (
            reporter.key_write(keys, keys[:, 4:], redundancy=2, retransmit=True),
            reporter.append(np.arange(1000, dtype=np.uint32) % 10, keys[:, 4:]),
            reporter.key_increment(keys, np.ones(1000, np.uint64), redundancy=1, retransmit=True),
            reporter.postcard(keys // 5, np.arange(1000) % 5 + 1, keys[:, 4:], redundancy=1),
            reporter.report(16, numbers(0, 1000, 4) % 4, keys),
        ):
            rows = rng.integers(0, 12, 1000)
            at = batch.frames["offset"] + rows.astype(np.uint64)
            hit = rng.random(1000) < 0.7
            batch.arena[at[hit]] = rng.integers(0, 256, int(hit.sum()), np.uint8)
            short = rng.random(1000) < 0.2
            batch.frames["length"][short] = rng.integers(0, batch.frames["length"][short] + 1)
            process.intakes[0].step(batch, time.monotonic_ns())
            received += len(batch)
    process.close()
    told = {counter.key: process.counted[counter.key] for counter in TRANSLATOR_COUNTERS.counters}
    assert told["dta_datagrams_total"] == received == 20_000
    accounted = ("dta_translated_total", "dta_rejected_total")
    assert sum(n for key, n in told.items() if key.startswith(accounted)) == received
    assert told["dta_rejected_total.truncated"] > 1000
    assert told["dta_translated_total.key-write"] > 500
    assert told["dta_out_of_bounds_verbs_total"] == 0


def test_slow_paths_are_told_as_their_postcards_pass(tmp_path: Path) -> None:
    """Of 100 paths, those whose latencies sum to more than 1000 become entries of a list, with their sum."""
    base = settings(path_sum=PathSumSettings(threshold=1000, latency_bits=16, list=2), adaptive_copies=True)
    lists = StoreSettings(name="events", primitive="append", options={"lists": 3, "data_bytes": 8 + 5 + 20})
    base = base.model_copy(update={"stores": (*base.stores[:1], lists, *base.stores[2:])})
    process = TranslatorProcess(base, tmp_path)
    reporter, keys = Reporter(Form.SIZED, first=1), numbers(0, 100)
    latencies = np.random.default_rng(6).integers(0, 400, (100, 5))
    nodes = np.arange(1, 6) << 16
    values = (latencies + nodes).astype(">u4").view(np.uint8).reshape(500, 4)
    process.intakes[0].step(
        reporter.postcard(keys.repeat(5, axis=0), np.tile(np.arange(1, 6), 100), values, redundancy=1), 1
    )
    process.translator.flush()
    process.output.close()
    process.counted.collect(process)
    entries, _ = ListReader(read_store(tmp_path, "events"), 2, start="oldest").read(1000)
    slow = {
        keys[row].tobytes(): int(latencies[row].sum()) for row in range(100) if latencies[row].sum() > 1000
    }
    told = {bytes(one[:8]): int.from_bytes(bytes(one[8:12])) for one in entries}
    assert told == slow
    assert len(slow) > 20
    assert process.counted["dta_reported_paths_total"] == len(slow)
    assert process.counted["dta_path_sums_total.below"] == 100 - len(slow)
    assert process.counted["dta_translated_total.append"] == 0


def test_heavy_hitters_are_told_while_increments_are_combined(tmp_path: Path) -> None:
    """A key whose reports add up to the threshold is an entry of a list, and its counter is whole in the end:
    several additions were one operation.
    """
    base = settings(combine_increments=True, heavy_hitters=HeavyHitterSettings(threshold=100, list=2))
    lists = StoreSettings(name="events", primitive="append", options={"lists": 3, "data_bytes": 16})
    base = base.model_copy(update={"stores": (*base.stores[:1], lists, *base.stores[2:])})
    process = TranslatorProcess(base, tmp_path)
    reporter, keys = Reporter(Form.SIZED, first=1), numbers(0, 10)
    for _ in range(20):
        process.intakes[0].step(reporter.key_increment(keys, np.arange(10, dtype=np.uint64), redundancy=1), 1)
    while not process.translator.flush():
        pass
    process.output.close()
    process.counted.collect(process)
    entries, _ = ListReader(read_store(tmp_path, "events"), 2, start="oldest").read(1000)
    heavy = {bytes(one[:8]): int.from_bytes(bytes(one[8:])) for one in entries}
    assert set(heavy) == {keys[row].tobytes() for row in range(5, 10)}
    assert all(100 <= count < 110 for count in heavy.values())
    found = key_increment.query(read_store(tmp_path, "hosts"), keys, copies=1)
    assert found.counter.tolist() == [20 * row for row in range(10)]
    assert process.counted["dta_heavy_hitters_total"] == 5
    assert process.counted["dta_combined_increments_total"] == 190
    assert process.counted["dta_verbs_total.fetch_add"] == 10


def test_slow_paths_need_a_list_with_room(tmp_path: Path) -> None:
    """Entries of 4 bytes hold no path: the start says what is needed."""
    with pytest.raises(StoreError, match="entries of at least 26 B: it has entries of 4"):
        TranslatorProcess(settings(path_sum=PathSumSettings(threshold=1)), tmp_path)


CHILD = """
import signal, sys, threading
from pathlib import Path
sys.path[:0] = {tests!r}
from test_translator import settings
from hopscope.runtime.direct.translator import TranslatorProcess
process = TranslatorProcess(settings(), Path(sys.argv[1]))
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
process.open()
print(process.port, flush=True)
process.run(stop)
"""


def taken(folder: Path) -> int:
    """Datagrams that a translator has received, or that its socket had no room for."""
    told = TRANSLATOR_COUNTERS.read(folder)
    return int(told["dta_datagrams_total"] + told["dta_kernel_drops_total"])


@pytest.mark.e2e
def test_a_hundred_thousand_reports_of_each_primitive(tmp_path: Path) -> None:
    """A process of its own takes them from loopback; after SIGTERM all are accounted for and found."""
    code = CHILD.format(tests=[str(Path(__file__).parent), str(Path(__file__).parents[2])])
    count, reporter = 100_000, Reporter(Form.SIZED, first=1)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        with closing(UdpSender("127.0.0.1", port, rate=120_000, trains=False)) as sender:
            for first in range(0, count, 1000):
                keys = numbers(first, 1000)
                paths = numbers(first // 5, 200).repeat(5, axis=0)
                hops = np.tile(np.arange(1, 6), 200)
                for batch in (
                    reporter.key_write(keys, keys[:, 4:], redundancy=2),
                    reporter.append(np.arange(1000, dtype=np.uint32) % 10, keys[:, 4:]),
                    reporter.key_increment(keys % 16, np.ones(1000, np.uint64), redundancy=1),
                    reporter.postcard(paths, hops, numbers(1, 5, 4)[hops - 1], redundancy=1),
                    reporter.report(16, numbers(0, 1, 4).repeat(1000, axis=0), keys),
                ):
                    sender.send(batch)
                sent = 5 * (first + 1000)  # on a busy machine it falls behind
                eventually(lambda sent=sent: taken(tmp_path) > sent - 20_000)  # type: ignore[misc]
        eventually(lambda: taken(tmp_path) == 5 * count)
        child.terminate()
        assert child.wait(HANG_SECONDS) == 0
    told = TRANSLATOR_COUNTERS.read(tmp_path)
    received = told["dta_datagrams_total"]
    assert received + told["dta_kernel_drops_total"] == 5 * count
    translated = {key.split(".")[1]: n for key, n in told.items() if key.startswith("dta_translated_total")}
    assert sum(translated.values()) == received
    assert received > 4 * count, "the kernel dropped most: this machine is too busy to tell anything"
    # Key-Write: of the last 6,000 keys, 2^16 slots lose (1 - exp(-12000 / 65536))^2 = 2.8 % at the most
    kept = received / (5 * count)
    newest = numbers(count - 6000, 6000)
    assert query(read_store(tmp_path, "flows"), newest, copies=2).found.mean() > kept * 0.97 - 0.02
    lists = [ListReader(read_store(tmp_path, "events"), n, start="oldest").read(count)[0] for n in range(10)]
    assert sum(map(len, lists)) == translated["append"]
    assert int(read_store(tmp_path, "hosts").memory.view("<u8").sum()) == translated["key-increment"]
    found = postcarding.query(
        read_store(tmp_path, "paths"), numbers(19_000, 1000), values=np.arange(1, 6, dtype=np.uint32)
    )
    whole = (found.status == Status.FOUND) & (found.length == 5)
    assert whole.mean() > kept**5 * 0.93 - 0.02
    assert (found.path[whole, :5] == np.arange(1, 6)).all()


@pytest.mark.parametrize("form", list(Form))
def test_the_rate_limit_is_warm_whatever_the_stores_are(monkeypatch: pytest.MonkeyPatch, form: Form) -> None:
    """Reports of primitives without a store do not keep the kernel of the rate limit from being loaded."""
    rejected = list[object]()
    monkeypatch.setattr(translator_kernel, "reject", lambda *given: rejected.append(given))
    warm_translator([AppendLayout.sized(1 << 20)], form)
    assert len(rejected) == 1

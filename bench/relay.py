"""Reporter, translator and software NIC as three processes, with a bad relay between each two of them.

Afterwards every store is asked for all that the translator has accepted, and for nothing else: the relay in
front of it knows each report that went on.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.common import Bench
from harness.relay import (
    NIC,
    REPORTS_SIDE,
    TRANSLATOR,
    TRANSLATOR_SIDE,
    Relaying,
    ReportRelay,
    RoceRelay,
    serve_nic,
    translate,
)
from hopscope.capture.udp.datagram import DatagramSocket
from hopscope.capture.udp.listener import UdpSender
from hopscope.direct.counters import TRANSLATOR_COUNTERS
from hopscope.direct.primitives import key_increment, key_write, postcarding_query
from hopscope.direct.primitives.append_reader import ListsReader
from hopscope.direct.reporter import Reporter
from hopscope.direct.stores.folder import read_store
from hopscope.direct.theory.key_write import average
from hopscope.rdma.advertisement import SERVICE_PORT
from hopscope.rdma.counters import NIC_COUNTERS
from hopscope.rdma.endpoint import Endpoint
from hopscope.rdma.records import VERB, Verb, VerbBlock
from hopscope.settings.direct import DirectSettings, NicSettings, StoreSettings, TranslatorSettings
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.layout import DTA_PORT
from hopscope.wire.records import FrameBatch
from hopscope.wire.roce.layout import ROCE_PORT

ROUND = 4000
"""Reports of a round: a quarter of each primitive, of postcards 200 flows with 5 hops."""
PART = ROUND // 4
WINDOW = 2
"""Batches of PART reports that may be on their way between reporter and translator."""
STALLED_SECONDS = 300.0
"""Without any progress for this long, something hangs."""
HOPS, LISTS, COUNTED_KEYS, VALUES = 5, 64, 1000, 256
COPIES = 2
LOAD = 0.25
CONTEXT = multiprocessing.get_context("spawn")
Numbers = npt.NDArray[np.int64]


def big_endian(numbers: Numbers, width: int = 4) -> npt.NDArray[np.uint8]:
    """uint8 [n, width]."""
    return np.asarray(numbers).astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :].copy()


def values_of(flows: Numbers, hops: Numbers) -> Numbers:
    """The values that hops `hops` (from 1) of flows report."""
    return (flows * 31 + hops * 57) % VALUES


def batches_of(reporter: Reporter, number: int) -> Iterator[FrameBatch]:
    """The datagrams of a round."""
    each = np.arange(PART)
    ids = number * PART + each
    flows = number * (PART // HOPS) + each % (PART // HOPS)
    hops = each // (PART // HOPS) + 1
    data = big_endian(ids + 1)
    yield reporter.key_write(big_endian(ids, 8), data, redundancy=COPIES)
    keys = big_endian(ids * 7919 % COUNTED_KEYS)
    yield reporter.key_increment(keys, np.ones(PART, np.uint64), redundancy=COPIES)
    yield reporter.append((ids % LISTS).astype(np.uint32), data)
    values = big_endian(values_of(flows, hops))
    yield reporter.postcard(big_endian(flows, 8), hops, values, path_length=HOPS)


def report(address: str, rounds: int, rate: float, window: Any, channel: Connection) -> None:
    """Process: the reporter. Sequence number n is report n % ROUND of round n // ROUND.

    A batch is sent when the semaphore `window` admits it: no buffer overflows on a busy machine.
    """
    reporter = Reporter(Form.SIZED, first=0)
    sender = UdpSender(address, DTA_PORT, rate=rate, source="127.3.0.9")
    channel.send("ready")
    channel.recv()
    for number in range(rounds):
        for batch in batches_of(reporter, number):
            window.acquire()
            sender.send(batch)
    channel.send("done")


def settings(reports: int) -> DirectSettings:
    """Stores of a load of 1/4, lists that hold everything."""
    keys, flows = reports // 4, reports // 4 // HOPS
    batches = 1 << max(4, (-(-keys // LISTS // 16) - 1).bit_length() + 1)
    stores: tuple[tuple[str, str, dict[str, int | str | bool]], ...] = (
        ("writes", "key-write", {"slots": int(keys / LOAD), "copies": COPIES}),
        ("counts", "key-increment", {"slots": 1 << 14, "copies": COPIES}),
        ("lists", "append", {"lists": LISTS, "batches": batches}),
        ("paths", "postcarding", {"chunks": int(flows / LOAD)}),
    )
    return DirectSettings(
        stores=tuple(StoreSettings(name=n, primitive=p, options=o) for n, p, o in stores),
        translator=TranslatorSettings(
            host=TRANSLATOR, form="sized", transport="rocev2", collectors=(TRANSLATOR_SIDE,),
            address=TRANSLATOR, flush_ms=60_000,
        ),
        nic=NicSettings(hosts=(NIC,), any_ip_id=False),
    )  # fmt: skip


class Checks:
    """What must hold; all results are printed, and a failed check ends the program with status 1."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.failed = 0

    def that(self, true: bool, text: str) -> None:
        """Tell one."""
        self._bench.say(f"  {'holds' if true else 'FAILS'}: {text}")
        self.failed += not true


def child(target: Any, *arguments: Any) -> tuple[Any, Connection]:
    """A process that has said that it is ready."""
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=target, args=(*arguments, theirs))
    process.start()
    if not ours.poll(300) or ours.recv() != "ready":
        raise SystemExit(f"{target.__name__} did not start")
    return process, ours


def three_processes(bench: Bench, reports: int, rate: float, seed: int, loss: float) -> int:
    """End to end; how many checks failed."""
    rounds = -(-reports // ROUND)
    reports = rounds * ROUND
    chosen, checks = settings(reports), Checks(bench)
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="relay-") as name:
        folder = Path(name)
        relay = ReportRelay(reports, loss, seed)
        road = RoceRelay(loss, seed + 1)
        with Relaying(relay, road):
            nic, _ = child(serve_nic, chosen, folder / "nic")
            translator, _ = child(translate, chosen, folder / "translator")
            window = CONTEXT.Semaphore(WINDOW)
            reporter, channel = child(report, REPORTS_SIDE, rounds, rate, window)
            begun = time.perf_counter()
            channel.send("go")
            follow(relay, folder / "translator", window)
            taken = time.perf_counter() - begun
            translator.terminate()
            translator.join()
            nic.terminate()
            nic.join()
            reporter.join()
        counted = TRANSLATOR_COUNTERS.read(folder / "translator")
        nic_counted = NIC_COUNTERS.read(folder / "nic")
        bench.say(
            f"relays: {relay.mangler.lost:,} reports lost, {relay.mangler.doubled:,} doubled, "
            f"{relay.mangler.late:,} late; of RoCEv2 packets {[one.lost for one in road.manglers]} lost"
        )
        bench.say("translator: " + counters_text(counted) + "\nnic: " + counters_text(nic_counted))
        case = {"loss": loss, "reports": reports}
        bench.row({**case, "what": "end to end"}, reports / taken, "reports/s")
        look(checks, folder / "nic", relay.passed > 0, counted, nic_counted, int(relay.passed.sum()))
    return checks.failed


def follow(relay: ReportRelay, folder: Path, window: Any) -> None:
    """Admit a batch for each that the translator has taken, until every report is executed at the NIC."""
    admitted, before, changed = 0, (-1, -1), time.monotonic()
    while True:
        received, sent = relay.received, int(relay.passed.sum())
        counted = TRANSLATOR_COUNTERS.read(folder)
        if counted["dta_datagrams_total"] >= sent:
            while admitted < received // PART:
                window.release()
                admitted += 1
            done = counted["rdma_completed_verbs_total"] == counted["rdma_verbs_total"]
            late = received < len(relay.passed) or sent != int(relay.passed.sum())
            if done and not late and relay.idle:
                return
        now = (received, counted["rdma_completed_verbs_total"])
        if now != before:
            before, changed = now, time.monotonic()
        elif time.monotonic() - changed > STALLED_SECONDS:
            raise SystemExit(f"nothing moves: {received:,} reports received, {counted}")
        time.sleep(0.005)


def counters_text(counted: dict[str, int]) -> str:
    """Counters that are not 0."""
    return ", ".join(f"{key} {value:,}" for key, value in counted.items() if value)


def look(
    checks: Checks, folder: Path, passed: npt.NDArray[np.bool_], counted: dict[str, int],
    nic: dict[str, int], datagrams: int,
) -> None:  # fmt: skip
    """Hold the stores against the reports that went on to the translator, and what it says of them.

    which reports it rejected because a collector was busy is not known one by one, only how many.
    """
    accepted = passed.reshape(-1, 4, PART)
    drops = datagrams - counted["dta_datagrams_total"]
    checks.that(drops == 0, f"no datagram between relay and translator was lost ({drops})")
    busy = counted["dta_rejected_total.congested"]
    taken = {k.split(".")[1]: v for k, v in counted.items() if k.startswith("dta_translated_total.")}
    # a doubled report may be rejected the first time and accepted the second
    twice = sum(taken.values()) + busy - int(passed.sum())
    checks.that(
        0 <= twice <= (datagrams - int(passed.sum()) if busy else 0),
        f"of {passed.sum():,} that passed {sum(taken.values()):,} were translated, {busy:,} rejected",
    )
    missing = int((~passed).sum())
    ends = len(passed) - 1 - int(np.flatnonzero(passed)[-1]) + int(np.argmax(passed))
    lost = counted["dta_lost_reports"]
    checks.that(
        abs(lost - missing - busy) <= ends + (16 if busy else 0),
        f"reports lost before the translator, or rejected, are counted: {lost:,} of {missing + busy:,}",
    )
    verbs = sum(v for k, v in counted.items() if k.startswith("dta_verbs_total."))
    checks.that(
        verbs == nic["nic_verbs_total"], f"{verbs:,} operations sent, {nic['nic_verbs_total']:,} executed"
    )
    ids = np.arange(passed.size // 4)
    look_at_writes(checks, folder, ids[accepted[:, 0].reshape(-1)], taken["key-write"])
    keys = (ids * 7919 % COUNTED_KEYS)[accepted[:, 1].reshape(-1)]
    look_at_counts(checks, folder, keys, taken["key-increment"])
    look_at_lists(checks, folder, ids[accepted[:, 2].reshape(-1)], taken["append"])
    # row `each` of a round is hop each // flows + 1 of flow each % flows
    whole = accepted[:, 3].reshape(len(accepted), HOPS, PART // HOPS).all(axis=1).reshape(-1)
    look_at_paths(checks, folder, np.flatnonzero(whole), counted)


def look_at_writes(checks: Checks, folder: Path, keys: Numbers, taken: int) -> None:
    """Key-Write: as many as theory says of those that were translated, and none wrong."""
    store = read_store(folder, "writes")
    answers = key_write.query(store, big_endian(keys, 8), copies=COPIES)
    right = (answers.data == big_endian(keys + 1)).all(axis=1)
    expected = taken / len(keys) * float(average(taken / store.layout.count, COPIES, 32).correct)
    error = 8 * np.sqrt(expected * (1 - expected) / len(keys))  # keys share slots: twice four, to be safe
    share = float((answers.found & right).mean())
    checks.that(abs(share - expected) < error, f"Key-Write: {share:.4%} found, theory {expected:.4%}")
    wrong = int((answers.found & ~right).sum())
    checks.that(wrong <= 2, f"Key-Write: {wrong} wrong answers")


def look_at_counts(checks: Checks, folder: Path, keys: Numbers, taken: int) -> None:
    """Key-Increment: every report is in every one of its copies, once."""
    store = read_store(folder, "counts")
    total = int(store.memory.view("<u8").sum())
    checks.that(
        total == COPIES * taken, f"Key-Increment: {total:,} in all slots, {COPIES} x {taken:,} translated"
    )
    true = np.bincount(keys, minlength=COUNTED_KEYS)
    least = key_increment.query(store, big_endian(np.arange(COUNTED_KEYS)), copies=COPIES).counter
    above = int(np.maximum(true.astype(np.int64) - least.astype(np.int64), 0).sum())
    exact = float((least == true).mean())
    checks.that(above <= len(keys) - taken, f"Key-Increment: no counter is too low, {exact:.1%} are exact")


def look_at_lists(checks: Checks, folder: Path, sent: Numbers, taken: int) -> None:
    """Append: every entry once and in its list."""
    lists, data = read_lists(folder)
    good = np.isin(data, sent + 1) & (lists == (data - 1) % LISTS)
    checks.that(
        bool(good.all()) and len(np.unique(data)) == len(data) == taken,
        f"Append: {len(data):,} entries, each of {taken:,} translated once and in its list",
    )


def look_at_paths(checks: Checks, folder: Path, flows: Numbers, counted: dict[str, int]) -> None:
    """Postcarding: as many as theory says of those that were completed; a path is right, or its beginning."""
    store = read_store(folder, "paths")
    found = postcarding_query.query(store, big_endian(flows, 8), values=np.arange(VALUES))
    truth = values_of(flows[:, None], np.arange(1, HOPS + 1)[None, :])
    right = found.found & (found.path == truth).all(axis=1)
    names = [key for key in counted if key.startswith("dta_paths_total.")]
    written, completed = sum(counted[key] for key in names), counted["dta_paths_total.completed"]
    expected = completed * float(average(written / store.layout.count, 1, 32).correct)
    # a path that a late postcard completed, or that left the cache early, may be whole as well
    error = 8 * np.sqrt(expected / 8) + (written - completed) / 4
    checks.that(
        abs(int(right.sum()) - expected) < error,
        f"Postcarding: {int(right.sum()):,} whole paths, theory {expected:,.0f} of {completed:,} completed",
    )
    begun = (found.path == truth) | (np.arange(HOPS) >= found.length[:, None])
    checks.that(bool(begun[found.found].all()), "Postcarding: no wrong path")


def read_lists(folder: Path) -> tuple[npt.NDArray[np.uint32], Numbers]:
    """All entries: lists, and their numbers."""
    reader = ListsReader(read_store(folder, "lists"), np.arange(LISTS), "oldest")
    lists, data = [], []
    while len((part := reader.poll(1 << 16))[0]):
        lists.append(part[0])
        data.append(part[1].view(">u4").reshape(-1).astype(np.int64))
    return np.concatenate(lists), np.concatenate(data)


def goodput(bench: Bench, seconds: float, seed: int, loss: float | None, kind: Verb) -> None:
    """Operations a second that are acknowledged; `loss` None: no relay between."""
    count = 512
    block = VerbBlock(np.zeros(count, VERB), np.arange(64, dtype=np.uint8), np.array([count, 64], np.uint64))
    block.verbs["kind"], block.verbs["length"], block.verbs["value"] = kind, 8, 1
    block.verbs["address"] = np.random.default_rng(seed).integers(0, 1 << 17, count) * 8
    stores = (StoreSettings(name="writes", primitive="key-write", options={"bytes": "1MiB"}),)
    chosen = DirectSettings(stores=stores, nic=NicSettings(hosts=(NIC,), any_ip_id=False))
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="relay-") as name:
        nic, _ = child(serve_nic, chosen, Path(name))
        relay = None if loss is None else child(relay_alone, loss, seed)[0]
        endpoint, socket = Endpoint(TRANSLATOR), DatagramSocket(TRANSLATOR, ROCE_PORT)
        socket.open()
        now = time.monotonic_ns()
        session = endpoint.connect(NIC if loss is None else TRANSLATOR_SIDE, SERVICE_PORT, now)
        begun: float | None = None
        warm = done = 0
        while begun is None or time.perf_counter() - begun < seconds + 1:
            batch, now = socket.receive(), time.monotonic_ns()
            if batch is not None:
                endpoint.receive(batch, now, 0)
            while session.room() > 2 * count:
                session.submit(block)
            for frames in endpoint.frames(now):
                socket.send(frames)
            if session.lost:
                raise SystemExit(f"the connection was lost: {session.lost}")
            if session.ready and session.requester is not None:
                done = session.requester.counts()["completed_verbs_total"]
                if begun is None:
                    begun = time.perf_counter()
                if not warm and time.perf_counter() - begun > 1:
                    warm = done
        assert session.requester is not None
        counts = session.requester.counts()
        again = counts["retransmitted_packets_total"] / max(1, counts["packets_total"])
        between = "nothing between" if loss is None else f"relay, {loss:.0%} lost, late, doubled"
        case: dict[str, object] = {"operation": kind.name, "between": between}
        note = f"{again:.1%} of packets sent again, {counts['timeouts_total']} timeouts"
        bench.row(case, (done - warm) / seconds, "operations/s", note)
        for process in (nic, relay):
            if process is not None:
                process.kill()
                process.join()
        socket.close()


def relay_alone(loss: float, seed: int, channel: Connection) -> None:
    """Process: a relay of RoCEv2, until it is killed."""
    relay = RoceRelay(loss, seed)
    channel.send("ready")
    while True:
        if not relay.turn():
            time.sleep(0.0001)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--reports", type=int, default=1_000_000, help="through the three processes")
    parser.add_argument("--rate", type=float, default=40_000, help="reports a second")
    parser.add_argument("--loss", type=float, default=0.01, help="of packets lost, late and doubled, each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5, help="of each measurement of goodput; 0: none")


def main() -> None:
    """Run, and end with status 1 where a check failed."""
    bench, chosen = Bench.start(
        "relay",
        "the contents of the stores after relays have lost, reordered and duplicated packets; "
        "the goodput of the RDMA hop.",
        "separate cores: relays and processes share the machine's cores. With more cores the "
        "rates are higher.",
        arguments,
    )
    reports = min(chosen.reports, 200_000) if bench.quick else chosen.reports
    seconds = min(chosen.seconds, 2) if bench.quick else chosen.seconds
    if seconds:
        for kind in (Verb.WRITE, Verb.FETCH_ADD):
            for loss in (None, 0.0, chosen.loss):
                goodput(bench, seconds, chosen.seed, loss, kind)
    failed = three_processes(bench, reports, chosen.rate, chosen.seed, chosen.loss)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

"""Every path into the collector in one table: how much it takes without loss, what a report costs (root)."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from typing import Any

from harness.collector import cpu_ns, running, settle, worker_pid
from harness.common import Bench, median
from harness.sending import CONTEXT
from harness.veth import pair
from hopscope.capture.ring.paced_sender import PacedSender
from hopscope.capture.udp.sender import UdpSender
from hopscope.fabric.load import BLOCK, Load, block_of
from hopscope.runtime.pipeline.mode import pipeline_of
from hopscope.runtime.processes.worker import ENOUGH
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.settings.collector import Settings
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.records import Link

PORT = 32766
NEAR = bytes.fromhex("020000000001")
RATES = (
    0,
    3_000_000,
    2_000_000,
    1_500_000,
    1_000_000,
    800_000,
    600_000,
    400_000,
    300_000,
    200_000,
    150_000,
    100_000,
    50_000,
    25_000,
)
"""Reports per second that are tried in turn; 0: as fast as possible."""
LOST = 0.001
"""Share of the reports that may be lost."""
TURN_SECONDS = 0.01
ROWS, MANY_ROWS = 32_768, 131_072
"""Rows of the flow table: for up to 100,000 flows, and for a million."""


@dataclass(frozen=True)
class Case:
    """What the reports look like."""

    hops: int = 3
    fields: int = 8
    flows: int = 100
    events: int = 0
    """Reports a second that cause an event."""

    @property
    def block(self) -> int:
        """Reports that are made."""
        return block_of(self.flows)

    @property
    def rows(self) -> int:
        """Rows of the flow table."""
        return MANY_ROWS if self.flows > 100_000 else ROWS

    def columns(self) -> dict[str, object]:
        """Of its results; what differs in few cases is named in these alone."""
        found: dict[str, object] = {"hops": self.hops, "fields": self.fields, "flows": self.flows}
        if self.events:
            found["events/s"] = self.events
        if self.rows != ROWS:
            found["rows of the flow table"] = self.rows
        return found


USUAL = Case()
CASES = (
    USUAL,
    *(replace(USUAL, hops=hops) for hops in (1, 6, 12)),
    *(Case(hops, 1) for hops in (1, 3, 6)),
    *(replace(USUAL, flows=flows) for flows in (1, 100_000, 1_000_000)),
    *(replace(USUAL, events=events) for events in (1000, 100_000)),
)
QUICK = (USUAL, replace(USUAL, hops=6))
PATHS = ("udp", "udp trains", "ring", "xdp")


def send(channel: Connection) -> None:
    """A process that sends: given (path, port, case), it prepares; given (rate, seconds), it answers how many
    reports it has sent, and in how many seconds.
    """
    load: Load | None = None
    sender: UdpSender | PacedSender | None = None
    case = USUAL
    for words in iter(channel.recv, None):
        if isinstance(words[0], str):
            path, port, case = words
            made: dict[str, Any] = {"hops": case.hops, "fields": case.fields, "flows": case.flows}
            made |= {"sources": 4, "block": case.block}
            if path.startswith("udp"):
                trains = path != "udp"
                load = Load(**made, run=64 if trains else 1)
                sender = UdpSender("127.0.0.1", port, trains=trains, by_source=True)
            else:
                load = Load(**made, link=Link.ETHERNET, collector="192.0.2.1", port=port)
                sender = far = PacedSender("far")
                load.octets[:, :12] = list(NEAR + far.address)
            channel.send(True)
            continue
        assert load is not None
        assert sender is not None
        rate, seconds = words
        begin, before, events = time.monotonic(), sender.sent, 0
        while (now := time.monotonic() - begin) < seconds:
            due = sender.sent - before - int(now * rate) if rate else 0
            if due > 0:
                time.sleep(due / rate)
            most = max(64, int(rate * TURN_SECONDS)) if rate else 4096
            wanted = int(case.events * (now + TURN_SECONDS)) - events
            batch = load.next(most, wanted)
            events += min(max(0, wanted), len(batch))
            sender.send(batch)
        channel.send((sender.sent - before, time.monotonic() - begin))


def most_without_loss(
    bench: Bench, sending: Connection, collector: Supervisor, case: Case, path: str, seconds: float
) -> None:
    """The highest of RATES at which fewer than LOST are lost."""
    worker = worker_pid(collector)
    sending.send((max(200_000, case.block) / 4, 4.0 if case.flows > BLOCK else 0.5))  # flows become known
    sending.recv()
    before = settle(collector)
    fastest = float(RATES[1])
    for rate in RATES:
        if rate > fastest:
            continue
        spent = cpu_ns(worker)
        sending.send((rate, seconds))
        sent, took = sending.recv()
        spent = cpu_ns(worker) - spent
        after = settle(collector)
        got, before = after["reports_total"] - before["reports_total"], after
        if sent - got <= LOST * sent:
            break
        fastest = min(fastest, sent / took)
    columns = case.columns()
    limit = "what the sender sends" if rate == 0 else "more was lost at the next rate"
    note = f"{limit}; {1 - got / sent:.3%} of {sent:,} lost"
    bench.row({**columns, "without loss": path}, got / took, "reports/s", note)
    bench.row({**columns, "worker": path}, spent / max(1, got), "ns/report", f"{got / took:,.0f} reports/s")


def from_memory(bench: Bench, case: Case, rounds: int) -> None:
    """Decoding and detection of the same reports, in batches as large as those of a worker."""
    pipeline = pipeline_of(Settings(detect=DetectSettings(flow_rows=case.rows, push_seconds=0)))
    load = Load(hops=case.hops, fields=case.fields, flows=case.flows, sources=4)
    times = []
    for number in range(rounds + 1):
        start, taken = time.thread_time_ns(), 0
        while taken < len(load.octets):
            batch = load.next(ENOUGH)
            pipeline.step(batch)
            taken += len(batch)
        if number:  # at first, all flows are new
            times.append((time.thread_time_ns() - start) / taken)
    bench.row({**case.columns(), "worker": "memory"}, median(times), "ns/report")


def main() -> None:
    """All paths."""
    bench, _ = Bench.start(
        "paths",
        "the highest of several rates at which a collector with one worker loses less than 0.1 "
        "% of the reports, and the worker's CPU time per report at that rate.",
        "a network card, and the kernel's part of receiving, which runs on the sender's core: loopback for"
        " udp, a veth pair for ring and xdp.",
    )
    pair("192.0.2.1")
    seconds, cases = (0.5, QUICK) if bench.quick else (1.0, CASES)
    for case in cases:
        if not case.events:
            from_memory(bench, case, 3 if case.flows > BLOCK else 10)
    sending, other = CONTEXT.Pipe()
    sender = CONTEXT.Process(target=send, args=(other,))
    sender.start()
    for path in PATHS:
        kind = path.split()[0]
        listen = ListenSettings(port=0)
        if kind != "udp":
            listen = ListenSettings.model_validate({"kind": kind, "interface": "near", "port": PORT})
        for rows in (ROWS, MANY_ROWS):
            some = [case for case in cases if case.rows == rows]
            if not some or (kind == "xdp" and rows == MANY_ROWS):  # its tables would take a gigabyte
                continue
            with ExitStack() as stack:
                collector, port = stack.enter_context(running(listen=listen, flow_rows=rows))
                for case in some:
                    sending.send((path, port, case))
                    sending.recv()
                    most_without_loss(bench, sending, collector, case, path, seconds)
    sending.send(None)
    sender.join()


if __name__ == "__main__":
    main()

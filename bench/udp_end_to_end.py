"""The real collector on loopback UDP: reports a second at a loss under 0.1 %, ns of the worker's."""

from __future__ import annotations

import argparse
import time

import numpy as np

from harness.collector import running, settle
from harness.common import Bench
from hopscope.capture.udp.listener import UdpSender
from hopscope.fabric.load import payloads
from hopscope.runtime.supervisor.process import Supervisor
from hopscope.wire.records import FrameBatch

LOSS = 0.001
BATCH = 65_536


class Stream:
    """Reports without end: the same frames again and again, their sequence numbers going on."""

    def __init__(self, hops: int, fields: int, flows: int) -> None:
        self.frames: FrameBatch = payloads(BATCH, hops, fields, flows)
        length = int(self.frames.frames["length"][0])
        self._heads = self.frames.arena[: BATCH * length].reshape(BATCH, length)
        self._next = BATCH

    def advance(self) -> None:
        """Write the next sequence numbers into the group headers (Report 2.0: 4 + 6 + 22 bits)."""
        sequence = (self._next + np.arange(BATCH)) & 0x3FFFFF
        words = ((2 << 28) | (1 << 22) | sequence).astype(">u4")
        self._heads[:, :4] = words.view(np.uint8).reshape(BATCH, 4)
        self._next += BATCH


def run(collector: Supervisor, sender: UdpSender, stream: Stream, seconds: float) -> dict[str, float]:
    """Send for some seconds; what was sent, received and spent."""
    before = settle(collector)
    sent, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        sent += sender.send(stream.frames)
        stream.advance()
    taken = time.perf_counter() - start
    after = settle(collector)
    got = after["reports_total"] - before["reports_total"]
    spent = {key: after[key] - before[key] for key in after if key.startswith("busy_")}
    return {"sent": sent, "received": got, "seconds": taken, "loss": 1 - got / sent} | {
        key.removesuffix("_total"): value / max(1, got) for key, value in spent.items()
    }


def best_rate(
    bench: Bench, collector: Supervisor, port: int, case: dict[str, object], trains: bool, seconds: float
) -> None:
    """Lower the offered rate, from as fast as the sender can, until the loss is small enough.

    Overloaded, a receiver takes about what it can take at all: a rate a tenth above that is the next to try.
    """
    stream = Stream(int(str(case["hops"])), int(str(case["fields"])), int(str(case["flows"])))
    rate = 0.0
    for _ in range(12):
        sender = UdpSender("127.0.0.1", port, rate=rate, trains=trains)
        found = run(collector, sender, stream, seconds)
        sender.close()
        offered = found["sent"] / found["seconds"]
        if found["loss"] <= LOSS:
            break
        rate = min(offered * 0.95, found["received"] / found["seconds"] * 1.1)
    note = (
        f"loss {found['loss']:.3%}, worker {found['busy_ns']:.0f} ns a report ("
        f"receive {found['busy_capture_ns']:.0f}, decode {found['busy_decode_ns']:.0f}, "
        f"detect {found['busy_detect_ns']:.0f}),"
        f" {'bound by the sender' if rate == 0 else 'bound by the receiver'}"
    )
    bench.row(case, found["received"] / found["seconds"], "reports/s", note)
    bench.row({**case, "what": "worker"}, found["busy_ns"], "ns/report")


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")


def main() -> None:
    """Trains and single datagrams against hops, fields and flows."""
    bench, arguments = Bench.start(
        "udp_end_to_end",
        "a collector process (receive, decode, detect, journal) fed over loopback UDP by this process.",
        "a network card: on loopback the kernel's receive work runs on the sender's core; "
        "trains (GSO, GRO) of datagrams of one size are the best case.",
        _arguments,
    )
    seconds = 0.7 if bench.quick else arguments.seconds
    cases = [(h, f, n) for h in (1, 3, 6) for f in (1, 8) for n in (1, 100, 100_000)]
    if bench.quick:
        cases = [(3, 8, 100)]
    with running() as (collector, port):
        for trains in (True, False):
            for hops, fields, flows in cases:
                sends = "trains" if trains else "singles"
                case: dict[str, object] = {"hops": hops, "fields": fields, "flows": flows, "sends": sends}
                best_rate(bench, collector, port, case, trains, seconds)


if __name__ == "__main__":
    main()

"""A sink in a wire against what forwards without looking: rings in C, a bridge, an XDP redirect (root)."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from harness.bypasses import received
from harness.common import Bench
from harness.sending import FOREIGN, Sending, frame
from harness.veth import add_pair, pair
from harness.wires import BareRedirect, Bridge, HopscopeSink, InC, Wire, widen
from hopscope.bpf.build import compile_program
from hopscope.bpf.wire_heads import WireHeads
from hopscope.bpf.wire_layout import WireCount
from hopscope.bpf.wire_program import WireProgram
from support.packets.int_packets import IntPackets, Workload

SOURCE = Path(__file__).with_name("wire.bpf.c")
FLOWS = 64
PAYLOAD = 58  # frames of 100 bytes without INT
WORKLOADS = {f"{hops} hop{'s' * (hops > 1)} x 4": Workload(hops, 4, FLOWS) for hops in (5, 3, 1)}
"""Frames of 60 bytes with 96, 64 and 32 bytes of INT more."""
_SETTLE = 0.2
_HEAD, _MOST = 512, 3000
ORIGINAL = np.dtype([("head", "u1", (_HEAD,)), ("size", "<u4"), ("removed", "<u4")])
"""struct original of the program."""


def with_int(workload: Workload, *, changing: bool = False) -> list[bytes]:
    """FLOWS frames of a workload, to nobody in this namespace: one of each flow, so that no value changes; or
    `changing`: its first, about two of each flow, with different values.
    """
    block = IntPackets(workload, 64 * FLOWS)
    block.fill(0)
    chosen = np.arange(FLOWS) if changing else np.unique(block.flow, return_index=True)[1]
    places = block.frames[chosen]
    frames = [
        block.arena[at : at + length].tobytes()
        for at, length in zip(places["offset"].tolist(), places["length"].tolist(), strict=True)
    ]
    return [bytes.fromhex(FOREIGN.replace(":", "")) + one[6:] for one in frames]


class Repeated(WireProgram):
    """A program of the benchmark; `given`: the frame that it is run on, `stripped`: how it leaves it."""

    def __init__(self, path: Path, name: str, given: bytes, stripped: bytes) -> None:
        super().__init__(path=path, name=name, ring_bytes=1 << 20)
        self.aim("lo")
        self.turn_on(_MOST)
        original = self._object.memory("originals", ORIGINAL.itemsize).view(ORIGINAL)[0]
        size = min(len(given), _HEAD - 1)
        original["head"][:size] = np.frombuffer(given[:size], np.uint8)
        original["size"], original["removed"] = size, len(given) - len(stripped)


def run_alone(bench: Bench, path: Path) -> None:
    """ns a frame of each program, the best of some rounds; the ring is read in between."""
    rounds, repeat = (3, 20_000) if bench.quick else (15, 200_000)
    plain = frame(FOREIGN, 0, PAYLOAD)
    for name, what in (("bare", "bare redirect"), ("wire", "sink, frame without INT")):
        program = Repeated(path, name, plain, plain)
        best = min(program.run(plain, repeat)[1] for _ in range(rounds))
        bench.row({"program": what, "by": "BPF_PROG_TEST_RUN"}, best, "ns/frame")
        program.close()
    for name, workload in WORKLOADS.items():
        given = with_int(workload)[0]
        program = Repeated(path, "wire", given, given)
        stripped = program.changed(given)[1]
        program.close()
        times = {}
        for part in ("stripped", "restored"):
            program, heads = Repeated(path, part, given, stripped), WireHeads()
            heads.map(program.ring, program.ring_bytes)
            found = list[int]()
            for _ in range(rounds * repeat // 2000):
                found.append(program.run(given, 2000)[1])
                while heads.receive() is not None:
                    pass
            if program.counts()[WireCount.LOST_HEAD]:
                raise SystemExit("the ring was full")
            times[part] = min(found)
            program.close()
        note = f"{times['stripped']} with {times['restored']} for making the frame as it was"
        case: dict[str, object] = {"program": f"sink, INT of {name} stripped", "by": "BPF_PROG_TEST_RUN"}
        bench.row(case, times["stripped"] - times["restored"], "ns/frame", note)


def cost(sending: Sending, wire: Wire | None, seconds: float) -> tuple[float, float, float, float]:
    """(ns of the sender per frame sent, ns of the wire's processes per frame that arrived, frames per second
    that arrived, share of those sent)."""
    before, spent = received("beyond"), wire.spent_ns() if wire else 0
    sending.channel.send((0, seconds))
    sent, taken, ns = sending.channel.recv()
    time.sleep(_SETTLE)
    arrived = received("beyond") - before
    spent = (wire.spent_ns() if wire else 0) - spent
    return ns / sent, spent / max(arrived, 1), arrived / taken, arrived / sent


def measure(
    bench: Bench, case: dict[str, str], given: list[bytes] | None, ways: dict[str, Callable[[], Wire]]
) -> None:
    """All wires with frames of one kind, in rounds, so that all meet the same neighbours on this machine."""
    sending = Sending(FOREIGN, PAYLOAD, given=given)
    seconds, rounds, times = (0.3, 1, 1) if bench.quick else (1.0, 3, 3)
    base: list[float] = []
    found: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in ways}
    cost(sending, None, 0.2)  # touches everything once
    for _ in range(rounds):
        base += [cost(sending, None, seconds)[0] for _ in range(times)]
        for name, make in ways.items():
            wire = make()
            cost(sending, wire, 0.2)
            found[name] += [cost(sending, wire, seconds) for _ in range(times)]
            wire.remove()
    sending.close()
    bench.row({**case, "wire": "none"}, min(base), "ns/frame", "the sender, into nothing")
    totals = {name: min(one[0] + one[1] for one in each) for name, each in found.items()}
    for name, each in found.items():
        _, process, rate, share = min(each, key=lambda one: one[0] + one[1])
        note = (
            f"{process:,.0f} of them of its processes; {rate:,.0f} frames/s, {share:.1%} of those sent; "
            f"{totals[name] / totals['XDP redirect']:.2f} x a bare redirect"
        )
        bench.row({**case, "wire": name}, totals[name], "ns/frame", note)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Of this benchmark."""
    parser.add_argument("--alone", action="store_true", help="only BPF_PROG_TEST_RUN")


def main() -> None:
    """Programs alone, then wires."""
    bench, chosen = Bench.start(
        "wire_forward",
        "frames from one veth pair to another: CPU time of the sender's thread per frame sent, "
        "which includes the kernel's receiving and all of XDP and the bridge, and of the "
        "wire's processes per frame that arrived; the least of alternating rounds. The sender "
        "sends as fast as it can. Changing: values of a flow change, so half of the packets cause events.",
        "network cards and their drivers; native XDP, whose frames come from a driver's memory.",
        arguments,
    )
    if os.geteuid():
        raise SystemExit("this benchmark needs root")
    with tempfile.TemporaryDirectory() as folder:
        path = compile_program(Path(folder), SOURCE)
        run_alone(bench, path)
        if chosen.alone:
            return
        pair("192.0.2.1")
        add_pair("out", "beyond")
        widen()
        subprocess.run(["sysctl", "-qw", "net.ipv4.ip_forward=0"], check=True)
        ways: dict[str, Callable[[], Wire]] = {
            "XDP redirect": partial(BareRedirect, path),
            "hopscope sink, xdp": partial(HopscopeSink, "xdp"),
            "hopscope sink, ring": partial(HopscopeSink, "ring"),
            "rings in C": InC,
            "bridge": Bridge,
        }
        five = "5 hops x 4"
        measure(bench, {"frames": "100 bytes, no INT"}, None, ways)
        measure(bench, {"frames": f"60 bytes + INT of {five}"}, with_int(WORKLOADS[five]), ways)
        cases = {name: with_int(workload) for name, workload in WORKLOADS.items() if name != five}
        cases[f"{five}, changing"] = with_int(WORKLOADS[five], changing=True)
        for name, given in cases.items():
            measure(bench, {"60 bytes + INT": name}, given, dict(list(ways.items())[:2]))


if __name__ == "__main__":
    main()

"""Reports of an interface by AF_XDP in copy mode and by the ring of `ring://`, sent and taken by one core."""

from __future__ import annotations

import ctypes
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from harness.common import Bench, median
from harness.veth import pair
from harness.xsk import XskReceiver
from hopscope.bpf.build import compile_program
from hopscope.bpf.libbpf import BpfObject, library
from hopscope.capture.ring.paced_sender import PacedSender
from hopscope.capture.ring.report_listener import ReportListener
from hopscope.fabric.load import Load
from hopscope.settings.listen import ListenSettings
from hopscope.wire.records import FrameBatch, Link

PORT = 32766
FILLED = 3
"""Blocks of the load that are sent before they are taken: 49,152 reports."""
SETTLE_SECONDS = 0.05
"""The kernel hands the last block of the ring over after 16 ms."""
_DROP = (
    ["tc", "qdisc", "add", "dev", "near", "clsact"],
    ["tc", "filter", "add", "dev", "near", "ingress", "bpf", "da", "bytecode", "1,6 0 0 2"],
)
"""Drops frames that the ring has received, before IP: classic BPF that returns TC_ACT_SHOT."""


class Receiver(Protocol):
    """Where reports come in."""

    def receive(self) -> FrameBatch | None:
        """What has come, described in place; None: nothing."""


class Nothing:
    """Every frame is dropped by the XDP program."""

    def receive(self) -> FrameBatch | None:
        """Nothing."""
        return None


@contextmanager
def opened(path: str, program: BpfObject) -> Iterator[Receiver]:
    """A receiver on one path, for one round."""
    if path.startswith("ring"):
        if path != "ring":
            for words in _DROP:
                subprocess.run(words, check=True)
        ring = ReportListener(ListenSettings(kind="ring", interface="near", port=PORT))
        ring.open()
        yield ring
        ring.close()
        if path != "ring":
            subprocess.run(["tc", "qdisc", "del", "dev", "near", "clsact"], check=True)
        return
    program.attach("give", socket.if_nametoindex("near"))
    if path == "dropped":
        yield Nothing()
    else:
        receiver = XskReceiver("near", PORT)
        key, value = ctypes.c_uint32(0), ctypes.c_uint32(receiver.fileno())
        given = (program.descriptor("sockets"), ctypes.byref(key), ctypes.byref(value), ctypes.c_uint64(0))
        if library().bpf_map_update_elem(*given):
            raise OSError("the socket does not go into the program's map")
        yield receiver
        receiver.close()
    program.detach()


def measure(sender: PacedSender, load: Load, receiver: Receiver) -> tuple[float, float]:
    """Processor time of sending with all that the kernel does, and of taking; ns a report."""
    blocks = [load.next(len(load.octets)) for _ in range(FILLED)]
    begin, count = time.thread_time_ns(), 0
    for block in blocks:
        sender.send(block)
        count += len(block)
    sent = time.thread_time_ns() - begin
    time.sleep(SETTLE_SECONDS)
    begin, taken = time.thread_time_ns(), 0
    while (batch := receiver.receive()) is not None:
        taken += len(batch)
    spent = time.thread_time_ns() - begin
    if taken != count and not isinstance(receiver, Nothing):
        raise SystemExit(f"{count - taken} of {count} reports were lost")
    return sent / count, spent / count


def main() -> None:
    """Lengths of frames: one, three and six hops of eight fields."""
    bench, _ = Bench.start(
        "af_xdp",
        "CPU time per report that is sent at one end of a veth pair and received at the other, "
        "by one core: sending, with all of the kernel's work, and taking; medians of "
        "alternating rounds.",
        "zero-copy drivers, which this machine does not have; decoding and detection.",
    )
    pair("192.0.2.1")
    rounds = 5 if bench.quick else 15
    with tempfile.TemporaryDirectory() as folder:
        program = BpfObject(compile_program(Path(folder), Path(__file__).with_suffix(".bpf.c")))
        program.load()
    sender = PacedSender("far")
    for hops in (1, 3, 6):
        load = Load(hops=hops, flows=100, sources=4, link=Link.ETHERNET, collector="192.0.2.1", port=PORT)
        load.octets[:, :12] = list(bytes.fromhex("ffffffffffff") + sender.address)
        times: dict[str, list[tuple[float, float]]] = {
            "dropped": [],
            "ring": [],
            "ring, then tc drop": [],
            "af_xdp": [],
        }
        for number in range(rounds + 1):
            for path, found in times.items():
                with opened(path, program) as receiver:
                    one = measure(sender, load, receiver)
                if number:  # kernels were loaded in the first
                    found.append(one)
        for path, found in times.items():
            for what, column in (("sending, kernel", 0), ("taking", 1)):
                if path != "dropped" or not column:
                    bench.row(
                        {"by": path, "hops": hops, "what": what},
                        median([one[column] for one in found]),
                        "ns/report",
                    )
    sender.close()
    program.close()


if __name__ == "__main__":
    main()

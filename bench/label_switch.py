"""How fast the software switch labels and restores frames, and how fast labels are read, in memory."""

from __future__ import annotations

import numpy as np

from harness.common import Bench, seconds_of
from hopscope.labels.registers import Registers
from hopscope.settings.label import LabellingSettings
from hopscope.testbed.forwarder import Forwarder, RoutingTables
from hopscope.wire.address import MAPPED
from hopscope.wire.headers.ethernet import Ethernet, Ip, Udp, push_ethernet, push_ip, push_udp
from hopscope.wire.label.batch import LabelDecoder
from hopscope.wire.label.codec import MAX_HOP, push_label, read_labels
from hopscope.wire.label.layout import LabelItem
from hopscope.wire.records import FRAME, FrameBatch, Link

BATCH, FLOWS, ROOM = 1024, 64, 2048
NEAR, FAR = MAPPED | 0x0A000001, MAPPED | 0x0A000102
PORTS = [(1, 1), (1, 2), (1, 3)]
"""Of one switch: the near host, an inner port, the far host."""
INTERVAL_NS = 50_000_000


def frame(flow: int, size: int, labels: int) -> bytes:
    """An Ethernet frame of `size` bytes without its labels."""
    out = bytearray()
    push_ethernet(out, Ethernet(2, 1))
    push_ip(out, Ip(4, NEAR, FAR, 17, size - 14))
    push_udp(out, Udp(4000 + flow, 5201, size - 34))
    whole = bytes(out).ljust(size, b"\0")
    for node in range(labels):
        whole = push_label(whole, LabelItem(node, 1, 2, 1_000_000 * node, 900, 3000))
    return whole


def batch_of(parts: list[bytes], link: Link) -> FrameBatch:
    """These bytes as a batch."""
    rows = np.zeros(len(parts), FRAME)
    rows["length"] = rows["wire_length"] = [len(part) for part in parts]
    rows["offset"] = np.cumsum(rows["length"]) - rows["length"]
    rows["link"] = link
    return FrameBatch(np.frombuffer(b"".join(parts), np.uint8), rows)


def switch(bench: Bench, size: int, labels: int, egress: int, due: bool) -> None:
    """Frames of one ingress port through the switch, to one egress port."""
    registers = Registers.create(None, PORTS, INTERVAL_NS)
    registers.last[:] = INTERVAL_NS
    registers.flag[egress] = due
    to_host = [True, False, True]
    settings = LabellingSettings(algorithm="base-a")
    forwarder = Forwarder(registers, RoutingTables([(FAR, 0)], {(1, 0): [egress]}), to_host, settings)
    batch = batch_of([frame(i % FLOWS, size, labels) for i in range(BATCH)], Link.ETHERNET)
    arena, slots = np.zeros(BATCH * ROOM, np.uint8), np.arange(BATCH, dtype=np.uint64) * ROOM
    ingress = 1 if labels or egress == 2 else 0
    rounds = 20 if bench.quick else 200

    def work() -> None:
        for _ in range(10):
            rows = forwarder.route(batch, ingress)
            sent = forwarder.forward(
                batch, rows, egress, arena, slots, room=ROOM, mtu=1800, now_ns=INTERVAL_NS + 1
            )
            forwarder.exports()
            assert len(sent) == BATCH

    what = f"{'labels all' if due else 'none due'}, {'last hop' if egress == 2 else 'inner port'}"
    case: dict[str, object] = {"case": what, "bytes": size, "labels": labels}
    taken = min(seconds_of(work, rounds)) / (10 * BATCH)
    bench.row(case, 1 / taken, "frames/s", f"{taken * 1e9:.0f} ns a frame")


def read(bench: Bench, labels: int, exported: bool) -> None:
    """Labels out of packets, or out of the datagrams of last hops."""
    parts = [frame(i % FLOWS, 200, labels) for i in range(BATCH)]
    if exported:
        found = [read_labels(part) for part in parts]
        blocks = [part[one.at : one.end] for part, one in zip(parts, found, strict=True) if one]
        per = max(1, 1472 // len(blocks[0]))
        parts = [b"".join(blocks[i : i + per]) for i in range(0, len(blocks), per)]
    decoder = LabelDecoder(MAX_HOP)
    batch = batch_of(parts, Link.UDP_PAYLOAD if exported else Link.ETHERNET)

    def work() -> None:
        for _ in range(10):
            assert len(decoder.decode(batch).labels) == BATCH * labels

    taken = min(seconds_of(work, 20 if bench.quick else 200)) / (10 * BATCH * labels)
    case: dict[str, object] = {
        "case": "read, datagrams" if exported else "read, packets",
        "bytes": "",
        "labels": labels,
    }
    bench.row(case, 1 / taken, "labels/s", f"{taken * 1e9:.1f} ns a label")


def main() -> None:
    """Run it."""
    bench, _ = Bench.start(
        "label_switch",
        "frames per second through the software switch's kernel, and labels per second read "
        "from packets and datagrams, on one core.",
        "rings and system calls; the same 1,024 frames are repeated, and the fastest round counts.",
    )
    for size in (64, 1500):
        for labels, egress, due in ((0, 1, False), (0, 1, True), (4, 1, True), (0, 2, False), (4, 2, True)):
            switch(bench, size, labels, egress, due)
    for labels in (1, 5):
        for exported in (False, True):
            read(bench, labels, exported)


if __name__ == "__main__":
    main()

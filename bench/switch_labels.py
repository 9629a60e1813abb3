"""What the programs of INT-label take for a packet, by BPF_PROG_TEST_RUN (root), and the software switch."""

from __future__ import annotations

import numpy as np

from harness.common import Bench, seconds_of
from hopscope.bpf.tc import Direction
from hopscope.labels.registers import Registers
from hopscope.settings.label import LabellingSettings
from hopscope.switch.labels.layout import LabelRole
from hopscope.switch.labels.maps import EVERY
from hopscope.switch.labels.program import LabelProgram
from hopscope.switch.settings import SwitchSettings
from hopscope.testbed.forwarder import Forwarder, RoutingTables
from hopscope.wire.records import Link
from label_switch import BATCH, FAR, FLOWS, INTERVAL_NS, PORTS, ROOM, batch_of, frame

LO, MTU, OTHER = 1, 1800, 2
EGRESS, INGRESS = Direction.EGRESS, Direction.INGRESS


def loaded(role: LabelRole, every: bool) -> LabelProgram:
    """The programs; their port labels every packet, or none."""
    label = {"algorithm": "base-a", "interval": 1000, "own": True}
    settings = SwitchSettings.model_validate({"node_id": 7, "interfaces": ["lo"], "label": label})
    program = LabelProgram(settings, 0)
    program.place(LO, role, MTU)
    program.place(OTHER, LabelRole.INNER, MTU)
    program.maps.set_reg2(LO, EVERY if every else 0)
    return program


def context() -> bytes:
    """A packet from interface OTHER that leaves through the loopback interface (struct __sk_buff)."""
    out = bytearray(192)
    out[36], out[40] = OTHER, LO
    return bytes(out)


def of_program(program: LabelProgram, direction: Direction, given: bytes, repeat: int, rounds: int) -> float:
    """ns a packet, the median of rounds; in a round, a run has the packet that the one before left."""
    found = sorted(program.run(direction, given, context(), repeat) for _ in range(rounds))
    return found[rounds // 2]


def of_software(size: int, labels: int, egress: int, every: bool, rounds: int) -> float:
    """ns a packet of the software switch's kernels, in memory, the quickest round."""
    registers = Registers.create(None, PORTS, INTERVAL_NS)
    registers.last[:] = INTERVAL_NS
    registers.flag[egress] = every
    routes = RoutingTables([(FAR, 0)], {(1, 0): [egress]})
    switch = Forwarder(registers, routes, [True, False, True], LabellingSettings(algorithm="base-a"))
    batch = batch_of([frame(i % FLOWS, size, labels) for i in range(BATCH)], Link.ETHERNET)
    arena, slots = np.zeros(BATCH * ROOM, np.uint8), np.arange(BATCH, dtype=np.uint64) * ROOM

    def work() -> None:
        rows = switch.route(batch, 1)
        switch.forward(batch, rows, egress, arena, slots, room=ROOM, mtu=MTU, now_ns=INTERVAL_NS + 1)
        switch.exports()

    return min(seconds_of(work, rounds)) / BATCH * 1e9


def main() -> None:
    """Every path through the programs, for short and long packets."""
    bench, _ = Bench.start(
        "switch_labels",
        "time per packet of INT-label at tc, by BPF_PROG_TEST_RUN, on UDP over IPv4, and of "
        "the software switch's kernels in the same run. A single run includes reading the "
        "clock twice; for comparison, there is a row in which no label is due.",
        "forwarding, rings, system calls, and the effect of other packets on the caches.",
    )
    rounds = 100 if bench.quick else 1000
    for size in (64, 1400):
        plain, labelled = frame(0, size, 0), frame(0, size, 3)
        idle, busy, last = (
            loaded(LabelRole.INNER, False), loaded(LabelRole.INNER, True), loaded(LabelRole.HOST, False),
        )  # fmt: skip
        of_program(idle, EGRESS, plain, 1, 1)  # the first packet of a port is due
        cases = {
            "ingress": of_program(idle, INGRESS, plain, 1000, rounds),
            "egress, none due": of_program(idle, EGRESS, plain, 1000, rounds),
            "egress, none due, single run": of_program(idle, EGRESS, plain, 1, rounds),
            "egress, labels, single run": of_program(busy, EGRESS, plain, 1, rounds),
            "last hop, 3 labels off, single run": of_program(last, EGRESS, labelled, 1, rounds),
            "software switch, none due": of_software(size, 0, 1, False, rounds // 10),
            "software switch, labels": of_software(size, 0, 1, True, rounds // 10),
            "software switch, last hop, 3 labels": of_software(size, 3, 2, False, rounds // 10),
        }
        for case, found in cases.items():
            bench.row({"case": case, "bytes": size}, found, "ns a packet")
        for program in (idle, busy, last):
            program.close()


if __name__ == "__main__":
    main()

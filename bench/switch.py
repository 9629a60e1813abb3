"""What the programs of a switch take for a packet, by BPF_PROG_TEST_RUN (root)."""

from __future__ import annotations

from harness.common import Bench
from hopscope.switch.layout import SwitchCount
from hopscope.switch.program import SwitchProgram
from hopscope.switch.settings import SwitchSettings
from support.packets.packet_cases import Packet

LO, MTU = 1, 9000
ITEMS = ("node_id", "interfaces", "hop_latency", "egress_timestamp")


def loaded(*watch: dict[str, str], items: tuple[str, ...] = ITEMS) -> SwitchProgram:
    """The programs, with these entries of the watch list."""
    settings = SwitchSettings.model_validate(
        {"node_id": 7, "interfaces": ["lo"], "watch": watch, "hop_limit": 255, "instructions": items}
    )
    program = SwitchProgram(settings)
    program.allow(LO, MTU)
    return program


def median(
    program: SwitchProgram,
    given: bytes,
    rounds: int,
    repeat: int,
    counted: SwitchCount,
    role: str = "egress",
    *,
    reports: bool = False,
) -> float:
    """ns a packet, the median of rounds; a run of a round has the packet that the one before left. With
    `reports`, they go into the ring, which has room for them.
    """
    before, found = program.counts()[counted], []
    for _ in range(rounds):
        if reports:
            program.report()
        found.append(program.run(role, given, repeat)[1])
    found.sort()
    if program.counts()[counted] - before != rounds * repeat:
        raise SystemExit(f"not all are {counted.label}: {program.counts()}")
    return found[rounds // 2]


def main() -> None:
    """Every path through the programs, for short and long packets."""
    bench, _ = Bench.start(
        "switch",
        "time per packet of the programs at tc, by BPF_PROG_TEST_RUN. Transit: mean of 40 "
        "runs, each of which adds a hop to the packet of the previous run. Source and sink: a "
        "single run, with a row without INT for comparison. Sink and postcards include a "
        "report in the ring.",
        "forwarding, and the effect of other packets on the caches; a single run includes "
        "reading the clock twice.",
    )
    rounds = 100 if bench.quick else 1000
    for size in (64, 512, 1400):
        plain = Packet(payload=bytes(size)).frame()
        source, transit, xd = loaded({}), loaded(), loaded({"mode": "xd"})
        idle = loaded({"mode": "xd"})
        queue = loaded({}, items=(*ITEMS, "queue_occupancy"))
        marked = source.leave(plain)[1]
        unwatched, first, added = SwitchCount.UNWATCHED, SwitchCount.SOURCE, SwitchCount.TRANSIT
        ended = SwitchCount.SINK
        cases = {
            "ingress": source.run("ingress", plain, 1000 * rounds)[1],
            "egress, not watched": median(transit, plain, rounds, 1000, unwatched),
            "egress, transit": median(transit, marked, rounds, 40, added),
            "egress, not watched, single run": median(transit, plain, rounds, 1, unwatched),
            "egress, source, single run": median(source, plain, rounds, 1, first),
            "egress, source with queue, single run": median(queue, plain, rounds, 1, first),
            "sink, single run": median(transit, marked, rounds, 1, ended, "sink", reports=True),
            "postcard": median(xd, plain, rounds, 10, SwitchCount.POSTCARD, reports=True),
            "postcard, no process sends": median(idle, plain, rounds, 1000, SwitchCount.POSTCARD),
        }
        for case, found in cases.items():
            bench.row({"case": case, "payload": size}, found, "ns a packet")
        for program in (source, transit, xd, idle, queue):
            program.close()


if __name__ == "__main__":
    main()

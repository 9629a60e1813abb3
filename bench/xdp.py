"""What the XDP program takes for a report that ends in the kernel, by BPF_PROG_TEST_RUN (root)."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from harness.common import Bench
from hopscope.bpf.build import compile_program
from hopscope.bpf.filter import Filter
from hopscope.bpf.layout import Count
from hopscope.bpf.program import XdpProgram
from hopscope.bpf.ring import BpfRing
from hopscope.detect.detector import Detector
from hopscope.settings.collector import DetectSettings, ListenSettings
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import ReportBatch

SOURCE = Path(__file__).with_name("xdp.bpf.c")
BITMAPS = {1: 0xA000, 8: 0xFF00}
"""Instructions by number of fields; one field: the latency, and the node id that it is about."""
AT = 42
"""Where the sequence number is: after Ethernet, IPv4 and UDP headers."""
WARM = 200
"""Reports until the program compares: 64 of a source, then those that are watched."""


def frame(hops: int, fields: int) -> bytes:
    """A Report 2.0 in an Ethernet frame."""
    reports = new_reports(1)
    reports["source_lo"] = mapped_v4(np.array([0xC0000201], np.uint32))
    reports["node_id"], reports["int_version"], reports["hop_count"] = 7, 20, hops
    reports["instructions"] = BITMAPS[fields]
    metadata = new_hops(hops, BITMAPS[fields])
    metadata["node_id"] = 10 + np.arange(hops)
    metadata["egress_port"], metadata["hop_latency"], metadata["queue_occupancy"] = 3, 700, 5
    made = encode_reports(ReportBatch(reports, metadata))
    return made.arena[: int(made.frames["length"][0])].tobytes()


def renumbered(given: bytes, number: int) -> bytes:
    """The frame such that the program, which adds 1, reads number + 1."""
    word = int.from_bytes(given[AT : AT + 4], "big") & ~0x3FFFFF | number & 0x3FFFFF
    return given[:AT] + word.to_bytes(4, "big") + given[AT + 4 :]


def best(program: XdpProgram, given: bytes, rounds: int, repeat: int) -> int:
    """ns a report: the best of some rounds, each of which goes on where the one before ended."""
    before = program.counts()[Count.FILTERED]
    found = [program.run(renumbered(given, WARM + number * repeat), repeat)[1] for number in range(rounds)]
    if program.counts()[Count.FILTERED] - before != rounds * repeat:
        raise SystemExit(f"not all were filtered: {program.counts()}")
    return min(found)


def main() -> None:
    """Reports of one known flow without an event, their sequence numbers in order."""
    bench, _ = Bench.start(
        "xdp",
        "ns a report of the XDP program, one known flow, no event, sequence numbers in order; the best of"
        " some rounds, by BPF_PROG_TEST_RUN.",
        "the driver, the caches of many flows, and what goes up.",
    )
    rounds, repeat = (3, 100_000) if bench.quick else (15, 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = compile_program(Path(folder), SOURCE)
        for fields in (1, 8):
            for hops in (1, 3, 6):
                settings = DetectSettings(flow_rows=1024, ports=4096, sources=64)
                listen = ListenSettings(kind="xdp", interface="lo")
                program = XdpProgram(listen, settings, path, "numbered")
                detector, ring = Detector(settings), BpfRing(settings.sources)
                ring.map(program.ring, program.ring_bytes)
                filter_ = Filter(program, ring, detector, DEFAULT)
                given = frame(hops, fields)
                for number in range(WARM):
                    program.run(renumbered(given, number))
                    while (batch := filter_.receive()) is not None:
                        for _ in detector.update(filter_.decode(batch)):
                            pass
                found = best(program, given, rounds, repeat)
                bench.row({"hops": hops, "fields": fields}, found, "ns a report")
                program.close()


if __name__ == "__main__":
    main()

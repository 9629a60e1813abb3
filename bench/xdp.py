"""What the XDP program takes for a report that ends in the kernel, by BPF_PROG_TEST_RUN (root)."""

from __future__ import annotations

import argparse
import struct
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.common import Bench
from harness.dialects import OTHERS, SPECIFIED, Format, frames_of
from hopscope.bpf.build import compile_program
from hopscope.bpf.filter import Filter
from hopscope.bpf.layout import Count
from hopscope.bpf.libbpf import BpfObject
from hopscope.bpf.program import XdpProgram
from hopscope.bpf.ring import BpfRing
from hopscope.detect.detector import Detector
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.dialect import DEFAULT

DRIVER = Path(__file__).with_name("xdp.bpf.c")
CASES = (
    *((hops, fields, 100) for fields in (1, 8) for hops in (1, 3, 6)),
    (12, 8, 100),
    (3, 8, 50_000),
    (6, 8, 50_000),
)
"""Hops, fields, flows."""
OUTER = 14 + 20 + 8
"""Bytes of Ethernet, IPv4 and UDP headers."""
FIRST_FLOW = 0x0A000000
NUMBERS = {"2.0": (0, 0x3FFFFF), "1.0": (8, 0xFFFFFFFF), "0.5": (4, 0xFFFFFFFF)}
"""Where a report has its sequence number, and the bits of it."""
PLAN = struct.Struct("<5I")
WARM = 16
"""Reports of each flow until the program compares them."""
PART = 2048
"""Reports after which the detector has its turn meanwhile."""


@dataclass(frozen=True)
class Report:
    """A report as a frame, and where the driver changes it."""

    frame: bytes
    number: int
    mask: int
    flow: int

    def numbered(self, number: int) -> bytes:
        """The frame with a sequence number."""
        (word,) = struct.unpack_from(">I", self.frame, self.number)
        word = word & ~self.mask | number & self.mask
        return self.frame[: self.number] + struct.pack(">I", word) + self.frame[self.number + 4 :]


def report(form: Format, hops: int, fields: int) -> Report:
    """One of this format."""
    batch = frames_of(form, 1, hops, fields, 1)
    payload = batch.arena[: int(batch.frames["length"][0])].tobytes()
    ethernet = struct.pack(">6s6sH", b"\2\0\0\0\0\1", b"\2\0\0\0\0\2", 0x0800)
    addresses = (bytes((192, 0, 2, 1)), bytes((192, 0, 2, 254)))
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(payload), 0, 0, 64, 17, 0, *addresses)
    udp = struct.pack(">HHHH", 32766, 32766, 8 + len(payload), 0)
    at, mask = NUMBERS[str(form.report)]
    flow = payload.index(struct.pack(">I", FIRST_FLOW))
    return Report(ethernet + ip + udp + payload, OUTER + at, mask, OUTER + flow)


@contextmanager
def driving(path: Path, one: Report, flows: int, measured: int, parts: bool) -> Iterator[Callable[..., int]]:
    """What runs a program by its descriptor so many times, from a sequence number on, and returns the mean ns
    of a run; `parts`: it takes frames in several parts.
    """
    driver = BpfObject(path)
    driver.constants()[: PLAN.size] = PLAN.pack(one.number, one.mask, one.flow, FIRST_FLOW, flows)
    driver.load()
    driver.put("measured_parts" if parts else "measured", 0, measured)

    def run(number: int, repeat: int) -> int:
        return driver.run("parts" if parts else "whole", one.numbered(number), repeat)[1]

    yield run
    driver.close()


def known(run: Callable[..., int], filter_: Filter, detector: Detector, flows: int) -> int:
    """Have the program compare all flows; returns the number of reports that it took."""
    number = 0
    while number < WARM * max(flows, 16):
        run(number, PART)
        number += PART
        while (batch := filter_.receive()) is not None:
            for _ in detector.update(filter_.decode(batch)):
                pass
    return number


def best(run: Callable[..., int], number: int, bench: Bench) -> int:
    """ns a report: the best of some rounds, each of which goes on where the one before ended."""
    rounds, repeat = (5, 100_000) if bench.quick else (9, 200_000)
    return min(run(number + each * repeat, repeat) for each in range(rounds))


def ours(bench: Bench, path: Path, form: Format, hops: int, fields: int, flows: int) -> int:
    """ns a report of the program of this project."""
    rows = 1 << (flows // 4).bit_length()
    settings = DetectSettings(flow_rows=max(1024, rows), ports=4096, sources=64)
    program = XdpProgram(ListenSettings(kind="xdp", interface="lo", promiscuous=True), settings)
    one = report(form, hops, fields)
    detector, ring = Detector(settings), BpfRing(settings.sources)
    ring.map(program.ring, program.ring_bytes)
    filter_ = Filter(program, ring, detector, DEFAULT)
    with driving(path, one, flows, program.descriptor, parts=True) as run:
        number = known(run, filter_, detector, flows)
        before = program.counts()
        found = best(run, number, bench)
        after = program.counts()
    program.close()
    given = sum(after.values()) - sum(before.values())
    if after[Count.FILTERED] - before[Count.FILTERED] < 0.999 * given:
        raise SystemExit(f"not all were filtered: {after}")
    return found


def beside(bench: Bench, path: Path, other: str, form: Format, hops: int, fields: int, flows: int) -> int:
    """ns a report of another program, which knows all flows by then."""
    name, _, program = other.rpartition(":")
    loaded = BpfObject(Path(name))
    loaded.load()
    with driving(path, report(form, hops, fields), flows, loaded.program(program), parts=False) as run:
        run(0, WARM * flows)
        found = best(run, WARM * flows, bench)
    loaded.close()
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """What else it takes."""
    parser.add_argument(
        "--beside", metavar="OBJECT:PROGRAM", help="another compiled XDP program, for reports to port 32766"
    )
    parser.add_argument(
        "--format", default="intcollector, 1.0", choices=OTHERS, help="format of the reports that it gets"
    )


def main() -> None:
    """Reports of known flows on one path without an event, their sequence numbers in order."""
    bench, arguments = Bench.start(
        "xdp",
        "time per report of the XDP program: known flows, one after the other, on one path, no "
        "event, sequence numbers in order; the best of several rounds, by BPF_PROG_TEST_RUN. "
        "Before it, a second program makes the next report in place; the row `none` is that "
        "program alone.",
        "the driver, and reports that are passed to the worker.",
        add_options,
    )
    cases = [case for case in CASES if case[2] == 100] if bench.quick else CASES
    with tempfile.TemporaryDirectory() as folder:
        path = compile_program(Path(folder), DRIVER)
        for hops, fields, flows in cases:
            case = {"hops": hops, "fields": fields, "flows": flows}
            every = fields == 8 and flows == 100
            for version, of_int in (("2.0", "2"), ("1.0", "1.0"), ("0.5", "0.5"))[: 3 if every else 1]:
                found = ours(bench, path, SPECIFIED[version, of_int], hops, fields, flows)
                bench.row({**case, "program": f"hopscope, Report {version}"}, found, "ns a report")
            if arguments.beside and hops <= 6:
                form = OTHERS[arguments.format][0]
                found = beside(bench, path, arguments.beside, form, hops, fields, flows)
                bench.row({**case, "program": "beside"}, found, "ns a report")
        bench.row({"program": "none"}, nothing(bench, path), "ns a report")


def nothing(bench: Bench, path: Path) -> int:
    """ns of what makes the report, before a program that drops it."""
    drops = BpfObject(path)
    drops.load()
    one = report(SPECIFIED["2.0", "2"], 3, 8)
    with driving(path, one, 100, drops.program("nothing"), parts=False) as run:
        found = best(run, 0, bench)
    drops.close()
    return found


if __name__ == "__main__":
    main()

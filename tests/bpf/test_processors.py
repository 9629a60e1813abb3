"""The program on two processors at a time: they take the tables in turns, and no count is lost."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hopscope.bpf.build import compile_program
from hopscope.bpf.layout import Count
from hopscope.bpf.libbpf import BpfObject
from hopscope.bpf.program import XdpProgram
from hopscope.detect.counters import INDEX
from hopscope.settings.listen import ListenSettings
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import ReportBatch
from support.packets.xdp_make import SETTINGS, Filtering, built, frames_of

pytestmark = pytest.mark.kernel
DRIVER = Path(__file__).parents[2] / "bench" / "xdp.bpf.c"
"""Runs a program on a frame whose sequence number goes on by one at each run."""
AT = 42
"""Where the number is: after Ethernet, IPv4 and UDP headers."""
PLAN = struct.pack("<5I", AT, 0x3FFFFF, AT, 0, 1)
WARM = 200
RUNS = 1_000
"""Of each processor in a round: what goes up of them has room in the ring."""
ROUNDS = 1_000
"""At most, until FILTERED have been: of a processor that waits for the tables for too long, reports go up."""
FILTERED = 50_000
HOPS = 4


def frame(source: int, number: int) -> bytes:
    """A report of a source of its own about a flow of its own, on the path that all of them share."""
    reports, hops = new_reports(1), new_hops(HOPS, 0xF180)
    reports["source_lo"] = mapped_v4(np.array([0xC0000200 + source], np.uint32))
    reports["src_lo"] = mapped_v4(np.array([0x0A000000 + source], np.uint32))
    reports["dst_lo"] = mapped_v4(np.array([0x0A000100], np.uint32))
    reports["sport"], reports["dport"], reports["proto"] = 1000, 2000, 17
    reports["node_id"], reports["int_version"], reports["hop_count"] = 100 + source, 20, HOPS
    reports["instructions"], reports["remaining_hops"] = 0xF180, 8
    hops["node_id"], hops["egress_port"], hops["ingress_port"] = 10 + np.arange(HOPS), 3, 1
    hops["hop_latency"], hops["queue_id"], hops["queue_occupancy"] = 700, 1, 5
    hops["tx_utilization"], hops["buffer_id"], hops["buffer_occupancy"] = 500, 1, 70
    made = frames_of(encode_reports(ReportBatch(reports, hops)))[0]
    word = int.from_bytes(made[AT : AT + 4], "big") & ~0x3FFFFF | number
    return made[:AT] + word.to_bytes(4, "big") + made[AT + 4 :]


def test_counts_of_two_processors(tool: Callable[..., str], tmp_path: Path) -> None:
    """Two processors at the same queues and ports: each datagram is counted once, and each of its values."""
    processors = sorted(os.sched_getaffinity(0))[:2]
    if len(processors) < 2:
        pytest.skip("this machine has one processor")
    built(tool)
    listen = ListenSettings(kind="xdp", interface="lo", promiscuous=True, ring_bytes=1 << 20)
    program = XdpProgram(listen, SETTINGS)
    driver = BpfObject(compile_program(tmp_path, DRIVER))
    driver.constants()[: len(PLAN)] = PLAN
    driver.load()
    driver.put("measured_parts", 0, program.descriptor)
    filtering = Filtering(program)
    received = 0
    for number in range(WARM):
        filtering.give([frame(0, number), frame(1, number)])
        received += filtering.turn()

    def run(source: int, number: int) -> None:
        os.sched_setaffinity(0, {processors[source]})
        driver.run("parts", frame(source, number), RUNS)

    rounds = 0
    with ThreadPoolExecutor(2) as pool:
        while rounds < ROUNDS and filtering.filtered < FILTERED:
            both = [pool.submit(run, source, WARM - 1 + rounds * RUNS) for source in (0, 1)]
            while not all(one.done() for one in both):  # as a collector does
                received += filtering.turn()
                filtering.filter.merge()
            for one in both:
                one.result()
            while count := filtering.turn():
                received += count
            rounds += 1
    filtering.drain()
    given, counts = 2 * (WARM + rounds * RUNS), program.counts()
    driver.close()
    program.close()
    assert sum(counts.values()) == given
    assert counts[Count.FILTERED] >= FILTERED
    assert counts[Count.RING_FULL] == 0
    assert counts[Count.FILTERED] + received == given
    assert filtering.detector.counters[INDEX["reports_total"]] == counts[Count.FILTERED]
    flows, ports = (filtering.detector.tables[name][name] for name in ("flows", "ports"))
    assert int(flows["packets"].sum()) == given
    used = ports[ports["samples"] > 0]
    assert len(used) == 3 * HOPS
    assert used["samples"].tolist() == [given] * (3 * HOPS)

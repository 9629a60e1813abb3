"""The sink of a switch and its reports, by BPF_PROG_TEST_RUN."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hopscope.bpf.ring import BpfRing
from hopscope.switch.layout import REPORT_RING_BYTES, ReportCount, SwitchCount
from hopscope.switch.program import SwitchProgram
from hopscope.wire.decode.plain import DecodedReport, read_plain
from hopscope.wire.dialect import DEFAULT
from hopscope.wire.records import Have, Link, Mode
from support.network.switch_programs import LO, NEXT, PORT, plain, total, udp_error
from support.packets.packet_cases import Packet
from support.packets.wire_cases import frame_batch

Load = Callable[..., SwitchProgram]
DIALECT = replace(DEFAULT, int_ports=(PORT,))
GROUP = (2 << 28 | 5).to_bytes(4, "big") + (7).to_bytes(4, "big")


class Reports:
    """What a switch reports from now on."""

    def __init__(self, switch: SwitchProgram) -> None:
        self._ring = BpfRing()
        self._ring.map(switch.report(), REPORT_RING_BYTES)

    def raw(self) -> list[bytes]:
        """Individual reports."""
        batch = self._ring.receive()
        if batch is None:
            return []
        places = zip(batch.frames["offset"].tolist(), batch.frames["length"].tolist(), strict=True)
        return [batch.arena[at : at + size].tobytes() for at, size in places]

    def found(self) -> list[DecodedReport]:
        """As a collector reads them."""
        payloads = [GROUP + raw for raw in self.raw()]
        return list(read_plain(frame_batch(payloads, Link.UDP_PAYLOAD), DIALECT)) if payloads else []


@pytest.mark.parametrize("form", [{}, {"port": PORT}], ids=["dscp", "port"])
@pytest.mark.parametrize("mode", ["md", "mx"])
def test_packets_leave_the_sink_as_they_were(load: Load, mode: str, form: dict[str, int]) -> None:
    """Behind a source and two transits, the sink restores every packet byte for byte, and reports its path,
    or with INT-MX its own hop.
    """
    watch = [{"protocol": "any", "mode": mode}]
    switches = [load(node_id=node, watch=watch * (node == 1), **form) for node in (1, 2, 3)]
    sink = load(**form, watch=[])
    reports = Reports(sink)
    packets = plain(tcp=not form)
    for packet in packets:
        original = frame = packet.frame()
        for node, switch in enumerate(switches, 1):
            _, frame = switch.leave(frame, ingress=node + 10)
        assert frame != original
        assert sink.leave(frame, ingress=9, program="sink") == (NEXT, original)
        (found,) = reports.found()
        assert not found.row.reason
        assert [hop.node_id for hop in found.hops] == ([1, 2, 3] if mode == "md" else [])
        own = found.metadata
        assert own is not None
        assert (own.ingress_port, own.egress_port, own.l2_egress_port) == (9, LO, LO)
        assert not own.present & (Have.HOP_LATENCY | Have.INGRESS_TIME)  # BPF_PROG_TEST_RUN has no arrival
        row = found.row
        assert (row.sport, row.dport, row.proto) == (40_000, 53_000, packet.protocol)
        assert row.int_mode == (Mode.MD if mode == "md" else Mode.MX)
        assert row.inner_length == len(frame) - 14
    counters = sink.counters()
    assert counters.packets[SwitchCount.SINK] == counters.reports[ReportCount.QUEUED] == len(packets)


def test_without_a_process_packets_are_restored(load: Load) -> None:
    """What is not reported is counted; a full ring, too."""
    frame = Packet(payload=bytes(500)).frame()
    source, sink = load(), load(watch=[])
    marked = source.leave(frame)[1]
    assert sink.leave(marked, program="sink")[1] == frame
    assert sink.counters().reports[ReportCount.NO_SENDER] == 1
    reports = Reports(sink)
    sink.run("sink", marked)  # fills no ring
    assert len(reports.raw()) == 1
    for number in range(60_000):
        if number % 1000 == 0:
            sink.report()
        assert sink.leave(marked, program="sink")[1] == frame
        if sink_full := number % 1000 == 0 and sink.counters().reports[ReportCount.RING_FULL]:
            break
    assert sink_full


def test_postcards_of_packets_that_do_not_change(load: Load) -> None:
    """INT-XD: the packet leaves as it came, also as segments in one buffer, and the report has this hop and
    the packet's headers. Reports that a collector joins have the same packet id at every switch.
    """
    watch = [{"protocol": "any", "mode": "xd"}]
    switches = [load(node_id=node, watch=watch) for node in (1, 2)]
    readers = [Reports(switch) for switch in switches]
    for packet in plain():
        frame, found = packet.frame(), []
        for number, (switch, reports) in enumerate(zip(switches, readers, strict=True)):
            program = "egress" if number == 0 else "sink"
            assert (
                switch.leave(frame, ingress=4, gso=500 * (len(packet.payload) > 500), program=program)[1]
                == frame
            )
            found += reports.found()
        one, other = (each.row for each in found)
        assert not one.reason
        assert one.packet_id == other.packet_id != 0
        assert (one.sport, one.dport, one.inner_length) == (40_000, 53_000, len(frame) - 14)
        assert found[0].metadata is not None
        assert found[0].metadata.ingress_port == 4
    assert switches[0].counts()[SwitchCount.POSTCARD] == len(plain())


def test_a_postcard_by_hand(load: Load) -> None:
    """Telemetry Report 2.0, 3.2 and 3.3: report type 1 (INT), in type 4 (IPv4), tracked flow, metadata of
    ports and of both interfaces.
    """
    switch = load(
        watch=[{"mode": "xd"}], instructions=("node_id", "interfaces", "wide_interfaces", "hop_latency")
    )
    reports = Reports(switch)
    frame = Packet(payload=bytes(range(100))).frame()
    switch.leave(frame, ingress=3)
    words = "14 0f 03 204200 0000 0000 00000003 0001 0000 0003 0000 0001"
    assert reports.raw() == [bytes.fromhex(words) + frame[14 : 14 + 40]]


def test_samples_of_postcards_are_the_same_everywhere(load: Load) -> None:
    """One packet in four of a flow, chosen by its contents."""
    watch = [{"mode": "xd", "sample": 4, "protocol": "any"}]
    random = np.random.default_rng(8)
    frames = [Packet(4 + 2 * (n % 2), 17, random.bytes(50)).frame() for n in range(400)]
    chosen = []
    for node in (1, 2):
        switch = load(node_id=node, watch=watch)
        reports = Reports(switch)
        for frame in frames:
            switch.leave(frame)
        chosen.append([row.row.packet_id for row in reports.found()])
    assert chosen[0] == chosen[1]
    assert 60 < len(chosen[0]) < 140


def test_mutants_leave_the_sink_as_they_came_or_whole(load: Load) -> None:
    """Of damaged packets with INT, each leaves unchanged or without its INT: all other bytes, and what is
    wrong with its checksum, are as before.
    """
    random = np.random.default_rng(4)
    sink = load(watch=[])
    reports = Reports(sink)
    seeds = []
    for mode in ("md", "mx"):
        source, transit = load(watch=[{"protocol": "any", "mode": mode}]), load(watch=[])
        seeds += [transit.leave(source.leave(packet.frame())[1])[1] for packet in plain() if packet.payload]
    changed = 0
    for number in range(6000):
        mutant = bytearray(seeds[number % len(seeds)])
        for _ in range(1 + number % 3):
            mutant[random.integers(12, min(len(mutant), 110))] = random.integers(256)
        if number % 7 == 0:
            del mutant[random.integers(54, len(mutant)) :]
        given = bytes(mutant)
        if number % 500 == 0:
            sink.report()
        if number % 50 == 0:
            reports.raw()
        verdict, out = sink.leave(given, program="sink")
        assert verdict == NEXT
        if out == given:
            continue
        changed += 1
        l4 = 34 if given[12:14] == b"\x08\x00" else 54
        udp = given[23 if l4 == 34 else 20] == 17
        body = l4 + (8 if udp else (given[l4 + 12] >> 4) * 4)
        size = 4 + given[body + 1] * 4
        assert len(given) - len(out) == size
        assert out[body:] == given[body + size :]
        ignored = {14, 15, 16, 17, 18, 19, 24, 25} | (
            {l4 + 4, l4 + 5, l4 + 6, l4 + 7} if udp else {l4 + 16, l4 + 17}
        )
        assert all(out[at] == given[at] or at in ignored for at in range(body))
        assert error_of(out, l4, udp) == error_of(given, l4, udp), given.hex()
        if l4 == 34:
            assert total(out[14:34]) % 0xFFFF == total(given[14:34]) % 0xFFFF
            assert int.from_bytes(out[16:18], "big") == len(out) - 14
    assert changed > 1000


def error_of(frame: bytes, l4: int, udp: bool) -> int:
    """By how much the checksum of TCP or UDP is wrong, modulo 0xffff."""
    if udp:
        return udp_error(frame)
    return (total(frame[26 if l4 == 34 else 22 :]) + 6 + len(frame) - l4) % 0xFFFF


def test_the_load_of_a_link(load: Load) -> None:
    """Utilisation is what left since the window began, in 1/100 % of the speed: between what the clock says
    before and after the packets that begin and end it.
    """
    switch = load(watch=[{"mode": "xd"}], instructions=("node_id", "egress_utilization"))
    switch.allow(LO, 1500, 100)
    reports = Reports(switch)
    frame = Packet(payload=bytes(1208)).frame()
    busy_ns = len(frame) * 8 * 10  # at 100 Mbit/s
    times: list[tuple[int, int]] = []
    shown = 0
    while not shown:
        switch.report()
        before = time.monotonic_ns()
        switch.leave(frame)
        times.append((before, time.monotonic_ns()))
        time.sleep(0.001)
        for found in reports.found():
            assert found.metadata is not None
            shown = found.metadata.tx_utilization
    shortest, longest = times[-1][0] - times[0][1], times[-1][1] - times[0][0]
    busy = (len(times) - 1) * busy_ns * 10_000
    assert busy // longest <= shown <= busy // max(1, shortest)

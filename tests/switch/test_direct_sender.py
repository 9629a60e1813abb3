"""The reporter of DTA at a switch: what its programs report, in stores that answer queries."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from hopscope.bpf.ring import BpfRing
from hopscope.direct.monitors.monitor import Reports
from hopscope.direct.monitors.run import MonitorRun, start
from hopscope.direct.monitors.systems.netseer import NetSeer
from hopscope.direct.monitors.systems.packetscope import PipelineLosses, Traversal
from hopscope.direct.monitors.systems.path_tracing import PathTracing
from hopscope.direct.stores.spec import StoreSpec
from hopscope.runtime.direct.nic import NicProcess
from hopscope.runtime.switch.outlet import RoceOutlet
from hopscope.settings.direct import DirectSettings, NicSettings
from hopscope.switch.direct_sender import DirectSender, DtaOutlet, observations_of
from hopscope.switch.layout import REPORT_RING_BYTES
from hopscope.switch.program import SwitchProgram
from hopscope.wire.dta.forms import Form
from hopscope.wire.dta.parser import DtaParser
from hopscope.wire.encode.encoder import new_hops, new_reports
from hopscope.wire.observation import flow_bytes
from hopscope.wire.records import Carried, FrameBatch, Link, ReportBatch
from support.network.loopback import own_host
from support.network.switch_programs import LO
from support.packets.packet_cases import V4, Packet
from support.packets.wire_cases import frame_batch
from support.waiting import eventually

pytestmark = pytest.mark.kernel
SINK, GROUP = 9, (2 << 28 | 5).to_bytes(4, "big")
FLOW = flow_bytes(V4[0] & 0xFFFFFFFF, V4[1] & 0xFFFFFFFF, 17, 40_000, 53_000)


class Stores:
    """An outlet that is a translator with a store for each of these monitors."""

    def __init__(self, *runs: MonitorRun) -> None:
        self._runs = {run.monitor.layout(1).opcode: run for run in runs}

    def take(self, reports: Reports) -> int:
        """Translate."""
        run = self._runs[int(reports.records["opcode"][0])]
        run.translator.translate(reports.records, reports.arena)
        return len(reports)

    def turn(self) -> int:
        """Nothing is due."""
        return 0

    def close(self) -> None:
        """Write what waits."""
        for run in self._runs.values():
            run.flush()


def reported(load: Callable[..., SwitchProgram]) -> FrameBatch:
    """What a sink reports of a packet that came through a source and two transits, as its sender packs it."""
    frame = Packet(payload=b"payload").frame()
    for node in (1, 2, 3):
        switch = load(node_id=node, watch=[{}] * (node == 1))
        _, frame = switch.leave(frame, ingress=node + 10)
    sink = load(node_id=SINK, watch=[])
    ring = BpfRing()
    ring.map(sink.report(), REPORT_RING_BYTES)
    sink.leave(frame, ingress=4, program="sink")
    batch = ring.receive()
    assert batch is not None
    (at,), (size,) = batch.frames["offset"].tolist(), batch.frames["length"].tolist()
    raw = batch.arena[at : at + size].tobytes()
    return frame_batch([GROUP + SINK.to_bytes(4, "big") + raw], Link.UDP_PAYLOAD)


def test_the_path_of_a_packet_is_found_in_a_store(load: Callable[..., SwitchProgram]) -> None:
    """The programs of four switches and a translator: the stores know which switches the flow went through,
    and the ports of its latest packet in each.
    """
    datagrams = reported(load)
    paths, traversals = start(PathTracing()), start(Traversal())
    for run in (paths, traversals):
        sender = DirectSender([run.monitor.name], Stores(run))
        sender.take(datagrams)
        sender.close()
        assert sender.sent == sender.made > 0
    found = PathTracing().query(paths.store, FLOW)
    assert (found.found.tolist(), found.values.tolist()) == ([True], [[1, 2, 3, SINK, 0]])
    for node, ingress in ((1, 11), (2, 12), (3, 13), (SINK, 4)):
        (one,) = Traversal().query(traversals.store, [node], FLOW).values
        assert (one["ingress_port"], one["egress_port"]) == (ingress, LO)


def test_a_translator_reads_the_packets(load: Callable[..., SwitchProgram]) -> None:
    """DTA packets over UDP say what the monitor reports: the flow, and the switches of its path."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as translator:
        translator.bind(("127.0.0.1", 0))
        translator.settimeout(60)
        sender = DirectSender(["int-path-tracing"], DtaOutlet(*translator.getsockname()))
        sender.take(reported(load))
        datagram = translator.recv(2000)
        sender.close()
    (one,) = DtaParser(Form.SIZED).parse(frame_batch([datagram], Link.UDP_PAYLOAD))
    key, data = (
        datagram[one[f"{name}_at"] : one[f"{name}_at"] + one[f"{name}_bytes"]] for name in ("key", "data")
    )
    assert key == FLOW.tobytes()
    assert np.frombuffer(data, ">u4").tolist() == [1, 2, 3, SINK, 0]


def test_the_switch_writes_by_rocev2(load: Callable[..., SwitchProgram], tmp_path: Path) -> None:
    """The reports are in the memory of a collector's NIC, which verifies the ICRC of every packet whole."""
    host, own = own_host(211), own_host(212)
    settings = DirectSettings(nic=NicSettings(hosts=(host,), any_ip_id=False))
    nic = NicProcess(settings, tmp_path, [StoreSpec("int-path-tracing", PathTracing().layout(64))])
    nic.open()
    outlet = RoceOutlet([host], own, lambda line: None)
    try:

        def connected() -> bool:
            nic.turn()
            outlet.turn()
            return outlet.connected == 1

        eventually(connected)
        sender = DirectSender(["int-path-tracing"], outlet)
        sender.take(reported(load))
        assert sender.sent == 1

        def written() -> bool:
            nic.turn()
            outlet.turn()
            return bool(PathTracing().query(nic.stores["int-path-tracing"], FLOW).found.all())

        eventually(written)
        paths = PathTracing().query(nic.stores["int-path-tracing"], FLOW).values
        assert paths.tolist() == [[1, 2, 3, SINK, 0]]
    finally:
        outlet.close()
        nic.close()


def test_drops_are_appended() -> None:
    """A report of a dropped packet becomes an entry in the lists of both monitors of losses."""
    reports = new_reports(1, 20)
    reports["src_lo"], reports["dst_lo"] = V4
    reports["sport"], reports["dport"], reports["proto"] = 40_000, 53_000, 17
    reports["node_id"], reports["drop_reason"] = 5, 7
    reports["carried"] |= Carried.NODE_ID | Carried.DROP_REASON | Carried.FLOW
    batch = ReportBatch(reports, new_hops(0, 0))
    seen = observations_of(batch, 0, 0)
    assert seen[["switch", "drop_reason", "is_sink"]].tolist() == [(5, 7, 0)]
    for monitor in (NetSeer(), PipelineLosses()):
        run = start(monitor)
        made = monitor.observe(seen)
        run.translator.translate(made.records, made.arena)
        run.flush()
        (loss,) = monitor.query(run.store)
        assert (loss["switch"], loss["reason"]) == (5, 7)

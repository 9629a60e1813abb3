"""Compiling ahead: every kernel is run once on a few made-up reports; its machine code stays in the cache.

Kernels are compiled for the argument types that they meet, so they are met here as they are in earnest:
through the same classes, with small tables.
"""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from ..settings.collector import DetectSettings, ListenSettings, Settings
from ..settings.dialects import Changes
from ..settings.sink import DistributionSettings, SinkSettings
from ..wire import timing
from ..wire.dialect import DEFAULT, Clock
from ..wire.records import Carried, FrameBatch, Link, ReportBatch

Step = tuple[str, Callable[[], None]]
_SMALL = Settings(
    detect=DetectSettings(flow_rows=16, hop_pool=8, ports=64, sources=16),
    sink=SinkSettings(ring_events=1024, ring_evictions=1024),
    distributions=DistributionSettings(queues=16),
)


def is_warm(sink: bool = False) -> bool:
    """Whether a warm-up (of a sink) has ended since the kernels, Numba or its flags changed."""
    return _marker(sink).exists()


def warm_worker(settings: Settings, say: Callable[..., None]) -> None:
    """Compile what a worker needs; `say(message=…)` is told first where this takes long."""
    sink = settings.sink.enabled
    if not is_warm(sink):
        say(
            message="compiling the kernels for this machine: once, for about a minute (see `hopscope warmup`)"
        )
    for _, step in worker_steps():
        step()
    if sink:
        _sink()
    if any(listen.kind == "mirror" for listen in settings.listen):
        _ring()
    if not is_warm(sink):
        _marker(sink).touch()


def steps() -> Iterator[Step]:
    """Everything that `hopscope warmup` compiles, part by part."""
    yield from worker_steps()
    yield "capture files", _files
    yield "interface", _ring
    yield "INT sink", _sink
    yield "encoder", _encoder
    yield "simulated fabric", _fabric
    yield "labels", _labels
    yield "direct telemetry access", _direct
    yield "RoCEv2", _rdma
    for sink in (False, True):
        yield "done", _marker(sink).touch


def worker_steps() -> Iterator[Step]:
    """What a worker compiles."""
    yield "decoder and detector", _pipeline
    yield "UDP listener", _listener


def _marker(sink: bool) -> Path:
    from ..base.jit import all_kernels, cache_folder

    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{'warm-sink' if sink else 'warm'}-{all_kernels()}"


def _reports() -> ReportBatch:
    from ..wire.encode.encoder import mapped_v4, new_hops, new_reports

    reports, hops = new_reports(4), new_hops(12, 0xE000)
    reports["src_lo"] = reports["dst_lo"] = reports["source_lo"] = mapped_v4(
        np.full(4, 0x7F000001, np.uint32)
    )
    reports["int_version"], reports["instructions"] = 20, 0xE000
    reports["first_hop"], reports["hop_count"] = np.arange(4) * 3, 3
    reports["sequence"] = np.arange(4)
    return ReportBatch(reports, hops)


def _encode(link: Link) -> FrameBatch:
    from ..wire.encode.encoder import encode_reports

    return encode_reports(_reports(), link=link)


def _pipeline() -> None:
    from .mode import Collector
    from .shard import Shard

    pipeline = Collector(_SMALL).pipeline(Shard(_SMALL.history))
    assert pipeline.joining is not None
    postcards = _reports()
    postcards.reports["hop_count"], postcards.reports["packet_id"] = 0, 1
    postcards.reports["carried"] = Carried.FLOW | Carried.OWN_HOP
    for _ in pipeline.joining.update(postcards, Clock()):
        pass
    timing.apply(_reports(), Clock(unit_ns=2))
    for link in (Link.UDP_PAYLOAD, Link.ETHERNET):
        pipeline.step(_encode(link))
    for seconds in (0, 10):  # the second one sweeps
        pipeline.tick(seconds * 1_000_000_000)
    pipeline.close()


def _sink() -> None:
    from .mode import Sink
    from .shard import Shard
    from .sink.forward import to_file

    pipeline = Sink(_SMALL).pipeline(Shard(_SMALL.history))
    dialect = Changes(packets=True).of(DEFAULT)
    with (
        tempfile.TemporaryDirectory() as folder,
        to_file(Path(folder) / "sample.pcap", _SMALL.sink, pipeline.count) as forward,
    ):
        for seconds in (1, 20):  # the second time, flows are known, and swept
            pipeline.step(_int_packets(), dialect, forward)
            pipeline.tick(seconds * 1_000_000_000)
    pipeline.close()


def _int_packets() -> FrameBatch:
    from ..wire.craft.frames import craft

    hops = [{"node_id": node, "hop_latency": node} for node in (1, 2)]
    return craft(
        [
            {"int": {"instructions": "0xa000"}, "flow": {"proto": 17, "sport": port}, "hops": hops}
            for port in range(4)
        ]
    )


def _direct() -> None:
    from ..direct.stores.spec import StoreSpec
    from ..wire.dta.codec import Form
    from .direct.stores import store_specs
    from .direct.warm import warm_translator

    specs: list[StoreSpec] = store_specs(_SMALL.direct)
    warm_translator([spec.layout for spec in specs], Form.SIZED)


def _rdma() -> None:
    from .direct.warm import warm_rdma

    warm_rdma()


def _encoder() -> None:
    _encode(Link.ETHERNET)


def _listener() -> None:
    from ..capture.udp.listener import UdpListener

    listener = UdpListener(ListenSettings(port=0))
    listener.open()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\0" * 64, ("127.0.0.1", listener.port))
        listener.receive()
    listener.close()


def _ring() -> None:
    from ..capture.ring.listener import RingListener

    RingListener(ListenSettings(kind="mirror", interface="lo")).prepare()


def _files() -> None:
    from ..capture.pcap.reader import PcapReader, PcapWriter

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.pcap"
        with PcapWriter(path) as writer:
            writer.write(_encode(Link.ETHERNET))
        for _ in PcapReader(path, compiled=True):
            pass


def _fabric() -> None:
    from ..fabric.simulation import Simulation
    from ..fabric.topology import LeafSpine

    simulation = Simulation(LeafSpine(2, 1, 1))
    for reports in simulation.run(0.01):
        simulation.frames(reports)


def _labels() -> None:
    from ..fabric.labelling.simulation.simulator import LabelSimulation
    from ..fabric.labelling.simulation.sources import uniform
    from ..fabric.topology import LeafSpine
    from ..labels.registers import Registers
    from ..settings.label import LabellingSettings
    from ..testbed.forwarder import Forwarder, Routes
    from ..wire.label.batch import LabelDecoder

    frames, topology = _encode(Link.ETHERNET), LeafSpine(2, 1, 1)
    LabelDecoder().decode(frames)
    registers = Registers.create(None, [(1, 1), (1, 2)], 1_000_000)
    switch = Forwarder(registers, Routes([], {}), [True, True], LabellingSettings())
    slots = np.zeros(0, np.uint64)
    rows = switch.route(frames, 0)
    switch.forward(frames, rows, 1, np.zeros(1, np.uint8), slots, room=1, mtu=1, now_ns=1)
    LabelSimulation(topology, uniform(topology, 1e8), LabellingSettings()).run(0.001)

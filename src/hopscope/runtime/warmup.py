"""Precompilation: runs kernels once on a few made-up reports; the machine code stays in the cache.

Kernels are compiled for the types of their arguments, so they are called here as in production: through the
same classes, with small tables. A part, which is everything that a command needs, has several steps; steps
that are not compiled yet are distributed among processes, one per core.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from ..base.kernels import announce
from ..base.plural import plural
from ..settings.collector import Settings
from ..settings.detect import DetectSettings
from ..settings.dialects import Changes
from ..settings.listen import ListenSettings
from ..settings.sink import DistributionSettings, SinkReportSettings, SinkSettings
from ..wire import timing
from ..wire.address import with_port
from ..wire.dialect import DEFAULT, Clock
from ..wire.records import FRAME, Carried, FrameBatch, Link, ReportBatch

Notify = Callable[[str], None]
_SMALL = Settings(
    detect=DetectSettings(flow_rows=16, hop_pool=8, ports=64, sources=16),
    sink=SinkSettings(ring_events=1024, ring_evictions=1024),
    distributions=DistributionSettings(enabled=True, queues=16),
)
"""Settings with every part that has kernels: each part loads its kernels when it is made."""
_REPORT = bytes.fromhex(
    "2000000000000000131a002000000000000000000200000000020200000000010800455c00500000000040117c3f7f0000017f0000"
    "0100000000003c0000100c000020000300e00000" + "00" * 44
)
"""A Telemetry Report 2.0 with INT-MD and three hops."""
_FRAME = (
    bytes.fromhex("020000000002020000000001080045000090000040004011f85d7f000001c00002fe7ffe7ffe007c0000")
    + _REPORT
)
PARTS: dict[str, tuple[str, ...]] = {
    "collector": ("decoder", "detector", "listener", "export"),
    "sink": ("decoder", "sink", "interface", "files"),
    "files": ("decoder", "detector", "files", "datagrams"),
    "encoder": ("encoder",),
    "fabric": ("fabric", "encoder"),
    "interfaces": ("report-ring", "xdp"),
    "mixed": ("sflow", "ipfix"),
    "labels": ("label-decoder", "labels", "label-simulation"),
    "direct": ("translator", "rocev2"),
}
"""Steps by part; parts share steps."""


def steps_of(parts: Iterable[str]) -> list[str]:
    """The steps of some parts, each once."""
    return list(dict.fromkeys(step for part in parts for step in PARTS[part]))


def steps_for(settings: Settings) -> list[str]:
    """The steps of all processes of a collector with these settings."""
    from .pipeline.mode import mode_of

    kinds = {listen.kind for listen in settings.listen}
    return (
        list(mode_of(settings).steps if kinds else ())
        + ["listener"] * (bool(kinds - {"mirror", "ring", "xdp"}) or bool(settings.label.listen))
        + sorted({kind.partition("+")[0] for kind in kinds} & {"sflow", "ipfix"})
        + ["interface"] * ("mirror" in kinds)
        + ["report-ring"] * ("ring" in kinds)
        + ["xdp"] * ("xdp" in kinds)
        + ["label-decoder"] * bool(settings.label.listen)
        + ["export"] * bool(settings.destinations)
    )


def is_compiled(step: str) -> bool:
    """Whether the cache has every file of a step, for this code, compiler and processor."""
    from ..base.kernels.kernel_cache import find

    marker = find(_marker(step))
    return marker is not None and all(find(name) for name in marker.read_text().splitlines())


def compiled_files() -> dict[str, Path]:
    """All steps' files in the cache, for this code, compiler and processor, by name."""
    from ..base.errors import HopscopeError
    from ..base.kernels.kernel_cache import find

    found: dict[str, Path] = {}
    for name in map(_marker, STEPS):
        names = [name, *path.read_text().splitlines()] if (path := find(name)) else [name]
        for each in names:
            if (file := find(each)) is None:
                raise HopscopeError(f"kernels: {each} is missing; run `hopscope warmup`")
            found[each] = file
    return found


def compile_steps(steps: Sequence[str], notify: Notify, every: float = 5) -> None:
    """Compile the missing kernels of some steps. `notify` gets a line at the first kernel, every `every`
    seconds and at the end; none if all kernels are in the cache.
    """
    missing = [step for step in steps if not is_compiled(step)]
    if not missing:
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = _shares(missing, cores)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, *share], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )
        for share in shares
    ]
    try:
        _follow(children, missing, notify, every)
    finally:
        for child in children:
            child.kill()
            child.communicate()  # closes the pipe, too


def _shares(steps: Sequence[str], count: int) -> list[list[str]]:
    """Steps by process: the longest first, each to the process with the least work.

    The sink calls the decoder's kernel, so the process that compiles the decoder compiles the sink next: two
    processes that work on these two steps at the same time would both compile it.
    """
    shares: list[list[str]] = [[] for _ in range(min(count, len(steps)))]
    if after_decoder := {"decoder", "sink"} <= set(steps):
        shares[0] += "decoder", "sink"
    for step in sorted(steps, key=lambda step: -STEPS[step][0]):
        if not (after_decoder and step in shares[0]):
            min(shares, key=lambda share: sum(STEPS[name][0] for name in share)).append(step)
    return [share for share in shares if share]


def _follow(
    children: Sequence[subprocess.Popen[bytes]], steps: Sequence[str], notify: Notify, every: float
) -> None:
    kernels, done, notified, name = 0, 0, time.monotonic(), ""
    with selectors.DefaultSelector() as selector:
        for child in children:
            assert child.stdout is not None
            selector.register(child.stdout, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                line = key.fileobj.readline().decode().strip()  # type: ignore[union-attr]
                if not line:
                    selector.unregister(key.fileobj)
                elif line.startswith("done "):
                    done += 1
                else:
                    if not kernels:
                        notify(
                            f"compiling the kernels, once for this version and processor: {', '.join(steps)}"
                        )
                    kernels, name = kernels + 1, line
                if kernels and time.monotonic() - notified > every:
                    notified = time.monotonic()
                    notify(
                        f"compiling kernels: {done} of {len(steps)} parts, "
                        f"{plural(kernels, 'kernel')}, {name}"
                    )
    if failed := [child for child in children if child.wait()]:
        from ..base.errors import HopscopeError

        raise HopscopeError(f"compiling kernels: a process ended with {failed[0].returncode}")
    if kernels:
        notify(f"compiled {plural(kernels, 'kernel')}")


def compile_parts(*parts: str) -> None:
    """Compile the missing kernels of some PARTS, in parallel processes, and show the progress."""
    compile_steps(steps_of(parts), announce.show, announce.interval())
    announce.show("")


def load_steps(steps: Sequence[str], notify: Notify) -> None:
    """Compile the missing kernels of some steps, and load all of their kernels into this process."""
    compile_steps(steps, notify)
    for step in steps:
        STEPS[step][1]()


def main(steps: Sequence[str]) -> None:
    """Entry point of a compiling process: prints each kernel's name, and `done STEP`."""
    from ..base.kernels import kernel_cache

    kernel_cache.notices.append(lambda name: print(name, flush=True) if name else None)
    for step in steps:
        STEPS[step][1]()
        entries = sorted(name for name in kernel_cache.loaded if name.endswith(".entry"))
        kernel_cache.write(_marker(step), "\n".join(entries).encode())
        print("done", step, flush=True)
    kernel_cache.prune()


def _marker(step: str) -> str:
    from ..base.kernels.compiler import TARGET
    from ..base.kernels.kernel_cache import all_kernels

    return f"{TARGET}/steps/{step}-{all_kernels()}"


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


def _frames(link: Link) -> FrameBatch:
    """Two reports, without the encoder's kernels, which a collector does not need."""
    arena = np.frombuffer((_REPORT if link is Link.UDP_PAYLOAD else _FRAME) * 2, np.uint8)
    frames = np.zeros(2, FRAME)
    frames["length"] = frames["wire_length"] = len(arena) // 2
    frames["offset"] = 0, len(arena) // 2
    frames["link"] = link
    return FrameBatch(arena, frames)


def _decoder() -> None:
    from ..wire.decode.decoder import Decoder

    decoder = Decoder(DEFAULT)
    for link in (Link.UDP_PAYLOAD, Link.ETHERNET):
        timing.apply(decoder.decode(_frames(link)), Clock(unit_ns=2))


def _detector() -> None:
    from ..detect.evidence.datagrams import DatagramWriter, create_ring
    from ..detect.postcards.share import Share, create_slots
    from ..detect.report_queue import QueueWriter, create_queue
    from .pipeline.mode import Collector
    from .pipeline.shard import Shard

    Share(create_slots(None), QueueWriter(create_queue(None, 1)))
    DatagramWriter(create_ring(None, 1))
    pipeline = Collector(_SMALL).pipeline(Shard(_SMALL.history))
    assert pipeline.joining is not None
    postcards = _reports()
    postcards.reports["hop_count"], postcards.reports["packet_id"] = 0, 1
    postcards.reports["carried"] = Carried.FLOW | Carried.OWN_HOP
    for _ in pipeline.joining.update(postcards, Clock()):
        pass
    for _ in pipeline.detection.update(_reports()):
        pass
    for seconds in (0, 10):  # the second call sweeps
        pipeline.tick(seconds * 1_000_000_000)
    pipeline.close()


def _sink() -> None:
    from ..capture.sockets import loopback_receiver

    with loopback_receiver() as receiver:
        _run_sink(SinkReportSettings(to=with_port(*receiver.getsockname()[:2])))


def _run_sink(report: SinkReportSettings) -> None:
    from .pipeline.mode import Sink
    from .pipeline.shard import Shard
    from .sink.forward import to_file

    sink = _SMALL.sink.model_copy(update={"report": report})
    pipeline = Sink(_SMALL.model_copy(update={"sink": sink})).pipeline(Shard(_SMALL.history))
    for _ in pipeline.detection.update(_reports()):  # first: another process may compile the decoder
        pass
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
    from ..wire.dta.forms import Form
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
    from ..capture.sockets import loopback_receiver
    from ..capture.udp.listener import UdpListener

    receiver = loopback_receiver()
    listener = UdpListener(ListenSettings(), sock=receiver)
    listener.open()
    with socket.socket(receiver.family, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"\0" * 64, receiver.getsockname())
        listener.receive()
    listener.close()


def _ring() -> None:
    from ..capture.ring.listener import RingListener
    from ..capture.ring.ring_kernel import close_gaps

    RingListener(ListenSettings(kind="mirror", interface="lo")).prepare()
    close_gaps(np.zeros(0, np.uint8), np.zeros(0, np.uint64), np.zeros(0, np.uint32))  # of a RingSender


def _report_ring() -> None:
    from ..capture.ring.report_listener import ReportListener

    ReportListener(ListenSettings(kind="ring", interface="lo")).prepare()


def _xdp() -> None:
    from ..bpf.filter import Filter
    from ..bpf.layout import Mark
    from ..bpf.program import Unattached
    from ..bpf.ring import BpfRing
    from ..detect.detector import Detector
    from ..wire.dialect import DEFAULT

    settings = DetectSettings(flow_rows=1, ports=64, sources=16)
    detector, ring = Detector(settings), BpfRing(settings.sources)
    filter_ = Filter(Unattached(), ring, detector, DEFAULT)
    for marks in (0, Mark.UNUSUAL):
        ring.marks[:] = marks
        for _ in detector.update(filter_.decode(_frames(Link.UDP_PAYLOAD))):
            pass
        filter_.receive()


def _files() -> None:
    from ..capture.pcap.reader import PcapReader, PcapWriter

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sample.pcap"
        with PcapWriter(path) as writer:
            writer.write(_frames(Link.ETHERNET))
        for _ in PcapReader(path, compiled=True):
            pass


def _datagrams() -> None:
    from ..base.kernels.jit import readonly
    from ..wire.mixed.datagram_kernel import find_datagrams

    batch = _frames(Link.ETHERNET)
    arena, frames = readonly(batch.arena), readonly(batch.frames)
    find_datagrams(arena, frames, DEFAULT.table(), np.zeros(2, np.uint64), np.zeros(2, FRAME))


def _sflow() -> None:
    from ..wire.sflow.decoder import SflowDecoder

    SflowDecoder().decode(_frames(Link.UDP_PAYLOAD))


def _ipfix() -> None:
    from ..base.kernels.jit import readonly
    from ..capture.tcp.messages_kernel import split_messages
    from ..wire.ipfix.decoder import IpfixDecoder

    IpfixDecoder().decode(_frames(Link.UDP_PAYLOAD))
    zero = np.uint64(0)
    split_messages(readonly(_frames(Link.UDP_PAYLOAD).arena), zero, zero, zero, np.zeros(1, FRAME), zero)


def _fabric() -> None:
    from ..fabric.graph import Graph, Host
    from ..fabric.ports import Switch
    from ..fabric.simulation import Simulation
    from ..fabric.topology import LeafSpine

    own = Graph("own", [Switch(1, "a")], [], [Host(f"h{n}", n, 0, n, 10**9) for n in (1, 2)])
    for topology in (LeafSpine(2, 1, 1), own):
        simulation = Simulation(topology)
        for reports in simulation.run(0.01):
            simulation.frames(reports)


def _export() -> None:
    from ..export.rendering import Lines

    Lines(0).encoded()


def _label_decoder() -> None:
    from ..wire.label.batch import LabelDecoder

    LabelDecoder().decode(_frames(Link.UDP_PAYLOAD))


def _labels() -> None:
    from ..labels.registers import Registers
    from ..settings.label import LabellingSettings
    from ..testbed.forwarder import Forwarder, RoutingTables

    frames = _frames(Link.ETHERNET)
    registers = Registers.create(None, [(1, 1), (1, 2)], 1_000_000)
    switch = Forwarder(registers, RoutingTables([], {}), [True, True], LabellingSettings())
    slots = np.zeros(0, np.uint64)
    rows = switch.route(frames, 0)
    switch.forward(frames, rows, 1, np.zeros(1, np.uint8), slots, room=1, mtu=1, now_ns=1)


def _label_simulation() -> None:
    from ..fabric.labelling.simulation.simulator import LabelSimulation
    from ..fabric.labelling.simulation.sources import uniform
    from ..fabric.topology import LeafSpine
    from ..settings.label import LabellingSettings

    topology = LeafSpine(2, 1, 1)
    LabelSimulation(topology, uniform(topology, 1e8), LabellingSettings()).run(0.001)


STEPS: dict[str, tuple[int, Callable[[], None]]] = {
    "decoder": (26, _decoder),
    "detector": (10, _detector),
    "listener": (1, _listener),
    "interface": (1, _ring),
    "report-ring": (1, _report_ring),
    "xdp": (4, _xdp),
    "files": (1, _files),
    "datagrams": (1, _datagrams),
    "sink": (12, _sink),
    "encoder": (2, _encoder),
    "sflow": (5, _sflow),
    "ipfix": (2, _ipfix),
    "export": (1, _export),
    "fabric": (2, _fabric),
    "label-decoder": (1, _label_decoder),
    "labels": (2, _labels),
    "label-simulation": (4, _label_simulation),
    "translator": (8, _direct),
    "rocev2": (5, _rdma),
}
"""Approximate seconds of a step, and its function."""

if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:  # the process that started this one has ended
        os._exit(1)

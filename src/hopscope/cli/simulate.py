"""`hopscope simulate`: the telemetry of a simulated fabric."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.errors import HopscopeError

if TYPE_CHECKING:
    from ..fabric.faults import Fault
    from ..fabric.simulation import Simulation, Truth
    from ..fabric.topology import Topology
    from ..settings.collector import ListenSettings
    from ..wire.records import FrameBatch

PROGRESS_SECONDS = 0.2
"""Interval of the "sent" objects of `--json`."""
WINDOW = 0.02
"""Simulated seconds between two writes of a capture."""
LOOPBACK = (127 << 24) | (1 << 8) | 1
"""127.0.1.1: the first switch as a source on loopback."""
MANAGEMENT = (10 << 24) | (255 << 16) | 1
"""10.255.0.1: the first switch as a source in a capture."""


def simulate(
    topology: Annotated[
        str,
        typer.Option(
            "--topology", "-t", metavar="TOPOLOGY", help="fat-tree:K, leaf-spine:LxS[xHOSTS] or paper."
        ),
    ] = "fat-tree:4",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write a capture; - for stdout.", show_default=False
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="ADDRESS", help="Send in real time, as udp://127.0.0.1:32766.", show_default=False
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", metavar="S", help="Simulated seconds [10; --to: unlimited].", show_default=False
        ),
    ] = None,
    flows: Annotated[int, typer.Option(min=1, metavar="N", help="Mean number of active flows.")] = 1000,
    load: Annotated[
        float, typer.Option(metavar="SHARE", help="Mean load of the hosts' links, 0 to 1.")
    ] = 0.35,
    sizes: Annotated[
        str, typer.Option(metavar="NAME", help="Flow sizes: web-search or data-mining.")
    ] = "web-search",
    link_rate: Annotated[
        str, typer.Option(metavar="RATE", help="Rate of a host's link, bit/s: 1G, 10G, 100M.")
    ] = "1G",
    rate: Annotated[
        float,
        typer.Option(min=0, metavar="N", help="INT reports per second (sampled packets); 0: all."),
    ] = 20_000,
    report_version: Annotated[str, typer.Option(metavar="VERSION", help="0.5, 1.0 or 2.0.")] = "2.0",
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE", help="md: the sink reports the path; mx, xd: every switch sends a postcard (2.0)."
        ),
    ] = "md",
    group: Annotated[
        int, typer.Option(min=1, max=8, metavar="N", help="Maximum reports per datagram (2.0).")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Same seed, same bytes.")] = 1,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="FAULT",
            help="microburst|path-change|lossy-port|slow-hop@SECONDS,node=NODE,port=PORT"
            "[,duration=S][,loss=SHARE][,delay=MS][,fill=SHARE]. Repeatable.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        Path | None,
        typer.Option(
            "--names", metavar="FILE", help="Write the names of nodes and ports as TOML.", show_default=False
        ),
    ] = None,
    hold: Annotated[bool, typer.Option("--hold", hidden=True, help="Start at a line on stdin.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print events on stdout, one JSON object per line.")
    ] = False,
) -> None:
    """Simulate a fabric whose switches write INT.

    Its sinks send Telemetry Reports into a capture or to a collector. Latency and occupancy come from exact
    FIFO queues. Prints a summary on stderr.

    Exit status 1: no collector listened at the address; 2: it could not start.
    """
    from ..fabric.topology import parse_topology
    from .announce import compile_parts

    fabric = parse_topology(topology, parse_rate(link_rate))
    if names is not None:
        names.write_text(fabric.names_toml(), encoding="utf-8")
    if output is None and to is None:
        if names is None:
            raise HopscopeError("nothing to do: give --output FILE, --to udp://HOST:PORT or --names FILE")
        return
    if output is not None and to is not None:
        raise HopscopeError("give either --output or --to, not both")
    if as_json and str(output) == "-":
        raise HopscopeError("--json and a capture on stdout exclude each other")
    listener = _listener(to) if to is not None else None
    compile_parts("fabric")
    simulation = _build(
        fabric, flows=flows, load=load, sizes=sizes, rate=rate, version=report_version, group=group,
        mode=mode, seed=seed, faults=fault or [], source=LOOPBACK if listener else MANAGEMENT,
        live=listener is not None,
    )  # fmt: skip
    say = _Reporter(as_json)
    simulation.on_change = say.fault
    if listener is None:
        assert output is not None
        _write(simulation, output, 10.0 if duration is None else duration, say)
    else:
        _send(simulation, listener, duration, say, hold)


def parse_rate(text: str) -> int:
    """Bit/s of `1G`, `2.5G`, `100M` or a number. Raises HopscopeError."""
    factor = {"K": 10**3, "M": 10**6, "G": 10**9}.get(text[-1:].upper(), 0)
    try:
        rate = round(float(text[:-1]) * factor) if factor else int(text)
    except ValueError:
        rate = 0
    if rate <= 0:
        raise HopscopeError(f"link rate: found {text!r}, expected bit/s as in 100M, 1G or 10G")
    return rate


def _listener(to: str) -> ListenSettings:
    from ..settings.source import parse

    return parse(to)


def _build(
    fabric: Topology, *, flows: int, load: float, sizes: str, rate: float, version: str, group: int,
    mode: str, seed: int, faults: list[str], source: int, live: bool,
) -> Simulation:  # fmt: skip
    from ..fabric.faults import parse_fault
    from ..fabric.simulation import Simulation, SimulationModel
    from ..fabric.switch import ReportModel
    from ..fabric.traffic import SIZES, TrafficModel

    if sizes not in SIZES:
        raise HopscopeError(f"sizes: found {sizes!r}, expected {' or '.join(SIZES)}")
    epoch = {"epoch_ns": time.time_ns()} if live else {}
    model = SimulationModel(
        traffic=TrafficModel(flows=flows, load=load, sizes=SIZES[sizes]),
        report=ReportModel(version=version, mode=mode, group=group, source_address=source, **epoch),
        faults=tuple(parse_fault(fabric, text) for text in faults),
        seed=seed,
        reports_per_second=rate,
    )
    return Simulation(fabric, model)


class _Reporter:
    """Reports events: as JSON objects on stdout, or as lines on stderr."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json

    def event(self, kind: str, line: str, **more: Any) -> None:
        """Report an event."""
        if self._json:
            print(json.dumps({"kind": kind, "time_ns": time.time_ns(), **more}), flush=True)
        elif line:
            print(line, file=sys.stderr)

    def fault(self, fault: Fault, begins: bool) -> None:
        """A fault begins or ends."""
        word = "begins" if begins else "ends"
        at = fault.start if begins else fault.end
        self.event(
            "fault", f"{at:8.3f} s  {fault} {word}", fault=str(fault.kind), begins=begins,
            node_id=fault.node_id, port=fault.number, start=fault.start,
        )  # fmt: skip

    def end(self, truth: Truth, frames: int, seconds: float, unreachable: int = 0) -> None:
        """The summary."""
        line = (
            f"simulated {seconds:.1f} s: {truth.emitted:,} packets, {truth.dropped:,} dropped, "
            f"{truth.hops:,} port enqueues\n"
            f"sent      {truth.reports:,} reports in {frames:,} datagrams, {truth.drop_reports:,} about drops"
        )
        if truth.suppressed:
            line += f"; {truth.suppressed:,} suppressed by the switches' limits"
        if unreachable:
            line += f"\nport unreachable: at least {unreachable:,} datagrams; is a collector listening?"
        names = (
            "emitted",
            "delivered",
            "dropped",
            "hops",
            "reports",
            "drop_reports",
            "suppressed",
            "rerouted",
        )
        self.event(
            "end",
            line,
            datagrams=frames,
            seconds=seconds,
            unreachable=unreachable,
            **{name: getattr(truth, name) for name in names},
        )


def _write(simulation: Simulation, output: Path, seconds: float, say: _Reporter) -> None:
    from ..capture.pcap.reader import PcapWriter
    from ..wire.records import Link

    frames = 0
    with PcapWriter(str(output)) as writer, _progress(seconds) as advance:
        for reports in simulation.run(seconds, WINDOW):
            batch = simulation.frames(reports, Link.ETHERNET)
            writer.write(batch)
            frames += len(batch)
            advance(simulation.now)
    say.end(simulation.truth, frames, simulation.now)


def _send(
    simulation: Simulation, listener: ListenSettings, seconds: float | None, say: _Reporter, hold: bool
) -> None:
    from ..capture.udp.sender import UdpSender
    from ..fabric.pace import play

    local = listener.host.startswith("127.")
    sender = UdpSender(listener.host, listener.port, trains=False, by_source=local)
    stop = _stopped()
    _rehearse(simulation)
    if hold:
        say.event("ready", "")
        if not sys.stdin.readline():
            return
    say.event("start", f"sending to udp://{listener.host}:{listener.port}, Ctrl-C ends it")
    try:
        play(
            simulation, _counted(sender.send, simulation, say), seconds, port=listener.port, stop=stop.is_set
        )
    finally:
        say.end(simulation.truth, sender.sent, simulation.now, sender.refused)
    if sender.refused:
        raise typer.Exit(1)


def _rehearse(simulation: Simulation) -> None:
    """Compile all kernels for sending, with datagrams to this process."""
    import socket

    from ..capture.udp.sender import UdpSender

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        UdpSender("127.0.0.1", receiver.getsockname()[1], trains=False).send(simulation.rehearse())


def _counted(
    send: Callable[[FrameBatch], int], simulation: Simulation, say: _Reporter
) -> Callable[[FrameBatch], object]:
    """`send`, with "sent" events every PROGRESS_SECONDS."""
    sent, due = 0, 0.0

    def counting(batch: FrameBatch) -> None:
        nonlocal sent, due
        sent += send(batch)
        if simulation.now >= due:
            say.event("sent", "", datagrams=sent, reports=simulation.truth.reports, seconds=simulation.now)
            due = simulation.now + PROGRESS_SECONDS

    return counting


def _stopped() -> Any:
    """An event that SIGINT and SIGTERM set."""
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


@contextmanager
def _progress(seconds: float) -> Iterator[Any]:
    """A function of the simulated time that draws a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda now: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("simulating", total=seconds)
        yield lambda now: progress.update(task, completed=now)

"""`hopscope simulate`: the telemetry of a simulated fabric."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...base.errors import HopscopeError
from ...base.quantities import bit_rate
from ..options.declare import Options, option
from ..options.network import NetworkOptions
from ..output.printer import Summary
from .output import Reporter, send, write

if TYPE_CHECKING:
    from ...fabric.simulation import Simulation
    from ...fabric.topology import Topology

LOOPBACK = (127 << 24) | (1 << 8) | 1
"""127.0.1.1: source address of the first switch on loopback."""
MANAGEMENT = (10 << 24) | (255 << 16) | 1
"""10.255.0.1: source address of the first switch in a capture."""


@dataclass(frozen=True)
class OutputOptions(Options):
    """Where reports go, and for how long."""

    output: Path | None = option(
        "--output -o FILE", "Write a capture, gzipped if FILE ends in .gz; - for stdout."
    )
    to: str | None = option("--to ADDRESS", "Send in real time, for example to udp://127.0.0.1:32766.")
    duration: float | None = option(
        "--duration S", "Simulated seconds.", min=0, show_default="10; --to: unlimited"
    )
    names: Path | None = option("--names FILE", "Write the names of nodes and ports as TOML.")
    packets: bool = option(
        "--packets", "Write the packets with INT, as they arrive at a sink, instead of reports.", False
    )
    hold: bool = option("--hold", "Start at a line on stdin.", False, hidden=True)
    form: Summary = option(
        "--format -f", "Events and summary as text on stderr, or as JSON lines on stdout.", Summary.TEXT
    )


@dataclass(frozen=True)
class FabricOptions(NetworkOptions):
    """The network, its traffic and its reports."""

    flows: int = option("--flows N", "Mean number of active flows.", 1000, min=1)
    sizes: str = option("--sizes SIZES", "Flow sizes: web-search or data-mining.", "web-search")
    link_rate: str = option("--link-rate RATE", "Rate of a host's link, bit/s: 1G, 10G, 100M.", "1G")
    mode: str = option(
        "--mode MODE", "md: the sink reports the path; mx, xd: every switch sends a postcard (2.0).", "md"
    )
    group: int = option("--group N", "Maximum reports per datagram (2.0).", 1, min=1, max=8)
    fault: list[str] | None = option(
        "--fault FAULT",
        "microburst|path-change|lossy-port|slow-hop@SECONDS,node=NODE,port=PORT[,duration=S][,loss=SHARE]"
        "[,delay=MS][,fill=SHARE]. Repeatable.",
    )


def simulate(output: OutputOptions, network: FabricOptions) -> None:
    """Simulate a fabric whose switches write INT.

    Its sinks send Telemetry Reports into a capture or to a collector; with --packets the capture has the INT
    packets themselves. Latency and occupancy come from exact FIFO queues. Prints a summary on stderr.

    Exit status 1: no collector listened at the address; 2: it could not start.
    """
    from ...base.output import write_output
    from ...fabric.topology import parse_topology
    from ...runtime.warmup import compile_parts
    from ...settings.source import parse_target

    fabric = parse_topology(network.topology, parse_rate(network.link_rate))
    if output.names is not None:
        write_output(output.names, fabric.names_toml())
    if output.output is None and output.to is None:
        if output.names is None:
            raise HopscopeError("nothing to do: give --output FILE, --to udp://HOST:PORT or --names FILE")
        return
    if output.output is not None and output.to is not None:
        raise HopscopeError("give either --output or --to, not both")
    if output.form is Summary.JSON and str(output.output) == "-":
        raise HopscopeError("--format json and a capture on stdout exclude each other")
    if output.packets and (output.output is None or network.mode != "md"):
        raise HopscopeError("--packets: expected --output FILE and --mode md, whose packets carry every hop")
    listener = parse_target(output.to) if output.to is not None else None
    compile_parts("fabric")
    simulation = _build(fabric, network, live=listener is not None)
    epoch_ns = simulation.model.report.epoch_ns
    clock = time.time_ns if listener is not None else lambda: epoch_ns + round(simulation.now * 1e9)
    reporter = Reporter(output.form, clock)
    simulation.on_change = reporter.fault
    seconds = 10.0 if output.duration is None and listener is None else output.duration
    for fault in simulation.model.faults:
        if seconds is not None and fault.start >= seconds:
            raise HopscopeError(
                f"--fault: {fault} begins at {fault.start:g} s, when the simulation has ended: see --duration"
            )
    if listener is not None:
        send(simulation, listener, seconds, reporter, hold=output.hold)
    elif output.output is not None:
        assert seconds is not None
        write(simulation, output.output, seconds, reporter, packets=output.packets)


def parse_rate(text: str) -> int:
    """Bit/s, from a rate as `base.quantities.bit_rate` reads it. Raises HopscopeError."""
    rate = round(bit_rate("--link-rate", text))
    if rate < 1000:
        raise HopscopeError(f"--link-rate {text}: expected at least 1K bit/s, such as 100M, 1G or 10G")
    return rate


def _build(fabric: Topology, network: FabricOptions, *, live: bool) -> Simulation:
    from ...fabric.faults import parse_fault
    from ...fabric.simulation import Simulation, SimulationModel
    from ...fabric.switch import ReportModel
    from ...fabric.traffic import SIZES, TrafficModel

    if network.sizes not in SIZES:
        raise HopscopeError(f"sizes: found {network.sizes!r}, expected {' or '.join(SIZES)}")
    epoch = {"epoch_ns": time.time_ns()} if live else {}
    report = ReportModel(
        version=network.report_version,
        mode=network.mode,
        group=network.group,
        source_address=LOOPBACK if live else MANAGEMENT,
        **epoch,
    )
    model = SimulationModel(
        traffic=TrafficModel(flows=network.flows, load=network.load, sizes=SIZES[network.sizes]),
        report=report,
        faults=tuple(parse_fault(fabric, text) for text in network.fault or ()),
        seed=network.seed,
        reports_per_second=network.rate,
    )
    return Simulation(fabric, model)

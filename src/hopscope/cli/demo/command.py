"""`hopscope demo`: a simulated fabric with four faults, and a real collector that must find them."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...base.errors import HopscopeError
from ...base.names import DISCOVERED
from ...base.process.stop import at_signals
from ..options.declare import Options, option
from ..options.network import NetworkOptions
from ..output.printer import Summary, SummaryOption

if TYPE_CHECKING:
    from ...fabric.faults import Fault
    from ...fabric.topology import Topology
    from .edge import EdgeSender
    from .judge import Judge
    from .processes import Collector, FabricProcess
    from .view import State, View

CONFIG = """\
data = {data}
names = {names}

[[listen]]
host = "127.0.0.1"
port = {port}
receive_buffer_bytes = 33554432
{listeners}
[serve]
port = {http_port}
top_flows = {{ count = 20 }}

[distributions]
enabled = true

[history]
ring_events = 262144

# Ordinary traffic at a third of the links' rate stays well below these: occupancy in cells of 80 bytes, ns.
[detect.thresholds]
queue_occupancy = {{ change = 250, raise_above = 2500, clear_below = 500 }}
buffer_occupancy = {{ change = 250 }}
hop_latency = {{ change = 50000, raise_above = 1000000, clear_below = 500000 }}
flow_latency = {{ change = 100000 }}
link_utilization = {{ change = 150 }}
{limits}"""
DRAIN_SECONDS = 10.0
"""Maximum time for the collector to read everything that was sent."""
TURN_SECONDS = 0.1
LATE_SECONDS = 1.0
"""Delay of the simulation after which it is reported once."""


@dataclass(frozen=True)
class DemoOptions(Options):
    """How long the demo runs, and where its data and page are."""

    duration: float | None = option(
        "--duration S", "Seconds, at least 12; default: until Ctrl-C.", envvar="DURATION"
    )
    data: Path | None = option("--data -d FOLDER", "Keep the data here.")
    http_port: int = option(
        "--http-port PORT", "Port of the console, or the next free one.", 8080, min=0, max=65535
    )
    mixed: bool = option(
        "--mixed", "Add an edge without INT: two switches with sFlow and a router with IPFIX.", False
    )
    form: SummaryOption = Summary.TEXT


_NETWORK = NetworkOptions(load=0.3)


def demo(options: DemoOptions, network: NetworkOptions = _NETWORK) -> None:
    """Watch a simulated network with scheduled faults.

    Sends real reports over loopback to a real collector, prints the address of the console, and reports at
    the end which faults were found, where, and how fast.

    Exit status 1: a fault was missed or a report was lost. 2: it could not start.
    """
    from ...fabric.topology import is_file, parse_topology
    from .folder import temporary_folder
    from .schedule import SHORTEST, as_option, schedule

    if sys.platform != "linux":
        raise HopscopeError("the collector needs Linux; `hopscope simulate -o FILE` works here")
    if is_file(network.topology):
        raise HopscopeError(
            f"--topology: found the file {network.topology}, expected fat-tree:K, leaf-spine:LxS or paper, "
            "whose tiers tell the demo where to put its faults; use `hopscope simulate --to` with --fault"
        )
    duration = options.duration
    if duration is not None and duration < SHORTEST:
        raise HopscopeError(
            f"--duration: found {duration:g}, expected {SHORTEST:g} s or more: the faults need time"
        )
    fabric = parse_topology(network.topology)
    faults = schedule(fabric, duration, network.seed)
    arguments = [
        "--topology", network.topology, "--rate", str(network.rate), "--load", str(network.load),
        "--seed", str(network.seed), "--report-version", network.report_version,
        *(["--duration", str(duration)] if duration is not None else []),
        *(word for fault in faults for word in ("--fault", as_option(fault))),
    ]  # fmt: skip
    with ExitStack() as stack:
        folder = stack.enter_context(temporary_folder())
        seed = network.seed if options.mixed else None
        run = _Demo(fabric, faults, folder, options.data or folder / "data", options.http_port, seed)
        run.run(stack, arguments, options.form)


class _Demo:
    """One run."""

    def __init__(
        self,
        topology: Topology,
        faults: list[Fault],
        folder: Path,
        data: Path,
        http_port: int,
        edge_seed: int | None,
    ) -> None:
        """`edge_seed`: seed of an edge without INT; None: no edge."""
        from .judge import Judge
        from .view import LiveView, PlainView, State

        self._faults = {(str(fault.kind), fault.start): fault for fault in faults}
        self._folder, self._data, self._http_port = folder, data, http_port
        self._judge: Judge = Judge(topology)
        self._state: State = State(topology, verdicts=self._judge.verdicts)
        self._view: View = LiveView() if sys.stderr.isatty() else PlainView()
        self._stop = threading.Event()
        self._edge_seed = edge_seed
        self._edge: EdgeSender | None = None
        self._messages: dict[str, Any] = {}
        self._reported: set[int] = set()
        self._began = 0.0
        self._late = False

    def run(self, stack: ExitStack, arguments: list[str], form: Summary) -> None:
        """Run the demo; raises typer.Exit."""
        from ...capture.sockets import free_udp_port
        from .processes import Collector, FabricProcess

        at_signals(self._stop.set, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        stack.callback(self._view.close)
        port = free_udp_port()
        collector = Collector(self._data, self._configure(port), self._folder / "collect.log")
        stack.callback(collector.stop)
        self._waiting("starting the collector", collector.wait)
        shutil.copy(self._folder / "names.toml", self._data / DISCOVERED)  # for queries after the end
        self._state.url = collector.url
        self._view.say(f"console  {collector.url}")
        fabric = FabricProcess(["--to", f"udp://127.0.0.1:{port}", *arguments], self._folder / "simulate.log")
        stack.callback(fabric.close)
        self._waiting("starting the simulated fabric", fabric.wait)
        fabric.begin()
        if self._edge is not None:
            stack.callback(self._edge.stop)
            self._edge.start()
        self._watch(collector, fabric)
        if self._edge is not None:
            self._edge.stop()
        self._drain(collector)
        self._view.close()
        raise typer.Exit(self._finish(form))

    def _configure(self, port: int) -> Path:
        from .processes import free_http_port

        topology, listeners, limits = self._state.topology, "", ""
        names = self._folder / "names.toml"
        if self._edge_seed is None:
            names.write_text(topology.names_toml(), encoding="utf-8")
        else:
            from ...capture.sockets import free_udp_port
            from . import edge

            ports = {kind: free_udp_port() for kind in ("sflow", "ipfix")}
            self._edge = edge.EdgeSender(ports, self._edge_seed)
            names.write_text(edge.names_toml(topology), encoding="utf-8")
            listeners, limits = edge.listeners_toml(topology, ports), edge.limits_toml(topology)
        config = self._folder / "demo.toml"
        config.write_text(
            CONFIG.format(
                data=json.dumps(str(self._data.absolute())),
                names=json.dumps(str(names)),
                port=port,
                http_port=free_http_port(self._http_port),
                listeners=listeners,
                limits=limits,
            ),
            encoding="utf-8",
        )
        return config

    def _waiting(self, text: str, wait: Any) -> None:
        def turn(progress: str) -> None:
            if self._stop.is_set():
                raise typer.Exit(130)
            self._view.wait(f"{text}: {progress}" if progress else text)

        turn("")
        wait(turn)

    def _watch(self, collector: Collector, fabric: FabricProcess) -> None:
        """Watch until the fabric has ended."""
        while "gone" not in self._messages:
            if self._stop.is_set():
                fabric.stop()
            for message in fabric.receive():
                self._take(message)
            self._look(collector)
            time.sleep(TURN_SECONDS)
        if "end" not in self._messages:
            raise HopscopeError("the simulated fabric ended without a summary")

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["kind"]
        self._messages[kind] = message
        if kind == "start":
            self._began = time.monotonic()
        elif kind in ("sent", "end"):
            self._state.sent = message["reports"]
            if not self._late and self._took() - message["seconds"] > LATE_SECONDS:
                self._late = True
                self._view.say(
                    "the simulation is slower than real time: this machine is too busy or too slow"
                )
        elif kind == "fault":
            fault = self._faults[message["fault"], message["start"]]
            if message["begins"]:
                self._judge.begin(fault, message["time_ns"])
            else:
                self._judge.end(fault, message["time_ns"])
            self._view.say(
                f"{self._state.seconds:6.1f} s  {fault} {'begins' if message['begins'] else 'ends'}"
            )

    def _took(self) -> float:
        """Seconds from the first report to the newest message."""
        newest = max(message.get("time_ns", 0) for message in self._messages.values())
        return float(newest - self._messages["start"]["time_ns"]) / 1e9

    def _look(self, collector: Collector) -> None:
        """Read the collector's events and counters, and show them."""
        collector.check()
        events = collector.events()
        self._judge.take(events)
        state = self._state
        state.note(events)
        before, state.counters = state.counters, collector.counters()
        state.sent = max(state.sent, state.counters["reports_total"])  # the fabric reports only now and then
        now = time.monotonic() - self._began if self._began else 0.0
        if now > state.seconds and before:
            gained = state.counters["reports_total"] - before["reports_total"]
            state.rate += 0.1 * (gained / (now - state.seconds) - state.rate)
        state.seconds = now
        for verdict in self._judge.verdicts:
            if verdict.found and id(verdict) not in self._reported:
                self._reported.add(id(verdict))
                self._report(verdict)
        self._view.show(state)

    def _report(self, verdict: Any) -> None:
        from .view import cells

        _, _, found, place = cells(verdict, self._state.topology)
        self._view.say(f"{self._state.seconds:6.1f} s  found {verdict.fault.kind} {found} at {place}")

    def _drain(self, collector: Collector) -> None:
        """Wait until everything that was sent has been received, or for DRAIN_SECONDS."""
        until = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < until:
            self._look(collector)
            if self._missing() <= 0:
                break
            time.sleep(TURN_SECONDS)
        time.sleep(2 * TURN_SECONDS)
        self._look(collector)

    def _missing(self) -> int:
        from .view import damaged

        counters = self._state.counters
        return self._sent() - counters["reports_total"] - damaged(counters)

    def _sent(self) -> int:
        """Reports of the fabric, and reports that the collector makes from the edge's messages."""
        return int(self._messages["end"]["reports"]) + (self._edge.reports if self._edge is not None else 0)

    def _finish(self, form: Summary) -> int:
        """Print the summary; returns the exit status."""
        from .view import lost, summary

        state, end = self._state, self._messages["end"]
        judged = [v for v in state.verdicts if v.found or self._over(v)]
        state.verdicts = judged
        missing = self._missing()
        if form is Summary.JSON:
            print(json.dumps(self._object(missing)))
        else:
            print("\n".join(summary(state, end, missing, self._took())))
        return int(not all(v.found for v in judged) or missing > 0 or lost(state.counters) > 0)

    def _over(self, verdict: Any) -> bool:
        """Whether a fault has lasted long enough to be found: a demo may end during a fault."""
        return bool(verdict.begun_ns + 1_000_000_000 < self._messages["end"]["time_ns"])

    def _object(self, missing: int) -> dict[str, Any]:
        from ...runtime.pipeline.summary import family
        from .view import damaged, lost, reduction

        counters = self._state.counters
        values, stored, ratio = reduction(counters)
        return {
            "url": self._state.url,
            "seconds": round(self._messages["end"]["seconds"], 3),
            "took_seconds": round(self._took(), 3),
            "sent": self._sent(),
            "received": counters["reports_total"],
            "lost": max(missing, lost(counters)),
            "damaged": damaged(counters),
            "samples": family(counters, "sflow_samples_total"),
            "flow_records": counters["ipfix_records_total.flow"],
            "events": family(counters, "events_total"),
            "values": values,
            "stored": stored,
            "reduction": round(ratio, 1),
            "faults": [
                {
                    "kind": str(v.fault.kind),
                    "node": v.fault.node_name,
                    "port": v.fault.number,
                    "found": v.found,
                    "after_ms": None if v.after_seconds is None else round(v.after_seconds * 1000, 1),
                    "place": v.place,
                    "events": v.events,
                }
                for v in self._state.verdicts
            ],
        }

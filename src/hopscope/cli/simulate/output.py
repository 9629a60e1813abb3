"""Output of `hopscope simulate`: events, captures, datagrams."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ...base.plural import plural
from ..output.printer import Summary
from ..output.running import until_stopped

if TYPE_CHECKING:
    from ...fabric.faults import Fault
    from ...fabric.simulation import Simulation, Truth
    from ...settings.listen import ListenSettings
    from ...wire.records import FrameBatch

PROGRESS_SECONDS = 0.2
"""Interval of the "sent" objects of `--format json`."""
WINDOW = 0.02
"""Simulated seconds between two writes of a capture."""


class Reporter:
    """Reports events: as JSON objects on stdout, or as lines on stderr."""

    def __init__(self, form: Summary, clock: Callable[[], int]) -> None:
        """`clock`: the time of an event, ns."""
        self._json, self._clock = form is Summary.JSON, clock

    def event(self, kind: str, line: str, **more: Any) -> None:
        """Report an event."""
        if self._json:
            print(json.dumps({"kind": kind, "time_ns": self._clock(), **more}), flush=True)
        elif line:
            print(line, file=sys.stderr)

    def fault(self, fault: Fault, begins: bool) -> None:
        """Report that a fault begins or ends."""
        word = "begins" if begins else "ends"
        at = fault.start if begins else fault.end
        self.event(
            "fault", f"{at:8.3f} s  {fault} {word}", fault=str(fault.kind), begins=begins,
            node_id=fault.node_id, port=fault.number, start=fault.start,
        )  # fmt: skip

    def end(
        self, truth: Truth, frames: int, seconds: float, unreachable: int = 0, *, packets: bool = False
    ) -> None:
        """Report the summary; `frames` counts datagrams or INT packets."""
        digits = 1 if seconds >= 1 else 3
        line = f"simulated {seconds:.{digits}f} s: {plural(truth.emitted, 'packet')}, "
        line += f"{truth.dropped:,} dropped, {plural(truth.hops, 'port enqueue')}\n"
        if packets:
            line += f"wrote     {plural(frames, 'packet')} with INT"
        else:
            line += f"sent      {plural(truth.reports, 'report')} in {plural(frames, 'datagram')}, "
            line += f"{truth.drop_reports:,} about drops"
        if truth.suppressed:
            line += f"; {truth.suppressed:,} suppressed by the switches' limits"
        if unreachable:
            line += (
                f"\nport unreachable: at least {plural(unreachable, 'datagram')}; is a collector listening?"
            )
        names = (
            "emitted", "delivered", "dropped", "hops", "reports", "drop_reports", "suppressed", "rerouted",
        )  # fmt: skip
        counts = {name: getattr(truth, name) for name in names}
        what = "packets" if packets else "datagrams"
        self.event("end", line, seconds=seconds, unreachable=unreachable, **{what: frames}, **counts)


def write(simulation: Simulation, output: Path, seconds: float, reporter: Reporter, *, packets: bool) -> None:
    """Write a capture of `seconds` with the reports, or with the INT packets that they describe."""
    from ...capture.pcap.reader import PcapWriter
    from ...fabric.packets import int_packets
    from ...wire.records import Link

    frames = 0
    with PcapWriter(str(output)) as writer, _progress(seconds) as advance:
        for reports in simulation.run(seconds, WINDOW):
            batch = int_packets(reports) if packets else simulation.frames(reports, Link.ETHERNET)
            writer.write(batch)
            frames += len(batch)
            advance(simulation.now)
    reporter.end(simulation.truth, frames, simulation.now, packets=packets)


def send(
    simulation: Simulation, listener: ListenSettings, seconds: float | None, reporter: Reporter, *, hold: bool
) -> None:
    """Send reports in real time until Ctrl-C or for `seconds`. Raises typer.Exit."""
    from ...capture.udp.sender import UdpSender
    from ...fabric.pace import play
    from ...settings.source import url

    local = listener.host.startswith("127.")
    sender = UdpSender(listener.host, listener.port, trains=False, by_source=local)
    with closing(sender), until_stopped() as stop:
        _rehearse(simulation)
        if hold:
            reporter.event("ready", "")
            if not sys.stdin.readline():
                return
        reporter.event("start", f"sending to {url(listener)}, Ctrl-C ends it")
        counted = _counted(sender.send, simulation, reporter)
        try:
            play(simulation, counted, seconds, port=listener.port, stop=stop.is_set)
        finally:
            reporter.end(simulation.truth, sender.sent, simulation.now, sender.unreachable)
    if sender.unreachable:
        raise typer.Exit(1)


def _rehearse(simulation: Simulation) -> None:
    """Compile all kernels for sending, with datagrams to this process."""
    from ...capture.sockets import loopback_receiver
    from ...capture.udp.sender import UdpSender

    with (
        loopback_receiver() as receiver,
        closing(UdpSender(*receiver.getsockname()[:2], trains=False)) as sender,
    ):
        sender.send(simulation.rehearse())


def _counted(
    send: Callable[[FrameBatch], int], simulation: Simulation, reporter: Reporter
) -> Callable[[FrameBatch], object]:
    """Like `send`, with "sent" events every PROGRESS_SECONDS."""
    sent, due = 0, 0.0

    def counting(batch: FrameBatch) -> None:
        nonlocal sent, due
        sent += send(batch)
        if simulation.now >= due:
            reporter.event(
                "sent", "", datagrams=sent, reports=simulation.truth.reports, seconds=simulation.now
            )
            due = simulation.now + PROGRESS_SECONDS

    return counting


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

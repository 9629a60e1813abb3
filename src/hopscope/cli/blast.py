"""`hopscope blast`: how many reports a collector takes."""

from __future__ import annotations

import json
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..base.errors import HopscopeError
from .options.declare import Options, option
from .options.settings import CollectorOptions
from .output.printer import Summary, SummaryOption

if TYPE_CHECKING:
    from ..present.collector_state import CollectorState, CounterSnapshot

PROBE_SECONDS = 0.05
"""Time in which this machine or a near one answers that nobody listens."""
TURN_SECONDS = 0.05
"""Time between two looks at the clock, with a rate."""
SETTLE_SECONDS = 0.5
"""Time without a further report after which the collector has taken all."""
WAIT_SECONDS = 30.0
LOST = {
    "kernel_drops_total": "dropped by the kernel: the socket buffer was full",
    "detector_lost_reports_total": "not handed to the detector: its queue was full",
    "denied_frames_total": "from sources that are not allowed",
    "rate_limited_frames_total": "above the rate limit",
}
"""Counters of what a collector did not take."""


@dataclass(frozen=True)
class LoadOptions(Options):
    """The reports, and how fast they are sent."""

    to: Annotated[str, option("--to", metavar="ADDRESS", help="Listener of the collector.")] = (
        "udp://127.0.0.1:32766"
    )
    rate: Annotated[
        float, option("--rate", metavar="N", min=0, help="Reports per second; 0: as many as go.")
    ] = 0.0
    seconds: Annotated[float, option("--seconds", metavar="S", min=0.1, max=3600, help="How long.")] = 5.0
    flows: Annotated[int, option("--flows", metavar="N", min=1, help="Flows.")] = 10_000
    hops: Annotated[int, option("--hops", metavar="N", min=1, max=20, help="Hops of each report.")] = 3
    sources: Annotated[
        int,
        option(
            "--sources", metavar="N", min=1, max=1024,
            help="Senders, a power of two, on loopback only: workers share reports by source.",
        ),
    ] = 16  # fmt: skip


def blast(load: LoadOptions, settings: CollectorOptions, form: SummaryOption = Summary.TEXT) -> None:
    """Send Telemetry Reports as fast as possible, and print how many the collector took.

    Every report is a datagram (2.0, INT-MD, eight fields per hop). The counters of a collector on this
    machine show what it took and lost; sending costs a processor of its own, and on loopback also most of the
    receiving. Exit status 1: reports were lost; 2: it could not start, or nobody listens.
    """
    from ..capture.udp.sender import UdpSender
    from ..fabric.load import BLOCK, Load
    from ..present.collector_state import CollectorState
    from ..runtime.warmup import compile_parts
    from ..settings.source import parse

    target = parse(load.to)
    if target.kind != "udp":
        raise HopscopeError(f"--to {load.to}: expected udp://HOST:PORT")
    if BLOCK % load.sources:
        raise HopscopeError(f"--sources {load.sources}: expected a power of two")
    local = target.host.startswith("127.")
    folder = settings.load().data if local else None
    compile_parts("encoder")
    made = Load(hops=load.hops, flows=load.flows, sources=load.sources if local else 1)
    state = CollectorState(folder, fresh_seconds=0) if folder and _listens(folder, target.port) else None
    sender = UdpSender(target.host, target.port, rate=load.rate, trains=False, by_source=local)
    with closing(sender):
        before = None if state is None else state.counters()
        sender.send(made.next(1))
        time.sleep(PROBE_SECONDS)
        sender.send(made.next(1))
        if sender.unreachable:
            raise HopscopeError(f"{load.to}: nobody listens there")
        first, begin = sender.sent, time.monotonic()
        while (seconds := time.monotonic() - begin) < load.seconds:
            sender.send(made.next(max(1, int(load.rate * TURN_SECONDS)) if load.rate else BLOCK))
        result: dict[str, Any] = {
            "sent": sender.sent, "report_bytes": made.report_bytes, "seconds": round(seconds, 2),
            "per_second": round((sender.sent - first) / seconds),
        }  # fmt: skip
    if state is not None and before is not None:
        result |= _taken(state, before)
    if form is Summary.JSON:
        print(json.dumps(result))
    else:
        _print(result, load.to)
    raise typer.Exit(int(bool(result.get("lost"))))


def _listens(folder: Path, port: int) -> bool:
    """Whether the collector of a folder receives on this port."""
    from ..memory.data_folder import read_owner
    from ..settings.source import parse

    listeners = [parse(text) for text in read_owner(folder).get("listen", ())]
    return any(each.kind == "udp" and each.port == port for each in listeners)


def _taken(state: CollectorState, before: CounterSnapshot) -> dict[str, Any]:
    """What the collector took and lost, once it has processed all."""
    until = time.monotonic() + WAIT_SECONDS
    now, same_since = state.counters(), time.monotonic()
    while time.monotonic() < until and time.monotonic() - same_since < SETTLE_SECONDS:
        time.sleep(SETTLE_SECONDS / 10)
        newer = state.counters()
        if newer["reports_total"] != now["reports_total"]:
            same_since = time.monotonic()
        now = newer
    lost = {key: now[key] - before[key] for key in LOST if now[key] > before[key]}
    return {"received": now["reports_total"] - before["reports_total"], "lost": lost}


def _print(result: dict[str, Any], to: str) -> None:
    print(
        f"sent      {result['sent']:,} reports of {result['report_bytes']} bytes to {to} "
        f"in {result['seconds']:.1f} s: {result['per_second']:,} per second"
    )
    if "received" in result:
        share = f"{result['received'] / result['sent']:.1%}"
        if result["received"] > result["sent"]:
            share = "with those of other senders"
        print(f"received  {result['received']:,} ({share})")
        for key, count in result["lost"].items():
            print(f"lost      {count:,} {LOST[key]}")

"""`hopscope fabric`: a small fabric of real packets on this machine, whose switches label them."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ...base.quantities import seconds as seconds_of
from ..options.declare import Commands, Key, Options, argument, option
from ..options.network import TopologyOption
from ..options.settings import LogOptions, SettingsOptions
from ..output.printer import Format, FormatOption, print_rows
from .change import NameOption, PortArgument, SwitchArgument, link, track, untrack
from .start import StartProgress, print_fabric, running_fabric, tracked_flows
from .traffic import TrafficRequest

app = Commands(help="Run a fabric of network namespaces that labels real packets.")
STATUS_COLUMNS = (
    "switch", "port", "to", "frames/s", "labels/s", "frames", "labels", "restored", "S", "loss", "link",
    "dropped",
)  # fmt: skip

COVERAGE_SECONDS = 10.0
"""Recent period, s, whose coverage `status` shows."""


def _free_port(_: str, port: int) -> int:
    from ..demo.processes import free_http_port

    return free_http_port(port)


@dataclass(frozen=True)
class LabellingOptions(Options):
    """What the switches label."""

    title: ClassVar = "Labelling"

    interval: str | None = option(
        "--interval DURATION",
        "T, such as 50ms (label.labelling.interval).",
        sets=Key("label.labelling.interval", seconds_of),
    )
    algorithm: str | None = option(
        "--algorithm ALGORITHM",
        "base-a or base-b (label.labelling.algorithm).",
        sets="label.labelling.algorithm",
    )
    adaptive: str | None = option(
        "--adaptive ADAPTIVE", "off, shift or one-bit (label.adaptive.mode).", sets="label.adaptive.mode"
    )
    telemetry: str | None = option(
        "--telemetry DURATION",
        "Telemetry interval, such as 100ms (label.telemetry).",
        sets=Key("label.telemetry", seconds_of),
    )
    track: list[str] | None = option(
        "--track SRC:DST[:EVERY]",
        "Track a flow, given by hosts or addresses: all switches label 1 in EVERY (100) of its packets. "
        "Repeatable.",
    )


@dataclass(frozen=True)
class UpOptions(Options):
    """The fabric and its collector."""

    topology: TopologyOption = "leaf-spine:2x2x2"
    inner_mtu: int | None = option(
        "--inner-mtu BYTES",
        "MTU between switches; default: hosts' MTU plus room for labels.",
        min=1500,
        max=9000,
    )
    http_port: int = option(
        "--http-port PORT",
        "Port of the console, or the next free one.",
        8080,
        min=0,
        max=65535,
        sets=Key("serve.port", _free_port),
    )
    data: Path | None = option(
        "--data -d FOLDER", "Data folder of the collector, kept after `down`.", show_default="a temporary one"
    )
    name: NameOption = "fabric"


@app.command()
def up(options: UpOptions, labelling: LabellingOptions, log: LogOptions, settings: SettingsOptions) -> None:
    """Start hosts, labelling switches and a collector; return when all of them work.

    The fabric runs until `hopscope fabric down`. Exit status 2: it could not start, and nothing remains.
    """
    from ...fabric.topology import parse_topology
    from ...runtime.fabric.lifecycle import FabricOptions
    from ...runtime.fabric.lifecycle import up as start
    from ...testbed.namespaces import require_root
    from ...testbed.state import check_name

    require_root()
    loaded = settings.load(options, labelling, log)
    fabric = parse_topology(options.topology)
    label = loaded.label
    tracked = tuple(flow for text in labelling.track or () for flow in tracked_flows(text, fabric))
    loaded = loaded.model_copy(
        update={
            "listen": (),  # no reports: their decoders need not be compiled
            "label": label.model_copy(update={"track": (*label.track, *tracked)}),
        }
    )
    request = FabricOptions(fabric, loaded, check_name(options.name), options.data, options.inner_mtu)
    with StartProgress() as progress:
        fabric_state = start(request, progress.begin, progress.tick)
    print_fabric(fabric_state)


@app.command()
def traffic(request: TrafficRequest, name: NameOption = "fabric", form: FormatOption = Format.TABLE) -> None:
    """Send traffic between the hosts, and report what arrived.

    Exit status 1: packets were lost or rejected, or none were sent.
    """
    request.check()
    rows, lost = request.send(running_fabric(name).plan())
    print_rows(form, tuple(rows[0]) if rows else (), rows)
    raise typer.Exit(int(lost))


@app.command()
def status(
    over: float = option("--over S", "Interval over which rates are measured.", 1.0, min=0.1, max=60),
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:
    """Show the state and rates of every switch port; print the controller's coverage to stderr.

    Exit status 1: one of the fabric's processes has ended.
    """
    from ...labels.registers import Registers
    from ...runtime.fabric.process import last_words
    from ...testbed.status import coverage, port_rows

    state = running_fabric(name)
    registers = Registers.attach(state.registers)
    before, since = registers.counters.copy(), time.monotonic()
    time.sleep(over)
    rows = port_rows(state.plan(), registers, before, time.monotonic() - since)
    ended = [role for role, runs in state.running().items() if not runs]
    columns = [
        ("flag" if state.adaptive == "one-bit" else "S") if column == "S" else column
        for column in STATUS_COLUMNS
    ]
    print_rows(form, columns, rows)
    summary = coverage(state, COVERAGE_SECONDS)
    if summary is not None:
        print(f"hopscope: {summary}", file=sys.stderr)
    for role in ended:
        print(f"hopscope: the {role} ended: {last_words(state, role)}", file=sys.stderr)
    raise typer.Exit(int(bool(ended)))


@app.command()
def loss(
    switch: SwitchArgument,
    port: PortArgument,
    share: Annotated[float, argument("SHARE", "Share of frames to lose, 0 to 1; 0 ends the loss.")],
    name: NameOption = "fabric",
) -> None:
    """Let a port lose a share of the frames that it sends."""
    from ...labels.registers import Registers

    state = running_fabric(name)
    topology = state.plan().topology
    row = topology.port_row(switch, port)
    registers = Registers.attach(state.registers, writable=True)
    registers.set_loss(int(topology.ports[row]["node_id"]), port, share)
    print(f"{topology.switch_name(int(topology.ports[row]['node_id']))} port {port} "
          f"({topology.port_name(row)}) loses {share:.1%} of its frames")  # fmt: skip


app.command()(link)
app.command()(track)
app.command()(untrack)


@app.command()
def down(
    name: NameOption = "fabric",
    every: bool = option("--all", "Every fabric of this machine.", False),
) -> None:
    """Remove a fabric in any state: its processes, namespaces and folder.

    Also ends programs that run in its namespaces. Prints what was removed.
    """
    from ...runtime.fabric.lifecycle import down as remove
    from ...testbed.namespaces import require_root
    from ...testbed.state import check_name, names

    require_root()
    for fabric in names() if every else [check_name(name)]:
        removed = remove(fabric)
        print(f"{fabric}: removed {removed}" if removed else f"{fabric}: nothing to remove")

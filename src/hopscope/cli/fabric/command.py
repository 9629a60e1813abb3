"""`hopscope fabric`: a small fabric of real packets on this machine, whose switches label them."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..options import ConfigOption, SetOption, load
from ..output import Format, FormatOption, Printer, until_reader_leaves
from ..quantities import seconds as seconds_of
from .start import StartProgress, print_made, tracked_flows
from .traffic import TrafficRequest

app = typer.Typer(
    help="Run a fabric of network namespaces that labels real packets.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the fabric; several can be up at once.")
]
STATUS_COLUMNS = (
    "switch", "port", "to", "frames/s", "labels/s", "frames", "labels", "restored", "S", "loss", "dropped",
)  # fmt: skip

COVERAGE_SECONDS = 10.0
"""Duration of the last telemetry intervals whose coverage `status` shows."""


@app.command()
def up(
    topology: Annotated[
        str,
        typer.Option(
            "--topology", "-t", metavar="FABRIC", help="leaf-spine:LxSxHOSTS, fat-tree:K, or paper: 4-4-4."
        ),
    ] = "leaf-spine:2x2x2",
    interval: Annotated[
        str | None,
        typer.Option(
            "--interval", metavar="TIME", help="T, as 50ms (label.labelling.interval).", show_default=False
        ),
    ] = None,
    algorithm: Annotated[
        str | None,
        typer.Option(
            "--algorithm", metavar="NAME", help="base-a or base-b (label.labelling.algorithm).",
            show_default=False,
        ),
    ] = None,
    adaptive: Annotated[
        str | None,
        typer.Option(
            "--adaptive", metavar="MODE", help="off, shift or one-bit (label.adaptive.mode).",
            show_default=False,
        ),
    ] = None,
    telemetry: Annotated[
        str | None,
        typer.Option(
            "--telemetry", metavar="TIME", help="Telemetry interval, as 100ms (label.telemetry).",
            show_default=False,
        ),
    ] = None,
    track: Annotated[
        list[str] | None,
        typer.Option(
            "--track", metavar="SRC:DST[:EVERY]",
            help="A flow by hosts or addresses, of which all switches label one packet of so many (100). "
            "Repeatable.",
            show_default=False,
        ),
    ] = None,
    http_port: Annotated[
        int,
        typer.Option(
            "--http-port", metavar="PORT", min=0, max=65535, help="Port of the live page, or the next free."
        ),
    ] = 8080,
    inner_mtu: Annotated[
        int | None,
        typer.Option(
            "--inner-mtu", metavar="BYTES", min=1500, max=9000,
            help="MTU between switches; default: hosts' MTU plus room for labels.", show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data", "-d", metavar="FOLDER", help="Data folder of the collector, kept after `down`.",
            show_default="a temporary one",
        ),
    ] = None,
    name: NameOption = "fabric",
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:  # fmt: skip
    """Start hosts, labelling switches and a collector; returns when all of them work.

    The fabric runs until `hopscope fabric down`. Exit status 2: it could not start, and nothing remains.
    """
    from ...fabric.topology import parse_topology
    from ...runtime.fabric.lifecycle import FabricOptions
    from ...runtime.fabric.lifecycle import up as start
    from ...testbed.namespaces import require_root
    from ...testbed.state import check_name
    from ..demo.processes import free_http_port

    require_root()
    flags: list[tuple[str, str, Any]] = [
        ("--interval", "label.labelling.interval", interval and seconds_of("--interval", interval)),
        ("--algorithm", "label.labelling.algorithm", algorithm),
        ("--adaptive", "label.adaptive.mode", adaptive),
        ("--telemetry", "label.telemetry", telemetry and seconds_of("--telemetry", telemetry)),
        ("--http-port", "serve.port", free_http_port(http_port)),
    ]
    settings = load(config, overrides, flags).settings
    fabric = parse_topology(topology)
    label = settings.label
    tracked = tuple(one for text in track or () for one in tracked_flows(text, fabric))
    settings = settings.model_copy(
        update={
            "listen": (),  # no reports: their decoders need not be compiled
            "label": label.model_copy(update={"track": (*label.track, *tracked)}),
        }
    )
    options = FabricOptions(fabric, settings, check_name(name), data, inner_mtu)
    with StartProgress() as progress:
        made = start(options, progress.begin, progress.tick)
    print_made(made)


@app.command()
def traffic(
    kind: Annotated[
        Literal["udp", "tcp", "ping"],
        typer.Argument(
            metavar="KIND", help="udp: datagrams to random hosts; tcp: iperf3; ping: one host to all others."
        ),
    ] = "udp",
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate", metavar="RATE", help="udp: rate of each sender, bit/s of IP packets.", show_default="5M"
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", metavar="BYTES", help="udp: bytes of an IP packet.", show_default="1000"),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--seconds", "-s", metavar="S", min=0, help="udp, tcp: duration; udp: 0 until Ctrl-C.",
            show_default="10",
        ),
    ] = None,
    source: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="HOST", help="Sender; udp: repeatable, `all`: every host.",
            show_default="the first and the last host",
        ),
    ] = None,
    ipv6: Annotated[bool, typer.Option("--ipv6", "-6", help="IPv6.")] = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", help="udp: seed of the random hosts.", show_default="1"),
    ] = None,
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:  # fmt: skip
    """Send traffic between the hosts, and report what arrived.

    Exit status 1: packets were lost or rejected, or none were sent.
    """
    from ...testbed.namespaces import require_root
    from ...testbed.state import running

    require_root()
    request = TrafficRequest(kind, rate, size, seconds, source, 6 if ipv6 else 4, seed)
    request.check()
    rows, lost = request.send(running(name).plan())
    with until_reader_leaves():
        printer = Printer(form, tuple(rows[0]) if rows else ())
        printer.put(rows)
        printer.flush()
    raise typer.Exit(int(lost))


@app.command()
def status(
    over: Annotated[
        float,
        typer.Option("--over", metavar="S", min=0.1, max=60, help="Interval over which rates are measured."),
    ] = 1.0,
    name: NameOption = "fabric",
    form: FormatOption = Format.TABLE,
) -> None:
    """Show the state and rates of every switch port; prints the controller's coverage to stderr.

    Exit status 1: one of the fabric's processes has ended.
    """
    from ...labels.registers import Registers
    from ...runtime.fabric.process import last_words
    from ...testbed.namespaces import require_root
    from ...testbed.state import running
    from ...testbed.status import coverage, port_rows

    require_root()
    state = running(name)
    registers = Registers.attach(state.registers)
    before, since = registers.counters.copy(), time.monotonic()
    time.sleep(over)
    rows = port_rows(state.plan(), registers, before, time.monotonic() - since)
    ended = [role for role, runs in state.running().items() if not runs]
    columns = [
        ("flag" if state.adaptive == "one-bit" else "S") if column == "S" else column
        for column in STATUS_COLUMNS
    ]
    with until_reader_leaves():
        printer = Printer(form, columns)
        printer.put(rows)
        printer.flush()
    summary = coverage(state, COVERAGE_SECONDS)
    if summary is not None:
        print(f"hopscope: {summary}", file=sys.stderr)
    for role in ended:
        print(f"hopscope: the {role} ended: {last_words(state, role)}", file=sys.stderr)
    raise typer.Exit(int(bool(ended)))


@app.command()
def loss(
    switch: Annotated[str, typer.Argument(metavar="SWITCH", help="Name or number of the switch, as leaf-0.")],
    port: Annotated[int, typer.Argument(metavar="PORT", help="Port number, as `status` shows it.")],
    share: Annotated[
        float, typer.Argument(metavar="SHARE", help="Share of frames to lose, 0 to 1; 0 ends the loss.")
    ],
    name: NameOption = "fabric",
) -> None:
    """Let a port lose a share of the frames that it sends."""
    from ...labels.registers import Registers
    from ...testbed.namespaces import require_root
    from ...testbed.state import running

    require_root()
    state = running(name)
    topology = state.plan().topology
    row = topology.port_row(switch, port)
    registers = Registers.attach(state.registers, writable=True)
    registers.set_loss(int(topology.ports[row]["node_id"]), port, share)
    print(f"{topology.switch_name(int(topology.ports[row]['node_id']))} port {port} "
          f"({topology.port_name(row)}) loses {share:.1%} of its frames")  # fmt: skip


@app.command()
def down(
    name: NameOption = "fabric",
    every: Annotated[bool, typer.Option("--all", help="Every fabric of this machine.")] = False,
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

"""`hopscope switch`: INT and INT-label on interfaces of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from .options.declare import Commands, option
from .output.printer import Format, FormatOption, print_rows

if TYPE_CHECKING:
    from ..switch.direct_sender import Outlet
    from ..switch.settings import SwitchSettings

app = Commands(help="INT and labels on interfaces of this machine: source, transit, sink and reports.")
ConfigOption = Annotated[Path, option("--config -c FILE", "A TOML file with [switch].")]
COLUMNS = ("counter", "number")


@app.command()
def attach(config: ConfigOption) -> None:
    """Attach the programs to the interfaces, or replace those that are attached.

    They stay attached after this command has ended, and no packet bypasses them while they are replaced.
    Needs root and Linux 6.1; labels need Linux 6.6. Exit status 2: an error; interfaces that had no programs
    still have none.
    """
    from ..switch.program import attach as run
    from ..switch.program import attached

    settings = _loaded(config)
    run(settings)
    print(f"node {settings.node_id} runs at {', '.join(attached(settings))}")


@app.command()
def run(config: ConfigOption) -> None:
    """Attach the programs, and send their reports and labels to collectors, until SIGINT or SIGTERM.

    The programs stay attached after this command has ended, but then make no reports, and labels are lost.
    Exit status 2: the programs could not be attached, another process already sends, or a collector's name
    could not be resolved.
    """
    import signal
    import threading

    from ..base.process.loop import IdleWait, Pause
    from ..base.process.loop import run as loop
    from ..base.process.service import Service
    from ..base.process.stop import at_signals
    from ..settings.configuration.errors import ConfigError
    from ..switch.program import attach as attach_all
    from ..switch.program import attached
    from ..switch.sender import BUSY, PAUSE_SECONDS
    from ..switch.senders import Senders

    settings = _loaded(config)
    label, direct = settings.label, settings.direct
    if not (settings.collector or (label and label.collector) or (direct and direct.place)):
        raise ConfigError(f"{config}: switch.collector: not set, expected the address of a collector")
    attach_all(settings)
    senders = Senders(settings, _outlet(settings))
    stop, service = threading.Event(), Service()
    at_signals(stop.set, signal.SIGINT, signal.SIGTERM)
    where = ", ".join(attached(settings))
    print(f"node {settings.node_id} runs at {where}, {', '.join(senders.places)}", flush=True)
    service.ready()
    pause = IdleWait(Pause(PAUSE_SECONDS, BUSY), lambda: senders.rings)

    def idle(found: int) -> None:
        service.alive()
        pause(found)

    loop(senders, stop, idle)


@app.command()
def status(config: ConfigOption, form: FormatOption = Format.TABLE) -> None:
    """Print where the programs run, counters of packets, reports and labels, and drops by reason.

    The interfaces are printed to standard error. Exit status 2: nothing is attached.
    """
    import sys

    from ..switch.clock import epoch_ns, read_epoch
    from ..switch.program import attached
    from ..switch.view import take

    settings = _loaded(config)
    found = take(settings).rows()
    print(f"attached to {', '.join(attached(settings)) or 'no interface'}", file=sys.stderr)
    if off := (read_epoch(settings.pins) - epoch_ns()) // 10**9:
        print(
            f"times of INT and labels are {abs(off)} s off: `switch run` and `serve` correct that",
            file=sys.stderr,
        )
    print_rows(form, COLUMNS, ({"counter": name, "number": number} for name, number in found))


@app.command()
def watch(
    config: ConfigOption,
    interval: float = option("--interval SECONDS", "Time between updates.", 1.0, min=0.1),
    count: int | None = option("--count -n N", "Stop after N updates.", min=1),
) -> None:
    """Show what the programs do, until Ctrl-C: rates, drops by reason, latency and queue of each interface.

    Exit status 2: nothing is attached.
    """
    import sys
    import time

    from ..switch.view import screen, take

    settings, left = _loaded(config), count
    before, clear = take(settings), "\x1b[H\x1b[J" if sys.stdout.isatty() else ""
    try:
        while left is None or left > 0:
            time.sleep(interval)
            now = take(settings)
            print(clear + screen(before, now), flush=True)
            before, left = now, None if left is None else left - 1
    except KeyboardInterrupt:
        return


@app.command()
def metrics(config: ConfigOption) -> None:
    """Print all counters as Prometheus metrics, for the textfile collector of the node exporter.

    Exit status 2: nothing is attached.
    """
    from ..switch.view import metrics as text

    print(text(_loaded(config)), end="")


@app.command()
def check(config: ConfigOption, form: FormatOption = Format.TABLE) -> None:
    """Report what this kernel supports, and what keeps the settings from working on it.

    Exit status 1: something keeps them from working.
    """
    import typer

    from ..switch.kernel import allowed

    rows = [dict(zip(("what", "found", "advice"), each, strict=True)) for each in allowed(_loaded(config))]
    print_rows(form, ("what", "found", "advice"), rows)
    raise typer.Exit(int(any(row["advice"] for row in rows)))


@app.command()
def detach(config: ConfigOption) -> None:
    """Remove the programs and their counters."""
    from ..switch.program import detach as run

    print("detached" if run(_loaded(config)) else "nothing was attached")


def _outlet(settings: SwitchSettings) -> Outlet | None:
    """Sends DTA reports to a translator, or by RoCEv2 into collectors' memory; None: there are none."""
    import sys

    from ..runtime.switch.outlet import RoceOutlet
    from ..settings.section import host_and_port
    from ..switch.direct_sender import DtaOutlet

    direct = settings.direct
    if direct is None or not direct.place:
        return None
    if direct.translator:
        return DtaOutlet(*host_and_port(direct.translator))
    return RoceOutlet(
        direct.collectors, direct.address, lambda line: print(line, file=sys.stderr, flush=True)
    )


def _loaded(config: Path) -> SwitchSettings:
    from ..switch.settings import load_switch

    return load_switch(config)


@app.command()
def serve(config: ConfigOption) -> None:
    """Let a controller read and change the state of the attached programs over HTTP, until SIGINT or SIGTERM.

    The table [agent] of FILE says where, and with which token.
    """
    import signal
    import sys
    import threading

    from ..base import log
    from ..base.process.stop import at_signals
    from ..runtime.switch.agent import run
    from ..switch.settings import load_agent

    settings, agent = load_agent(config)
    stop = threading.Event()
    at_signals(stop.set, signal.SIGINT, signal.SIGTERM)
    log.configure(level="info", form="auto")

    def ready(place: str) -> None:
        print(f"node {settings.node_id} listens on {place}", file=sys.stderr, flush=True)

    run(settings.node_id, settings.pins, agent, stop, ready)

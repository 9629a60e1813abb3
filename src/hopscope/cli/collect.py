"""`hopscope collect`: the collector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import typer

from .options.declare import Options, option
from .options.settings import LogOptions, NamedFolderOptions, ServingOptions


@dataclass(frozen=True)
class CollectOptions(Options):
    """Where reports come from, and where state is."""

    listen: list[str] | None = option(
        "--listen -l ADDRESS",
        "Address to receive at: reports (udp://127.0.0.1:32766?workers=2), sFlow (sflow://HOST) or IPFIX "
        "(ipfix://HOST, ipfix+tcp://HOST). Or an interface: its reports (ring://eth1?port=32766 or, "
        "filtered in the kernel, xdp://eth1) or its packets (mirror://eth1). Repeatable.",
        sets="listen",
    )
    regions: Path | None = option(
        "--regions FOLDER", "Folder of the shared memory (default /dev/shm).", sets="regions"
    )


def collect(
    options: CollectOptions, serving: ServingOptions, log: LogOptions, settings: NamedFolderOptions
) -> None:
    """Run a collector: receive reports, detect events, serve them.

    By default it listens on UDP 32766 on loopback, keeps history in the user's data folder and serves
    the console on http://127.0.0.1:8080. Ctrl-C ends it with a summary; SIGHUP reads the settings again.
    Exit status 2: it could not start, or failed later.
    """
    from ..runtime.supervisor.run import run

    load = partial(settings.load, options, serving, log)
    raise typer.Exit(run(load(), load))

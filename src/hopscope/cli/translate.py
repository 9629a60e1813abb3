"""`hopscope translate`: the translator of direct telemetry access."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .options import ConfigOption, DataOption, MonitorOption, SetOption, StoreOption, load, stores


def translate(
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            "-p",
            metavar="PORT",
            min=0,
            max=65535,
            help="UDP port of DTA reports; 0: any free port.",
            show_default="40040",
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--form", metavar="FORM", help="Base header: 2, 3 or sized.", show_default="sized"),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            metavar="HOST",
            help="NIC of a collector, written to over RoCEv2. Repeatable. Default: stores on this machine.",
            show_default=False,
        ),
    ] = None,
    store: StoreOption = None,
    monitor: MonitorOption = None,
    data: DataOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Run a DTA translator: reports into memory that answers by key.

    Without flags it receives `sized` reports on loopback UDP 40040 and writes into stores of the user's data
    folder; `hopscope direct query` reads them. Exit status 2: it could not start.
    """
    from ..direct.counters import COUNTERS
    from ..memory.data_folder import owned_stores
    from ..runtime.direct.translator import TranslatorProcess
    from .announce import compile_parts
    from .running import print_counters, progress, until_stopped

    settings = load(
        config,
        overrides,
        [
            ("--port", "direct.translator.port", port),
            ("--form", "direct.translator.form", form),
            ("--to", "direct.translator.collectors", to),
            ("--to", "direct.translator.transport", "rocev2" if to else None),
            ("--store", "direct.stores", stores(store, monitor)),
            ("--data", "data", data),
        ],
    ).settings
    translator = settings.direct.translator
    with until_stopped() as stop, owned_stores(settings.stores_folder):
        compile_parts("direct")
        process = TranslatorProcess(
            settings.direct, settings.stores_folder, notify=lambda line: print(line, file=sys.stderr)
        )
        process.open()
        where = (
            f"stores in {settings.stores_folder}"
            if translator.transport == "memory"
            else f"collectors {', '.join(translator.collectors)}"
        )
        print(
            f"DTA reports ({translator.form}{'' if translator.form == 'sized' else '-byte header'}) on "
            f"udp://{translator.host}:{process.port} into {where}",
            file=sys.stderr,
        )
        for note in process.notes():
            print(note, file=sys.stderr)
        with progress(lambda: process.counted["dta_datagrams_total"], "reports", stop):
            process.run(stop)
        print_counters(
            {counter.key: process.counted[counter.key] for counter in COUNTERS},
            {counter.key: counter.help for counter in COUNTERS},
        )

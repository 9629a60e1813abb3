"""`hopscope collect`: the collector."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import ConfigOption, DataOption, HttpPortOption, NamesOption, SetOption, load


def collect(
    listen: Annotated[
        list[str] | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="ADDRESS",
            help="Address of reports, as udp://127.0.0.1:32766?workers=2, or an interface "
            "to capture from, as mirror://eth1. Repeatable.",
            show_default=False,
        ),
    ] = None,
    data: DataOption = None,
    http_host: Annotated[
        str | None,
        typer.Option(
            "--http-host", metavar="HOST", help="Address of the API and the page.", show_default=False
        ),
    ] = None,
    http_port: HttpPortOption = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Without API and page.")] = False,
    names: NamesOption = None,
    regions: Annotated[
        Path | None,
        typer.Option(
            "--regions",
            metavar="FOLDER",
            help="Folder of the shared memory (default /dev/shm).",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Run a collector: receive reports, detect events, serve them.

    By default it listens on UDP 32766 on loopback, keeps history in the user's data folder and serves
    the live page on http://127.0.0.1:8080. Ctrl-C ends it with a summary. Exit status 2: it could not start,
    or failed later.
    """
    from ..base import log
    from ..runtime.supervisor import run

    settings = load(
        config,
        overrides,
        [
            ("--listen", "listen", listen),
            ("--data", "data", data),
            ("--http-host", "serve.host", http_host),
            ("--http-port", "serve.port", http_port),
            ("--no-serve", "serve.enabled", False if no_serve else None),
            ("--names", "names", names),
            ("--regions", "regions", regions),
        ],
    ).settings
    log.configure()
    raise typer.Exit(run(settings))

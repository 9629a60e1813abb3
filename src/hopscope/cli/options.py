"""Flags that several commands share, and settings from them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..config_file import Loaded

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="TOML file with settings.", show_default=False),
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", "-d", metavar="FOLDER", help="Data folder (setting data).", show_default=False),
]
NamesOption = Annotated[
    Path | None,
    typer.Option(
        "--names", metavar="FILE", help="Names of nodes and ports, TOML or CSV.", show_default=False
    ),
]
CaptureArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="pcap or pcapng, may be gzipped; - is standard input.")
]
PortOption = Annotated[
    list[int] | None,
    typer.Option(
        "--port",
        "-p",
        metavar="PORT",
        min=0,
        max=65535,
        help="UDP port that reports are sent to. Repeatable; default: every port that is known.",
        show_default=False,
    ),
]
DialectOption = Annotated[str, typer.Option("--dialect", metavar="NAME", help="How reports are read.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any setting, as detect.flow_rows=1024. Repeatable.",
        show_default=False,
    ),
]


def load(
    config: Path | None, overrides: list[str] | None, flags: list[tuple[str, str, Any]] | None = None
) -> Loaded:
    """Settings from flags over environment over file over defaults."""
    from ..config_file import load as load_settings
    from ..config_file import parse_set

    return load_settings(config, [*map(parse_set, overrides or ()), *(flags or ())])

"""`hopscope dissector`: a Wireshark dissector for all that Hopscope reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .options import ConfigOption, load


def dissector(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write it; default: standard output.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Print a Wireshark dissector (Lua) for reports, INT, DTA, labels.

    It offers every dialect, those of your configuration too.
    Wireshark loads it from its folder of personal Lua plugins, which `tshark -G folders` names;
    `tshark -X lua_script:FILE` loads it once.
    """
    from ..settings.dialects import known
    from ..wire.wireshark.dissector import dissector as generate

    text = generate(known(load(config, None).settings.dialects))
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")

"""`hopscope dissector`: a Wireshark dissector for all that Hopscope reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
) -> None:
    """Print a Wireshark dissector, in Lua, for reports, INT, DTA and INT-label.

    Wireshark loads it from its folder of personal Lua plugins, which `tshark -G folders` names;
    `tshark -X lua_script:FILE` loads it once.
    """
    from ..wire.dissector import dissector as generate

    text = generate()
    if output is None:
        typer.echo(text, nl=False)
    else:
        output.write_text(text, "utf-8")

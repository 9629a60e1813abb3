"""`hopscope dissector`: a Wireshark dissector for all that Hopscope reads."""

from __future__ import annotations

from pathlib import Path

import typer

from .options.declare import option
from .options.settings import SettingsOptions


def dissector(
    settings: SettingsOptions,
    output: Path | None = option("--output -o FILE", "File to write; - or none: standard output."),
) -> None:
    """Print a Wireshark dissector (Lua) for reports, INT, IFA, DTA, labels.

    It offers every dialect, including those of your configuration.
    Wireshark loads it from its folder of personal Lua plugins, which `tshark -G folders` prints;
    `tshark -X lua_script:FILE` loads it once.
    """
    from ..base.output import write_output
    from ..settings.dialects import known
    from ..wire.wireshark.dissector import dissector as generate

    text = generate(known(settings.load().dialects))
    if output is None or str(output) == "-":
        typer.echo(text, nl=False)
    else:
        write_output(output, text)

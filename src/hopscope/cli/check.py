"""`hopscope check`."""

from __future__ import annotations

import typer

from .options import ConfigOption, DataOption, SetOption, load
from .output import Format, FormatOption, Printer


def check(
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Check whether this machine can run a collector, and how well.

    Exit status: 0; 1 where something is bad, so that a collector would not start.
    """
    from ..runtime.environment import Verdict, findings

    settings = load(config, overrides, [("--data", "data", data)]).settings
    printer = Printer(form, ("verdict", "what", "found", "advice"))
    bad = False
    for finding in findings(settings):
        bad |= finding.verdict is Verdict.BAD
        printer.put(
            [
                {
                    "verdict": finding.verdict.value,
                    "what": finding.what,
                    "found": finding.found,
                    "advice": finding.advice,
                }
            ]
        )
    printer.flush()
    raise typer.Exit(int(bad))

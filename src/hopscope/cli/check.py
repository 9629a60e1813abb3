"""`hopscope check`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from .options.settings import FolderOptions
from .output.printer import RED, YELLOW, Format, FormatOption, Printer


def colour(row: Mapping[str, Any]) -> str:
    """Colour of a finding: red if it is bad, yellow if it can be improved."""
    return {"bad": RED, "advice": YELLOW}.get(str(row["verdict"]), "")


def check(settings: FolderOptions, form: FormatOption = Format.TABLE) -> None:
    """Check whether this machine can run a collector, and how well.

    Exit status: 0; 1 if something is bad, so that a collector would not start.
    """
    from ..runtime.environment import Verdict, findings

    columns = ("verdict", "what", "found", "advice")
    printer = Printer(form, columns, colour=colour)
    bad = False
    for finding in findings(settings.load()):
        bad |= finding.verdict is Verdict.BAD
        printer.put([{name: getattr(finding, name) for name in columns}])
    printer.flush()
    raise typer.Exit(int(bad))

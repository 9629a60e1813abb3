"""`hopscope check`."""

from __future__ import annotations

import typer

from .options.settings import FolderOptions
from .output.printer import Format, FormatOption, Printer


def check(settings: FolderOptions, form: FormatOption = Format.TABLE) -> None:
    """Check whether this machine can run a collector, and how well.

    Exit status: 0; 1 if something is bad, so that a collector would not start.
    """
    from ..runtime.environment import Verdict, findings

    columns = ("verdict", "what", "found", "advice")
    printer = Printer(form, columns)
    bad = False
    for finding in findings(settings.load()):
        bad |= finding.verdict is Verdict.BAD
        printer.put([{name: getattr(finding, name) for name in columns}])
    printer.flush()
    raise typer.Exit(int(bad))

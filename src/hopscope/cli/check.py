"""`hopscope check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from .options.settings import FolderOptions
from .output.printer import RED, YELLOW, Format, FormatOption, print_rows

if TYPE_CHECKING:
    from ..runtime.checks.environment import Finding

COLUMNS = ("verdict", "what", "found", "advice")


def print_findings(found: Iterable[Finding], form: Format) -> None:
    """Print findings as rows."""
    print_rows(form, COLUMNS, ({name: getattr(each, name) for name in COLUMNS} for each in found), colour)


def colour(row: Mapping[str, Any]) -> str:
    """Colour of a finding: red if it is bad, yellow if it can be improved."""
    return {"bad": RED, "advice": YELLOW}.get(str(row["verdict"]), "")


def check(settings: FolderOptions, form: FormatOption = Format.TABLE) -> None:
    """Check whether this machine can run a collector, and how well.

    Exit status: 0; 1 if something is bad: a collector would not start, or could not do everything that the
    settings ask for.
    """
    from ..runtime.checks.environment import Verdict, findings

    found = list(findings(settings.load()))
    print_findings(found, form)
    raise typer.Exit(int(any(finding.verdict is Verdict.BAD for finding in found)))

"""`hopscope doctor`."""

from __future__ import annotations

import sys

import typer

from .check import print_findings
from .options.declare import option
from .options.settings import CollectorOptions
from .output.printer import Format, FormatOption


def doctor(
    settings: CollectorOptions,
    seconds: float = option("--seconds S", "Time over which rates are measured.", 2.0, min=0.1, max=600),
    form: FormatOption = Format.TABLE,
) -> None:
    """Examine the running collector: what is wrong, why, and what to do.

    Reads its processes, interfaces, counters, history, exports, and limits of the machine. `hopscope check`
    examines the machine before a start.

    Exit status: 0; 1 if something is bad.
    """
    from ..runtime.checks.doctor import examine
    from ..runtime.checks.environment import Verdict

    order = list(Verdict)
    found = sorted(examine(settings.load(), seconds), key=lambda finding: -order.index(finding.verdict))
    print_findings(found, form)
    counts = {verdict: sum(finding.verdict is verdict for finding in found) for verdict in Verdict}
    print(f"hopscope: {counts[Verdict.BAD]} bad, {counts[Verdict.ADVICE]} to improve", file=sys.stderr)
    raise typer.Exit(int(counts[Verdict.BAD] > 0))

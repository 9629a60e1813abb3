"""`hopscope cluster drain`: let a member leave, or come back."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ...base.errors import HopscopeError
from ..options.declare import argument, option
from ..output.printer import Summary, SummaryOption
from .connect import ClusterOptions, connected

if TYPE_CHECKING:
    from ...cluster.membership.drain import Progress

TEXTS = {
    "live": "takes reports again",
    "withdrawing": "withdraws its route",
    "silence": "waits until no switch sends to it",
    "flushing": "waits until the lake has its events",
    "drained": "drained; it can be stopped, `--undo` brings it back",
}
EXTRA_SECONDS = 160.0
"""Beyond `--wait`: limits of the other stages."""


def drain(
    name: Annotated[str, argument("NAME", "Name of the member.")],
    settings: ClusterOptions,
    undo: bool = option("--undo", "Let it take reports again.", False),
    wait: float = option(
        "--wait S",
        "Longest wait until no report has come for 2 s; after that, the drain goes on and says so.",
        60.0,
        min=0,
        max=86_400,
    ),
    form: SummaryOption = Summary.TEXT,
) -> None:
    """Let a member leave: other members get its keys, its route is withdrawn, its events go to the lake.

    Works from any machine that reaches NATS. The member keeps its data and answers queries; stop it when it
    is drained. The command prints what it waits for; Ctrl-C ends the wait, not the drain. `--undo` does not
    bring its keys back: `hopscope cluster owners add` does.

    Exit status: 0; 1 if a step was not done in time, which the output names.
    """
    from ...cluster.membership.drain import follow
    from ...cluster.membership.drain_request import DrainRequest
    from ...cluster.membership.members import Directory
    from .owners import give_away

    loaded = settings.load()
    with connected(loaded) as connection:
        if name not in Directory(connection).known():
            raise HopscopeError(
                f"{name}: the cluster has no such member; `hopscope cluster status` lists them"
            )
        kept = "" if undo else give_away(connection, loaded, name, form)
        request = DrainRequest(drained=not undo, silence_seconds=wait, number=time.time_ns())
        limit = EXTRA_SECONDS + (0 if undo else wait)
        end = follow(
            connection,
            name,
            request,
            limit,
            lambda progress: _say(name, progress),
            lambda why: print(f"{name}  no news: {why}", file=sys.stderr, flush=True),
        )
    reasons = [kept, end.problem]
    if not end.problem and end.stage != ("live" if undo else "drained"):
        reasons.append(f"it still waits for {end.waits_for}; the request stays")
    found = [reason for reason in reasons if reason]
    if form is Summary.JSON:
        print(json.dumps({"member": name, "stage": end.stage, "problems": found}))
    if found:
        print(f"hopscope: {name}: {'; '.join(found)}", file=sys.stderr)
        raise typer.Exit(1)


def _say(name: str, progress: Progress) -> None:
    detail = f": {progress.waits_for}" if progress.waits_for else ""
    print(f"{name}  {TEXTS[progress.stage]}{detail}", file=sys.stderr, flush=True)

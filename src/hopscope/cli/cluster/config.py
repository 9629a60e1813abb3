"""`hopscope cluster config`: what all members are configured with."""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...base.errors import HopscopeError
from ..limits import NodeOption, node_texts, parse_change
from ..options.declare import Commands, argument, option
from ..output.local_user import local_user
from ..output.printer import Format, FormatOption, Summary, SummaryOption, print_rows
from .connect import ClusterOptions, connected

if TYPE_CHECKING:
    from ...base.names import Names
    from ...cluster.configuration import Configurations, Limits, Metrics, Revision
    from ...cluster.connection import Connection
    from ...settings.collector import Settings

app = Commands(help="Show and change the configuration of all members: their limits.")
COLUMNS = ("switch", "metric", "limit", "value")
HISTORY = ("revision", "time", "by", "limits", "note")
SETTINGS = "settings"
"""Value of a limit that the cluster no longer sets."""
WAIT_SECONDS = 3.0
"""Least time in which members may apply a change before the command says that they have not."""
NoteOption = Annotated[str, option("--note TEXT", "Reason for the change, shown in the history.")]
AfterOption = Annotated[
    int | None,
    option(
        "--after REVISION", "Only if this is the newest revision; by default, the newest one is looked up."
    ),
]


@app.command()
def show(
    settings: ClusterOptions,
    revision: int | None = option("--revision N", "An earlier one."),
    form: FormatOption = Format.TABLE,
) -> None:
    """Print the limits that the cluster sets; for all others, each member has those of its settings."""
    from ...base.names import Names
    from ...cluster.configuration import Configurations

    loaded = settings.load()
    with connected(loaded) as connection:
        configurations = Configurations(connection)
        found = configurations.newest() if revision is None else configurations.at(revision)
    _check(found)
    if form is Format.TABLE:
        by = f" by {found.configuration.by}" if found.configuration.by else ""
        print(f"revision {found.number}{by}\n" if found.number else "the cluster sets nothing")
    print_rows(form, COLUMNS, _rows(found.configuration.limits, Names.load(loaded.names, loaded.data)))


@app.command()
def set(
    settings: ClusterOptions,
    changes: Annotated[
        list[str],
        argument(
            "METRIC.LIMIT=VALUE",
            "Such as hop_latency.raise_above=50us or queue_occupancy.change=never; `settings`: no "
            "longer set by "
            "the cluster; with --node also `general`, for the limit of all switches.",
        ),
    ],
    node: NodeOption = None,
    after: AfterOption = None,
    note: NoteOption = "",
    form: SummaryOption = Summary.TEXT,
) -> None:
    """Change limits of all members now, and of members that join later.

    LIMIT is change, raise_above or clear_below. Each member applies a revision as a whole, or says why it
    cannot. Exit status 1: another change came first, and nothing was changed; or a member has not applied it.
    2: nothing was changed.
    """
    from ...base.names import Names

    loaded = settings.load()
    nodes = node_texts(node, Names.load(loaded.names, loaded.data))
    changed, without = _limits(changes, nodes)

    def change(before: Revision, _: Configurations) -> Limits:
        from ...cluster.configuration import merged

        return merged(before.configuration.limits, changed, without)

    _change(loaded, change, after, note, form)


@app.command()
def history(settings: ClusterOptions, form: FormatOption = Format.TABLE) -> None:
    """Print the revisions that are kept, newest first: 64 at most."""
    from ...cluster.configuration import Configurations
    from ...present.events import when_seconds

    with connected(settings.load()) as connection:
        revisions = Configurations(connection).history()
    rows = [
        {
            "revision": each.number,
            "time": when_seconds(each.time_ns),
            "by": each.configuration.by,
            "limits": f"cannot be read: {each.problem}"
            if each.problem
            else sum(1 for _ in _leaves(each.configuration.limits)),
            "note": each.configuration.note,
        }
        for each in revisions
    ]
    print_rows(form, HISTORY, rows)


@app.command()
def rollback(
    settings: ClusterOptions,
    revision: Annotated[int, argument("REVISION", "A revision of the history; 0: set nothing.")],
    after: AfterOption = None,
    form: SummaryOption = Summary.TEXT,
) -> None:
    """Set what an earlier revision set, as a new revision. The exit status is that of `set`."""

    def change(_: Revision, configurations: Configurations) -> Limits:
        from ...cluster.configuration import Limits

        if revision == 0:
            return Limits()
        found = configurations.at(revision)
        _check(found)
        return found.configuration.limits

    _change(settings.load(), change, after, f"rollback to revision {revision}", form)


def _change(
    settings: Settings,
    change: Callable[[Revision, Configurations], Limits],
    after: int | None,
    note: str,
    form: Summary,
) -> None:
    """Store what `change` makes of the newest revision, and wait until all members have it."""
    from dataclasses import asdict

    from ...cluster.configuration import Configuration, Configurations
    from ...runtime.supervisor.limits import changed_limits

    with connected(settings) as connection:
        configurations = Configurations(connection)
        newest = configurations.newest()
        if newest.problem:
            print(
                f"hopscope: revision {newest.number} cannot be read ({newest.problem}), and is replaced",
                file=sys.stderr,
            )
        limits = change(newest, configurations)
        try:
            changed_limits(settings.limits, asdict(limits), sink=settings.sink.enabled)
        except ValueError as error:
            raise HopscopeError(str(error)) from None
        by = f"{local_user()}@{socket.gethostname()}"
        configuration = Configuration(limits, by, _line(note))
        number = configurations.put(configuration, newest.number if after is None else after)
        if form is Summary.TEXT:
            print(f"revision {number}")
        applied, late = _applied(connection, number, settings)
    if form is Summary.JSON:
        print(json.dumps({"revision": number, "applied_by": applied, "not_applied_by": late}))
    else:
        if applied:
            print(f"applied by {', '.join(applied)}")
        for name, problem in late.items():
            print(f"not applied by {name}: {problem}")
    if late:
        raise typer.Exit(1)


def _applied(connection: Connection, number: int, settings: Settings) -> tuple[list[str], dict[str, str]]:
    """Members that have a revision soon, and why others have not."""
    from ...cluster.configuration import Configurations
    from ...cluster.membership.members import Directory

    directory, configurations = Directory(connection), Configurations(connection)
    until = time.monotonic() + max(WAIT_SECONDS, settings.cluster.answer_seconds)
    while True:
        living = directory.living()
        newest = configurations.newest().number  # a member has a later one only if NATS has lost revisions
        problems = {
            record.name: record.revision_problem
            if _is_of(number, record.revision_problem)
            else "no answer yet"
            for record in living.values()
            if not number <= record.revision <= newest
        }
        if "no answer yet" not in problems.values() or time.monotonic() > until:
            break
        time.sleep(0.05)
    return sorted(living.keys() - problems.keys()), dict(sorted(problems.items()))


def _is_of(number: int, problem: str) -> bool:
    """Whether a member's problem is with this revision, not with an earlier one that it tried before."""
    return problem.startswith((f"revision {number}:", f"revision {number} "))


def _limits(changes: list[str], nodes: list[str]) -> tuple[Limits, Limits]:
    """What to set, and what not to set any more."""
    from ...cluster.configuration import Limits

    given: Metrics = {}
    gone: Metrics = {}
    for text in changes:
        key, _, value = text.partition("=")
        if value.strip() == SETTINGS:
            metric, limit, _ = parse_change(f"{key}=never")
            gone.setdefault(metric, {})[limit] = None
        else:
            metric, limit, number = parse_change(text)
            given.setdefault(metric, {})[limit] = number
    if nodes:
        return Limits(switches=dict.fromkeys(nodes, given)), Limits(switches=dict.fromkeys(nodes, gone))
    return Limits(given), Limits(gone)


def _check(revision: Revision) -> None:
    if revision.problem:
        raise HopscopeError(f"revision {revision.number} cannot be read: {revision.problem}")


def _leaves(limits: Limits) -> Iterator[tuple[str | None, str, str, Any]]:
    """Yield (node, None for all; metric; limit; value) of every limit that is set."""
    for metric, values in limits.general.items():
        for limit, value in values.items():
            yield None, metric, limit, value
    for node, metrics in limits.switches.items():
        if metrics is None:
            yield node, "all", "all", "general"
        for metric, values in (metrics or {}).items():
            for limit, value in values.items():
                yield node, metric, limit, value


def _rows(limits: Limits, names: Names) -> Iterator[dict[str, Any]]:
    for node, metric, limit, value in _leaves(limits):
        label = "all" if node is None else names.node_label(int(node)) if node.isdecimal() else node
        yield {
            "switch": label,
            "metric": metric,
            "limit": limit,
            "value": _value(metric, value),
        }


def _value(metric: str, value: int | str | None) -> str:
    from ...present.units import duration

    if isinstance(value, int) and metric.endswith("latency"):
        return duration(value)
    return "never" if value is None else str(value)


def _line(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1][:1000] if not text.isprintable() else text[:1000]

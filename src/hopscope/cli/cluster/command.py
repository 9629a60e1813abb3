"""`hopscope cluster`: several collectors that know of each other over NATS."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...base.plural import plural
from ..options.declare import Commands, argument, option
from ..output.printer import Format, Summary, SummaryOption, print_rows
from .announce import announce
from .config import app as config
from .connect import ClusterOptions, connected
from .demo.command import demo
from .drain import drain
from .owners import app as owners

if TYPE_CHECKING:
    from ...cluster.membership.members import MemberRecord
    from ...cluster.membership.overview import Overview
    from ...settings.collector import Settings

app = Commands(help="Set up, watch and configure a cluster of collectors.")
app.add_typer(config, name="config")
app.add_typer(owners, name="owners")
app.command()(drain)
app.command()(announce)
app.command()(demo)
COLUMNS = (
    "member",
    "state",
    "reports/s",
    "events/s",
    "revision",
    "not_in_lake",
    "oldest",
    "version",
    "address",
)


@app.command()
def init(settings: ClusterOptions, form: SummaryOption = Summary.TEXT) -> None:
    """Make the buckets and streams that the cluster needs in NATS, and the lake if the settings have one.

    It may be repeated: existing buckets and streams are kept, and follow changed settings (replicas,
    member_seconds). Exit status 2: NATS or the lake cannot be reached.
    """
    from ...cluster.setup import init as make

    loaded = settings.load()
    made: dict[str, str] = {}

    def add(name: str, done: str) -> None:
        made[name] = done
        if form is Summary.TEXT:
            print(f"{name}: {done}")

    with connected(loaded) as connection:
        for name, done in make(connection):
            add(name, done)
    if loaded.lake.enabled:
        from ...lake.catalog import create

        add(f"lake in {loaded.lake.place}", "created" if create(loaded.lake) else "unchanged")
    if form is Summary.JSON:
        print(json.dumps(made))


@app.command()
def status(settings: ClusterOptions, form: SummaryOption = Summary.TEXT) -> None:
    """Print all members: whether they are ready, their rates, and what a lost disk would cost.

    `not_in_lake` are events that only the member's own disk has, `oldest` is the age of the first of them. A
    member is missing "for at most" the age of its last record in NATS, which is renewed every 30 s. Exit
    status 1: a member is missing or not ready, has another revision of the configuration or a wrong clock, or
    its command for the route failed; or a bucket is missing or full. 2: NATS cannot be reached, or does not
    know which members are there.
    """
    from ...cluster.membership.overview import read_overview

    loaded = settings.load()
    with connected(loaded) as connection:
        found = read_overview(connection)
    problems = found.problems()
    if form is Summary.JSON:
        print(json.dumps(_tree(found, loaded), indent=2))
    else:
        print_rows(Format.TABLE, COLUMNS, _rows(found))
        print(f"\ncluster {loaded.cluster.name} at {loaded.cluster.place}: {_sum(found)}")
        for problem in problems:
            print(f"- {problem}")
    if problems:
        raise typer.Exit(1)


@app.command()
def forget(
    settings: ClusterOptions,
    member: Annotated[str, argument("MEMBER", "Name of the member.")],
    force: bool = option("--force", "Also if it is not missing; it comes back if it runs.", False),
    form: SummaryOption = Summary.TEXT,
) -> None:
    """Forget a member that is missing, and will not come back. Other owners get its keys.

    Its events in the lake stay. Exit status 2: it is not missing, or there is no such member.
    """
    from ...cluster.membership.drain import Drains
    from ...cluster.membership.members import Directory
    from .owners import give_away

    loaded = settings.load()
    with connected(loaded) as connection:
        Directory(connection).forget(member, force=force)
        Drains(connection).forget(member)
        if form is Summary.TEXT:
            print(f"{member} is forgotten.")
        kept = give_away(connection, loaded, member, form)
        if form is Summary.JSON:
            print(json.dumps({"forgotten": member, "problem": kept}))
        if kept:
            print(f"hopscope: {member}: {kept}", file=sys.stderr)
    print(
        "On its machine, the data folder and a folder /dev/shm/hopscope-* may be left: events that are not "
        "in the lake are only there.",
        file=sys.stderr,
    )


def _rows(found: Overview) -> Iterator[dict[str, Any]]:
    every = [*found.living.values(), *found.missing.values(), *found.left.values()]
    for record in sorted(every, key=lambda each: each.name):
        yield {
            "member": record.name,
            "state": _state(found, record),
            "reports/s": f"{record.reports_per_second:,.0f}" if record.name in found.living else "",
            "events/s": f"{record.events_per_second:,.0f}" if record.name in found.living else "",
            "revision": record.revision,
            "not_in_lake": "" if record.lag_events is None else f"{record.lag_events:,}",
            "oldest": "" if record.lag_seconds is None else f"{record.lag_seconds:,.0f} s",
            "version": record.version,
            "address": record.address,
        }


def _state(found: Overview, record: MemberRecord) -> str:
    import time

    from ...cluster.membership.overview import last_state
    from ...present.units import ago

    if record.name in found.living:
        return record.state if record.state != "live" else "ready" if record.ready else "not ready"
    since = found.seen_ns.get(record.name)
    how = last_state(record)
    most = "at most " if how == "missing" else ""  # its last record is renewed only now and then
    return how + (f" for {most}{ago(time.time_ns() - since)}" if since else "")


def _sum(found: Overview) -> str:
    count = len(found.living)
    text = f"{plural(count, 'member')}, {len(found.missing)} missing"
    if found.newest.number:
        text += f", revision {found.newest.number} of the configuration"
    lags = [record.lag_events for record in found.living.values() if record.lag_events is not None]
    return text + (f", {plural(sum(lags), 'event')} not in the lake" if lags else "")


def _tree(found: Overview, settings: Settings) -> dict[str, Any]:
    from dataclasses import asdict

    def record(each: MemberRecord) -> dict[str, Any]:
        return {**asdict(each), "seen_ns": found.seen_ns.get(each.name), "problem": found.problem(each)}

    return {
        "cluster": settings.cluster.name,
        "nats": settings.cluster.place,
        "revision": found.newest.number,
        "members": [record(each) for _, each in sorted(found.living.items())],
        "missing": [record(each) for _, each in sorted(found.missing.items())],
        "left": [record(each) for _, each in sorted(found.left.items())],
        "bad": found.bad,
        "problems": found.problems(),
    }

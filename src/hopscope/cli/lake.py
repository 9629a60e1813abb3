"""`hopscope lake`: the shared history of several collectors."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ..base.errors import HopscopeError
from ..base.plural import plural
from .options.declare import Commands, argument
from .options.settings import CollectorOptions, SettingsOptions
from .output.printer import RED, Format, FormatOption, print_rows

if TYPE_CHECKING:
    from ..lake.maintenance import MaintenanceResult
    from ..settings.collector import Settings
    from ..settings.lake import LakeSettings

app = Commands(help="Make, check and maintain the lake: the shared history of several collectors.")
STATUS_COLUMNS = (
    "member", "state", "since", "waiting_events", "waiting_seconds", "lost_events", "committed", "problem",
)  # fmt: skip
CHECK_COLUMNS = ("member", "incarnation", "shard", "next", "events", "lost", "expired", "problem")
MemberArgument = Annotated[str, argument("MEMBER", "Name of the member.")]


@app.command()
def init(settings: SettingsOptions) -> None:
    """Make the lake's tables if they are missing; a collector also does so, if its role permits it.

    Also checks that the database answers in English, and that the store of a new lake can be listed.
    """
    from ..lake.catalog import create

    lake = _lake(settings.load())
    print(f"{lake.place}: {'made' if create(lake) else 'it is there'}")


@app.command()
def status(settings: CollectorOptions, form: FormatOption = Format.TABLE) -> None:
    """Print the lake's progress with this collector's events; events that still wait exist only on its disk.

    Exit status 1: the lake is not accepting them. 2: no collector with a lake runs.
    """
    from ..lake.status import read_status
    from ..present.units import ago

    found = read_status(settings.load().data / "regions")
    if not found:
        raise HopscopeError("no collector with a lake runs on this data folder")
    now = time.time_ns()
    row = {
        **{name: found[name] for name in ("member", "state", "lost_events")},
        "since": ago(now - found["since_ns"]),
        "waiting_events": found["lag_events"],
        "waiting_seconds": found["lag_seconds"],
        "committed": f"{ago(now - found['committed_ns'])} ago" if found["committed_ns"] else "",
        "problem": "; ".join(
            [found["problem"] or found["maintenance"]["problem"], *found["maintenance"]["notes"]]
        ),
    }
    print_rows(form, STATUS_COLUMNS, [found if form is Format.JSON else row])
    raise typer.Exit(int(found["state"] == "away"))


@app.command()
def check(settings: SettingsOptions, form: FormatOption = Format.TABLE) -> None:
    """Check that the lake has each event once, up to the mark of its shard, and that its files exist.

    It reads the identities of all events. `lost` were lost before they could be committed, `expired` were
    deleted because of their age. Exit status 1: something is wrong.
    """
    from ..lake.catalog import Lake
    from ..lake.check import check as checked

    with Lake(_lake(settings.load()), read_only=True) as lake:
        found = checked(lake)
    rows = [
        {
            **{name: getattr(shard, name) for name in ("member", "incarnation", "shard", "next", "events")},
            "lost": shard.gaps.get("history", 0),
            "expired": shard.gaps.get("retention", 0),
            "problem": shard.problem,
        }
        for shard in found.shards
    ]
    print_rows(form, CHECK_COLUMNS, rows, lambda row: RED if row["problem"] else "")
    for problem in found.problems:
        print(problem, file=sys.stderr)
    if not found.whole:
        raise typer.Exit(1)


@app.command()
def compact(settings: SettingsOptions) -> None:
    """Merge the small files of each day now, and delete files that no query needs any more."""
    found = _maintain(settings, "prune", "merge", "forget", "orphans")
    print(f"{plural(found.merged_files, 'file')} merged, {found.deleted_files:,} deleted")
    _notes(found.notes)


@app.command()
def expire(settings: SettingsOptions) -> None:
    """Delete the days that are older than `lake.retention_days` now."""
    found = _maintain(settings, "expire", "forget")
    print(f"{plural(found.expired_events, 'event')} deleted")


@app.command()
def rebuild(settings: SettingsOptions) -> None:
    """Rebuild the catalog from the files, after it was lost or restored from an older backup.

    Collectors wait meanwhile, and then write events that the files lack, if their own history has them. The
    old catalog is kept in another schema of the database.
    """
    from ..lake.rebuild import rebuild as rebuilt

    lake = _lake(settings.load())
    found = rebuilt(lake, lambda line: print(line, file=sys.stderr))
    print(
        f"{plural(found.events, 'event')} of {plural(found.files, 'file')}; "
        f"{found.doubled:,} copies left out; {found.missing:,} missing, which members that "
        "have them write again"
    )
    if found.old_schema:
        print(f"the old catalog is in schema {found.old_schema}")
    _notes([f"{path}: it could not be read" for path in found.damaged])


@app.command()
def retire(settings: SettingsOptions, member: MemberArgument) -> None:
    """Let another data folder take over this member's name, because the data folder that had it is lost.

    The member's events stay in the lake.
    """
    from ..lake.members import retire as retired

    found = retired(_lake(settings.load()), member)
    print(f"{member}: retired; {found.lost:,} of its events were expected, and count as lost")


def _maintain(settings: SettingsOptions, *steps: str) -> MaintenanceResult:
    """A round of these steps; files of a day are merged from two on. Raises HopscopeError."""
    from ..lake.maintenance import maintain

    found = maintain(_lake(settings.load()), steps=steps, least=2)
    if found is None:
        raise HopscopeError("another process maintains the lake just now; try again")
    return found


def _lake(settings: Settings) -> LakeSettings:
    from ..lake.extensions import check_lake

    if not settings.lake.enabled:
        raise HopscopeError("no lake: set lake.catalog and lake.data")
    check_lake()
    return settings.lake


def _notes(lines: list[str]) -> None:
    """Print problems on stderr; exit status 1 if there are any."""
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        raise typer.Exit(1)

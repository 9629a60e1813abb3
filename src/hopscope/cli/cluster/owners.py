"""`hopscope cluster owners`: which member has which keys of direct access."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Collection
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from ...base.errors import HopscopeError
from ..options.declare import Commands, argument, option
from ..output.printer import Format, FormatOption, Summary, print_rows
from .connect import ClusterOptions, connected

if TYPE_CHECKING:
    from ...cluster.connection import Connection
    from ...cluster.owners.table import Owner, OwnerTable
    from ...settings.collector import Settings

app = Commands(help="Owners of keys (direct access): show, set, add, remove, place, history.")
COLUMNS = ("member", "shares", "place", "nic")
PAST_COLUMNS = ("generation", "since", "members", "moved", "answers_until", "state")

Places = Annotated[
    list[str],
    argument(
        "NAME=PLACE[,NIC]…",
        "A member, the address of its API (or its data folder), and of its NIC, such as "
        "c1=http://192.0.2.7:8080,192.0.2.7. Default of the NIC: the host of the API.",
    ),
]
Members = Annotated[list[str], argument("NAME…", "Names of the owners.")]


@app.command()
def show(settings: ClusterOptions, form: FormatOption = Format.TABLE) -> None:
    """Show the owners. JSON has all that a switch needs: the NIC of each share of the keys.

    Exit status 2: there is no table.
    """
    with connected(settings.load()) as connection:
        table, _ = _read(connection)
    current = table.current
    if form is Format.JSON:
        print(json.dumps(_described(table)))
        return
    counts = current.counts()
    print_rows(form, COLUMNS, (
        {"member": name, "shares": counts[name], "place": owner.place, "nic": owner.nic}
        for name, owner in ((name, table.owners[name]) for name in current.members)
    ))  # fmt: skip


@app.command(name="set")
def set_(
    places: Places,
    settings: ClusterOptions,
    shares: int | None = option(
        "--shares COUNT",
        "Shares of the keys: `collectors` of the stores' layout. It never changes.",
        show_default="256",
    ),
) -> None:
    """Make these members, and no others, the owners from now on.

    Each is asked for its stores, whose layout must have as many `collectors` as there are shares.
    `direct.epoch_seconds` and `direct.keep_epochs` of the settings must equal those of the members: they say
    how long keys are still looked up at earlier owners.
    """
    from ...cluster.owners.table import SHARES, first_table, read_owners

    owners = dict(map(_owner, places))
    loaded = settings.load()
    with connected(loaded) as connection:
        table, revision = read_owners(connection)
        direct = loaded.direct
        if table is None:
            count = shares or SHARES
            begins = _stores(loaded, owners, count)
            new = first_table(
                list(owners), owners, begins, time.time_ns(), shares=count,
                epoch_seconds=direct.epoch_seconds, keep_epochs=direct.keep_epochs,
            )  # fmt: skip
        else:
            count = len(table.current.shares)
            if shares not in (None, count):
                raise HopscopeError(f"--shares {shares}: the table has {count}, which never changes")
            new = replace(
                _changed(loaded, table, list(owners), owners),
                epoch_seconds=direct.epoch_seconds,
                keep_epochs=direct.keep_epochs,
            )
        _write(connection, new, revision, table)


@app.command()
def add(places: Places, settings: ClusterOptions) -> None:
    """Add owners: they take some of the keys of each owner."""
    owners = dict(map(_owner, places))
    loaded = settings.load()
    with connected(loaded) as connection:
        table, revision = _read(connection)
        if both := [name for name in owners if name in table.current.members]:
            raise HopscopeError(f"{both[0]} is an owner already")
        new = _changed(loaded, table, [*table.current.members, *owners], owners)
        _write(connection, new, revision, table)


@app.command()
def remove(
    members: Members,
    settings: ClusterOptions,
    lost: bool = option(
        "--lost", "Its memory is lost: do not look up keys written before there, either.", False
    ),
) -> None:
    """Remove owners: the remaining ones take their keys. Keys written before are still looked up at them."""
    loaded = settings.load()
    with connected(loaded) as connection:
        table, revision = _read(connection)
        if unknown := [name for name in members if name not in table.owners]:
            raise HopscopeError(f"{unknown[0]} is no owner; owners: {', '.join(table.owners)}")
        left = [name for name in table.current.members if name not in members]
        new = table if len(left) == len(table.current.members) else _changed(loaded, table, left, {})
        for name in members if lost else ():
            new = new.without_memory_of(name)
        _write(connection, new, revision, table)


@app.command()
def place(places: Places, settings: ClusterOptions) -> None:
    """Say where the stores of a member are now, such as its data folder on another machine. No keys move."""
    owners = dict(map(_owner, places))
    with connected(settings.load()) as connection:
        table, revision = _read(connection)
        if unknown := [name for name in owners if name not in table.owners]:
            raise HopscopeError(f"{unknown[0]} is no owner; owners: {', '.join(table.owners)}")
        _write(connection, replace(table, owners={**table.owners, **owners}), revision, table)


@app.command()
def history(settings: ClusterOptions, form: FormatOption = Format.TABLE) -> None:
    """Show generations of owners: since when they apply, and until when their keys are answered."""
    from ...present.events import when

    with connected(settings.load()) as connection:
        table, _ = _read(connection)
    now, ends = time.time_ns(), [*(each.since_ns for each in table.generations[1:]), None]
    before: list[str] | None = None
    rows = []
    for each, end in zip(table.generations, ends, strict=True):
        owners = each.of_share()
        moved = None if before is None else sum(a != b for a, b in zip(before, owners, strict=True))
        until = None if end is None else table.kept.answers_until(end, "all")
        state = "current" if end is None else "answers" if until is None or now < until else "expired"
        rows.append(
            {
                "generation": each.number,
                "since": when(each.since_ns),
                "members": ", ".join(f"{name} ({count})" for name, count in each.counts().items()),
                "moved": moved,
                "answers_until": when(until),
                "state": state,
                "begins": each.begins,
            }
        )
        before = owners
    print_rows(form, PAST_COLUMNS, rows)


def give_away(connection: Connection, settings: Settings, name: str, form: Summary) -> str:
    """Let a member that leaves be no owner, if it is one, and print what moved (beside JSON, to standard
    error); why it keeps its keys, or "".

    Keys of before are still asked of it.
    """
    from ...cluster.owners.table import read_owners

    try:
        table, revision = read_owners(connection)
        if table is None or name not in table.current.members:
            return ""
        if table.current.members == (name,):
            return "it keeps its keys: it is their only owner"
        others = [each for each in table.current.members if each != name]
        stream = sys.stderr if form is Summary.JSON else sys.stdout
        _write(connection, _changed(settings, table, others, {}), revision, table, stream)
    except HopscopeError as error:
        return f"it keeps its keys: {error}"
    return ""


# ------------------------------------------------------------------------------------------------


def _read(connection: Connection) -> tuple[OwnerTable, int]:
    from ...cluster.owners.table import read_owners

    table, revision = read_owners(connection)
    if table is None:
        raise HopscopeError("there is no table of owners: `hopscope cluster owners set` makes it")
    return table, revision


def _write(
    connection: Connection,
    new: OwnerTable,
    revision: int,
    old: OwnerTable | None,
    stream: TextIO | None = None,
) -> None:
    """Store a table, and say what moved."""
    from ...cluster.owners.table import write_owners

    write_owners(connection, new, revision)
    current = new.current
    line = (
        f"generation {current.number}: {', '.join(f'{n} ({c})' for n, c in sorted(current.counts().items()))}"
    )
    if old is not None:
        pairs = zip(old.current.of_share(), current.of_share(), strict=True)
        moved = sum(before != after for before, after in pairs)
        line += f"; {moved} of {len(current.shares)} shares moved"
    print(line, file=stream)


def _changed(settings: Settings, table: OwnerTable, names: list[str], owners: dict[str, Owner]) -> OwnerTable:
    """The table with another generation. Members that are owners already need not answer."""
    all_owners = {**table.owners, **owners}
    asked = {name: all_owners[name] for name in names}
    begins = _stores(settings, asked, len(table.current.shares), table.current.members)
    return table.changed(names, owners, begins, time.time_ns())


def _stores(
    settings: Settings, owners: dict[str, Owner], shares: int, known: Collection[str] = ()
) -> dict[str, dict[str, int]]:
    """The epoch of each store of members, checked; `known`: members that need not answer. Raises
    HopscopeError.
    """
    from ...direct.collectors.collector import ApiAccess, CollectorError
    from ...direct.collectors.open import open_collector
    from ...settings.configuration.secrets import value_of

    query = settings.direct.query
    token = value_of("direct.query.token", query.token)
    access = ApiAccess(token, query.ca_file, query.timeout_seconds)
    found: dict[str, dict[str, int]] = {}
    layouts: dict[str, Any] = {}
    for name, owner in owners.items():
        try:
            stores = open_collector(owner.place, access).stores()
        except CollectorError as error:
            if name not in known:
                raise HopscopeError(f"{name}: {error}") from error
            print(f"hopscope: {name} does not answer: {error}", file=sys.stderr)
            continue
        found[name] = {}
        for store in stores:
            if "error" in store:
                raise HopscopeError(f"{name}: store {store['name']}: {store['error']}")
            layout = store["layout"]
            if layout["collectors"] != shares:
                raise HopscopeError(
                    f"{name}: store {store['name']} is spread over {layout['collectors']} collectors, "
                    f"expected {shares} shares: set collectors={shares} in its options, or --shares"
                )
            if layouts.setdefault(store["name"], (name, layout))[1] != layout:
                other = layouts[store["name"]][0]
                raise HopscopeError(f"{name}: store {store['name']} has another layout than that of {other}")
            found[name][store["name"]] = store["epoch"]
        if not stores:
            print(f"hopscope: {name} has no stores yet", file=sys.stderr)
    return found


def _owner(text: str) -> tuple[str, Owner]:
    """NAME=PLACE[,NIC]. Raises HopscopeError."""
    from ...cluster.owners.table import Owner, checked_owner

    name, _, where = text.partition("=")
    where, _, nic = where.partition(",")
    return name, checked_owner(name, Owner(where, nic))


def _described(table: OwnerTable) -> dict[str, Any]:
    """The table as JSON."""
    current = table.current
    return {
        "generation": current.number,
        "since_ns": current.since_ns,
        "members": [
            {"name": name, "number": number, **asdict(table.owners[name]), "nic": table.owners[name].nic}
            for number, name in enumerate(current.members)
        ],
        "shares": list(current.shares),
        "collectors": list(table.addresses),
        "begins": current.begins,
        "epoch_seconds": table.epoch_seconds,
        "keep_epochs": table.keep_epochs,
    }

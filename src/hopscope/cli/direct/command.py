"""`hopscope direct`: stores that switches write to by RDMA: serve them, query, list them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ...direct.stores.keys import KEY_FORMS
from ..options.declare import Commands, Options, argument, option
from ..options.network import SeedOption, TopologyOption
from ..options.settings import FolderOptions, LogOptions, StoreOptions, StoresOptions
from ..output.printer import Format, FormatOption, print_rows
from .view import print_entries, print_notices, print_stores, read_values, readable

if TYPE_CHECKING:
    from ...direct.collectors.group import CollectorGroup

app = Commands(help="Direct telemetry access (DTA): serve, query and list stores.")
ANSWER_COLUMNS: dict[str, tuple[str, ...]] = {
    "key-write": ("key", "status", "data", "votes", "reason"),
    "postcarding": ("key", "status", "path", "hops", "reason"),
    "key-increment": ("key", "status", "counter", "bound", "risk"),
    "cardinality": ("key", "status", "estimate", "error", "reason"),
    "append": ("key", "status", "entries", "reason"),
}
StoreName = Annotated[str, argument("STORE", "Name of the store, as `direct list` shows.")]


@dataclass(frozen=True)
class LookUpOptions(Options):
    """How keys are looked up."""

    copies: int | None = option(
        "--copies N", "Copies that were written.", min=1, show_default="the store's maximum"
    )
    consensus: int = option("--consensus T", "Copies that have to agree.", 1, min=1)
    values: str | None = option(
        "--values FILE|NUMBERS",
        "The values that a hop can have, for paths: a file with one number per line, or a list such as "
        "1-20,25.",
    )
    partial: bool = option("--partial", "Postcarding: show the known hops of incomplete paths.", False)
    limit: int = option("--limit -n N", "Append: maximum entries.", 100, min=1)
    epoch: str | None = option(
        "--epoch N|all",
        "A past epoch, or all of them, newest first until a key is found.",
        show_default="the current one",
    )


@dataclass(frozen=True)
class QueryTargetOptions(StoresOptions):
    """Settings, and the collectors whose stores are asked."""

    collector: list[str] | None = option(
        "--collector URL|FOLDER",
        "Collector whose stores are asked, in the order in which keys are spread. Repeatable.",
        show_default="the stores that are written here",
        sets="direct.query.collectors",
    )

    def collectors(self) -> CollectorGroup:
        """The collectors to ask."""
        from ...direct.collectors.collector import ApiAccess
        from ...direct.collectors.open import open_collectors
        from ...settings.configuration.secrets import value_of

        loaded = self.load()
        query = loaded.direct.query
        token = value_of("direct.query.token", query.token)
        access = ApiAccess(token, query.ca_file, query.timeout_seconds)
        if loaded.cluster.enabled and not query.collectors:
            from ...cluster.connection import Connection
            from ...cluster.owners.table import read_owners

            with Connection(loaded.cluster, "query") as connection:
                table, _ = read_owners(connection)
            if table is not None:
                return table.collectors(access)
        return open_collectors(query.collectors, loaded.stores_folder, access)


MonitorOption = Annotated[
    str | None,
    option(
        "--monitor -m MONITOR",
        "Monitor that decodes the answers.",
        show_default="the one that the store is named after",
    ),
]


@app.command()
def query(
    store: StoreName,
    keys: Annotated[list[str], argument("KEY…", f"{KEY_FORMS}.")],
    options: LookUpOptions,
    settings: QueryTargetOptions,
    monitor: MonitorOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """Look up keys: data, paths, counters, estimates, lists. The store may be written concurrently.

    Each key is looked up at the collector that has it. Exit status 1: some keys have no answer.
    """
    from ...direct.monitors.query import monitor_of, query_decoded
    from ...direct.stores.answers import QueryOptions

    group = settings.collectors()
    values = read_values(options.values)
    request = QueryOptions(options.copies, options.consensus, values, options.partial, options.limit)
    decoder = monitor_of(store, monitor)
    answers = query_decoded(group, store, keys, request, _epoch(options.epoch), decoder)
    columns = _columns(ANSWER_COLUMNS.get(group.primitive(store), ("key", "status")), answers)
    print_rows(form, columns, answers if form is Format.JSON else map(readable, answers))
    if any(answer["status"] == "empty" for answer in answers) and (number := group.spread_over(store)):
        print(
            f"hopscope: {store} is spread over {number} collectors, and one was asked: name all by "
            "--collector or direct.query.collectors",
            file=sys.stderr,
        )
    if any(answer["status"] != "found" for answer in answers):
        raise typer.Exit(1)


@app.command(name="list")
def list_(
    settings: QueryTargetOptions,
    store: str | None = argument("[STORE", "Name of an Append store.", None, show_default=False),
    number: int | None = argument("LIST]", "Number of its list.", None, show_default=False),
    follow: bool = option("--follow", "Wait for more entries, until Ctrl-C.", False),
    monitor: MonitorOption = None,
    form: FormatOption = Format.TABLE,
) -> None:
    """List stores, or the entries of a list, oldest first.

    Entries that were overwritten before they could be read are counted on stderr.
    """
    from ...direct.monitors.query import monitor_of

    group = settings.collectors()
    if store is not None:
        print_entries(group, store, number or 0, monitor_of(store, monitor), follow, form)
    else:
        print_stores(group, form)


@app.command()
def notices(
    settings: StoresOptions,
    follow: bool = option("--follow", "Wait for more, until Ctrl-C.", False),
    form: FormatOption = Format.TABLE,
) -> None:
    """Print notices of writes with the immediate flag: time, store, address and immediate value.

    Stores are numbered from 0 in the order of their creation; an atomic operation has no store.
    """
    print_notices(settings.load().stores_folder, follow, form)


@app.command()
def monitors(form: FormatOption = Format.TABLE) -> None:
    """List the monitors: reports of existing systems, their primitives and sizes."""
    from ...direct.monitors.registry import MONITORS

    rows = (
        {
            "name": name,
            "primitive": each.primitive,
            "reports": each.description,
            "bytes": each.sizes,
            "source": each.source,
        }
        for name, each in MONITORS.items()
    )
    print_rows(form, ("name", "primitive", "reports", "bytes", "source"), rows)


@dataclass(frozen=True)
class NicOptions(Options):
    """Where the NIC listens."""

    host: list[str] | None = option(
        "--host HOST",
        "Address of the NIC. Repeatable: several NICs write to the same stores.",
        show_default="127.0.0.1",
        sets="direct.nic.hosts",
    )


@app.command()
def serve(nic: NicOptions, stores: StoreOptions, log: LogOptions, settings: FolderOptions) -> None:
    """Run a software NIC: accept RoCEv2 on UDP 4791 and write into stores, until Ctrl-C.

    Requesters connect by RDMA-CM and receive an advertisement of the stores. Without flags it listens on
    loopback and serves one store of each primitive in the user's data folder. Exit status 2: it could not
    start.
    """
    from ...base.log import logger
    from ...memory.data_folder import owned_stores
    from ...rdma.counters import NIC_COUNTERS
    from ...runtime.direct.nic import NicProcess
    from ...runtime.direct.stores import store_specs
    from ...runtime.warmup import compile_parts
    from ..output.running import run_counted, until_stopped

    loaded = settings.load(nic, stores, log)
    log.configure(loaded)
    folder = loaded.stores_folder
    with until_stopped() as stop, owned_stores(folder):
        compile_parts("direct")
        process = NicProcess(loaded.direct, folder, store_specs(loaded.direct))
        process.open()
        places = ", ".join(f"{host}:4791" for host in loaded.direct.nic.hosts)
        print(f"RoCEv2 on {places} into stores in {folder}", file=sys.stderr)
        run_counted(process, NIC_COUNTERS.counters, "nic_packets_total", "packets", stop, logger("nic").info)


@app.command()
def report(
    monitor: str = option(
        "--monitor -m MONITOR", "Monitor to simulate; see `direct monitors`.", "int-path-tracing"
    ),
    to: str = option(
        "--to HOST:PORT", "Address of the translator, with or without udp://.", "127.0.0.1:40040"
    ),
    topology: TopologyOption = "fat-tree:4",
    connections: int = option("--connections N", "Number of TCP connections.", 200, min=1, max=100_000),
    seed: SeedOption = 1,
    rate: float = option("--rate N", "Reports per second.", 100_000, min=1),
    fault: list[str] | None = option(
        "--fault FAULT",
        "lossy-port|slow-hop@SECONDS,node=NODE,port=PORT[,duration=S][,loss=SHARE][,delay=MS]. Repeatable.",
    ),
) -> None:
    """Send DTA reports from a simulated network: a monitor observes TCP connections at switches.

    Reports use the `sized` form. At the end it prints queries that find an answer. Monitors of losses and
    timeouts report nothing without a fault.
    """
    from .report import send_reports

    send_reports(monitor, to.removeprefix("udp://"), topology, connections, seed, rate, fault or ())


def _columns(columns: tuple[str, ...], answers: list[dict[str, Any]]) -> tuple[str, ...]:
    """Columns of a table: `decoded` instead of bytes if all answers are decoded; optional columns if an
    answer has them.
    """
    raw = {"data", "entries"}
    if any("decoded" in answer for answer in answers):
        bare = any(not raw.isdisjoint(answer) and "decoded" not in answer for answer in answers)
        columns = tuple(column for column in columns if column not in raw or bare)
        columns = (*columns[:2], "decoded", *columns[2:])
    return tuple(
        column
        for column in (*columns, "collector", "generation")
        if column not in ("reason", "collector", "generation") or any(column in answer for answer in answers)
    )


def _epoch(text: str | None) -> int | Literal["all"] | None:
    from ...direct.stores.store import StoreError

    if text is None or text == "all":
        return text  # type: ignore[return-value,unused-ignore]  # mypy takes `text` for str
    if not text.isdecimal():
        raise StoreError(f"--epoch: found {text!r}, expected a number or all")
    return int(text)

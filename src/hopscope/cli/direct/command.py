"""`hopscope direct`: stores that switches write to by RDMA: serve them, query, list them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from ..options import ConfigOption, DataOption, MonitorOption, SetOption, StoreOption, load, stores
from ..output import Format, FormatOption, Printer, until_reader_leaves
from .view import print_entries, print_notices, print_stores, read_values

app = typer.Typer(
    help="Direct telemetry access (DTA): serve, query and list stores.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
ANSWER_COLUMNS: dict[str, tuple[str, ...]] = {
    "key-write": ("key", "status", "data", "votes"),
    "postcarding": ("key", "status", "path", "hops", "reason"),
    "key-increment": ("key", "status", "counter", "bound", "risk"),
    "cardinality": ("key", "status", "estimate", "error", "reason"),
    "append": ("key", "status", "entries", "reason"),
}
StoreName = Annotated[str, typer.Argument(metavar="STORE", help="Name of the store, as `direct list` shows.")]


@app.command()
def query(
    store: StoreName,
    keys: Annotated[
        list[str],
        typer.Argument(
            metavar="KEY…",
            help="0x and hexadecimal digits, a number (4 bytes; 7:2 in 2), an address, "
            "SRC,DST,PROTO,SPORT,DPORT, or several of these joined with +.",
        ),
    ],
    copies: Annotated[
        int | None,
        typer.Option(
            "--copies",
            metavar="N",
            min=1,
            help="Copies that were written.",
            show_default="the store's maximum",
        ),
    ] = None,
    consensus: Annotated[
        int, typer.Option("--consensus", metavar="T", min=1, help="Copies that have to agree.")
    ] = 1,
    values: Annotated[
        Path | None,
        typer.Option(
            "--values",
            metavar="FILE",
            help="Postcarding: the values that a hop can have, one number per line.",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Postcarding: show the known hops of incomplete paths.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="Append: maximum entries.")
    ] = 100,
    epoch: Annotated[
        str | None,
        typer.Option(
            "--epoch",
            metavar="N|all",
            help="A past epoch, or all of them, newest first until a key is found.",
            show_default="the current one",
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
) -> None:
    """Look up keys: data, paths, counters, estimates, lists. The store may be written concurrently.

    Exit status 1: some keys have no answer.
    """
    from ...direct.stores.answers import QueryOptions
    from ...direct.stores.folder import read_store
    from ...direct.stores.query import query_store

    folder = _folder(data, config)
    question = QueryOptions(copies, consensus, read_values(values), partial, limit)
    answers = query_store(folder, store, keys, question, _epoch(epoch))
    columns = ANSWER_COLUMNS.get(read_store(folder, store).layout.name, ("key", "status"))
    with until_reader_leaves():
        printer = Printer(form, columns)
        printer.put(answers)
        printer.flush()
    if any(answer["status"] != "found" for answer in answers):
        raise typer.Exit(1)


@app.command(name="list")
def list_(
    store: Annotated[
        str | None, typer.Argument(metavar="[STORE", help="Name of an Append store.", show_default=False)
    ] = None,
    number: Annotated[
        int | None, typer.Argument(metavar="LIST]", help="Number of its list.", show_default=False)
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more entries, until Ctrl-C.")] = False,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
) -> None:
    """List the stores of a data folder, or the entries of a list, oldest first.

    Entries that were overwritten before they could be read are counted on stderr.
    """
    folder = _folder(data, config)
    with until_reader_leaves():
        if store is not None:
            print_entries(folder, store, 0 if number is None else number, follow, form)
        else:
            print_stores(folder, form)


@app.command()
def notices(
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more, until Ctrl-C.")] = False,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
) -> None:
    """Print notices of writes with the immediate flag: time, store, address and immediate value.

    Stores are numbered from 0 in the order of their creation; none: an atomic operation.
    """
    with until_reader_leaves():
        print_notices(_folder(data, config), follow, form)


@app.command()
def monitors(form: FormatOption = Format.TABLE) -> None:
    """List the monitors: reports of existing systems, their primitives and sizes."""
    from ...direct.monitors.registry import MONITORS

    columns = ("name", "primitive", "reports", "bytes", "source")
    with until_reader_leaves():
        printer = Printer(form, columns)
        printer.put(
            dict(
                zip(
                    columns,
                    (name, monitor.primitive, monitor.description, monitor.sizes, monitor.source),
                    strict=True,
                )
            )
            for name, monitor in MONITORS.items()
        )
        printer.flush()


@app.command()
def serve(
    store: StoreOption = None,
    monitor: MonitorOption = None,
    data: DataOption = None,
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Run a software NIC: accept RoCEv2 on UDP 4791 and write into stores, until Ctrl-C.

    Requesters connect by RDMA-CM and receive an advertisement of the stores. Without flags it listens on
    loopback and serves one store of each primitive in the user's data folder. Exit status 2: it could not
    start.
    """
    from ...memory.data_folder import owned_stores
    from ...rdma.counters import NIC_COUNTERS
    from ...runtime.direct.nic import NicProcess
    from ...runtime.direct.stores import store_specs
    from ..announce import compile_parts
    from ..running import print_counters, progress, until_stopped

    settings = load(
        config,
        overrides,
        [("--store", "direct.stores", stores(store, monitor)), ("--data", "data", data)],
    ).settings
    folder = settings.stores_folder
    with until_stopped() as stop, owned_stores(folder):
        compile_parts("direct")
        process = NicProcess(settings.direct, folder, store_specs(settings.direct))
        process.open()
        print(f"RoCEv2 on {settings.direct.nic.host}:4791 into stores in {folder}", file=sys.stderr)
        for note in process.notes():
            print(note, file=sys.stderr)
        with progress(lambda: process.counted["nic_packets_total"], "packets", stop):
            process.run(stop)
        print_counters(
            {counter.key: process.counted[counter.key] for counter in NIC_COUNTERS},
            {counter.key: counter.help for counter in NIC_COUNTERS},
        )


@app.command()
def report(
    monitor: Annotated[
        str,
        typer.Option("--monitor", "-m", metavar="NAME", help="Monitor to simulate; see `direct monitors`."),
    ] = "int-path-tracing",
    to: Annotated[str, typer.Option("--to", metavar="HOST:PORT", help="Address of the translator.")] = (
        "127.0.0.1:40040"
    ),
    topology: Annotated[
        str,
        typer.Option(
            "--topology", "-t", metavar="TOPOLOGY", help="fat-tree:K, leaf-spine:LxS[xHOSTS] or paper."
        ),
    ] = "fat-tree:4",
    connections: Annotated[
        int, typer.Option("--connections", metavar="N", min=1, max=100_000, help="TCP connections.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the traffic.")] = 1,
    rate: Annotated[float, typer.Option("--rate", metavar="N", min=1, help="Reports per second.")] = 100_000,
) -> None:
    """Send DTA reports from a simulated network: a monitor observes TCP connections at switches.

    Reports use the `sized` form. At the end it prints keys to query.
    """
    from ..report import send_reports

    send_reports(monitor, to, topology, connections, seed, rate)


def _epoch(text: str | None) -> int | Literal["all"] | None:
    from ...direct.stores.store import StoreError

    if text is None or text == "all":
        return text  # type: ignore[return-value,unused-ignore]  # mypy takes `text` for str
    if not text.isdecimal():
        raise StoreError(f"--epoch: found {text!r}, expected a number or all")
    return int(text)


def _folder(data: Path | None, config: Path | None) -> Path:
    return load(config, None, [("--data", "data", data)]).settings.stores_folder

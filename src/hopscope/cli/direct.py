"""`hopscope direct`: stores that switches write to by RDMA: serve them, ask them, list them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .options import ConfigOption, DataOption, load
from .output import Format, FormatOption, Printer, until_reader_leaves

app = typer.Typer(
    help="Direct telemetry access: serve, ask and list the memory that reports are written to.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
STORE_COLUMNS = ("name", "primitive", "bytes", "epoch", "past_epochs", "operations", "layout")
ANSWER_COLUMNS: dict[str, tuple[str, ...]] = {
    "key-write": ("key", "status", "data", "votes"),
    "postcarding": ("key", "status", "path", "hops", "why"),
    "key-increment": ("key", "status", "counter"),
    "cardinality": ("key", "status", "estimate", "error"),
    "append": ("key", "status", "entries"),
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
            "--copies", metavar="N", min=1, help="Copies that were written.", show_default="the most"
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
            help="Postcarding: the values that a hop can have, one number a line.",
            show_default=False,
        ),
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Postcarding: tell the known hops of a path that is not whole.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", min=1, help="Append: at most so many entries.")
    ] = 100,
    epoch: Annotated[
        str | None,
        typer.Option(
            "--epoch",
            metavar="N|all",
            help="A past epoch, or all of them, the newest first, until a key is found.",
            show_default="what is written now",
        ),
    ] = None,
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
) -> None:
    """Look up keys: data, paths, counters, estimates, lists. The store may be written to meanwhile.

    Exit status 1: some of the keys have no answer.
    """
    from ..direct.answers import Question
    from ..direct.ask import ask
    from ..direct.folder import read_store

    folder = _folder(data, config)
    question = Question(copies, consensus, _values(values), partial, limit)
    answers = ask(folder, store, keys, question, _epoch(epoch))
    columns = ANSWER_COLUMNS.get(read_store(folder, store).layout.name, ("key", "status"))
    with until_reader_leaves():
        printer = Printer(form, columns)
        printer.put(answers)
        printer.flush()
    if any(answer["status"] != "found" for answer in answers):
        raise typer.Exit(1)


@app.command(name="list")
def list_(
    form: FormatOption = Format.TABLE,
    data: DataOption = None,
    config: ConfigOption = None,
) -> None:
    """List the stores of a data folder: primitive, memory, epoch, operations, layout."""
    from ..direct.ask import describe_all

    folder = _folder(data, config)
    stores = describe_all(folder)
    if form is Format.TABLE:
        stores = [{**store, "layout": _layout(store)} for store in stores]
    with until_reader_leaves():
        printer = Printer(form, STORE_COLUMNS)
        printer.put(stores)
        printer.flush()
    if not stores:
        print(f"{folder}: no stores yet; `hopscope translate` makes them", file=sys.stderr)


def _epoch(text: str | None) -> int | Literal["all"] | None:
    from ..direct.store import StoreError

    if text is None or text == "all":
        return text  # type: ignore[return-value,unused-ignore]  # mypy takes `text` for str
    if not text.isdecimal():
        raise StoreError(f"--epoch: found {text!r}, expected a number or all")
    return int(text)


def _folder(data: Path | None, config: Path | None) -> Path:
    return load(config, None, [("--data", "data", data)]).settings.stores_folder


def _layout(store: dict[str, Any]) -> str:
    if "error" in store:
        return str(store["error"])
    return " ".join(f"{key}={value}" for key, value in sorted(store["layout"].items()))


def _values(path: Path | None) -> Any:
    """Numbers of a file, uint32; HopscopeError names the line that is none."""
    if path is None:
        return None
    import numpy as np

    from ..direct.store import StoreError

    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"--values {path}: {error}") from error
    numbers = []
    for number, line in enumerate(lines, 1):
        if not (text := line.split("#")[0].strip()):
            continue
        try:
            value = int(text, 0)
        except ValueError:
            value = -1
        if not 0 <= value < 1 << 32:
            raise StoreError(
                f"--values {path}, line {number}: found {text[:40]!r}, expected a number of 32 bits"
            )
        numbers.append(value)
    return np.array(numbers, np.uint32)

"""Output of `hopscope direct`, and the files that it reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import HopscopeError
from ...present.events import when
from ..output.printer import Format, Printer, print_rows

if TYPE_CHECKING:
    from ...direct.collectors.group import CollectorGroup
    from ...direct.monitors.monitor import Monitor

POLL_SECONDS = 0.2
"""Poll interval of a followed list."""
STORE_COLUMNS = ("name", "primitive", "bytes", "epoch", "past_epochs", "operations", "layout")


def readable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer for a table, with decoded fields as text such as `path=8,15,7`."""
    decoded = answer.get("decoded")
    if decoded is None:
        return answer
    objects = decoded if isinstance(decoded, list) else [decoded]
    return {**answer, "decoded": "; ".join(map(_fields, objects))}


def _fields(decoded: dict[str, Any]) -> str:
    return " ".join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"
        for name, value in decoded.items()
    )


def print_entries(
    group: CollectorGroup, store: str, number: int, monitor: Monitor | None, follow: bool, form: Format
) -> None:
    """Print the entries of a list; `follow`: until Ctrl-C. Raises StoreError and CollectorError."""
    from ...direct.monitors.query import decode_entries
    from ..output.running import until_stopped

    printer = Printer(form, ("data",) if monitor is None else ("data", "decoded"))
    place: str | None = None
    with until_stopped() as stop:
        while not stop.is_set():
            entries, lost, place = group.read_list(store, number, place)
            rows = decode_entries(entries, monitor)
            printer.put(rows if form is Format.JSON else map(readable, rows))
            if lost:
                print(f"{lost:,} entries were overwritten before they could be read", file=sys.stderr)
            if entries:
                continue
            printer.flush()
            if not follow or stop.wait(POLL_SECONDS):
                break
    printer.flush()


def print_stores(group: CollectorGroup, form: Format) -> None:
    """Print every store of every collector."""
    stores = group.stores()
    if form is Format.TABLE:
        stores = [{**store, "layout": _layout(store), "past_epochs": _numbers(store)} for store in stores]
    several = len(group.collectors) > 1
    if not print_rows(form, (*STORE_COLUMNS, "collector") if several else STORE_COLUMNS, stores):
        names = ", ".join(collector.name for collector in group.collectors)
        print(f"{names}: no stores yet; `hopscope translate` creates them", file=sys.stderr)


def print_notices(folder: Path, follow: bool, form: Format) -> None:
    """Print the notices of a folder; `follow`: until Ctrl-C. Raises HopscopeError if there is no ring."""
    from ...memory.region import RegionError
    from ...rdma.notices import follow_notices
    from ...rdma.records import NO_TARGET
    from ..output.running import until_stopped

    try:
        reader = follow_notices(folder)
    except RegionError as error:
        raise HopscopeError(f"{error}; a translator or a software NIC creates it") from error
    with until_stopped() as stop:
        printer = Printer(form, ("time", "store", "address", "bytes", "immediate"))
        while not stop.is_set():
            found, lost = reader.read()
            printer.put(
                {
                    "time": when(int(row["time_ns"])),
                    "store": None if row["target"] == NO_TARGET else int(row["target"]),
                    "address": int(row["address"]),
                    "bytes": int(row["length"]),
                    "immediate": int(row["immediate"]),
                }
                for row in found
            )
            if lost:
                print(f"{lost:,} notices were overwritten before they could be read", file=sys.stderr)
            if len(found):
                continue
            printer.flush()
            if not follow or stop.wait(POLL_SECONDS):
                break
        printer.flush()


def _layout(store: dict[str, Any]) -> str:
    if "error" in store:
        return str(store["error"])
    return " ".join(f"{key}={value}" for key, value in sorted(store["layout"].items()))


def _numbers(store: dict[str, Any]) -> str:
    """Past epochs as text, such as `3-9, 12`."""
    runs: list[list[int]] = []
    for number in store.get("past_epochs", ()):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def read_values(text: str | None) -> Any:
    """Numbers, uint32, of ranges such as `1-20,25` or of a file. StoreError names the line of a mistake."""
    if text is None:
        return None
    import numpy as np

    from ...direct.stores.numbers import FORM, parse_numbers
    from ...direct.stores.store import StoreError

    if FORM.fullmatch(text):
        return parse_numbers(text)
    path = Path(text)
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

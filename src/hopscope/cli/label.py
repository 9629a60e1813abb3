"""`hopscope label`: INT-label, in captures and in experiments."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..base.errors import HopscopeError
from ..base.plural import plural
from ..present.events import when
from ..present.units import duration, flow_text
from .options.declare import Commands, argument, option
from .options.reading import CaptureArgument
from .options.settings import NamesOption
from .output.file_end import end_of_file
from .output.printer import Format, FormatOption, Printer

if TYPE_CHECKING:
    from ..base.names import Names
    from ..fabric.labelling.experiment.settings import Experiment

app = Commands(help="INT-label: decode labels and run experiments.")
_CSV = (
    *("packet", "index", "time_ns", "form", "source", "tracked", "src", "dst", "proto", "sport", "dport"),
    *("position", "node_id", "ingress_port", "egress_port", "label_time_ns", "latency_ns", "occupancy"),
    *("reason", "at", "detail"),
)
_COLUMNS = {
    Format.JSON: (),
    Format.TABLE: ("packet", "time", "form", "flow", "path", "latency", "queue bytes"),
    Format.CSV: _CSV,
}


@app.command()
def run(
    file: Annotated[Path, argument("EXPERIMENT.toml", "Experiment file.")],
    output: Path | None = option("--output -o FOLDER", "Folder of the results; default: the file's folder."),
    fresh: bool = option("--fresh", "Ignore the results of earlier runs.", False),
) -> None:
    """Simulate labelling (INT-label) at every point of a sweep; writes Parquet, CSV and a plot.

    The file describes the network, failures and the sweep; see docs/guides/label-plan.md. An interrupted run
    continues when started again.
    """
    from ..fabric.labelling.experiment.files import SpecificationError
    from ..fabric.labelling.experiment.sweep import run_experiment

    experiment = read(file)
    try:
        with _progress() as progress:
            results = run_experiment(experiment, output or file.parent, fresh=fresh, progress=progress)
    except SpecificationError as error:
        raise HopscopeError(f"{file}: {error}") from error
    runs = len(results.rows)
    again = f", {results.resumed:,} of them finished before" if results.resumed else ""
    print(f"{runs:,} {'run' if runs == 1 else 'runs'}{again}")
    for path in results.files:
        print(path)


def read(file: Path) -> Experiment:
    """The experiment that a file describes. Raises HopscopeError with a line for each mistake."""
    from pydantic import ValidationError

    from ..fabric.labelling.experiment.settings import Experiment
    from ..settings.configuration.errors import error_lines
    from ..settings.configuration.file import read_toml
    from ..settings.configuration.lines import with_lines

    try:
        return Experiment.model_validate(read_toml(file))
    except ValidationError as error:
        lines = (f"{file}: {line}" for line in error_lines(error, Experiment))
        raise HopscopeError("\n".join(with_lines(file, lines))) from error


@contextmanager
def _progress() -> Iterator[Callable[[float, int], object] | None]:
    """A function of completed and total runs that draws a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

    times = (TimeElapsedColumn(), "passed,", TimeRemainingColumn(), "left")
    columns = (BarColumn(), MofNCompleteColumn(), *times)
    with Progress("runs", *columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("runs", total=None, visible=False)  # until the total is known
        yield lambda done, total: progress.update(task, completed=done, total=total, visible=True)


@app.command()
def decode(
    file: CaptureArgument,
    max_hop: int = option("--max-hop N", "Label counts above it mark tracked flows.", 5, min=2, max=100),
    protocol: int = option("--protocol N", "IP protocol of labelled packets.", 253, min=0, max=255),
    port: int = option("--port -p PORT", "UDP port to which last hops send labels.", 7254, min=0, max=65535),
    form: FormatOption = Format.JSON,
    limit: int | None = option("--limit -n N", "Stop after this many packets.", min=1),
    names: NamesOption = None,
) -> None:
    """Print the labels in a capture file: an object per labelled packet, also per packet that a last hop
    reports.

    Labels are in path order. CSV has a row per label. A summary goes to stderr. Exit status: 1 if the file is
    damaged or truncated, and was read up to that point; 2 if it cannot be read.
    """
    from ..base.names import Names
    from ..capture.pcap.reader import PcapReader
    from ..wire.label.as_json import label_objects

    known = Names.load(names)
    reader = PcapReader(file)
    printer = Printer(form, _COLUMNS[form])
    packets, labels, left = 0, 0, limit
    forms: Counter[str] = Counter()
    rejected: Counter[str] = Counter()
    for batch in reader:
        packets += len(batch)
        for packet in label_objects(batch, max_hop=max_hop, protocol=protocol, port=port):
            if left == 0:
                break
            left = None if left is None else left - 1
            if "error" in packet:
                rejected[packet["error"]["reason"]] += 1
            else:
                forms[packet["form"]] += 1
                labels += len(packet["labels"])
            printer.put(_rows(form, packet, known))
        printer.flush()
        if left == 0:
            break
    reader.close()
    reasons = ", ".join(f"{count} {reason}" for reason, count in rejected.most_common())
    print(
        f"{plural(packets, 'packet')}: {forms['packet'] + forms['published']} with labels, "
        f"{forms['export']} reported by last hops, {plural(labels, 'label')}, {rejected.total()} rejected"
        f"{f' ({reasons})' if reasons else ''}",
        file=sys.stderr,
    )
    end_of_file(reader)


def _rows(form: Format, packet: dict[str, Any], known: Names) -> list[dict[str, Any]]:
    if form is Format.JSON:
        return [packet]
    return [_short(packet, known)] if form is Format.TABLE else _flat(packet)


def _flat(packet: dict[str, Any]) -> list[dict[str, Any]]:
    """A row per label; one for a rejected packet."""
    head = {key: value for key, value in packet.items() if key not in ("labels", "flow", "error")}
    head |= packet.get("flow", {}) | packet.get("error", {})
    labels = enumerate(packet.get("labels", ()))
    return [head | {"position": i} | _state(label) for i, label in labels] or [head]


def _state(label: dict[str, Any]) -> dict[str, Any]:
    """A label with the field names of the form that INT-label's paper defines."""
    from ..wire.label.layout import PublishedItem

    hop = dict(label)
    if "device_id" in hop:
        state = PublishedItem(**hop).state()
        hop = {name: getattr(state, name) for name in state.__slots__}
    hop["label_time_ns"] = hop.pop("time_ns")
    return hop


def _short(packet: dict[str, Any], known: Names) -> dict[str, Any]:
    row = {"packet": f"{packet['packet']}.{packet['index']}" if packet["index"] else str(packet["packet"])}
    if error := packet.get("error"):
        return row | {"form": f"{error['reason']} at {error['at']}: {error['detail']}"}
    hops = [_state(label) for label in packet["labels"]]
    row["time"] = when(packet["time_ns"])
    row["form"] = packet["form"] + " tracked" * packet.get("tracked", packet.get("specific", False))
    row["flow"] = flow_text(packet["flow"]) if "flow" in packet else packet.get("source", "")
    row["path"] = " → ".join(f"{known.node_label(hop['node_id'])}:{hop['egress_port']}" for hop in hops)
    row["latency"] = ", ".join(duration(hop["latency_ns"]) for hop in hops)
    row["queue bytes"] = ", ".join(f"{hop['occupancy']:,}" for hop in hops)
    return row

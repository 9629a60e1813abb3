"""`hopscope label`: INT-label, in captures and in experiments."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated, Any

import typer

from ...present.events import when
from ...present.units import flow_text
from ..options import CaptureArgument, NamesOption
from ..output import Format, FormatOption, Printer, until_reader_leaves
from .run import run

app = typer.Typer(
    help="INT-label: decode and run the labelling controller.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_CSV = (
    *("packet", "index", "time_ns", "form", "source", "tracked", "src", "dst", "proto", "sport", "dport"),
    *("position", "node_id", "ingress_port", "egress_port", "label_time_ns", "latency_ns", "occupancy"),
    *("reason", "at", "detail"),
)
_COLUMNS = {
    Format.JSON: (),
    Format.TABLE: ("packet", "time", "form", "flow", "path", "latency", "occupancy"),
    Format.CSV: _CSV,
}


app.command()(run)


@app.command()
def decode(
    file: CaptureArgument,
    max_hop: Annotated[
        int,
        typer.Option("--max-hop", metavar="N", min=2, max=100, help="Counts above it are tracked flows."),
    ] = 5,
    protocol: Annotated[
        int, typer.Option("--protocol", metavar="N", min=0, max=255, help="IP protocol of labelled packets.")
    ] = 253,
    port: Annotated[
        int,
        typer.Option(
            "--port", "-p", metavar="PORT", min=0, max=65535, help="UDP port to which last hops send labels."
        ),
    ] = 7254,
    form: FormatOption = Format.JSON,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, help="Stop after so many packets.", show_default=False
        ),
    ] = None,
    names: NamesOption = None,
) -> None:
    """Print the labels in a capture file: an object for each labelled packet, and for each that a last hop's
    datagram tells.

    Labels are in path order. CSV has a row for each label.
    A summary goes to stderr. Exit status: 1 where the file is damaged or cut, and was read up to there;
    2 where it cannot be read.
    """
    from ...base.names import Names
    from ...capture.pcap.reader import PcapReader
    from ...wire.label.as_json import label_objects

    known = Names.load(names)
    reader = PcapReader(file)
    printer = Printer(form, _COLUMNS[form])
    packets, labels, left = 0, 0, limit
    forms: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    with until_reader_leaves():
        for batch in reader:
            packets += len(batch)
            for one in label_objects(batch, max_hop=max_hop, protocol=protocol, port=port):
                if left == 0:
                    break
                left = None if left is None else left - 1
                if "error" in one:
                    refused[one["error"]["reason"]] += 1
                else:
                    forms[one["form"]] += 1
                    labels += len(one["labels"])
                printer.put(_rows(form, one, known))
            printer.flush()
            if left == 0:
                break
    reader.close()
    reasons = ", ".join(f"{count} {reason}" for reason, count in refused.most_common())
    line = (
        f"{packets} packets: {forms['packet'] + forms['published']} with labels, {forms['export']} told by "
    )
    line += f"last hops, {labels} labels, {refused.total()} refused" + f" ({reasons})" * bool(reasons)
    print(line, file=sys.stderr)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)


def _rows(form: Format, one: dict[str, Any], known: Any) -> list[dict[str, Any]]:
    if form is Format.JSON:
        return [one]
    return [_short(one, known)] if form is Format.TABLE else list(_flat(one))


def _flat(one: dict[str, Any]) -> list[dict[str, Any]]:
    """A row for each label; of what was refused, one."""
    head = {key: value for key, value in one.items() if key not in ("labels", "flow", "error")}
    head |= one.get("flow", {}) | one.get("error", {})
    return [head | {"position": i} | _state(label) for i, label in enumerate(one.get("labels", ()))] or [head]


def _state(label: dict[str, Any]) -> dict[str, Any]:
    """A label with the names of the paper's form."""
    from ...wire.label.codec import PublishedItem

    own = dict(label)
    if "device_id" in own:
        state = PublishedItem(**own).state()
        own = {name: getattr(state, name) for name in state.__slots__}
    own["label_time_ns"] = own.pop("time_ns")
    return own


def _short(one: dict[str, Any], known: Any) -> dict[str, Any]:
    row = {"packet": f"{one['packet']}.{one['index']}" if one["index"] else str(one["packet"])}
    if error := one.get("error"):
        return row | {"form": f"{error['reason']} at {error['at']}: {error['detail']}"}
    labels = [_state(label) for label in one["labels"]]
    row["time"] = when(one["time_ns"])
    row["form"] = one["form"] + " tracked" * one.get("tracked", one.get("specific", False))
    row["flow"] = flow_text(one["flow"]) if "flow" in one else one.get("source", "")
    row["path"] = " → ".join(f"{known.node_label(one['node_id'])}:{one['egress_port']}" for one in labels)
    row["latency"] = " ".join(str(one["latency_ns"]) for one in labels)
    row["occupancy"] = " ".join(str(one["occupancy"]) for one in labels)
    return row

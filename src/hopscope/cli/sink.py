"""`hopscope sink`: INT packets in, the original packets, flows, distributions and events out."""

from __future__ import annotations

import json
import socket
import sys
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import (
    AutoDialectOption,
    ConfigOption,
    DataOption,
    HttpPortOption,
    IntDscpOption,
    IntPortOption,
    MarkerOption,
    NamesOption,
    SetOption,
    changes,
    find_dialects,
    load,
)

_CAPTURES = (".pcap", ".pcapng", ".cap", ".gz")

if TYPE_CHECKING:
    from ..settings.collector import Settings
    from ..settings.dialects import Changes


def sink(
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="INPUT",
            help="Interfaces whose packets are read, or one capture file (pcap, pcapng, may be gzipped).",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUTPUT",
            help="Where the packets go on without their INT: an interface, or a capture file.",
            show_default=False,
        ),
    ] = None,
    pair: Annotated[
        list[str] | None,
        typer.Option(
            "--pair",
            metavar="A:B",
            help="Two interfaces: what comes in at one goes on at the other, both ways. Repeatable.",
            show_default=False,
        ),
    ] = None,
    no_strip: Annotated[bool, typer.Option("--no-strip", help="Packets go on with their INT.")] = False,
    workers: Annotated[
        int, typer.Option("--workers", metavar="N", min=1, max=64, help="Processes for each interface.")
    ] = 1,
    report_to: Annotated[
        str | None,
        typer.Option(
            "--report-to",
            metavar="HOST:PORT",
            help="Also send Telemetry Reports to this collector.",
            show_default=False,
        ),
    ] = None,
    report_when: Annotated[
        str | None,
        typer.Option(
            "--report-when",
            metavar="WHEN",
            help="packet, event or flow: what is reported (default event).",
            show_default=False,
        ),
    ] = None,
    report_version: Annotated[
        str | None,
        typer.Option(
            "--report-version", metavar="VERSION", help="0.5, 1.0 or 2.0 (default 2.0).", show_default=False
        ),
    ] = None,
    data: DataOption = None,
    http_port: HttpPortOption = None,
    no_serve: Annotated[bool, typer.Option("--no-serve", help="Neither API nor page.")] = False,
    names: NamesOption = None,
    dialect: AutoDialectOption = "spec",
    int_dscp: IntDscpOption = None,
    int_port: IntPortOption = None,
    marker: MarkerOption = None,
    events: Annotated[
        bool, typer.Option("--events", help="Print every event of a file, a JSON object a line.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the counters of a file's summary as JSON.")
    ] = False,
    config: ConfigOption = None,
    overrides: SetOption = None,
) -> None:
    """Run an INT sink: strip and forward packets, detect events.

    Interfaces are read until Ctrl-C and need CAP_NET_RAW; history and the live page are those of `collect`.
    A capture file is read to its end, with --data into a data folder, without into memory alone. Exit status:
    0; 1 where the file is damaged or cut and was read up to there; 2 where it cannot start or go on.
    """
    from ..base.errors import HopscopeError

    inputs = list(inputs or ())
    flags: list[tuple[str, str, Any]] = [
        ("sink", "sink.enabled", True),
        ("--no-strip", "sink.strip", False if no_strip else None),
        ("--report-to", "sink.report.to", report_to),
        ("--report-when", "sink.report.when", report_when),
        ("--report-version", "sink.report.version", report_version),
        ("--data", "data", data),
        ("--http-port", "serve.port", http_port),
        ("--no-serve", "serve.enabled", False if no_serve else None),
        ("--names", "names", names),
    ]
    # a Telemetry Report on its way to a collector is a packet like others: it passes
    changed = replace(changes(None, True, int_dscp, int_port, marker), ports=())
    if len(inputs) == 1 and not pair and _is_file(inputs[0]):
        if workers > 1:
            raise HopscopeError("--workers: a capture file is read by one process")
        if output is not None:
            _check_output(inputs[0], output, events)
        settings = load(config, overrides, flags).settings
        _file(settings, inputs[0], output, data, dialect, changed, events, as_json)
        return
    if events or as_json:
        raise HopscopeError("--events, --json: found with interfaces, expected with a capture file")
    if int_dscp or int_port or marker:
        raise HopscopeError(
            "--int-dscp, --int-port, --marker: found with interfaces, expected with a capture file; "
            "a dialect of the configuration has them ([dialects.mine])"
        )
    listen = _listeners(inputs, output, pair or [], workers, dialect)
    _live(load(config, overrides, [*flags, ("INPUT", "listen", listen or None)]).settings)


def _is_file(text: str) -> bool:
    """Whether an input is a capture file, and not an interface."""
    with suppress(OSError):
        socket.if_nametoindex(text)
        return False
    path = Path(text)
    return text == "-" or path.exists() or len(path.parts) > 1 or path.suffix in _CAPTURES


def _listeners(
    inputs: list[str], output: str | None, pairs: list[str], workers: int, dialect: str
) -> list[str]:
    """Listeners as `capture.source` takes them."""
    from ..base.errors import HopscopeError

    if output is not None and len(inputs) != 1:
        raise HopscopeError(f"--output {output}: expected one INPUT, whose packets go on there")
    lanes = [(name, output or "") for name in inputs]
    if output in inputs:
        raise HopscopeError(f"--output {output}: found the INPUT, expected another interface")
    for text in pairs:
        one, colon, other = text.partition(":")
        if not (one and colon and other) or one == other:
            raise HopscopeError(f"--pair {text}: expected two interfaces, as eth1:eth2")
        lanes += [(one, other), (other, one)]
    names = [name for name, _ in lanes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise HopscopeError(f"{twice}: found twice, expected each interface once")
    return [
        f"mirror://{name}?workers={workers}&dialect={dialect}" + (f"&output={to}" if to else "")
        for name, to in lanes
    ]


def _live(settings: Settings) -> None:
    from ..base import log
    from ..base.errors import HopscopeError
    from ..runtime.supervisor import run

    if not any(listen.kind == "mirror" for listen in settings.listen):
        raise HopscopeError(
            "INPUT: found none, expected an interface (hopscope sink eth1), two with --pair eth1:eth2, or a "
            "capture file"
        )
    log.configure()
    raise typer.Exit(run(settings))


def _check_output(file: str, output: str, events: bool) -> None:
    """What a file cannot be written to. Raises HopscopeError."""
    from ..base.errors import HopscopeError

    if output == "-" and events:
        raise HopscopeError("--output -: found with --events, which are printed there; expected a file")
    if output != "-" and file != "-" and Path(output).exists() and Path(file).exists():
        if Path(output).samefile(file):
            raise HopscopeError(f"--output {output}: found the file that is read, expected another one")
    elif Path("/sys/class/net", output).exists():
        raise HopscopeError(f"--output {output}: found an interface, expected a file for packets of a file")


def _file(
    settings: Settings, file: str, output: str | None, data: Path | None, dialect: str, changed: Changes,
    events: bool, as_json: bool,
) -> None:  # fmt: skip
    """A capture file to its end."""
    from ..base.names import Names
    from ..capture.pcap.reader import PcapReader
    from ..detect.counters import INDEX
    from ..runtime.sink.forward import to_file
    from ..runtime.summary import summary_lines
    from .announce import compile_parts
    from .decode import decide
    from .feeding import feed, open_pipeline

    possible = tuple(map(changed.of, find_dialects(dialect, settings)))
    names = Names.load(settings.names)
    reader = PcapReader(file)
    compile_parts("sink")
    chosen, batches = decide(iter(reader), possible)
    with ExitStack() as stack:
        pipeline = stack.enter_context(open_pipeline(settings, data, names if events else None))
        forward = None
        if output is not None:
            forward = stack.enter_context(to_file(Path(output), settings.sink, pipeline.count))
        feed(batches, pipeline, chosen, 0, settings.detect, forward)
    counters = {key: int(pipeline.shard.counters[slot]) for key, slot in INDEX.items()}
    told = sys.stderr if events or output == "-" else sys.stdout
    if as_json:
        print(json.dumps({key: count for key, count in counters.items() if count}), file=told)
    else:
        print("\n".join(summary_lines(counters)), file=told)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)

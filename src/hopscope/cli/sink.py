"""`hopscope sink`: packets with telemetry in, the original packets, flows, distributions and events out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from ..base.errors import HopscopeError
from ..capture.interface import exists
from .decode.command import decide
from .options.declare import Flag, Key, Options, argument, option
from .options.reading import DialectOptions
from .options.settings import LogOptions, NamedFolderOptions, ServingOptions
from .output.file_end import end_of_file
from .output.printer import Summary
from .replay.feeding import FileOutput, feed, open_pipeline

if TYPE_CHECKING:
    from ..settings.collector import Settings
    from ..settings.dialects import Changes
    from ..wire.dialect import Dialect

_CAPTURES = (".pcap", ".pcapng", ".cap", ".gz")


@dataclass(frozen=True)
class ForwardOptions(Options):
    """Where packets are forwarded to."""

    title: ClassVar = "Forwarding"

    output: str | None = option(
        "--output -o OUTPUT",
        "Where to forward packets without their INT, IFA or IOAM: an interface or a capture file.",
    )
    pair: list[str] | None = option(
        "--pair A:B", "Two interfaces: packets from each are forwarded to the other. Repeatable."
    )
    no_strip: bool = option(
        "--no-strip",
        "Forward packets with their INT, IFA or IOAM.",
        False,
        sets=Key("sink.strip", lambda *_: False),
    )
    forwarding: str | None = option(
        "--forwarding HOW",
        "What forwards plain packets: xdp (in the kernel), ring (the workers) or auto.",
        show_default="auto",
        sets="sink.forwarding",
    )
    workers: int = option("--workers N", "Processes per interface.", 1, min=1, max=64)
    take_over: bool = option(
        "--take-over",
        "Take over from the sink that runs on this data folder, without losing a packet.",
        False,
    )


@dataclass(frozen=True)
class ReportOptions(Options):
    """Telemetry Reports that the sink sends."""

    title: ClassVar = "Reports"

    report_to: str | None = option(
        "--report-to HOST:PORT",
        "Also send Telemetry Reports to this collector.",
        sets=Key("sink.report.to", lambda flag, given: given.removeprefix("udp://")),
    )
    report_when: str | None = option(
        "--report-when WHEN",
        "Send a report for each packet, event or flow.",
        show_default="event",
        sets="sink.report.when",
    )
    report_version: str | None = option(
        "--report-version VERSION", "0.5, 1.0 or 2.0.", show_default="2.0", sets="sink.report.version"
    )

    def checked(self, settings: Settings) -> Settings:
        """The settings, unchanged. Raises HopscopeError if these options have no effect."""
        for flag, value in (("--report-when", self.report_when), ("--report-version", self.report_version)):
            if value is not None and not settings.sink.report.to:
                raise HopscopeError(
                    f"{flag} {value}: found without --report-to HOST:PORT, which gets the reports"
                )
        return settings


@dataclass(frozen=True)
class PacketDialectOptions(DialectOptions):
    """The dialect of packets with telemetry."""

    dialect: str | None = option(
        "--dialect DIALECT",
        "Dialect of the packets: see `hopscope config dialects`; auto: choose by the first packets; default: "
        "spec for interfaces, that of the listeners in the settings for a capture file.",
    )

    def changes(self) -> Changes:
        """Have the dialect read packets; Telemetry Reports in transit pass like any other packets."""
        return replace(super().changes(), ports=(), packets=True)


def sink(
    forwarding: ForwardOptions,
    reports: ReportOptions,
    dialect: PacketDialectOptions,
    serving: ServingOptions,
    log: LogOptions,
    output: FileOutput,
    settings: NamedFolderOptions,
    inputs: list[str] | None = argument(
        "INPUT",
        "Interfaces whose packets are read, or one capture file (pcap, pcapng, may be gzipped).",
        None,
        show_default=False,
    ),
) -> None:
    """Run a sink for INT, IFA and IOAM: strip and forward packets, detect events.

    Interfaces are read until Ctrl-C and need CAP_NET_RAW; history and the console are those of `collect`, and
    SIGHUP reads the settings again. A capture file is read to its end; its events are kept if --data is
    given. Exit status: 0; 1 if the file is damaged or truncated and was read up to that point; 2 if it cannot
    start or continue.
    """
    inputs = list(inputs or ())
    flags: list[Flag] = [("sink", "sink.enabled", True)]
    if len(inputs) == 1 and not forwarding.pair and _is_file(inputs[0]):
        if forwarding.workers > 1:
            raise HopscopeError("--workers: a capture file is read by one process")
        if forwarding.take_over:
            raise HopscopeError("--take-over: found with a capture file, expected with interfaces")
        if forwarding.output is not None:
            _check_output(inputs[0], forwarding.output, output.events)
        loaded = reports.checked(settings.load(forwarding, reports, serving, flags=flags))
        _file(loaded, inputs[0], forwarding.output, settings.data, dialect.dialects(loaded), output)
        return
    if output.events or output.form is Summary.JSON:
        raise HopscopeError("--events, --format json: found with interfaces, expected with a capture file")
    if dialect.int_dscp or dialect.int_port or dialect.marker:
        raise HopscopeError(
            "--int-dscp, --int-port, --marker: found with interfaces, expected with a capture file; "
            "a dialect of the configuration has them ([dialects.mine])"
        )
    if listen := _listeners(inputs, forwarding, dialect.dialect or "spec"):
        flags.append(("INPUT", "listen", listen))
    load = partial(settings.load, forwarding, reports, serving, log, flags=flags)
    _live(lambda: reports.checked(load()), forwarding.take_over)


def _is_file(text: str) -> bool:
    """Whether an input is a capture file, and not an interface."""
    if exists(text):
        return False
    path = Path(text)
    return text == "-" or path.exists() or len(path.parts) > 1 or path.suffix in _CAPTURES


def _listeners(inputs: list[str], forwarding: ForwardOptions, dialect: str) -> list[str]:
    """The URLs of listeners, as `settings.source` parses them. Raises HopscopeError."""
    output = forwarding.output
    if output is not None and len(inputs) != 1:
        raise HopscopeError(f"--output {output}: expected one INPUT, whose packets go there")
    lanes = [(name, output or "") for name in inputs]
    if output in inputs:
        raise HopscopeError(f"--output {output}: found the INPUT, expected another interface")
    for text in forwarding.pair or ():
        first, colon, second = text.partition(":")
        if not (first and colon and second) or first == second:
            raise HopscopeError(f"--pair {text}: expected two interfaces, such as eth1:eth2")
        lanes += [(first, second), (second, first)]
    names = [name for name, _ in lanes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise HopscopeError(f"{twice}: found twice, expected each interface once")
    return [
        f"mirror://{name}?workers={forwarding.workers}&dialect={dialect}" + (f"&output={to}" if to else "")
        for name, to in lanes
    ]


def _live(load: Callable[[], Settings], take_over: bool) -> None:
    from ..runtime.supervisor.run import run

    settings = load()
    if not any(listen.kind == "mirror" for listen in settings.listen):
        raise HopscopeError(
            "INPUT: found none, expected an interface (hopscope sink eth1), two with --pair eth1:eth2, or a "
            "capture file"
        )
    raise typer.Exit(run(settings, load, take_over=take_over))


def _check_output(file: str, output: str, events: bool) -> None:
    """Raise HopscopeError if the packets of a capture file cannot be written to this output."""
    if output == "-" and events:
        raise HopscopeError("--output -: found with --events, which are printed there; expected a file")
    if output != "-" and file != "-" and Path(output).exists() and Path(file).exists():
        if Path(output).samefile(file):
            raise HopscopeError(f"--output {output}: found the file that is read, expected another file")
    elif exists(output):
        raise HopscopeError(f"--output {output}: found an interface, expected a file for packets of a file")


def _file(
    settings: Settings, file: str, stripped: str | None, data: Path | None, possible: tuple[Dialect, ...],
    output: FileOutput,
) -> None:  # fmt: skip
    """Run the sink over a capture file; packets go to the file `stripped`."""
    from ..base.names import Names
    from ..capture.pcap.reader import PcapReader
    from ..runtime.sink.forward import to_file
    from ..runtime.warmup import compile_parts

    names = Names.load(settings.names)
    reader = PcapReader(file)
    compile_parts("sink")
    dialect, batches = decide(iter(reader), possible)
    with ExitStack() as stack:
        pipeline = stack.enter_context(open_pipeline(settings, data, names if output.events else None))
        forward = None
        if stripped is not None:
            forward = stack.enter_context(to_file(Path(stripped), settings.sink, pipeline.count))
        feed(batches, pipeline, dialect, 0, settings.detect, forward)
    output.print(pipeline, sys.stderr if output.events or stripped == "-" else sys.stdout)
    end_of_file(reader)

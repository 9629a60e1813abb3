"""`hopscope decode`: the reports of a capture file."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from .filters import FlowOption, NodeOption, PrefixOption, ReportFilter
from .options import (
    AutoDialectOption,
    CaptureArgument,
    ConfigOption,
    IntDscpOption,
    IntPortOption,
    MarkerOption,
    NamesOption,
    PacketsOption,
    PortOption,
    candidates,
    changes,
)
from .output import Format, FormatOption, Printer, until_reader_leaves
from .report_rows import COLUMNS, rows

if TYPE_CHECKING:
    from ..capture.pcap.reader import PcapReader
    from ..wire.dialect import Dialect
    from ..wire.records import FrameBatch, ReportBatch

    Batches = Iterator[tuple[FrameBatch, ReportBatch]]

PLAIN_FRAMES = 20_000
"""Frames that are decoded in plain Python, before loading compiled kernels pays."""
_OF_A_DIALECT = {"unknown_version", "unknown_type", "bad_length", "bad_hop_size"}
"""Reasons of refusals that another dialect may not have."""
FIRST_BATCH, BATCH = 256, 4096
_LARGE_BYTES = 16 * 1024 * 1024
_PROGRESS_SECONDS = 0.5


def decode(
    file: CaptureArgument,
    port: PortOption = None,
    dialect: AutoDialectOption = "spec",
    packets: PacketsOption = False,
    int_dscp: IntDscpOption = None,
    int_port: IntPortOption = None,
    marker: MarkerOption = None,
    form: FormatOption = Format.JSON,
    flow: FlowOption = None,
    prefix: PrefixOption = None,
    node: NodeOption = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="Only int, drop, queue, inner or error. Repeatable.",
            show_default=False,
        ),
    ] = None,
    join: Annotated[
        float | None,
        typer.Option(
            "--join",
            metavar="MS",
            min=0,
            max=10_000,
            help="Join postcards of one packet that come within so many ms into one path.",
            show_default=False,
        ),
    ] = None,
    links: Annotated[
        Path | None,
        typer.Option(
            "--links",
            metavar="FILE",
            help="The network's links, TOML or CSV, for --join.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit", "-n", metavar="N", min=1, help="Stop after so many reports.", show_default=False
        ),
    ] = None,
    names: NamesOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the reports in a capture file.

    A summary goes to stderr. Packets that are no reports print nothing, unless --packets finds telemetry in
    them; a damaged report prints why.
    Exit status: 1 where the file is damaged or cut, and was read up to there;
    2 where it cannot be read.
    """
    from ..base.names import Names
    from ..capture.pcap.reader import PcapReader

    known = Names.load(names)
    changed = changes(port, packets, int_dscp, int_port, marker)
    possible = tuple(map(changed.of, candidates(dialect, config)))
    kept = ReportFilter(flow, prefix or (), node or (), kind or (), known)
    reader = PcapReader(file)
    printer = Printer(form, COLUMNS[form])
    summary = Summary()
    left = limit
    together = _joined(join, links)
    with until_reader_leaves(), Progress(reader, file) as progress:
        chosen, batches = decide(_batches(reader), possible)
        for frames, reports in together(_summed(_decoded(reader, batches, chosen), summary), chosen):
            wanted = kept.select(reports)
            if left is not None:
                wanted = replace(wanted, reports=wanted.reports[:left])
                left -= len(wanted)
            printer.put(rows(form, wanted, frames, known, chosen))
            printer.flush()
            progress.show(summary.packets)
            if left == 0:
                break
    reader.close()
    print(summary.text(), file=sys.stderr)
    if dialect == "spec" and summary.refused.keys() & _OF_A_DIALECT:
        print("hopscope: these may speak another dialect: --dialect auto proposes one", file=sys.stderr)
    if reader.damage:
        print(f"hopscope: {reader.damage}", file=sys.stderr)
        raise typer.Exit(1)


def decide(
    batches: Iterator[FrameBatch], possible: tuple[Dialect, ...]
) -> tuple[Dialect, Iterator[FrameBatch]]:
    """The dialect, and all batches; of several, the first frames choose one, and stderr says why."""
    if len(possible) == 1:
        return possible[0], batches
    from ..wire.decode import evidence

    proposal, batches = evidence.decide(batches, possible)
    for line in proposal.lines:
        print(f"hopscope: {line}", file=sys.stderr)
    return proposal.dialect, batches


def _joined(window_ms: float | None, links: Path | None) -> Callable[[Batches, Dialect], Batches]:
    """What joins the postcards in decoded batches; paths come without frames."""
    if window_ms is None:
        return lambda batches, dialect: batches
    from ..detect.postcards.joiner import Joiner
    from ..settings.collector import PostcardSettings
    from ..wire.records import FRAME, FrameBatch

    joiner = Joiner(PostcardSettings(window_ms=window_ms, links=links))

    def together(batches: Batches, dialect: Dialect) -> Batches:
        nothing = FrameBatch(np.empty(0, np.uint8), np.empty(0, FRAME))
        for frames, reports in batches:
            for part in joiner.update(reports, dialect.clock):
                yield (frames if part.hops is reports.hops else nothing), part
        for part in joiner.flush():
            yield nothing, part

    return together


def _summed(batches: Batches, summary: Summary) -> Batches:
    for frames, reports in batches:
        summary.add(frames, reports)
        yield frames, reports


def _batches(reader: PcapReader) -> Iterator[FrameBatch]:
    reader.frames_per_batch = FIRST_BATCH
    return iter(reader)


def _decoded(
    reader: PcapReader, batches: Iterator[FrameBatch], dialect: Dialect
) -> Iterator[tuple[FrameBatch, ReportBatch]]:
    """Small inputs by plain kernels, which start at once; what follows by compiled ones."""
    from ..wire.decode.plain import decode_plain

    seen = 0
    for frames in batches:
        yield frames, decode_plain(frames, dialect)
        seen += len(frames)
        if seen >= PLAIN_FRAMES:
            break
    else:
        return
    from ..wire.decode.decoder import Decoder

    reader.frames_per_batch = BATCH
    decoder = Decoder(dialect, BATCH)
    for frames in batches:
        yield frames, decoder.decode(frames)


class Summary:
    """What was in a file, in one line or two."""

    def __init__(self) -> None:
        self.packets = self.reports = self.found = self.other = 0
        self.refused: Counter[str] = Counter()

    def add(self, frames: FrameBatch, reports: ReportBatch) -> None:
        """Count one batch."""
        from ..wire.reasons import Reason

        refused = np.bincount(reports.reports["reason"], minlength=1)
        for reason in np.flatnonzero(refused):
            if reason:
                self.refused[Reason(int(reason)).label] += int(refused[reason])
        self.packets += len(frames)
        found = int(np.count_nonzero((reports.reports["version"] == 0) & (reports.reports["reason"] == 0)))
        self.reports += int(refused[0]) - found
        self.found += found
        self.other += reports.other

    def text(self) -> str:
        """As `19 packets: 18 reports, 1 refused (1 truncated), 0 other`."""
        total = self.refused.total()
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.refused.most_common())
        refused = f"{total} refused ({reasons})" if total else "0 refused"
        found = f", {self.found} with telemetry of their own" if self.found else ""
        return f"{self.packets} packets: {self.reports} reports{found}, {refused}, {self.other} other"


class Progress:
    """A line on stderr while a large file is read; only where people see it, and see nothing else."""

    def __init__(self, reader: PcapReader, file: str) -> None:
        self._reader = reader
        self._size = Path(file).stat().st_size if file != "-" and Path(file).is_file() else 0
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty() and self._size >= _LARGE_BYTES
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def show(self, packets: int) -> None:
        """Tell how far it is, twice a second."""
        if not self._shown or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _PROGRESS_SECONDS
        # the bytes of a gzipped file are counted unpacked
        share = "" if self._reader.compressed else f"{100 * self._reader.position / self._size:3.0f} % · "
        print(f"\r{share}{packets:,} packets ", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

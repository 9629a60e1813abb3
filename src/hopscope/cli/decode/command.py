"""`hopscope decode`: the reports of a capture file."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ...base.errors import HopscopeError
from ..options.declare import Options, option
from ..options.filters import FlowFilters
from ..options.reading import CaptureArgument, ReadingOptions
from ..options.settings import NamesOption, SettingsOptions
from ..output.file_end import end_of_file
from ..output.printer import Format, FormatOption, Printer
from .filter import ReportFilter
from .rows import COLUMNS, rows

if TYPE_CHECKING:
    from ...capture.pcap.reader import PcapReader
    from ...settings.collector import Settings
    from ...wire.dialect import Dialect
    from ...wire.mixed.decoder import MixedDecoder
    from ...wire.records import FrameBatch, ReportBatch

    Batches = Iterator[tuple[FrameBatch, ReportBatch]]

PLAIN_FRAMES = 20_000
"""How many frames plain Python decodes before loading compiled kernels pays off."""
_OF_A_DIALECT = {"unknown_version", "unknown_type", "bad_length", "bad_hop_size"}
"""Reject reasons that suggest a wrong dialect."""
FIRST_BATCH, BATCH = 256, 4096
_LARGE_BYTES = 16 * 1024 * 1024
_PROGRESS_SECONDS = 0.5


@dataclass(frozen=True)
class ReportFilters(FlowFilters):
    """Filters of reports."""

    kind: list[str] | None = option(
        "--kind -k REPORT-KIND", "Only int, drop, queue, inner or error. Repeatable."
    )


@dataclass(frozen=True)
class JoinOptions(Options):
    """How postcards become paths."""

    title: ClassVar = "Postcards"

    join: float | None = option(
        "--join MS",
        "Join postcards of one packet that arrive within this time into one path.",
        min=0,
        max=10_000,
    )
    links: Path | None = option("--links FILE", "The network's links, TOML or CSV, for --join.")


def decode(
    file: CaptureArgument,
    filters: ReportFilters,
    postcards: JoinOptions,
    reading: ReadingOptions,
    settings: SettingsOptions,
    form: FormatOption = Format.JSON,
    limit: int | None = option("--limit -n N", "Stop after this many reports.", min=1),
    names: NamesOption = None,
) -> None:
    """Print the reports in a capture file, and the samples and flow records of sFlow 5, IPFIX and NetFlow 9.

    A summary goes to stderr. Other packets print nothing, unless --packets finds telemetry in them; for a
    damaged report, the reason for its rejection is printed. Exit status 1: the file is damaged or truncated,
    and was read up to that point; 2: it cannot be read.
    """
    from ...base.names import Names
    from ...capture.pcap.reader import PcapReader

    loaded = settings.load() if settings.given else None
    known = Names.load(names if names or loaded is None else loaded.names)
    possible = reading.dialects(loaded or settings)
    kept = ReportFilter(
        filters.flow, filters.prefix or (), filters.node or (), filters.kind or (), names=known
    )
    joined = _joining(postcards)
    reader = PcapReader(file)
    printer = Printer(form, COLUMNS[form])
    left = limit
    with Progress(reader, file) as progress:
        chosen, batches = decide(_batches(reader), possible)
        decoder = mixed_decoder(chosen, loaded, small=True)
        summary = Summary(decoder)
        for frames, reports in joined(_counted(_decoded(reader, batches, decoder), summary), chosen):
            wanted = kept.select(reports)
            if left is not None:
                wanted = replace(wanted, reports=wanted.reports[:left])
                left -= len(wanted)
                if left == 0:
                    summary.stop_after(wanted)
            printer.put(rows(form, wanted, frames, known, chosen))
            printer.flush()
            progress.show(summary.packets)
            if left == 0:
                break
    reader.close()
    print(summary.text(), file=sys.stderr)
    found = summary.reports or summary.found or summary.samples or summary.flow_records or summary.rejected
    advise(
        reading, possible, summary.rejected - decoder.rejected, summary.other > reader.unread and not found
    )
    advise_of_templates(decoder)
    if summary.reports and not summary.hops:
        advise_without_hops(file, reading, possible, loaded or settings)
    end_of_file(reader)


def decide(
    batches: Iterator[FrameBatch], possible: tuple[Dialect, ...]
) -> tuple[Dialect, Iterator[FrameBatch]]:
    """The dialect, and all batches. If several are possible, the first frames decide, and stderr says why."""
    if len(possible) == 1:
        return possible[0], batches
    from ...wire.decode import evidence

    proposal, batches = evidence.decide(batches, possible)
    for line in proposal.lines:
        print(f"hopscope: {line}", file=sys.stderr)
    return proposal.dialect, batches


def advise(
    reading: ReadingOptions, possible: tuple[Dialect, ...], rejected: Collection[str], nothing: bool
) -> None:
    """Suggest on stderr what to try if reports were rejected for these reasons, or nothing was decoded."""
    if _is_spec(possible) and not _OF_A_DIALECT.isdisjoint(rejected):
        print("hopscope: these may be in another dialect: --dialect auto proposes one", file=sys.stderr)
    if nothing:
        print(_nothing_found(reading), file=sys.stderr)


def mixed_decoder(dialect: Dialect, settings: Settings | None, *, small: bool = False) -> MixedDecoder:
    """A decoder for captured frames, with the node ids of the settings' listeners."""
    from ...wire.mixed.decoder import MixedDecoder

    if settings is None:
        return MixedDecoder(dialect, small=small)
    return MixedDecoder(dialect, settings.node_ids("sflow"), settings.node_ids("ipfix"), small)


def advise_of_templates(decoder: MixedDecoder) -> None:
    """Say on stderr how much data could not be read for lack of a template."""
    from ...base.plural import plural

    if sets := decoder.undecoded_sets:
        many = plural(sets, "data set")
        print(
            f"hopscope: {many} of IPFIX or NetFlow 9 not read: no template for them within 60 s",
            file=sys.stderr,
        )


def advise_without_hops(
    file: str, reading: ReadingOptions, possible: tuple[Dialect, ...], settings: Settings | SettingsOptions
) -> None:
    """Suggest on stderr a dialect that finds hops where the specifications' dialect reads reports without
    any: a report of another dialect may look like one about a drop.
    """
    if not _is_spec(possible) or not Path(file).is_file():
        return
    from ...capture.pcap.reader import PcapReader
    from ...wire.decode import evidence

    reader = PcapReader(file)
    proposal, _ = evidence.decide(_batches(reader), replace(reading, dialect="auto").dialects(settings))
    reader.close()
    if proposal.fits and proposal.hops:
        name, hops = proposal.dialect.name, proposal.hops
        print(
            f"hopscope: these reports have no hops; --dialect {name} finds {hops:,} in the first of them",
            file=sys.stderr,
        )


def _is_spec(possible: tuple[Dialect, ...]) -> bool:
    """Whether reports are read as the specifications say, because neither an option nor a listener names
    another dialect.
    """
    from ...wire.dialect import DEFAULT

    return [dialect.name for dialect in possible] == [DEFAULT.name]


def _nothing_found(reading: ReadingOptions) -> str:
    own = "--port N reads reports on a port of your own, --sflow-port N sFlow, --ipfix-port N IPFIX"
    tries = [
        "other --port numbers" if reading.port else own,
        *(["--packets reads packets that carry INT, IOAM or IFA"] if not reading.packets else []),
        "`hopscope label decode` reads labels",
    ]
    return f"hopscope: no reports found; {', '.join(tries)}"


def _joining(postcards: JoinOptions) -> Callable[[Batches, Dialect], Batches]:
    """A function that joins the postcards in decoded batches; joined paths have no frames."""
    if postcards.join is None:
        if postcards.links is not None:
            raise HopscopeError("--links: found without --join, which it is for")
        return lambda batches, dialect: batches
    from ...detect.postcards.joiner import Joiner
    from ...settings.postcards import PostcardSettings
    from ...wire.records import FRAME, FrameBatch

    joiner = Joiner(PostcardSettings(window_ms=postcards.join, links=postcards.links))

    def joined(batches: Batches, dialect: Dialect) -> Batches:
        nothing = FrameBatch(np.empty(0, np.uint8), np.empty(0, FRAME))
        for frames, reports in batches:
            for part in joiner.update(reports, dialect.clock):
                yield (frames if part.hops is reports.hops else nothing), part
        for part in joiner.flush():
            yield nothing, part

    return joined


def _counted(batches: Batches, summary: Summary) -> Batches:
    for frames, reports in batches:
        summary.add(frames, reports)
        yield frames, reports


def _batches(reader: PcapReader) -> Iterator[FrameBatch]:
    reader.frames_per_batch = FIRST_BATCH
    return iter(reader)


def _decoded(
    reader: PcapReader, batches: Iterator[FrameBatch], decoder: MixedDecoder
) -> Iterator[tuple[FrameBatch, ReportBatch]]:
    """Decode the first frames in plain Python, which starts at once, and the rest with compiled kernels."""
    seen = 0
    for frames in batches:
        yield frames, decoder.decode(frames)
        seen += len(frames)
        if seen >= PLAIN_FRAMES:
            break
    else:
        return
    reader.frames_per_batch = BATCH
    decoder.compile(BATCH)
    for frames in batches:
        yield frames, decoder.decode(frames)


class Summary:
    """Counts what was in a file."""

    def __init__(self, decoder: MixedDecoder) -> None:
        self.packets = self.reports = self.found = self.other = self.hops = 0
        self.samples: int | None = None
        """Samples of sFlow, also those without a report; None: no datagrams."""
        self.flow_records: int | None = None
        """Flow records of IPFIX and NetFlow 9; None: no messages."""
        self.rejected: Counter[str] = Counter()
        self._decoder, self._stopped = decoder, False

    def add(self, frames: FrameBatch, reports: ReportBatch) -> None:
        """Count one batch, which the decoder has decoded."""
        from ...wire.reasons import Reason
        from ...wire.records import Carried
        from ...wire.versions import FIRST_SAMPLE, SFLOW

        self._before = {name: count for name, count in vars(self).items() if name[0] != "_"}
        self._before["rejected"] = self.rejected.copy()
        self._newest = frames, reports
        reasons = np.bincount(reports.reports["reason"], minlength=1)
        for reason in np.flatnonzero(reasons):
            if reason:
                self.rejected[Reason(int(reason)).label] += int(reasons[reason])
        self.packets += len(frames)
        accepted = reports.reports[reports.reports["reason"] == 0]
        telemetry = accepted[accepted["version"] < FIRST_SAMPLE]
        found = int(np.count_nonzero(telemetry["version"] == 0))
        self.reports += len(telemetry) - found
        self.found += found
        self.other += reports.other
        self.hops += int(telemetry["hop_count"].sum())
        self.samples = self._decoder.samples
        if len(telemetry) < len(accepted):
            flows = accepted["version"] > SFLOW
            filled = (accepted["hop_count"] > 0) | (accepted["carried"] & Carried.OWN_HOP != 0)
            if flows.any():
                self.flow_records = (self.flow_records or 0) + int(np.count_nonzero(flows & filled))

    def stop_after(self, printed: ReportBatch) -> None:
        """In the last batch, count only the packets up to that of the last printed report."""
        self._stopped = True
        frames, reports = self._newest
        if printed.hops is not reports.hops:
            return  # a joined path has packets of several batches
        packets = int(printed.reports["packet"][-1]) + 1
        rows = reports.reports[reports.reports["packet"] < packets]
        vars(self).update(self._before)
        read = replace(frames, frames=frames.frames[:packets])
        self.add(read, replace(reports, reports=rows, other=packets - len(np.unique(rows["packet"]))))
        if self.samples is not None:  # the decoder has counted the whole batch
            again = mixed_decoder(self._decoder.dialect, None, small=True)
            again.decode(read)
            self.samples = (self._before["samples"] or 0) + (again.samples or 0)

    def text(self) -> str:
        """The summary, such as `19 packets: 18 reports, 1 rejected (1 truncated), 0 other`. Samples and flow
        records are counted only if there were datagrams that may have them.
        """
        from ...base.plural import plural

        total = self.rejected.total()
        reasons = ", ".join(f"{count} {reason}" for reason, count in self.rejected.most_common())
        rejected = f"{total} rejected" + f" ({reasons})" * bool(total)
        found = f", {self.found} with INT, IOAM or IFA" if self.found else ""
        found += "" if self.samples is None else f", {plural(self.samples, 'sFlow sample')}"
        found += "" if self.flow_records is None else f", {plural(self.flow_records, 'flow record')}"
        packets, reports = plural(self.packets, "packet"), plural(self.reports, "report")
        text = f"{packets}: {reports}{found}, {rejected}, {self.other} other"
        return f"{text}; --limit left the rest unread" if self._stopped else text


class Progress:
    """A line on stderr while a large file is read; only on a terminal to which nothing else is printed."""

    def __init__(self, reader: PcapReader, file: str) -> None:
        self._reader = reader
        self._size = Path(file).stat().st_size if file != "-" and Path(file).is_file() else 0
        self._shown = sys.stderr.isatty() and not sys.stdout.isatty() and self._size >= _LARGE_BYTES
        self._next = time.monotonic() + _PROGRESS_SECONDS

    def show(self, packets: int) -> None:
        """Show the progress, twice per second."""
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

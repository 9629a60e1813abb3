"""The Python API, which `import hopscope` provides: read captures, detect events, open a data folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

import numpy as np
from pydantic import ValidationError

from ..base.errors import HopscopeError
from ..base.kernels import announce, kernel_cache
from ..detect.records import EVENT
from ..settings.configuration.errors import error_lines
from ..settings.custom_dialect import DialectSettings
from ..settings.detect import DetectSettings
from ..settings.dialects import Changes, named
from ..settings.postcards import PostcardSettings
from ..settings.section import Section
from ..wire import timing
from ..wire.address import number_of
from ..wire.dialect import Dialect
from ..wire.records import FRAME, FrameBatch, Records, ReportBatch
from .batches import Events, Reports

if TYPE_CHECKING:
    from ..base.names import Names
    from ..capture.pcap.reader import PcapReader
    from ..history.query import History
    from ..present.collector_state import CollectorState
    from ..wire.decode.evidence import Proposal
    from ..wire.node_ids import NodeIds
    from .following import Following

S = TypeVar("S", bound=Section)
SMALL_BYTES = 4 * 1024 * 1024
"""Smaller files are decoded by plain kernels, which need no compilation."""
_NO_FRAMES = FrameBatch(np.empty(0, np.uint8), np.empty(0, FRAME))

if not kernel_cache.notices:  # a command of Hopscope announces compilation itself
    announce.enable(log=True)


def announce_compilation(enabled: bool = True) -> None:
    """Switch the display of compilation progress on or off; it is on by default.

    The first use of a version of Hopscope compiles kernels, which can take a minute. Meanwhile a terminal or
    notebook shows the progress on stderr; elsewhere the logger `hopscope` gets one line (INFO).
    """
    if enabled:
        announce.enable(log=True)
    else:
        announce.disable()


class Capture:
    """A capture file, as `read` returns it. Iterate over it to get Reports, a batch at a time.

    Each iteration reads the file from its beginning; a stream or pipe can be read only once.
    """

    def __init__(
        self,
        source: str | Path | BinaryIO,
        possible: tuple[Dialect, ...],
        frames_per_batch: int,
        join: PostcardSettings | None = None,
        nodes: NodeIds | None = None,
    ) -> None:
        self._source, self._frames_per_batch, self._join = source, frames_per_batch, join
        self._nodes = nodes
        self._name = source if isinstance(source, str | Path) else type(source).__name__
        self._is_stream = not isinstance(source, str | Path) or source == "-" or not Path(source).is_file()
        self._unread: PcapReader | None = self._open()
        self._possible = possible
        self.proposal: Proposal | None = None
        """With dialect `auto`: the chosen dialect and why, once iteration has begun."""

    def __repr__(self) -> str:
        return f"<Capture of {self._name}>"

    def __iter__(self) -> Iterator[Reports]:
        """Batches of reports; each stays valid. A damaged file raises PcapError after its last good frame."""
        from ..detect.postcards.joiner import Joiner
        from ..wire.mixed.decoder import MixedDecoder

        if self._unread is None and self._is_stream:
            raise HopscopeError(f"{self._name} was read already, and a stream can be read once")
        reader, self._unread = self._unread or self._open(), None
        dialect, frames_of = self._decide(iter(reader))
        small = not self._is_stream and _size(self._name) < SMALL_BYTES
        decoder = MixedDecoder(dialect, self._nodes, self._nodes, small)
        joiner = None if self._join is None else Joiner(self._join)
        for frames in frames_of:
            if small and reader.position >= SMALL_BYTES:  # the file is compressed, or growing
                small = False
                decoder.compile()
            batch = decoder.decode(frames)
            if not small:
                batch = _lasting(batch)
            if joiner:
                for part in joiner.update(batch, dialect.clock):
                    if len(part):
                        yield Reports(part, frames if part.hops is batch.hops else _NO_FRAMES, dialect)
            elif len(batch):
                yield Reports(batch, frames, dialect)
        for part in joiner.flush() if joiner else ():
            yield Reports(part, _NO_FRAMES, dialect)
        if reader.damage:
            raise reader.damage

    def _open(self) -> PcapReader:
        from ..capture.pcap.reader import PcapReader

        return PcapReader(self._source, frames_per_batch=self._frames_per_batch)

    def _decide(self, batches: Iterator[FrameBatch]) -> tuple[Dialect, Iterator[FrameBatch]]:
        if self.proposal is None and len(self._possible) > 1:
            from ..wire.decode.evidence import decide

            self.proposal, batches = decide(batches, self._possible)
        return self.proposal.dialect if self.proposal else self._possible[0], batches


class Collection:
    """A data folder, as `open_folder` returns it: its history, and the state of the collector that runs on
    it.
    """

    def __init__(self, folder: Path, names: Names) -> None:
        from ..history.query import History
        from ..present.collector_state import CollectorState

        self.folder = folder
        self.history: History = History(folder, names)
        """Events and flows of the past, also by SQL."""
        self.state: CollectorState = CollectorState(folder)
        """Present counters, flows, ports and sources; empty if no collector is running."""

    def __repr__(self) -> str:
        return f"<Collection in {self.folder}>"

    def follow(
        self,
        positions: Mapping[int | str, int] | None = None,
        *,
        timeout: float | None = None,
        events_per_batch: int = 4096,
    ) -> Following:
        """The events that a collector finds from now on, as they come, a batch at a time.

        `positions`: where to begin, as `Following.positions` of an earlier run; `{}`: with the first event in
        history. `timeout`: end after this many seconds without a new event; None: never. Raises HopscopeError
        for a wrong value.
        """
        from .following import Following

        return Following(self.folder, positions, timeout, events_per_batch)

    def close(self) -> None:
        """Close the history's database."""
        self.history.close()

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read(
    source: str | Path | BinaryIO,
    *,
    dialect: str | Dialect = "spec",
    ports: Iterable[int] | None = None,
    packets: bool = False,
    dialects: Mapping[str, DialectSettings] | None = None,
    join: float | None = None,
    frames_per_batch: int = 4096,
    sflow_ports: Iterable[int] | None = None,
    ipfix_ports: Iterable[int] | None = None,
    nodes: Mapping[str, int] | None = None,
) -> Capture:
    """Read the telemetry reports of a capture (pcap, pcapng, gzip; `-`: standard input), and the samples and
    flow records of sFlow 5, IPFIX and NetFlow 9, as rows of version 105, 110 and 109.

    `dialect`: how to decode reports: a dialect, the name of one, a name in `dialects` (`Settings.dialects`),
    or `auto`, which chooses one by the first reports (see `Capture.proposal`). `ports`: UDP ports of reports.
    `packets`: also read packets that carry INT, IOAM or IFA themselves, as rows of version 0. `join`: join
    postcards of one packet that arrive within this many ms into one row (not for `detect_events`, which joins
    them itself). `sflow_ports`, `ipfix_ports`: UDP ports of sFlow (6343 by default), and of IPFIX and NetFlow
    9 (4739, 2055, 9995, 9996). `nodes`: node ids of agents and exporters by address. Raises HopscopeError for
    a missing file, a file that is not a capture, or a wrong value.
    """
    if frames_per_batch < 1:
        raise HopscopeError(f"frames_per_batch is {frames_per_batch}; expected at least 1")
    if not isinstance(dialect, str | Dialect):
        raise HopscopeError(f"dialect: expected a name or a Dialect, found {type(dialect).__name__}")
    possible = (dialect,) if isinstance(dialect, Dialect) else named(dialect, dialects, auto=True)
    changes = Changes(
        _ports("ports", ports),
        packets,
        sflow_ports=_ports("sflow_ports", sflow_ports),
        ipfix_ports=_ports("ipfix_ports", ipfix_ports),
    )
    try:
        postcards = None if join is None else PostcardSettings(window_ms=join)
    except ValidationError as error:
        (line,) = error_lines(error, PostcardSettings)
        raise HopscopeError(line.replace("window_ms", "join")) from error
    try:
        of_address = {number_of(text): node for text, node in (nodes or {}).items()}
    except ValueError as error:
        raise HopscopeError(f"nodes: {error}; expected addresses, as in {{'192.0.2.7': 7}}") from None
    return Capture(source, tuple(map(changes.of, possible)), frames_per_batch, postcards, of_address)


def _ports(name: str, given: Iterable[int] | None) -> tuple[int, ...] | None:
    """UDP ports of a format. Raises HopscopeError."""
    try:
        ports = None if given is None else tuple(given)
    except TypeError:
        raise HopscopeError(f"{name}: expected a list of UDP ports, as [32766], found {given!r}") from None
    for port in ports or ():
        if not isinstance(port, int | np.integer) or not 0 < port < 65_536:
            raise HopscopeError(f"{name}: {port!r} is no UDP port; expected numbers from 1 to 65535")
    return ports


def detect_events(
    reports: Iterable[Reports],
    settings: DetectSettings | None = None,
    *,
    postcards: PostcardSettings | None = None,
    end: bool = False,
) -> Events:
    """Run detection over reports and return all events.

    As in a collector, the clock of the reports' dialect is applied, and postcards of one packet are joined.
    Time is the time of the reports. With `end`, it continues after the last report until all flows are idle,
    so that they leave flow records, and all sources are silent.
    """
    from ..detect.clock import CaptureClock
    from ..detect.detector import Detector
    from ..detect.postcards.joiner import Joiner
    from ..history.files.journal_file import number_events

    detector = Detector(_given(settings, DetectSettings, "detect"), None)
    joiner = Joiner(_given(postcards, PostcardSettings, "postcards"), held=True)
    clock = CaptureClock(detector.settings)
    blocks: list[Records] = []

    def keep(found: Iterable[Records]) -> None:
        blocks.extend(block.copy() for block in found)

    def take(parts: Iterable[ReportBatch]) -> None:
        for part in parts:
            keep(detector.update(part))

    for batch in reports:
        if not isinstance(batch, Reports):
            found = type(batch).__name__
            raise HopscopeError(f"expected Reports from `read`, found {found}; put a single batch in a list")
        source = batch.dialect.clock
        rows, hops = batch.batch.reports.copy(), batch.batch.hops
        if timing.changes(source):
            hops = hops.copy()
            timing.apply(ReportBatch(rows, hops), source)
        for ticks, start, stop in clock.cut(rows["time_ns"]):
            for now_ns in ticks:
                take(joiner.tick(now_ns))
                keep(detector.tick(now_ns))
            take(joiner.update(ReportBatch(rows[start:stop], hops), source))
    take(joiner.flush())
    keep(detector.tick(clock.newest_ns))
    if end:
        longest = max(detector.settings.idle_seconds, detector.settings.silent_seconds)
        keep(detector.tick(min(clock.newest_ns + int(longest * 1e9) + 1, 2**63 - 1)))
    events = np.concatenate(blocks) if blocks else np.empty(0, EVENT)
    number_events(events, shard=0, first=0)
    return Events(events)


def _given(value: S | None, kind: type[S], section: str) -> S:
    """The settings of a section, or its defaults if there are none."""
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise HopscopeError(f"expected {kind.__name__} (as Settings.{section}), found {type(value).__name__}")
    return value


def open_folder(folder: str | Path, *, names: str | Path | None = None) -> Collection:
    """Open a data folder, to query its history and, if a collector is running on it, its state."""
    from ..base.names import Names

    if not isinstance(folder, str | os.PathLike):
        raise HopscopeError(f"expected the path of a data folder, found {type(folder).__name__}")
    path = Path(folder)
    if not path.is_dir():
        raise HopscopeError(f"data folder {path} {'is not a folder' if path.exists() else 'does not exist'}")
    return Collection(path, Names.load(names, path))


def _size(path: str | Path) -> int:
    with suppress(OSError):
        return Path(path).stat().st_size
    return 0


def _lasting(batch: ReportBatch) -> ReportBatch:
    """A copy of a batch whose blocks its decoder will reuse."""
    return ReportBatch(batch.reports.copy(), batch.hops.copy(), batch.first_packet, batch.other)

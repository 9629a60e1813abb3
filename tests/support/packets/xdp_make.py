"""Datagrams for the XDP program, and both ways through detection: with its filter, and without the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from hopscope.bpf import layout
from hopscope.bpf.build import PROGRAMS, BuildError, compile_programs
from hopscope.bpf.filter import Filter
from hopscope.bpf.layout import Count
from hopscope.bpf.program import XdpProgram
from hopscope.bpf.ring import BpfRing
from hopscope.capture.errors import CaptureError
from hopscope.detect.detector import Detector
from hopscope.detect.records import EVENT, POOL_HOPS, WAYS
from hopscope.settings.detect import DetectSettings
from hopscope.settings.listen import ListenSettings
from hopscope.wire.decode.decoder import Decoder
from hopscope.wire.dialect import DEFAULT, Dialect
from hopscope.wire.encode.encoder import encode_reports, mapped_v4, new_hops, new_reports
from hopscope.wire.records import FRAME, Flag, FrameBatch, Link, Records, ReportBatch

SETTINGS = DetectSettings.model_validate(
    {
        "flow_rows": 64,
        "ports": 1024,
        "sources": 64,
        "thresholds": {
            "hop_latency": {"change": 200, "raise_above": 3500},
            "flow_latency": {"change": 900},
            "queue_occupancy": {"change": 60, "raise_above": 400, "clear_below": 100},
            "buffer_occupancy": {"change": 100},
        },
    }
)
"""Limits that made reports cross now and then, with and without hysteresis."""


INT_PORT = 5500
"""A UDP port that announces INT, in ON_PORT."""
ON_PORT = replace(DEFAULT, int_ports=(INT_PORT,))
_SHIM_AT = 42 + 20 + 14 + 20 + 8
"""After the headers of a Report 2.0, and of its packet."""


def built(tool: Callable[..., str]) -> None:
    """The programs, compiled from their sources as they are; skips without clang or permission to load."""
    targets = [PROGRAMS / source.with_suffix(".o").name for source in PROGRAMS.rglob("*.bpf.c")]
    newest = max(path.stat().st_mtime for path in PROGRAMS.rglob("*.[ch]"))
    if not all(target.exists() and target.stat().st_mtime > newest for target in targets):
        tool("clang")
        with suppress(BuildError):
            compile_programs()
    if problem := _problem():
        pytest.skip(problem)


@cache
def _problem() -> str:
    """Why this process cannot load the program; empty: it can."""
    try:
        XdpProgram(ListenSettings(kind="xdp", interface="lo")).close()
    except CaptureError as error:
        return str(error)
    return ""


def traffic(
    seed: int, count: int, version: int = 20, flows: int = 40, *, on_port: bool = False
) -> list[bytes]:
    """Ethernet frames with reports of a few sources, most of them within the limits: paths, values and
    sequence numbers change now and then, some are of drops and of congested queues. `on_port`: INT is
    announced by INT_PORT, which half of the flows have instead of their own port (Report 2.0). Half of the
    packets are cut after their INT, as most switches do.
    """
    random = np.random.default_rng(seed)
    flow = random.integers(0, flows, count)
    lengths = np.where(flow % 10 == 9, 11 + flow // 2, 1 + flow % 9)  # up to 8 are in the flow's own row
    reports = new_reports(count, version)
    reports["src_lo"] = mapped_v4((0x0A000000 + flow).astype(np.uint32))
    reports["dst_lo"] = mapped_v4((0x0A010000 + flow).astype(np.uint32))
    six = (flow % 5 == 4) & (not on_port)
    reports["ip_version"] = np.where(six, 6, 4)
    reports["src_hi"] = reports["dst_hi"] = np.where(six, 0x20010DB8 << 32, 0)
    reports["inner_length"] = np.where(flow % 4 < 2, 1400, 0)
    reports["sport"], reports["dport"] = 1000 + flow, 2000
    reports["proto"] = np.where((flow % 2 == 1) & (not on_port), 6, 17)
    if on_port:
        reports["dport"] = INT_PORT
    flagged = random.random(count)
    reports["flags"] = np.where(
        flagged < 0.003, Flag.DROPPED, np.where(flagged < 0.01, Flag.CONGESTED | Flag.TRACKED, Flag.TRACKED)
    )
    source = flow % 3
    reports["source_lo"] = mapped_v4((0xC0000200 + source).astype(np.uint32))
    reports["node_id"], reports["hw_id"] = 100 + source, source
    reports["sequence"] = _numbers(random, source)
    reports["int_version"], reports["remaining_hops"] = max(version, 5), 8
    bitmap = {20: 0xF180, 10: 0xF100, 5: 0xF300}[version]
    bitmap |= version != 5
    reports["instructions"] = bitmap
    reports["hop_count"] = lengths
    reports["first_hop"] = np.cumsum(lengths) - lengths
    hops = new_hops(int(lengths.sum()), bitmap)
    of = np.repeat(np.arange(count), lengths)
    place = np.arange(len(hops)) - reports["first_hop"][of]
    moved = random.random(count) < 0.002
    hops["node_id"] = 10 + (flow[of] + place + moved[of]) % 12
    hops["egress_port"], hops["ingress_port"] = flow[of] % 4, 1
    hops["hop_latency"] = 1000 + random.integers(0, 15, len(hops)) + _rarely(random, len(hops), 3000)
    hops["queue_id"] = flow[of] % 2
    hops["queue_occupancy"] = 50 + random.integers(0, 3, len(hops)) + _rarely(random, len(hops), 500)
    hops["tx_utilization"] = 500 + random.integers(0, 5, len(hops))
    hops["buffer_id"], hops["buffer_occupancy"] = 1, 70 + _rarely(random, len(hops), 300)
    hops["congestion_queue_id"] = hops["queue_id"] ^ (random.random(len(hops)) < 0.001)
    hops["queue_congestion"] = 20 + _rarely(random, len(hops), 500)
    frames = frames_of(encode_reports(ReportBatch(reports, hops), dscp=0 if on_port else 0x17))
    if on_port:
        frames = [
            _with_own_port(frame) if number % 2 else frame for frame, number in zip(frames, flow, strict=True)
        ]
    return frames


def _with_own_port(frame: bytes) -> bytes:
    """A frame whose INT shim has the packet's own port (NPT 1 of INT 2.1, section 5.6.2)."""
    shim = _SHIM_AT
    assert frame[shim] == 0x10
    return frame[:shim] + b"\x14" + frame[shim + 1 : shim + 2] + (2000).to_bytes(2, "big") + frame[shim + 4 :]


def frames_of(batch: FrameBatch) -> list[bytes]:
    """Each frame of a batch."""
    return [
        batch.arena[start : start + length].tobytes()
        for start, length in zip(
            batch.frames["offset"].tolist(), batch.frames["length"].tolist(), strict=True
        )
    ]


def _rarely(random: np.random.Generator, count: int, most: int) -> npt.NDArray[np.int64]:
    return (random.random(count) < 0.004) * random.integers(0, most, count)


def _numbers(random: np.random.Generator, source: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Sequence numbers by source: most follow, some are missing, twice there, or late."""
    numbers = np.zeros(len(source), np.int64)
    last = dict.fromkeys(source.tolist(), 0)
    for i, (each, chance) in enumerate(zip(source.tolist(), random.random(len(source)), strict=True)):
        last[each] += 1 if chance < 0.99 else 5 if chance < 0.995 else 0
        numbers[i] = last[each] - (3 if chance > 0.998 and last[each] > 3 else 0)
    return numbers


def detected(
    frames: Sequence[bytes],
    settings: DetectSettings = SETTINGS,
    dialect: Dialect = DEFAULT,
    detector: Detector | None = None,
) -> tuple[Detector, Records]:
    """A detector that has seen these frames without the kernel, and its events; `detector`: it goes on."""
    detector, decoder = detector or Detector(settings, secret=b"x"), Decoder(dialect)
    events = [np.empty(0, EVENT)]
    for frame in frames:
        one = np.zeros(1, FRAME)
        one["length"] = one["wire_length"] = len(frame)
        one["link"] = Link.ETHERNET
        batch = FrameBatch(np.frombuffer(frame, np.uint8), one)
        events += [block.copy() for block in detector.update(decoder.decode(batch))]
    return detector, np.concatenate(events)


def loaded(settings: DetectSettings = SETTINGS) -> XdpProgram:
    """The program with the smallest ring, for several tests: the kernel takes a while to check it."""
    return XdpProgram(
        ListenSettings(kind="xdp", interface="lo", promiscuous=True, ring_bytes=1 << 20), settings
    )


def clear(program: XdpProgram, settings: DetectSettings = SETTINGS) -> None:
    """Its tables, variables and ring as they were when it was loaded."""
    sizes = {
        "near_flows": 4 * layout.near_flows(settings.flow_rows),
        "tags": settings.flow_rows * layout.TAGS.itemsize,
        "more_hops": settings.hop_pool * POOL_HOPS * layout.HOP.itemsize,
        "flows": settings.flow_rows * WAYS * layout.FLOW.itemsize,
        "ports": settings.ports * layout.PORT.itemsize,
        "sources": settings.sources * layout.SOURCE.itemsize,
        "roles": 1 << 16,
        ".bss": layout.CONTROL.itemsize + layout.MAX_PROCESSORS * layout.COUNTERS.itemsize,
    }
    for name, size in sizes.items():
        program.table(name, size, np.dtype(np.uint8))[:] = 0
    ring = BpfRing(settings.sources)
    ring.map(program.ring, program.ring_bytes)
    while ring.receive():
        pass


class Filtering:
    """A detector whose reports come through the filter of a program, which has seen nothing yet; frames are
    given by BPF_PROG_TEST_RUN.
    """

    def __init__(
        self, program: XdpProgram, settings: DetectSettings = SETTINGS, dialect: Dialect = DEFAULT
    ) -> None:
        self.detector = Detector(settings, secret=b"x")
        self.program = program
        self.ring = BpfRing(settings.sources)
        self.ring.map(self.program.ring, self.program.ring_bytes)
        self.filter = Filter(self.program, self.ring, self.detector, dialect)
        self._events = [np.empty(0, EVENT)]

    def give(self, frames: Sequence[bytes]) -> None:
        """Run the program on each."""
        for frame in frames:
            self.program.run(frame)

    def turn(self) -> int:
        """Detect what has come up; returns the datagrams."""
        batch = self.filter.receive()
        if batch is None:
            return 0
        self._events += [block.copy() for block in self.detector.update(self.filter.decode(batch))]
        return len(batch)

    def drain(self) -> None:
        """Detect all that has come up, and add what the program has counted."""
        while self.turn():
            pass
        self.filter.merge()

    @property
    def events(self) -> Records:
        """All events so far."""
        return np.concatenate(self._events)

    @property
    def filtered(self) -> int:
        """Datagrams that ended in the program."""
        return self.program.counts()[Count.FILTERED]


def differences(one: Detector, other: Detector) -> list[str]:
    """Where the tables of two detectors differ, beside times and what depends on them."""
    found = []
    for kind, name in (("flows", "flows"), ("flows", "hops"), ("ports", "ports"), ("sources", "sources")):
        left, right = one.tables[kind][name], other.tables[kind][name]
        for field in left.dtype.names or ():
            if not field.endswith("_ns") and field != "version":
                rows = np.flatnonzero((left[field] != right[field]).reshape(len(left), -1).any(axis=1))
                if len(rows):
                    row = rows[0]
                    found.append(f"{name}.{field}, row {row}: {left[field][row]}, {right[field][row]}")
    return found


def unlike(one: Records, other: Records) -> str:
    """The first event that differs, but for its time and its report's place in the batch; empty: all are
    alike.
    """
    one, other = one.copy(), other.copy()
    for name in ("time_ns", "sequence"):  # an event has the row of its report until it is numbered
        one[name] = other[name] = 0
    for row, (left, right) in enumerate(zip(one, other, strict=False)):
        if left.tobytes() != right.tobytes():
            return f"event {row}: {left}, {right}"
    return "" if len(one) == len(other) else f"{len(one)} events, {len(other)}"

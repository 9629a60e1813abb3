"""The filter of the XDP program: the same events, in the same order, as without the kernel."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from random import Random

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw

from hopscope.bpf import filter as filter_module
from hopscope.bpf.layout import FLOW, MAX_PAYLOAD, Count
from hopscope.bpf.program import XdpProgram
from hopscope.capture.errors import CaptureError
from hopscope.detect.counters import INDEX
from hopscope.detect.records import EVENT, INLINE_HOPS, WAYS, Kind, Metric
from hopscope.detect.thresholds import set_limits
from hopscope.settings.limits import ThresholdSettings
from hopscope.wire.records import Link
from support.packets import xdp_make
from support.packets.corpus import corpus
from support.packets.mutants import Mutator
from support.packets.xdp_make import (
    INT_PORT,
    ON_PORT,
    SETTINGS,
    Filtering,
    clear,
    detected,
    differences,
    frames_of,
    traffic,
    unlike,
)

pytestmark = pytest.mark.kernel
ALWAYS, NEVER = 0, 1 << 62
LATER = 1 << 61
"""A time, ns, at which every source has been silent for long."""
BROADCAST = "ff:ff:ff:ff:ff:ff"


def give(filtering: Filtering, frames: list[bytes], seed: int, most: int) -> None:
    """Run the program on all frames; the detector comes to its turn after at most `most`."""
    random = np.random.default_rng(seed)
    at = 0
    while at < len(frames):
        count = int(random.integers(1, most))
        filtering.give(frames[at : at + count])
        at += count
        filtering.turn()
    filtering.drain()


@pytest.mark.parametrize(
    ("version", "most", "tick_ns"),
    [
        (20, 2, NEVER),
        (20, 5, ALWAYS),  # some flows end with a drop, after reports that were counted in the kernel
        (20, 60, ALWAYS),
        (20, 700, NEVER),
        (20, 700, ALWAYS),
        (10, 2, NEVER),
        (10, 60, ALWAYS),
        (5, 2, NEVER),
        (5, 60, ALWAYS),
    ],
)
def test_same_events(
    filtering: Filtering, monkeypatch: pytest.MonkeyPatch, version: int, most: int, tick_ns: int
) -> None:
    """Events, tables and counters are those without the kernel, however many reports are on their way when
    one changes something, and whether its counts are merged at every turn or at the end; most reports end in
    the kernel, unless most are there before the first is read.
    """
    monkeypatch.setattr(filter_module, "TICK_NS", tick_ns)
    frames = traffic(seed=version + most, count=2500, version=version)
    plain, events = detected(frames)
    give(filtering, frames, seed=1, most=most)
    assert unlike(filtering.events, events) == ""
    assert differences(plain, filtering.detector) == []
    assert filtering.detector.counters[INDEX["values_total"]] == plain.counters[INDEX["values_total"]]
    for name in ("lost_reports", "duplicate_reports_total", "reordered_reports_total"):
        assert filtering.detector.counters[INDEX[name]] == plain.counters[INDEX[name]], name
    assert filtering.filtered > len(frames) // (2 if most < 100 else 20)
    kept = filtering.program.table("flows", SETTINGS.flow_rows * WAYS, FLOW)
    assert most > 100 or kept["packets"][kept["hop_count"] > INLINE_HOPS].sum() > 50


def test_int_on_a_port(program: XdpProgram) -> None:
    """INT that a UDP port announces is compared, too, and a flow has the port that it had before."""
    clear(program)
    filtering = Filtering(program, dialect=ON_PORT)
    frames = traffic(seed=8, count=2500, on_port=True)
    plain, events = detected(frames, dialect=ON_PORT)
    give(filtering, frames, seed=1, most=30)
    assert unlike(filtering.events, events) == ""
    assert differences(plain, filtering.detector) == []
    assert filtering.filtered > len(frames) // 2
    assert {2000, INT_PORT} == set(events["dport"][events["metric"] == Metric.FLOW_PATH].tolist())


def test_unusual_forms(filtering: Filtering) -> None:
    """Every form that the decoder reads, whole and damaged, between usual reports: the same events."""
    usual = traffic(seed=3, count=3000)
    mutants = Mutator([seed for seed in corpus() if seed.link == Link.ETHERNET])
    others = frames_of(mutants.exact()) + frames_of(mutants.block(0, 1000))
    others = [frame for frame in others if goes_up(filtering, frame)]
    random = np.random.default_rng(3)
    places = np.sort(random.integers(0, len(usual), len(others)))
    frames = list[bytes]()
    for place, frame in enumerate(usual):
        frames.append(frame)
        frames += [others[i] for i in np.flatnonzero(places == place)]
    plain, events = detected(frames)
    for frame in frames:
        filtering.give([frame])
        filtering.turn()
    filtering.drain()
    assert unlike(filtering.events, events) == ""
    assert differences(plain, filtering.detector) == []


def goes_up(filtering: Filtering, frame: bytes) -> bool:
    """Whether the program takes a frame for a report: without the filter, it sends it up."""
    before = filtering.program.counts()[Count.UNFILTERED]
    filtering.program.control["filter"] = 0
    with suppress(CaptureError):  # shorter than an Ethernet header
        filtering.program.run(frame)
    filtering.program.control["filter"] = 1
    taken = filtering.program.counts()[Count.UNFILTERED] > before
    while filtering.ring.receive():
        pass
    return taken


def test_every_datagram_is_counted(filtering: Filtering) -> None:
    """What was given = filtered + up by reason, and all that went up was received."""
    frames = traffic(seed=4, count=2000)
    received = 0
    for frame in frames:
        filtering.give([frame])
        received += filtering.turn()
    while count := filtering.turn():
        received += count
    counts = filtering.program.counts()
    assert sum(counts.values()) == len(frames)
    assert counts[Count.FILTERED] + received == len(frames)
    assert counts[Count.CHANGED]
    assert counts[Count.SEQUENCE]


def cut(frame: bytes) -> bytes:
    """A report that was cut within its INT: the program does not compare it."""
    report = Ether(frame)
    assert report[UDP].payload
    for layer in (IP, UDP):
        del report[layer].len
        del report[layer].chksum
    report[UDP].payload = Raw(bytes(report[UDP].payload)[:-4])
    return bytes(report)


def test_batches_of_unusual_reports(filtering: Filtering) -> None:
    """However many reports of a source are not compared, they come in one batch; one that ends early, since
    reports that were counted lie between two of them, says that more wait.
    """
    frames = traffic(seed=5, count=400, flows=1)
    give(filtering, frames[:200], seed=1, most=2)
    unusual = [cut(frame) for frame in frames[200:300]]
    filtering.give(unusual)
    assert (filtering.turn(), filtering.filter.following) == (len(unusual), False)
    filtering.give([cut(frames[300]), *frames[301:303], cut(frames[303])])
    assert (0 < filtering.turn() < 4, filtering.filter.following) == (True, True)
    filtering.drain()
    assert not filtering.filter.following


def test_full_ring(filtering: Filtering) -> None:
    """Without room in the ring, datagrams are lost and counted; the detector finds the gap."""
    size = filtering.program.ring_bytes
    frames = traffic(seed=5, count=1000, flows=1)
    filtering.program.control["filter"] = 0
    needed = size // (len(frames[0]) + 8)
    for _ in range(needed // len(frames) + 1):
        filtering.give(frames)
    counts = filtering.program.counts()
    assert counts[Count.RING_FULL]
    received = 0
    while count := filtering.turn():
        received += count
    assert received == counts[Count.UNFILTERED]
    assert received + counts[Count.RING_FULL] == len(frames) * (needed // len(frames) + 1)


def test_restart_after_silence(filtering: Filtering, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that was silent and begins its numbering again, and then loses two reports: as without the
    kernel.
    """
    plain, _ = detected([])
    numbers = [*range(50_000, 50_200), *range(300), *range(302, 400)]
    monkeypatch.setattr(xdp_make, "_numbers", lambda *_: np.array(numbers))
    frames = traffic(seed=9, count=len(numbers), flows=1)
    for part in (frames[:200], frames[200:]):
        give(filtering, part, seed=1, most=2)
        detected(part, detector=plain)
        for detector in (filtering.detector, plain):
            list(detector.tick(LATER))
        filtering.filter.merge()
    assert differences(plain, filtering.detector) == []
    (row,) = plain.tables["sources"]["sources"][plain.tables["sources"]["sources"]["bits"] != 0]
    assert (row["restarts"], row["lost"], row["highest"]) == (1, 2, 399)
    assert filtering.filtered > 400


def odd_numbers(chance: Random, count: int) -> list[int]:
    """Sequence numbers in runs; between them some are missing, late, double, far away, or begin again."""
    number, found = chance.choice([0, (1 << 22) - 80, 70_000]), list[int]()
    while len(found) < count:
        what = chance.random()
        if what < 0.4:
            number += chance.choice([2, 3, 70, 300])
            found.append(number)
        elif what < 0.7:
            found.append(number - chance.choice([0, 1, 5, 59, 64, 4000, 1 << 21]))
        elif what < 0.8:
            number = chance.choice([0, number - 5000, number + (1 << 21)])
            found.append(number)
        run = chance.randrange(1, 150)
        found += range(number + 1, number + 1 + run)
        number += run
    return [number % (1 << 22) for number in found[:count]]


def numbered(monkeypatch: pytest.MonkeyPatch, numbers: list[int]) -> list[bytes]:
    """Reports of one flow with these numbers."""
    monkeypatch.setattr(xdp_make, "_numbers", lambda *_: np.array(numbers))
    return traffic(seed=9, count=len(numbers), flows=1)


@pytest.mark.parametrize("start", [100, (1 << 22) - 90])
def test_late_numbers_when_it_begins(
    program: XdpProgram, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    """The first numbers that the program sees of a source may be late: it goes on from none of them."""
    numbers = [*range(64), 70, 65, 66, 67, 68, 69, *range(71, 300)]
    frames = numbered(monkeypatch, [(start + n) % (1 << 22) for n in numbers])
    clear(program)
    filtering = Filtering(program)
    give(filtering, frames[:64], 0, 70)
    filtering.turn()
    for frame in frames[64:]:
        filtering.give([frame])
        filtering.turn()
    filtering.drain()
    plain, _ = detected(frames)
    assert [line for line in differences(plain, filtering.detector) if "sources." in line] == []
    assert filtering.filtered > 100


@pytest.mark.parametrize("tick_ns", [ALWAYS, NEVER])
def test_any_numbering(program: XdpProgram, monkeypatch: pytest.MonkeyPatch, tick_ns: int) -> None:
    """Whatever the sequence numbers, however many reports are on their way, and with silence between: what
    is lost, late and double is as without the kernel.
    """
    monkeypatch.setattr(filter_module, "TICK_NS", tick_ns)
    for seed in range(20):
        chance = Random(seed)
        numbers = odd_numbers(chance, 600)
        monkeypatch.setattr(xdp_make, "_numbers", lambda *_, of=numbers: np.array(of))
        frames = traffic(seed=9, count=len(numbers), flows=1)
        clear(program)
        filtering, (plain, _) = Filtering(program), detected([])
        gaps, at, now = [np.empty(0, EVENT)], 0, LATER
        while at < len(frames):
            part = frames[at : at + chance.randrange(1, 60)]
            at += len(part)
            filtering.give(part)
            filtering.turn()
            gaps.append(detected(part, detector=plain)[1])
            if chance.random() < 0.1:
                filtering.drain()
                now += 10**11
                for detector in (filtering.detector, plain):
                    list(detector.tick(now))
                filtering.filter.merge()
        filtering.drain()
        found, expected = (
            [(int(e["value"]), int(e["previous"])) for e in events[events["kind"] == Kind.GAP]]
            for events in (filtering.events, np.concatenate(gaps))
        )
        assert found == expected, seed
        assert [line for line in differences(plain, filtering.detector) if "sources." in line] == [], seed


def test_limits_change_while_it_runs(filtering: Filtering) -> None:
    """After `hopscope limits` lowers T, a difference that was none is an event."""
    frames = traffic(seed=6, count=3000, flows=4)
    give(filtering, frames[:2000], seed=6, most=20)
    assert filtering.filtered
    before = Counter(filtering.events["kind"].tolist())[Kind.CHANGE]
    thresholds = {**SETTINGS.thresholds.model_dump(), "hop_latency": {"change": 1}}
    lowered = SETTINGS.model_copy(update={"thresholds": ThresholdSettings.model_validate(thresholds)})
    set_limits(filtering.detector.control, lowered.limits, "a test")
    give(filtering, frames[2000:], seed=7, most=20)
    assert Counter(filtering.events["kind"].tolist())[Kind.CHANGE] > before + 500


def test_the_filter_off(filtering: Filtering) -> None:
    """`filter` 0 sends everything up."""
    filtering.program.control["filter"] = 0
    frames = traffic(seed=7, count=10)
    filtering.give(frames)
    assert filtering.program.counts()[Count.UNFILTERED] == 10


def test_payloads_of_every_length(filtering: Filtering) -> None:
    """A payload goes up as it is: empty, short, in whole chunks or not, of a jumbo frame; without padding."""
    filtering.program.control["filter"] = 0
    random = np.random.default_rng(8)
    for length in [*range(600), 1400, 4000, MAX_PAYLOAD]:
        payload = random.bytes(length)
        headers = IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=7, dport=32766, chksum=0)
        filtering.give([bytes(Ether(dst=BROADCAST, src=BROADCAST) / headers / payload) + bytes(length % 3)])
        batch = filtering.ring.receive()
        assert batch is not None, length
        assert frames_of(batch) == [payload], length
    assert filtering.program.counts()[Count.UNFILTERED] == 603

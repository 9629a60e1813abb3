"""Dialects that are proposed for frames: crafted in each of them, of others, and of none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hopscope.capture.pcap.reader import PcapReader
from hopscope.settings.dialects import named
from hopscope.wire.craft.frames import craft
from hopscope.wire.craft.keys import CraftError
from hopscope.wire.decode.as_json import report_objects
from hopscope.wire.decode.evidence import MAX_FRAMES, REPORTS, Evidence, Proposal, decide
from hopscope.wire.decode.plain import decode_plain
from hopscope.wire.dialect import DIALECTS, Dialect
from hopscope.wire.records import FRAME, FrameBatch, Link
from support.packets.by_hand import ethernet, int_1_0, ipv4, udp
from support.packets.wire_cases import frame_batch

ALL = tuple(DIALECTS.values())
FORMS = (
    *((report, version, "md") for report, version in (("0.5", "0.5"), ("1.0", "1.0"), ("2.0", "2"))),
    ("1.0", "0.4", "md"),
    ("2.0", "2", "mx"),
)
"""(report version, INT version, mode)."""


def proposed(batch: FrameBatch, candidates: tuple[Dialect, ...] = ALL) -> Proposal:
    """What the frames speak for."""
    evidence = Evidence(candidates)
    evidence.add(batch)
    return evidence.propose()


def objects(
    dialect: Dialect, report: str, version: str, mode: str, source: str = "192.0.2.1", count: int = 10
) -> list[Any]:
    """Reports of paths over three nodes, a millisecond apart, as a network would send them."""
    found = []
    for at in range(count):
        hops: list[dict[str, Any]] = []
        for node in (1, 2, 3):
            ingress = 5_000_000 + at * 1_000_000 // dialect.clock.unit_ns + 100 * node
            spent = 20 + node
            hops.append({
                "node_id": node, "ingress_port": node, "egress_port": node + 1,
                "hop_latency": None if dialect.clock.latency == "timestamps" else spent,
                "queue_id": node, "queue_occupancy": 10 * node + at,
                "ingress_time": ingress, "egress_time": ingress + spent,
            })  # fmt: skip
        if mode == "mx":
            hops = hops[:1] if dialect.mx_record else []
        found.append({
            "packet": at, "time_ns": 10**18 + at * 1_000_000, "source": source,
            "report": {"version": report, "sequence": at},
            "flow": {"src": "10.0.0.1", "dst": "10.0.0.2", "proto": 17, "sport": 5000 + at, "dport": 4000},
            "int": {"version": version, "mode": mode}, "hops": hops,
        })  # fmt: skip
    return found


def hops_of(batch: FrameBatch, dialect: Dialect) -> list[Any]:
    """Flows and hops of all reports, and the refusals."""
    return [
        (one.get("flow"), one.get("hops"), one.get("error"))
        for one in report_objects(decode_plain(batch, dialect), batch, dialect)
    ]


@pytest.mark.parametrize("name", sorted(set(DIALECTS) - {"h3c", "cablelabs", "int-2015"}))
def test_what_is_proposed_reads_what_was_meant(name: str) -> None:
    """Frames crafted in a dialect are read by the proposed one as by their own: same flows, same hops."""
    dialect, done = DIALECTS[name], 0
    for form in FORMS:
        try:
            batch = craft(objects(dialect, *form), dialect)
        except CraftError:
            continue  # a dialect without this form
        meant = hops_of(batch, dialect)
        if any(hops is None or error for _, hops, error in meant):
            continue  # INT that only the whole packet tells
        found = proposed(batch)
        assert found.fits
        assert hops_of(batch, found.dialect) == meant, (form, found.lines)
        done += 1
    assert done or name in ("fabric-tna", "host-int", "scapy", "report-0.5")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("spec", ("2.0", "2", "md")),
        ("spec", ("1.0", "1.0", "md")),
        ("spec", ("0.5", "0.5", "md")),
        ("bmv2", ("2.0", "2", "md")),
        ("amlight", ("1.0", "1.0", "md")),
        ("laofan13", ("2.0", "2", "mx")),
        ("mandaryoshi-mx", ("2.0", "2", "mx")),
        ("mandaryoshi", ("2.0", "2", "md")),
        ("geant-0.4", ("1.0", "0.4", "md")),
        ("geant-dpdk", ("1.0", "1.0", "md")),
        ("elavinal", ("2.0", "2", "md")),
    ],
)
def test_what_only_one_dialect_is_like_is_proposed(name: str, form: tuple[str, str, str]) -> None:
    """Sizes, bits, units of time and missing latencies tell the dialect itself; the line has its name and
    facts.
    """
    found = proposed(craft(objects(DIALECTS[name], *form), DIALECTS[name]))
    assert found.dialect.name == name
    assert found.lines[0].startswith(f"dialect auto: {name}, which reads 10 reports with ")
    assert len(found.lines) == 2


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("spec:swapped", ("1.0", "1.0", "md")),
        ("spec:times-64", ("0.5", "0.5", "md")),
        ("spec:reversed:times-64", ("1.0", "1.0", "md")),
        ("spec:swapped", ("2.0", "2", "md")),
        ("spec:times-32", ("2.0", "2", "md")),
    ],
)
def test_a_layout_that_no_dialect_has_is_proposed(name: str, form: tuple[str, str, str]) -> None:
    """If no dialect brings hops, layouts are tried: what has the right hop size is proposed, by its name."""
    (dialect,) = named(name)
    found = proposed(craft(objects(dialect, *form), dialect))
    assert found.fits
    assert found.dialect == dialect
    assert found.lines[0].startswith(f"dialect auto: {name}, which reads 10 reports with 30 hops")


def test_int_that_nothing_explains_is_not_passed_over() -> None:
    """Packets whose lengths are those of INT, in no known layout: the lines say so, whatever ignores them."""
    telemetry = int_1_0(0x8000, [bytes(28)] * 2, 7)
    found = proposed(frame_batch([ethernet(ipv4(udp(telemetry), dscp=0x17))] * 5))
    assert (found.fits, found.found, found.dialect) == (False, True, DIALECTS["spec"])
    assert found.lines[0].endswith("rejects 5 (5 bad_hop_size)")


def test_the_specifications_win_where_all_are_alike() -> None:
    """Of dialects that read the same, the one that differs least from the specifications is proposed."""
    batch = craft(objects(DIALECTS["spec"], "2.0", "2", "md"))
    assert proposed(batch, (DIALECTS["report-2.0"], DIALECTS["spec"])).dialect.name == "spec"


def test_a_source_that_speaks_another_dialect_is_named() -> None:
    """A file is read with one dialect; the source whose reports another one reads is told, with its name."""
    mine = craft(objects(DIALECTS["spec"], "2.0", "2", "md", count=30))
    few = objects(DIALECTS["geant-0.4"], "1.0", "0.4", "md", "192.0.2.66")
    other = craft(few, DIALECTS["geant-0.4"])
    frames = np.concatenate([mine.frames, other.frames])
    frames["offset"][len(mine) :] += len(mine.arena)
    found = proposed(FrameBatch(np.concatenate([mine.arena, other.arena]), frames))
    assert found.dialect.name == "spec"
    (line,) = [line for line in found.lines if "192.0.2.66" in line]
    assert line.startswith("dialect auto: 192.0.2.66 speaks geant-0.4, and is read with spec all the same")


def test_when_nothing_fits_it_is_said() -> None:
    """Noise on a report port fits no dialect: the lines say so, and the specifications are followed."""
    batch = frame_batch([bytes([0xF0 + i]) * 80 for i in range(8)], Link.UDP_PAYLOAD)
    found = proposed(batch)
    assert not found.fits
    assert found.found
    assert found.dialect is DIALECTS["spec"]
    assert found.lines[0].startswith("dialect auto: nothing fits; best was ")
    assert found.lines[1] == "dialect auto: reading with spec"


def test_ordinary_traffic_proposes_nothing() -> None:
    """Frames that are no reports, and nothing at all, propose the specifications."""
    for frames in ([], [bytes(60)] * 5):
        found = proposed(frame_batch(frames))
        assert (found.dialect, found.fits, found.found) == (DIALECTS["spec"], False, False)
        assert found.lines == [f"dialect auto: spec: no report and no INT in the first {len(frames)} packets"]


def test_what_the_capture_cut_speaks_against_nobody() -> None:
    """Reports that the snap length cut are no evidence: the whole ones decide."""
    batch = craft(objects(DIALECTS["spec"], "2.0", "2", "md"))
    batch.frames["length"][2:] -= 40
    found = proposed(batch)
    assert found.dialect.name == "spec"
    assert found.fits


def test_only_the_first_reports_are_asked() -> None:
    """64 reports are enough, or a bounded number of other frames; all batches come back in order."""
    batch = craft(objects(DIALECTS["spec"], "2.0", "2", "md"))
    batches = [FrameBatch(batch.arena, batch.frames, at) for at in range(9)]
    left = iter(batches)
    found, again = decide(left, ALL)
    assert found.dialect.name == "spec"
    assert len(list(left)) == 9 - -(-REPORTS // 10)
    left = iter(batches)
    _, again = decide(left, ALL)
    assert [one.first_packet for one in again] == list(range(9))
    evidence = Evidence(ALL)
    frames = np.zeros(MAX_FRAMES, FRAME)
    frames["length"], frames["link"] = 20, Link.ETHERNET
    evidence.add(FrameBatch(np.zeros(20, np.uint8), frames))
    assert evidence.enough


def test_every_frame_may_be_hostile() -> None:
    """Crafted frames with any byte changed are proposed something, without a crash."""
    batch = craft(objects(DIALECTS["spec"], "2.0", "2", "md")[:1])
    raw = batch.arena.tobytes()
    for at in range(0, len(raw), 5):
        damaged = raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]
        assert proposed(frame_batch([damaged, raw[:at]])).dialect in ALL


@pytest.mark.shared
@pytest.mark.parametrize(
    ("path", "packets", "name"),
    [
        ("report_0_5/src__test__resources__int_report.pcap", False, "spec"),
        ("report_2_0/bmv2_19_reports.pcapng", False, "bmv2"),
        ("report_0_5/e2e_v0_5.pcap", False, "intcollector"),
        ("report_1_0/e2e_v1_0.pcap", False, "intcollector"),
        ("report_1_0/generator_v1_0.pcap", False, "geant"),
        ("int_2_1/scapy_int_vectors_udp_tcp.pcap", True, "scapy"),
        ("dta/dta_generators.pcap", False, None),
        ("rocev2/rocev2_8_opcodes.pcap", True, None),
        ("traffic/tcpreplay_test.pcap", True, None),
        ("traffic/dpkt_http.pcap", True, None),
    ],
)
def test_shared_captures(shared: Path, path: str, packets: bool, name: str | None) -> None:
    """Captures of others are read in the dialect of those who made them; ordinary traffic in none."""
    from hopscope.settings.dialects import Changes

    candidates = tuple(map(Changes(packets=packets).of, ALL))
    found, _ = decide(iter(PcapReader(shared / path)), candidates)
    assert found.fits == (name is not None), found.lines
    assert found.dialect.name == (name or "spec"), found.lines
